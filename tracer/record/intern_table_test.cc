#include "tracer/record/intern_table.h"

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "serialize/base/bytes.h"

namespace torchtrace {
namespace {

struct Data {
  uint32_t frame;
  uint32_t definition;
  uint32_t defined_in;
  uint32_t stacks;
};
using Table = InternTable<Data>;

uint64_t HashOf(const std::string& text) { return Hash64(text.data(), text.size()); }

std::string ConfigBytes(int i) { return "config" + std::to_string(i); }

TEST(InternTableTest, FindsWhatWasInserted) {
  Table table;
  EXPECT_EQ(table.Find(HashOf("a"), "a"), nullptr);
  EXPECT_EQ(table.memory(), 0u);
  constexpr int kConfigs = 5000;
  for (int i = 0; i < kConfigs; ++i) {
    ASSERT_EQ(table.Find(HashOf(ConfigBytes(i)), ConfigBytes(i)), nullptr);
    Table::Entry* const entry = table.Insert(HashOf(ConfigBytes(i)), ConfigBytes(i));
    EXPECT_EQ(entry->frame, 0u);
    entry->definition = static_cast<uint32_t>(i);
  }
  for (int i = 0; i < kConfigs; ++i) {
    const Table::Entry* const entry = table.Find(HashOf(ConfigBytes(i)), ConfigBytes(i));
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->definition, static_cast<uint32_t>(i));
    EXPECT_EQ(entry->bytes(), ConfigBytes(i));
  }
  EXPECT_GT(table.memory(), kConfigs * (sizeof(Table::Entry) + 7));
  table.Clear();
  EXPECT_EQ(table.memory(), 0u);
  EXPECT_EQ(table.Find(HashOf(ConfigBytes(0)), ConfigBytes(0)), nullptr);
}

TEST(InternTableTest, EqualHashesAreNotEqualConfigs) {
  Table table;
  Table::Entry* const a = table.Insert(7, "a");
  Table::Entry* const b = table.Insert(7, "b");
  EXPECT_EQ(table.Find(7, "a"), a);
  EXPECT_EQ(table.Find(7, "b"), b);
  EXPECT_EQ(table.Find(7, "c"), nullptr);
}

TEST(InternTableTest, LargeConfigs) {
  Table table;
  const std::string large(100'000, 'x');
  const Table::Entry* const entry = table.Insert(HashOf(large), large);
  EXPECT_EQ(entry->bytes(), large);
  EXPECT_EQ(table.Find(HashOf(large), large), entry);
  EXPECT_GE(table.memory(), large.size());
}

TEST(InternTableTest, ConfigsOfNoBytes) {
  Table table;
  EXPECT_EQ(table.Find(0, ""), nullptr);
  Table::Entry* const entry = table.Insert(0, "");
  EXPECT_EQ(table.Find(0, ""), entry);
  EXPECT_EQ(table.Find(0, "a"), nullptr);
  EXPECT_EQ(entry->bytes(), "");
}

// Cells of colliding hashes wrap around the end of the table, and are found after it has grown.
TEST(InternTableTest, HashesThatCollide) {
  for (const uint64_t hash : {uint64_t{0}, uint64_t{255}, UINT64_MAX, uint64_t{1} << 63}) {
    Table table;
    std::vector<Table::Entry*> entries;
    for (int i = 0; i < 500; ++i) {
      entries.push_back(table.Insert(hash, ConfigBytes(i)));
      // The same cell in all table sizes of this test: the low bits are equal.
      table.Insert(hash ^ (uint64_t{1} << 40), ConfigBytes(i));
    }
    for (int i = 0; i < 500; ++i) {
      ASSERT_EQ(table.Find(hash, ConfigBytes(i)), entries[static_cast<size_t>(i)]) << hash << " " << i;
      const Table::Entry* const other = table.Find(hash ^ (uint64_t{1} << 40), ConfigBytes(i));
      ASSERT_NE(other, nullptr);
      ASSERT_NE(other, entries[static_cast<size_t>(i)]);
      ASSERT_EQ(table.Find(hash ^ (uint64_t{1} << 41), ConfigBytes(i)), nullptr);
    }
  }
}

// Entries keep their addresses, which are aligned, and their contents.
TEST(InternTableTest, EntriesOutliveGrowth) {
  Table table;
  std::mt19937 random(5);
  std::map<std::string, Table::Entry*> model;
  for (uint32_t i = 0; i < 20'000; ++i) {
    // Any length, sometimes longer than a block of the arena.
    const size_t length = i % 1000 == 0 ? 40'000 + random() % 40'000 : random() % 60;
    std::string config(length, static_cast<char>('a' + i % 26));
    config += std::to_string(i);
    Table::Entry* const entry = table.Insert(HashOf(config), config);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(entry) % alignof(Table::Entry), 0u);
    entry->definition = i;
    entry->frame = entry->defined_in = i + 1;
    entry->stacks = i % 4;
    model[config] = entry;
  }
  uint64_t bytes = 0;
  for (const auto& [config, entry] : model) {
    ASSERT_EQ(table.Find(HashOf(config), config), entry);
    EXPECT_EQ(entry->bytes(), config);
    EXPECT_EQ(entry->frame, entry->definition + 1);
    EXPECT_EQ(entry->defined_in, entry->definition + 1);
    EXPECT_EQ(entry->stacks, entry->definition % 4);
    bytes += sizeof *entry + config.size();
  }
  // memory() is about what the table holds.
  EXPECT_GE(table.memory(), bytes);
  EXPECT_LE(table.memory(), 2 * bytes + (1 << 20));
}

TEST(InternTableTest, ForgetsAndBeginsAgain) {
  Table table;
  uint64_t first = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 300; ++i) {
      const std::string config = ConfigBytes(round * 100 + i);  // some were known before
      ASSERT_EQ(table.Find(HashOf(config), config), nullptr);
      const Table::Entry* const entry = table.Insert(HashOf(config), config);
      EXPECT_EQ(entry->frame, 0u);
      EXPECT_EQ(entry->defined_in, 0u);
      EXPECT_EQ(entry->stacks, 0u);
    }
    if (round == 0) first = table.memory();
    EXPECT_EQ(table.memory(), first);
    table.Clear();
    EXPECT_EQ(table.memory(), 0u);
  }
}

// Tables of different threads share nothing.
TEST(InternTableTest, OneForEachThread) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      Table table;
      for (int i = 0; i < 3000; ++i)
        table.Insert(HashOf(ConfigBytes(i)), ConfigBytes(i))->stacks = static_cast<uint32_t>(t);
      for (int i = 0; i < 3000; ++i) {
        const Table::Entry* const entry = table.Find(HashOf(ConfigBytes(i)), ConfigBytes(i));
        ASSERT_NE(entry, nullptr);
        EXPECT_EQ(entry->stacks, static_cast<uint32_t>(t));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace torchtrace
