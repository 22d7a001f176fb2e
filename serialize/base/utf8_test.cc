#include "serialize/base/utf8.h"

#include <gtest/gtest.h>

#include <string>

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

TEST(Utf8, Escapes) {
  for (const uint32_t c : {0u, 0x1fu, 0x7fu, 0x85u, 0x9fu, 0x2028u, 0x2029u, 0xfeffu, 0xffffu, 0x1fffeu, 0x61cu,
                           0x200eu, 0x202au, 0x202eu, 0x2066u, 0x2069u, 0xe0041u}) {
    EXPECT_TRUE(NeedsEscape(c)) << c;
  }
  for (const uint32_t c : {0x20u, 0x7eu, 0xa0u, 0x200du, 0x2027u, 0x202fu, 0x6570u, 0xfffdu, 0x1f642u})
    EXPECT_FALSE(NeedsEscape(c)) << c;
}

}  // namespace
}  // namespace torchtrace
