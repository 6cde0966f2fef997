// Memory that knows what happened to it: for each byte who wrote it, who has read it since, and
// whether an asynchronous copy is still on its way there.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emulator/clock.hpp"
#include "emulator/report.hpp"

namespace tessera::emulator {

struct Thread;
struct Warp;

// What a word does to memory.
struct Access {
  // kAsync: through the async proxy, by the copy engine or the tensor core of a warpgroup.
  enum Kind : unsigned char { kOrdinary, kAtomic, kCopy, kAsync };
  Thread& by;
  Where where;
  Kind kind = kOrdinary;
  std::optional<Event> ends = {};            // the event by which others know that it is over
  std::span<Warp* const> together = {};      // each of these must know what came before, not `by`
  std::optional<device::Swizzle> mode = {};  // by which a tensor core finds its operand

  bool knows(Event e) const;
  bool knows_behind_fence(Event e) const;
  Event event() const;
};

class History {
 public:
  // `name` is how reports call the memory; `defined`: somebody wrote it before the kernel began.
  History(std::string name, std::size_t bytes, bool defined);

  std::size_t size() const { return size_; }

  // Reports an access outside, a byte that nobody has written, a race, or a copy not waited for.
  void read(std::size_t at, std::size_t bytes, const Access& access);
  void write(std::size_t at, std::size_t bytes, const Access& access);
  // The copy to these 16 bytes has been waited for: from now on it is a store of its thread.
  void landed(std::size_t at, const Access& access);
  // The copy engine has written these 16 bytes, in a phase that ends with the event.
  void landed(std::size_t at, Event ends, device::Swizzle mode);
  // An mbarrier lives in these eight bytes from now on.
  void settle_barrier(std::size_t at, const Access& access);

 private:
  struct Record {
    Event event;
    Site site;
    u16 bytes;  // which of the 16
    Access::Kind kind;
  };
  struct Granule {  // 16 bytes
    std::vector<Record> writes, reads;
    u16 defined = 0, barriers = 0;
    std::optional<device::Swizzle> mode = {};  // by which the copy engine wrote it
  };
  // Made when something happens there: tensors may reach further than there is memory.
  using Page = std::vector<Granule>;
  static constexpr std::size_t kPage = 1024;
  struct Part {  // of an access: what falls into one granule
    Granule& granule;
    u16 bytes;
    std::size_t at;
  };

  Granule& granule(std::size_t i);
  template <class Visit> void each_part(std::size_t at, std::size_t bytes, Visit visit);
  void check_bounds(std::size_t at, std::size_t bytes, const Access& access) const;
  struct Clash {  // how a report names two accesses
    const char *verb, *other_verb, *other_noun;
  };
  static bool in_order(const Record& record, const Access& access);
  [[noreturn]] void fail_order(const Part& part, const Record& record, const Access& access,
                               Clash clash) const;
  void check_mode(const Part& part, const Access& access) const;
  void check_writes(const Part& part, const Access& access, const char* verb) const;
  void check_reads(const Part& part, const Access& access) const;
  [[noreturn]] void fail(const Access& access, const char* verb, std::size_t at,
                         const std::string& why) const;

  std::string name_;
  std::size_t size_;
  bool defined_;
  std::vector<Page> pages_;
};

}  // namespace tessera::emulator
