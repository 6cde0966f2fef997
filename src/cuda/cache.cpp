#include "cuda/cache.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tessera::cuda {
namespace {

constexpr std::string_view kSuffix = ".cubin", kUnfinished = ".part";
constexpr std::int64_t kAbandoned = 3600;  // seconds, of a file that was never finished

// What stands before the bytes of a kernel.
struct Head {
  std::array<char, 8> magic;
  std::uint64_t bytes, check_low, check_high;
};
constexpr std::array<char, 8> kMagic{'t', 'e', 's', 's', 'e', 'r', 'a', '1'};

Head head_of(std::string_view bytes) {
  const XXH128_hash_t check = XXH3_128bits(bytes.data(), bytes.size());
  return {kMagic, bytes.size(), check.low64, check.high64};
}

// A file descriptor that is closed.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool open() const { return descriptor_ >= 0; }

  bool read(void* to, std::size_t bytes) const {
    for (auto* at = static_cast<char*>(to); bytes > 0;) {
      const ssize_t n = ::read(descriptor_, at, bytes);
      if (n <= 0) return false;
      at += n, bytes -= std::size_t(n);
    }
    return true;
  }
  bool write(const void* from, std::size_t bytes) const {
    for (const auto* at = static_cast<const char*>(from); bytes > 0;) {
      const ssize_t n = ::write(descriptor_, at, bytes);
      if (n <= 0) return false;
      at += n, bytes -= std::size_t(n);
    }
    return true;
  }
  std::int64_t size() const {
    struct stat about{};
    return fstat(descriptor_, &about) == 0 ? about.st_size : -1;
  }

 private:
  int descriptor_;
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// As mkdir -p.
void make_folders(const std::string& path) {
  for (std::size_t end = 1; (end = path.find('/', end)) != path.npos; ++end)
    mkdir(path.substr(0, end).c_str(), 0700);
  mkdir(path.c_str(), 0700);
}

// Calls f(name) for each file of a folder.
template <class F> void for_each_name(int directory, F f) {
  if (directory < 0) return;
  const int again = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const all = again < 0 ? nullptr : fdopendir(again);
  if (all == nullptr) {
    if (again >= 0) close(again);
    return;
  }
  while (const dirent* one = readdir(all)) f(std::string_view(one->d_name));
  closedir(all);
}

std::string name_of(const std::string& key) { return key + std::string(kSuffix); }

// Unlike any other of this and of other processes.
std::string unfinished_name() {
  static std::atomic<unsigned> count{0};
  return std::to_string(getpid()) + "-" + std::to_string(count++) + "-" +
         std::to_string(std::time(nullptr)) + std::string(kUnfinished);
}

}  // namespace

std::string cache_key(std::string_view text, std::string_view options) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  for (const std::string_view part : {text, options}) {
    const std::uint64_t bytes = part.size();
    XXH3_128bits_update(&state, &bytes, sizeof bytes);
    XXH3_128bits_update(&state, part.data(), part.size());
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  std::string key;
  for (const std::uint64_t half : {hash.high64, hash.low64})
    for (int shift = 60; shift >= 0; shift -= 4)
      key.push_back("0123456789abcdef"[half >> shift & 15]);
  return key;
}

std::string Cache::default_folder() {
  if (std::string named = variable("TESSERA_CACHE"); !named.empty()) return named;
  if (const std::string caches = variable("XDG_CACHE_HOME"); !caches.empty())
    return caches + "/tessera";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/tessera";
}

Cache::Cache(std::string folder, std::int64_t most_bytes)
    : folder_(std::move(folder)),
      most_bytes_(most_bytes),
      why_not_(open_folder(Missing::kIsMade)) {}

Cache::Cache(std::string folder, Missing missing)
    : folder_(std::move(folder)), most_bytes_(kMostBytes), why_not_(open_folder(missing)) {}

Cache::~Cache() {
  if (directory_ >= 0) close(directory_);
}

