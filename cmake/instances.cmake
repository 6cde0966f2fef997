# Kernels compiled ahead: src/cuda/instances.json in cubins and PTX, and the headers of src/device as
# text for those that NVRTC compiles. All of it is embedded in the library by .incbin.
#   TESSERA_CUDA=AUTO  cubins in release builds where nvcc is found; else NVRTC compiles on demand
#   TESSERA_CUDA=ON    cubins in any build; nvcc is required
set(embedded_dir ${PROJECT_BINARY_DIR}/embedded)
file(MAKE_DIRECTORY ${embedded_dir})
set(embedded_asm "" CACHE INTERNAL "")
set(embedded_files)

set(nvcc_wanted OFF)
if(TESSERA_CUDA STREQUAL "ON" OR (TESSERA_CUDA STREQUAL "AUTO" AND CMAKE_BUILD_TYPE STREQUAL "Release"))
  set(nvcc_wanted ON)
endif()
find_program(TESSERA_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES bin
  DOC "nvcc, which compiles kernels ahead; it needs no GPU")
if(TESSERA_CUDA STREQUAL "ON" AND NOT TESSERA_NVCC)
  message(FATAL_ERROR "TESSERA_CUDA is ON but there is no nvcc. Put it on PATH, name it in "
    "TESSERA_NVCC, or set TESSERA_CUDA to AUTO: kernels are then compiled by NVRTC when they are "
    "first called.")
endif()

# tessera_embed(<file>): adds its bytes and a 0; sets <symbol> to the name of their place.
function(tessera_embed file symbol)
  list(LENGTH embedded_files n)
  set(name tessera_embedded_${n})
  string(APPEND embedded_asm ".globl ${name}, ${name}_end\n.hidden ${name}, ${name}_end\n"
    ".balign 64\n${name}:\n.incbin \"${file}\"\n${name}_end:\n.byte 0\n")
  set(embedded_asm "${embedded_asm}" PARENT_SCOPE)
  set(embedded_files ${embedded_files} ${file} PARENT_SCOPE)
  set(${symbol} ${name} PARENT_SCOPE)
endfunction()

# --- Kernels -----------------------------------------------------------------------------------

set(instances_file ${PROJECT_SOURCE_DIR}/src/cuda/instances.json)
set(entry_file ${PROJECT_SOURCE_DIR}/src/device/entry.cu.in)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${instances_file} ${entry_file})
file(READ ${instances_file} instances)
set(image_rows)
set(element_float16 Float16)
set(element_bfloat16 Bfloat16)
set(element_float32 float)
set(weighing_band kBand)
set(weighing_pairs kPairs)
set(weighing_rounded kRounded)
set(weighing_exact kExact)
set(weighing_words kFloat32)

# The elements of an array of the JSON file, as a list.
function(tessera_json_list list)
  set(all)
  string(JSON count LENGTH "${instances}" ${ARGN})
  math(EXPR last "${count} - 1")
  if(count GREATER 0)
  foreach(i RANGE ${last})
    string(JSON one GET "${instances}" ${ARGN} ${i})
    list(APPEND all ${one})
  endforeach()
  endif()
  set(${list} ${all} PARENT_SCOPE)
endfunction()

# One unit: the entry NAME for `code`, sm_90 or compute_80. What ptxas said, the seconds and the
# memory are written beside it.
function(tessera_compile_kernel source code output)
  set(format cubin)
  if(code MATCHES "^compute")
    set(format ptx)
  endif()
  cmake_path(GET source STEM name)
  set(to ${embedded_dir}/${name}.${code}.${format})
  add_custom_command(OUTPUT ${to} ${to}.json
    COMMAND Python3::Interpreter -B ${PROJECT_SOURCE_DIR}/scripts/compile_kernel.py
      --report ${to}.json -- ${TESSERA_NVCC} -std=c++20 -arch=${code} -${format} -Xptxas -v
      -I${PROJECT_BINARY_DIR}/world/device -I${PROJECT_BINARY_DIR}/view/cuda
      -MD -MF ${to}.d -o ${to} ${source}
    DEPENDS ${source} ${PROJECT_SOURCE_DIR}/scripts/compile_kernel.py DEPFILE ${to}.d
    COMMENT "Compiling ${name} for ${code}" VERBATIM)
  set(${output} ${to} PARENT_SCOPE)
