#include "support/backend.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/convert.hpp"
#include "core/error.hpp"
#include "support/emulate.hpp"
#include "support/gpu.hpp"

namespace tessera::test {

namespace {

constexpr std::string_view kTiled = "cpu/", kStandard = "standard/";

using Owned = std::unique_ptr<tessera_context, decltype(&tessera_context_destroy)>;

Owned make_context(const tessera_context_config& config) {
  tessera_error error = tessera_error_default();
  tessera_context* context = nullptr;
  const tessera_status status = tessera_context_create(&config, &context, &error);
  EXPECT_EQ(status, TESSERA_OK) << error.message;
  return {context, &tessera_context_destroy};
}

std::string describe_context(tessera_context* context) {
  std::uint64_t needed = 0;
  tessera_context_describe(context, nullptr, 0, &needed, nullptr);
  std::string text(needed, '\0');
  tessera_context_describe(context, text.data(), needed, nullptr, nullptr);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

std::vector<std::string> find_backends() {
  std::vector<std::string> names{"reference"};
  const tessera_context_config config = tessera_context_config_default();
  const Owned context = make_context(config);
  const auto json = nlohmann::json::parse(describe_context(context.get()));
  std::vector<std::string> targets;
  for (const auto& target : json.at("targets"))
    if (target.at("present").get<bool>()) targets.push_back(target.at("name").get<std::string>());
  for (const std::string& target : targets) names.push_back(std::string(kTiled) + target);
  names.push_back(std::string(kStandard) + targets.front());
  return names;
}

// "avx2" of "cpu/avx2"; empty for the reference, and for the emulator, whose context is that of
// everything but attention.
std::string target_of(const std::string& name) {
  if (name.starts_with("emulator/")) return "";
  const std::size_t slash = name.find('/');
  return slash == name.npos ? "" : name.substr(slash + 1);
}

struct Words {
  tessera_backend number;
  std::string_view word;  // of --backend
};

Words words_of(const std::string& name) {
  if (name.starts_with(kTiled)) return {TESSERA_BACKEND_CPU, "cpu"};
  if (name.starts_with(kStandard)) return {TESSERA_BACKEND_STANDARD, "standard"};
  if (name == "cuda") return {TESSERA_BACKEND_CUDA, "cuda"};
  if (name.starts_with("emulator/")) return {TESSERA_BACKEND_EMULATOR, "emulator"};
  return {TESSERA_BACKEND_REFERENCE, "reference"};
}

}  // namespace

const std::vector<std::string>& backend_names() {
  static const std::vector<std::string> names = find_backends();
  return names;
}

std::vector<std::string> complete_backend_names() {
  std::vector<std::string> names = backend_names();
  std::erase_if(names, [](std::string_view name) { return name.starts_with(kStandard); });
  return names;
}

std::vector<std::string> names_with_gpu() {
  std::vector<std::string> names = backend_names();
  if (has_gpu()) names.emplace_back("cuda");
  return names;
}

namespace {

std::vector<std::string> and_emulator(std::vector<std::string> names) {
  if (has_gpu()) names.emplace_back("cuda");
  if (has_emulator()) names.emplace_back("emulator/sm80");
  return names;
}

}  // namespace

std::vector<std::string> names_with_emulator() { return and_emulator(backend_names()); }

std::vector<std::string> names_on_the_host() {
  std::vector<std::string> names = names_with_emulator();
  std::erase(names, "cuda");
  return names;
}

std::vector<std::string> names_with_hopper() {
  std::vector<std::string> names = names_with_emulator();
  if (has_emulator()) names.emplace_back("emulator/sm90");
  return names;
}

std::vector<std::string> complete_names_with_emulator() {
  return and_emulator(complete_backend_names());
}

tessera_context_config config_of(const std::string& name, int threads) {
  static std::map<std::string, std::string> targets;  // keeps the text that the config points at
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const std::string& target = targets.try_emplace(name, target_of(name)).first->second;
  tessera_context_config config = tessera_context_config_default();
  config.threads = threads;
  config.cpu_target = target.empty() ? nullptr : target.c_str();
  return config;
}

Backend backend(const std::string& name, int threads) {
  static std::map<std::pair<std::string, int>, Owned> contexts;
  static std::mutex mutex;
  const tessera_context_config config = config_of(name, threads);
  const std::lock_guard lock(mutex);
  const std::pair key{name, threads};
  auto found = contexts.find(key);
  if (found == contexts.end()) found = contexts.emplace(key, make_context(config)).first;
  return {name, threads, found->second.get()};
}

bool Backend::does(const Case& c) const {
  if (is_emulator() || is_gpu())
    return !c.pull && std::max(c.dim, c.value_dim) <= 512 && c.dtype != DType::kFloat64;
  const bool tiled = std::string_view(name).starts_with(kTiled);
  if (tiled && c.pull) return c.cache_rows.empty();
  if (tiled || is_reference()) return true;
  const bool one_row_each = c.cu_q.empty() && c.cu_k.empty() && c.page_size == 0;
  return one_row_each && c.dropout == 0 && !c.state;
}

tessera_backend number_of(const Backend& backend) { return words_of(backend.name).number; }

std::string Backend::environment() const {
  return !is_cpu() ? "" : fmt::format("TESSERA_CPU={} ", target_of(name));
}

std::string Backend::command(const Case& c) const {
  std::string options = fmt::format(" --backend {}", words_of(name).word);
  if (is_cpu()) options += fmt::format(" --threads {}", threads);
  return command_line(c, environment(), options);
}

namespace {

// No part of the library: the call is converted as the library would, and its problem emulated.
void run_emulated(const Backend& on, const tessera_attention_desc& desc, Outputs& outputs) {
  try {
    const std::string architecture = on.name.substr(on.name.find('/') + 1);
    emulate(api::convert(desc, api::Purpose::kRun).problem, architecture);
    outputs.status = TESSERA_OK;
  } catch (const core::Error& e) {
    outputs.status = static_cast<tessera_status>(e.status());
    outputs.message = e.what();
  } catch (const std::exception& e) {  // a rule that the kernel broke
    outputs.status = TESSERA_INTERNAL;
    outputs.message = e.what();
  }
}

}  // namespace

void run(const Backend& on, tessera_attention_desc desc, Outputs& outputs) {
  tessera_error error = tessera_error_default();
  desc.backend = number_of(on);
  if (on.is_reference()) desc.score_max = &outputs.score_max;
  outputs.out.poison();
  outputs.lse.poison();
  if (on.is_emulator()) return run_emulated(on, desc, outputs);
  outputs.status = on.is_gpu() ? attend_on_gpu(on.context, desc, &error)
                               : tessera_attention(on.context, &desc, &error);
  outputs.message = error.message;
}

namespace {

Outputs run_with(const Backend& on, const Inputs& inputs, std::uint32_t flags) {
  Outputs outputs(inputs.of);
  tessera_attention_desc desc = describe(inputs, outputs);
  desc.flags = flags;
  run(on, desc, outputs);
  EXPECT_EQ(outputs.status, TESSERA_OK) << outputs.message << "\n  " << on.command(inputs.of);
  EXPECT_TRUE(outputs.out.surroundings_intact()) << "wrote beside out\n  " << on.command(inputs.of);
  EXPECT_TRUE(!outputs.lse.present() || outputs.lse.surroundings_intact())
      << "wrote beside lse\n  " << on.command(inputs.of);
  return outputs;
}

}  // namespace

Outputs run(const Backend& on, const Inputs& inputs) { return run_with(on, inputs, 0); }

Outputs run_invariant(const Backend& on, const Inputs& inputs) {
  const bool knows = number_of(on) != TESSERA_BACKEND_STANDARD;
  return run_with(on, inputs, knows ? std::uint32_t{TESSERA_BATCH_INVARIANT} : 0);
}
Outputs define(const Inputs& inputs) {
  Inputs wide = inputs.in(DType::kFloat64);
  wide.of.lse = true;
  wide.of.out_layout = Layout::kDense;
  return run(reference(), wide);
}

Context::Context(const tessera_context_config& config) : context_(make_context(config).release()) {}

}  // namespace tessera::test
