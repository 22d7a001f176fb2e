#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "serialize/diff/reports.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

struct ConfigReport {
  bool different;
  std::string text;
};

ConfigReport ConfigReportOf(Trace* a, Trace* b, const DiffOptions& options = {}) {
  std::ostringstream out;
  const absl::StatusOr<bool> different = WriteConfigDiff(a, b, options, &out);
  EXPECT_TRUE(different.ok()) << different.status();
  return {different.ok() && *different, out.str()};
}

json JsonOf(Trace* a, Trace* b, DiffOptions options = {}) {
  options.format = DiffFormat::kJson;
  const ConfigReport report = ConfigReportOf(a, b, options);
  json parsed = json::parse(report.text);
  EXPECT_EQ(parsed["different"], report.different);
  return parsed;
}

DiffOptions Ignoring(const std::vector<std::string>& names) {
  DiffOptions options;
  options.scope.coarsening = *Coarsening::Parse(names);
  options.ignored = names;
  return options;
}

Config Add(std::vector<Dim> shape, int64_t alpha = 1) {
  return MakeConfig(1, "torch.add", {TensorValue(std::move(shape))}, {{"alpha", IntValue(alpha)}});
}

void Call(FakeTrace* trace, const Config& config, int times = 1) {
  for (int i = 0; i < times; ++i) trace->Call(config);
}

TEST(ConfigReport, NothingToSay) {
  FakeTrace a, b, empty;
  AddExampleCalls(&a);
  AddExampleCalls(&b);
  const ConfigReport report = ConfigReportOf(&a, &b);
  EXPECT_FALSE(report.different);
  EXPECT_EQ(report.text, "");
  EXPECT_FALSE(ConfigReportOf(&empty, &empty).different);
  DiffOptions summary;
  summary.summary = true;
  EXPECT_EQ(ConfigReportOf(&a, &b, summary).text,
            "--- A  4 calls of 4 APIs in 4 configs\n"
            "+++ B  4 calls of 4 APIs in 4 configs\n"
            "\n"
            "APIs: 4 the same\n"
            "configs: 4 the same\n");
}

TEST(ConfigReport, Text) {
  FakeTrace a, b;
  Call(&a, MakeConfig(1, "torch.ones", {IntValue(3)}), 2);
  Call(&b, MakeConfig(1, "torch.ones", {IntValue(3)}), 12);
  Call(&a, Add({8, 128}), 5);
  Call(&b, Add({16, 128}), 5);
  Call(&a, MakeConfig(1, "torch.gelu"), 3);
  Call(&b, MakeConfig(1, "torch.relu"), 3);
  Call(&b, MakeConfig(2, "aten::ones"));
  const ConfigReport report = ConfigReportOf(&a, &b);
  EXPECT_TRUE(report.different);
  EXPECT_EQ(report.text,
            "--- A  10 calls of 3 APIs in 3 configs\n"
            "+++ B  21 calls of 4 APIs in 4 configs\n"
            "\n"
            "APIs: 1 removed, 2 added, 1 changed in count, 1 the same\n"
            "-        3  level 1  torch.gelu\n"
            "~  2 -> 12  level 1  torch.ones\n"
            "+        3  level 1  torch.relu\n"
            "+        1  level 2  aten::ones\n"
            "\n"
            "configs: 1 removed, 2 added, 1 changed, 1 changed in count, 0 the same\n"
            "~        5  level 1  torch.add(Tensor([8 -> 16, 128], \"float32\"), alpha=1)\n"
            "-        3  level 1  torch.gelu()\n"
            "~  2 -> 12  level 1  torch.ones(3)\n"
            "+        3  level 1  torch.relu()\n"
            "+        1  level 2  aten::ones()\n");
}

TEST(ConfigReport, ColorsOnlyWhenAskedFor) {
  FakeTrace a, b;
  Call(&a, Add({8}));
  Call(&b, Add({9}));
  DiffOptions options;
  EXPECT_THAT(ConfigReportOf(&a, &b, options).text, Not(HasSubstr("\x1b")));
  options.color = true;
  EXPECT_THAT(ConfigReportOf(&a, &b, options).text, HasSubstr("[\x1b[31m8\x1b[0m -> \x1b[32m9\x1b[0m]"));
}

