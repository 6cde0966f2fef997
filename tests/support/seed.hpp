// Chance that can be repeated.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>

#include "core/random.hpp"

namespace tessera::test {

// The environment variable TESSERA_TEST_SEED, else 20240607.
std::uint64_t test_seed();

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : draws_(seed) {}
  // From bytes that a fuzzer makes; once they end every number is the lowest.
  explicit Dice(std::span<const std::uint8_t> bytes) : draws_(0), bytes_(bytes), by_bytes_(true) {}

  std::int64_t between(std::int64_t low, std::int64_t high) {
    return by_bytes_ ? low + std::int64_t(taken(std::uint64_t(high - low)))
                     : draws_.between(low, high);
  }
  std::int64_t below(std::int64_t n) { return between(0, n - 1); }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  template <class Row> auto pick(const Row& row) {
    return std::data(row)[below(std::int64_t(std::size(row)))];
  }
  template <class T> T pick(std::initializer_list<T> row) {
    return row.begin()[below(std::int64_t(row.size()))];
  }

 private:
  // At most `most`, below 2^63, from as many bytes as it has.
  std::uint64_t taken(std::uint64_t most) {
    std::uint64_t number = 0;
    for (std::uint64_t rest = most; rest != 0; rest >>= 8) {
      number = number << 8 | (bytes_.empty() ? 0 : bytes_.front());
      bytes_ = bytes_.subspan(bytes_.empty() ? 0 : 1);
    }
    return number % (most + 1);
  }

  core::Draws draws_;
  std::span<const std::uint8_t> bytes_;
  bool by_bytes_ = false;
};

}  // namespace tessera::test
