#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/reports/reports.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

class CoverageTest : public testing::Test {
 protected:
  CoverageTest() : trace_(nlohmann::json{{"levels", {1, 2}}}) {
    AddExampleCalls(&trace_);
    trace_.Call(MakeConfig(2, "aten::add.Tensor", {TensorValue({2, 3})}));
    trace_.Call(MakeConfig(2, "aten::add.Tensor", {TensorValue({4})}));
    trace_.Call(MakeConfig(2, "aten::add.Tensor", {TensorValue({4})}));
    trace_.Call(MakeConfig(2, "aten::mm", {TensorValue({4})}));
    trace_.Call(MakeConfig(1, "torch.Tensor.shape.__get__", {TensorValue({4})}));
  }

  std::string Report(const std::string& list, const CoverageOptions& options = {}) {
    const absl::StatusOr<ApiList> parsed = ParseApiList(list, "list");
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    std::ostringstream out;
    const absl::Status written =
        WriteCoverage({{&trace_, "t"}, {&more_, "more"}}, *parsed, "ops.txt", options, &out, &totals_);
    return written.ok() ? out.str() : std::string(written.message());
  }

  FakeTrace trace_;
  FakeTrace more_;
  CoverageTotals totals_;
};

TEST_F(CoverageTest, Text) {
  EXPECT_EQ(Report("torch.add\ntorch.sub\ntorch.ones\ntorch.mul\n"),
            "2 of 4 APIs of ops.txt were called (50.00%), 2 never\n"
            "3 more were called (--show outside)\n"
            "\n"
            "called      calls  configs  level\n"
            "torch.add       1        1      1\n"
            "torch.ones      1        1      1\n"
            "\n"
            "never called\n"
            "torch.sub\n"
            "torch.mul\n");
  EXPECT_EQ(totals_.listed, 4U);
  EXPECT_TRUE(totals_.Reaches(50));
  EXPECT_FALSE(totals_.Reaches(50.01));
}

TEST_F(CoverageTest, Namespaces) {
  const std::string list =
      "torch.add\ntorch.sub\ntorch.Tensor.sum\ntorch.Tensor.shape\ntorch.nn.functional.relu\ntorch.nn.Module.cuda\n"
      "torch.nn.Linear\ntorch.optim.lr_scheduler.StepLR.step\naten::mm\naten.add.Tensor\nlen\n";
  CoverageOptions options;
  options.namespaces = true;
  options.called = options.never = false;
  EXPECT_EQ(Report(list, options),
            "5 of 11 APIs and operators of ops.txt were called (45.45%), 6 never (--show called,never lists them)\n"
            "2 more were called (--show outside)\n"
            "\n"
            "namespace                 called  known  called %\n"
            "aten                           2      2   100.00%\n"
            "torch                          1      2    50.00%\n"
            "torch.Tensor                   2      2   100.00%\n"
            "torch.nn                       0      2     0.00%\n"
            "(none)                         0      1     0.00%\n"
            "torch.nn.functional            0      1     0.00%\n"
            "torch.optim.lr_scheduler       0      1     0.00%\n");
  options.format = StatsFormat::kCsv;
  EXPECT_TRUE(absl::StartsWith(Report(list, options), "namespace,called,known,percent\naten,2,2,100.0\n"));
  options.format = StatsFormat::kJson;
  options.called = options.never = true;
  const nlohmann::json report = nlohmann::json::parse(Report(list, options));
  EXPECT_EQ(report["namespaces"][1],
            nlohmann::json::parse(R"({"namespace": "torch", "called": 1, "known": 2, "percent": 50.0})"));
  EXPECT_EQ(report["apis"].size(), 11U);
  std::string many;
  for (int i = 0; i < 60; ++i) many += "m" + std::to_string(i) + ".f\n";
  options.called = options.never = false;
  options.format = StatsFormat::kText;
  EXPECT_TRUE(absl::StrContains(Report(many, options), "\n(30 others)       0     30     0.00%\n"))
      << Report(many, options);
}

