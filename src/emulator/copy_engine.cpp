#include "emulator/copy_engine.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "emulator/grid.hpp"

namespace tessera::emulator {

// What silicon answers with "illegal instruction" or "misaligned address".
TileMap CopyEngine::check(const TileCall& call, Where where) const {
  self->where = where;
  const TileMap m = decode(call.map);
  if (m.base == nullptr) block_.report(where, "the tensor map has not been encoded");
  if (m.rank != call.rank)
    block_.report(where, std::to_string(call.rank) + " coordinates for a tensor of rank " +
                             std::to_string(m.rank));
  if (call.shared % 128 != 0) block_.report(where, "the shared address is not a multiple of 128");
  if (call.corner[0] % 8 != 0)
    block_.report(where, "the innermost coordinate is not a multiple of 16 bytes");
  return m;
}

// ---- To shared memory ----

void CopyEngine::load(const TileCall& call, u32 barrier, Where where) {
  const TileMap m = check(call, where);
  if (block_.ended()) block_.report(where, "copies to a block that has ended");
  Mbarrier& b = block_.mbarriers.at(barrier, where);
  if (!b.fenced) block_.report(where, b.name() + ": fence.mbarrier_init is missing");
  const Access write{*self, where, Access::kAsync, b.ends()};
  block_.history().write(call.shared - Block::kSharedBase, bytes_of(m), write);
  std::memset(block_.bytes(call.shared), 0xff, bytes_of(m));  // NaN until it lands
  for_each_chunk(m, call.corner, [&](const Chunk& c) {
    if (c.at == nullptr) return;
    block_.grid().read_global(c.at + 2 * c.first, 2 * std::size_t(c.last - c.first),
                              {*self, where, Access::kAsync, self->now()});
  });
  b.copied = b.phase + 1;
  loads_.push_back({m, call.corner, call.shared, &b, where, block_.grid().now(), self->role});
}

void CopyEngine::multicast(const TileCall& call, u32 barrier, u32 ranks, Where where) {
  if (ranks == 0) block_.report(where, "names no block of the cluster");
  for (int rank = 0; ranks >> rank != 0; ++rank)
    if (ranks >> rank & 1)
      block_.locate(block_.remote_address(call.shared, rank, where), where)
          .block.engine.load(call, barrier, where);
}

void CopyEngine::land(const TensorLoad& l) {
  Mbarrier& b = *l.barrier;
  for_each_chunk(l.map, l.corner, [&](const Chunk& c) {
    const u32 to = swizzled(l.to + c.offset, l.map.swizzle);
    std::byte* out = block_.bytes(to);
    std::memset(out, 0, 16);
    if (c.at != nullptr)
      std::memcpy(out + 2 * c.first, c.at + 2 * c.first, 2 * std::size_t(c.last - c.first));
    block_.history().landed(to - Block::kSharedBase, b.ends(), l.map.swizzle);
  });
  block_.grid().trace({&block_, -1, l.role, l.where, l.issued});
  b.copied = b.phase + 1;
  block_.mbarriers.complete_bytes(b, bytes_of(l.map));
}

bool CopyEngine::land_one() {
  std::vector<std::pair<Thread*, TensorStore*>> stores;
  for (Thread& t : block_.threads())
    if (t.stores)
      for (TensorStore& s : t.stores->pending)
        if (!s.done) stores.emplace_back(&t, &s);
  const std::size_t all = loads_.size() + stores.size();
  if (all == 0) return false;
  const std::size_t chosen = block_.grid().random() % all;
  if (chosen >= loads_.size()) {
    land(*stores[chosen - loads_.size()].first, *stores[chosen - loads_.size()].second);
    return true;
  }
  std::swap(loads_[chosen], loads_.back());
  const TensorLoad load = loads_.back();
  loads_.pop_back();
  land(load);
  return true;
}

// ---- To global memory ----

void CopyEngine::store(const TileCall& call, Where where) {
  const TileMap m = check(call, where);
  if (call.corner[0] < 0)  // loads may: tests/gpu/isa_equivalence.sh, on an H200
    block_.report(where, "a store begins before its tensor, an illegal instruction on sm_90");
  if (2 * m.extent[0] % 16 != 0 && u64(call.corner[0]) + m.box[0] > m.extent[0])
    block_.report(where, "a store is cut off at rows of " + std::to_string(2 * m.extent[0]) +
                             " bytes, no multiple of 16, where sm_90 has a way of its own");
  Thread& me = *self;
  if (!me.stores) {
    const std::string who = "the tensor store of thread " + std::to_string(me.index);
    me.stores = std::make_unique<BulkStores>();
    me.stores->reads = block_.add_actor(who);
    me.stores->writes = block_.grid().add_actor(who);  // is not used again: tensors outlive blocks
    me.stores->first = block_.grid().last_epoch(me.stores->reads) + 1;
  }
  BulkStores& s = *me.stores;
  const u32 epoch = s.first + s.count;
  block_.grid().set_last_epoch(s.reads, epoch);
  block_.history().read(call.shared - Block::kSharedBase, bytes_of(m),
                        {me, where, Access::kAsync, Event{32 * s.reads, epoch}});
  for_each_chunk(m, call.corner, [&](const Chunk& c) {
    if (c.at == nullptr) return;
    block_.grid().write_global(c.at + 2 * c.first, 2 * std::size_t(c.last - c.first),
                               {me, where, Access::kAsync, Event{32 * s.writes, epoch}});
  });
  s.pending.push_back(
      {m, call.corner, call.shared, s.groups, s.count++, false, where, block_.grid().now()});
}

void CopyEngine::land(Thread& thread, TensorStore& s) {
  for_each_chunk(s.map, s.corner, [&](const Chunk& c) {
    if (c.at == nullptr) return;
    const std::byte* in = block_.bytes(swizzled(s.from + c.offset, s.map.swizzle));
    std::memcpy(c.at + 2 * c.first, in + 2 * c.first, 2 * std::size_t(c.last - c.first));
  });
  s.done = true;
  block_.grid().trace({&block_, thread.index, thread.role, s.where, s.issued});
}

void CopyEngine::commit() {
  if (self->stores) ++self->stores->groups;
}

void CopyEngine::wait(u32 pending, bool for_reads_alone, Where where) {
  Thread& me = *self;
  me.where = where;
  if (!me.stores) return;
  BulkStores& s = *me.stores;
  if (!me.own) me.own.emplace();
  const auto waited = [&](const TensorStore& t) { return t.group + pending < s.groups; };
  for (TensorStore& t : s.pending) {
    if (!waited(t)) continue;
    if (!t.done) land(me, t);
    s.read = std::max(s.read, t.number + 1);
    me.own->learn_warp(s.reads, s.first + t.number);
    if (!for_reads_alone) me.own->learn_warp(s.writes, s.first + t.number);
  }
  if (!for_reads_alone) std::erase_if(s.pending, waited);
}

// ---- The end ----

void CopyEngine::check_exit(Thread& thread) {
  if (!thread.stores) return;
  for (const TensorStore& s : thread.stores->pending)
    if (s.number >= thread.stores->read)
      block_.report({"exit", s.where.site},
                    "ends while its tensor store may still read shared memory: "
                    "cp.async.bulk.wait_group is missing");
}

void CopyEngine::check_end() {
  for (const Mbarrier& b : block_.mbarriers.all())
    if (b.copied > b.waited)
      block_.report({"exit", self->where.site},
                    "the block ends although nobody has waited for "
                    "the copies of phase " +
                        std::to_string(b.copied - 1) + " of " + b.name());
}

}  // namespace tessera::emulator
