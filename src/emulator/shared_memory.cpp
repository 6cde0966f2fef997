// Shared memory of a block, and the copies that land there late.
#include "emulator/block.hpp"

#include <cstring>

#include "emulator/grid.hpp"

namespace tessera::emulator {

void Block::write(u32 address, const void* from, u32 bytes, Where where) {
  self->where = where;
  history_.write(address - kSharedBase, bytes, {*self, where});
  std::memcpy(shared_.data() + (address - kSharedBase), from, bytes);
}

void Block::read(u32 address, void* to, u32 bytes, Where where) {
  self->where = where;
  history_.read(address - kSharedBase, bytes, {*self, where});
  std::memcpy(to, shared_.data() + (address - kSharedBase), bytes);
}

void Block::read_as(Thread& lane, u32 address, void* to, Where where) {
  history_.read(address - kSharedBase, 16, {lane, where});
  std::memcpy(to, shared_.data() + (address - kSharedBase), 16);
}

// ---- cp.async ----

void Block::copy(Copy copy, Where where) {
  Thread& me = *self;
  me.where = where;
  if (copy.bytes > 16) report(where, "copies more than 16 bytes");
  if (copy.bytes > 0) grid_.read_global(copy.from, copy.bytes, {me, where, Access::kCopy});
  history_.write(copy.to - kSharedBase, 16, {me, where, Access::kCopy});
  std::memset(shared_.data() + (copy.to - kSharedBase), 0xff, 16);  // NaN until it lands
  copy.group = me.groups;
  me.copies.push_back(copy);
}

void Block::commit() { ++self->groups; }

void Block::land(Copy& copy) {
  std::byte* to = shared_.data() + (copy.to - kSharedBase);
  std::memset(to, 0, 16);
  if (copy.bytes > 0) std::memcpy(to, copy.from, copy.bytes);
  copy.done = true;
}

void Block::wait_copies(u32 pending, Where where) {
  Thread& me = *self;
  me.where = where;
  const auto waited = [&](const Copy& c) { return c.group + pending < me.groups; };
  for (Copy& c : me.copies)
    if (waited(c)) {
      if (!c.done) land(c);
      history_.landed(c.to - kSharedBase, {me, where});
    }
  std::erase_if(me.copies, waited);
}

void Block::land_some() {
  if (grid_.random() % 2 != 0 && engine.land_one()) return;
  Thread& t = threads_[grid_.random() % threads_.size()];
  if (t.copies.empty()) return;
  Copy& c = t.copies[grid_.random() % t.copies.size()];
  if (!c.done) land(c);
}

}  // namespace tessera::emulator
