#include "emulator/history.hpp"

#include <algorithm>
#include <utility>

#include "emulator/block.hpp"

namespace tessera::emulator {
namespace {

constexpr std::size_t kGranule = 16;

u16 mask_of(std::size_t first, std::size_t count) { return u16(((1u << count) - 1) << first); }

}  // namespace

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

// Two accesses of which one writes are in order, or both are atomic.
void History::check_writes(const Part& part, const Access& access, const char* verb) const {
  for (const Record& r : part.granule.writes) {
    if (!(r.bytes & part.bytes)) continue;
    if (r.kind == Access::kCopy)
      fail(access, verb, part.at,
           " while the cp.async of " + access.by.block->name_of(r.event.thread, r.site) +
               " may be writing it: that has not been waited for (cp.async.wait_group)");
    const bool both_atomic = r.kind == Access::kAtomic && access.kind == Access::kAtomic;
    if (!both_atomic && !access.by.knows(r.event))
      fail(access, verb, part.at,
           " in a race with the store of " + access.by.block->name_of(r.event.thread, r.site));
  }
}

void History::check_reads(const Part& part, const Access& access) const {
  for (const Record& r : part.granule.reads) {
    const bool both_atomic = r.kind == Access::kAtomic && access.kind == Access::kAtomic;
    if ((r.bytes & part.bytes) && !both_atomic && !access.by.knows(r.event))
      fail(access, "overwrites", part.at,
           " in a race with the load of " + access.by.block->name_of(r.event.thread, r.site));
  }
}

void History::read(std::size_t at, std::size_t bytes, const Access& access) {
  check_bounds(at, bytes, access);
  each_part(at, bytes, [&](const Part& part) {
    check_writes(part, access, "reads");
    Granule& g = part.granule;
    if ((g.defined & part.bytes) != part.bytes)
      fail(access, "reads", part.at, ", which nobody has written");
    const Record mine{access.by.now(), access.where.site, part.bytes, access.kind};
    // A later read of the warp that covers an earlier one stands for it: who knows this one knows
    // that one too.
    for (Record& r : g.reads)
      if (r.event.warp() == mine.event.warp() && (r.bytes & ~mine.bytes) == 0 &&
          r.kind == mine.kind && access.by.knows(r.event)) {
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
    g.writes.push_back({access.by.now(), access.where.site, part.bytes, access.kind});
    g.defined |= part.bytes;
  });
}

void History::landed(std::size_t at, const Access& access) {
  for (Record& r : granule(at / kGranule).writes)
    if (r.kind == Access::kCopy && r.event.thread == access.by.id)
      r = {access.by.now(), access.where.site, r.bytes, Access::kOrdinary};
}

}  // namespace tessera::emulator
