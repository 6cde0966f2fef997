# The house rules as tests of the label lint: `make lint`, or ctest -L lint.
find_package(Python3 3.9 COMPONENTS Interpreter REQUIRED)
set(scripts ${PROJECT_SOURCE_DIR}/scripts)

function(tessera_lint name)
  add_test(NAME lint.${name} COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(lint.${name} PROPERTIES LABELS lint)
endfunction()

tessera_lint(layers Python3::Interpreter -B ${scripts}/check_layers.py)
tessera_lint(style Python3::Interpreter -B ${scripts}/check_style.py)
tessera_lint(links Python3::Interpreter -B ${scripts}/check_links.py)
tessera_lint(symbols Python3::Interpreter -B ${scripts}/check_symbols.py $<TARGET_FILE:tessera>
  ${PROJECT_SOURCE_DIR}/tests/abi/symbols.txt)
tessera_lint(format bash ${scripts}/format.sh)
tessera_lint(wasm bash ${scripts}/check_wasm.sh ${PROJECT_SOURCE_DIR}/src/core
  ${PROJECT_BINARY_DIR}/view/core)
tessera_lint(targets bash ${scripts}/check_targets.sh ${PROJECT_SOURCE_DIR}/src/cpu/targets.cpp
  ${PROJECT_BINARY_DIR}/view/cpu ${HWY_INCLUDE_DIR})
tessera_lint(tidy Python3::Interpreter -B ${scripts}/run_tidy.py ${PROJECT_BINARY_DIR})
set_tests_properties(lint.tidy PROPERTIES PROCESSORS 2)

# Each check is itself checked: it must catch a planted offence and pass what is clean.
foreach(check Layers Scan Style Links Symbols Format Wasm Targets Tidy)
  string(TOLOWER ${check} name)
  tessera_lint(selftest.${name} Python3::Interpreter -B ${scripts}/test_checks.py ${check})
endforeach()