// The nearest: fewest differing numbers, then the least distance.
TEST(ConfigReport, NearestOfAFamily) {
  FakeTrace a, b;
  Call(&a, Add({8, 64}));
  Call(&a, Add({8, 128}));
  Call(&a, Add({500, 7}));
  Call(&b, Add({16, 128}));
  Call(&b, Add({16, 64}));
  Call(&b, Add({500, 8}));
  Call(&b, Add({1, 1}));
  const json report = JsonOf(&a, &b);
  std::vector<std::string> pairs;
  for (const json& row : report["configs"]) {
    std::string pair = row["change"];
    for (const json& difference : row.value("differences", json::array())) {
      pair += " " + difference["a"].get<std::string>() + ">" + difference["b"].get<std::string>();
    }
    pairs.push_back(pair);
  }
  // In the order of their numbers, the last size first.
  EXPECT_THAT(pairs, testing::ElementsAre("added", "changed 7>8", "changed 8>16", "changed 8>16"));
}

TEST(ConfigReport, OtherFamiliesAreNoPairs) {
  FakeTrace a, b;
  Value half = TensorValue({8});
  half.text = "float16";
  Call(&a, MakeConfig(1, "f", {TensorValue({8})}));
  Call(&a, MakeConfig(1, "f", {TextValue("sum")}));
  Call(&b, MakeConfig(1, "f", {half}));
  Call(&b, MakeConfig(1, "f", {TextValue("mean")}));
  const json report = JsonOf(&a, &b);
  // Only the pair that differs in dtypes and devices is changed.
  EXPECT_EQ(report["summary"]["configs"],
            json({{"removed", 1}, {"added", 1}, {"changed", 1}, {"count", 0}, {"same", 0}}));
  const auto pair = std::find_if(report["configs"].begin(), report["configs"].end(),
                                 [](const json& row) { return row["change"] == "changed"; });
  ASSERT_NE(pair, report["configs"].end());
  EXPECT_EQ((*pair)["a"], R"(f(Tensor([8], "float32")))");
  EXPECT_EQ((*pair)["b"], R"(f(Tensor([8], "float16")))");
  EXPECT_EQ(JsonOf(&a, &b, Ignoring({"device"}))["configs"].size(), 3u);
  EXPECT_EQ(JsonOf(&a, &b, Ignoring({"dtype"}))["configs"].size(), 2u);
}

TEST(ConfigReport, IgnoredPartsAddUp) {
  FakeTrace a, b;
  Value cuda = TensorValue({8});
  cuda.device = "cuda:0";
  Call(&a, MakeConfig(1, "f", {TensorValue({8})}), 3);
  Call(&b, MakeConfig(1, "f", {TensorValue({8})}), 1);
  Call(&b, MakeConfig(1, "f", {cuda}), 2);
  EXPECT_TRUE(ConfigReportOf(&a, &b).different);
  EXPECT_FALSE(ConfigReportOf(&a, &b, Ignoring({"device"})).different);
}

TEST(ConfigReport, CountsCanBeIgnored) {
  FakeTrace a, b;
  Call(&a, Add({8}), 3);
  Call(&b, Add({8}), 4);
  EXPECT_TRUE(ConfigReportOf(&a, &b).different);
  DiffOptions options;
  options.compare_counts = false;
  EXPECT_FALSE(ConfigReportOf(&a, &b, options).different);
  // A config that only one side has still counts.
  Call(&b, Add({9}));
  EXPECT_TRUE(ConfigReportOf(&a, &b, options).different);
}

TEST(ConfigReport, Scope) {
  FakeTrace a, b;
  Call(&b, MakeConfig(1, "torch.add"));
  Call(&b, MakeConfig(2, "aten::add"));
  DiffOptions options;
  options.scope.levels = {2};
  EXPECT_EQ(JsonOf(&a, &b, options)["b"]["calls"], 1);
  options.scope.filter.exclude = {"aten::*"};
  EXPECT_FALSE(ConfigReportOf(&a, &b, options).different);
  options.scope.levels = {};
  EXPECT_TRUE(ConfigReportOf(&a, &b, options).different);
}

// Configs that are defined but never called are left out.
TEST(ConfigReport, DefinitionsAreNoCalls) {
  FakeTrace a, b;
  b.Define(Add({8}));
  EXPECT_FALSE(ConfigReportOf(&a, &b).different);
}

