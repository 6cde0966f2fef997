// The one place where an exception becomes a status.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>

#include "api/require.hpp"
#include "core/error.hpp"
#include "tessera/tessera.h"

namespace tessera::api {

// Fills what the caller's struct has room for: its size says how far it reaches.
inline void report(tessera_error* error, core::Status status, std::string_view sentence) noexcept {
  constexpr std::size_t kHead = offsetof(tessera_error, message);
  if (error == nullptr || error->size < kHead) return;
  error->status = std::int32_t(status);
  const std::size_t room = std::min<std::size_t>(error->size, sizeof *error) - kHead;
  if (room == 0) return;
  const std::size_t length = std::min(sentence.size(), room - 1);
  std::memcpy(error->message, sentence.data(), length);
  error->message[length] = 0;
}

// For failures of which nothing is known but their kind; called while one is handled.
inline core::Status report_unknown(tessera_error* error, std::string_view what) noexcept {
  try {
    refuse(Sentence::kUnexpected, {what});
  } catch (const core::Error& e) {
    report(error, e.status(), e.what());
  } catch (...) {
    report(error, core::Status::kInternal, what);
  }
  return core::Status::kInternal;
}

inline core::Status report_current_exception(tessera_error* error) noexcept {
  try {
    throw;
  } catch (const core::Error& e) {
    report(error, e.status(), e.what());
    return e.status();
  } catch (const std::bad_alloc&) {  // formatting could need memory too
    report(error, core::Status::kOutOfMemory, row_of(Sentence::kNoMemory).text);
    return core::Status::kOutOfMemory;
  } catch (const std::exception& e) {
    return report_unknown(error, e.what());
  } catch (...) {
    return report_unknown(error, "not a std::exception");
  }
}

// Runs the body of an exported function.
template <class Body> tessera_status guard(tessera_error* error, const Body& body) noexcept {
  try {
    body();
  } catch (...) {
    return tessera_status(report_current_exception(error));
  }
  report(error, core::Status::kOk, "");
  return TESSERA_OK;
}

}  // namespace tessera::api
