#include "tools/tessera/bench_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "tools/tessera/bench_memory.hpp"
#include "tools/tessera/bench_pairs.hpp"
#include "tools/tessera/call.hpp"
#include "tools/tessera/failure.hpp"
#include "tools/tessera/gpu.hpp"
#include "tools/tessera/gradients.hpp"

namespace tessera::tool {
namespace {

// A sample lasts at least so long, that the clock's resolution and the call's own jitter vanish.
constexpr double kSampleMs = 1;
constexpr int kMostRepeats = 10000;
// Before the first sample, so that one disturbed burst is not taken for the best.
constexpr int kFirstBursts = 3;

// The memory that all contenders read and write.
struct Arena {
  Inputs inputs;
  Results results;
  Upstream upstream;  // of the backward pass, as what follows
  Gradients gradients;
};

class Contender {
 public:
  Contender(const BenchCase& bench, const Arena& arena, std::uint32_t backend)
      : threads_(bench.options.threads), backward_(bench.pass == Pass::kBackward) {
    AttentionOptions options = bench.options;
    options.backend = backend;
    desc_ = describe(arena.inputs, options);
    desc_.out = to_c(arena.results.out.tensor);
    place(desc_);
    if (!backward_) return;
    desc_.lse = to_c(arena.results.lse.tensor);
    gradients_ = describe(arena.upstream, arena.gradients, desc_);
  }
  Contender(const Contender&) = delete;  // the description of the gradients points at the other
  Contender& operator=(const Contender&) = delete;

  // In a child, with a context of its own and the C++ library's allocator. A GPU works in memory of
  // its own, and the emulator of one keeps a history of each byte.
  std::optional<std::uint64_t> resident_bytes() const {
    if (on_gpu() || desc_.backend == TESSERA_BACKEND_EMULATOR) return std::nullopt;
    const int threads = threads_ > 0 ? threads_ : int(std::thread::hardware_concurrency());
    return resident_growth([this] { call(tool::make_context(threads_)); }, threads);
  }

  bool on_gpu() const { return desc_.backend == TESSERA_BACKEND_CUDA; }
  void make_context() {
    context_ = meter_.make_context(threads_);
    copies_ = std::make_unique<OnGpu>(desc_);  // once: what is measured is the call
  }
  const Context& context() const { return context_; }
  std::string plan() const {
    return backward_ ? plan_json(context_, gradients_) : plan_json(context_, desc_);
  }
  std::uint64_t extra_bytes() const { return meter_.most(); }

  // Two calls that do not count: the first takes memory and wakes threads, the second says how many
  // make a sample.
  void warm_up() {
    if (backward_) attend(tool::make_context(threads_));  // not memory of the backward pass
    call(context_);
    const double ms = timed(1);
    repeats = std::clamp(int(std::ceil(kSampleMs / ms)), 1, kMostRepeats);
  }

  double sample() { return timed(repeats); }

  int repeats = 1;
  std::vector<Sample> samples;

 private:
  void call(const Context& context) const {
    backward_ ? differentiate(context, gradients_) : attend(context);
  }

  void attend(const Context& context) const {
    tessera_error error = tessera_error_default();
    check(tessera_attention(context.get(), &desc_, &error), error);
  }

  double timed(int calls) const {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call(context_);
    copies_->wait();
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - begin;
    return ms.count() / calls;
  }

