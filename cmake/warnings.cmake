# tessera_options: what every target of ours is compiled with. Nothing of it reaches a user.
add_library(tessera_options INTERFACE)
target_compile_options(tessera_options INTERFACE -Wall -Wextra -Wconversion -Wshadow
  $<$<BOOL:${TESSERA_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 warns inside std::string's operator+ (GCC bug 105651).
  target_compile_options(tessera_options INTERFACE -Wno-restrict)
endif()
if(WIN32)  # a DLL exports what says so; its users see tessera.h as it is
  target_compile_definitions(tessera_options INTERFACE "TESSERA_API=__declspec(dllexport)")
endif()
