// Replays the corpora of import_fuzzer.cc, and some random variations of them (the
// same ones each time).

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "serialize/import/import_fuzzer.h"
#include "serialize/import/importer.h"
#include "serialize/testing/value_samples.h"

namespace torchtrace {
namespace {

class ImportFuzzTest : public testing::TestWithParam<std::string> {
 protected:
  static void RunOne(const std::string& input) {
    FuzzOne(GetParam(), reinterpret_cast<const uint8_t*>(input.data()), input.size());
  }
};

TEST_P(ImportFuzzTest, Corpus) {
  std::vector<std::string> inputs = ReadFuzzCorpus(GetParam());
  inputs.insert(inputs.begin(), "");
  EXPECT_GE(inputs.size(), 2u);

  std::mt19937 random(1);  // always the same numbers
  for (const std::string& input : inputs) {
    RunOne(input);
    for (int i = 0; i < 100; ++i) RunOne(MakeMutant(input, &random));
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
