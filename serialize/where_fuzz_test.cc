// Replays where_fuzzer.cc on conditions of every kind and on mutants of them.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr const char* kSeeds[] = {
    "dtype = float16 and ndim >= 3",
    "api ~ 'torch.*' and not (raised or returned = false)",
    "any(dtype != half and device = cuda:0) or all(shape in ([2, *], []))",
    "arg(alpha) = \"x\\\"y\" or arg(0) <= -1.5e3 or arg('a b')",
    "duration > 10us and size(-1) not in (1, 2) and stride != [3, 1]",
    "rank = 0 or label !~ *x* or thread_name = main or pid == 12",
};

TEST(WhereFuzz, SeedsAndMutants) {
  std::mt19937 random(1);
  const auto run = [](const std::string& text) {
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  };
  for (const std::string seed : kSeeds) {
    run(seed);
    for (int i = 0; i < 3000; ++i) {
      std::string mutant = seed;
      for (size_t n = 1 + random() % 5; n-- > 0 && !mutant.empty();) {
        const size_t at = random() % mutant.size();
        const std::string other = kSeeds[random() % std::size(kSeeds)];
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
