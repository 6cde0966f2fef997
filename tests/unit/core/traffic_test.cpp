// The model is held against loop nests that do compute attention on the machine of
// support/traffic_machine.hpp, which counts bytes and knows no formula.
#include "core/traffic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>

#include "core/error.hpp"
#include "support/traffic_machine.hpp"

namespace tessera::test {
namespace {

using core::Pass;
using core::TileSize;
using core::TrafficShape;

constexpr Int kNoCache = 0, kEndless = std::numeric_limits<Int>::max();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// c += a b^T, a b and a^T b, with the multiply-adds counted.
void add_a_bt(Memory& memory, Matrix& c, const Matrix& a, const Matrix& b) {
  for (Int i = 0; i < c.rows; ++i)
    for (Int j = 0; j < c.columns; ++j)
      for (Int d = 0; d < a.columns; ++d, memory.flops += 2) c(i, j) += a(i, d) * b(j, d);
}
void add_a_b(Memory& memory, Matrix& c, const Matrix& a, const Matrix& b) {
  for (Int i = 0; i < c.rows; ++i)
    for (Int j = 0; j < a.columns; ++j)
      for (Int d = 0; d < c.columns; ++d, memory.flops += 2) c(i, d) += a(i, j) * b(j, d);
}
void add_at_b(Memory& memory, Matrix& c, const Matrix& a, const Matrix& b) {
  for (Int i = 0; i < a.rows; ++i)
    for (Int j = 0; j < a.columns; ++j)
      for (Int d = 0; d < c.columns; ++d, memory.flops += 2) c(j, d) += a(i, j) * b(i, d);
}

// One head: inputs, results and what the forward pass leaves for the backward pass.
struct Head {
  TrafficShape shape;
  Matrix q, k, v, out, lse, p, d_out, delta, dq, dk, dv;

