// A thread of a block: a stack of its own and a switch of a dozen instructions.
#pragma once
#include <cstddef>
#include <functional>

namespace tessera::emulator {

class Fiber {
 public:
  explicit Fiber(std::size_t color);  // staggers the tops of stacks, which would share cache sets
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // What resume() runs. `body` must not throw, and outlives the fiber's run.
  void start(const std::function<void()>& body);
  void resume();  // from the scheduler, until the fiber pauses or ends
  void pause();   // from the fiber, back to the scheduler
  bool ended() const { return ended_; }

 private:
  static void enter();

  const std::function<void()>* body_ = nullptr;
  std::byte* memory_;
  std::size_t color_;
  void* stack_ = nullptr;                   // where it stopped
  void* scheduler_ = nullptr;               // where the scheduler stopped
  const void* scheduler_bottom_ = nullptr;  // for AddressSanitizer
  std::size_t scheduler_size_ = 0;
  bool ended_ = true;
};

}  // namespace tessera::emulator
