#include "serialize/testing/fuzz_corpus.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace torchtrace {

std::vector<std::string> ReadFuzzCorpus(const std::string& name) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator("testdata/fuzz/" + name)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> inputs;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

std::string MakeMutant(const std::string& input, std::mt19937* random) {
  const auto below = [random](size_t limit) { return limit == 0 ? 0 : (*random)() % limit; };
  std::string mutant = input;
  for (size_t n = 1 + below(8); n-- > 0 && !mutant.empty();) {
    const size_t at = below(mutant.size());
    switch (below(4)) {
      case 0:
        mutant[at] = static_cast<char>((*random)());
        break;
      case 1:
        mutant.erase(at, 1 + below(16));
        break;
      case 2:
        mutant.insert(at, std::string(mutant, below(mutant.size()), 1 + below(64)));
        break;
      default:
        mutant[at] = static_cast<char>(mutant[at] ^ (1 << below(8)));
    }
  }
  return mutant;
}

}  // namespace torchtrace
