#include "emulator/block.hpp"

#include <algorithm>
#include <cstring>

#include "emulator/grid.hpp"

namespace tessera::emulator {

constinit thread_local Thread* self = nullptr;

std::string place_of(Site site) {
  if (site.file == nullptr) return "its start";
  const char* slash = std::strrchr(site.file, '/');
  return std::string(slash != nullptr ? slash + 1 : site.file) + ":" + std::to_string(site.line);
}

Block::Block(Grid& grid, Index3 at, u32 first_warp)
    : grid_(grid),
      at_(at),
      threads_(std::size_t(grid.launch().threads)),
      warps_(threads_.size() / 32),
      shared_(grid.launch().shared_bytes, std::byte{0xff}),
      history_("shared memory", grid.launch().shared_bytes, false) {
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    Thread& t = threads_[i];
    Warp& w = warps_[i / 32];
    w.id = first_warp + u32(i / 32);
    t.id = w.id * 32 + u32(i % 32);
    t.index = int(i);
    t.warp = &w;
    t.block = this;
    w.lanes[i % 32] = &t;
    w.ready.push_back(&t);
  }
  for (Warp& w : warps_) w.priority = grid.random();
  // What a kernel is given at launch: an equal share of an SM's registers, in eights.
  const int registers = std::min(65536 / int(threads_.size()) / 8 * 8, 255);
  for (Warp& w : warps_) w.registers = registers;
  for (std::size_t g = 0; 4 * g + 3 < warps_.size(); ++g) {
    Warpgroup& group = warpgroups_.emplace_back();
    for (std::size_t i = 0; i < 4; ++i) group.warps[i] = &warps_[4 * g + i];
    group.actor = add_actor("the wgmma of warpgroup " + std::to_string(g));
    group.base = grid.last_epoch(group.actor) + 1;
  }
}

Block::~Block() {
  for (const u32 actor : actors_) grid_.free_actor(actor);
}

u32 Block::add_actor(const std::string& name) {
  return actors_.emplace_back(grid_.add_actor(name));
}

Warpgroup& Block::warpgroup() { return warpgroups_[std::size_t(self->index / 128)]; }

void Block::start(const std::function<void()>& body, std::deque<Fiber>& fibers) {
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    threads_[i].fiber = &fibers[i];
    fibers[i].start(body);
  }
}

bool Block::ended() const {
  return std::all_of(threads_.begin(), threads_.end(),
                     [](const Thread& t) { return t.fiber->ended(); });
}

const Thread* Block::find(u32 thread) const {
  const u32 i = thread - threads_.front().id;
  return thread >= threads_.front().id && i < threads_.size() ? &threads_[i] : nullptr;
}

void Block::pause() {
  Thread* me = self;
  me->fiber->pause();
}

void Block::report(Where where, const std::string& what) const {
  std::string who =
      "block " + std::to_string(at_.x) + "," + std::to_string(at_.y) + "," + std::to_string(at_.z);
  if (self != nullptr)
    who = std::string(self->role) + " " + std::to_string(self->index) + ", " + who;
  throw Violation(std::string(where.word) + " at " + place_of(where.site) + " (" + who +
                  "): " + what);
}

std::string Block::name_of(u32 thread, Site site) const { return grid_.name_of(thread, site); }

void Block::check_exit(Thread& thread) {
  const Where exit{"exit", thread.where.site};
  if (!thread.copies.empty()) report(exit, "ends without waiting for its cp.async");
  engine.check_exit(thread);
  if (std::size_t(thread.index / 128) < warpgroups_.size() &&
      thread.warp->done < warpgroup().issued())
    report(exit, "ends without waiting for its wgmmas (wgmma.wait_group)");
  const auto others = std::count_if(threads_.begin(), threads_.end(), [&](const Thread& t) {
    return &t != &thread && !t.fiber->ended();
  });
  if (others != 0) return;
  while (engine.land_one()) {}
  engine.check_end();
  check_visits();
}

}  // namespace tessera::emulator
