#include "core/traffic_roofline.hpp"

namespace tessera::core {
namespace {

constexpr std::int64_t kKib = 1024, kMib = 1024 * kKib;

// Peaks are dense, tensor cores with float32 accumulation for 16-bit operands, plain cores for
// float32. sram_bytes is what one block of threads may take: 1 KiB less than an SM has (CUDA C++
// Programming Guide, "Technical Specifications per Compute Capability").
constexpr Machine kMachines[] = {
    {"a100", "NVIDIA A100 SXM 80 GB", 312e12, 19.5e12, 2039e9, 40 * kMib, 163 * kKib,
     "NVIDIA A100 datasheet (2021); NVIDIA Ampere GPU architecture tuning guide"},
    {"h100", "NVIDIA H100 SXM", 989.4e12, 66.9e12, 3.35e12, 50 * kMib, 227 * kKib,
     "NVIDIA H100 Tensor Core GPU architecture whitepaper v1.04, tables 2 and 3; Hopper tuning "
     "guide"},
    {"h200", "NVIDIA H200 SXM", 989.4e12, 66.9e12, 4.8e12, 50 * kMib, 227 * kKib,
     "NVIDIA H200 datasheet (2024); Hopper tuning guide"},
    {"b200", "NVIDIA B200", 2250e12, 75e12, 8e12, 126 * kMib, 227 * kKib,
     "NVIDIA HGX and DGX B200 datasheets (2024), an eighth of each; Blackwell tuning guide"},
    {"rtx4090", "NVIDIA GeForce RTX 4090", 165.2e12, 82.6e12, 1008e9, 72 * kMib, 99 * kKib,
     "NVIDIA Ada GPU architecture whitepaper v2.1, appendix A; Ada tuning guide"},
    {"rtx5090", "NVIDIA GeForce RTX 5090", 209.5e12, 104.8e12, 1792e9, 96 * kMib, 99 * kKib,
     "NVIDIA RTX Blackwell GPU architecture whitepaper v1.1, appendix A; CUDA C++ Programming "
     "Guide"},
    // Peaks: `peak_gflops` of cpu_figures.jsonl, multiply-adds from registers alone. Bytes: the
    // median `peak` of the suite decode in cpu_peers.jsonl. A tile lives in the L2 of its core.
    {"zen4", "2 threads of a Zen 4 (AVX-512)", 466e9, 233e9, 67e9, 32 * kMib, kMib,
     "measured: bench/results/cpu_figures.jsonl and cpu_peers.jsonl"},
};

}  // namespace

std::span<const Machine> machines() { return kMachines; }

const Machine* find_machine(std::string_view name) {
  for (const Machine& machine : kMachines)
    if (machine.name == name) return &machine;
  return nullptr;
}

RoofTime time_under(const Roof& roof, const Schedule& schedule) {
  const double arithmetic = static_cast<double>(schedule.flops) / roof.flops_per_second;
  const double transfer = static_cast<double>(schedule.bytes) / roof.bytes_per_second;
  const bool memory_bound = transfer > arithmetic;
  const double seconds = memory_bound ? transfer : arithmetic;
  return {seconds, static_cast<double>(schedule.flops) / seconds, memory_bound};
}

}  // namespace tessera::core
