// Replays the corpora of import_fuzzer.cc, and some inputs made from them by chance (the
// same ones each time).

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "serialize/import/import_fuzzer.h"
#include "serialize/import/importer.h"

namespace torchtrace {
namespace {

class ImportFuzzTest : public testing::TestWithParam<std::string> {
 protected:
  static void RunOne(const std::string& input) {
    FuzzOne(GetParam(), reinterpret_cast<const uint8_t*>(input.data()), input.size());
  }
};

TEST_P(ImportFuzzTest, Corpus) {
  std::vector<std::filesystem::path> corpus;
  for (const auto& entry : std::filesystem::directory_iterator("testdata/fuzz/" + GetParam()))
    corpus.push_back(entry.path());
  std::sort(corpus.begin(), corpus.end());
  std::vector<std::string> inputs = {""};
  for (const auto& path : corpus) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  EXPECT_GE(inputs.size(), 2u);

  std::mt19937 random(1);  // always the same numbers
  const auto below = [&random](size_t limit) { return limit == 0 ? 0 : random() % limit; };
  for (const std::string& input : inputs) {
    RunOne(input);
    for (int i = 0; i < 100; ++i) {
      std::string mutant = input;
      for (size_t n = 1 + below(8); n-- > 0 && !mutant.empty();) {
        const size_t at = below(mutant.size());
        switch (below(4)) {
          case 0:
            mutant[at] = static_cast<char>(random());
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
      RunOne(mutant);
    }
  }
}

std::vector<std::string> Names() {
  std::vector<std::string> names = {"text_parser"};
  for (const Importer* const importer : Importers()) {
    if (std::filesystem::exists(std::string("testdata/fuzz/") + importer->name)) names.emplace_back(importer->name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, ImportFuzzTest, testing::ValuesIn(Names()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace torchtrace
