#include "serialize/text_table.h"

#include <gtest/gtest.h>

namespace torchtrace {
namespace {

TEST(TextTable, AlignsAndCountsCharacters) {
  TextTable table({{"API", TextTable::kLeft}, {"calls"}, {"note", TextTable::kLeft}});
  table.AddRow({"größe", "1", "short"});
  table.AddRow({"a", "12345678", ""});
  EXPECT_EQ(table.Format(),
            "API       calls  note\n"
            "größe         1  short\n"
            "a      12345678\n");
}

TEST(TextTable, WithoutRows) { EXPECT_EQ(TextTable({{"a"}, {"b"}}).Format(), "a  b\n"); }

}  // namespace
}  // namespace torchtrace
