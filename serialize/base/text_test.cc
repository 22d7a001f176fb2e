#include "serialize/base/text.h"

#include <gtest/gtest.h>

#include <string>

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

TEST(Utf8, Table) {
  const struct {
    const char* text;
    Utf8Char::Kind kind;
    uint8_t bytes;
    uint32_t code_point;
  } kRows[] = {
      {"a", Utf8Char::kScalar, 1, 'a'},
      {"\xc3\xbc", Utf8Char::kScalar, 2, 0xfc},
      {"\xe6\x95\xb0z", Utf8Char::kScalar, 3, 0x6570},
      {"\xf0\x9f\x99\x82", Utf8Char::kScalar, 4, 0x1f642},
      {"\xf4\x8f\xbf\xbf", Utf8Char::kScalar, 4, 0x10ffff},
      {"\xed\xa0\x80", Utf8Char::kSurrogate, 3, 0xd800},
      {"\xed\xbf\xbf", Utf8Char::kSurrogate, 3, 0xdfff},
      {"\x80", Utf8Char::kInvalid, 1, 0x80},              // no lead byte
      {"\xc3", Utf8Char::kInvalid, 1, 0xc3},              // cut
      {"\xe6\x95", Utf8Char::kInvalid, 1, 0xe6},          // cut
      {"\xc3z", Utf8Char::kInvalid, 1, 0xc3},             // goes on with a letter
      {"\xc0\x80", Utf8Char::kInvalid, 1, 0xc0},          // longer than needed
      {"\xe0\x80\x80", Utf8Char::kInvalid, 1, 0xe0},      // longer than needed
      {"\xf4\x90\x80\x80", Utf8Char::kInvalid, 1, 0xf4},  // beyond Unicode
      {"\xff", Utf8Char::kInvalid, 1, 0xff},
  };
  for (const auto& row : kRows) {
    const Utf8Char c = DecodeUtf8(row.text);
    EXPECT_EQ(c.kind, row.kind) << testing::PrintToString(row.text);
    EXPECT_EQ(c.bytes, row.bytes) << testing::PrintToString(row.text);
    EXPECT_EQ(c.code_point, row.code_point) << testing::PrintToString(row.text);
    if (c.kind == Utf8Char::kInvalid) continue;
    std::string again;
    AppendUtf8(c.code_point, &again);
    EXPECT_EQ(again, std::string(row.text, row.bytes));
  }
}

TEST(Utf8, Valid) {
  EXPECT_TRUE(IsValidUtf8(""));
  EXPECT_TRUE(IsValidUtf8("größe 数 🙂"));
  EXPECT_FALSE(IsValidUtf8("a\xed\xa0\x80"));
  EXPECT_FALSE(IsValidUtf8("a\xff"));
}

TEST(Text, Words) {
  for (const char* text : {"a", "_", "A1_z", "import"}) EXPECT_TRUE(IsWord(text)) << text;
  for (const char* text : {"", "1a", "a.b", "a b", "größe", "a\n"}) EXPECT_FALSE(IsWord(text)) << text;
}

TEST(Utf8, CutAtACharacter) {
  const std::string text = "a\xc3\xbc\xf0\x9f\x99\x82";  // a, ü and a face
  EXPECT_EQ(CutUtf8(text, 0), "");
  EXPECT_EQ(CutUtf8(text, 2), "a");
  EXPECT_EQ(CutUtf8(text, 3), "a\xc3\xbc");
  EXPECT_EQ(CutUtf8(text, 6), "a\xc3\xbc");
  EXPECT_EQ(CutUtf8(text, 7), text);
  EXPECT_EQ(CutUtf8(text, 100), text);
}

TEST(Utf8, Escapes) {
  for (const uint32_t c : {0u, 0x1fu, 0x7fu, 0x85u, 0x9fu, 0x2028u, 0x2029u, 0xfeffu, 0xffffu, 0x1fffeu, 0x61cu,
                           0x200eu, 0x202au, 0x202eu, 0x2066u, 0x2069u, 0xe0041u}) {
    EXPECT_TRUE(NeedsEscape(c)) << c;
  }
  for (const uint32_t c : {0x20u, 0x7eu, 0xa0u, 0x200du, 0x2027u, 0x202fu, 0x6570u, 0xfffdu, 0x1f642u})
    EXPECT_FALSE(NeedsEscape(c)) << c;
}

