#include "serialize/base/duration_text.h"

#include <gtest/gtest.h>

namespace torchtrace {
namespace {

TEST(DurationText, Table) {
  const struct {
    int64_t ns;
    const char* text;
  } kRows[] = {{0, "0 ns"},         {999, "999 ns"},         {1000, "1.00 us"},         {1234, "1.23 us"},
               {12'345, "12.3 us"}, {123'456, "123 us"},     {999'499, "999 us"},       {999'500, "1.00 ms"},
               {9'995, "10.0 us"},  {1'500'000, "1.50 ms"},  {2'000'000'000, "2.00 s"}, {1'234'000'000'000, "1234 s"},
               {-5, "-5 ns"},       {-1'500'000, "-1.50 ms"}};
  for (const auto& row : kRows) EXPECT_EQ(FormatDuration(row.ns), row.text) << row.ns;
}

}  // namespace
}  // namespace torchtrace
