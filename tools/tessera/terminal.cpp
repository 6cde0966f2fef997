#include "tools/tessera/terminal.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

namespace tessera::tool {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPatience{500}, kBetweenUpdates{100};

bool set_in_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != 0;
}

bool is_terminal(std::FILE* stream) {
  const char* kind = std::getenv("TERM");
  return isatty(fileno(stream)) != 0 && kind != nullptr && std::string_view(kind) != "dumb";
}

}  // namespace

std::string coloured(std::FILE* stream, Colour colour, std::string_view text) {
  if (set_in_environment("NO_COLOR") || !is_terminal(stream)) return std::string(text);
  return fmt::format("\033[{}m{}\033[0m", int(colour), text);
}

Progress::Progress(std::string label)
    : label_(std::move(label)),
      enabled_(is_terminal(stderr)),
      begin_(steady_clock::now()),
      last_(begin_) {}

Progress::~Progress() {
  if (shown_) fmt::print(stderr, "\r\033[K");
}

void Progress::update(std::int64_t done, std::int64_t total) {
  const auto now = steady_clock::now();
  if (!enabled_ || now - begin_ < kPatience || (shown_ && now - last_ < kBetweenUpdates)) return;
  const std::chrono::duration<double> seconds = now - begin_;
  fmt::print(stderr, "\r\033[K{}: {} of {}, {:.1f} s", label_, done, total, seconds.count());
  std::fflush(stderr);
  last_ = now;
  shown_ = true;
}

}  // namespace tessera::tool
