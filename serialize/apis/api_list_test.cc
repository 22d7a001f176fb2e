#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "nlohmann/json.hpp"
#include "serialize/apis/apis.h"
#include "serialize/testing/fake_trace.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

std::vector<std::string> Names(const ApiList& list) {
  std::vector<std::string> names;
  for (const ApiEntry& entry : list.apis) names.push_back(entry.name);
  return names;
}

using NameList = std::vector<std::string>;

TEST(ApiList, Forms) {
  const struct {
    const char* text;
    NameList names;
  } kRows[] = {
      {"torch.abs\n# none\n\n  torch.add  # the second\r\naten::add.Tensor",
       {"torch.abs", "torch.add", "aten::add.Tensor"}},
      {"- torch.abs\n- 'torch.add'\n- torch.abs\n", {"torch.abs", "torch.add"}},
      {"apis:\n  - torch.abs\n  - {api: torch.add, owner: me}\n", {"torch.abs", "torch.add"}},
      {"apis:\n- api: torch.abs\n  kind: builtin\n- api: torch.add\n", {"torch.abs", "torch.add"}},
      {"[torch.abs, torch.add]", {"torch.abs", "torch.add"}},
      {"backend: XLA\ncpp_namespace: torch_xla\nsupported:\n  - abs\n  - add.Tensor\nautograd:\n  - max_pool2d\n",
       {"aten::abs", "aten::add.Tensor", "aten::max_pool2d"}},
      {"supported: [aten::abs, mine::op]\n", {"aten::abs", "mine::op"}},
      {"mine::op.out\n", {"mine::op.out"}},
  };
  for (const auto& row : kRows) {
    const absl::StatusOr<ApiList> list = ParseApiList(row.text, "x");
    ASSERT_TRUE(list.ok()) << list.status();
    EXPECT_EQ(Names(*list), row.names) << row.text;
  }
}

TEST(ApiList, NamesThatOnlyTheUserKnows) {
  for (const char* const text : {"torch.abs\n?torch.mine\n", "- torch.abs\n- ?torch.mine\n"}) {
    const absl::StatusOr<ApiList> list = ParseApiList(text, "x");
    ASSERT_TRUE(list.ok()) << list.status();
    EXPECT_EQ(Names(*list), (NameList{"torch.abs", "torch.mine"}));
    EXPECT_FALSE(list->apis[0].known_by_user);
    EXPECT_TRUE(list->apis[1].known_by_user);
  }
}

TEST(ApiList, Errors) {
  const struct {
    const char* text;
    const char* error;
  } kRows[] = {
      {"", "x:1: expected a list of API names"},
      {"# nothing\n", "x:1: expected a list of API names"},
      {"apis:\n", "x:1: expected a list of API names"},
      {"names:\n- torch.abs\n", "x:1: expected a list of API names"},
      {"torch.abs\ntorch.add(x)\n", "x:2: \"torch.add(x)\" is not the name of an API"},
      {"torch.abs\ntorch.add torch.sub\n", "x:2: \"torch.add torch.sub\" is not the name of an API"},
      {"- torch.linalg.*\n", "x:1: \"torch.linalg.*\" is a pattern: a list has names"},
      {"- torch.\n", "x:1: \"torch.\" is not the name of an API"},
      {"- torch.abs\n- {kind: builtin}\n", "x:2: expected an API: NAME or {api: NAME, ...}"},
      {"- torch.abs\n- [a, b]\n", "x:2: expected an API"},
      {"apis: torch.abs\n", "x:1: expected a list of API names"},
      {"- {api: a, aliases: b}\n", "x:1: expected a list in aliases"},
      {"- {api: a, aliases: ['b c']}\n", "x:1: \"b c\" is not the name of an API"},
      {"- {api: a, levels: [one]}\n", "x:1: expected numbers in levels"},
      {"supported:\n- {func: abs}\n", "x:2: expected the name of an operator"},
      {"- a\n- \"b\n", "x:2: \"b \" is not the name of an API"},
      {"- a\n---\n- b\n", "x:2: a second document; expected one"},
      {"- a\n- {b\n", "x:3: is not YAML: "},
      {"- [a, b\n- c\n", "x:3: is not YAML: "},
      {"\x7f"
       "ELF",
       "x:1: \"\\u007fELF\" is not the name"},
  };
  for (const auto& row : kRows) {
    const absl::StatusOr<ApiList> list = ParseApiList(row.text, "x");
    ASSERT_FALSE(list.ok()) << row.text;
    EXPECT_TRUE(absl::StartsWith(list.status().message(), row.error)) << list.status();
  }
  EXPECT_EQ(ReadApiList("/nowhere/list").status().message(), "cannot read /nowhere/list: No such file or directory");
  EXPECT_EQ(ReadApiList("/").status().message(), "cannot read /: Is a directory");
}

