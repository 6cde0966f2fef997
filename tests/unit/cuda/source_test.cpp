#include "cuda/source.hpp"

#include <gmock/gmock.h>

#include "cuda/embedded.hpp"

namespace tessera::test {
namespace {

using testing::HasSubstr;

TEST(Source, an_entry_is_the_template_with_its_numbers) {
  const std::string text = cuda::entry_text(
      {device::Direction::kForward, 80, core::DType::kBfloat16, 256, device::Weighing::kExact});
  EXPECT_THAT(text, HasSubstr("#include \"device/kernel/forward_all.cuh\""));
  EXPECT_THAT(text, HasSubstr("Config<Bfloat16, 256, Weighing::kExact>"));
  EXPECT_THAT(text, HasSubstr("forward_sm80_bfloat16_d256_exact(const __grid_constant__"));
  EXPECT_EQ(text.find('@'), text.npos) << "a place that nothing filled";
}

TEST(Source, every_header_is_embedded_as_kernels_name_it) {
  std::vector<std::string_view> names;
  for (const cuda::Header& header : cuda::headers()) {
    names.push_back(header.name);
    EXPECT_THAT(std::string(header.text), HasSubstr("#pragma once")) << header.name;
    EXPECT_EQ(header.text.data()[header.text.size()], 0) << "NVRTC reads up to a 0";
  }
  for (const char* name : {"device/types.cuh", "device/kernel/forward_sm80.cuh", "isa/mma.cuh"})
    EXPECT_THAT(names, testing::Contains(name));
}

}  // namespace
}  // namespace tessera::test
