# Code for GPUs, and the emulator that runs it. Kernels include their instructions as <isa/...>, and
# the include path decides the world: src/device/isa is PTX, src/emulator/isa the same in software.
foreach(world device emulator)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/world/${world})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${world}/isa
    ${PROJECT_BINARY_DIR}/world/${world}/isa SYMBOLIC)
endforeach()

# The emulator's fibers are written for one processor.
if(TESSERA_EMULATOR AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$" AND NOT WIN32 AND NOT APPLE)
  enable_language(ASM)
  file(GLOB emulator_sources CONFIGURE_DEPENDS src/emulator/*.cpp)
  tessera_room(emulator SOURCES ${emulator_sources} src/emulator/switch_x86_64.S)
  target_include_directories(emulator PRIVATE ${PROJECT_BINARY_DIR}/world/emulator)
  # Emulated threads are worth testing only if they are quick, in whatever build.
  target_compile_options(emulator PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O3>)
  list(APPEND rooms emulator)
endif()

# The host's side of GPUs opens the driver by dlopen, and is written for Linux.
if(NOT TESSERA_CUDA STREQUAL "OFF" AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
  enable_language(ASM)
  include(cmake/instances.cmake)
  file(GLOB cuda_sources CONFIGURE_DEPENDS src/cuda/*.cpp)
  tessera_room(cuda SOURCES ${cuda_sources} ${embedded_dir}/embedded.cpp ${embedded_dir}/embedded.S
    LINK ${CMAKE_DL_LIBS})
  target_include_directories(cuda SYSTEM PRIVATE ${XXHASH_INCLUDE_DIR})
  list(APPEND rooms cuda)
endif()

# Each part that may be left out has a file in its place that says so; these are not compiled.
set(no_gpu no_gpu)
set(no_emulator no_emulator)
if(NOT TARGET cuda)
  set(no_gpu gpu)
endif()
if(NOT TARGET emulator)
  set(no_emulator emulator)
endif()
