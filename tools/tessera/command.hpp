// The command that reproduces a line of output.
#pragma once
#include <string>
#include <string_view>

#include "tools/tessera/options.hpp"

namespace tessera::tool {

// As a POSIX shell reads it back.
std::string shell_quoted(std::string_view word);

class Command {
 public:
  // Begins with TESSERA_CPU and TESSERA_THREADS where the environment sets them.
  explicit Command(std::string_view verb);

  Command& add(std::string_view word);
  Command& add(std::string_view option, std::string_view value);
  Command& add(const Source& source);
  Command& add(const AttentionOptions& options);

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace tessera::tool
