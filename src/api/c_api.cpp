// The exported functions.
#include <algorithm>
#include <cstring>

#include "api/context.hpp"
#include "api/gpu.hpp"
#include "api/guard.hpp"
#include "api/versioned.hpp"
#include "tessera/tessera.h"
#include "tessera/version.h"

struct tessera_context {
  tessera::api::Context inside;
};

namespace tessera::api {
namespace {

// The sizes of the structs in version 0.1, the first one.
constexpr Versioned<tessera_attention_desc> kDesc{"desc", "tessera_attention_desc", 2208,
                                                  tessera_attention_desc_default};
constexpr Versioned<tessera_attention_backward_desc> kBackwardDesc{
    "desc", "tessera_attention_backward_desc", 768, tessera_attention_backward_desc_default};
constexpr Versioned<tessera_attention_desc> kForward{"forward", "tessera_attention_desc", 2208,
                                                     tessera_attention_desc_default};
constexpr Versioned<tessera_context_config> kConfig{"config", "tessera_context_config", 64,
                                                    tessera_context_config_default};

Context& inside(tessera_context* context) {
  require(context != nullptr, Sentence::kNullContext);
  return context->inside;
}

// A buffer of the caller for text.
struct Buffer {
  char* bytes;
  std::uint64_t capacity;
  std::uint64_t* needed;

  void check() const {
    require(bytes != nullptr || capacity == 0, Sentence::kNullBuffer, capacity);
  }
  // Cuts the text off where the buffer ends; `needed` counts the 0 at its end.
  void write(std::string_view text) const {
    if (needed != nullptr) *needed = text.size() + 1;
    if (capacity == 0) return;
    const std::size_t length = std::min<std::uint64_t>(text.size(), capacity - 1);
    std::memcpy(bytes, text.data(), length);
    bytes[length] = 0;
  }
};

// A backward description and the call that it points at, both in our version.
struct BackwardDescs {
  tessera_attention_backward_desc our_desc;
  tessera_attention_desc our_forward;
  const tessera_attention_backward_desc& desc;
  const tessera_attention_desc& forward;

  explicit BackwardDescs(const tessera_attention_backward_desc* theirs)
      : desc(read_versioned(kBackwardDesc, theirs, our_desc)),
        forward(read_versioned(kForward, desc.forward, our_forward)) {}
};

tessera_context* make_context(const tessera_context_config* config) {
  if (config == nullptr) return new tessera_context{Context(tessera_context_config_default())};
  tessera_context_config ours;
  return new tessera_context{Context(read_versioned(kConfig, config, ours))};
}

}  // namespace
}  // namespace tessera::api

using namespace tessera::api;

extern "C" {

tessera_status tessera_context_create(const tessera_context_config* config,
                                      tessera_context** context, tessera_error* error) {
  return guard(error, [&] {
    require(context != nullptr, Sentence::kNullPlace, std::string_view("context"));
    *context = nullptr;
    *context = make_context(config);
  });
}

void tessera_context_destroy(tessera_context* context) { delete context; }

tessera_status tessera_attention(tessera_context* context, const tessera_attention_desc* desc,
                                 tessera_error* error) {
  return guard(error, [&] {
    tessera_attention_desc ours;
    inside(context).attention(read_versioned(kDesc, desc, ours));
  });
}

tessera_status tessera_attention_backward(tessera_context* context,
                                          const tessera_attention_backward_desc* desc,
                                          tessera_error* error) {
  return guard(error, [&] {
    const BackwardDescs descs(desc);
    inside(context).attention_backward(descs.desc, descs.forward);
  });
}

tessera_status tessera_plan_describe(tessera_context* context, const tessera_attention_desc* desc,
                                     char* buffer, uint64_t capacity, uint64_t* needed,
                                     tessera_error* error) {
  return guard(error, [&] {
    const Buffer text{buffer, capacity, needed};
    text.check();
    tessera_attention_desc ours;
    text.write(inside(context).describe_plan(read_versioned(kDesc, desc, ours)));
  });
}

tessera_status tessera_backward_plan_describe(tessera_context* context,
                                              const tessera_attention_backward_desc* desc,
                                              char* buffer, uint64_t capacity, uint64_t* needed,
                                              tessera_error* error) {
  return guard(error, [&] {
    const Buffer text{buffer, capacity, needed};
    text.check();
    const BackwardDescs descs(desc);
    text.write(inside(context).describe_plan(descs.desc, descs.forward));
  });
}

tessera_status tessera_context_describe(tessera_context* context, char* buffer, uint64_t capacity,
                                        uint64_t* needed, tessera_error* error) {
  return guard(error, [&] {
    const Buffer text{buffer, capacity, needed};
    text.check();
    text.write(inside(context).describe());
  });
}

tessera_status tessera_gpus_describe(char* buffer, uint64_t capacity, uint64_t* needed,
                                     tessera_error* error) {
  return guard(error, [&] {
    const Buffer text{buffer, capacity, needed};
    text.check();
    text.write(describe_gpus());
  });
}

const char* tessera_version(void) { return TESSERA_VERSION_STRING; }

const char* tessera_status_name(tessera_status status) {
  switch (status) {
    case TESSERA_OK: return "OK";
    case TESSERA_INVALID_ARGUMENT: return "INVALID_ARGUMENT";
    case TESSERA_UNSUPPORTED: return "UNSUPPORTED";
    case TESSERA_OUT_OF_MEMORY: return "OUT_OF_MEMORY";
    case TESSERA_INTERNAL: return "INTERNAL";
  }
  return "UNKNOWN";
}

}  // extern "C"
