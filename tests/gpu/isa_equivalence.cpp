// Every word on random bits: what a GPU answers against what the emulator answers.
//   isa_equivalence [SEED]           prints for each word how many answers are equal
//   isa_equivalence --alone [SEED]   no GPU: the emulator under two schedules against itself
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "gpu/probe_kinds.hpp"
#include "gpu/run.hpp"

namespace tessera::gpu {
namespace {

constexpr int kRounds = 4;  // 1 alone
// 16 products below 4 and what they are added to, each rounded or cut off at 2^-22 of the largest.
constexpr float kSumsBound = 17 * 64 * 0x1p-22f;

u32 draw(std::mt19937_64& random, Input kind) {
  const auto bits = u32(random());
  const auto halves = [bits](u32 exponent, u32 low, u32 high, u32 shift) {
    const auto one = [&](u32 half) {
      const u32 e = low + half % (high - low + 1);
      return (half & 0xffff & ~exponent) | e << shift;
    };
    return one(bits & 0xffff) | one(bits >> 16) << 16;
  };
  switch (kind) {
    case Input::kFloat16s: return halves(0x7c00, 1, 15, 10);
    case Input::kBfloat16s: return halves(0x7f80, 110, 127, 7);
    case Input::kFloats:
      if (random() % 8 != 0)
        return std::bit_cast<u32>(std::uniform_real_distribution<float>(-200, 200)(random));
      return bits;
    default: return bits;
  }
}

Question make_question(const Runner& r, u64 seed) {
  std::mt19937_64 random(seed);
  Question q{seed, std::vector<u32>(std::size_t(kBlocks * r.threads * r.in)),
             std::vector<u8>(std::size_t(kBlocks * kTensorBytes))};
  for (u32& x : q.in) x = draw(random, r.input);
  for (std::size_t i = 0; i < q.tensor.size(); i += 4) {
    const u32 word = draw(random, r.input);
    std::memcpy(&q.tensor[i], &word, 4);
  }
  return q;
}

struct Score {
  std::size_t all = 0, equal = 0, accepted = 0;
  float largest = 0;  // difference of sums
  i64 most_ulps = 0;
};

// Floats in the order of their values, so that neighbours differ by 1.
i64 place(u32 bits) { return bits >> 31 ? -i64(bits & 0x7fffffff) : i64(bits); }

void compare(const Runner& r, u32 one, u32 other, Score& score) {
  const auto x = std::bit_cast<float>(one), y = std::bit_cast<float>(other);
  ++score.all;
  score.equal += one == other;
  if (one == other) {
    ++score.accepted;
  } else if (r.answer == Answer::kFloats) {
    const bool both_nan = x != x && y != y;
    const i64 ulps = both_nan ? 0 : std::abs(place(one) - place(other));
    score.most_ulps = std::max(score.most_ulps, ulps);
    score.accepted += ulps <= r.ulps;
  } else if (r.answer == Answer::kSums) {
    score.largest = std::max(score.largest, std::abs(x - y));
    score.accepted += std::abs(x - y) <= kSumsBound;
  }
}

bool agree(const Runner& one, const Runner& other, u64 seed, bool alone) {
  Score score;
  for (int round = 0; round < (alone ? 1 : kRounds); ++round) {
    Question q = make_question(one, seed * 1000 + u64(round));
    const Reply a = one.ask(q);
    if (alone) ++q.seed;
    const Reply b = other.ask(q);
    for (std::size_t i = 0; i < a.out.size(); ++i) compare(one, a.out[i], b.out[i], score);
    for (std::size_t i = 0; one.stores && i < a.tensor.size(); ++i) {
      const bool same = a.tensor[i] == b.tensor[i];
      ++score.all;
      score.equal += same;
      score.accepted += same;
    }
  }
  const bool good = score.accepted == score.all;
  std::printf("%-60s %9zu of %9zu equal bits (%6.2f %%)", one.name.c_str(), score.equal, score.all,
              100.0 * double(score.equal) / double(score.all));
  if (one.answer == Answer::kFloats) std::printf(", within %lld ulp", score.most_ulps);
  if (one.answer == Answer::kSums) std::printf(", largest difference %.1e", double(score.largest));
  std::printf("%s\n", good ? "" : "  DIFFERENT");
  std::fflush(stdout);
  return good;
}

int run(bool alone, u64 seed) {
  const std::vector<Runner> emulated = emulated_probes();
  const std::vector<Runner> others = alone ? emulated : silicon_probes();
  if (others.size() != emulated.size()) return 1;
  std::size_t good = 0;
  for (std::size_t i = 0; i < emulated.size(); ++i)
    good += agree(emulated[i], others[i], seed, alone);
  std::printf("%zu of %zu words agree (seed %llu)\n", good, emulated.size(), seed);
  return good == emulated.size() ? 0 : 1;
}

}  // namespace
}  // namespace tessera::gpu

int main(int count, char** arguments) {
  const bool alone = count > 1 && std::strcmp(arguments[1], "--alone") == 0;
  const int at = alone ? 2 : 1;
  return tessera::gpu::run(alone, count > at ? std::strtoull(arguments[at], nullptr, 10) : 1);
}
