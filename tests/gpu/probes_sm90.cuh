// Each word of sm_90a on random bits.
#pragma once
#include <isa/cluster.cuh>
#include <isa/mbarrier.cuh>
#include <isa/tensor_copy.cuh>
#include <isa/warpgroup.cuh>

#include "gpu/probes_wgmma.cuh"

namespace tessera::gpu {

struct Elect : Probe {
  static constexpr const char* kName = "elect, registers_give, registers_take, warpgroup";
  static constexpr int kThreads = 384, kOut = 3, kShared = 64;
  TS_DEVICE static void run(const ProbeParams&, const u32* in, u32* out) {
    if (isa::warpgroup() == 0) isa::registers_give<24>();
    if (isa::warpgroup() != 0) isa::registers_take<240>();
    const u32 at = 4 * u32(isa::warp());
    if (isa::lane() == 0) isa::store(shared(at), 0u);
    isa::sync_warp();
    if (isa::elect()) isa::store(shared(at), 1u);  // whichever lane it is
    isa::sync_warp();
    out[0] = isa::load_word(shared(at));
    out[1] = u32(isa::warpgroup());
    out[2] = in[0];
  }
};

struct StoreMatrices : Probe {
  static constexpr const char* kName = "store_matrices";
  static constexpr int kIn = 4, kOut = 4, kShared = 512;
  TS_DEVICE static void run(const ProbeParams&, const u32* in, u32* out) {
    isa::store_matrices(shared(16 * (u32(isa::lane()) * 5 % 32)),
                        Vector4{in[0], in[1], in[2], in[3]});
    isa::sync_warp();
    const Vector4 v = isa::load(shared(16 * u32(isa::lane())));
    out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
  }
};

// Two warps hand a word to and fro, and say what they see of the phases.
struct Mbarriers : Probe {
  static constexpr const char* kName = "mbarrier_{init,init_fence,arrive,test,wait}";
  static constexpr int kThreads = 64, kOut = 8, kShared = 256;
  TS_DEVICE static void run(const ProbeParams&, const u32* in, u32* out) {
    const Address full = shared(128), empty = shared(136);
    const u32 at = 4 * u32(isa::lane());
    if (isa::thread() == 0) {
      isa::mbarrier_init(full, 32, "full");
      isa::mbarrier_init(empty, 32, "empty");
      isa::mbarrier_init_fence();
    }
    isa::sync_block();
    for (u32 i = 0; i < 4; ++i) {
      if (isa::warp() == 0) {
        isa::mbarrier_wait(empty, (i & 1) ^ 1);
        isa::store(shared(at), in[0] + i);
        isa::mbarrier_arrive(full);
        out[i] = isa::mbarrier_test(empty, (i & 1) ^ 1);  // nobody can have gone further
        out[4 + i] = 0;
      } else {
        isa::mbarrier_wait(full, i & 1);
        out[i] = isa::load_word(shared(4 * ((u32(isa::lane()) + 1) % 32)));
        out[4 + i] = isa::mbarrier_test(full, i & 1);
        isa::mbarrier_arrive(empty);
      }
    }
  }
};

// A tile of 512 bytes at random corners, some of them outside; as it lies in shared memory.
template <int rank, Swizzle swizzle> struct TensorLoad : Probe {
  static constexpr const char* kNames[4] = {"tensor_load, 2d", "tensor_load, 3d", "tensor_load, 4d",
                                            "tensor_load, 5d"};
  static constexpr const char* kModes[4] = {
      "tensor_load, 4d, no swizzle", "tensor_load, 4d, swizzle of 128 bytes",
      "tensor_load, 4d, swizzle of 64 bytes", "tensor_load, 4d, swizzle of 32 bytes"};
  static constexpr const char* kName = rank == 4 ? kModes[int(swizzle)] : kNames[rank - 2];
  static constexpr int kIn = 1, kOut = 4, kShared = 1024 + 8;
  static constexpr TileMap tile() {
    TileMap m{.rank = rank, .swizzle = swizzle};
    const u64 extent[] = {40, 13, 9, 5, 3};  // elements; rows lie 96 bytes apart
    u64 stride = 2;
    for (int d = 0; d < rank; ++d) {
      m.extent[d] = extent[d];
      m.stride[d] = stride;
      stride = d == 0 ? 96 : stride * extent[d];
      m.box[d] = 1;
    }
    m.box[0] = swizzle == Swizzle::k32B ? 16 : swizzle == Swizzle::k128B ? 64 : 32;
    m.box[1] = 256 / m.box[0];
    return m;
  }
  static constexpr TileMap kTile = tile();
  TS_DEVICE static int corner(u32 bits, int d) {
    if (d == 0) return 8 * (int(bits % 8) - 2);
    return int(bits >> (3 + 5 * d)) % 16 - 3;
  }
  TS_DEVICE static void run(const ProbeParams& p, const u32*, u32* out) {
    const Address barrier = shared(1024);
    const u32 bits = isa::load(p.in + isa::block().x * 32);
    if (isa::thread() == 0) {
      isa::mbarrier_init(barrier, 1, "tile");
      isa::mbarrier_init_fence();
      Coordinates<rank> c;
      for (int d = 0; d < rank; ++d) c.at[d] = corner(bits, d);
      isa::mbarrier_arrive_expect(barrier, 512);
      isa::tensor_load(shared(0), p.map, barrier, c);
    }
    isa::sync_warp();
    isa::mbarrier_wait(barrier, 0);
    const Vector4 v = isa::load(shared(16 * u32(isa::thread())));
    out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
  }
};

// A tile of random bits over rows of the block's own part; columns may lie outside, at the end:
// silicon refuses a store that begins before its tensor, and cuts one at an extent that is no
// multiple of 16 bytes in a way of its own.
template <int rank> struct TensorStore : Probe {
  static constexpr const char* kNames[4] = {"tensor_store, 2d, store_commit, store_wait",
                                            "tensor_store, 3d", "tensor_store, 4d",
                                            "tensor_store, 5d, store_wait_read, fence_async"};
  static constexpr const char* kName = kNames[rank - 2];
  static constexpr int kIn = 4, kShared = 512;
  static constexpr bool kStores = true;
  static constexpr TileMap tile() {
    TileMap m{.rank = rank, .swizzle = Swizzle::k64B};
    for (int d = 0; d < rank; ++d) {
      m.extent[d] = d == 0 ? 64 : d == rank - 1 ? u64(kBlocks * kTensorBytes / 128) : 1;
      m.stride[d] = d == 0 ? 2 : 128;
      m.box[d] = d == 0 ? 32 : d == rank - 1 ? 8 : 1;
    }
    return m;
  }
  static constexpr TileMap kTile = tile();
  TS_DEVICE static void run(const ProbeParams& p, const u32* in, u32* out) {
    isa::store(shared(16 * u32(isa::thread())), Vector4{in[0], in[1], in[2], in[3]});
    isa::fence_async();
    isa::sync_warp();
    const u32 bits = isa::load(p.in + isa::block().x * 128);
    if (isa::thread() == 0) {
      Coordinates<rank> c;
      for (int d = 0; d < rank; ++d) c.at[d] = 0;
      c.at[0] = 8 * int(bits % 8);
      c.at[rank - 1] = isa::block().x * (kTensorBytes / 128) + int(bits >> 8) % 100;
      isa::tensor_store(p.map, shared(0), c);
      isa::store_commit();
      isa::store_wait_read<0>();
      isa::store_wait<0>();
    }
    out[0] = 0;
  }
};

struct Clusters : Probe {
  static constexpr const char* kName =
      "cluster_{rank,size,arrive,wait}, map_shared, {load,store}_remote";
  static constexpr int kOut = 4, kShared = 256, kCluster = 2;
  TS_DEVICE static void run(const ProbeParams&, const u32* in, u32* out) {
    const Address mine = shared(4 * u32(isa::lane()));
    const Address theirs = isa::map_shared(mine, isa::cluster_rank() ^ 1);
    isa::store(mine, in[0]);
    isa::cluster_arrive();
    isa::cluster_wait();
    out[0] = isa::load_remote(theirs);
    isa::store_remote(isa::map_shared(shared(128 + 4 * u32(isa::lane())), isa::cluster_rank() ^ 1),
                      ~in[0]);
    isa::cluster_arrive();
    isa::cluster_wait();
    out[1] = isa::load_word(shared(128 + 4 * u32(isa::lane())));
    out[2] = u32(isa::cluster_rank());
    out[3] = u32(isa::cluster_size());
  }
};

// Each of two blocks loads one half of what both get.
struct Multicast : Probe {
  static constexpr const char* kName =
      "tensor_multicast, mbarrier_arrive_remote, mbarrier_wait_cluster";
  static constexpr int kOut = 8, kShared = 1024 + 16, kCluster = 2;
  static constexpr TileMap kTile{.rank = 4,
                                 .extent = {64, kBlocks* kTensorBytes / 128, 1, 1},
                                 .stride = {2, 128, 128, 128},
                                 .box = {64, 4, 1, 1},
                                 .swizzle = Swizzle::k128B};
  TS_DEVICE static void run(const ProbeParams& p, const u32*, u32* out) {
    const Address full = shared(1024), met = shared(1032);
    const int rank = isa::cluster_rank();
    if (isa::thread() == 0) {
      isa::mbarrier_init(full, 1, "full");
      isa::mbarrier_init(met, 2, "met");
      isa::mbarrier_init_fence();
    }
    isa::cluster_arrive();
    isa::cluster_wait();
    if (isa::thread() == 0) {
      isa::mbarrier_arrive_expect(full, 1024);
      for (int r = 0; r < 2; ++r) isa::mbarrier_arrive_remote(isa::map_shared(met, r));
      isa::mbarrier_wait_cluster(met, 0);
      const int row = int(isa::load(p.in + isa::block().x * 32) % 8000);
      isa::tensor_multicast({shared(u32(rank) * 512), full, 3}, p.map, Coordinates{0, row, 0, 0});
    }
    isa::sync_warp();
    isa::mbarrier_wait(full, 0);
    for (int half = 0; half < 2; ++half) {
      const Vector4 v = isa::load(shared(512 * u32(half) + 16 * u32(isa::thread())));
      out[4 * half] = v.x, out[4 * half + 1] = v.y, out[4 * half + 2] = v.z;
      out[4 * half + 3] = v.w;
    }
    isa::cluster_arrive();
    isa::cluster_wait();
  }
};

using Sm90Probes = Probes<
    Elect, StoreMatrices, Mbarriers, TensorLoad<2, Swizzle::kNone>, TensorLoad<3, Swizzle::kNone>,
    TensorLoad<5, Swizzle::kNone>, TensorLoad<4, Swizzle::kNone>, TensorLoad<4, Swizzle::k128B>,
    TensorLoad<4, Swizzle::k64B>, TensorLoad<4, Swizzle::k32B>, TensorStore<2>, TensorStore<3>,
    TensorStore<4>, TensorStore<5>, Clusters, Multicast, Wgmma<Bfloat16, 64, Major::kK, Major::kK>,
    Wgmma<Bfloat16, 128, Major::kK, Major::kMN>, Wgmma<Bfloat16, 176, Major::kMN, Major::kK>,
    Wgmma<Bfloat16, 256, Major::kMN, Major::kMN>, Wgmma<Float16, 80, Major::kK, Major::kK>,
    Wgmma<Float16, 96, Major::kK, Major::kMN>, Wgmma<Float16, 160, Major::kMN, Major::kK>,
    Wgmma<Float16, 192, Major::kMN, Major::kMN>, WgmmaOfRegisters<Bfloat16, 128, Major::kMN>,
    WgmmaOfRegisters<Float16, 64, Major::kK>>;

}  // namespace tessera::gpu
