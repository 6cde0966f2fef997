// The tile registers of AMX: one word per instruction. Eight tiles of up to 16 rows of 64 bytes.
#pragma once
#include <cstdint>

#include "cpu/isa/x86.hpp"

#if defined(__x86_64__)
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tessera::cpu::amx {

// Whether the processor multiplies tiles of bfloat16 and Linux lets this process use them.
// Their state is large, so it is granted to those who ask: arch_prctl(2), ARCH_REQ_XCOMP_PERM, here
// of XTILEDATA. Granted once, it holds for all threads.
inline bool granted() {
#if defined(__linux__)
  static const bool ok = [] {
    constexpr int kRequestPermission = 0x1023, kTileData = 18;
    return x86::features().amx && ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return ok;
#else
  return false;
#endif
}

// The words as the processor has them. Tiles are numbers of the program, not values.
struct Registers {
  // SDM, LDTILECFG: palette 1, all eight tiles of 16 rows of 64 bytes, for this thread; TILERELEASE
  // gives the state back, which makes switches of threads cheap again.
  class Session {
   public:
    Session() {
      alignas(64) static constexpr struct {
        std::uint8_t palette = 1, rest[15] = {};
        std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
        std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
      } kShape;
      static_assert(sizeof kShape == 64);
      asm volatile("ldtilecfg %0" : : "m"(kShape));
    }
    ~Session() { asm volatile("tilerelease"); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
  };

  // SDM, TILEZERO.
  template <int kTile> static void zero() { asm volatile("tilezero %%tmm%c0" : : "i"(kTile)); }

  // SDM, TILELOADD and TILESTORED: 16 rows of 64 bytes that lie `stride` bytes apart.
  template <int kTile> static void load(const void* from, std::int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile> static void store(void* to, std::int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
  }

  // SDM, TDPBF16PS: c[m][n] += sum over k of a[m][k] b[k / 2][n][k % 2], for 16 x 32 times 32 x 16.
  template <int kC, int kA, int kB> static void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
};

}  // namespace tessera::cpu::amx
#endif
