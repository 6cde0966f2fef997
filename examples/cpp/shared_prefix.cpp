// Decoding with a shared prefix: 4 sequences over one prompt of 64 keys, each with 5 of its own.
// The prompt is read once for all of them: there they are 4 queries of one sequence.
#include <cmath>
#include <cstdio>
#include <tessera/cache.hpp>
#include <vector>

namespace {

constexpr std::int64_t kBatch = 4, kPrefix = 64, kOwn = 5, kKeys = kPrefix + kOwn;
constexpr std::int64_t kHeads = 2, kDim = 8, kRow = kHeads * kDim;

// Each sequence begins with the same prompt.
std::vector<float> cache(float frequency) {
  std::vector<float> x(kBatch * kKeys * kRow);
  for (std::int64_t i = 0; i < std::int64_t(x.size()); ++i) {
    const std::int64_t b = i / (kKeys * kRow), within = i % (kKeys * kRow);
    x[std::size_t(i)] = std::sin(frequency * float(within < kPrefix * kRow ? within : i + b));
  }
  return x;
}

// Keys [first, first + count) of the first `batch` sequences.
tessera::Tensor keys(std::vector<float>& x, std::int64_t batch, std::int64_t first,
                     std::int64_t count) {
  return {x.data() + first * kRow, {batch, count, kHeads, kDim}, {kKeys * kRow, kRow, kDim, 1}};
}

}  // namespace

int main() {
  const tessera::Context context;
  std::vector<float> q(kBatch * kRow), k = cache(1.3f), v = cache(2.1f);
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = std::sin(0.7f * float(i));
  std::vector<float> plain(q.size()), merged(q.size()), prefix(q.size()), own(q.size());
  std::vector<float> prefix_lse(kBatch * kHeads), own_lse(kBatch * kHeads);
  const auto rows = [](std::vector<float>& x) {  // one query of each sequence
    return tessera::Tensor(x.data(), {kBatch, 1, kHeads, kDim});
  };
  const auto folded = [](std::vector<float>& x) {  // as many queries of one sequence
    return tessera::Tensor(x.data(), {1, kBatch, kHeads, kDim});
  };
  tessera::attention(context, rows(plain), rows(q), keys(k, kBatch, 0, kKeys),
                     keys(v, kBatch, 0, kKeys));

  tessera::attention(context, folded(prefix), folded(q), keys(k, 1, 0, kPrefix),
                     keys(v, 1, 0, kPrefix), {.lse = {prefix_lse.data(), {1, kHeads, kBatch}}});
  const tessera::Tensor lse{own_lse.data(), {kBatch, kHeads, 1}};
  tessera::attention(context, rows(own), rows(q), keys(k, kBatch, kPrefix, kOwn),
                     keys(v, kBatch, kPrefix, kOwn), {.lse = lse});
  const tessera::Tensor unfolded{prefix_lse.data(), {kBatch, kHeads, 1}, {1, kBatch, 1}};
  const tessera::State states[] = {{rows(prefix), unfolded}, {rows(own), lse}};
  tessera::merge(context, {rows(merged)}, states);

  double worst = 0;
  for (std::size_t i = 0; i < merged.size(); ++i)
    worst = std::fmax(worst, std::fabs(double(merged[i]) - double(plain[i])));
  std::printf("largest difference from the plain call: %.1e\n", worst);
  return worst < 1e-6 ? 0 : 1;
}
