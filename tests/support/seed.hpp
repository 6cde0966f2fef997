// Chance that can be repeated.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <iterator>

#include "core/random.hpp"

namespace tessera::test {

// The environment variable TESSERA_TEST_SEED, else 20240607.
std::uint64_t test_seed();

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : draws_(seed) {}

  std::int64_t between(std::int64_t low, std::int64_t high) { return draws_.between(low, high); }
  std::int64_t below(std::int64_t n) { return between(0, n - 1); }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  template <class Row> auto pick(const Row& row) {
    return std::data(row)[below(std::int64_t(std::size(row)))];
  }
  template <class T> T pick(std::initializer_list<T> row) {
    return row.begin()[below(std::int64_t(row.size()))];
  }

 private:
  core::Draws draws_;
};

}  // namespace tessera::test