TEST(ApiList, OfOneVersion) {
  const std::string text =
      "library: torch\nversions: [\"2.9\", \"2.10\", \"2.11\"]\napis:\n- torch.abs\n"
      "- {api: torch.old, versions: \"-2.10\"}\n- {api: torch.new, versions: \"2.11-\"}\n"
      "- {api: torch.mm, versions: \"2.9\", levels: [0]}\n- {api: torch.mm, versions: \"2.10-\", levels: [1]}\n";
  const struct {
    const char* asked;
    const char* version;
    NameList names;
    int level;
  } kRows[] = {
      {"2.9.1+cpu", "2.9", {"torch.abs", "torch.old", "torch.mm"}, 0},
      {"2.10", "2.10", {"torch.abs", "torch.old", "torch.mm"}, 1},
      {"2.11.0", "2.11", {"torch.abs", "torch.new", "torch.mm"}, 1},
      {"2.6.0", "2.9", {"torch.abs", "torch.old", "torch.mm"}, 0},
      {"3.0.0", "2.11", {"torch.abs", "torch.new", "torch.mm"}, 1},
      {"", "2.11", {"torch.abs", "torch.new", "torch.mm"}, 1},
  };
  for (const auto& row : kRows) {
    const absl::StatusOr<ApiList> list = ParseApiList(text, "x", row.asked);
    ASSERT_TRUE(list.ok()) << row.asked << list.status();
    EXPECT_EQ(list->version, row.version) << row.asked;
    EXPECT_EQ(Names(*list), row.names) << row.asked;
    EXPECT_EQ(list->apis.back().levels, std::vector<int>{row.level}) << row.asked;
  }
  const absl::StatusOr<ApiList> wrong = ParseApiList("versions: [2, \"2.9\"]\napis: [torch.abs]\n", "x");
  EXPECT_TRUE(absl::StartsWith(wrong.status().message(), "x:1: expected versions")) << wrong.status();
}

TEST(ApiList, KnowsItsVersion) {
  ApiList list;
  list.version = "2.1";
  for (const char* version : {"2.1", "2.1.0+cpu"}) EXPECT_TRUE(IsOfVersion(list, version)) << version;
  for (const char* version : {"2.13.0", "2", "", "12.1"}) EXPECT_FALSE(IsOfVersion(list, version)) << version;
  list.version = "3.3.1";
  EXPECT_TRUE(IsOfVersion(list, "3.3.1"));
  EXPECT_FALSE(IsOfVersion(list, "3.3.1.post1"));
}

// Any bytes give a list or an error, without a stack overflow.
TEST(ApiList, AnyBytes) {
  EXPECT_FALSE(ParseApiList(std::string(100000, '['), "x").ok());
  const std::string sample =
      "apis: [b, {api: 'd', levels: [0]}]\nnot_imported:\n- {module: \"f\\n\"}\nsupported:\n- j # k\n";
  for (size_t at = 0; at < sample.size(); ++at) {
    for (const char c : std::string("\n -:#'\"[]{},&*!|>%@\\\x01\xffz")) {
      std::string changed = sample;
      changed[at] = c;
      const absl::StatusOr<ApiList> parsed = ParseApiList(changed, "x");
      EXPECT_TRUE(parsed.ok() || absl::StartsWith(parsed.status().message(), "x:")) << changed;
    }
  }
}

