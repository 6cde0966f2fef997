// The vector words of the CPU kernels as plain functions, one row for each target, so that one test
// checks every target that this processor has.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "core/problem.hpp"
#include "core/tensor.hpp"
#include "cpu/engine.hpp"
#include "plan/plan.hpp"

namespace tessera::test {

enum class Bytes { kNone, kSome, kAll };  // of a scan: that are not 0

// What a packer answers for one key.
struct PackedKey {
  const float* k;                                   // [dim]
  std::function<const float*(std::int64_t)> panel;  // of v
};

struct Words {
  std::string name;
  std::int64_t lanes, strip, panel, key_tile, row_tiles, together;

  // x = f(x) for n numbers, in vectors.
  void (*exp2)(float* x, std::int64_t n);
  void (*tanh)(float* x, std::int64_t n);

  // s [key_tile][strip]; only the first `halves` vectors of a strip are written.
  void (*multiply_transposed)(int halves, float* s, const float* const* k, const float* q,
                              std::int64_t dim);
  // The first row of O tile `tile`; the end of the strip for tile == row_tiles.
  int (*row_tile_begin)(int tile);
  struct Values {
    const float* v;
    std::int64_t stride, keys;
  };
  void (*accumulate)(int tile, float* o, const float* alpha, const float* p, const Values& values);
  // to[lane] = x[lane] where low <= lane <= high, else -inf, for a strip.
  void (*hide_outside)(float* to, const float* x, float low, float high);

  void (*load)(float* to, const core::Tensor& t, void* at, std::int64_t n);
  void (*store)(const core::Tensor& t, void* at, const float* from, std::int64_t n);
  void (*transpose_rows)(float* to, const float* rows, std::int64_t stride, std::int64_t n);

  Bytes (*scan_bytes)(const std::uint8_t* from, std::int64_t stride, std::int64_t n);
  std::vector<core::Range> (*find_runs)(int halves, const float* s, core::Range keys);
  // What the boolean mask says of a block of head (b * heads + h).
  Bytes (*scan)(const core::Problem& p, std::int64_t head, core::Range rows, core::Range keys);
  // s [keys][strip] as Modifiers leave it.
  void (*modify)(const core::Problem& p, std::int64_t head, core::Range rows, core::Range keys,
                 float* s);

  // Asks one packer for the blocks of these keys in turn and shows each key of each.
  struct Wanted {
    std::int64_t batch, kv_head;
    core::Range keys;
  };
  using Visit = std::function<void(const Wanted&, std::int64_t key, const PackedKey&)>;
  void (*pack)(const core::Problem& p, plan::Packing packing, const std::vector<Wanted>& wanted,
               const Visit& visit);
};

// Every target of this compiler. words_test.cpp fills it.
std::vector<Words>& all_words();

// Those of this processor.
inline std::vector<Words> present_words() {
  std::vector<Words> present;
  for (const cpu::TargetInfo& target : cpu::targets())
    for (const Words& words : all_words())
      if (target.present && target.name == words.name) present.push_back(words);
  return present;
}

// A test for each target of this processor.
class OnEveryTarget : public testing::TestWithParam<Words> {
 protected:
  const Words& w = GetParam();
};

inline std::string target_name(const testing::TestParamInfo<Words>& info) {
  return info.param.name;
}

// How GoogleTest shows a parameter.
inline void PrintTo(const Words& words, std::ostream* out) { *out << words.name; }

}  // namespace tessera::test