  explicit Head(const TrafficShape& s)
      : shape(s),
        q(s.queries, s.dim, s.element_bytes),
        k(s.keys, s.dim, s.element_bytes),
        v(s.keys, s.value_dim, s.element_bytes),
        out(s.queries, s.value_dim, s.element_bytes),
        lse(s.queries, 1, 4),
        p(s.queries, s.keys, s.element_bytes),
        d_out(out),
        delta(lse),
        dq(s.queries, s.dim, 4),
        dk(k),
        dv(v) {
    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    for (Matrix* m : {&q, &k, &v, &d_out})
      for (double& x : m->x) x = normal(random);
  }
};

void read_all(Memory& memory, const Matrix& m) {
  for (Int r = 0; r < m.rows; ++r) memory.read(m, r);
}
void write_all(Memory& memory, const Matrix& m) {
  for (Int r = 0; r < m.rows; ++r) memory.write(m, r);
}

// Each operator starts with an empty cache of any size, so an operand crosses once.
void end_operator(Memory& memory, const Matrix& result) {
  write_all(memory, result);
  memory.flush();
}

void standard_forward(Head& h, Memory& memory) {
  Matrix s(h.p.rows, h.p.columns, h.p.element_bytes);
  read_all(memory, h.q);
  read_all(memory, h.k);
  add_a_bt(memory, s, h.q, h.k);
  end_operator(memory, s);
  read_all(memory, s);
  for (Int i = 0; i < s.rows; ++i) {
    double l = 0;
    for (Int j = 0; j < s.columns; ++j) l += std::exp(s(i, j));
    for (Int j = 0; j < s.columns; ++j) h.p(i, j) = std::exp(s(i, j)) / l;
    h.lse(i, 0) = std::log(l);
  }
  end_operator(memory, h.p);
  read_all(memory, h.p);
  read_all(memory, h.v);
  add_a_b(memory, h.out, h.p, h.v);
  end_operator(memory, h.out);
}

void standard_backward(Head& h, Memory& memory) {
  Matrix dp(h.p.rows, h.p.columns, h.p.element_bytes), ds = dp, dq(h.q);
  std::fill(dq.x.begin(), dq.x.end(), 0.);
  for (const Matrix* m : {&h.p, &h.d_out}) read_all(memory, *m);
  add_at_b(memory, h.dv, h.p, h.d_out);
  end_operator(memory, h.dv);
  for (const Matrix* m : {&h.d_out, &h.v}) read_all(memory, *m);
  add_a_bt(memory, dp, h.d_out, h.v);
  end_operator(memory, dp);
  for (const Matrix* m : {&h.p, &dp}) read_all(memory, *m);
  for (Int i = 0; i < dp.rows; ++i) {
    double sum = 0;
    for (Int j = 0; j < dp.columns; ++j) sum += h.p(i, j) * dp(i, j);
    for (Int j = 0; j < dp.columns; ++j) ds(i, j) = h.p(i, j) * (dp(i, j) - sum);
  }
  end_operator(memory, ds);
  for (const Matrix* m : {&ds, &h.k}) read_all(memory, *m);
  add_a_b(memory, dq, ds, h.k);
  end_operator(memory, dq);
  for (const Matrix* m : {&ds, &h.q}) read_all(memory, *m);
  add_at_b(memory, h.dk, ds, h.q);
  end_operator(memory, h.dk);
  h.dq.x = dq.x;
}

// The online softmax of one tile: S becomes P in place, o and (m, l) are carried on.
void absorb(Tile& s, Tile& o, Tile& statistics) {
  for (Int i = 0; i < s.m.rows; ++i) {
    double m = statistics(i, 0);
    for (Int j = 0; j < s.m.columns; ++j) m = std::max(m, s(i, j));
    const double factor = std::exp(statistics(i, 0) - m);
    statistics(i, 0) = m;
    statistics(i, 1) *= factor;
    for (Int d = 0; d < o.m.columns; ++d) o(i, d) *= factor;
    for (Int j = 0; j < s.m.columns; ++j) statistics(i, 1) += s(i, j) = std::exp(s(i, j) - m);
  }
}

void finish(Tile& o, Tile& statistics) {
  for (Int i = 0; i < o.m.rows; ++i) {
    for (Int d = 0; d < o.m.columns; ++d) o(i, d) /= statistics(i, 1);
    statistics(i, 0) += std::log(statistics(i, 1));
  }
}

void tiled_forward(Head& h, Memory& memory, Fast& fast, TileSize tile) {
  const TrafficShape& shape = h.shape;
  for (Int i = 0; i < shape.queries; i += tile.queries) {
    const Int rows = std::min(tile.queries, shape.queries - i);
    Tile q(fast, rows, shape.dim, shape.element_bytes), o(fast, rows, shape.value_dim, 4);
    Tile statistics(fast, rows, 2, 4);
    q.load(memory, h.q, i);
    for (Int r = 0; r < rows; ++r) statistics(r, 0) = -kInfinite;
    for (Int j = 0; j < shape.keys; j += tile.keys) {
      const Int columns = std::min(tile.keys, shape.keys - j);
      Tile k(fast, columns, shape.dim, shape.element_bytes);
      Tile v(fast, columns, shape.value_dim, shape.element_bytes), s(fast, rows, columns, 4);
      k.load(memory, h.k, j);
      v.load(memory, h.v, j);
      add_a_bt(memory, s.m, q.m, k.m);
      absorb(s, o, statistics);
      add_a_b(memory, o.m, s.m, v.m);
    }
    finish(o, statistics);
    o.store(memory, h.out, i, shape.element_bytes);
    for (Int r = 0; r < rows; ++r) {
      h.lse(i + r, 0) = statistics(r, 0);
      memory.write(h.lse, i + r);
    }
  }
}

void compute_delta(Head& h, Memory& memory) {
  for (Int i = 0; i < h.out.rows; ++i) {
    memory.read(h.out, i);
    memory.read(h.d_out, i);
    for (Int d = 0; d < h.out.columns; ++d) h.delta(i, 0) += h.out(i, d) * h.d_out(i, d);
    memory.write(h.delta, i);
  }
  memory.flush();
}

// One tile of queries against one of keys: dQ through memory, dK and dV carried on.
struct BackwardKeys {
  bool first, last;
  Int tile_queries;
  Tile k, v, dk, dv;
  BackwardKeys(Fast& fast, const TrafficShape& s, TileSize tile, Int j)
      : BackwardKeys(fast, s, tile, j, std::min(tile.keys, s.keys - j)) {}

