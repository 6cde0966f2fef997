// Descriptions made of bytes: small real memory, hostile numbers.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "tessera/tessera.h"

namespace tessera::test {

__extension__ using Wide = __int128;

// ---- Bytes into numbers ----

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}

  std::uint8_t byte() { return at_ < end_ ? *at_++ : std::uint8_t{0}; }
  std::uint64_t word() {
    std::uint64_t x = 0;
    for (int i = 0; i < 8; ++i) x = x << 8 | byte();
    return x;
  }
  template <class T, std::size_t N> T pick(const T (&choices)[N]) { return choices[byte() % N]; }

  // Mostly small, at times at an edge, at times anything.
  std::int64_t number() {
    constexpr std::int64_t kEdges[] = {INT64_MIN,        INT64_MAX,           -1,
                                       INT32_MIN,        INT32_MAX,           -2,
                                       INT64_C(1) << 32, INT64_C(1) << 48,    INT64_C(1) << 56,
                                       INT64_C(1) << 60, -(INT64_C(1) << 48), 0};
    const std::uint8_t kind = byte();
    if (kind < 200) return kind % 17;
    return kind < 240 ? pick(kEdges) : std::int64_t(word());
  }
  float real() {
    constexpr float kEdges[] = {0, 1, -1, 0.125f, INFINITY, -INFINITY, NAN, 3e38f, 1e-45f, 0.999f};
    return pick(kEdges);
  }

 private:
  const std::uint8_t *at_, *end_;
};

// ---- Memory ----

inline constexpr std::size_t kArena = 1 << 14;

// What a call may read, and what it may write.
struct Arenas {
  alignas(64) std::array<std::byte, kArena> inputs, outputs;

  void reset() {
    for (std::size_t i = 0; i < kArena; i += sizeof(float)) {
      const float x = float(i % 97) / 97 - 0.5f;
      std::memcpy(inputs.data() + i, &x, sizeof x);
    }
    // Small integers, for lengths and pages, and bytes of all kinds, for masks.
    for (std::size_t i = 0; i < 1024; i += sizeof(std::int32_t)) {
      const auto x = std::int32_t(i / 4 % 7);
      std::memcpy(inputs.data() + i, &x, sizeof x);
    }
    outputs.fill(std::byte{0xA5});
  }
};

inline bool inside(const std::array<std::byte, kArena>& arena, Wide first, Wide last) {
  const auto begin = Wide(reinterpret_cast<std::uintptr_t>(arena.data()));
  return begin <= first && last < begin + Wide(arena.size());
}

inline bool has_no_elements(const tessera_tensor& t) {
  for (const std::int64_t size : t.shape)
    if (size <= 0) return true;
  return false;
}

inline Wide element_size(const tessera_tensor& t) {
  return std::max<Wide>(1, std::min<Wide>(8, (t.dtype >> 8 & 0xFF) / 8));
}

// Whether all that the tensor says it has lies in one arena: the caller's part of the bargain.
inline bool is_honest(const Arenas& arenas, const tessera_tensor& t) {
  if (t.data == nullptr || has_no_elements(t)) return true;
  const Wide data = Wide(reinterpret_cast<std::uintptr_t>(t.data));
  Wide first = data, last = data + element_size(t) - 1;
  for (int d = 0; d < 4; ++d) {
    const Wide reach = Wide(t.shape[d] - 1) * t.stride[d];
    if (reach > Wide(kArena) || reach < -Wide(kArena)) return false;
    (reach < 0 ? first : last) += reach * element_size(t);
  }
  return inside(arenas.inputs, first, last) || inside(arenas.outputs, first, last);
}

// ---- Tensors ----

inline constexpr std::uint32_t kTypes[] = {TESSERA_FLOAT32, TESSERA_FLOAT16, TESSERA_BFLOAT16,
                                           TESSERA_FLOAT64};
inline constexpr std::uint32_t kLengthTypes[] = {TESSERA_INT32, TESSERA_INT64};

