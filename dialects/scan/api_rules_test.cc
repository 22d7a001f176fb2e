#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "dialects/scan/scan.h"
#include "dialects/table/dialects.h"
#include "serialize/apis/apis.h"

namespace torchtrace {
namespace {

ApiEntry Entry(const std::string& name, const std::string& kind, bool is_public = true) {
  ApiEntry entry;
  entry.name = name;
  entry.kind = kind;
  entry.is_public = is_public;
  return entry;
}

std::vector<std::string> Names(const ApiList& list) {
  std::vector<std::string> names;
  for (const ApiEntry& entry : list.apis) names.push_back(entry.name);
  return names;
}

TEST(ApiRules, LongestNameCounts) {
  ApiRules rules;
  ASSERT_TRUE(rules
                  .Add("unsafe:\n- {name: a.bad, reason: x}\n"
                       "noise:\n- {name: a.b, reason: x}\n- {name: 'a.*', kinds: [property], reason: x}\n"
                       "keep:\n- {name: a.b.c, reason: x}\n",
                       "x")
                  .ok());
  ApiList full;
  full.apis = {Entry("a.b", "function"),        Entry("a.b.d", "function"), Entry("a.b.c", "function"),
               Entry("a.b.c.d", "function"),    Entry("a.bc", "function"),  Entry("a.p", "property"),
               Entry("a.q", "function", false), Entry("a.bad", "function"), Entry("a.bad.er", "function")};
  full.apis[4].aliases = {"a.x.bc"};
  full.apis[4].elsewhere = {"a._b.bc"};
  rules.DropUnsafe(&full);
  EXPECT_EQ(Names(full), (std::vector<std::string>{"a.b", "a.b.d", "a.b.c", "a.b.c.d", "a.bc", "a.p", "a.q"}));
  const ApiList list = rules.Default(full);
  EXPECT_EQ(Names(list), (std::vector<std::string>{"a.b.c", "a.b.c.d", "a.bc"}));
  EXPECT_EQ(list.apis[2].aliases, std::vector<std::string>{"a.x.bc"});
  EXPECT_TRUE(list.apis[2].elsewhere.empty());
}

TEST(ApiRules, EveryRuleHasItsReason) {
  ApiRules rules;
  EXPECT_EQ(rules.Add("noise:\n- {name: a}\n", "x").message(),
            "x:2: expected {name: NAME, reason: WHY}, kinds: [...] if need be");
  EXPECT_EQ(rules.Add("nose:\n- {name: a, reason: b}\n", "x").message(),
            "x:1: expected unsafe, noise or keep, not nose");
}

TEST(ApiRules, BuiltInRulesAreRead) {
  std::ifstream file("dialects/scan/rules.yaml");
  const std::string generic{std::istreambuf_iterator<char>(file), {}};
  ASSERT_FALSE(generic.empty());
  ApiRules rules;
  EXPECT_EQ(rules.Add(generic, "rules.yaml"), absl::OkStatus());
  for (const DialectInfo& dialect : AllDialects()) {
    EXPECT_EQ(rules.Add(dialect.api_rules, dialect.name), absl::OkStatus());
  }
}

// The built-in lists can be read, and the rules leave all of their names in.
TEST(ApiRules, BuiltInListAgrees) {
  std::ifstream file("dialects/scan/rules.yaml");
  ApiRules rules;
  ASSERT_TRUE(rules.Add(std::string{std::istreambuf_iterator<char>(file), {}}, "rules.yaml").ok());
  for (const auto& [name, version] : {std::pair("torch", "2.7"), std::pair("torch", ""), std::pair("paddle", "")}) {
    SCOPED_TRACE(absl::StrCat(name, " ", version));
    const DialectInfo& dialect = *FindDialectInfo(name);
    ASSERT_TRUE(rules.Add(dialect.api_rules, dialect.name).ok());
    const absl::StatusOr<ApiList> list = DefaultApiList(dialect, version);
    ASSERT_TRUE(list.ok()) << list.status();
    EXPECT_EQ(list->library, dialect.name);
    EXPECT_GT(list->apis.size(), 1000U);
    ApiList again = *list;
    for (ApiEntry& entry : again.apis) entry.is_public = true;
    rules.DropUnsafe(&again);
    EXPECT_EQ(Names(rules.Default(again)), Names(*list));
  }
}

}  // namespace
}  // namespace torchtrace
