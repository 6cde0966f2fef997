// Measurements as JSON lines and as tables.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "tools/tessera/bench_case.hpp"

namespace tessera::tool {

struct BenchLine {
  Measurement measured;
  std::string name;                     // "forward f32 1,2048,2048,8,8,64,64 causal"
  std::string command;                  // measures this line again
  std::optional<double> over_standard;  // time of standard attention in the same rounds / of this
};

BenchLine make_line(const BenchCase& bench, const Measurement& measured);

// One object without a line break.
std::string to_json(const BenchLine& line);

// "1.5 MiB".
std::string bytes_text(double bytes);

void print_bench_header(Pass pass);
void print_bench_line(const BenchLine& line);

// One length of a sweep: the call, and the same by standard attention where it was asked for.
struct SweepRow {
  Measurement tiled;
  std::optional<Measurement> standard;
};
void print_sweep_header(Pass pass, bool against_standard);
void print_sweep_row(const SweepRow& row);

// A sentence on standard error if the child's memory does not agree with the allocator's.
bool report_memory(const BenchLine& line);

}  // namespace tessera::tool
