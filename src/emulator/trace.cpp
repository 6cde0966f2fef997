#include "emulator/trace.hpp"

#include <string>

#include "core/json.hpp"
#include "emulator/block.hpp"

namespace tessera::emulator {

namespace {

std::string name_of_file(Site site) {
  const std::string path = site.file != nullptr ? site.file : "";
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

void Trace::add(const Span& span, u64 until) {
  const Index3 at = span.block->at();
  core::Json block = core::Json::array();
  for (const int i : {at.x, at.y, at.z}) block.push_back(i);
  const core::Json line{{"block", block},
                        {"thread", span.thread},
                        {"role", span.role},
                        {"word", span.word.word},
                        {"file", name_of_file(span.word.site)},
                        {"line", span.word.site.line},
                        {"from", span.from},
                        {"until", until}};
  out_ << line.text() << '\n';
}

}  // namespace tessera::emulator
