# The tests of the Python package against the library of this build, one ctest for each file, and its
# checks; in the environment that scripts/setup.sh makes. A sanitizer would have to be loaded first.
if(NOT TESSERA_SANITIZE AND NOT TESSERA_COVERAGE)
  set(python_driver "")
  if(TARGET fake_driver AND TARGET emulator)
    set(python_driver ";TESSERA_FAKE_DRIVER=$<TARGET_FILE_DIR:fake_driver>")
  endif()
  file(GLOB python_tests CONFIGURE_DEPENDS tests/python/test_*.py)
  foreach(path ${python_tests})
    cmake_path(GET path STEM stem)
    string(REGEX REPLACE "^test_" "" name ${stem})
    add_test(NAME python.${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
      COMMAND sh scripts/python.sh -m pytest -q -p no:cacheprovider ${path})
    set_tests_properties(python.${name} PROPERTIES LABELS python
      ENVIRONMENT "TESSERA_LIBRARY=$<TARGET_FILE:tessera>${python_driver}")
  endforeach()
endif()

set(python sh ${PROJECT_SOURCE_DIR}/scripts/python.sh)
tessera_lint(ruff ${python} -m ruff check --no-cache)
tessera_lint(ruff_format ${python} -m ruff format --check --no-cache)
tessera_lint(mypy ${python} -m mypy --cache-dir ${PROJECT_BINARY_DIR}/mypy)
