# A toolchain: the clang of the Python package ziglang, which carries the C and C++ libraries of many
# systems. With a version of glibc in the target, the library loads on every system of that version
# or later. Used by scripts/wheel.sh:
#   TESSERA_TARGET      what zig calls the target, for example x86_64-linux-gnu.2.17
#   TESSERA_ZIG_PYTHON  a Python that has ziglang
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TESSERA_TARGET TESSERA_ZIG_PYTHON)

string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR "${TESSERA_TARGET}")
if(TESSERA_TARGET MATCHES "-linux-")
  set(CMAKE_SYSTEM_NAME Linux)
elseif(TESSERA_TARGET MATCHES "-macos")
  set(CMAKE_SYSTEM_NAME Darwin)
elseif(TESSERA_TARGET MATCHES "-windows-")
  set(CMAKE_SYSTEM_NAME Windows)
else()
  message(FATAL_ERROR "TESSERA_TARGET is '${TESSERA_TARGET}'; it must be a target of zig for "
    "Linux, macOS or Windows, such as x86_64-linux-gnu.2.17")
endif()

set(CMAKE_C_COMPILER ${TESSERA_ZIG_PYTHON} -m ziglang cc -target ${TESSERA_TARGET})
set(CMAKE_CXX_COMPILER ${TESSERA_ZIG_PYTHON} -m ziglang c++ -target ${TESSERA_TARGET})
set(CMAKE_ASM_COMPILER ${CMAKE_C_COMPILER})  # what CMake takes from C by itself lacks the arguments
set(CMAKE_CXX_ARCHIVE_CREATE "\"${TESSERA_ZIG_PYTHON}\" -m ziglang ar qcs <TARGET> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "")
set(CMAKE_CXX_COMPILER_LAUNCHER "")  # ccache would take Python for the compiler; zig has a cache
# zig compiles its C and C++ libraries as the program that they are for: without debugging
# information, and for CMake's tests of the compiler no others than for the library itself.
set(CMAKE_C_FLAGS_INIT "-g0 -O2")
set(CMAKE_CXX_FLAGS_INIT "-g0 -O2")
set(CMAKE_SHARED_LINKER_FLAGS_INIT -s)
set(TESSERA_HEADERS_APART ON)  # see cmake/dependencies.cmake
