// The words of the bfloat16 kernels, as functions.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>

#include "core/band.hpp"
#include "cpu/call.hpp"

namespace tessera::test {

// A copy on lines of 64 bytes, as kernels want it; tests pass vectors.
template <class T> class Line {
 public:
  Line(const T* from, std::int64_t n) : Line(n) { std::copy_n(from, n, memory_.get()); }
  explicit Line(std::int64_t n)
      : memory_(static_cast<T*>(::operator new(std::size_t(n + 1) * sizeof(T), kAlignment))) {}

  T* get() { return memory_.get(); }
  float* floats() { return reinterpret_cast<float*>(get()); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Release {
    void operator()(T* p) const { ::operator delete(p, kAlignment); }
  };
  std::unique_ptr<T, Release> memory_;
};

struct Bfloat16Words {
  std::int64_t strip, panel, key_tile, rows;  // rows of an O tile

  void (*exp2)(float* x, std::int64_t n);
  // s [key_tile][strip]; k [key_tile][steps] and q [steps][strip] are pairs of bfloat16.
  void (*multiply)(int halves, float* s, const std::uint16_t* k, const std::uint32_t* q,
                   std::int64_t steps);
  // p [steps][strip] and v [steps][panel] are pairs, o is [rows][panel]; `skipped` steps of p come
  // before.
  struct Steps {
    std::int64_t steps, skipped;
  };
  void (*accumulate)(float* o, const float* alpha, const std::uint32_t* p, const std::uint32_t* v,
                     const Steps& steps);
  // s [rows][strip] -> pairs, in place; sum [strip].
  void (*weigh)(float* s, core::Range rows, float unit, const float* base, float* sum);

  // c += a b, each 16 rows of 64 bytes, by the registers and by their emulation.
  void (*multiply_tiles)(float* c, const std::uint16_t* a, const std::uint16_t* b);
  void (*multiply_emulated)(float* c, const std::uint16_t* a, const std::uint16_t* b);
  // The whole forward of AMX over the emulation, for one worker.
  void (*forward_emulated)(cpu::Call& call);
  void (*backward_emulated)(cpu::Call& call);
};

const Bfloat16Words& bfloat16_words();

}  // namespace tessera::test
