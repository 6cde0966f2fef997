// An executor on the threads of an OpenMP run time that the process has.
#include <cstdint>

#include "tessera/tessera.h"

namespace {

struct Round {
  const tessera_openmp& openmp;
  std::int32_t workers;
  void (*body)(void* argument, std::int32_t worker);
  void* argument;
};

// What each thread of the team does. It may have fewer threads than were asked for.
void take_part(void* round) {
  const auto& [openmp, workers, body, argument] = *static_cast<const Round*>(round);
  const int team = openmp.num_threads();
  for (std::int32_t w = openmp.thread_num(); w < workers; w += team) body(argument, w);
}

}  // namespace

// The whole team every time, also for fewer workers: a smaller one would end the other threads.
extern "C" void tessera_openmp_parallel_for(void* user, int32_t workers,
                                            void (*body)(void* argument, int32_t worker),
                                            void* argument) {
  const auto& openmp = *static_cast<const tessera_openmp*>(user);
  Round round{openmp, workers, body, argument};
  openmp.parallel(take_part, &round, unsigned(openmp.threads), 0);
}
