#include "serialize/render/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RenderTest : public testing::Test {
 protected:
  RenderTest() {
    folder_ = testing::TempDir() + "/render_test_" + std::to_string(getpid());
    std::filesystem::remove_all(folder_);
    options_.folder = folder_;
  }
  ~RenderTest() override { std::filesystem::remove_all(folder_); }

  std::string ReadFile(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name);
    EXPECT_TRUE(file.good()) << name;
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  // Names of all files, temporary ones included.
  std::set<std::string> Files() const {
    std::set<std::string> names;
    if (!std::filesystem::exists(folder_)) return names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.insert(entry.path().filename());
    return names;
  }

  std::string folder_;
  RenderOptions options_;
};

TEST_F(RenderTest, TheSeedExample) {
  FakeTrace trace;
  AddExampleCalls(&trace);
  const auto report = Render(&trace, options_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->statistics.calls, 4u);
  EXPECT_EQ(report->files.size(), 7u);
  EXPECT_FALSE(report->listing_left_out);

  EXPECT_EQ(ReadFile("api_trace.txt"),
            "torch.randn(2, 3, device=\"cpu\")\n"
            "torch.ones(2, 3)\n"
            "torch.add(Tensor([2, 3], \"float32\"), Tensor([2, 3], \"float32\"), alpha=10)\n"
            "torch.Tensor.sum(Tensor([2, 3], \"float32\"))\n");
  EXPECT_EQ(ReadFile("api_trace.yaml"),
            "- api: torch.randn\n"
            "  args: [2, 3]\n"
            "  kwargs: {device: cpu}\n"
            "- api: torch.ones\n"
            "  args: [2, 3]\n"
            "  kwargs: {}\n"
            "- api: torch.add\n"
            "  args: [{type: torch.Tensor, shape: [2, 3], dtype: torch.float32, device: cpu}, "
            "{type: torch.Tensor, shape: [2, 3], dtype: torch.float32, device: cpu}]\n"
            "  kwargs: {alpha: 10}\n"
            "- api: torch.Tensor.sum\n"
            "  args: [{type: torch.Tensor, shape: [2, 3], dtype: torch.float32, device: cpu}]\n"
            "  kwargs: {}\n");
  EXPECT_EQ(ReadFile("api_apis.txt"), "torch.Tensor.sum\ntorch.add\ntorch.ones\ntorch.randn\n");
  EXPECT_EQ(ReadFile("api_configs.txt"),
            "torch.Tensor.sum(Tensor([2, 3], \"float32\"))\n"
            "torch.add(Tensor([2, 3], \"float32\"), Tensor([2, 3], \"float32\"), alpha=10)\n"
            "torch.ones(2, 3)\n"
            "torch.randn(2, 3, device=\"cpu\")\n");
  EXPECT_EQ(ReadFile("api_statistics.txt"),
            "Total APIs: 4\nTotal API calls: 4\n\n"
            "torch.randn: 1 (25.00%)\ntorch.ones: 1 (25.00%)\ntorch.add: 1 (25.00%)\ntorch.Tensor.sum: 1 (25.00%)\n");

  const YAML::Node configs = YAML::Load(ReadFile("api_configs.yaml"));
  ASSERT_EQ(configs.size(), 4u);
  EXPECT_EQ(configs[1]["api"].as<std::string>(), "torch.add");
  EXPECT_EQ(configs[1]["kwargs"]["alpha"].as<int>(), 10);
  EXPECT_EQ(configs[1]["level"].as<int>(), 1);
  EXPECT_EQ(configs[1]["calls"].as<int>(), 1);
  const YAML::Node statistics = YAML::Load(ReadFile("api_statistics.yaml"));
  EXPECT_EQ(statistics["total_apis"].as<int>(), 4);
  EXPECT_EQ(statistics["total_api_calls"].as<int>(), 4);
  EXPECT_EQ(statistics["total_configs"].as<int>(), 4);
  EXPECT_EQ(statistics["apis"][0]["api"].as<std::string>(), "torch.randn");
  EXPECT_EQ(statistics["apis"][0]["percent"].as<double>(), 25.0);
}

TEST_F(RenderTest, StatisticsGoByCountThenFirstAppearance) {
  FakeTrace trace;
  trace.Call(MakeConfig(1, "b"));
  trace.Call(MakeConfig(1, "a", {IntValue(1)}));
  trace.Call(MakeConfig(1, "c"));
  trace.Call(MakeConfig(1, "c"));
  trace.Call(MakeConfig(1, "a", {IntValue(2)}));
  trace.Call(MakeConfig(1, "d"));
  ASSERT_TRUE(Render(&trace, options_).ok());
  EXPECT_EQ(ReadFile("api_statistics.txt"),
            "Total APIs: 4\nTotal API calls: 6\n\n"
            "a: 2 (33.33%)\nc: 2 (33.33%)\nb: 1 (16.67%)\nd: 1 (16.67%)\n");
}

