// The copy engine: tiles of tensors between global and shared memory (TMA, sm_90). PTX world.
//
// A map says where a tensor lies, how large a tile is and how its 16-byte chunks are exchanged. In
// shared memory a tile begins at a multiple of 128 bytes. The innermost coordinate is a multiple of
// 8 elements. PTX ISA, "cp.async.bulk.tensor".
#pragma once
#include <isa/thread.cuh>

namespace tessera::device::isa {

// PTX ISA, "membar/fence", fence.proxy.async: what this thread knows to have been stored to or
// loaded from shared memory is in order before asynchronous words that come after it.
TS_DEVICE void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// "cp.async.bulk.tensor.{2,3,4,5}d, mbarrier::complete_tx::bytes": starts to fill a tile at `to`;
// the phase of the barrier counts the bytes. Elements outside the tensor become 0.
TS_DEVICE void tensor_load(Address to, const TensorMap& map, Address barrier, Coordinates<2> c) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4}], [%2];" ::"r"(u32(to)),
      "l"(&map), "r"(u32(barrier)), "r"(c.at[0]), "r"(c.at[1])
      : "memory");
}
TS_DEVICE void tensor_load(Address to, const TensorMap& map, Address barrier, Coordinates<3> c) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(u32(to)),
      "l"(&map), "r"(u32(barrier)), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2])
      : "memory");
}
TS_DEVICE void tensor_load(Address to, const TensorMap& map, Address barrier, Coordinates<4> c) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(u32(to)),
      "l"(&map), "r"(u32(barrier)), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3])
      : "memory");
}
TS_DEVICE void tensor_load(Address to, const TensorMap& map, Address barrier, Coordinates<5> c) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(u32(to)),
      "l"(&map), "r"(u32(barrier)), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3]),
      "r"(c.at[4])
      : "memory");
}

// "cp.async.bulk.tensor.{2,3,4,5}d.global.shared::cta.bulk_group": starts to write the tile at
// `from`. Elements outside the tensor are not written.
TS_DEVICE void tensor_store(const TensorMap& map, Address from, Coordinates<2> c) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map),
      "r"(u32(from)), "r"(c.at[0]), "r"(c.at[1])
      : "memory");
}
TS_DEVICE void tensor_store(const TensorMap& map, Address from, Coordinates<3> c) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&map),
      "r"(u32(from)), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2])
      : "memory");
}
TS_DEVICE void tensor_store(const TensorMap& map, Address from, Coordinates<4> c) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group"
      " [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
      "r"(u32(from)), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3])
      : "memory");
}
TS_DEVICE void tensor_store(const TensorMap& map, Address from, Coordinates<5> c) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group"
      " [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(&map),
      "r"(u32(from)), "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3]), "r"(c.at[4])
      : "memory");
}
// PTX ISA, "cp.async.bulk.commit_group": this thread's stores since the last commit form a group.
TS_DEVICE void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// PTX ISA, "cp.async.bulk.wait_group": all but this thread's last `pending` groups are written;
// with .read they have at least read shared memory.
template <int pending> TS_DEVICE void store_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(pending) : "memory");
}
template <int pending> TS_DEVICE void store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

}  // namespace tessera::device::isa
