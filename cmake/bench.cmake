# Micro-benchmarks of the CPU: one program for each file of bench/cpu. A file may bring its own main.
find_package(benchmark CONFIG REQUIRED)
file(GLOB bench_sources CONFIGURE_DEPENDS bench/cpu/*.cpp)
foreach(source ${bench_sources})
  cmake_path(GET source STEM stem)
  add_executable(bench_${stem} ${source})
  tessera_use_view(bench_${stem} bench)
  target_link_libraries(bench_${stem} PRIVATE tessera_static benchmark::benchmark
    benchmark::benchmark_main)
endforeach()
# The meter of the command line.
target_sources(bench_decode PRIVATE tools/tessera/read_rate.cpp)
