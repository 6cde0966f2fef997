# Kernels in software. Everything that runs in the emulator is compiled with -O3 in every build.
if(NOT TARGET emulator)
  return()
endif()

tessera_test(emulator_tests emulator emulator/*_test.cpp)
target_include_directories(emulator_tests PRIVATE ${PROJECT_BINARY_DIR}/world/emulator)
target_compile_options(emulator_tests PRIVATE -O3)
