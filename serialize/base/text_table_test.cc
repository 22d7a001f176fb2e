#include "serialize/base/text_table.h"

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

TEST(TextTable, GroupsOfColumns) {
  TextTable table({{"API", TextTable::kLeft},
                   {"calls", TextTable::kRight, "runs/a"},
                   {"time", TextTable::kRight, "runs/a"},
                   {"n", TextTable::kRight, "a longer name"},
                   {"level"}});
  table.AddRow({"add", "1", "2 us", "3", "1"});
  EXPECT_EQ(table.Format(),
            "          runs/a  a longer name\n"
            "API  calls  time              n  level\n"
            "add      1  2 us              3      1\n");
}

TEST(TextTable, Markdown) {
  TextTable table({{"API", TextTable::kLeft}, {"calls", TextTable::kRight, "a|b"}});
  table.AddRow({"x | `y`", "1"});
  table.AddRow({"z", "-"});
  table.AddRow({"", "-"});
  EXPECT_EQ(table.FormatMarkdown(),
            "| API | a\\|b calls |\n"
            "|---|--:|\n"
            "| `` x \\| `y` `` | 1 |\n"
            "| `z` | - |\n"
            "|  | - |\n");
}

TEST(TextTable, WithoutRows) { EXPECT_EQ(TextTable({{"a"}, {"b"}}).Format(), "a  b\n"); }

}  // namespace
}  // namespace torchtrace