TEST(PlainText, WhatTerminalsObeyIsEscaped) {
  const struct {
    std::string text, plain;
  } kCases[] = {
      {"", ""},
      {"gr\u00f6\u00dfe 1.5 \u00b5s \u6570 \U0001f642 back\\slash",
       "gr\u00f6\u00dfe 1.5 \u00b5s \u6570 \U0001f642 back\\slash"},
      {"a\x1b[2Jb", "a\\x1b[2Jb"},
      {"a\tb\rc\nd", "a\\tb\\rc\\nd"},
      {std::string("\0\x7f", 2), "\\x00\\x7f"},
      {"\u009b31m", "\\x9b31m"},                                               // C1, as UTF-8
      {"\x9b", "\\x9b"},                                                       // and as a byte
      {"\u202eexe.\u2066 \u200f\u061c", "\\u202eexe.\\u2066 \\u200f\\u061c"},  // directions
      {"\xed\xa0\x80", "\\ud800"},
      {"\u2028\ufeff", "\\u2028\\ufeff"},
      {"\xf3\xa0\x80\x81", "\\U000e0001"},  // a tag: invisible text
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(PlainLine(c.text), c.plain);
    EXPECT_EQ(PlainLine(c.plain), c.plain);
  }
}

TEST(PlainText, OwnColorsAndLinesStay) {
  std::string out;
  EXPECT_EQ(AppendPlainText("\x1b[31mred\x1b[0m\n\x1b[2J\x1b[m", {.colors = true}, &out), 20u);
  EXPECT_EQ(out, "\x1b[31mred\x1b[0m\n\\x1b[2J\\x1b[m");
  out.clear();
  AppendPlainText("\x1b[31mred", {}, &out);
  EXPECT_EQ(out, "\\x1b[31mred");
}

// The result doesn't depend on how the text is split into pieces.
TEST(PlainText, InPieces) {
  const std::string text = "1.5 \u00b5s \x1b[31m\u202e\U0001f642\xff x";
  std::string whole;
  AppendPlainText(text, {.colors = true}, &whole);
  for (size_t piece = 1; piece < 9; ++piece) {
    std::string out, waiting;
    for (size_t at = 0; at < text.size(); at += piece) {
      waiting += text.substr(at, piece);
      waiting.erase(0, AppendPlainText(waiting, {.colors = true, .more = true}, &out));
    }
    AppendPlainText(waiting, {.colors = true}, &out);
    EXPECT_EQ(out, whole) << piece;
  }
}

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

TEST(ParseSize, TakesPlainNumbersAndUnits) {
  EXPECT_EQ(*ParseSize("0"), 0u);
  EXPECT_EQ(*ParseSize("4096"), 4096u);
  EXPECT_EQ(*ParseSize("12b"), 12u);
  for (const char* const text : {"64K", "64KB", "64kib", "64 KB"}) EXPECT_EQ(*ParseSize(text), 64u << 10) << text;
  EXPECT_EQ(*ParseSize("3gb"), uint64_t{3} << 30);
  EXPECT_EQ(*ParseSize("16777215TB"), uint64_t{16777215} << 40);
  for (const char* const bad :
       {"", "-5", "+5", "1.5MB", "MB", "1XB", "1KX", "1 2", "16777216TB", "18446744073709551616"}) {
    EXPECT_FALSE(ParseSize(bad).ok()) << bad;
  }
  EXPECT_EQ(ParseSize("-5").status().message(),
            "'-5' is not a size: expected a number of bytes, or of KB, MB, GB or TB, as 64KB");
}

TEST(ShortSourcePath, LeavesOutWhatSaysNothing) {
  EXPECT_EQ(ShortSourcePath("/home/me/train.py", "/home/me/"), "train.py");
  EXPECT_EQ(ShortSourcePath("/home/me/train.py", ""), "/home/me/train.py");
  EXPECT_EQ(ShortSourcePath("/train.py", "/"), "/train.py");
  EXPECT_EQ(ShortSourcePath("/home/me/.venv/lib/python3.11/site-packages/torch/nn.py", "/home/me/"), "torch/nn.py");
  EXPECT_EQ(ShortSourcePath("/usr/lib/python3/dist-packages/numpy/a.py", ""), "numpy/a.py");
  EXPECT_EQ(ShortSourcePath("/usr/lib/python3.11/json/decoder.py", ""), "json/decoder.py");
  EXPECT_EQ(ShortSourcePath("/usr/lib/python3.x/a.py", ""), "/usr/lib/python3.x/a.py");
  EXPECT_EQ(ShortSourcePath("<frozen os>", "/home/me/"), "<frozen os>");
}

}  // namespace

}  // namespace torchtrace
