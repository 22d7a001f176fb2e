#include "tracer/record/intern_table.h"

#include <string>

#include "gtest/gtest.h"
#include "serialize/base/hash.h"

namespace torchtrace {
namespace {

uint64_t HashOf(const std::string& text) { return Hash64(text.data(), text.size()); }

std::string Config(int i) { return "identity" + std::to_string(i) + "facets"; }
uint32_t IdentityBytes(int i) { return static_cast<uint32_t>(Config(i).size() - 6); }

TEST(InternTableTest, FindsWhatWasInserted) {
  InternTable table;
  EXPECT_EQ(table.Find(HashOf("a"), "a"), nullptr);
  EXPECT_EQ(table.bytes(), 0u);
  constexpr int kConfigs = 5000;
  for (int i = 0; i < kConfigs; ++i) {
    ASSERT_EQ(table.Find(HashOf(Config(i)), Config(i)), nullptr);
    InternTable::Entry* const entry = table.Insert(HashOf(Config(i)), Config(i), IdentityBytes(i));
    EXPECT_EQ(entry->frame, 0u);
    entry->definition = static_cast<uint32_t>(i);
  }
  for (int i = 0; i < kConfigs; ++i) {
    const InternTable::Entry* const entry = table.Find(HashOf(Config(i)), Config(i));
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->definition, static_cast<uint32_t>(i));
    EXPECT_EQ(entry->identity(), "identity" + std::to_string(i));
    EXPECT_EQ(entry->facets(), "facets");
  }
  EXPECT_GT(table.bytes(), kConfigs * (sizeof(InternTable::Entry) + 14));
  table.Clear();
  EXPECT_EQ(table.bytes(), 0u);
  EXPECT_EQ(table.Find(HashOf(Config(0)), Config(0)), nullptr);
}

TEST(InternTableTest, EqualHashesAreNotEqualConfigs) {
  InternTable table;
  InternTable::Entry* const a = table.Insert(7, "a", 1);
  InternTable::Entry* const b = table.Insert(7, "b", 1);
  EXPECT_EQ(table.Find(7, "a"), a);
  EXPECT_EQ(table.Find(7, "b"), b);
  EXPECT_EQ(table.Find(7, "c"), nullptr);
}

TEST(InternTableTest, LargeConfigs) {
  InternTable table;
  const std::string large(100'000, 'x');
  const InternTable::Entry* const entry = table.Insert(HashOf(large), large, 50'000);
  EXPECT_EQ(entry->config(), large);
  EXPECT_EQ(table.Find(HashOf(large), large), entry);
  EXPECT_GE(table.bytes(), large.size());
}

}  // namespace
}  // namespace torchtrace
