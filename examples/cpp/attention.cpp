// Causal attention in C++, checked against a plain loop.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tessera/tessera.hpp>
#include <vector>

constexpr int kLength = 37, kHeads = 4, kDim = 16;
constexpr int kRow = kHeads * kDim;  // elements from one row of a sequence to the next

// out_i = sum_{j <= i} exp(s_ij) v_j / sum_{j <= i} exp(s_ij), one row of one head, in double.
static void plain_row(const float* q, const float* k, const float* v, int i, double* out) {
  double sum = 0;
  std::fill(out, out + kDim, 0.);
  for (int j = 0; j <= i; ++j) {
    double score = 0;
    for (int d = 0; d < kDim; ++d) score += double(q[i * kRow + d]) * double(k[j * kRow + d]);
    const double weight = std::exp(score / std::sqrt(double(kDim)));
    sum += weight;
    for (int d = 0; d < kDim; ++d) out[d] += weight * double(v[j * kRow + d]);
  }
  for (int d = 0; d < kDim; ++d) out[d] /= sum;
}

static std::vector<float> waves(float frequency) {
  std::vector<float> x(kLength * kRow);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(frequency * float(i));
  return x;
}

int main() try {
  std::vector<float> q = waves(0.7f), k = waves(1.3f), v = waves(2.1f), out(kLength * kRow);
  const auto tensor = [](std::vector<float>& x) {
    return tessera::Tensor(std::span(x), {1, kLength, kHeads, kDim});  // [B, L, H, D]
  };

  const tessera::Context context;
  tessera::attention(context, tensor(out), tensor(q), tensor(k), tensor(v),
                     {.mask = tessera::causal()});

  double worst = 0, row[kDim];
  for (int h = 0; h < kHeads; ++h)
    for (int i = 0; i < kLength; ++i) {
      const int head = h * kDim;
      const float* ours = out.data() + i * kRow + head;
      plain_row(q.data() + head, k.data() + head, v.data() + head, i, row);
      for (int d = 0; d < kDim; ++d) worst = std::max(worst, std::abs(row[d] - double(ours[d])));
    }
  std::printf("largest difference from a plain loop: %.1e\n", worst);
  return worst < 1e-6 ? 0 : 1;
} catch (const tessera::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
