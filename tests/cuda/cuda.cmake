# The host's side of GPUs, tested without one: against a libcuda that is none.
if(NOT TARGET cuda)
  return()
endif()

set(fake_dir ${CMAKE_CURRENT_BINARY_DIR}/fake)
add_library(old_driver SHARED cuda/empty_library.cpp)
if(TARGET emulator)
  add_library(fake_driver SHARED cuda/fake_driver.cpp cuda/fake_compute.cpp
    $<TARGET_OBJECTS:emulator> $<TARGET_OBJECTS:plan> $<TARGET_OBJECTS:core>)
  target_include_directories(fake_driver PRIVATE ${PROJECT_BINARY_DIR}/world/emulator)
  target_compile_options(fake_driver PRIVATE -O3)
else()
  add_library(fake_driver SHARED cuda/fake_driver.cpp cuda/fake_idle.cpp)
endif()
foreach(library fake_driver old_driver)
  tessera_use_view(${library} tests)
  set_target_properties(${library} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${fake_dir})
endforeach()
# By this name a program finds it, if LD_LIBRARY_PATH names the folder.
set_target_properties(fake_driver PROPERTIES OUTPUT_NAME cuda SUFFIX .so.1)

tessera_test(unit_cuda unit unit/cuda/*_test.cpp)
add_dependencies(unit_cuda fake_driver old_driver)
set(slowed_by 1)
if(TESSERA_SANITIZE)
  set(slowed_by 3)
endif()
target_compile_definitions(unit_cuda PRIVATE FAKE_DRIVER="$<TARGET_FILE:fake_driver>"
  OLD_DRIVER="$<TARGET_FILE:old_driver>" TEST_ENVIRONMENT="${PROJECT_SOURCE_DIR}/.venv"
  SLOWED_BY=${slowed_by})

# What is compiled ahead and what is linked, read by Python's unittest.
set(cuda_python links)
if(image_count GREATER 0)
  list(APPEND cuda_python ahead)
endif()
foreach(name ${cuda_python})
  add_test(NAME cuda.${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    COMMAND Python3::Interpreter -B -m unittest discover -s tests/cuda -p ${name}_test.py)
  set_tests_properties(cuda.${name} PROPERTIES LABELS unit FAIL_REGULAR_EXPRESSION "Ran 0 tests"
    ENVIRONMENT "TESSERA_EMBEDDED=${embedded_dir};TESSERA_LIBRARY=$<TARGET_FILE:tessera>")
endforeach()
