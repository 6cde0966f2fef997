// Every sentence of the C interface is provoked through it; none leaves a trace in the outputs.
#include <gtest/gtest.h>

#include <set>

#include "unit/api/refused_caches.hpp"
#include "unit/api/refused_contexts.hpp"
#include "unit/api/refused_gradients.hpp"
#include "unit/api/refused_lengths.hpp"
#include "unit/api/refused_options.hpp"
#include "unit/api/refused_shapes.hpp"
#include "unit/api/refused_structs.hpp"
#include "unit/api/refused_tensors.hpp"

namespace tessera::test {
namespace {

using api::Sentence;
using api::SentenceRow;

Refusals all_refusals() {
  Refusals all;
  for (const Refusals* some :
       {&kRefusedStructs, &kRefusedTensors, &kRefusedShapes, &kRefusedLengths, &kRefusedOptions,
        &kRefusedContexts, &kRefusedGradients, &kRefusedMerges, &kRefusedRotations,
        &kRefusedAppends})
    all.insert(all.end(), some->begin(), some->end());
  return all;
}

// Whether the message is the text with something in place of each {}.
bool reads_as(std::string_view message, std::string_view text) {
  const std::size_t hole = text.find("{}");
  if (hole == text.npos) return message == text;
  if (message.substr(0, hole) != text.substr(0, hole)) return false;
  for (std::size_t end = hole; end <= message.size(); ++end)
    if (reads_as(message.substr(end), text.substr(hole + 2))) return true;
  return false;
}

TEST(Refusals, EachIsTheSentenceOfItsRowAndTouchesNoOutput) {
  for (const Refusal& refusal : all_refusals()) {
    SCOPED_TRACE(refusal.what);
    const SentenceRow& row = api::row_of(refusal.id);
    Subject subject;
    if (refusal.spoil) refusal.spoil(subject);
    const Answer answer = refusal.call(subject);
    EXPECT_EQ(int(answer.status), int(row.status)) << answer.message;
    EXPECT_TRUE(reads_as(answer.message, row.text)) << answer.message << "\nis not\n" << row.text;
    EXPECT_LT(answer.message.size(), sizeof(tessera_error::message) - 1) << "may be cut off";
    EXPECT_TRUE(subject.outputs_untouched());
  }
}

TEST(Refusals, EveryRowIsProvoked) {
  std::set<Sentence> provoked;
  for (const Refusal& refusal : all_refusals()) provoked.insert(refusal.id);
  for (const SentenceRow& row : api::rows::kSentences)
    EXPECT_TRUE(provoked.contains(row.id)) << "no test provokes: " << row.text;
}

TEST(Refusals, TheSubjectIsRightUnlessSpoiled) {
  Subject plain, packed, paged;
  packed.pack_queries();
  packed.pack_keys();
  paged.page();
  for (Subject* s : {&plain, &packed, &paged}) {
    const Answer answer = attend(*s);
    EXPECT_EQ(answer.status, TESSERA_OK) << answer.message;
    EXPECT_FALSE(s->outputs_untouched());
  }
}

TEST(Refusals, SoAreTheGradientsOfTheSubject) {
  Subject plain, packed, biased;
  packed.pack_queries();
  packed.pack_keys();
  give_bias(biased, {2, 1, 3, 3});
  for (Subject* s : {&plain, &packed, &biased}) {
    const Answer answer = differentiate(*s);
    EXPECT_EQ(answer.status, TESSERA_OK) << answer.message;
    EXPECT_FALSE(s->outputs_untouched());
  }
}

template <class T, class... Change> void expect_right(Change... change) {
  Subject s;
  T subject(s);
  (change(subject, s), ...);
  tessera_error error = tessera_error_default();
  const TemporaryContext temporary(s.config);
  EXPECT_EQ(subject.call(temporary.context, &error), TESSERA_OK) << error.message;
  EXPECT_FALSE(s.outputs_untouched());
}

TEST(Refusals, MergesRotationsAndAppendsAreRightUnlessSpoiled) {
  expect_right<MergeSubject>();
  expect_right<RotateSubject>();
  expect_right<AppendSubject>();
  expect_right<AppendSubject>([](AppendSubject& a, Subject& s) { a.page(s); });
  expect_right<AppendSubject>([](AppendSubject& a, Subject& s) { a.rotate(s); });
}

TEST(Sentences, SayWhatToDo) {
  for (const SentenceRow& row : api::rows::kSentences) {
    const auto advice = row.text.find_first_of(";:");
    EXPECT_NE(advice, row.text.npos) << row.text;
    EXPECT_NE(row.text.back(), '.') << row.text;
    EXPECT_NE(row.status, core::Status::kOk);
  }
}

}  // namespace
}  // namespace tessera::test
