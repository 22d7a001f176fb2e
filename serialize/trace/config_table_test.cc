#include "serialize/trace/config_table.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace torchtrace {
namespace {

TEST(ConfigTableTest, NumbersByContent) {
  ConfigTable table;
  const struct {
    std::string identity;
    std::string facets;
    VariantId variant;
    ConfigId config;
  } kCases[] = {
      {"a", "", 0, 0},  {"b", "", 1, 1}, {"a", "", 0, 0},  {"a", "x", 2, 0}, {"a", "y", 3, 0},
      {"a", "x", 2, 0}, {"", "", 4, 2},  {"b", "x", 5, 1}, {"", "", 4, 2},   {std::string("a\0", 2), "", 6, 3},
      {"c", "x", 7, 4}, {"c", "", 8, 4},
  };
  for (const auto& c : kCases) {
    // The bytes are copied: the arguments go away.
    const std::string identity = c.identity, facets = c.facets;
    EXPECT_EQ(table.Intern(identity, facets), c.variant);
    EXPECT_EQ(table.config_of(c.variant), c.config);
  }
  for (const auto& c : kCases) {
    EXPECT_EQ(table.identity(c.config), c.identity);
    EXPECT_EQ(table.facets(c.variant), c.facets);
  }
  EXPECT_EQ(table.config_count(), 5u);
  EXPECT_EQ(table.variant_count(), 9u);
}

TEST(ConfigTableTest, BytesStayWhereTheyAre) {
  ConfigTable table;
  table.Intern("first", "facets");
  const char* const first = table.identity(0).data();
  for (int i = 0; i < 100'000; ++i) table.Intern(absl::StrCat("config-", i), "");
  table.Intern(std::string(1 << 20, 'x'), std::string(1 << 20, 'y'));
  EXPECT_EQ(table.identity(0).data(), first);
  EXPECT_EQ(table.facets(0), "facets");
  EXPECT_EQ(table.identity(77'778), "config-77777");
  EXPECT_EQ(table.facets(100'001), std::string(1 << 20, 'y'));
}

}  // namespace
}  // namespace torchtrace
