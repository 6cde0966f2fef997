#include "emulator/fiber.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <new>

// Present in a program that AddressSanitizer watches, absent elsewhere.
extern "C" {
[[gnu::weak]] void __sanitizer_start_switch_fiber(void**, const void*, std::size_t);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void*, const void**, std::size_t*);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void*, std::size_t);

void tessera_fiber_switch(void** save, void* load);
}

namespace tessera::emulator {
namespace {

constexpr std::size_t kStack = 256 * 1024, kGuard = 4096;
constinit thread_local Fiber* running = nullptr;

}  // namespace

Fiber::Fiber(std::size_t color) : color_(color % 32 * 192) {
  void* memory = mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<std::byte*>(memory);
  mprotect(memory_, kGuard, PROT_NONE);
}

Fiber::~Fiber() { munmap(memory_, kGuard + kStack); }

void Fiber::start(const std::function<void()>& body) {
  body_ = &body;
  ended_ = false;
  if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(memory_ + kGuard, kStack);
  auto* top = reinterpret_cast<std::uintptr_t*>(memory_ + kGuard + kStack - color_ - 64);
  *--top = 0;  // the return address of enter(), which never returns
  *--top = reinterpret_cast<std::uintptr_t>(&Fiber::enter);
  for (int i = 0; i < 6; ++i) *--top = 0;  // what the switch pops
  stack_ = top;
}

void Fiber::resume() {
  void* fake = nullptr;
  if (__sanitizer_start_switch_fiber)
    __sanitizer_start_switch_fiber(&fake, memory_ + kGuard, kStack);
  running = this;
  tessera_fiber_switch(&scheduler_, stack_);
  if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
}

void Fiber::pause() {
  void* fake = nullptr;
  if (__sanitizer_start_switch_fiber)
    __sanitizer_start_switch_fiber(ended_ ? nullptr : &fake, scheduler_bottom_, scheduler_size_);
  tessera_fiber_switch(&stack_, scheduler_);
  if (__sanitizer_finish_switch_fiber)
    __sanitizer_finish_switch_fiber(fake, &scheduler_bottom_, &scheduler_size_);
}

void Fiber::enter() {
  Fiber* self = running;
  if (__sanitizer_finish_switch_fiber)
    __sanitizer_finish_switch_fiber(nullptr, &self->scheduler_bottom_, &self->scheduler_size_);
  (*self->body_)();
  self->ended_ = true;
  self->pause();
}

}  // namespace tessera::emulator
