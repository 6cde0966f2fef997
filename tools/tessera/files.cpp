#include "tools/tessera/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>

#include "tools/tessera/failure.hpp"
#include "tools/tessera/npy.hpp"

namespace tessera::tool {
namespace {

namespace fs = std::filesystem;

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

constexpr std::size_t kPiece = std::size_t{1} << 20;

[[noreturn]] void refuse_reading(const std::string& path, std::string_view why) {
  refuse(fmt::format("{} cannot be read: {}; give a .npy or .safetensors file", path, why));
}

[[noreturn]] void refuse_writing(const std::string& path, std::string_view why) {
  refuse(fmt::format("{} cannot be written: {}; nothing was written", path, why));
}

bool is_safetensors(const std::string& path) {
  return fs::path(path).extension() == ".safetensors";
}
bool is_npy(const std::string& path) { return fs::path(path).extension() == ".npy"; }

// The size to expect, 0 for a pipe. Refuses what never ends or holds no bytes.
std::size_t expected_size(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error) refuse_reading(path, error.message());
  if (fs::is_regular_file(status)) return std::size_t(fs::file_size(path, error));
  if (!fs::is_fifo(status)) refuse_reading(path, "it is neither a file nor a pipe");
  return 0;
}

// A file that appears under its name when it is whole, and not at all if commit() is not reached.
class PendingFile {
 public:
  PendingFile(std::string path, std::string_view bytes) : path_(std::move(path)) {
    place_ = fs::is_symlink(path_) ? fs::weakly_canonical(path_) : fs::path(path_);
    temporary_ = place_;
    temporary_ += fmt::format(".{:08x}.tmp", std::random_device{}());
    write(bytes);
  }
  ~PendingFile() {
    std::error_code ignored;
    if (!temporary_.empty()) fs::remove(temporary_, ignored);
  }
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  void commit() {
    std::error_code error;
    fs::rename(temporary_, place_, error);
    if (error)
      refuse(fmt::format("{} cannot be put in its place: {}; remove what stands there", path_,
                         error.message()));
    temporary_.clear();
  }

 private:
  void write(std::string_view bytes) {
    File file(std::fopen(temporary_.c_str(), "wbx"));
    if (!file) {
      temporary_.clear();
      refuse_writing(path_, std::strerror(errno));
    }
    const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size();
    if (std::fclose(file.release()) != 0 || !written) refuse_unfinished(std::strerror(errno));
  }

  // The destructor does not run for an object that was never finished.
  [[noreturn]] void refuse_unfinished(std::string_view why) {
    std::error_code ignored;
    fs::remove(temporary_, ignored);
    refuse_writing(path_, why);
  }

  std::string path_;
  fs::path place_, temporary_;
};

// The arrays that go into one file.
struct Target {
  std::string path;
  std::vector<std::pair<std::string, Array>> arrays;
};

// One spelling of each path.
fs::path whole_path(const std::string& path) { return fs::weakly_canonical(fs::absolute(path)); }

std::vector<Target> by_file(const std::vector<Destination>& destinations) {
  std::vector<Target> targets;
  for (const Destination& d : destinations) {
    const auto same = [&](const Target& t) { return whole_path(t.path) == whole_path(d.path); };
    const auto found = std::find_if(targets.begin(), targets.end(), same);
    Target& target = found != targets.end() ? *found : targets.emplace_back(Target{d.path, {}});
    target.arrays.emplace_back(d.name, d.array);
  }
  return targets;
}

void check_format(const Target& target) {
  const std::string& path = target.path;
  if (is_safetensors(path)) return;
  if (!is_npy(path))
    refuse(
        fmt::format("{} ends neither in .npy nor in .safetensors; results are written as one of "
                    "these: rename it",
                    path));
  if (target.arrays.size() > 1)
    refuse(
        fmt::format("{} is given for {} and for {}, and a .npy file holds one array; use two "
                    "files, or one .safetensors file",
                    path, target.arrays[0].first, target.arrays[1].first));
  const std::string why_not = npy_cannot_hold(target.arrays[0].second.tensor.dtype);
  if (!why_not.empty()) refuse_writing(path, why_not);
}

void check_place(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(fs::absolute(path).parent_path(), error))
    refuse_writing(path, "its folder does not exist");
  if (fs::exists(path, error) && !fs::is_regular_file(path, error))
    refuse_writing(path, "something that is no file has this name");
}

std::string bytes_of(const Target& target) {
  return is_safetensors(target.path) ? safetensors_bytes(target.arrays)
                                     : npy_bytes(target.arrays[0].second);
}

}  // namespace

Contents read_contents(const std::string& path) {
  const std::size_t expected = expected_size(path);
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file) refuse_reading(path, std::strerror(errno));
  Contents contents{path, std::make_shared<std::vector<std::byte>>(expected)};
  std::vector<std::byte>& bytes = *contents.bytes;
  bytes.resize(std::fread(bytes.data(), 1, expected, file.get()));
  for (std::size_t read = 1; expected == 0 && read > 0;) {
    const std::size_t before = bytes.size();
    bytes.resize(before + kPiece);
    read = std::fread(bytes.data() + before, 1, kPiece, file.get());
    bytes.resize(before + read);
  }
  if (std::ferror(file.get()) != 0) refuse_reading(path, std::strerror(errno));
  return contents;
}

Safetensors read_safetensors(const std::string& path) { return Safetensors(read_contents(path)); }

ArrayFile::ArrayFile(const std::string& path, std::string only_name)
    : path_(path), only_name_(std::move(only_name)) {
  const Contents contents = read_contents(path);
  if (looks_like_npy(contents) || is_npy(path))
    only_ = read_npy(contents);
  else if (is_safetensors(path))
    many_.emplace(contents);
  else
    refuse(
        fmt::format("{} is neither a .npy file, by its first bytes, nor a .safetensors file, by "
                    "its name; convert or rename it",
                    path));
}

bool ArrayFile::has(const std::string& name) const {
  return many_ ? many_->has(name) : name == only_name_;
}

Array ArrayFile::get(const std::string& name) const {
  if (!many_) return only_;
  if (!many_->has(name))
    refuse(fmt::format("{} has no tensor '{}'; it has {}: rename one", path_, name,
                       many_->name_list()));
  return many_->get(name);
}

void check_destinations(const std::vector<Destination>& destinations) {
  for (const Target& target : by_file(destinations)) {
    check_format(target);
    check_place(target.path);
  }
}

void write_arrays(const std::vector<Destination>& destinations) {
  check_destinations(destinations);
  std::vector<std::unique_ptr<PendingFile>> pending;
  for (const Target& target : by_file(destinations))
    pending.push_back(std::make_unique<PendingFile>(target.path, bytes_of(target)));
  for (const auto& file : pending) file->commit();
}

}  // namespace tessera::tool
