// Each kind of fault around wgmma, planted in a kernel that is right without it.
#include <isa/memory.cuh>
#include <isa/tensor_copy.cuh>
#include <isa/wgmma.cuh>

#include "emulated/kernels.hpp"
#include "emulated/probe.hpp"

namespace tessera::test {
namespace {

namespace isa = device::isa;
using device::Bfloat16;
using device::Major;
using device::Swizzle;
using device::u32;
using device::u64;
using device::Vector4;

constexpr emulator::Launch kWarpgroup{.threads = 128, .shared_bytes = 8192};

struct Products {
  isa::Registers<float, 32> d;
  u64 a = isa::matrix(shared(0), 16, 1024, Swizzle::kNone);
  u64 b = isa::matrix(shared(4096), 16, 256, Swizzle::kNone);

  void multiply(bool accumulate = false) {
    isa::wgmma<Bfloat16, Major::kK, Major::kK>(d, a, b, accumulate);
  }
};

void write_operands(bool fenced = true) {
  for (u32 i = u32(isa::thread()); i < 504; i += 128) isa::store(shared(16 * i), Vector4{});
  if (fenced) isa::fence_async();
  isa::sync_block();
}

void expect_of_products(const std::function<void(bool, Products&)>& kernel,
                        const std::string& report) {
  Probe{.launch = kWarpgroup,
        .kernel =
            [&](bool planted) {
              write_operands();
              Products p;
              p.a = isa::matrix(shared(0), 128, 256, Swizzle::kNone);
              p.b = isa::matrix(shared(2048), 128, 256, Swizzle::kNone);
              kernel(planted, p);
            }}
      .expect(report);
}

TEST(WgmmaFaults, operands_without_the_proxy_fence) {
  Probe{.launch = kWarpgroup,
        .kernel =
            [](bool planted) {
              write_operands(!planted);
              Products p;
              p.a = isa::matrix(shared(0), 128, 256, Swizzle::kNone);
              p.b = isa::matrix(shared(2048), 128, 256, Swizzle::kNone);
              isa::wgmma_fence(p.d);
              p.multiply();
              isa::wgmma_commit(p.d);
              isa::wgmma_wait<0>(p.d);
            }}
      .expect("wgmma.mma_async.*fence.proxy.async is missing after the store of thread");
}

TEST(WgmmaFaults, sums_that_are_read_before_they_are_there) {
  expect_of_products(
      [](bool planted, Products& p) {
        isa::wgmma_fence(p.d);
        p.multiply();
        isa::wgmma_commit(p.d);
        if (!planted) isa::wgmma_wait<0>(p.d);
        EXPECT_EQ(p.d[0], 0.f);
        isa::wgmma_wait<0>(p.d);
      },
      "register access at wgmma_faults_test.cpp:[0-9]+ .*touches sums that the wgmma.mma_async "
      "issued there is still writing: wgmma.wait_group is missing");
}

TEST(WgmmaFaults, sums_that_are_changed_without_a_fence) {
  expect_of_products(
      [](bool planted, Products& p) {
        for (int e = 0; e < 32; ++e) p.d[e] = 1;
        if (!planted) isa::wgmma_fence(p.d);
        p.multiply(true);
        isa::wgmma_commit(p.d);
        isa::wgmma_wait<0>(p.d);
      },
      "wgmma.mma_async.*its registers were touched since the last wgmma.fence");
}

TEST(WgmmaFaults, sums_that_nobody_has_cleared) {
  expect_of_products(
      [](bool planted, Products& p) {
        isa::wgmma_fence(p.d);
        p.multiply(planted);
        isa::wgmma_commit(p.d);
        isa::wgmma_wait<0>(p.d);
      },
      "wgmma.mma_async.*uses a register that nobody has assigned");
}

TEST(WgmmaFaults, a_wait_that_leaves_a_group_of_wgmma_too_many) {
  expect_of_products(
      [](bool planted, Products& p) {
        isa::wgmma_fence(p.d);
        p.multiply();
        isa::wgmma_commit(p.d);
        if (planted) isa::wgmma_wait<1>(p.d);
        if (!planted) isa::wgmma_wait<0>(p.d);
      },
      "wgmma.wait_group.*its sums are still in flight: their group is among the youngest 1");
}

TEST(WgmmaFaults, a_group_of_wgmma_that_was_not_committed) {
  expect_of_products(
      [](bool planted, Products& p) {
        isa::wgmma_fence(p.d);
        p.multiply();
        if (!planted) isa::wgmma_commit(p.d);
        isa::wgmma_wait<0>(p.d);
      },
      "wgmma.wait_group.*or was not committed");
}

TEST(WgmmaFaults, operand_a_in_registers_that_change_too_early) {
  expect_of_products(
      [](bool planted, Products& p) {
        isa::Registers<u32, 4> a;
        for (int r = 0; r < 4; ++r) a[r] = 0;
        isa::wgmma_fence(p.d, a);
        isa::wgmma<Bfloat16, Major::kK>(p.d, isa::step_of(a, 0), p.b, false);
        isa::wgmma_commit(p.d);
        if (planted) a[1] = 7;
        isa::wgmma_wait<0>(p.d);
        if (!planted) a[1] = 7;
      },
      "register access.*changes operand A of a wgmma.mma_async issued there");
}

TEST(WgmmaFaults, an_operand_that_is_overwritten_too_early) {
  expect_of_products(
      [](bool planted, Products& p) {
        isa::wgmma_fence(p.d);
        p.multiply();
        isa::wgmma_commit(p.d);
        if (!planted) isa::wgmma_wait<0>(p.d);
        if (isa::thread() == 0) isa::store(shared(2048), 9u);
        if (planted) isa::wgmma_wait<0>(p.d);
      },
      "st.shared.*while the wgmma of warpgroup 0 at line [0-9]+ may still read it");
}

TEST(WgmmaFaults, threads_that_end_before_their_wgmma) {
  expect_of_products(
      [](bool planted, Products& p) {
        isa::wgmma_fence(p.d);
        p.multiply();
        isa::wgmma_commit(p.d);
        if (!planted) isa::wgmma_wait<0>(p.d);
      },
      "ends without waiting for its wgmmas");
}

TEST(WgmmaFaults, a_descriptor_beyond_shared_memory) {
  expect_of_products(
      [](bool planted, Products& p) {
        if (planted) p.b = isa::advance(p.b, 5120);
        isa::wgmma_fence(p.d);
        p.multiply();
        isa::wgmma_commit(p.d);
        isa::wgmma_wait<0>(p.d);
      },
      "wgmma.mma_async.*(out of bounds|nobody has written)");
}

TEST(WgmmaFaults, a_descriptor_of_an_odd_place) {
  expect_of_products(
      [](bool planted, Products& p) {
        p.b = isa::matrix(shared(planted ? 2056 : 2048), 128, 256, Swizzle::kNone);
      },
      "matrix descriptor at wgmma_faults_test.cpp:[0-9]+.*is not a multiple of 16 bytes");
}

TEST(WgmmaFaults, descriptors_that_differ_within_a_warpgroup) {
  expect_of_products(
      [](bool planted, Products& p) {
        if (planted && isa::warp() == 2) p.b = isa::advance(p.b, 128);
        isa::wgmma_fence(p.d);
        p.multiply();
        isa::wgmma_commit(p.d);
        isa::wgmma_wait<0>(p.d);
      },
      "wgmma.mma_async.*threads of the warpgroup give different operands");
}

TEST(WgmmaFaults, a_warp_that_leaves_its_warpgroup_alone) {
  expect_of_products(
      [](bool planted, Products& p) {
        if (planted && isa::warp() == 3) return;
        isa::wgmma_fence(p.d);
        p.multiply();
        isa::wgmma_commit(p.d);
        isa::wgmma_wait<0>(p.d);
      },
      "deadlock(.|\n)*wgmma.mma_async(.|\n)*other warps of the warpgroup have not come");
}

}  // namespace
}  // namespace tessera::test
