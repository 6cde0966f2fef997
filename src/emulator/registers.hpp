// Registers that nobody has assigned hold a pattern, and a word that is given one reports it.
//
// As a float the pattern is a NaN with a payload of its own, which arithmetic hands on: a value
// that was computed from an undefined register is undefined too. Registers that the tensor core of
// sm_90 uses hold it until they have been waited for, and whoever touches them is reported.
#pragma once
#include <bit>

#include "emulator/block.hpp"
#include "emulator/warpgroup.hpp"

namespace tessera::emulator {

inline constexpr u32 kUndefined = 0x7fe5a5a5;

constexpr bool is_undefined(u32 bits) { return bits == kUndefined; }
constexpr bool is_undefined(float x) { return (std::bit_cast<u32>(x) & 0x7fffffff) == kUndefined; }

template <class T> void use(T value, Where where) {
  if (is_undefined(value)) [[unlikely]]
    self->block->report(where, "uses a register that nobody has assigned");
}

template <class T, int n> struct Registers : Operand {
  static constexpr int size = n;
  T value[n];
  Registers() {
    for (T& x : value) x = std::bit_cast<T>(kUndefined);
  }
  T& operator[](int i) {
    if (writing || reading != 0) [[unlikely]]
      check(true);
    touched = true;
    return value[i];
  }
  T operator[](int i) const {
    if (writing) [[unlikely]]
      check(false);
    return value[i];
  }
};

}  // namespace tessera::emulator