// Operators match in any spelling; without an overload, a name means all of them.
TEST_F(CoverageTest, Operators) {
  CoverageOptions options;
  options.format = StatsFormat::kCsv;
  options.outside = true;
  for (const char* const spelling : {"aten::add.Tensor", "aten.add.Tensor", "torch.ops.aten.add.Tensor", "aten::add",
                                     "torch.ops.aten.add", "supported: [add]", "supported: [add.Tensor]"}) {
    const std::string report = Report(spelling, options);
    EXPECT_TRUE(absl::StrContains(report, ",called,3,2,2\n")) << report;
    EXPECT_TRUE(absl::StrContains(report, "\naten::mm,outside,1,1,2\n")) << report;
  }
  const std::vector<std::string> spellings = {"aten::mm",        "aten::mm.default",  "aten.mm",
                                              "aten.mm.default", "torch.ops.aten.mm", "torch.ops.aten.mm.default"};
  for (const std::string& spelling : spellings) {
    EXPECT_TRUE(absl::StrContains(Report(spelling, options), ",called,1,1,2\n")) << spelling;
    for (const std::string& other : spellings) {
      if (other == spelling) continue;
      Report(absl::StrCat(spelling, "\n", other), options);
      EXPECT_EQ(totals_.listed, 1U) << spelling << " " << other;
      EXPECT_EQ(totals_.called, 1U) << spelling << " " << other;
      EXPECT_EQ(totals_.repeated, std::vector<std::string>{other});
    }
  }
  // An entry for one overload doesn't hide an entry for all of them.
  Report("aten::add.default\naten::add", options);
  EXPECT_EQ(totals_.called, 1U);
  trace_.Call(MakeConfig(2, "aten::mm.default", {TensorValue({4})}));
  EXPECT_TRUE(absl::StrContains(Report("aten::mm", options), "aten::mm,called,2,1,2\n"));
  EXPECT_TRUE(absl::StrContains(Report("aten.add.default", options), "\naten.add.default,never,0,0,\n"));
  options.exact_overloads = true;
  EXPECT_TRUE(absl::StrContains(Report("aten::add", options), "\naten::add,never,0,0,\n"));
}

TEST_F(CoverageTest, AliasesPropertiesAndLevels) {
  // The same call as level 0 sees it.
  trace_.Call(MakeConfig(0, "torch.add", {TensorValue({2, 3}), TensorValue({2, 3})}, {{"alpha", IntValue(10)}}));
  CoverageOptions options;
  options.format = StatsFormat::kJson;
  const nlohmann::json report =
      nlohmann::json::parse(Report("apis:\n"
                                   "- {api: torch.plus, aliases: [torch.add]}\n"
                                   "- {api: torch.Tensor.shape, kind: property}\n"
                                   "- {api: torch.nn.Linear, levels: [0]}\n"
                                   "- {api: torch.abs, levels: [0, 1]}\n",
                                   options));
  EXPECT_EQ(report["total"], 4);
  EXPECT_EQ(report["called"], 2);
  EXPECT_EQ(report["percent"], 50.0);
  EXPECT_EQ(report["not_visible"], 1);
  const nlohmann::json expected = nlohmann::json::parse(R"([
    {"api": "torch.plus", "called": true, "calls": 1, "configs": 1, "levels": [0, 1]},
    {"api": "torch.Tensor.shape", "called": true, "calls": 1, "configs": 1, "levels": [1]},
    {"api": "torch.nn.Linear", "called": false, "calls": 0, "configs": 0, "levels": [], "visible": false},
    {"api": "torch.abs", "called": false, "calls": 0, "configs": 0, "levels": [], "visible": true}])");
  EXPECT_EQ(report["apis"], expected);
  EXPECT_FALSE(report.contains("not_in_list"));
}

TEST_F(CoverageTest, SeveralTracesCountTogether) {
  more_.Call(MakeConfig(2, "aten::add.Tensor", {TensorValue({4})}));
  more_.Call(MakeConfig(2, "aten::add.Tensor", {TensorValue({5})}));
  more_.Define(MakeConfig(2, "aten::sub.Tensor", {}));
  CoverageOptions options;
  options.format = StatsFormat::kCsv;
  EXPECT_EQ(Report("aten::add.Tensor\naten::sub\n", options),
            "api,status,calls,configs,levels\naten::add.Tensor,called,5,3,2\naten::sub,never,0,0,\n");
}

TEST_F(CoverageTest, Filters) {
  CoverageOptions options;
  options.filter.include = {"aten::m*"};
  options.outside = true;
  EXPECT_EQ(Report("aten::mul.Tensor\naten::sub.Tensor\n", options),
            "0 of 1 operators of ops.txt were called (0.00%), 1 never\n"
            "1 more was called\n"
            "\nnever called\naten::mul.Tensor\n"
            "\nnot in the list  calls  configs  level\naten::mm             1        1      2\n");
  options.levels = {1};
  options.never = false;
  EXPECT_EQ(Report("aten::mm\n", options), "0 of 1 operators of ops.txt were called (0.00%), 1 never\n");
  EXPECT_EQ(Report("torch.add\n", options), "--include and --exclude leave nothing of ops.txt");
}

}  // namespace
}  // namespace torchtrace