TEST(ConfigReport, Top) {
  FakeTrace a, b;
  for (int i = 1; i <= 5; ++i) Call(&b, MakeConfig(1, "f" + std::to_string(i)), i == 3 ? 50 : i);
  DiffOptions options;
  options.top = 2;
  EXPECT_EQ(ConfigReportOf(&a, &b, options).text,
            "--- A  0 calls of 0 APIs in 0 configs\n"
            "+++ B  62 calls of 5 APIs in 5 configs\n"
            "\n"
            "APIs: 5 added, 0 the same\n"
            "+  50  f3\n"
            "+   5  f5\n"
            "... and 3 more\n"
            "\n"
            "configs: 5 added, 0 the same\n"
            "+  50  f3()\n"
            "+   5  f5()\n"
            "... and 3 more\n");
  const json report = JsonOf(&a, &b, options);
  EXPECT_EQ(report["left_out"], json({{"apis", 3}, {"configs", 3}}));
  EXPECT_EQ(report["configs"].size(), 2u);
}

TEST(ConfigReport, Markdown) {
  FakeTrace a, b;
  Call(&a, Add({8}));
  Call(&b, Add({9}), 2);
  Call(&b, MakeConfig(1, "f", {TextValue("a|`b`")}));
  DiffOptions options;
  options.format = DiffFormat::kMarkdown;
  options.ignored = {"counts"};
  EXPECT_EQ(ConfigReportOf(&a, &b, options).text,
            "# torchtrace diff\n"
            "\n"
            "| | A | B |\n"
            "|---|---|---|\n"
            "| trace | `A` | `B` |\n"
            "| calls | 1 | 3 |\n"
            "| APIs | 1 | 2 |\n"
            "| configs | 1 | 2 |\n"
            "\n"
            "Ignored: counts.\n"
            "\n"
            "## APIs\n"
            "\n"
            "1 added, 1 changed in count, 0 the same\n"
            "\n"
            "| | level | calls in A | calls in B | API |\n"
            "|---|---:|---:|---:|---|\n"
            "| added | 1 | 0 | 1 | `f` |\n"
            "| count | 1 | 1 | 2 | `torch.add` |\n"
            "\n"
            "## Configs\n"
            "\n"
            "1 added, 1 changed, 0 the same\n"
            "\n"
            "| | level | calls in A | calls in B | config |\n"
            "|---|---:|---:|---:|---|\n"
            "| added | 1 | 0 | 1 | ``f(\"a\\|`b`\")`` |\n"
            "| changed | 1 | 1 | 2 | `torch.add(Tensor([8 -> 9], \"float32\"), alpha=1)` |\n");
}

// For random traces: swapping the sides turns removed into added, and every config of
// either side is accounted for.
TEST(ConfigReport, TurnedAround) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    FakeTrace a, b;
    for (FakeTrace* trace : {&a, &b}) {
      for (unsigned i = random() % 30; i > 0; --i) {
        Call(trace, Add({random() % 4 + 1, random() % 3 + 1}, random() % 2), static_cast<int>(random() % 3 + 1));
      }
    }
    const json there = JsonOf(&a, &b), back = JsonOf(&b, &a);
    for (const char* what : {"apis", "configs"}) {
      const json &x = there["summary"][what], &y = back["summary"][what];
      EXPECT_EQ(x["removed"], y["added"]);
      EXPECT_EQ(x["added"], y["removed"]);
      EXPECT_EQ(x["count"], y["count"]);
      EXPECT_EQ(x["same"], y["same"]);
    }
    const json& counts = there["summary"]["configs"];
    EXPECT_EQ(counts["changed"], back["summary"]["configs"]["changed"]);
    const auto sum = [&](const char* side) {
      return counts["same"].get<int>() + counts["count"].get<int>() + counts["changed"].get<int>() +
             counts[side].get<int>();
    };
    EXPECT_EQ(sum("removed"), there["a"]["configs"]);
    EXPECT_EQ(sum("added"), there["b"]["configs"]);
    // With a single family, one side is paired completely.
    EXPECT_EQ(std::min(counts["removed"].get<int>(), counts["added"].get<int>()), 0);
  }
}

}  // namespace
}  // namespace torchtrace
