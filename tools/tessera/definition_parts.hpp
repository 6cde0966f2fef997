// A definition in parts: one for each head, or for the heads that share one of k and v.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>

#include "tessera/tessera.h"

namespace tessera::tool {

// Heads of one batch entry that read the same head of k and v.
struct Part {
  std::int64_t batch, head, heads;
};

// Entries [first, first + count) of a dimension; all of it where it has size 1 (or stride 0).
void narrow(tessera_tensor& t, int dimension, std::int64_t first, std::int64_t count = 1);

// Whether a call is the sum of its parts: dropout counts batches and heads, and the rows of a
// packed, paged or cached sequence lie anywhere.
bool can_be_cut(const tessera_attention_desc& desc);

// The call of one part.
tessera_attention_desc narrowed(tessera_attention_desc desc, const Part& part);

// Parts 0 to total - 1, taken by whichever thread is free, with a progress line on a terminal.
class Parts {
 public:
  using Compute = std::function<void(std::int64_t part)>;
  Parts(std::int64_t total, Compute compute) : total_(total), compute_(std::move(compute)) {}

  // Throws what one of them threw.
  void run(const std::string& label, int threads);

 private:
  template <class Tell> void work(Tell tell);

  const std::int64_t total_;
  const Compute compute_;
  std::atomic<std::int64_t> next_{0}, done_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

// The threads of the options, or of the machine.
int threads_for_definition(int threads);

}  // namespace tessera::tool
