# Sanitizers, libFuzzer's counters and line coverage, as options of every target of ours.
if(TESSERA_SANITIZE)
  set(sanitize -fsanitize=${TESSERA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # Functions of libcuda and NVRTC are called through types of our own, which are not those of the
  # file that defines them. g++ does not know this check.
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang AND TESSERA_SANITIZE MATCHES undefined)
    list(APPEND sanitize -fno-sanitize=function)
  endif()
  target_compile_options(tessera_options INTERFACE ${sanitize})
  target_link_options(tessera_options INTERFACE ${sanitize})
endif()
if(TESSERA_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "TESSERA_FUZZ needs libFuzzer, which comes with clang; "
      "the compiler is ${CMAKE_CXX_COMPILER_ID} (use the preset fuzz)")
  endif()
  target_compile_options(tessera_options INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(tessera_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(TESSERA_COVERAGE)
  target_compile_options(tessera_options INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(tessera_options INTERFACE --coverage)
endif()
