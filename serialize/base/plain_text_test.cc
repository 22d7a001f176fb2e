#include "serialize/base/plain_text.h"

#include <string>

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

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
      {"\xf3\xa0\x80\x81", "\\U000e0001"},  // a tag: a text that nobody sees
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

// However it is cut into pieces, it becomes the same.
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

}  // namespace
}  // namespace torchtrace
