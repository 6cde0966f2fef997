#include "support/naive.hpp"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

namespace tessera::test {

namespace {

// Sums run along contiguous float32 rows, so that the yardstick does not take longer than the test.
struct Rows {
  std::int64_t width;
  std::vector<float> x;

  Rows(const Array& a, std::int64_t b, std::int64_t h) : width(a.shape()[3]) {
    for (std::int64_t i = 0; i < a.shape()[1]; ++i)
      for (std::int64_t d = 0; d < width; ++d) x.push_back(float(a.at(b, i, h, d)));
  }
  const float* operator[](std::int64_t i) const { return x.data() + i * width; }
};

float rounded(DType dtype, float x) {
  std::byte element[sizeof(double)]{};
  core::store_element(dtype, element, double(x));
  return float(core::load_element(dtype, element));
}

float dot(const float* a, const float* b, std::int64_t n) {
  float sum = 0;
  for (std::int64_t d = 0; d < n; ++d) sum += a[d] * b[d];
  return sum;
}

// Steps 2 to 4 of the contract.
float adjusted(const Inputs& in, const Index4& at, float s) {
  const auto [b, h, i, j] = at;
  const Case& c = in.of;
  if (c.softcap != 0) s = c.softcap * std::tanh(s / c.softcap);
  const std::int64_t distance = std::abs(i + c.diagonal(b) - j);
  if (c.alibi) {
    const double slope = c.alibi_by_batch ? in.alibi.at(b, h) : in.alibi.at(h);
    s -= float(slope) * float(distance);
  }
  return in.bias.present() ? s + float(in.bias_at(at)) : s;
}

// One row of the matrix, made into weights; hidden keys weigh 0.
void softmax(std::vector<float>& s, float sink) {
  float m = sink, sum = 0;
  for (const float x : s) m = std::max(m, x);
  const float base = std::isinf(m) && m < 0 ? 0 : m;
  for (float& x : s) sum += x = std::exp(x - base);
  sum += std::exp(sink - base);
  for (float& x : s) x = sum == 0 ? 0 : x / sum;
}

void attend_row(const Inputs& in, const Rows& k, std::vector<float>& s, const Index4& at,
                const float* q) {
  const auto [b, h, i, unused] = at;
  const DType dtype = in.of.dtype;
  const float scale = std::isnan(in.of.scale) ? 1 / std::sqrt(float(in.of.dim)) : in.of.scale;
  for (std::int64_t j = 0; j < in.of.keys; ++j) {
    const float score = rounded(dtype, scale * dot(q, k[j], in.of.dim));
    s[std::size_t(j)] = in.sees(b, h, i, j) ? rounded(dtype, adjusted(in, {b, h, i, j}, score))
                                            : -std::numeric_limits<float>::infinity();
  }
  softmax(s, in.of.sink ? float(in.sink.at(h)) : -std::numeric_limits<float>::infinity());
  for (float& p : s) p = rounded(dtype, p);
}

void store_row(const Rows& v, const std::vector<float>& p, Array& out, const Index4& row) {
  std::vector<float> o(std::size_t(v.width), 0.f);
  for (std::size_t j = 0; j < p.size(); ++j)
    for (std::size_t d = 0; d < o.size(); ++d) o[d] += p[j] * v[std::int64_t(j)][d];
  for (std::size_t d = 0; d < o.size(); ++d)
    out.set({row[0], row[1], row[2], std::int64_t(d)}, double(o[d]));
}

void add(std::vector<float>& sums, float factor, const float* x) {
  for (std::size_t d = 0; d < sums.size(); ++d) sums[d] += factor * x[d];
}

void put(const std::vector<float>& x, float scale, Array& to, const Index4& row) {
  for (std::size_t d = 0; d < x.size(); ++d)
    to.set({row[0], row[1], row[2], std::int64_t(d)}, double(scale * x[d]));
}

// dS of one row from its weights: P (dP - sum of P dP).
std::vector<float> d_scores(const std::vector<float>& p, const float* d_out, const Rows& v,
                            DType dtype) {
  std::vector<float> ds;
  float sum = 0;
  for (std::size_t j = 0; j < p.size(); ++j) {
    ds.push_back(rounded(dtype, dot(d_out, v[std::int64_t(j)], v.width)));
    sum += p[j] * ds[j];
  }
  for (std::size_t j = 0; j < p.size(); ++j) ds[j] = rounded(dtype, p[j] * (ds[j] - sum));
  return ds;
}

// The sums of one key head, of all rows that read it.
struct KeySums {
  std::vector<std::vector<float>> dk, dv;

  explicit KeySums(const Case& c)
      : dk(std::size_t(c.keys), std::vector<float>(std::size_t(c.dim))),
        dv(std::size_t(c.keys), std::vector<float>(std::size_t(c.value_dim))) {}
};

}  // namespace

StandardGradients standard_gradients(const Inputs& in, const Array& d_out) {
  const Case& c = in.of;
  const float scale = std::isnan(c.scale) ? 1 / std::sqrt(float(c.dim)) : c.scale;
  StandardGradients g{in.q, in.k, in.v};
  std::vector<float> p(std::size_t(c.keys));
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t kh = 0; kh < c.kv_heads; ++kh) {
      KeySums sums(c);
      const Rows k(in.k, b, kh), v(in.v, b, kh);
      for (std::int64_t h = kh * c.group(); h < (kh + 1) * c.group(); ++h) {
        const Rows q(in.q, b, h), from(d_out, b, h);
        for (std::int64_t i = 0; i < c.queries; ++i) {
          attend_row(in, k, p, {b, h, i, 0}, q[i]);
          const std::vector<float> ds = d_scores(p, from[i], v, c.dtype);
          std::vector<float> dq(std::size_t(c.dim));
          for (std::size_t j = 0; j < p.size(); ++j) {
            add(dq, ds[j], k[std::int64_t(j)]);
            add(sums.dk[j], ds[j], q[i]);
            add(sums.dv[j], p[j], from[i]);
          }
          put(dq, scale, g.dq, {b, i, h, 0});
        }
      }
      for (std::size_t j = 0; j < p.size(); ++j) {
        put(sums.dk[j], scale, g.dk, {b, std::int64_t(j), kh, 0});
        put(sums.dv[j], 1, g.dv, {b, std::int64_t(j), kh, 0});
      }
    }
  return g;
}

Array standard_attention(const Inputs& in) {
  const Case& c = in.of;
  Array out(c.dtype, {c.batch, c.queries, c.heads, c.value_dim});
  std::vector<float> s(std::size_t(c.keys));
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t h = 0; h < c.heads; ++h) {
      const Rows q(in.q, b, h), k(in.k, b, h / c.group()), v(in.v, b, h / c.group());
      for (std::int64_t i = 0; i < c.queries; ++i) {
        attend_row(in, k, s, {b, h, i, 0}, q[i]);
        store_row(v, s, out, {b, i, h, 0});
      }
    }
  return out;
}

}  // namespace tessera::test
