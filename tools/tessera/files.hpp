// Files of arrays: read by name, written all or none.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/tessera/array.hpp"
#include "tools/tessera/bytes.hpp"
#include "tools/tessera/safetensors.hpp"

namespace tessera::tool {

// All of a file or pipe.
Contents read_contents(const std::string& path);

Safetensors read_safetensors(const std::string& path);

// The arrays of a .npy or .safetensors file; a .npy file has one, under a name of the caller's.
class ArrayFile {
 public:
  ArrayFile(const std::string& path, std::string only_name);

  bool has(const std::string& name) const;
  Array get(const std::string& name) const;  // or a refusal that lists the names there are

 private:
  std::string path_, only_name_;
  Array only_;
  std::optional<Safetensors> many_;
};

inline Array read_array(const std::string& path, const std::string& name) {
  return ArrayFile(path, name).get(name);
}

// An array to write, and where: several with the same path share one .safetensors file.
struct Destination {
  std::string path, name;
  Array array;
};

// Refuses, before any work is done, what write_arrays would refuse.
void check_destinations(const std::vector<Destination>& destinations);

// Writes under temporary names in the same folders, then renames: either all files are there and
// whole, or none is touched.
void write_arrays(const std::vector<Destination>& destinations);

}  // namespace tessera::tool
