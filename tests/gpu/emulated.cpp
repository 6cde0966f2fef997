// The probes in software.
#include "emulator/grid.hpp"
#include "gpu/probes_sm80.cuh"
#include "gpu/probes_sm90.cuh"
#include "gpu/run.hpp"

namespace tessera::gpu {
namespace {

template <class P> Reply ask(const Question& q) {
  Reply r{std::vector<u32>(std::size_t(kBlocks * P::kThreads * P::kOut)), q.tensor};
  emulator::GlobalMemory memory;
  memory.input("in", q.in.data(), 4 * q.in.size());
  memory.output("out", r.out.data(), 4 * r.out.size());
  memory.output("tensor", r.tensor.data(), r.tensor.size(), true);
  ProbeParams params{q.in.data(), r.out.data(), r.tensor.data(), {}};
  if constexpr (P::kTile.rank != 0) {
    TileMap map = P::kTile;
    map.base = r.tensor.data();
    params.map = emulator::encode(map);
  }
  emulator::launch({.grid = {kBlocks, 1, 1},
                    .threads = P::kThreads,
                    .shared_bytes = P::kShared,
                    .seed = q.seed,
                    .cluster = P::kCluster},
                   memory, [&params] { run_probe<P>(params); });
  return r;
}

template <class... P> std::vector<Runner> runners(Probes<P...>) {
  return {Runner{name_of_probe<P>(), P::kThreads, P::kIn, P::kOut, P::kInput, P::kAnswer, P::kUlps,
                 P::kStores, &ask<P>}...};
}

}  // namespace

std::vector<Runner> emulated_probes() {
  std::vector<Runner> all = runners(Sm80Probes());
  for (Runner& r : runners(Sm90Probes())) all.push_back(r);
  return all;
}

}  // namespace tessera::gpu
