# Kernels in software. Everything that runs in the emulator is compiled with -O3 in every build.
if(NOT TARGET emulator)
  return()
endif()

tessera_test(emulator_tests emulator emulator/*_test.cpp)
target_include_directories(emulator_tests PRIVATE ${PROJECT_BINARY_DIR}/world/emulator)
target_compile_options(emulator_tests PRIVATE -O3)

# The probes that silicon answers too (tests/gpu/isa_equivalence.sh), under two schedules.
file(GLOB probe_sources CONFIGURE_DEPENDS gpu/*.cpp)
list(FILTER probe_sources EXCLUDE REGEX "_test\\.cpp$")
add_executable(isa_equivalence ${probe_sources})
add_dependencies(tests isa_equivalence)
tessera_use_view(isa_equivalence gpu)
target_include_directories(isa_equivalence PRIVATE ${PROJECT_BINARY_DIR}/world/emulator)
target_compile_options(isa_equivalence PRIVATE -O3)
target_link_libraries(isa_equivalence PRIVATE $<TARGET_OBJECTS:emulator>
  $<TARGET_OBJECTS:plan> $<TARGET_OBJECTS:core>)
add_test(NAME emulator.isa_equivalence_alone COMMAND isa_equivalence --alone)
set_tests_properties(emulator.isa_equivalence_alone PROPERTIES LABELS emulator)

# Headers alone, ptxas' words, and bugs planted in the kernel: Python's unittest with a compiler.
find_program(TESSERA_NVCC nvcc DOC "nvcc, for tests that compile the kernels; they need no GPU")
set(sanitized "")
if(TESSERA_SANITIZE)
  set(sanitized " -fsanitize=${TESSERA_SANITIZE}")
endif()
foreach(name compile mutants)
  add_test(NAME emulator.${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    COMMAND Python3::Interpreter -B -m unittest discover -s tests/emulator -p ${name}_test.py)
  set_tests_properties(emulator.${name} PROPERTIES LABELS emulator PROCESSORS 2
    FAIL_REGULAR_EXPRESSION "Ran 0 tests" ENVIRONMENT_MODIFICATION
    "TESSERA_BUILD=set:${PROJECT_BINARY_DIR};TESSERA_CXX=set:${CMAKE_CXX_COMPILER}${sanitized}")
endforeach()
if(TESSERA_NVCC)
  set_property(TEST emulator.compile APPEND PROPERTY ENVIRONMENT_MODIFICATION
    "TESSERA_NVCC=set:${TESSERA_NVCC}")
endif()
# The mutants are linked with the emulator and the definition as they are.
add_library(mutant_base STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:emulator> $<TARGET_OBJECTS:plan>
  $<TARGET_OBJECTS:core>)
set_target_properties(mutant_base PROPERTIES LINKER_LANGUAGE CXX)
add_dependencies(tests mutant_base)
set_property(TEST emulator.mutants APPEND PROPERTY ENVIRONMENT_MODIFICATION
  "TESSERA_OBJECTS=set:$<TARGET_FILE:mutant_base>")
