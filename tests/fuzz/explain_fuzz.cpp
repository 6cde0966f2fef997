// The words of `tessera explain`, which are also an address of the web page: a sentence, or answers
// that read as JSON.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/error.hpp"
#include "core/explain_json.hpp"

namespace tessera::test {
namespace {

// Large rows are slow, not strange.
void shrink(core::ExplainRequest& r) {
  if (r.n) r.n = std::min<std::int64_t>(*r.n, 300);
  if (r.d) r.d = std::min<std::int64_t>(*r.d, 17);
  if (r.lengths.size() > 20) r.lengths.resize(20);
}

void check(const core::Json& json) {
  if (!nlohmann::json::accept(json.text())) std::abort();
}

void ask(std::string_view words) {
  core::ExplainRequest r;
  r.set_words(words);
  shrink(r);
  const auto trace = nlohmann::json::parse(core::trace_json(r).text());
  if (trace["trace"]["steps"].size() > 300) std::abort();
  if (r.grid_rows > 0) check(core::grid_json(r));
  check(core::traffic_json(r));
}

}  // namespace
}  // namespace tessera::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view words(reinterpret_cast<const char*>(data), size);
  if (words.find('\0') != words.npos) return 0;  // no command line holds one
  try {
    tessera::test::ask(words);
  } catch (const tessera::core::Error& error) {
    if (std::string_view(error.what()).size() < 10) std::abort();
  }
  return 0;
}
