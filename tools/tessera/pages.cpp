#include "tools/tessera/pages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/random.hpp"
#include "tools/tessera/failure.hpp"

namespace tessera::tool {
namespace {

using core::DType;

constexpr std::uint32_t kTableStream = 7;  // the tensor number of the order of pages

// [pages, page_size, Hk, D]: key j of sequence b lies in slot j % page_size of its page.
Array scattered(const Array& from, const core::Tensor& table, std::int64_t page_size, Fill fill) {
  const core::Index4& shape = from.tensor.shape;
  const std::int64_t pages = table.shape[0] * table.shape[1];
  const std::array all{pages, page_size, shape[2], shape[3]};
  if (fill == Fill::kOutlines) return make_outline(from.tensor.dtype, all);
  Array to = make_array(from.tensor.dtype, all);
  const auto size = std::size_t(core::size_of(from.tensor.dtype));
  for_each_index(shape, [&](const core::Index4& i) {
    const std::int64_t page = table.load_int(i[0], i[1] / page_size);
    std::memcpy(to.tensor.at(page, i[1] % page_size, i[2], i[3]),
                from.tensor.at(i[0], i[1], i[2], i[3]), size);
  });
  return to;
}

}  // namespace

void put_into_pages(Inputs& in, std::int64_t page_size, std::uint64_t seed, Fill fill) {
  if (in.block_table.present() || in.cu_seqlens_k.present())
    refuse("--page-size puts keys of dense sequences into pages; drop --pages or --cu-seqlens-k");
  const std::int64_t batch = in.k.tensor.shape[0], keys = in.k.tensor.shape[1];
  const std::int64_t columns = (keys + page_size - 1) / page_size;
  in.block_table = make_array(DType::kInt32, std::array{batch, columns});
  const std::vector<std::int64_t> order = core::shuffled(batch * columns, seed, kTableStream);
  std::copy(order.begin(), order.end(), static_cast<std::int32_t*>(in.block_table.tensor.data));
  for (Array* array : {&in.k, &in.v})
    *array = scattered(*array, in.block_table.tensor, page_size, fill);
  in.keys_in_pages = keys;
  if (in.kv_lengths.present()) return;
  in.kv_lengths = make_array(DType::kInt64, std::array{batch});
  std::fill_n(static_cast<std::int64_t*>(in.kv_lengths.tensor.data), batch, keys);
}

}  // namespace tessera::tool
