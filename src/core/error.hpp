// How a failure leaves the library: one function, one type.
#pragma once
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace tessera::core {

// The values of tessera_status.
enum class Status : std::int32_t {
  kOk = 0,
  kInvalidArgument = 1,
  kUnsupported = 2,
  kOutOfMemory = 3,
  kInternal = 4,
};

class Error : public std::exception {
 public:
  Error(Status status, std::string sentence) : status_(status), sentence_(std::move(sentence)) {}

  Status status() const noexcept { return status_; }
  const char* what() const noexcept override { return sentence_.c_str(); }

 private:
  Status status_;
  std::string sentence_;
};

// Throws Error; in WebAssembly, where there are no exceptions, it traps.
[[noreturn]] void fail(Status status, std::string_view sentence);

}  // namespace tessera::core
