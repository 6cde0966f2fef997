# Programs that need a GPU; without one their tests are skipped and say so.
if(TARGET cuda)
  tessera_test(gpu_tests gpu gpu/*_test.cpp)
endif()
