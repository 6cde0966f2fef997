// The backward definition, and finite differences of the forward one.
#pragma once
#include "core/reference.hpp"
#include "support/reference_options.hpp"

namespace tessera::test {

// What arrives from above, and what is asked for.
struct Backward {
  Array d_out, d_lse;
  Array dq, dk, dv, d_bias, d_sink;

  core::Gradients gradients() const {
    return {d_out.tensor(), d_lse.tensor(),  dq.tensor(),    dk.tensor(),
            dv.tensor(),    d_bias.tensor(), d_sink.tensor()};
  }
};

// Every gradient of the call, in arrays that hold NaN until they are written.
inline Backward every_gradient(const Call& call, std::uint64_t seed) {
  Backward g;
  g.d_out = Array(DType::kFloat64, call.out.shape());
  g.d_lse = Array(DType::kFloat64, call.lse.shape());
  fill_with_normal(g.d_out, seed, 10);
  fill_with_normal(g.d_lse, seed, 11);
  g.dq = Array(DType::kFloat64, call.q.shape());
  g.dk = Array(DType::kFloat64, call.k.shape());
  g.dv = Array(DType::kFloat64, call.v.shape());
  if (call.bias.present()) g.d_bias = Array(DType::kFloat64, call.bias.shape());
  if (call.sink.present()) g.d_sink = Array(DType::kFloat64, call.sink.shape());
  return g;
}

// <out, d_out> + <lse, d_lse>; rows that are empty have no lse to move.
inline double loss(const Call& call, const Backward& g) {
  core::reference::forward(call.problem());
  double sum = 0;
  call.out.for_each([&](const Index4& i) {
    sum += call.out.at(i[0], i[1], i[2], i[3]) * g.d_out.at(i[0], i[1], i[2], i[3]);
  });
  if (!g.d_lse.present()) return sum;
  call.lse.for_each([&](const Index4& i) {
    const double lse = call.lse.at(i[0], i[1], i[2]);
    if (std::isfinite(lse)) sum += lse * g.d_lse.at(i[0], i[1], i[2]);
  });
  return sum;
}

// An input of a call and its gradient.
struct Operand {
  const char* name;
  Array Call::* value;
  Array Backward::* gradient;
};
inline constexpr Operand kOperands[] = {
    {"q", &Call::q, &Backward::dq},           {"k", &Call::k, &Backward::dk},
    {"v", &Call::v, &Backward::dv},           {"bias", &Call::bias, &Backward::d_bias},
    {"sink", &Call::sink, &Backward::d_sink},
};

inline constexpr double kStep = 1e-5;  // the error of a central difference is of its square

// d loss along `direction`, which has the shape of the operand.
inline double difference(Call call, const Backward& g, const Operand& operand,
                         const Array& direction) {
  const Array middle = call.*operand.value;
  const auto moved = [&](double step) {
    (call.*operand.value).fill([&](const Index4& i) {
      return middle.at(i[0], i[1], i[2], i[3]) + step * direction.at(i[0], i[1], i[2], i[3]);
    });
    return loss(call, g);
  };
  return (moved(kStep) - moved(-kStep)) / (2 * kStep);
}

inline double dot(const Array& a, const Array& b) {
  double sum = 0;
  a.for_each(
      [&](const Index4& i) { sum += a.at(i[0], i[1], i[2], i[3]) * b.at(i[0], i[1], i[2], i[3]); });
  return sum;
}

}  // namespace tessera::test
