#include "emulator/history.hpp"

#include <algorithm>
#include <utility>

#include "emulator/block.hpp"

namespace tessera::emulator {
namespace {

constexpr std::size_t kGranule = 16;

u16 mask_of(std::size_t first, std::size_t count) { return u16(((1u << count) - 1) << first); }

}  // namespace

Event Access::event() const { return ends ? *ends : by.now(); }

bool Access::knows(Event e) const {
  if (together.empty()) return by.knows(e);
  return std::all_of(together.begin(), together.end(),
                     [e](const Warp* w) { return w->clock.knows(e); });
}

bool Access::knows_behind_fence(Event e) const {
  if (together.empty()) return by.knows_behind_fence(e);
  return std::all_of(together.begin(), together.end(),
                     [e](const Warp* w) { return w->clock.fenced.knows(e); });
}

History::History(std::string name, std::size_t bytes, bool defined)
    : name_(std::move(name)),
      size_(bytes),
      defined_(defined),
      pages_(bytes / kGranule / kPage + 1) {}

History::Granule& History::granule(std::size_t i) {
  Page& page = pages_[i / kPage];
  if (page.empty()) [[unlikely]] {
    page.resize(kPage);
    if (defined_)
      for (Granule& g : page) g.defined = 0xffff;
  }
  return page[i % kPage];
}

void History::fail(const Access& access, const char* verb, std::size_t at,
                   const std::string& why) const {
  access.by.block->report(access.where,
                          std::string(verb) + " " + name_ + " at byte " + std::to_string(at) + why);
}

void History::check_bounds(std::size_t at, std::size_t bytes, const Access& access) const {
  if (at > size_ || bytes > size_ - at)
    fail(access, "touches", at,
         ", which is out of bounds: it has " + std::to_string(size_) + " bytes");
  const std::size_t unit = access.kind == Access::kCopy ? kGranule : bytes;
  if (unit <= kGranule && at % unit != 0)
    fail(access, "touches", at, ", which is not a multiple of " + std::to_string(unit));
}

template <class Visit> void History::each_part(std::size_t at, std::size_t bytes, Visit visit) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t first = (at + done) % kGranule;
    const std::size_t count = std::min(kGranule - first, bytes - done);
    visit(Part{granule((at + done) / kGranule), mask_of(first, count), at + done});
    done += count;
  }
}

// An earlier access and this one, of which one writes, are in order. Between an ordinary access and
// one of the async proxy a proxy fence must stand (PTX ISA, "Memory Consistency Model",
// proxy-preserved base causality order); what the async proxy did is known by how it ended.
bool History::in_order(const Record& r, const Access& access) {
  if (r.kind == Access::kAtomic && access.kind == Access::kAtomic) return true;
  const bool crosses = access.kind == Access::kAsync && r.kind != Access::kAsync;
  return crosses ? access.knows_behind_fence(r.event) : access.knows(r.event);
}

void History::fail_order(const Part& part, const Record& r, const Access& access, Clash c) const {
  const std::string who = access.by.block->name_of(r.event.thread, r.site);
  if (r.kind == Access::kCopy)
    fail(access, c.verb, part.at,
         " while the cp.async of " + who +
             " may be writing it: that has not been waited for (cp.async.wait_group)");
  if (r.kind == Access::kAsync)
    fail(access, c.verb, part.at,
         " while " + who + " may still " + c.other_verb + " it: that has not been waited for");
  const std::string other = std::string(c.other_noun) + " of " + who;
  if (!access.knows(r.event)) fail(access, c.verb, part.at, " in a race with the " + other);
  fail(access, c.verb, part.at, ": fence.proxy.async is missing after the " + other);
}

void History::check_writes(const Part& part, const Access& access, const char* verb) const {
  if (part.granule.barriers & part.bytes) fail(access, verb, part.at, ", where an mbarrier lives");
  for (const Record& r : part.granule.writes)
    if ((r.bytes & part.bytes) && (r.kind == Access::kCopy || !in_order(r, access)))
      fail_order(part, r, access, {verb, "write", "store"});
}

void History::check_reads(const Part& part, const Access& access) const {
  for (const Record& r : part.granule.reads)
    if ((r.bytes & part.bytes) && !in_order(r, access))
      fail_order(part, r, access, {"overwrites", "read", "load"});
}

void History::check_mode(const Part& part, const Access& access) const {
  const auto& mode = part.granule.mode;
  if (access.mode && mode && *access.mode != *mode)
    fail(access, "reads", part.at,
         " with swizzle mode " + std::to_string(u32(*access.mode)) +
             ", but the copy engine wrote it with mode " + std::to_string(u32(*mode)));
}

void History::read(std::size_t at, std::size_t bytes, const Access& access) {
  check_bounds(at, bytes, access);
  each_part(at, bytes, [&](const Part& part) {
    check_writes(part, access, "reads");
    Granule& g = part.granule;
    if ((g.defined & part.bytes) != part.bytes)
      fail(access, "reads", part.at, ", which nobody has written");
    check_mode(part, access);
    const Record mine{access.event(), access.where.site, part.bytes, access.kind};
    // A later read of the warp that covers an earlier one stands for it: who knows this one knows
    // that one too. So does a later multiplication of a warpgroup.
    for (Record& r : g.reads)
      if (r.event.warp() == mine.event.warp() && (r.bytes & ~mine.bytes) == 0 &&
          r.kind == mine.kind && (r.kind == Access::kAsync || access.knows(r.event))) {
        r = mine;
        return;
      }
    g.reads.push_back(mine);
  });
}

void History::write(std::size_t at, std::size_t bytes, const Access& access) {
  check_bounds(at, bytes, access);
  each_part(at, bytes, [&](const Part& part) {
    check_writes(part, access, "overwrites");
    check_reads(part, access);
    Granule& g = part.granule;
    for (auto* records : {&g.writes, &g.reads}) {
      for (Record& r : *records) r.bytes = u16(r.bytes & ~part.bytes);
      std::erase_if(*records, [](const Record& r) { return r.bytes == 0; });
    }
    g.writes.push_back({access.event(), access.where.site, part.bytes, access.kind});
    g.defined |= part.bytes;
    g.mode.reset();
  });
}

void History::landed(std::size_t at, const Access& access) {
  for (Record& r : granule(at / kGranule).writes)
    if (r.kind == Access::kCopy && r.event.thread == access.by.id)
      r = {access.by.now(), access.where.site, r.bytes, Access::kOrdinary};
}

void History::landed(std::size_t at, Event ends, device::Swizzle mode) {
  Granule& g = granule(at / kGranule);
  g.mode = mode;
  for (Record& r : g.writes)
    if (r.kind == Access::kAsync && r.event.thread == ends.thread) r.event = ends;
}

void History::settle_barrier(std::size_t at, const Access& access) {
  check_bounds(at, 8, access);
  each_part(at, 8, [&](const Part& part) {
    check_writes(part, access, "overwrites");
    check_reads(part, access);
    part.granule.barriers |= part.bytes;
  });
}

}  // namespace tessera::emulator