  int threads_;
  bool backward_;
  tessera_attention_desc desc_;
  tessera_attention_backward_desc gradients_;
  MemoryMeter meter_;
  Context context_;
  std::unique_ptr<OnGpu> copies_;
};

using Contenders = std::vector<std::unique_ptr<Contender>>;

// The same elements on large pages, with the rows of one head together: [B, H, L, D] in memory.
Array heads_first(const Array& array) {
  const auto& [b, l, h, d] = array.tensor.shape;
  const core::DType dtype = array.tensor.dtype;
  const auto bytes = std::size_t(count(array.tensor) * core::size_of(dtype));
  Array copy = view_of(huge_pages(std::max<std::size_t>(bytes, 1)), dtype, array.shape());
  copy.tensor.stride = {l * h * d, d, l * d, 1};
  const auto size = std::size_t(core::size_of(dtype));
  for_each_index(array.tensor.shape, [&](const core::Index4& i) {
    std::memcpy(copy.tensor.at(i[0], i[1], i[2], i[3]), array.tensor.at(i[0], i[1], i[2], i[3]),
                size);
  });
  return copy;
}

// Keys and values as those who decode keep them.
void make_cache(Inputs& inputs, const AttentionOptions& options) {
  const core::Problem problem = outline(inputs, options);
  for (std::int64_t b = 0; b < problem.batch; ++b)
    if (const std::int64_t queries = problem.sequence(b).queries; queries > 1)
      refuse(
          fmt::format("--pass decode measures one query of each sequence, and sequence {} has {}; "
                      "give --shape B,1,Lk,H,Hk,D,Dv, or --pass forward",
                      b, queries));
  for (Array* array : {&inputs.k, &inputs.v}) *array = heads_first(*array);
}

// Every page of what is written is there before anything is measured: arrays are made of zeros. The
// backward pass of a child reads out and lse as these zeros, the others what the call wrote.
Arena make_arena(const BenchCase& bench) {
  Arena arena{load_inputs(bench.source, bench.options), {}, {}, {}};
  arena.results = make_results(shape_of(arena.inputs), arena.inputs.q.tensor.dtype);
  if (bench.pass == Pass::kDecode) make_cache(arena.inputs, bench.options);
  if (bench.pass != Pass::kBackward) return arena;
  arena.upstream = random_upstream(arena.inputs, bench.source.seed, false);
  arena.gradients = make_gradients(arena.inputs);
  return arena;
}

// Turn by turn, so that what the machine does beside this meets all contenders alike; a burst
// between two samples is after the one and before the other.
template <class Meter>
void take_samples(const BenchCase& bench, Contenders& contenders, Meter& meter,
                  const std::function<void(int, int)>& progress) {
  const int all = bench.samples * int(contenders.size());
  int done = 0;
  double burst = 0;
  for (int i = 0; i < kFirstBursts; ++i) burst = meter.burst();
  for (int round = 0; round < bench.samples; ++round)
    for (auto& contender : contenders) {
      Sample sample{.before = burst};
      sample.ms = contender->sample();
      sample.after = burst = meter.burst();
      contender->samples.push_back(sample);
      progress(++done, all);
    }
}

std::vector<double> times_of(const std::vector<Sample>& samples) {
  std::vector<double> times;
  for (const Sample& s : samples) times.push_back(s.ms);
  return times;
}

void add_peak(Measurement& m, const std::vector<Sample>& samples, const Peak& peak) {
  const std::vector<double> accepted = accepted_times(samples, peak.best());
  m.accepted = int(accepted.size());
  m.ms_p50 = median(accepted.empty() ? times_of(samples) : accepted);
  m.peak = peak.name();
  m.peak_gflops = peak.best();
}

void add_reads(Measurement& m, const std::vector<Sample>& samples) {
  const std::vector<Sample> steady = steady_samples(samples);
  std::vector<double> shares, rates;
  for (const Sample& s : steady) {
    rates.push_back(std::max(s.before, s.after));
    shares.push_back(100 * m.bytes / s.ms * 1e-6 / rates.back());
  }
  m.accepted = int(steady.size());
  m.ms_p50 = median(times_of(steady));
  m.percent_of_read = median(shares);
  m.read_gbs = median(rates);
}

// What all passes tell.
Measurement summary(const Contender& contender) {
  const auto plan = nlohmann::json::parse(contender.plan());
  const auto context = nlohmann::json::parse(context_json(contender.context()));
  const std::vector<double> all = times_of(contender.samples);
  Measurement m;
  m.backend = plan.at("backend");
  m.target = plan.at("target");
  m.threads = context.at("threads");
  m.samples = int(all.size());
  m.repeats = contender.repeats;
  m.ms_min = *std::min_element(all.begin(), all.end());
  m.extra_bytes = contender.extra_bytes();
  return m;
}

}  // namespace

std::string_view pass_word(Pass pass) {
  if (pass == Pass::kDecode) return "decode";
  return pass == Pass::kBackward ? "backward" : "forward";
}

bool Measurement::memory_agrees() const {
  return !resident_bytes || *resident_bytes <= extra_bytes + kResidentSlack;
}

std::vector<double> accepted_times(const std::vector<Sample>& samples, double best_burst) {
  std::vector<double> times;
  for (const Sample& s : samples)
    if (std::min(s.before, s.after) >= kAcceptedShare * best_burst) times.push_back(s.ms);
  return times;
}

std::vector<Sample> steady_samples(const std::vector<Sample>& samples) {
  std::vector<Sample> steady;
  for (const Sample& s : samples)
    if (std::min(s.before, s.after) >= kAcceptedShare * std::max(s.before, s.after))
      steady.push_back(s);
  return steady.empty() ? samples : steady;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<Measurement> measure(const BenchCase& bench, Meters& meters,
                                 const std::function<void(int, int)>& progress) {
  const Arena arena = make_arena(bench);
  const core::DType dtype = arena.inputs.q.tensor.dtype;
  Contenders contenders;
  for (const std::uint32_t backend : bench.backends)
    contenders.push_back(std::make_unique<Contender>(bench, arena, backend));
  std::vector<std::optional<std::uint64_t>> resident;
  for (const auto& contender : contenders) resident.push_back(contender->resident_bytes());
  for (const auto& contender : contenders) {
    contender->make_context();
    contender->warm_up();
  }
  const auto context = nlohmann::json::parse(context_json(contenders.front()->context()));
  const int threads = context.at("threads");
  const bool decode = bench.pass == Pass::kDecode;
  if (decode && !meters.reads) meters.reads.emplace(threads);
  if (!decode && !meters.peak) meters.peak.emplace(dtype, threads);
  decode ? take_samples(bench, contenders, *meters.reads, progress)
         : take_samples(bench, contenders, *meters.peak, progress);
  std::vector<Measurement> measurements;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    Measurement m = summary(*contenders[i]);
    m.shape = shape_of(arena.inputs);
    m.dtype = dtype;
    m.pass = bench.pass;
    m.asked = bench.backends[i];
    m.flops = useful_flops(arena.inputs, bench.options, bench.pass == Pass::kBackward);
    if (decode) m.bytes = cache_bytes(arena.inputs, bench.options);
    decode ? add_reads(m, contenders[i]->samples)
           : add_peak(m, contenders[i]->samples, *meters.peak);
    if (contenders[i]->on_gpu()) m.peak.clear();  // that was measured of the CPU
    m.resident_bytes = resident[i];
    measurements.push_back(m);
  }
  return measurements;
}

}  // namespace tessera::tool