// Ids follow the order of the log, where all calls of one thread precede those of another.
TEST_F(RenderTest, FirstAppearanceIsByTimeOverAllThreads) {
  FakeTrace trace;
  trace.Define(MakeConfig(1, "later"));
  trace.Call(MakeConfig(1, "first"));
  trace.In(0, 1);
  trace.Call(MakeConfig(1, "later"));
  ASSERT_TRUE(Render(&trace, options_).ok());
  EXPECT_THAT(ReadFile("api_statistics.txt"), HasSubstr("first: 1 (50.00%)\nlater: 1 (50.00%)\n"));
}

TEST_F(RenderTest, LevelsStandTogetherInProgramOrder) {
  FakeTrace trace(nlohmann::json{{"levels", {1, 2}}});
  trace.Enter(MakeConfig(1, "torch.add"));
  trace.Call(MakeConfig(2, "aten::add.Tensor"));
  trace.Leave();
  trace.Call(MakeConfig(1, "torch.ones"));
  ASSERT_TRUE(Render(&trace, options_).ok());
  EXPECT_EQ(ReadFile("api_trace.txt"), "torch.add()\naten::add.Tensor()\ntorch.ones()\n");
  EXPECT_EQ(ReadFile("api_apis.txt"), "aten::add.Tensor\ntorch.add\ntorch.ones\n");
}

