// The page docs/reference/errors.md is the table; TESSERA_UPDATE_GOLDEN makes the test write it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "api/sentences.hpp"
#include "tessera/tessera.h"

namespace tessera::test {
namespace {

using api::Chapter;
using api::SentenceRow;

constexpr const char* kPage = "docs/reference/errors.md";

constexpr std::string_view kHead = R"(# Errors

Every sentence with which the library refuses a call, made from the table in
`src/api/sentences.hpp`; a test provokes each of them. An ellipsis stands for what was given or for
what is accepted. All checks of a call come before its first write: after INVALID_ARGUMENT and
UNSUPPORTED the outputs are as they were.

| status | meaning | `tessera.hpp` | command line |
|---|---|---|---|
| `INVALID_ARGUMENT` (1) | the call makes no sense | `tessera::Error` | exit code 2 |
| `UNSUPPORTED` (2) | it makes sense, but not for this backend or version | the same | exit code 3 |
| `OUT_OF_MEMORY` (3) | a workspace could not be had | the same | exit code 3 |
| `INTERNAL` (4) | a defect, or an exception from a lent function | the same | exit code 1 |

To write this page anew: `TESSERA_UPDATE_GOLDEN=1 ctest --preset dev -R ErrorsPage`.
)";

// The holes as ellipses; a bar would end the cell of a table.
std::string shown(std::string_view text) {
  std::string cell;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "{}") {
      cell += "…";
      ++i;
    } else {
      cell.append(text[i] == '|' ? "\\" : "").push_back(text[i]);
    }
  }
  return cell;
}

std::string page() {
  std::string text(kHead);
  for (const SentenceRow& row : api::rows::kSentences) {
    for (const Chapter& chapter : api::kChapters)
      if (chapter.first == row.id)
        text.append("\n## ").append(chapter.title).append("\n\n| status | sentence |\n|---|---|\n");
    text.append("| ").append(tessera_status_name(tessera_status(row.status)));
    text.append(" | ").append(shown(row.text)).append(" |\n");
  }
  return text;
}

TEST(ErrorsPage, IsTheTableOfSentences) {
  const bool update = std::getenv("TESSERA_UPDATE_GOLDEN") != nullptr;
  if (update) std::ofstream(kPage, std::ios::binary) << page();
  std::ifstream file(kPage, std::ios::binary);
  const std::string there{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(there == page()) << kPage << " is old: set TESSERA_UPDATE_GOLDEN=1";
}

}  // namespace
}  // namespace tessera::test
