# Micro-benchmarks: one program for each file of bench/cpu, and of bench/gpu, where its name has gpu_
# before it. A file may bring its own main.
find_package(benchmark CONFIG REQUIRED)
file(GLOB bench_sources CONFIGURE_DEPENDS bench/cpu/*.cpp bench/gpu/*.cpp)
if(NOT TARGET cuda)
  list(FILTER bench_sources EXCLUDE REGEX "/gpu/first_call\\.cpp$")
endif()
foreach(source ${bench_sources})
  cmake_path(GET source STEM stem)
  if(source MATCHES "/gpu/")
    string(PREPEND stem gpu_)
  endif()
  add_executable(bench_${stem} ${source})
  tessera_use_view(bench_${stem} bench)
  target_link_libraries(bench_${stem} PRIVATE tessera_static benchmark::benchmark
    benchmark::benchmark_main)
endforeach()
# The meter of the command line.
target_sources(bench_decode PRIVATE tools/tessera/read_rate.cpp)
