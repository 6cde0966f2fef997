// What depends on who reads: colours and progress for a terminal, plain text for a pipe.
#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace tessera::tool {

enum class Colour { kRed = 31, kGreen = 32, kBold = 1, kFaint = 2 };

// `text` in colour if `stream` is a terminal, TERM is not "dumb" and NO_COLOR is unset or empty.
std::string coloured(std::FILE* stream, Colour colour, std::string_view text);

// One line on standard error that is rewritten in place and removed at the end; nothing at all if
// standard error is no terminal, and nothing during the first half second.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(std::int64_t done, std::int64_t total);

 private:
  std::string label_;
  bool enabled_, shown_ = false;
  std::chrono::steady_clock::time_point begin_, last_;
};

}  // namespace tessera::tool
