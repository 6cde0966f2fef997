// tessera cache: the kernels that NVRTC has compiled on this machine.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/tessera/bench_report.hpp"
#include "tools/tessera/gpu.hpp"
#include "tools/tessera/show.hpp"
#include "tools/tessera/verb.hpp"

namespace tessera::tool {
namespace {

using Json = nlohmann::ordered_json;

std::string date_of(std::int64_t seconds) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}Z", fmt::gmtime(std::time_t(seconds)));
}

void list(bool json) {
  const std::vector<CachedKernel> all = cached_kernels();
  std::int64_t bytes = 0;
  Json kernels = Json::array();
  for (const CachedKernel& one : all) {
    bytes += one.bytes;
    kernels.push_back({{"key", one.key}, {"bytes", one.bytes}, {"used", date_of(one.used)}});
  }
  if (json) {
    const Json line{{"folder", cache_folder()}, {"bytes", bytes}, {"kernels", kernels}};
    return fmt::print("{}\n", line.dump());
  }
  print_line("folder", cache_folder());
  print_line("kernels", fmt::format("{}, {}", all.size(), bytes_text(double(bytes))));
  for (const CachedKernel& one : all)
    fmt::print("  {}  {:>10}  last used {}\n", one.key, bytes_text(double(one.bytes)),
               date_of(one.used));
}

void clear(bool json) {
  const std::size_t count = cached_kernels().size();
  const std::int64_t bytes = clear_cache();
  if (json)
    return fmt::print("{}\n", Json{{"folder", cache_folder()}, {"removed_bytes", bytes}}.dump());
  print_line("folder", cache_folder());
  print_line("removed", fmt::format("{} kernels, {}", count, bytes_text(double(bytes))));
}

}  // namespace

void add_cache(CLI::App& root, int&) {
  CLI::App& verb = *root.add_subcommand("cache", "Kernels compiled on this machine: list or clear");
  const auto json = std::make_shared<bool>(false);
  verb.require_subcommand(1);
  CLI::App& to_list = *verb.add_subcommand("list", "The folder, and each kernel in it");
  CLI::App& to_clear = *verb.add_subcommand("clear", "Remove all of them");
  for (CLI::App* one : {&verb, &to_list, &to_clear})
    one->add_flag("--json", *json, "One JSON object")->group("Output");
  to_list.callback([json] { list(*json); });
  to_clear.callback([json] { clear(*json); });
}

}  // namespace tessera::tool
