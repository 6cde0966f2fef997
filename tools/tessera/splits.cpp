#include "tools/tessera/splits.hpp"

#include <algorithm>
#include <vector>

#include "tools/tessera/bench_pairs.hpp"

namespace tessera::tool {
namespace {

// Where range n of `count` begins: the first ones have one key more where they do not come out
// even.
std::int64_t bound_of(core::Range keys, std::int64_t n, std::int64_t count) {
  const std::int64_t size = keys.size() / count, more = keys.size() % count;
  return keys.begin + n * size + std::min(n, more);
}

Results state_of(const Inputs& inputs) {
  return make_results(shape_of(inputs), core::DType::kFloat32);
}

void merge(const Context& context, const std::vector<Results>& parts, const Results& whole) {
  std::vector<tessera_state> states;
  for (const Results& part : parts)
    states.push_back({to_c(part.out.tensor), to_c(part.lse.tensor)});
  tessera_merge_desc desc = tessera_merge_desc_default();
  desc.states = states.data();
  desc.count = states.size();
  desc.out = to_c(whole.out.tensor);
  if (whole.lse.present()) desc.lse = to_c(whole.lse.tensor);
  tessera_error error = tessera_error_default();
  check(tessera_merge(context.get(), &desc, &error), error);
}

}  // namespace

Splits::Splits(const Inputs& inputs, const AttentionOptions& options)
    : count_(options.splits), whole_(describe(inputs, options)) {
  const core::Problem problem = outline(inputs, options);
  batch_ = problem.batch;
  std::vector<core::Sequence> sequences;
  for (std::int64_t b = 0; b < batch_; ++b) {
    sequences.push_back(problem.sequence(b));
    diagonals_.push_back(sequences.back().band.offset);
  }
  for (std::int64_t n = 0; n <= count_; ++n)
    for (const core::Sequence& s : sequences) bounds_.push_back(bound_of(s.keys, n, count_));
}

tessera_attention_desc Splits::part(std::int64_t n) {
  const auto list = [this](std::int64_t* first) {
    return tessera_tensor_dense(first, TESSERA_INT64, batch_, 1, 1, 1);
  };
  tessera_attention_desc desc = whole_;
  desc.kv_starts = list(bounds_.data() + n * batch_);
  desc.kv_lengths = list(bounds_.data() + (n + 1) * batch_);
  desc.align = TESSERA_ALIGN_OFFSETS;
  desc.offset = 0;
  desc.offsets = list(diagonals_.data());
  if (n > 0) desc.sink = desc.state_out = desc.state_lse = tessera_tensor_default();
  return desc;
}

void attend(const Context& context, const Inputs& inputs, const AttentionOptions& options,
            const Results& results) {
  if (options.splits == 0) return attend(context, describe(inputs, options), results);
  Splits splits(inputs, options);
  std::vector<Results> states;
  for (std::int64_t n = 0; n < splits.count(); ++n) {
    states.push_back(state_of(inputs));
    attend(context, splits.part(n), states.back());
  }
  merge(context, states, results);
}

std::string plan_json(const Context& context, const Inputs& inputs, const AttentionOptions& options,
                      const Results& results) {
  tessera_attention_desc desc = describe(inputs, options);
  desc.out = to_c(results.out.tensor);
  if (options.splits == 0) return plan_json(context, desc);
  Splits splits(inputs, options);
  const Results state = make_results(shape_of(inputs), core::DType::kFloat32, Fill::kOutlines);
  desc = splits.part(0);
  desc.out = to_c(state.out.tensor);
  desc.lse = to_c(state.lse.tensor);
  return plan_json(context, desc);
}

}  // namespace tessera::tool
