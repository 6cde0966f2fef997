// Reads and writes .safetensors: a length, a JSON header, and the elements. Source: the format's
// description by Hugging Face, "Safetensors: Format".
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/tessera/array.hpp"
#include "tools/tessera/bytes.hpp"

namespace tessera::tool {

class Safetensors {
 public:
  // Checks the whole header: types, sizes, and that the data holds every tensor once and nothing
  // else. Refuses with a sentence.
  explicit Safetensors(Contents file);

  std::vector<std::string> names() const;
  std::string name_list() const;  // "k, q, v"
  bool has(const std::string& name) const { return entries_.contains(name); }
  // A tensor that is there; refuses types that tessera does not compute with.
  Array get(const std::string& name) const;

  struct Entry {
    std::string dtype;  // as the file spells it
    std::vector<std::int64_t> shape;
    std::int64_t begin = 0, end = 0;  // in the data
  };

 private:
  Contents file_;
  std::int64_t data_ = 0;  // where the data begins
  std::map<std::string, Entry> entries_;
};

// The file that holds row-major arrays under their names, in this order.
std::string safetensors_bytes(const std::vector<std::pair<std::string, Array>>& arrays);

}  // namespace tessera::tool
