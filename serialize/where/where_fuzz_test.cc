// Replays where_fuzzer.cc on its corpus and on mutants of it.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "serialize/testing/value_samples.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

TEST(WhereFuzz, SeedsAndMutants) {
  const std::vector<std::string> seeds = torchtrace::ReadFuzzCorpus("where");
  ASSERT_GE(seeds.size(), 6u);
  std::mt19937 random(1);
  const auto run = [](const std::string& text) {
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  };
  for (const std::string& seed : seeds) {
    run(seed);
    for (int i = 0; i < 3000; ++i) {
      std::string mutant = seed;
      for (size_t n = 1 + random() % 5; n-- > 0 && !mutant.empty();) {
        const size_t at = random() % mutant.size();
        const std::string& other = seeds[random() % seeds.size()];
        switch (random() % 4) {
          case 0:
            mutant[at] = static_cast<char>(random());
            break;
          case 1:
            mutant.erase(at, 1 + random() % 8);
            break;
          case 2:
            mutant.insert(at, other, random() % other.size(), 1 + random() % 20);
            break;
          default:
            mutant.insert(at, 1, "()[],=<>!~\"' *"[random() % 14]);
        }
      }
      run(mutant);
    }
  }
}

}  // namespace