// Spoils one field of a tensor.
inline void spoil(Input& in, tessera_tensor& t) {
  const std::uint8_t field = in.byte() % 14;
  if (field < 4) t.shape[field] = in.number();
  if (field >= 4 && field < 8) t.stride[field - 4] = in.number();
  if (field == 8) t.dtype = std::uint32_t(in.number());
  if (field == 9) t.dtype = in.pick(kTypes);
  if (field == 10) t.data = static_cast<std::byte*>(t.data) + in.number() % 64;
  if (field == 11) t.flags = in.byte() % 4;
  if (field == 12) t.device_type = in.byte() % 3;
  if (field == 13) t.reserved[0] = in.byte() % 2;
}

class TensorMaker {
 public:
  TensorMaker(Input& in, Arenas& arenas) : in_(in), arenas_(arenas) {}

  // A dense tensor somewhere in the arena, or spoiled.
  tessera_tensor tensor(std::array<std::byte, kArena>& arena, std::uint32_t dtype,
                        std::array<std::int64_t, 4> s) {
    const std::size_t place = in_.byte() * std::size_t{64} % (kArena / 2);
    tessera_tensor t = tessera_tensor_dense(arena.data() + place, dtype, s[0], s[1], s[2], s[3]);
    for (int i = in_.byte() % 8; i > 5; --i) spoil(in_, t);
    return t;
  }
  tessera_tensor input(std::uint32_t dtype, std::array<std::int64_t, 4> s) {
    return tensor(arenas_.inputs, dtype, s);
  }
  // Options are absent more often than not.
  void maybe(tessera_tensor& t, std::uint32_t dtype, std::array<std::int64_t, 4> s) {
    if (in_.byte() % 8 == 7) t = input(dtype, s);
  }

 protected:
  Input& in_;
  Arenas& arenas_;
};

// ---- What the library owes ----

[[noreturn]] inline void broken(const char* promise) {
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

// Marks the bytes of the elements of an output.
inline void mark(const Arenas& arenas, const tessera_tensor& t, std::vector<bool>& may_change) {
  if (t.data == nullptr || has_no_elements(t)) return;
  const auto* data = static_cast<const std::byte*>(t.data);
  const auto size = std::ptrdiff_t(element_size(t));
  for (std::int64_t a = 0; a < t.shape[0]; ++a)
    for (std::int64_t b = 0; b < t.shape[1]; ++b)
      for (std::int64_t c = 0; c < t.shape[2]; ++c)
        for (std::int64_t e = 0; e < t.shape[3]; ++e) {
          const std::byte* at =
              data + (a * t.stride[0] + b * t.stride[1] + c * t.stride[2] + e * t.stride[3]) * size;
          for (std::ptrdiff_t i = 0; i < size; ++i)
            may_change[std::size_t(at + i - arenas.outputs.data())] = true;
        }
}

inline void check_error(const tessera_error& error, tessera_status status) {
  if (error.status != status) broken("error.status is the status");
  const std::size_t length = strnlen(error.message, sizeof error.message);
  if (length >= sizeof error.message - 1) broken("a sentence fits its message");
  if ((length == 0) != (status == TESSERA_OK)) broken("a refusal has a sentence");
  if (status == TESSERA_INTERNAL || status == TESSERA_OUT_OF_MEMORY)
    broken("small calls do not run out of memory or into a defect");
}

inline tessera_context* context() {
  static const std::unique_ptr<tessera_context, decltype(&tessera_context_destroy)> only = [] {
    tessera_context_config config = tessera_context_config_default();
    config.threads = 2;
    tessera_context* made = nullptr;
    if (tessera_context_create(&config, &made, nullptr) != TESSERA_OK) broken("a context is made");
    return std::unique_ptr<tessera_context, decltype(&tessera_context_destroy)>(
        made, &tessera_context_destroy);
  }();
  return only.get();
}

}  // namespace tessera::test
