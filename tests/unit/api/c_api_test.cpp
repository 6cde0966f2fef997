// The exported functions from outside: results, edges, texts, and memory that the host lends.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tessera/version.h"
#include "unit/api/environment.hpp"
#include "unit/api/subject.hpp"

namespace tessera::test {
namespace {

using nlohmann::json;

float* floats(const tessera_tensor& t) { return static_cast<float*>(t.data); }

// ---- Results and edges ----

// All keys are alike, so each weight is 1/3 and each output is the value itself.
TEST(Attention, FillsTheOutputs) {
  const Subject s;
  const Answer answer = attend(s);
  ASSERT_EQ(answer.status, TESSERA_OK) << answer.message;
  EXPECT_EQ(answer.message, "");
  const double score = 8 * 0.25 * 0.5 / std::sqrt(8.);
  for (int i = 0; i < 2 * 3 * 4 * 5; ++i) EXPECT_FLOAT_EQ(floats(s.desc.out)[i], 2.f);
  for (int i = 0; i < 2 * 4 * 3; ++i)
    EXPECT_FLOAT_EQ(floats(s.desc.lse)[i], float(score + std::log(3.)));
}

TEST(Attention, EverySizeThatMayBe0IsFine) {
  const auto empty = [](Subject& s, std::initializer_list<std::int64_t*> sizes) {
    for (std::int64_t* size : sizes) *size = 0;
    return attend(s);
  };
  Subject b, q, h;
  auto& d = b.desc;
  EXPECT_EQ(
      empty(b, {&d.q.shape[0], &d.k.shape[0], &d.v.shape[0], &d.out.shape[0], &d.lse.shape[0]})
          .message,
      "");
  EXPECT_EQ(empty(q, {&q.desc.q.shape[1], &q.desc.out.shape[1], &q.desc.lse.shape[2]}).message, "");
  EXPECT_EQ(empty(h, {&h.desc.q.shape[2], &h.desc.k.shape[2], &h.desc.v.shape[2],
                      &h.desc.out.shape[2], &h.desc.lse.shape[1]})
                .message,
            "");
  for (const Subject* s : {&b, &q, &h}) EXPECT_TRUE(s->outputs_untouched());
}

TEST(Attention, WithoutKeysTheOutputIs0) {
  Subject s;
  s.desc.k.shape[1] = s.desc.v.shape[1] = 0;
  s.desc.k.data = s.desc.v.data = nullptr;
  ASSERT_EQ(attend(s).status, TESSERA_OK);
  for (int i = 0; i < 2 * 3 * 4 * 5; ++i) EXPECT_EQ(floats(s.desc.out)[i], 0.f);
  for (int i = 0; i < 2 * 4 * 3; ++i) EXPECT_EQ(floats(s.desc.lse)[i], -INFINITY);
}

TEST(Attention, TheReferenceReportsTheLargestScore) {
  Subject s;
  double score_max = -1;
  s.desc.backend = TESSERA_BACKEND_REFERENCE;
  s.desc.score_max = &score_max;
  ASSERT_EQ(attend(s).status, TESSERA_OK);
  EXPECT_NEAR(score_max, 8 * 0.25 * 0.5 / std::sqrt(8.), 1e-7);
}

TEST(Attention, AnErrorIsOptional) {
  Subject s;
  const TemporaryContext temporary(s.config);
  EXPECT_EQ(tessera_attention(temporary.context, &s.desc, nullptr), TESSERA_OK);
  s.desc.flags = 4;
  EXPECT_EQ(tessera_attention(temporary.context, &s.desc, nullptr), TESSERA_INVALID_ARGUMENT);
}

TEST(Attention, ACallerOfTomorrowWhoUsesNothingNewIsServed) {
  const Subject s;
  struct {
    tessera_attention_desc desc;
    std::uint64_t tomorrow[3];
  } newer{s.desc, {}};
  newer.desc.size = sizeof newer;
  const TemporaryContext temporary(s.config);
  EXPECT_EQ(tessera_attention(temporary.context, &newer.desc, nullptr), TESSERA_OK);
  EXPECT_FALSE(s.outputs_untouched());
}

// ---- Memory and threads of the host ----

// Counts what is lent and not yet returned.
struct Lender {
  std::map<void*, std::uint64_t> lent;
  int times = 0;