TEST(ApiList, WritesWhatItReads) {
  ApiList list;
  list.library = "torch";
  list.version = "2.13.0+cpu";
  ApiEntry entry;
  entry.name = "torch.nn.functional.linear";
  entry.kind = "builtin";
  entry.is_public = true;
  entry.levels = {0, 1};
  entry.operators = {"aten::linear"};
  entry.composite = {"aten::linear"};
  entry.aliases = {"torch.F.linear"};
  entry.elsewhere = {"torch._C._nn.linear"};
  list.apis = {entry, {}};
  list.apis[1].name = "torch.abs";
  list.not_imported = {{"torch.x", "ImportError: no \"y\" in C:\\z\nat all"}};
  const std::string text = FormatApiList(list, "# Made by hand.\n");
  EXPECT_EQ(
      text,
      "# Made by hand.\n"
      "library: torch\n"
      "version: \"2.13.0+cpu\"\n"
      "apis:\n"
      "- {api: torch.nn.functional.linear, kind: builtin, public: true, levels: [0, 1], operators: [aten::linear], "
      "composite: [aten::linear], aliases: [torch.F.linear], elsewhere: [torch._C._nn.linear]}\n"
      "- {api: torch.abs}\n"
      "not_imported:\n"
      "- {module: \"torch.x\", reason: \"ImportError: no \\\"y\\\" in C:\\\\z at all\"}\n");
  const absl::StatusOr<ApiList> again = ParseApiList(text, "x");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(FormatApiList(*again, "# Made by hand.\n"), FormatApiList(list, "# Made by hand.\n"));
  EXPECT_EQ(again->apis[0].levels, (std::vector<int>{0, 1}));
}

using nlohmann::json;

json Metadata(const std::string& version, const json& operators = nullptr) {
  json metadata = {{"packages", {{"torch", {{"version", version}}}}}};
  if (!operators.is_null()) metadata["operators"] = operators;
  return metadata;
}

TEST(TraceOperators, OncePerVersion) {
  const json operators = FormatOperators({"aten::mm", "prims::add", "aten::add.Tensor", "odd"});
  EXPECT_EQ(operators, (json{{"aten", "add.Tensor mm"}, {"prims", "add"}}));
  FakeTrace trace(Metadata("2.13.0"));
  trace.AddProcess(Metadata("2.12.0", {{"aten", "gone mm"}}));
  trace.AddProcess(Metadata("2.13.0", operators));
  trace.AddProcess({{"packages", {{"torch", "2.11.0"}}}});
  EXPECT_EQ(*FindOperators(trace, trace.processes()[0]), operators);
  EXPECT_EQ(FindOperators(trace, trace.processes()[1])->at("aten"), "gone mm");
  EXPECT_EQ(FindOperators(trace, trace.processes()[3]), nullptr);
  EXPECT_EQ(PackageVersions(trace, "torch"), (std::set<std::string>{"2.11.0", "2.12.0", "2.13.0"}));
  ApiList list;
  ASSERT_TRUE(AddOperators(trace, "t", "aten", &list).ok());
  EXPECT_EQ(Names(list), (std::vector<std::string>{"aten::add.Tensor", "aten::gone", "aten::mm"}));
  EXPECT_EQ(list.version, "2.13.0");
}

TEST(TraceOperators, Missing) {
  const FakeTrace trace(Metadata("2.13.0"));
  ApiList list;
  const absl::Status status = AddOperators(trace, "old", "aten", &list);
  EXPECT_EQ(status.message().substr(0, 60), "old does not say which operators its PyTorch had: it is not ");
}

}  // namespace

}  // namespace torchtrace
