// Compiled kernels on disk, named by what they were compiled from. Safe with many processes: a file
// appears whole or not at all, and a damaged one is a miss.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::cuda {

// 32 hexadecimal digits of XXH3: of all that decides what a compiler makes.
std::string cache_key(std::string_view text, std::string_view options);

// What becomes of a folder that is not there.
enum class Missing { kIsMade, kStays };

class Cache {
 public:
  struct Entry {
    std::string key;
    std::int64_t bytes = 0;
    std::int64_t used = 0;  // nanoseconds since 1970, of the last load or store
  };

  static constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;

  // A folder that is made if it is missing, mode 0700. One that belongs to somebody else, or that
  // others may write to, is refused: they could put code there that we would run.
  explicit Cache(std::string folder, std::int64_t most_bytes = kMostBytes);
  Cache(std::string folder, Missing missing);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  // TESSERA_CACHE, else tessera in XDG_CACHE_HOME, else in ~/.cache.
  static std::string default_folder();

  // Empty if it can be used, else a sentence. A cache that cannot be used misses always.
  const std::string& why_not() const { return why_not_; }
  const std::string& folder() const { return folder_; }

  // Nothing if there is none, or if it is damaged: then the file is removed.
  std::optional<std::string> load(const std::string& key) const;
  // Whether it is now there. The entries that were used longest ago make room.
  bool store(const std::string& key, std::string_view bytes) const;

  std::vector<Entry> entries() const;  // the last used first
  std::int64_t clear() const;          // removes all, and says how many bytes that were

 private:
  std::string open_folder(Missing missing);
  void trim() const;

  std::string folder_;
  std::int64_t most_bytes_;
  int directory_ = -1;
  std::string why_not_;
};

}  // namespace tessera::cuda
