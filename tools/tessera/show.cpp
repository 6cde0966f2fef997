#include "tools/tessera/show.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

namespace tessera::tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kColumn = 18;

std::string value_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const Json& item : value) text += (text.empty() ? "" : ", ") + value_text(item);
  return text.empty() ? "none" : text;
}

std::string words(std::string key) {
  std::replace(key.begin(), key.end(), '_', ' ');
  return key;
}

bool has_objects(const Json& value) {
  return value.is_array() && !value.empty() && value.front().is_object();
}

void append_line(std::string& text, std::string_view label, std::string_view value) {
  text += fmt::format("{:<{}} {}\n", label, kColumn, value);
}

// An item of a list on one line: its first member is its name.
void append_item(std::string& text, const Json& item, const std::string& margin) {
  std::string rest;
  for (auto member = std::next(item.begin()); member != item.end(); ++member)
    rest += fmt::format("{}{} {}", rest.empty() ? "" : ", ", words(member.key()),
                        value_text(member.value()));
  append_line(text, margin + value_text(item.front()), rest);
}

void append_object(std::string& text, const Json& object, const std::string& margin = "") {
  const std::string inner = margin + "  ";
  for (const auto& [key, value] : object.items()) {
    const std::string label = margin + words(key);
    if (!value.is_object() && !has_objects(value)) {
      append_line(text, label, value_text(value));
      continue;
    }
    text += label + "\n";
    if (value.is_object()) append_object(text, value, inner);
    if (value.is_array())
      for (const Json& item : value) append_item(text, item, inner);
  }
}

}  // namespace

void print_line(std::string_view label, std::string_view value) {
  fmt::print("{:<{}} {}\n", label, kColumn, value);
}

std::string json_as_text(const std::string& json) {
  std::string text;
  append_object(text, Json::parse(json));
  return text;
}

Choice choice_of(const std::string& plan_json) {
  const Json plan = Json::parse(plan_json);
  return {plan.at("backend"), plan.at("target"), plan.value("workers", 0)};
}

std::string to_text(const Choice& choice) {
  if (choice.threads == 0) return fmt::format("{}, {}", choice.backend, choice.target);
  return fmt::format("{}, target {}, {} thread{}", choice.backend, choice.target, choice.threads,
                     choice.threads == 1 ? "" : "s");
}

std::string shape_in_words(const Shape& s) {
  return fmt::format("B {}, Lq {}, Lk {}, H {}, Hk {}, D {}, Dv {}", s.batch, s.queries, s.keys,
                     s.heads, s.kv_heads, s.dim, s.value_dim);
}

}  // namespace tessera::tool
