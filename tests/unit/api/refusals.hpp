// A way to provoke a row of the table of sentences; the files refused_*.hpp hold one for each.
#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "api/sentences.hpp"
#include "unit/api/subject.hpp"

namespace tessera::test {

struct Refusal {
  api::Sentence id;
  std::string_view what;  // is wrong
  std::function<void(Subject&)> spoil;
  std::function<Answer(const Subject&)> call = attend;
};

using Refusals = std::vector<Refusal>;

}  // namespace tessera::test