endfunction()

# The kernel NAME of DIM, dtype and weighing, for each of `codes`.
macro(tessera_kernel)
  set(NAME ${ARGV0})
  set(ELEMENT ${element_${dtype}})
  set(WEIGHING ${weighing_${weighing}})
  configure_file(${entry_file} ${embedded_dir}/${NAME}.cu @ONLY)
  foreach(code ${codes})
    tessera_compile_kernel(${embedded_dir}/${NAME}.cu ${code} file)
    tessera_embed(${file} symbol)
    string(REGEX MATCH "[0-9]+" arch ${code})
    set(is_ptx false)
    if(code MATCHES "^compute")
      set(is_ptx true)
    endif()
    list(APPEND image_rows "image(\"${NAME}\", ${arch}, ${is_ptx}, ${symbol}, ${symbol}_end)")
  endforeach()
endmacro()

if(nvcc_wanted AND TESSERA_NVCC)
  find_package(Python3 3.9 COMPONENTS Interpreter REQUIRED)
  string(JSON count LENGTH "${instances}" kernels)
  math(EXPR last "${count} - 1")
  foreach(i RANGE ${last})
    string(JSON direction GET "${instances}" kernels ${i} direction)
    string(JSON FAMILY GET "${instances}" kernels ${i} family)
    foreach(list weighings dtypes dims cubins ptx)
      tessera_json_list(${list} kernels ${i} ${list})
    endforeach()
    set(codes)
    foreach(arch ${cubins})
      list(APPEND codes sm_${arch})
    endforeach()
    foreach(arch ${ptx})
      list(APPEND codes compute_${arch})
    endforeach()
    foreach(weighing ${weighings})
      foreach(dtype ${dtypes})
        foreach(DIM ${dims})
          tessera_kernel(${direction}_sm${FAMILY}_${dtype}_d${DIM}_${weighing})
        endforeach()
      endforeach()
    endforeach()
  endforeach()
endif()
list(LENGTH image_rows image_count)

# --- Text --------------------------------------------------------------------------------------

file(GLOB_RECURSE device_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/device/*.cuh)
set(header_rows)
foreach(file ${device_headers})
  tessera_embed(${file} symbol)
  cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/src OUTPUT_VARIABLE name)
  string(REGEX REPLACE "^device/isa/" "isa/" name ${name})
  list(APPEND header_rows "{\"${name}\", text(${symbol}, ${symbol}_end)}")
endforeach()
tessera_embed(${entry_file} entry_symbol)

list(LENGTH embedded_files embedded_count)
math(EXPR last "${embedded_count} - 1")
set(declarations)
foreach(i RANGE ${last})
  string(APPEND declarations
    "extern \"C\" const char tessera_embedded_${i}[], tessera_embedded_${i}_end[];\n")
endforeach()
list(JOIN image_rows ",\n      " image_rows)
list(JOIN header_rows ",\n      " header_rows)
file(CONFIGURE OUTPUT ${embedded_dir}/embedded.S CONTENT
".section .rodata
@embedded_asm@
.section .note.GNU-stack,\"\",%progbits
" @ONLY)
configure_file(${PROJECT_SOURCE_DIR}/src/cuda/embedded.cpp.in ${embedded_dir}/embedded.cpp @ONLY)
set_source_files_properties(${embedded_dir}/embedded.S PROPERTIES OBJECT_DEPENDS "${embedded_files}")
message(STATUS "Kernels compiled ahead: ${image_count}")
