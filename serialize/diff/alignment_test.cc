#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "serialize/diff/sequence_diff.h"

namespace torchtrace {
namespace {

using Sequence = std::vector<uint32_t>;

constexpr size_t kSymbols = 1000;

Sequence Letters(const std::string& text) { return {text.begin(), text.end()}; }

RunList AlignOf(const Sequence& a, const Sequence& b) {
  AlignEffort effort;
  return Align(a, b, kSymbols, &effort);
}

// `=3-1+2`; changed ones as `~`.
std::string Text(const RunList& runs) {
  std::string text;
  for (size_t i = 0; i < runs.size(); ++i) {
    text += "=~-+"[static_cast<size_t>(runs[i].kind)] + std::to_string(runs[i].count);
  }
  return text;
}

// The number of removed and added symbols. Fails if the script doesn't turn a into b.
uint64_t CheckedCost(const RunList& runs, const Sequence& a, const Sequence& b) {
  uint64_t cost = 0;
  size_t i = 0;
  Sequence made;
  for (size_t r = 0; r < runs.size(); ++r) {
    const RunList::Run run = runs[r];
    EXPECT_GT(run.count, 0u);
    if (r > 0) {
      EXPECT_NE(run.kind, runs[r - 1].kind);
      EXPECT_FALSE(runs[r - 1].kind == RunKind::kAdded && run.kind == RunKind::kRemoved);
    }
    for (uint32_t n = 0; n < run.count; ++n) {
      if (run.kind == RunKind::kSame) {
        made.push_back(a.at(i++));
      } else if (run.kind == RunKind::kRemoved) {
        ++i;
        ++cost;
      } else {
        made.push_back(b.at(made.size()));
        ++cost;
      }
    }
  }
  EXPECT_EQ(i, a.size());
  EXPECT_EQ(made, b);
  return cost;
}

// The cost of a shortest script, from the table of longest common subsequences.
uint64_t LeastCost(const Sequence& a, const Sequence& b) {
  std::vector<std::vector<uint64_t>> longest(a.size() + 1, std::vector<uint64_t>(b.size() + 1));
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      longest[i][j] = a[i - 1] == b[j - 1] ? longest[i - 1][j - 1] + 1 : std::max(longest[i - 1][j], longest[i][j - 1]);
    }
  }
  return a.size() + b.size() - 2 * longest[a.size()][b.size()];
}

Sequence RandomSequence(size_t length, uint32_t symbols, std::mt19937* random) {
  Sequence sequence(length);
  for (uint32_t& symbol : sequence) symbol = static_cast<uint32_t>((*random)() % symbols);
  return sequence;
}

// Removes, adds or replaces a symbol at random `edits` times.
Sequence Edited(Sequence sequence, size_t edits, uint32_t symbols, std::mt19937* random) {
  for (size_t i = 0; i < edits; ++i) {
    const auto at = static_cast<ptrdiff_t>((*random)() % (sequence.size() + 1));
    const auto symbol = static_cast<uint32_t>((*random)() % symbols);
    const bool at_end = at == static_cast<ptrdiff_t>(sequence.size());
    switch ((*random)() % 3) {
      case 0:
        sequence.insert(sequence.begin() + at, symbol);
        break;
      case 1:
        if (!at_end) sequence.erase(sequence.begin() + at);
        break;
      default:
        if (!at_end) sequence[static_cast<size_t>(at)] = symbol;
    }
  }
  return sequence;
}

// Calls of a training loop: each step has the same calls, and one that no other step has.
Sequence Steps(uint32_t steps, uint32_t calls_per_step) {
  Sequence sequence;
  for (uint32_t step = 0; step < steps; ++step) {
    for (uint32_t call = 0; call < calls_per_step; ++call) sequence.push_back(call % 7 + call / 5);
    sequence.push_back(500 + step);
  }
  return sequence;
}

TEST(Alignment, Examples) {
  const struct {
    const char *a, *b, *runs;
  } cases[] = {
      {"", "", ""},
      {"abc", "abc", "=3"},
      {"", "ab", "+2"},
      {"ab", "", "-2"},
      {"a", "b", "-1+1"},
      {"abc", "axc", "=1-1+1=1"},
      {"abc", "abxc", "=2+1=1"},
      {"abxc", "abc", "=2-1=1"},
      {"abcd", "xabcd", "+1=4"},
      {"abcd", "abcdx", "=4+1"},
      {"abcabba", "xyz", "-7+3"},
      // Symbols that the other side doesn't have, between common ones.
      {"1a2b3c4", "5abc6", "-1+1=1-1=1-1=1-1+1"},
  };
  for (const auto& c : cases) EXPECT_EQ(Text(AlignOf(Letters(c.a), Letters(c.b))), c.runs) << c.a << " " << c.b;
}

