#include "serialize/simple_yaml.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace torchtrace {
namespace {

// As JSON without quotes.
std::string Compact(const SimpleYaml& node) {
  std::string text;
  const char* separator = "";
  switch (node.kind) {
    case SimpleYaml::kNull:
      return "~";
    case SimpleYaml::kScalar:
      return node.scalar;
    case SimpleYaml::kList:
      for (const SimpleYaml& item : node.items) {
        absl::StrAppend(&text, separator, Compact(item));
        separator = ",";
      }
      return absl::StrCat("[", text, "]");
    case SimpleYaml::kMap:
      for (size_t i = 0; i < node.keys.size(); ++i) {
        absl::StrAppend(&text, separator, node.keys[i], ":", Compact(node.items[i]));
        separator = ",";
      }
      return absl::StrCat("{", text, "}");
  }
  return text;
}

TEST(SimpleYaml, Reads) {
  const struct {
    const char* text;
    const char* expected;
  } kRows[] = {
      {"", "~"},
      {"# nothing\n\n", "~"},
      {"- torch.abs\n- aten::add.Tensor\n", "[torch.abs,aten::add.Tensor]"},
      {"---\n- a\r\n-   b  # a comment\n", "[a,b]"},
      {"\xEF\xBB\xBF- a", "[a]"},
      {"key: value\nlist:\n- a\n- b\nlast:\n", "{key:value,list:[a,b],last:~}"},
      {"list:\n  - a\n\n  - b\nkey: 'it''s'\n", "{list:[a,b],key:it's}"},
      {"- {api: a, kind: x, aliases: [b, 'c', \"d \\\"\"]}\n", "[{api:a,kind:x,aliases:[b,c,d \"]}]"},
      {"- api: a\n  aliases:\n  - b\n  - c\n  kind: x\n- api: d\n", "[{api:a,aliases:[b,c],kind:x},{api:d}]"},
      {"- api: a\n  aliases: [b,\n    c,\n  d]\n", "[{api:a,aliases:[b,c,d]}]"},
      {"-\n  a: b\n-\n", "[{a:b},~]"},
      {"a: {}\nb: []\nc: null\n", "{a:{},b:[],c:~}"},
      {"a:\n  b:\n    c: d\n  e: f\n", "{a:{b:{c:d},e:f}}"},
      {"a: b#c # d\n", "{a:b#c}"},
  };
  for (const auto& row : kRows) {
    const absl::StatusOr<SimpleYaml> parsed = ParseSimpleYaml(row.text, "x");
    ASSERT_TRUE(parsed.ok()) << row.text << parsed.status();
    EXPECT_EQ(Compact(*parsed), row.expected) << row.text;
  }
}

TEST(SimpleYaml, Errors) {
  const struct {
    const char* text;
    const char* error;
  } kRows[] = {
      {"- a\n  - b\n", "x:2: expected the next `- ` of the list"},
      {"- a\nkey: b\n", "x:2: expected the next `- ` of the list"},
      {"a: b\nc\n", "x:2: expected the next `key: value`"},
      {"a: b\n  c: d\n", "x:2: expected the next `key: value`"},
      {"  a: b\nc: d\n", "x:2: this is indented in another way than the lines before"},
      {"- [a, b\n- c\n", "x:1: a bracket is not closed"},
      {"- 'a\n", "x:1: a quoted text is not closed on its line"},
      {"- {a}\n", "x:1: expected `key: value` within { }"},
      {"- [a] b\n", "x:1: did not expect `b` there"},
      {"- a\n- &b c\n", "x:2: YAML that begins with `&` is not read here"},
      {"a: |\n  text\n", "x:1: YAML that begins with `|` is not read here"},
      {"- a\n---\n- b\n", "x:2: a second document; one is read"},
      {"-\ta\n", "x:1: a tab or a control character"},
      {"- \"\\x41\"\n", "x:1: only"},
  };
  for (const auto& row : kRows) {
    const absl::StatusOr<SimpleYaml> parsed = ParseSimpleYaml(row.text, "x");
    ASSERT_FALSE(parsed.ok()) << row.text;
    EXPECT_TRUE(absl::StartsWith(parsed.status().message(), row.error)) << parsed.status();
  }
}

// Whatever the bytes: an answer, and no endless nesting.
TEST(SimpleYaml, AnyBytes) {
  EXPECT_FALSE(ParseSimpleYaml(std::string(100000, '['), "x").ok());
  std::string items;
  for (int i = 0; i < 1000; ++i) items += "- ";
  EXPECT_FALSE(ParseSimpleYaml(items + "a", "x").ok());
  const std::string sample = "a: [b, {c: 'd'}]\ne:\n- \"f\\n\"\n- g: h\n  i:\n  - j # k\n";
  for (size_t at = 0; at < sample.size(); ++at) {
    for (const char c : std::string("\n -:#'\"[]{},\\\x01z")) {
      std::string changed = sample;
      changed[at] = c;
      const absl::StatusOr<SimpleYaml> parsed = ParseSimpleYaml(changed, "x");
      EXPECT_TRUE(parsed.ok() || absl::StartsWith(parsed.status().message(), "x:"));
      EXPECT_NE(Compact(parsed.ok() ? *parsed : SimpleYaml()), "");
    }
  }
}

}  // namespace
}  // namespace torchtrace