TEST_F(RenderTest, LevelsApart) {
  FakeTrace trace(nlohmann::json{{"levels", {1, 2, 4}}});
  trace.Enter(MakeConfig(1, "torch.add"));
  trace.Call(MakeConfig(2, "aten::add.Tensor"));
  trace.Leave();
  trace.Call(MakeConfig(1, "torch.add"));
  options_.merge_output = false;
  const auto report = Render(&trace, options_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(Files().size(), 21u);
  EXPECT_EQ(ReadFile("api_trace_level_1.txt"), "torch.add()\ntorch.add()\n");
  EXPECT_EQ(ReadFile("api_trace_level_2.txt"), "aten::add.Tensor()\n");
  EXPECT_EQ(ReadFile("api_trace_level_2.yaml"), "- api: aten::add.Tensor\n  args: []\n  kwargs: {}\n");
  EXPECT_EQ(ReadFile("api_configs_level_1.txt"), "torch.add()\n");
  EXPECT_EQ(ReadFile("api_apis_level_2.txt"), "aten::add.Tensor\n");
  EXPECT_EQ(ReadFile("api_statistics_level_1.txt"), "Total APIs: 1\nTotal API calls: 2\n\ntorch.add: 2 (100.00%)\n");
  // A requested level without calls.
  EXPECT_EQ(ReadFile("api_trace_level_4.txt"), "");
  EXPECT_EQ(ReadFile("api_trace_level_4.yaml"), "[]\n");
  EXPECT_EQ(ReadFile("api_statistics_level_4.txt"), "Total APIs: 0\nTotal API calls: 0\n\n");
}

TEST_F(RenderTest, FacetsShowInTheListingAndDoNotSplitConfigs) {
  FakeTrace trace;
  std::string facets;
  AppendVarint(1, &facets);
  AppendVarint(0, &facets);
  AppendVarint(kFacetRequiresGrad, &facets);
  trace.Call(MakeConfig(1, "f", {TensorValue({2})}));
  trace.Call(MakeConfig(1, "f", {TensorValue({2})}), facets);
  ASSERT_TRUE(Render(&trace, options_).ok());
  EXPECT_EQ(ReadFile("api_trace.txt"), "f(Tensor([2], \"float32\"))\nf(Tensor([2], \"float32\"))\n");
  const YAML::Node calls = YAML::Load(ReadFile("api_trace.yaml"));
  EXPECT_FALSE(calls[0]["args"][0]["requires_grad"]);
  EXPECT_TRUE(calls[1]["args"][0]["requires_grad"].as<bool>());
  const YAML::Node configs = YAML::Load(ReadFile("api_configs.yaml"));
  ASSERT_EQ(configs.size(), 1u);
  EXPECT_EQ(configs[0]["calls"].as<int>(), 2);
}

TEST_F(RenderTest, SeveralLevelsInOneFileAreTold) {
  FakeTrace trace;
  trace.Enter(MakeConfig(1, "torch.f"));
  trace.Call(MakeConfig(2, "aten::f"));
  trace.Leave();
  ASSERT_TRUE(Render(&trace, options_).ok());
  EXPECT_EQ(ReadFile("api_trace.yaml"),
            "- api: torch.f\n  args: []\n  kwargs: {}\n  level: 1\n  depth: 0\n"
            "- api: aten::f\n  args: []\n  kwargs: {}\n  level: 2\n  depth: 1\n");
}

TEST_F(RenderTest, AnEmptyTraceGivesReadableFiles) {
  FakeTrace trace;
  ASSERT_TRUE(Render(&trace, options_).ok());
  EXPECT_EQ(YAML::Load(ReadFile("api_trace.yaml")).size(), 0u);
  EXPECT_EQ(YAML::Load(ReadFile("api_configs.yaml")).size(), 0u);
  EXPECT_EQ(YAML::Load(ReadFile("api_statistics.yaml"))["apis"].size(), 0u);
  EXPECT_EQ(ReadFile("api_trace.txt"), "");
}

TEST_F(RenderTest, BeyondTheLimitListingsAreLeftOut) {
  FakeTrace trace;
  AddExampleCalls(&trace);
  options_.render_limit = 4;
  auto report = Render(&trace, options_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->listing_left_out);

  options_.render_limit = 3;
  options_.folder = folder_ + "/it's";
  options_.merge_output = false;
  report = Render(&trace, options_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->listing_left_out);
  EXPECT_EQ(report->listing_command, "torchtrace render '" + folder_ + "/it'\\''s' --formats trace --no-merge-output");
  EXPECT_FALSE(std::filesystem::exists(options_.folder + "/api_trace_level_1.txt"));
  EXPECT_TRUE(std::filesystem::exists(options_.folder + "/api_configs_level_1.txt"));
  EXPECT_THAT(RenderReportLines(*report).back(), HasSubstr(report->listing_command));
}

TEST_F(RenderTest, NoneWritesNothing) {
  FakeTrace trace;
  AddExampleCalls(&trace);
  options_.formats = RenderFormats::None();
  const auto report = Render(&trace, options_);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->statistics.calls, 4u);
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(RenderTest, ExistingFilesStayWithoutForce) {
  FakeTrace trace;
  AddExampleCalls(&trace);
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/api_statistics.txt") << "mine";
  auto report = Render(&trace, options_);
  EXPECT_EQ(report.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("api_statistics.txt exists; --force replaces it"));
  EXPECT_EQ(Files().size(), 1u);
  EXPECT_EQ(ReadFile("api_statistics.txt"), "mine");

  options_.force = true;
  report = Render(&trace, options_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(Files().size(), 7u);
  EXPECT_THAT(ReadFile("api_statistics.txt"), HasSubstr("Total APIs: 4"));
}

TEST_F(RenderTest, LostCallsAreTold) {
  FakeTrace trace;
  AddExampleCalls(&trace);
  trace.process(0).damage.lost_calls = 3;
  trace.process(trace.AddProcess({})).damage.lost_calls_exact = false;
  const auto report = Render(&trace, options_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(RenderReportLines(*report).back(), "the log is damaged: at least 3 calls lost, which no file shows");
}

// A limit on file size simulates a full disk.
TEST_F(RenderTest, AFailingDiskLeavesNothingBehind) {
  FakeTrace trace;
  for (int i = 0; i < 1000; ++i) trace.Call(MakeConfig(1, "torch.add", {IntValue(i % 10)}));
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 4096;
  std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const auto report = Render(&trace, options_);
  setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("cannot write " + folder_ + "/api_trace.yaml: "));
  EXPECT_TRUE(Files().empty());
}

TEST_F(RenderTest, AFolderThatCannotBeMadeIsAnError) {
  FakeTrace trace;
  AddExampleCalls(&trace);
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/file") << "";
  options_.folder = folder_ + "/file/out";
  const auto report = Render(&trace, options_);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("cannot create the folder " + options_.folder));
}

TEST(RenderFormats, Parse) {
  const auto names = [](const char* text) {
    std::vector<std::string> result;
    const auto formats = RenderFormats::Parse(text);
    if (!formats.ok()) return std::vector<std::string>{std::string(formats.status().message())};
    for (int i = 0; i < kRenderFileCount; ++i) {
      const RenderFile file = static_cast<RenderFile>(i);
      if (formats->Has(file)) result.push_back(RenderFileName(file, std::nullopt));
    }
    return result;
  };
  EXPECT_EQ(names("yaml,txt"), names("all"));
  EXPECT_EQ(names("all").size(), 8u);
  EXPECT_THAT(names("none"), ElementsAre());
  EXPECT_THAT(names("yaml"),
              ElementsAre("api_trace.yaml", "api_configs.yaml", "api_statistics.yaml", "api_stacks.yaml"));
  EXPECT_THAT(names("txt"), ElementsAre("api_trace.txt", "api_apis.txt", "api_configs.txt", "api_statistics.txt"));
  EXPECT_THAT(names("configs,trace.txt"), ElementsAre("api_trace.txt", "api_configs.txt", "api_configs.yaml"));
  EXPECT_THAT(names("jsn"), ElementsAre(HasSubstr("unknown format \"jsn\"; known: yaml, txt, trace, ")));
  EXPECT_THAT(names("yaml,"), ElementsAre(HasSubstr("unknown format \"\"")));
  EXPECT_THAT(names("yaml,none"), ElementsAre(HasSubstr("format \"none\" can't be in a list")));
}

TEST(RenderFormats, FileNames) {
  for (const char* name : {"run.json", "api_trace.yaml", "api_apis_level_2.txt", "api_statistics_level_10.yaml"}) {
    EXPECT_TRUE(IsRenderedFileName(name)) << name;
  }
  for (const char* name : {"", "log", "api_apis.yaml", "api_trace.yaml.bak", "my_api_trace.yaml",
                           "api_trace_level_.txt", "api_trace_level_x.txt", "api_.txt"}) {
    EXPECT_FALSE(IsRenderedFileName(name)) << name;
  }
}

}  // namespace
}  // namespace torchtrace
