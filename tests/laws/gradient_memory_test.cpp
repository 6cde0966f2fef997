// The backward pass at offsets past 2^31 and 2^32 elements.
#include "support/gradients.hpp"
#include "support/law.hpp"
#include "support/sparse.hpp"

namespace tessera::test {
namespace {

class GradientMemory : public OnEveryBackend {};
INSTANTIATE_TEST_SUITE_P(On, GradientMemory, testing::ValuesIn(backward_backend_names()),
                         parameter_name);

constexpr std::int64_t kGiant = std::int64_t{1} << 32;

const Case kCase{.batch = 2,
                 .queries = 5,
                 .keys = 7,
                 .heads = 4,
                 .kv_heads = 2,
                 .dim = 24,
                 .value_dim = 16,
                 .pull = Pull{.wide = true}};

// Dense, but `axis` steps so far that its last index lies past `reach`.
Index4 far_strides(const Index4& shape, std::size_t axis, std::int64_t reach) {
  Index4 stride{shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
  if (shape[axis] > 1) stride[axis] = reach / (shape[axis] - 1) + 1;
  return stride;
}

// d_out and the gradients of q, k and v lie far apart along `axis`.
void check_far(const Backend& on, const BackwardInputs& in, std::size_t axis, std::int64_t reach) {
  const GradientArrays want = differentiate(on, in);
  const Outputs outputs = run(on, in.call);
  tessera_attention_desc forward = describe(in.call, outputs);
  forward.backend = number_of(on);
  tessera_attention_backward_desc desc = describe(in, want, forward);
  const auto far = [&](const Array& a) { return far_strides(a.shape(), axis, reach); };
  const Array &from = in.from_above.d_out, &q = want.arrays[0], &k = want.arrays[1];
  const Array& v = want.arrays[2];
  SparseTensor d_out(from.dtype(), from.shape(), far(from)), dq(q.dtype(), q.shape(), far(q));
  SparseTensor dk(k.dtype(), k.shape(), far(k)), dv(v.dtype(), v.shape(), far(v));
  if (!d_out.present() || !dq.present() || !dk.present() || !dv.present())
    GTEST_SKIP() << "the system lends no range of " << reach << " elements";
  d_out.copy_from(from);
  desc.d_out = d_out.abi();
  desc.dq = dq.abi(), desc.dk = dk.abi(), desc.dv = dv.abi();
  tessera_error error = tessera_error_default();
  ASSERT_EQ(tessera_attention_backward(on.context, &desc, &error), TESSERA_OK) << error.message;
  EXPECT_TRUE(same_bits(dq.copied(), q)) << "dq, axis " << axis << ", reach " << reach;
  EXPECT_TRUE(same_bits(dk.copied(), k)) << "dk, axis " << axis << ", reach " << reach;
  EXPECT_TRUE(same_bits(dv.copied(), v)) << "dv, axis " << axis << ", reach " << reach;
}

TEST_P(GradientMemory, offsets_past_2_to_the_31_and_32_in_every_dimension) {
  for_case(kCase, [](const Backend& on, const Case& c) {
    if (c.dtype == DType::kBfloat16) return;  // as float16
    const BackwardInputs in(c);
    for (const std::size_t axis : {0u, 1u, 2u, 3u})
      for (const std::int64_t reach : {kGiant / 2, kGiant}) check_far(on, in, axis, reach);
  });
}

}  // namespace
}  // namespace tessera::test