std::string Cache::open_folder(Missing missing) {
  if (folder_.empty())
    return "there is no folder for compiled kernels, since HOME is not set; name one in "
           "TESSERA_CACHE";
  if (missing == Missing::kIsMade) make_folders(folder_);
  const int opened = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0 && errno == ENOENT && missing == Missing::kStays) return "";
  struct stat about{};
  if (opened < 0 || fstat(opened, &about) != 0) {
    const std::string why = std::strerror(errno);
    if (opened >= 0) close(opened);
    return "the folder for compiled kernels, " + folder_ + ", does not open: " + why +
           "; name another in TESSERA_CACHE";
  }
  const bool ours = about.st_uid == geteuid(), shared = (about.st_mode & 022) != 0;
  if (ours && !shared) {
    directory_ = opened;
    return "";
  }
  close(opened);
  return "the folder for compiled kernels, " + folder_ +
         (ours ? ", may be written to by others; take that from them (chmod 700)"
               : ", belongs to another user; choose one of your own in TESSERA_CACHE");
}

std::optional<std::string> Cache::load(const std::string& key) const {
  if (directory_ < 0) return std::nullopt;
  const std::string name = name_of(key);
  const File file(openat(directory_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file.open()) return std::nullopt;
  Head head{};
  std::string bytes;
  const std::int64_t rest = file.size() - std::int64_t(sizeof head);
  bool whole = rest >= 0 && file.read(&head, sizeof head) && head.bytes == std::uint64_t(rest);
  if (whole) {
    bytes.resize(std::size_t(rest));
    whole = file.read(bytes.data(), bytes.size());
  }
  const Head right = head_of(bytes);
  if (!whole || std::memcmp(&head, &right, sizeof head) != 0) {
    unlinkat(directory_, name.c_str(), 0);
    return std::nullopt;
  }
  utimensat(directory_, name.c_str(), nullptr, 0);  // used now
  return bytes;
}

bool Cache::store(const std::string& key, std::string_view bytes) const {
  if (directory_ < 0 || std::int64_t(bytes.size()) > most_bytes_) return false;
  const std::string part = unfinished_name(), name = name_of(key);
  const Head head = head_of(bytes);
  bool done = false;
  {
    const File file(openat(directory_, part.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    done = file.open() && file.write(&head, sizeof head) && file.write(bytes.data(), bytes.size());
  }
  done = done && renameat(directory_, part.c_str(), directory_, name.c_str()) == 0;
  if (!done) unlinkat(directory_, part.c_str(), 0);
  trim();
  return done;
}

std::vector<Cache::Entry> Cache::entries() const {
  std::vector<Entry> all;
  if (directory_ < 0) return all;
  for_each_name(directory_, [&](std::string_view name) {
    struct stat about{};
    if (!name.ends_with(kSuffix) ||
        fstatat(directory_, std::string(name).c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0)
      return;
    name.remove_suffix(kSuffix.size());
    all.push_back({std::string(name), about.st_size,
                   about.st_mtim.tv_sec * 1'000'000'000 + about.st_mtim.tv_nsec});
  });
  std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) {
    return a.used != b.used ? a.used > b.used : a.key < b.key;
  });
  return all;
}

void Cache::trim() const {
  std::int64_t bytes = 0;
  for (const Entry& entry : entries())
    if ((bytes += entry.bytes) > most_bytes_) unlinkat(directory_, name_of(entry.key).c_str(), 0);
  for_each_name(directory_, [&](std::string_view name) {
    struct stat about{};
    const std::string file(name);
    if (name.ends_with(kUnfinished) &&
        fstatat(directory_, file.c_str(), &about, AT_SYMLINK_NOFOLLOW) == 0 &&
        about.st_mtime + kAbandoned < std::time(nullptr))
      unlinkat(directory_, file.c_str(), 0);
  });
}

std::int64_t Cache::clear() const {
  std::int64_t bytes = 0;
  for (const Entry& entry : entries())
    if (unlinkat(directory_, name_of(entry.key).c_str(), 0) == 0) bytes += entry.bytes;
  return bytes;
}

}  // namespace tessera::cuda
