#include "emulator/warpgroup.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <string>

#include "core/dtype.hpp"
#include "emulator/grid.hpp"
#include "emulator/registers.hpp"
#include "emulator/shared_operand.hpp"

namespace tessera::emulator {
namespace {

using device::Major;

float value_of(Operands type, u32 bits) {
  return type == Operands::kFloat16 ? core::float_from_float16(u16(bits))
                                    : core::float_from_bfloat16(u16(bits));
}

// c[64][n] += a[16][64]^T b[16][n]
void multiply(const float* a, const float* b, float* c, int n) {
  constexpr int kWide = 16;
  for (int row = 0; row < 64; ++row)
    for (int column = 0; column + kWide <= n; column += kWide) {
      float sum[kWide];
      float* out = c + row * n + column;
      for (int j = 0; j < kWide; ++j) sum[j] = out[j];
      for (int k = 0; k < 16; ++k) {
        const float x = a[k * 64 + row];
        const float* y = b + k * n + column;
        for (int j = 0; j < kWide; ++j) sum[j] += x * y[j];
      }
      for (int j = 0; j < kWide; ++j) out[j] = sum[j];
    }
}

// Where register i of a thread's sums lies in the tile of 64 x n.
std::size_t place(int thread, int i, int n) {
  const int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
  const int column = i / 4 * 8 + thread % 4 * 2 + i % 2;
  return std::size_t(row) * std::size_t(n) + std::size_t(column);
}

// The same of half h of a register of A, in [16][64].
std::size_t place_of_a(int thread, int r, int h) {
  const int row = thread / 32 * 16 + thread % 32 / 4 + r % 2 * 8;
  const int column = thread % 4 * 2 + r / 2 * 8 + h;
  return std::size_t(column) * 64 + std::size_t(row);
}

void gather(const WgmmaCall& call, u64 descriptor, Major major, int rows, float* out) {
  Block& block = *self->block;
  const bool along_k = major == Major::kK;
  for_each_chunk(descriptor, major, rows, [&](u32 address, int row, int k) {
    u16 chunk[8];
    std::memcpy(chunk, block.bytes(address), 16);
    float* to = out + k * rows + row;
    for (int e = 0; e < 8; ++e) to[e * (along_k ? rows : 1)] = value_of(call.type, chunk[e]);
  });
}

void execute_until(Warpgroup& g, u32 limit) {
  float a[16 * 64], b[16 * 256];
  for (; g.executed < limit; ++g.executed) {
    const Wgmma& op = g.pending[g.executed - g.first];
    const WgmmaCall& call = op.call;
    if (call.a == nullptr) gather(call, call.a_descriptor, call.a_major, 64, a);
    gather(call, call.b_descriptor, call.b_major, call.columns, b);
    std::vector<float>& value = op.target->value;
    if (!call.accumulate) std::fill(value.begin(), value.end(), 0.f);
    multiply(call.a != nullptr ? op.a_value.data() : a, b, value.data(), call.columns);
  }
}

// The tensor core reads an operand from now on until the wgmma is waited for.
void touch_operand(const Warpgroup& g, const WgmmaCall& call, u64 descriptor, Major major,
                   int rows) {
  constexpr u64 kUnused = 0x3ff1c000c000c000;
  Block& block = *self->block;
  if (descriptor >> 49 & 7)
    block.report(call.where, "a descriptor with a base offset is not emulated");
  if (descriptor & kUnused)
    block.report(call.where, "a descriptor has bits that mean nothing: an offset is too large");
  const Access access{*self,          call.where,
                      Access::kAsync, Event{32 * g.actor, g.base + g.issued()},
                      g.warps,        Swizzle(descriptor >> 62)};
  for_each_chunk(descriptor, major, rows, [&](u32 address, int, int) {
    block.history().read(address - Block::kSharedBase, 16, access);
  });
}

void check_registers(const WgmmaCall& c, bool first_use) {
  if (c.d->touched || (c.a != nullptr && c.a->touched))
    self->block->report(c.where, "its registers were touched since the last wgmma.fence");
  if (c.accumulate && first_use)
    for (int i = 0; i < c.columns / 2; ++i) use(c.sums[i], c.where);
  if (c.a != nullptr)
    for (int r = 0; r < 4; ++r) use(c.a_registers[r], c.where);
}

Accumulator& target_of(Warpgroup& g, WgmmaCall** calls) {
  const WgmmaCall& call = *calls[0];
  for (Accumulator& live : g.live)
    if (live.owner[0].d == call.d && live.left == 4) return live;
  for (int t = 0; t < 128; ++t) check_registers(*calls[t], true);
  Accumulator& fresh = g.live.emplace_back();
  fresh.columns = call.columns;
  fresh.value.resize(64 * std::size_t(call.columns));
  for (int t = 0; t < 128; ++t)
    for (int i = 0; i < call.columns / 2; ++i)
      fresh.value[place(t, i, call.columns)] = calls[t]->sums[i];
  return fresh;
}

void take_registers(Wgmma& op, int thread, const WgmmaCall& call) {
  check_registers(call, false);
  op.target->owner[std::size_t(thread)] = call;
  op.a[std::size_t(thread)] = call.a;
  call.d->writing = true;
  call.d->where = call.where;
  std::fill_n(call.sums, call.columns / 2, std::bit_cast<float>(kUndefined));
  if (call.a == nullptr) return;
  ++call.a->reading;
  call.a->where = call.where;
  for (int r = 0; r < 4; ++r)
    for (int h = 0; h < 2; ++h)
      op.a_value[place_of_a(thread, r, h)] =
          value_of(call.type, call.a_registers[r] >> (16 * h) & 0xffff);
}

void issue(WgmmaCall** calls) {
  Block& block = *self->block;
  Warpgroup& g = block.warpgroup();
  const WgmmaCall& call = *calls[0];
  for (Warp* w : g.warps) Block::settle(*w);
  Accumulator& target = target_of(g, calls);
  target.last = g.issued();
  if (call.a == nullptr) touch_operand(g, call, call.a_descriptor, call.a_major, 64);
  touch_operand(g, call, call.b_descriptor, call.b_major, call.columns);
  Wgmma& op = g.pending.emplace_back();
  op.call = call;
  op.target = &target;
  op.issued = block.grid().now();
  if (call.a != nullptr) op.a_value.resize(16 * 64);
  for (int t = 0; t < 128; ++t) {
    const WgmmaCall& c = *calls[t];
    if (c.a_descriptor != call.a_descriptor || c.b_descriptor != call.b_descriptor ||
        c.accumulate != call.accumulate)
      block.report(call.where, "threads of the warpgroup give different operands");
    take_registers(op, t, c);
  }
  block.grid().set_last_epoch(g.actor, g.base + target.last);
  if (block.grid().random() % 2 != 0)
    execute_until(g, g.issued());  // early or late: both are legal
}

// The running warp knows that wgmmas below `limit` are complete: their results are its registers.
void retire(Warpgroup& g, u32 limit) {
  Warp& warp = *self->warp;
  if (g.executed < limit) execute_until(g, limit);
  const int first_thread = self->index / 32 * 32 % 128;
  for (auto live = g.live.begin(); live != g.live.end();) {
    Operand* mine = live->owner[std::size_t(first_thread)].d;
    if (live->last < limit && live->last >= warp.done && mine->writing) {
      for (int t = first_thread; t < first_thread + 32; ++t) {
        const WgmmaCall& c = live->owner[std::size_t(t)];
        for (int i = 0; i < c.columns / 2; ++i) c.sums[i] = live->value[place(t, i, c.columns)];
        c.d->writing = false;
      }
      --live->left;
    }
    live = live->left == 0 ? g.live.erase(live) : std::next(live);
  }
  for (; warp.done < limit; ++warp.done) {
    Wgmma& op = g.pending[warp.done - g.first];
    warp.clock.learn_warp(g.actor, g.base + warp.done);
    for (int t = first_thread; t < first_thread + 32; ++t)
      if (op.a[std::size_t(t)] != nullptr) --op.a[std::size_t(t)]->reading;
    if (--op.left == 0)
      self->block->grid().trace(
          {self->block, self->index / 128 * 128, self->role, op.call.where, op.issued});
  }
  for (; !g.pending.empty() && g.pending.front().left == 0; ++g.first) g.pending.pop_front();
}

}  // namespace

void Operand::check(bool writes) const {
  const Where access{"register access", where.site};
  if (writing)
    self->block->report(access, "touches sums that the " + std::string(where.word) +
                                    " issued there is still writing: wgmma.wait_group is missing");
  if (writes && reading != 0)
    self->block->report(access, "changes operand A of a " + std::string(where.word) +
                                    " issued there that is still reading it: wgmma.wait_group is "
                                    "missing");
}

void wgmma_fence(Operand& d, Operand* a, Where where) {
  int nothing = 0;
  self->block->meet(where, nothing, [](int**) { Block::settle(*self->warp); });
  d.touched = false;
  if (a != nullptr) a->touched = false;
}

void wgmma(WgmmaCall call) {
  self->block->meet_warpgroup(call.where, call, [](WgmmaCall** calls) { issue(calls); });
}

void wgmma_commit(Where where) {
  int nothing = 0;
  self->block->meet(where, nothing,
                    [](int**) { self->warp->groups.push_back(self->block->warpgroup().issued()); });
}

void wgmma_wait(u32 pending, Operand& d, Where where) {
  int nothing = 0;
  self->block->meet(where, nothing, [pending](int**) {
    const std::vector<u32>& groups = self->warp->groups;
    if (groups.size() > pending)
      retire(self->block->warpgroup(), groups[groups.size() - pending - 1]);
  });
  if (d.writing)
    self->block->report(where, "its sums are still in flight: their group is among the youngest " +
                                   std::to_string(pending) + ", or was not committed");
}

}  // namespace tessera::emulator
