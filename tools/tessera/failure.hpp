// How a verb ends: its exit code, and the sentence of a refusal.
#pragma once
#include <exception>
#include <string>
#include <utility>

namespace tessera::tool {

enum ExitCode : int {
  kDone = 0,
  kWrong = 1,        // the result is wrong, or a bound is missed
  kBadInput = 2,     // files, options, parser errors
  kNotSupported = 3  // it makes sense, but not for this backend, version or machine
};

class Failure : public std::exception {
 public:
  Failure(ExitCode exit_code, std::string sentence)
      : exit_code_(exit_code), sentence_(std::move(sentence)) {}

  ExitCode exit_code() const noexcept { return exit_code_; }
  const char* what() const noexcept override { return sentence_.c_str(); }

 private:
  ExitCode exit_code_;
  std::string sentence_;
};

// Bad input or options. The sentence says what was given, what is accepted and what to do.
[[noreturn]] inline void refuse(std::string sentence) {
  throw Failure(kBadInput, std::move(sentence));
}

}  // namespace tessera::tool
