// The core as the web page calls it: questions in the words of `tessera explain`, answers in JSON.
//
//   const p = room(n)            n bytes for the words, written by the caller
//   const q = trace(p, n)        the answer: answer_size() bytes at q, until the next question
//
// A question that makes no sense leaves as an Error of JavaScript (runtime.cpp).
#include <cstddef>
#include <string>
#include <string_view>

#include "core/explain_json.hpp"

namespace {

std::string question, answer;

const char* keep(const tessera::core::Json& json) {
  answer = json.text();
  return answer.data();
}

tessera::core::ExplainRequest request(const char* words, std::size_t size) {
  tessera::core::ExplainRequest r;
  r.set_words({words, size});
  return r;
}

}  // namespace

extern "C" {

__attribute__((export_name("room"))) char* room(std::size_t size) {
  question.resize(size);
  return question.data();
}

__attribute__((export_name("answer_size"))) std::size_t answer_size() { return answer.size(); }

__attribute__((export_name("trace"))) const char* trace(const char* words, std::size_t size) {
  return keep(tessera::core::trace_json(request(words, size)));
}

__attribute__((export_name("grid"))) const char* grid(const char* words, std::size_t size) {
  return keep(tessera::core::grid_json(request(words, size)));
}

__attribute__((export_name("traffic"))) const char* traffic(const char* words, std::size_t size) {
  return keep(tessera::core::traffic_json(request(words, size)));
}

__attribute__((export_name("catalogue"))) const char* catalogue() {
  return keep(tessera::core::catalogue_json());
}
}
