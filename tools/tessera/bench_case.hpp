// One case of the benchmark: contenders that make the same call, timed turn by turn.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/tessera/inputs.hpp"
#include "tools/tessera/peak.hpp"
#include "tools/tessera/read_rate.hpp"

namespace tessera::tool {

enum class Pass { kForward, kBackward, kDecode };

// "forward", "backward" or "decode".
std::string_view pass_word(Pass pass);

struct BenchCase {
  Source source;
  AttentionOptions options;
  std::vector<std::uint32_t> backends;  // options.backend first
  int samples = 15;
  Pass pass = Pass::kForward;
};

// The meters of the process: a first case makes those that it needs, and the next ones of the same
// type of elements go on with them, so that the best burst is that of the process.
struct Meters {
  std::optional<Peak> peak;       // forward and backward
  std::optional<ReadRate> reads;  // decode
};

struct Measurement {
  Shape shape;
  core::DType dtype = core::DType::kFloat32;
  Pass pass = Pass::kForward;
  std::uint32_t asked = TESSERA_BACKEND_AUTO;
  std::string backend, target;  // what ran
  int threads = 1;
  int samples = 0, accepted = 0;  // accepted: with both bursts near the best one (of the two)
  int repeats = 1;                // calls in a sample
  double flops = 0;               // of one call, useful ones
  double ms_min = 0, ms_p50 = 0;  // of one call: best of all, median of the accepted samples
  std::uint64_t extra_bytes = 0;  // counted by the allocator
  std::optional<std::uint64_t> resident_bytes;  // growth of a child's peak resident size
  std::string peak;                             // what the peak is of; empty: none is known
  double peak_gflops = 0;
  double bytes = 0;                          // decode: of keys and values, each read once
  double percent_of_read = 0, read_gbs = 0;  // medians of the accepted samples

  // GB/s of keys and values.
  double gbs() const { return bytes / ms_min * 1e-6; }
  double gflops() const { return flops / ms_min * 1e-6; }
  double percent_of_peak() const { return 100 * gflops() / peak_gflops; }
  // False if the child took more than the allocator saw, beyond the slack.
  bool memory_agrees() const;
};

// One measurement for each backend, in that order. `progress` is told samples done and in all.
std::vector<Measurement> measure(const BenchCase& bench, Meters& meters,
                                 const std::function<void(int, int)>& progress);

// A sample as it was timed: of one call, in ms, between the bursts before and after, in GFLOP/s or
// GB/s.
struct Sample {
  double ms = 0, before = 0, after = 0;
};
// Samples count where both bursts reach 93 % of the best: below it the clock or a neighbour took
// something from the sample too.
inline constexpr double kAcceptedShare = 0.93;
std::vector<double> accepted_times(const std::vector<Sample>& samples, double best_burst);
// The rate of reading changes by itself, for minutes, so a sample of decoding counts where the
// better one of its own bursts is not much better than the other: it did not change meanwhile. All
// of them where that is so of none.
std::vector<Sample> steady_samples(const std::vector<Sample>& samples);
// The upper of the two middle ones where their number is even. Not for empty ones.
double median(std::vector<double> values);

}  // namespace tessera::tool
