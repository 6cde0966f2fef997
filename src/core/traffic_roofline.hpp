// The time that a machine's peak and the rate of its slow memory allow a schedule (Williams,
// Waterman and Patterson 2009), and machines to ask that of.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "core/traffic.hpp"

namespace tessera::core {

struct Machine {
  std::string_view name, title;
  double flops_16 = 0, flops_32 = 0;  // a second, dense: 16-bit operands, and float32
  double bytes_per_second = 0;        // of slow memory
  std::int64_t cache_bytes = 0;       // shared by all, before slow memory
  std::int64_t sram_bytes = 0;        // what the tiles of one processor may take
  std::string_view source;            // of these numbers
};

std::span<const Machine> machines();
const Machine* find_machine(std::string_view name);  // null if there is none of that name

// What is left of a machine once the type is known.
struct Roof {
  double flops_per_second = 0, bytes_per_second = 0;
  std::int64_t cache_bytes = 0;

  // The intensity from which the peak is the limit.
  double ridge() const { return flops_per_second / bytes_per_second; }
  double at(double intensity) const {
    const double memory = intensity * bytes_per_second;
    return memory < flops_per_second ? memory : flops_per_second;
  }
};

struct RoofTime {
  double seconds = 0;
  double flops_per_second = 0;
  bool memory_bound = false;
};

// The longer of arithmetic and transfer, as if they overlapped perfectly.
RoofTime time_under(const Roof& roof, const Schedule& schedule);

}  // namespace tessera::core
