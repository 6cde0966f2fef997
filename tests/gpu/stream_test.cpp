// Streams of the caller and CUDA graphs, on a real GPU.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <vector>

#include "cuda/engine.hpp"
#include "support/compare.hpp"
#include "support/gpu.hpp"

namespace tessera::test {
namespace {

using Handle = void*;

// Functions of the driver that the library itself does not need.
struct Streams {
  int (*create)(Handle* stream, unsigned flags);
  int (*destroy)(Handle stream);
  int (*synchronize)(Handle stream);
  int (*begin_capture)(Handle stream, int mode);
  int (*end_capture)(Handle stream, Handle* graph);
  int (*instantiate)(Handle* executable, Handle graph, unsigned long long flags);
  int (*launch)(Handle executable, Handle stream);
  int (*destroy_executable)(Handle executable);
  int (*destroy_graph)(Handle graph);
};

template <class Function> bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

bool find(Streams& s) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  return library != nullptr && find(library, "cuStreamCreate", s.create) &&
         find(library, "cuStreamDestroy_v2", s.destroy) &&
         find(library, "cuStreamSynchronize", s.synchronize) &&
         find(library, "cuStreamBeginCapture_v2", s.begin_capture) &&
         find(library, "cuStreamEndCapture", s.end_capture) &&
         find(library, "cuGraphInstantiateWithFlags", s.instantiate) &&
         find(library, "cuGraphLaunch", s.launch) &&
         find(library, "cuGraphExecDestroy", s.destroy_executable) &&
         find(library, "cuGraphDestroy", s.destroy_graph);
}

constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
constexpr int kGlobal = 0;            // CU_STREAM_CAPTURE_MODE_GLOBAL

class GpuStreams : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << why_no_gpu();
    if (!find(streams_)) GTEST_SKIP() << "this driver has no streams or graphs: it is none";
  }

  static Inputs inputs() {
    Case c{.batch = 2, .queries = 200, .keys = 300, .heads = 4, .dim = 64, .value_dim = 64};
    c.kv_heads = 2;
    c.dtype = DType::kFloat16;
    return Inputs(c);
  }
  static tessera_context* context() { return backend("cuda").context; }

  // Overwrites out, which is dense.
  static void poison(const tessera_attention_desc& desc) {
    const std::int64_t* n = desc.out.shape;
    const std::vector<std::byte> poison(std::size_t(2 * n[0] * n[1] * n[2] * n[3]),
                                        std::byte{0x7f});
    const cuda::Driver& driver = cuda::Driver::system();
    driver.check(driver->MemcpyHtoD(reinterpret_cast<cuda::Address>(desc.out.data), poison.data(),
                                    poison.size()),
                 "cuMemcpyHtoD");
  }

  Streams streams_{};
};

TEST_F(GpuStreams, a_call_is_put_into_the_stream_of_the_caller) {
  const Inputs in = inputs();
  const Outputs right = run(backend("cuda"), in);
  Outputs got(in.of);
  got.status = on_gpu(describe(in, got), [&](tessera_attention_desc desc) {
    EXPECT_EQ(streams_.create(&desc.stream, kNonBlocking), 0);
    tessera_error error = tessera_error_default();
    const tessera_status status = tessera_attention(context(), &desc, &error);
    EXPECT_EQ(status, TESSERA_OK) << error.message;
    EXPECT_EQ(streams_.synchronize(desc.stream), 0);
    EXPECT_EQ(streams_.destroy(desc.stream), 0);
    return status;
  });
  EXPECT_TRUE(same_bits(got, right));
}

TEST_F(GpuStreams, a_captured_call_can_be_replayed) {
  const Inputs in = inputs();
  const Outputs right = run(backend("cuda"), in);
  Outputs got(in.of);
  got.status = on_gpu(describe(in, got), [&](tessera_attention_desc desc) {
    EXPECT_EQ(streams_.create(&desc.stream, kNonBlocking), 0);
    tessera_error error = tessera_error_default();
    Handle graph = nullptr, executable = nullptr;
    EXPECT_EQ(streams_.begin_capture(desc.stream, kGlobal), 0);
    const tessera_status status = tessera_attention(context(), &desc, &error);
    EXPECT_EQ(status, TESSERA_OK) << error.message;
    EXPECT_EQ(streams_.end_capture(desc.stream, &graph), 0);
    EXPECT_EQ(streams_.instantiate(&executable, graph, 0), 0);
    for (int replay = 0; replay < 3; ++replay) {
      poison(desc);
      EXPECT_EQ(streams_.launch(executable, desc.stream), 0);
      EXPECT_EQ(streams_.synchronize(desc.stream), 0);
    }
    EXPECT_EQ(streams_.destroy_executable(executable), 0);
    EXPECT_EQ(streams_.destroy_graph(graph), 0);
    EXPECT_EQ(streams_.destroy(desc.stream), 0);
    return status;
  });
  EXPECT_TRUE(same_bits(got, right));
}

}  // namespace
}  // namespace tessera::test