  static void* allocate(void* user, std::uint64_t bytes, std::uint64_t alignment) {
    auto& self = *static_cast<Lender*>(user);
    void* memory = ::operator new(bytes, std::align_val_t(alignment));
    self.lent[memory] = bytes;
    ++self.times;
    return memory;
  }
  static void release(void* user, void* memory, std::uint64_t bytes) {
    auto& self = *static_cast<Lender*>(user);
    EXPECT_EQ(self.lent.at(memory), bytes);
    self.lent.erase(memory);
    ::operator delete(memory, std::align_val_t(64));
  }
};

TEST(Attention, ScratchComesFromTheAllocatorAndGoesBack) {
  Lender lender;
  Subject s;
  s.config.allocator = {Lender::allocate, Lender::release, &lender};
  ASSERT_EQ(attend(s).status, TESSERA_OK);
  EXPECT_GE(lender.times, 1);
  EXPECT_TRUE(lender.lent.empty());
}

TEST(Attention, AWorkspaceReplacesTheAllocator) {
  Lender lender;
  Subject s;
  s.config.allocator = {Lender::allocate, Lender::release, &lender};
  s.desc.workspace = s.workspace();
  s.desc.workspace_bytes = 65536;
  ASSERT_EQ(attend(s).status, TESSERA_OK);
  EXPECT_EQ(lender.times, 0);
  EXPECT_FALSE(s.outputs_untouched());
}

void run_all(void* user, std::int32_t workers, void (*body)(void*, std::int32_t), void* argument) {
  *static_cast<std::int32_t*>(user) = workers;
  for (std::int32_t w = workers; w-- > 0;) body(argument, w);
}

// Long enough to be worth 3 workers.
TEST(Attention, WorkersComeFromTheExecutor) {
  Subject s;
  constexpr std::int64_t kLength = 400;
  const std::vector<float> zeros(kLength * 4 * 32);
  for (tessera_tensor* t : {&s.desc.q, &s.desc.k, &s.desc.v, &s.desc.out})
    *t = s.hold(zeros, {1, kLength, 4, 32});
  s.desc.lse = tessera_tensor_default();
  std::int32_t workers = 0;
  s.config.threads = 3;
  s.config.executor = {run_all, &workers};
  ASSERT_EQ(attend(s).status, TESSERA_OK);
  EXPECT_EQ(workers, 3);
}

// ---- Threads of an OpenMP run time ----

// A run time whose teams have at most so many threads, whatever is asked for.
thread_local int thread_num = 0;
std::atomic<int> most_threads = 0, team_asked_for = 0;

void run_team(void (*body)(void*), void* argument, unsigned threads, unsigned flags) {
  EXPECT_EQ(flags, 0u);
  team_asked_for = int(threads);
  std::vector<std::thread> others;
  for (int n = 1; n < most_threads; ++n)
    others.emplace_back([=] { thread_num = n, body(argument); });
  body(argument);
  for (std::thread& t : others) t.join();
}

TEST(OpenMP, EachWorkerRunsOnceWhateverTheTeam) {
  tessera_openmp openmp = tessera_openmp_default();
  openmp.threads = 5, openmp.parallel = run_team;
  openmp.thread_num = [] { return thread_num; };
  openmp.num_threads = [] { return most_threads.load(); };
  for (const int team : {1, 2, 5, 8})
    for (const std::int32_t workers : {0, 1, 4, 5}) {
      most_threads = team;
      std::array<std::atomic<int>, 8> runs{};
      tessera_openmp_parallel_for(
          &openmp, workers,
          [](void* argument, std::int32_t w) {
            ++(*static_cast<std::array<std::atomic<int>, 8>*>(argument))[std::size_t(w)];
          },
          &runs);
      EXPECT_EQ(team_asked_for, 5);
      for (std::int32_t w = 0; w < 8; ++w)
        EXPECT_EQ(runs[std::size_t(w)], w < workers ? 1 : 0) << "worker " << w << ", team " << team;
    }
}

// ---- Texts ----

template <class Function> std::string text_of(const Function& function) {
  std::uint64_t needed = 0;
  EXPECT_EQ(function(nullptr, 0, &needed), TESSERA_OK);
  std::string text(needed, '#');
  EXPECT_EQ(function(text.data(), needed, nullptr), TESSERA_OK);
  EXPECT_EQ(text.back(), '\0');  // needed counts the 0 at the end
  text.pop_back();
  EXPECT_EQ(text.find('\0'), text.npos);
  return text;
}

json described(const tessera_context_config& config) {
  const TemporaryContext temporary(config);
  return json::parse(text_of([&](char* buffer, std::uint64_t capacity, std::uint64_t* needed) {
    return tessera_context_describe(temporary.context, buffer, capacity, needed, nullptr);
  }));
}

json described_plan(const Subject& s) {
  const TemporaryContext temporary(s.config);
  return json::parse(text_of([&](char* buffer, std::uint64_t capacity, std::uint64_t* needed) {
    return tessera_plan_describe(temporary.context, &s.desc, buffer, capacity, needed, nullptr);
  }));
}

TEST(Describe, ThePlanSaysWhatRunsAndWhy) {
  Subject s;
  EXPECT_EQ(described_plan(s)["backend"], "cpu");
  for (tessera_tensor* t : {&s.desc.q, &s.desc.k, &s.desc.v, &s.desc.out}) {
    t->dtype = TESSERA_FLOAT64;
    t->data = nullptr;  // there is none of that size
  }
  const json plan = described_plan(s);
  EXPECT_EQ(plan["backend"], "reference");
  EXPECT_EQ(plan["why_backend"], "float64");
  EXPECT_TRUE(s.outputs_untouched());
}

TEST(Describe, ThePlanNeedsNoDataAndRefusesAsTheCallDoes) {
  Subject s;
  s.desc.q.data = s.desc.k.data = s.desc.v.data = s.desc.out.data = nullptr;
  EXPECT_EQ(described_plan(s)["problem"]["heads"], 4);
  s.desc.scale = -1;
  const TemporaryContext temporary(s.config);
  tessera_error error = tessera_error_default();
  EXPECT_EQ(tessera_plan_describe(temporary.context, &s.desc, nullptr, 0, nullptr, &error),
            TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(error.message).substr(0, 11), "scale is -1");
}

// The workspace that the plan tells is enough, and one byte less is not.
TEST(Describe, ThePlanTellsTheWorkspace) {
  Subject s;
  const auto bytes = described_plan(s)["workspace_bytes"].get<std::uint64_t>();
  s.desc.workspace = s.workspace();
  s.desc.workspace_bytes = bytes - 1;
  EXPECT_EQ(attend(s).status, TESSERA_INVALID_ARGUMENT);
  s.desc.workspace_bytes = bytes;
  EXPECT_EQ(attend(s).status, TESSERA_OK);
}

TEST(Describe, ShortBuffersAreCutOff) {
  const Subject s;
  const TemporaryContext temporary(s.config);
  char buffer[9] = "########";
  std::uint64_t needed = 0;
  EXPECT_EQ(tessera_context_describe(temporary.context, buffer, 5, &needed, nullptr), TESSERA_OK);
  EXPECT_STREQ(buffer, "{\"ve");
  EXPECT_EQ(buffer[5], '#');
  EXPECT_GT(needed, 5u);
}

// On any machine: with a GPU or without, and in builds without the GPU part.
TEST(Describe, TheGpusOrWhyThereAreNone) {
  const json c =
      json::parse(text_of([](char* buffer, std::uint64_t capacity, std::uint64_t* needed) {
        return tessera_gpus_describe(buffer, capacity, needed, nullptr);
      }));
  EXPECT_EQ(c["devices"].empty(), c["driver"].contains("why_not"));
  EXPECT_NE(c["driver"].contains("why_not"), c["driver"].contains("version"));
}

TEST(Describe, TheContextNamesItsVersionTargetsAndBuild) {
  const json c = described(tessera_context_config_default());
  EXPECT_EQ(c["version"], TESSERA_VERSION_STRING);
  EXPECT_FALSE(c["build"]["compiler"].get<std::string>().empty());
  EXPECT_TRUE(c["build"].contains("flags"));
  EXPECT_EQ(c["executor"], "a pool of its own");
  bool chosen_is_present = false;
  for (const json& target : c["targets"])
    chosen_is_present |= target["name"] == c["target"] && target["present"].get<bool>();
  EXPECT_TRUE(chosen_is_present);
}

TEST(Describe, TheContextSaysWhoChose) {
  tessera_context_config config = tessera_context_config_default();
  const Variable no_threads("TESSERA_THREADS", nullptr), no_target("TESSERA_CPU", nullptr);
  EXPECT_EQ(described(config)["why_threads"], "one for each processor");
  EXPECT_EQ(described(config)["threads"], std::max(1u, std::thread::hardware_concurrency()));
  EXPECT_EQ(described(config)["why_target"], "the best of this processor");

  const Variable threads("TESSERA_THREADS", "3"), target("TESSERA_CPU", "scalar");
  const json by_environment = described(config);
  EXPECT_EQ(by_environment["threads"], 3);
  EXPECT_EQ(by_environment["why_threads"], "TESSERA_THREADS");
  EXPECT_EQ(by_environment["target"], "scalar");
  EXPECT_EQ(by_environment["why_target"], "TESSERA_CPU");

  config.threads = 2;
  config.cpu_target = "scalar";
  const json by_config = described(config);
  EXPECT_EQ(by_config["threads"], 2);
  EXPECT_EQ(by_config["why_threads"], "config.threads");
  EXPECT_EQ(by_config["why_target"], "config.cpu_target");
}

// What the config decides is not looked up in the environment.
TEST(Describe, ABadVariableMattersOnlyWhereItDecides) {
  const Variable threads("TESSERA_THREADS", "many"), target("TESSERA_CPU", "none");
  tessera_context_config config = tessera_context_config_default();
  config.threads = 1;
  config.cpu_target = "scalar";
  EXPECT_EQ(described(config)["threads"], 1);
}

TEST(Context, NullIsDestroyedWithoutHarm) { tessera_context_destroy(nullptr); }

TEST(Context, IsNullOnFailure) {
  tessera_context_config config = tessera_context_config_default();
  config.flags = 1;
  auto* context = reinterpret_cast<tessera_context*>(&config);
  EXPECT_EQ(tessera_context_create(&config, &context, nullptr), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(context, nullptr);
}

TEST(Names, OfStatusAndVersion) {
  EXPECT_STREQ(tessera_version(), TESSERA_VERSION_STRING);
  EXPECT_STREQ(tessera_status_name(TESSERA_OK), "OK");
  EXPECT_STREQ(tessera_status_name(TESSERA_INVALID_ARGUMENT), "INVALID_ARGUMENT");
  EXPECT_STREQ(tessera_status_name(TESSERA_UNSUPPORTED), "UNSUPPORTED");
  EXPECT_STREQ(tessera_status_name(TESSERA_OUT_OF_MEMORY), "OUT_OF_MEMORY");
  EXPECT_STREQ(tessera_status_name(TESSERA_INTERNAL), "INTERNAL");
  EXPECT_STREQ(tessera_status_name(tessera_status(5)), "UNKNOWN");
}

}  // namespace
}  // namespace tessera::test
