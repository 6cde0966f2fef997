// What the plans of all kernels share.
#pragma once
#include <cstdint>

#include "plan/plan.hpp"

namespace tessera::plan {

inline constexpr std::int64_t kFloat = 4;  // bytes

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

// Below this many floating-point operations a second thread costs more than it brings: waking it
// takes up to 50 us, in which one core does about 4 MFLOP.
inline constexpr double kFlopsPerWorker = 4e6;

// A strip of the tiles computes all its lanes however few queries there are, and reads K and V once
// for each query head; with a quarter of a strip that is still slower than a dot product for each
// pair.
constexpr bool are_few(std::int64_t queries, const Device& device) {
  return queries <= tiles_for(device.lanes).strip / 4;
}

// As many workers as there are threads, tasks, and shares of the work that are worth waking one.
std::int64_t useful_workers(const Plan& plan, double work, double of_a_worker);

// Why a call is not multiplied as bfloat16, whichever pass; nullptr if nothing speaks against it.
const char* why_not_bfloat16(const core::Problem& problem, const Device& device);
// The arithmetic, given what speaks against bfloat16.
void decide_arithmetic(Plan& plan, const char* why_float32);

Plan plan_reference(const core::Problem& problem, const Device& device, const char* why);

// Refuses what `backend` does not do.
[[noreturn]] void refuse_missing(const char* backend, const char* missing);

}  // namespace tessera::plan