TEST(Alignment, IdenticalSequencesHaveNoDifference) {
  std::mt19937 random(1);
  for (size_t length : {1, 2, 100, 10'000}) {
    const Sequence a = RandomSequence(length, 5, &random);
    EXPECT_EQ(Text(AlignOf(a, a)), "=" + std::to_string(length));
  }
}

// All pairs of sequences of up to five symbols from an alphabet of two.
TEST(Alignment, ShortestForAllSmallSequences) {
  std::vector<Sequence> all = {{}};
  for (size_t i = 0; all[i].size() < 5; ++i) {
    for (uint32_t symbol : {0, 1}) {
      all.push_back(all[i]);
      all.back().push_back(symbol);
    }
  }
  for (const Sequence& a : all) {
    for (const Sequence& b : all) ASSERT_EQ(CheckedCost(AlignOf(a, b), a, b), LeastCost(a, b));
  }
}

TEST(Alignment, ShortestForRandomSequences) {
  std::mt19937 random(2);
  for (int round = 0; round < 3000; ++round) {
    const auto symbols = static_cast<uint32_t>(1 + random() % 12);
    const Sequence a = RandomSequence(random() % 60, symbols, &random);
    const Sequence b =
        random() % 2 == 0 ? RandomSequence(random() % 60, symbols, &random) : Edited(a, random() % 8, symbols, &random);
    const uint64_t least = LeastCost(a, b);
    ASSERT_EQ(CheckedCost(AlignOf(a, b), a, b), least);
    ASSERT_EQ(CheckedCost(AlignOf(b, a), b, a), least);
  }
}

// Without effort left, the script is still valid and reasonably short.
TEST(Alignment, WithoutEffortStillAScript) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const auto symbols = static_cast<uint32_t>(2 + random() % 40);
    const Sequence a = RandomSequence(500 + random() % 500, symbols, &random);
    const Sequence b = random() % 2 == 0 ? RandomSequence(500 + random() % 500, symbols, &random)
                                         : Edited(a, 50 + random() % 200, symbols, &random);
    AlignEffort effort = {.left = random() % 3 * 1000, .max_cost = 16, .min_cost = 2};
    const uint64_t cost = CheckedCost(Align(a, b, kSymbols, &effort), a, b);
    EXPECT_TRUE(effort.gave_up);
    EXPECT_LT(cost, a.size() + b.size());
    EXPECT_GE(cost, LeastCost(a, b));
  }
}

TEST(Alignment, SaysWhenItGaveUp) {
  std::mt19937 random(4);
  const Sequence a = RandomSequence(200, 3, &random), b = RandomSequence(200, 3, &random);
  AlignEffort enough;
  Align(a, b, kSymbols, &enough);
  EXPECT_FALSE(enough.gave_up);
  AlignEffort little = {.left = 0, .max_cost = 4, .min_cost = 4};
  Align(a, b, kSymbols, &little);
  EXPECT_TRUE(little.gave_up);
}

// One more epoch: too many edits for the search, so unique symbols must be found.
TEST(Alignment, LongInsertionIsFoundByWhatIsUnique) {
  const Sequence a = Steps(100, 40);
  Sequence b = a;
  const Sequence more(2000, 3);
  b.insert(b.begin() + 1000, more.begin(), more.end());
  b.insert(b.begin() + 3500, 7);
  b.erase(b.begin() + 10);
  b.erase(b.end() - 10);
  AlignEffort effort = {.left = 0, .max_cost = 32, .min_cost = 32};
  const uint64_t cost = CheckedCost(Align(a, b, kSymbols, &effort), a, b);
  EXPECT_TRUE(effort.gave_up);
  EXPECT_EQ(cost, 2003u);
}

// No window of 32 symbols occurs on both sides here, but single symbols do.
TEST(Alignment, UniqueSymbolsServeToo) {
  Sequence a, b;
  for (uint32_t i = 0; i < 200; ++i) {
    a.insert(a.end(), {300 + i, 1, 2, 1, 2, 1, 1});
    b.insert(b.end(), {300 + i, 2, 1, 1, 2, 2, 1, 2});
  }
  AlignEffort effort = {.left = 0, .max_cost = 8, .min_cost = 8};
  const RunList runs = Align(a, b, kSymbols, &effort);
  CheckedCost(runs, a, b);
  EXPECT_TRUE(effort.gave_up);
  uint64_t kept = 0;
  for (size_t i = 0; i < runs.size(); ++i) kept += runs[i].kind == RunKind::kSame ? runs[i].count : 0;
  EXPECT_GE(kept, 200u * 5);
}

TEST(RunList, Appends) {
  RunList runs;
  runs.Append(RunKind::kSame, 0);
  EXPECT_TRUE(runs.empty());
  runs.Append(RunKind::kSame, 2);
  runs.Append(RunKind::kSame, 3);
  runs.Append(RunKind::kAdded, 1);
  EXPECT_EQ(Text(runs), "=5+1");
  runs.Append(RunKind::kAdded, uint64_t{1} << 31);
  EXPECT_EQ(Text(runs), "=5+1073741823+1073741823+3");
}

TEST(PairChanged, SameGroupInOrder) {
  // A capital letter is in the group of its lower-case letter.
  std::vector<uint32_t> groups(128);
  for (uint32_t c = 0; c < 128; ++c) groups[c] = c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
  const struct {
    const char *a, *b, *runs;
  } cases[] = {
      {"xay", "xAy", "=1~1=1"}, {"abc", "ABC", "~3"}, {"abc", "AzBC", "~1+1~2"}, {"abqc", "ABC", "~2-1~1"},
      {"xy", "xy", "=2"},       {"ab", "cd", "-2+2"}, {"a", "", "-1"},           {"xaby", "xBAy", "=1-1~1+1=1"},
  };
  for (const auto& c : cases) {
    const Sequence a = Letters(c.a), b = Letters(c.b);
    AlignEffort effort;
    EXPECT_EQ(Text(PairChanged(Align(a, b, kSymbols, &effort), a, b, groups, 128, &effort)), c.runs) << c.a;
  }
}

}  // namespace
}  // namespace torchtrace