 private:
  BackwardKeys(Fast& fast, const TrafficShape& s, TileSize tile, Int j, Int columns)
      : first(j == 0),
        last(j + columns == s.keys),
        tile_queries(tile.queries),
        k(fast, columns, s.dim, s.element_bytes),
        v(fast, columns, s.value_dim, s.element_bytes),
        dk(fast, columns, s.dim, 4),
        dv(fast, columns, s.value_dim, 4) {}
};

void backward_tile(Head& h, Memory& memory, Fast& fast, BackwardKeys& keys, Int i) {
  const TrafficShape& shape = h.shape;
  const Int rows = std::min(keys.tile_queries, shape.queries - i);
  Tile q(fast, rows, shape.dim, shape.element_bytes), dq(fast, rows, shape.dim, 4);
  Tile d_out(fast, rows, shape.value_dim, shape.element_bytes), lse(fast, rows, 1, 4);
  Tile delta(fast, rows, 1, 4), p(fast, rows, keys.k.m.rows, 4), dp(fast, rows, keys.k.m.rows, 4);
  q.load(memory, h.q, i);
  d_out.load(memory, h.d_out, i);
  lse.load(memory, h.lse, i);
  delta.load(memory, h.delta, i);
  if (!keys.first) dq.load(memory, h.dq, i);
  add_a_bt(memory, p.m, q.m, keys.k.m);
  add_a_bt(memory, dp.m, d_out.m, keys.v.m);
  for (Int r = 0; r < rows; ++r)
    for (Int c = 0; c < p.m.columns; ++c) {
      p(r, c) = std::exp(p(r, c) - lse(r, 0));
      dp(r, c) = p(r, c) * (dp(r, c) - delta(r, 0));
    }
  add_at_b(memory, keys.dv.m, p.m, d_out.m);
  add_a_b(memory, dq.m, dp.m, keys.k.m);
  add_at_b(memory, keys.dk.m, dp.m, q.m);
  dq.store(memory, h.dq, i, keys.last ? shape.element_bytes : 4);
}

void tiled_backward(Head& h, Memory& memory, Fast& fast, TileSize tile) {
  const TrafficShape& shape = h.shape;
  compute_delta(h, memory);
  for (Int j = 0; j < shape.keys; j += tile.keys) {
    BackwardKeys keys(fast, shape, tile, j);
    keys.k.load(memory, h.k, j);
    keys.v.load(memory, h.v, j);
    for (Int i = 0; i < shape.queries; i += tile.queries) backward_tile(h, memory, fast, keys, i);
    keys.dk.store(memory, h.dk, j, shape.element_bytes);
    keys.dv.store(memory, h.dv, j, shape.element_bytes);
  }
}

double distance(const Matrix& a, const Matrix& b) {
  double most = 0;
  for (size_t i = 0; i < a.x.size(); ++i) most = std::max(most, std::abs(a.x[i] - b.x[i]));
  return most;
}

Head forward_by_operators(const TrafficShape& shape) {
  Head h(shape);
  Memory memory(kEndless);
  standard_forward(h, memory);
  return h;
}

// Counts of the tiled loop nest behind a cache, after a check that it computed attention.
struct Count {
  Int bytes, flops, fast_bytes;
};
Count run_tiled(const TrafficShape& shape, TileSize tile, Int cache) {
  Head expected = forward_by_operators(shape), h(shape);
  Memory memory(cache), unseen(kEndless);
  Fast fast;
  if (shape.pass == Pass::kForward) {
    tiled_forward(h, memory, fast, tile);
  } else {
    standard_backward(expected, unseen);
    h.out = expected.out;
    h.lse = expected.lse;
    tiled_backward(h, memory, fast, tile);
    EXPECT_LT(distance(h.dq, expected.dq), 1e-9);
    EXPECT_LT(distance(h.dk, expected.dk), 1e-9);
    EXPECT_LT(distance(h.dv, expected.dv), 1e-9);
  }
  EXPECT_LT(distance(h.out, expected.out), 1e-12);
  EXPECT_LT(distance(h.lse, expected.lse), 1e-12);
  return {memory.bytes(), memory.flops, fast.most};
}

// Odd sizes, so that last tiles are partial; dim and value_dim differ.
TrafficShape odd_shape(Pass pass, Int element_bytes) {
  return {.heads = 1,
          .queries = 37,
          .keys = 29,
          .dim = 5,
          .value_dim = 3,
          .element_bytes = element_bytes,
          .pass = pass};
}

class TrafficModel : public testing::TestWithParam<std::tuple<Pass, Int>> {
 protected:
  TrafficShape shape() const { return odd_shape(std::get<0>(GetParam()), std::get<1>(GetParam())); }
};

TEST_P(TrafficModel, StandardIsWhatTheOperatorsMove) {
  Head h = forward_by_operators(shape());
  Memory memory(kEndless);
  if (shape().pass == Pass::kForward) {
    h = Head(shape());
    standard_forward(h, memory);
  } else {
    standard_backward(h, memory);
  }
  const auto model = core::model_traffic(shape(), 4096);
  EXPECT_EQ(model.standard.bytes, memory.bytes());
  EXPECT_EQ(model.standard.flops, memory.flops);
}

TEST_P(TrafficModel, TiledIsWhatTheLoopNestMoves) {
  for (const TileSize tile : {TileSize{1, 1}, {4, 3}, {5, 29}, {37, 2}, {36, 28}, {37, 29}}) {
    const auto model = core::model_traffic(shape(), 4096, tile);
    const Count count = run_tiled(shape(), tile, kNoCache);
    EXPECT_EQ(model.tiled.bytes, count.bytes) << tile.queries << " x " << tile.keys;
    EXPECT_EQ(model.tiled.flops, count.flops) << tile.queries << " x " << tile.keys;
    EXPECT_EQ(model.tile_bytes, count.fast_bytes) << tile.queries << " x " << tile.keys;
  }
}

TEST_P(TrafficModel, ResidentIsWhatACacheOfThatSizeLeaves) {
  const TileSize tile{4, 3};
  const auto model = core::model_traffic(shape(), 4096, tile);
  // Beside what it keeps, the cache sees the rows of one outer tile pass.
  const Int passing = 8 * (shape().dim + shape().value_dim) * 4 + 64;
  EXPECT_EQ(model.resident.bytes, run_tiled(shape(), tile, model.resident_bytes + passing).bytes);
  // Half of it helps a cyclic sweep not at all.
  EXPECT_EQ(model.tiled.bytes, run_tiled(shape(), tile, model.resident_bytes / 2).bytes);
}

TEST_P(TrafficModel, HeadsMultiply) {
  TrafficShape many = shape();
  many.heads = 6;
  const auto one = core::model_traffic(shape(), 2048), six = core::model_traffic(many, 2048);
  EXPECT_EQ(six.standard.bytes, 6 * one.standard.bytes);
  EXPECT_EQ(six.tiled.bytes, 6 * one.tiled.bytes);
  EXPECT_EQ(six.resident.allocated, 6 * one.resident.allocated);
  EXPECT_EQ(six.resident_bytes, one.resident_bytes);
}

TEST_P(TrafficModel, ChosenTilesFitAndTheNextLargerOnesDoNot) {
  const TrafficShape s = shape();
  for (Int sram = 1; sram < 6000; sram += 7) {
    const TileSize tile = core::choose_tiles(s, sram);
    const bool forward = s.pass == Pass::kForward;
    const Int outer = forward ? tile.queries : tile.keys, most = forward ? s.queries : s.keys;
    if (outer > 0) {
      EXPECT_LE(core::tile_bytes(s, tile), sram);
    }
    if (outer == most) continue;
    const Int inner =
        std::min({outer + 1, std::max(s.dim, s.value_dim), forward ? s.keys : s.queries});
    const TileSize next = forward ? TileSize{outer + 1, inner} : TileSize{inner, outer + 1};
    EXPECT_GT(core::tile_bytes(s, next), sram);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TrafficModel,
                         testing::Combine(testing::Values(Pass::kForward, Pass::kBackward),
                                          testing::Values(Int{2}, Int{4})));

// Theta(N^2 d^2 / M): the ratio to the law stays within constants while N, d and M range over
// factors of 64, 8 and 16 - except where the linear terms or whole tiles rule.
TEST(TrafficLaw, TiledBytesAreProportionalToTheLaw) {
  for (const Int n : {4096, 16384, 262144})
    for (const Int d : {32, 64, 256})
      for (const Int sram : {Int{1} << 16, Int{1} << 18, Int{1} << 20}) {
        const TrafficShape s{.queries = n, .keys = n, .dim = d, .value_dim = d};
        const auto t = core::model_traffic(s, sram);
        const double linear = double(2 * n * d * s.element_bytes + 4 * n);
        const double ratio = (double(t.tiled.bytes) - linear) / t.law_bytes;
        EXPECT_GT(ratio, 3.5) << n << " " << d << " " << sram;
        EXPECT_LT(ratio, 11.) << n << " " << d << " " << sram;
      }
}

TEST(TrafficLaw, ForwardFlopsAreEqualAndBackwardOnesRecomputeScores) {
  TrafficShape s{.heads = 3, .queries = 128, .keys = 256, .dim = 64, .value_dim = 64};
  const auto forward = core::model_traffic(s, 1 << 17);
  EXPECT_EQ(forward.standard.flops, Int{4} * 3 * 128 * 256 * 64);
  EXPECT_EQ(forward.standard.flops, forward.tiled.flops);
  s.pass = Pass::kBackward;
  const auto backward = core::model_traffic(s, 1 << 17);
  EXPECT_EQ(backward.standard.flops, Int{8} * 3 * 128 * 256 * 64);
  EXPECT_EQ(backward.tiled.flops, Int{10} * 3 * 128 * 256 * 64);
}

TEST(TrafficLaw, AllocationGrowsWithTheSquareAndWithTheLength) {
  TrafficShape s{.queries = 1024, .keys = 1024};
  const auto small = core::model_traffic(s, 1 << 17);
  s.queries = s.keys = 4096;
  const auto large = core::model_traffic(s, 1 << 17);
  EXPECT_EQ(small.standard.allocated, Int{1024} * 1024 * 4);
  EXPECT_EQ(large.standard.allocated, 16 * small.standard.allocated);
  EXPECT_EQ(large.tiled.allocated, 4 * small.tiled.allocated);
}

TEST(TrafficLaw, TilesThatDoNotFitAreSaidNotToFit) {
  const TrafficShape s{.queries = 1024, .keys = 1024};
  EXPECT_TRUE(core::model_traffic(s, 1 << 17, TileSize{64, 64}).fits);
  EXPECT_FALSE(core::model_traffic(s, 1 << 17, TileSize{512, 512}).fits);
  const auto none = core::model_traffic(s, 256);  // not even one row of q, k and v
  EXPECT_FALSE(none.fits);
  EXPECT_EQ(none.tile, (TileSize{0, 0}));
  EXPECT_EQ(none.tiled.bytes, 0);
}

TEST(TrafficLaw, RefusesWhatItCannotCount) {
  EXPECT_THROW(core::model_traffic({.queries = 0}, 1 << 17), core::Error);
  EXPECT_THROW(core::model_traffic({}, 0), core::Error);
  EXPECT_THROW(core::model_traffic({.queries = Int{1} << 40, .keys = Int{1} << 40}, 1 << 17),
               core::Error);
}

}  // namespace
}  // namespace tessera::test
