# What the build needs from elsewhere: headers alone, so the library depends on none of it. What is
# missing is named in one sentence, with the names of Debian's packages.
set(missing)

# tessera_need(<package> <Debian's name> <what it is for>)
function(tessera_need package debian)
  find_package(${package} CONFIG QUIET)
  if(NOT ${package}_FOUND)
    set(missing ${missing} ${debian} PARENT_SCOPE)
  endif()
endfunction()

# The folder of a header; where a cross compiler does not look by itself, too.
function(tessera_need_header variable header debian)
  find_path(${variable} ${header} HINTS /usr/local/include /usr/include)
  if(NOT ${variable})
    set(missing ${missing} ${debian} PARENT_SCOPE)
  endif()
endfunction()

# hwy::hwy would add a run-time dependency on libhwy.
tessera_need_header(HWY_INCLUDE_DIR hwy/highway.h libhwy-dev)
if(NOT TESSERA_CUDA STREQUAL "OFF" AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
  tessera_need_header(XXHASH_INCLUDE_DIR xxhash.h libxxhash-dev)
endif()
# The library needs no more than that: it writes its JSON itself (docs/decisions/0010).
if(TESSERA_HEADERS_APART AND TESSERA_TESTS)
  tessera_need_header(FMT_INCLUDE_DIR fmt/format.h libfmt-dev)
  tessera_need_header(JSON_INCLUDE_DIR nlohmann/json.hpp nlohmann-json3-dev)
elseif(TESSERA_TOOLS OR TESSERA_TESTS)
  tessera_need(fmt libfmt-dev)
  tessera_need(nlohmann_json nlohmann-json3-dev)
endif()
if(TESSERA_TOOLS)
  tessera_need(CLI11 libcli11-dev)
endif()
if(TESSERA_TESTS AND TESSERA_HEADERS_APART)
  find_file(GTEST_SOURCE googletest/CMakeLists.txt HINTS /usr/src NO_DEFAULT_PATH)
  if(NOT GTEST_SOURCE)
    list(APPEND missing googletest)
  endif()
elseif(TESSERA_TESTS)
  tessera_need(GTest "libgtest-dev libgmock-dev")
endif()
if(TESSERA_BENCH)
  tessera_need(benchmark libbenchmark-dev)
endif()

if(missing)
  list(JOIN missing " " missing)
  message(FATAL_ERROR "Headers that the build needs were not found. On Debian and Ubuntu install "
    "them with\n  apt-get install ${missing}\nElsewhere install the packages of these projects; "
    "if they lie in a folder of their own, pass it in CMAKE_PREFIX_PATH.")
endif()

# A compiler for another system must not see /usr/include, where the headers of this system's C
# library lie too: it gets a folder with links to those alone that it needs.
if(TESSERA_HEADERS_APART)
  set(headers ${PROJECT_BINARY_DIR}/headers)
  file(MAKE_DIRECTORY ${headers})
  file(CREATE_LINK ${HWY_INCLUDE_DIR}/hwy ${headers}/hwy SYMBOLIC)
  if(TESSERA_TESTS)
    file(CREATE_LINK ${FMT_INCLUDE_DIR}/fmt ${headers}/fmt SYMBOLIC)
    file(CREATE_LINK ${JSON_INCLUDE_DIR}/nlohmann ${headers}/nlohmann SYMBOLIC)
  endif()
  set(HWY_INCLUDE_DIR ${headers})
  if(XXHASH_INCLUDE_DIR)
    file(CREATE_LINK ${XXHASH_INCLUDE_DIR}/xxhash.h ${headers}/xxhash.h SYMBOLIC)
    set(XXHASH_INCLUDE_DIR ${headers})
  endif()
  foreach(name fmt::fmt-header-only nlohmann_json::nlohmann_json)
    add_library(${name} INTERFACE IMPORTED)
    set_target_properties(${name} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${headers})
  endforeach()
  set_target_properties(fmt::fmt-header-only PROPERTIES
    INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY=1)
endif()

# GoogleTest for the other system, from its sources.
if(TESSERA_HEADERS_APART AND TESSERA_TESTS)
  cmake_path(GET GTEST_SOURCE PARENT_PATH gtest_folder)
  add_subdirectory(${gtest_folder} ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL SYSTEM)
endif()
