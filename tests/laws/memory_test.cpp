// Offsets past 2^31 and 2^32 elements, and strides that are never used.
#include "support/law.hpp"
#include "support/sparse.hpp"

namespace tessera::test {
namespace {

class Memory : public OnEveryBackend {};
INSTANTIATE_TEST_SUITE_P(On, Memory, testing::ValuesIn(names_on_the_host()), parameter_name);

constexpr std::int64_t kGiant = std::int64_t{1} << 32;

const Case kCase{
    .batch = 2, .queries = 5, .keys = 7, .heads = 4, .kv_heads = 2, .dim = 24, .value_dim = 16};

// Dense [B, L, H, D] strides, but `axis` steps so far that its last index lies past `reach`.
Index4 far_strides(const Index4& shape, std::size_t axis, std::int64_t reach) {
  Index4 stride{shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
  if (shape[axis] > 1) stride[axis] = reach / (shape[axis] - 1) + 1;
  return stride;
}

// q, k, v and out all lie far apart along `axis`.
void check_far(const Backend& on, const Case& c, std::size_t axis, std::int64_t reach) {
  const Inputs in(c);
  Outputs got(c);
  const auto far = [&](const Array& a) { return far_strides(a.shape(), axis, reach); };
  SparseTensor q(c.dtype, in.q.shape(), far(in.q)), k(c.dtype, in.k.shape(), far(in.k));
  SparseTensor v(c.dtype, in.v.shape(), far(in.v)), out(c.dtype, got.out.shape(), far(got.out));
  if (!q.present() || !k.present() || !v.present() || !out.present())
    GTEST_SKIP() << "the system lends no range of " << reach << " elements";
  q.copy_from(in.q);
  k.copy_from(in.k);
  v.copy_from(in.v);
  tessera_attention_desc d = describe(in, got);
  d.q = q.abi();
  d.k = k.abi();
  d.v = v.abi();
  d.out = out.abi();
  run(on, d, got);
  ASSERT_EQ(got.status, TESSERA_OK) << got.message;
  got.out = out.copied();
  EXPECT_TRUE(same_bits(got, run(on, in))) << "axis " << axis << ", reach " << reach;
}

TEST_P(Memory, offsets_past_2_to_the_31_and_32_in_every_dimension) {
  for_case(kCase, [](const Backend& on, const Case& c) {
    if (c.dtype == DType::kBfloat16) return;  // as float16
    for (const std::size_t axis : {0u, 1u, 2u})
      for (const std::int64_t reach : {kGiant / 2, kGiant}) check_far(on, c, axis, reach);
  });
}

// Pages, rows of packed sequences, and rows of a cache, far from each other.
TEST_P(Memory, offsets_past_2_to_the_32_between_pages_and_packed_rows) {
  Case paged = kCase, packed = kCase, cached = kCase;
  paged.page_size = 3;
  paged.kv_lengths = {7, 4};
  packed.cu_q = {0, 5, 8};
  packed.cu_k = {0, 3, 10};
  packed.spare_rows = 2;
  cached.cache_rows = {3, 1};
  for (const Case& c : {paged, packed, cached})
    for_case(c, [](const Backend& on, const Case& far) {
      if (far.dtype == DType::kBfloat16) return;  // as float16
      for (const std::size_t axis : {0u, 1u, 2u})
        if (axis > 0 || far.cu_q.empty()) check_far(on, far, axis, kGiant);
    });
}

TEST_P(Memory, offsets_past_2_to_the_32_in_the_last_dimension) {
  for_case(kCase, [](const Backend& on, const Case& c) { check_far(on, c, 3, kGiant + 5); });
}

TEST_P(Memory, offsets_past_2_to_the_32_in_mask_and_bias) {
  for_case(kCase, [](const Backend& on, Case c) {
    c.mask = MaskKind::kRandom;
    c.bias = BiasKind::kNormal;
    const Inputs in(c);
    for (const std::size_t axis : {0u, 1u, 2u, 3u}) {
      SparseTensor mask(in.mask.dtype(), in.mask.shape(),
                        far_strides(in.mask.shape(), axis, kGiant));
      SparseTensor bias(in.bias.dtype(), in.bias.shape(),
                        far_strides(in.bias.shape(), axis, kGiant));
      if (!mask.present() || !bias.present()) GTEST_SKIP() << "the system lends no such range";
      mask.copy_from(in.mask);
      bias.copy_from(in.bias);
      Outputs got(c);
      tessera_attention_desc d = describe(in, got);
      d.mask = mask.abi();
      d.bias = bias.abi();
      run(on, d, got);
      ASSERT_EQ(got.status, TESSERA_OK) << got.message;
      EXPECT_TRUE(same_bits(got, run(on, in))) << "axis " << axis;
    }
  });
}

TEST_P(Memory, strides_of_dimensions_of_size_1_are_never_used) {
  Case plain = kCase;
  plain.batch = 1;
  for_case(plain, [](const Backend& on, const Case& c) {
    const Inputs in(c);
    Outputs got(c);
    tessera_attention_desc d = describe(in, got);
    for (tessera_tensor* t : {&d.q, &d.k, &d.v, &d.out}) t->stride[0] = INT64_MAX / 2;
    run(on, d, got);
    ASSERT_EQ(got.status, TESSERA_OK) << got.message;
    EXPECT_TRUE(same_bits(got, run(on, in)));
  });
}

}  // namespace
}  // namespace tessera::test
