// Runs a fuzz target over the files and folders it is given: seeds and past findings, as a test.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void replay(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  const std::vector<std::uint8_t> input(bytes.begin(), bytes.end());
  std::printf("%s: %zu bytes\n", path.c_str(), input.size());
  std::fflush(stdout);  // the last line names the input that crashes
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

int replay_all(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return replay(path), 1;
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    if (entry.is_regular_file()) replay(entry.path()), ++count;
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  int count = 0;
  for (int i = 1; i < argc; ++i) count += replay_all(argv[i]);
  std::printf("%d inputs replayed\n", count);
  return count > 0 ? 0 : 1;  // a corpus that went missing is a failure
}
