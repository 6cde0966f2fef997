// Contexts that cannot be made, and failures while one works.
#pragma once
#include <new>
#include <stdexcept>
#include <string>

#include "unit/api/environment.hpp"
#include "unit/api/refusals.hpp"

namespace tessera::test {

using api::Sentence;

// The environment decides where the config does not.
inline Answer create_where(const char* name, const char* value) {
  const Variable variable(name, value);
  tessera_error error = tessera_error_default();
  const TemporaryContext temporary(tessera_context_config_default(), &error);
  return {temporary.status, error.message};
}

inline void* allocate_nothing(void*, std::uint64_t, std::uint64_t) { return nullptr; }
inline void* allocate_badly(void*, std::uint64_t, std::uint64_t) { throw std::bad_alloc(); }
inline void* allocate_oddly(void*, std::uint64_t, std::uint64_t) {
  throw std::runtime_error("odd");
}
inline void* allocate_number(void*, std::uint64_t, std::uint64_t) { throw 7; }
inline void release_nothing(void*, void*, std::uint64_t) {}

// A run time whose team is the caller alone.
inline void run_alone(void (*body)(void*), void* argument, unsigned, unsigned) { body(argument); }
inline int first_thread() { return 0; }
inline int one_thread() { return 1; }

// A context on an OpenMP run time with some fault.
template <class Change> Answer create_on_openmp(const Change& change) {
  tessera_openmp openmp = tessera_openmp_default();
  openmp.threads = 2, openmp.parallel = run_alone;
  openmp.thread_num = first_thread, openmp.num_threads = one_thread;
  tessera_context_config config = tessera_context_config_default();
  config.threads = 2;
  config.executor = {tessera_openmp_parallel_for, &openmp};
  change(config, openmp);
  tessera_error error = tessera_error_default();
  const TemporaryContext temporary(config, &error);
  return {temporary.status, error.message};
}

inline const Refusals kRefusedContexts = {
    {Sentence::kOpenmp,
     "no OpenMP run time",
     {},
     [](const Subject&) {
       return create_on_openmp(
           [](tessera_context_config& c, tessera_openmp&) { c.executor.user = nullptr; });
     }},
    {Sentence::kOpenmp,
     "an OpenMP run time whose size was never set",
     {},
     [](const Subject&) {
       return create_on_openmp([](tessera_context_config&, tessera_openmp& o) { o.size = 0; });
     }},
    {Sentence::kOpenmp,
     "an OpenMP run time without a function",
     {},
     [](const Subject&) {
       return create_on_openmp(
           [](tessera_context_config&, tessera_openmp& o) { o.num_threads = nullptr; });
     }},
    {Sentence::kOpenmp,
     "an OpenMP team of another size",
     {},
     [](const Subject&) {
       return create_on_openmp([](tessera_context_config&, tessera_openmp& o) { o.threads = 3; });
     }},
    {Sentence::kThreads, "negative threads", [](Subject& s) { s.config.threads = -1; }},
    {Sentence::kThreads, "too many threads", [](Subject& s) { s.config.threads = 1025; }},
    {Sentence::kThreadsVariable,
     "a word in TESSERA_THREADS",
     {},
     [](const Subject&) { return create_where("TESSERA_THREADS", "two"); }},
    {Sentence::kThreadsVariable,
     "0 in TESSERA_THREADS",
     {},
     [](const Subject&) { return create_where("TESSERA_THREADS", "0"); }},
    {Sentence::kThreadsVariable,
     "a number and more in TESSERA_THREADS",
     {},
     [](const Subject&) { return create_where("TESSERA_THREADS", "2 "); }},
    {Sentence::kThreadsVariable,
     "more digits than an int holds in TESSERA_THREADS",
     {},
     [](const Subject&) { return create_where("TESSERA_THREADS", std::string(600, '9').c_str()); }},
    {Sentence::kTarget, "cpu_target", [](Subject& s) { s.config.cpu_target = "avx1024"; }},
    {Sentence::kTarget, "an empty cpu_target", [](Subject& s) { s.config.cpu_target = ""; }},
    {Sentence::kTarget,
     "TESSERA_CPU",
     {},
     [](const Subject&) { return create_where("TESSERA_CPU", "AVX2"); }},
    {Sentence::kAllocator, "allocate without release",
     [](Subject& s) { s.config.allocator = {allocate_nothing, nullptr, nullptr}; }},
    {Sentence::kAllocator, "release without allocate",
     [](Subject& s) { s.config.allocator = {nullptr, release_nothing, nullptr}; }},
    {Sentence::kWorkspaceMemory, "an allocator that has nothing",
     [](Subject& s) { s.config.allocator = {allocate_nothing, release_nothing, nullptr}; }},
    {Sentence::kNoMemory, "an allocator that throws bad_alloc",
     [](Subject& s) { s.config.allocator = {allocate_badly, release_nothing, nullptr}; }},
    {Sentence::kUnexpected, "an allocator that throws something else",
     [](Subject& s) { s.config.allocator = {allocate_oddly, release_nothing, nullptr}; }},
    {Sentence::kUnexpected, "an allocator that throws a number",
     [](Subject& s) { s.config.allocator = {allocate_number, release_nothing, nullptr}; }},
};

}  // namespace tessera::test
