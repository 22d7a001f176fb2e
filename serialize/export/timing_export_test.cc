#include "serialize/export/timing_export.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/export/exports.h"
#include "serialize/model/device_work.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

// Collects the texts of a series of files.
class Files final : public TextSeries {
 public:
  explicit Files(uint64_t max_bytes = UINT64_MAX) : max_bytes_(max_bytes) {}
  absl::Status Begin(const FileFacts& facts) override {
    texts.emplace_back();
    ranks.push_back(facts.rank);
    return absl::OkStatus();
  }
  void Append(std::string_view text) override { texts.back() += text; }
  uint64_t max_bytes() const override { return max_bytes_; }

  std::vector<std::string> texts;
  std::vector<int64_t> ranks;

 private:
  const uint64_t max_bytes_;
};

nlohmann::json RankOf(int rank = 0) {
  return {{"clock",
           {{"unit_ns", 1},
            {"origin_units", 1000},
            {"origin_monotonic_ns", 1000},
            {"origin_realtime_ns", 1'700'000'000'000'001'000}}},
          {"pid", 10 + rank},
          {"rank", rank}};
}

LabelledTrace Labelled(std::unique_ptr<FakeTrace> (*make)()) {
  return {"t", [make] { return absl::StatusOr<std::unique_ptr<Trace>>(make()); }, {}};
}

Files Export(const std::vector<LabelledTrace>& traces, TimingOptions options = {}, uint64_t max_bytes = UINT64_MAX,
             const CallSelection& selection = {}) {
  options.temporary_folder = testing::TempDir();
  Files files(max_bytes);
  const auto sink = MakeTimingSink(&files, options);
  EXPECT_TRUE(ExportTimeline(traces, selection, sink.get()).ok());
  EXPECT_TRUE(sink->Finish().ok());
  return files;
}

CallSelection OfLevel(int level) {
  CallSelection selection;
  selection.levels = {level};
  return selection;
}

// relu, recorded at both levels, around add; then add alone, and a call that never returns.
std::unique_ptr<FakeTrace> TwoLevels() {
  auto trace = std::make_unique<FakeTrace>(RankOf());
  trace->Enter(MakeConfig(0, "torch.relu", {TensorValue({2})}));
  trace->Enter(MakeConfig(1, "torch.relu", {TensorValue({2})}, {{"inplace", NamedValue(ValueTag::kFalse)}}));
  trace->Call(MakeConfig(0, "torch.add", {IntValue(1), TextValue("a\"b")}));
  trace->Leave();
  trace->Leave();
  trace->Call(MakeConfig(0, "torch.add"));
  trace->Enter(MakeConfig(0, "torch.add"));
  return trace;
}

TEST(ExportTiming, GroupsCallsByApi) {
  EXPECT_EQ(Export({Labelled(TwoLevels)}).texts[0], R"_({"torch.relu": {"TotalTime(ms)": 5e-05,
"1": {"detailedAPIName": "torch.relu", "StartTimestamp": 1700000000000000010, "CostTime(ms)": 5e-05, "Arguments": "((Tensor([2], \"float32\"),), {})"}},
"torch.add": {"TotalTime(ms)": 2e-05,
"1": {"detailedAPIName": "torch.add", "StartTimestamp": 1700000000000000030, "CostTime(ms)": 1e-05, "Arguments": "((1, \"a\\\"b\"), {})"},
"2": {"detailedAPIName": "torch.add", "StartTimestamp": 1700000000000000070, "CostTime(ms)": 1e-05, "Arguments": "((), {})"},
"3": {"detailedAPIName": "torch.add", "StartTimestamp": 1700000000000000090, "CostTime(ms)": null, "Arguments": "((), {})"}}}
)_");
  EXPECT_EQ(Export({Labelled(TwoLevels)}, {.format = TimingFormat::kCsv}).texts[0],
            R"_(API Name,Total Time (ms),Call Number,Start Timestamp,Cost Time (ms),Arguments
torch.relu,5e-05,1,1700000000000000010,5e-05,"((Tensor([2], ""float32""),), {})"
torch.add,2e-05,1,1700000000000000030,1e-05,"((1, ""a\""b""), {})"
torch.add,2e-05,2,1700000000000000070,1e-05,"((), {})"
torch.add,2e-05,3,1700000000000000090,,"((), {})"
)_");
}

TEST(ExportTiming, DeviceTimes) {
  const LabelledTrace traced = Labelled([] {
    nlohmann::json metadata = RankOf();
    metadata["device_names"] = nlohmann::json::object();
    auto trace = std::make_unique<FakeTrace>(metadata);
    trace->Enter(MakeConfig(1, "f"));
    trace->Call(MakeConfig(2, "g"));
    trace->Leave();
    std::string work;
    AppendDeviceWork({.start_ns = 1000, .duration_ns = 2'000'000}, &work);
    trace->Later(1, LaterOf::kDeviceWork, work);
    return trace;
  });
  const nlohmann::json json = nlohmann::json::parse(Export({traced}, {}, UINT64_MAX, OfLevel(1)).texts[0]);
  EXPECT_EQ(json["f"]["TotalDeviceTime(ms)"], 2);
  EXPECT_EQ(json["f"]["1"]["DeviceTime(ms)"], 2);
  EXPECT_FALSE(json.contains("g"));
  const std::string csv = Export({traced, Labelled(TwoLevels)}, {.format = TimingFormat::kCsv}).texts[0];
  EXPECT_EQ(csv.substr(0, csv.find('\n')),
            "API Name,Total Time (ms),Total Device Time (ms),Call Number,Start Timestamp,Cost Time (ms),Device Time "
            "(ms),Arguments");
  EXPECT_NE(csv.find("g,1e-05,2.0,1,1700000000000000020,1e-05,2.0,"), std::string::npos) << csv;
  EXPECT_NE(csv.find("torch.relu,5e-05,,1,"), std::string::npos) << csv;
}

TEST(ExportTiming, TakesWhatTheFilterTakes) {
  // Without level 0, level 1's record of the call counts.
  const Files files = Export({Labelled(TwoLevels)}, {}, UINT64_MAX, OfLevel(1));
  const auto json = nlohmann::json::parse(files.texts[0]);
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json["torch.relu"]["1"]["Arguments"], R"_(((Tensor([2], "float32"),), {"inplace": False}))_");
}

TEST(ExportTiming, GoesOnWithTheNextTrace) {
  const Files files = Export({Labelled(TwoLevels), Labelled(TwoLevels)});
  const auto json = nlohmann::json::parse(files.texts[0]);
  EXPECT_EQ(json["torch.add"].size(), 7u);
  EXPECT_DOUBLE_EQ(json["torch.add"]["TotalTime(ms)"], 4e-05);
}

TEST(ExportTiming, OfNothingIsAnEmptyFile) {
  EXPECT_EQ(Export({}).texts, std::vector<std::string>{"{}\n"});
  EXPECT_EQ(Export({}, {.format = TimingFormat::kCsv}).texts.size(), 1u);
}

std::unique_ptr<FakeTrace> ManyCalls() {
  auto trace = std::make_unique<FakeTrace>(RankOf());
  // Stays open for longer than its row stays in memory.
  trace->Enter(MakeConfig(0, "f", {IntValue(0)}));
  for (int i = 1; i <= 1000; ++i) trace->Call(MakeConfig(0, i % 3 == 0 ? "f" : "g", {IntValue(i)}));
  trace->Leave();
  return trace;
}

TEST(ExportTiming, IsRolledOver) {
  const auto whole = nlohmann::json::parse(Export({Labelled(ManyCalls)}).texts[0]);
  EXPECT_EQ(whole["f"].size(), 1u + 334u);
  EXPECT_GT(whole["f"]["1"]["CostTime(ms)"], 0.01);
  for (const uint64_t max_bytes : {1, 1000, 4096, 1 << 20}) {
    const Files files = Export({Labelled(ManyCalls)}, {}, max_bytes);
    nlohmann::json sum = nlohmann::json::object();
    for (const std::string& text : files.texts) {
      EXPECT_LE(text.size(), std::max(max_bytes, uint64_t{200}));
      sum.merge_patch(nlohmann::json::parse(text));
    }
    EXPECT_EQ(sum, whole) << max_bytes;
  }
  EXPECT_EQ(Export({Labelled(ManyCalls)}, {}, 1).texts.size(), 1001u);
  const std::string rows = Export({Labelled(ManyCalls)}, {.format = TimingFormat::kCsv}).texts[0];
  const std::string header = rows.substr(0, rows.find('\n') + 1);
  std::string sum = header;
  for (const std::string& text : Export({Labelled(ManyCalls)}, {.format = TimingFormat::kCsv}, 1000).texts) {
    EXPECT_LE(text.size(), 1000u);
    EXPECT_EQ(text.substr(0, header.size()), header);
    sum += text.substr(header.size());
  }
  EXPECT_EQ(sum, rows);
}

std::unique_ptr<FakeTrace> TwoRanks() {
  auto trace = std::make_unique<FakeTrace>(RankOf());
  trace->Call(MakeConfig(0, "f"));
  trace->AddProcess(RankOf(1));
  trace->In(trace->AddProcess(RankOf(2)), 0);
  trace->Call(MakeConfig(0, "f"));
  return trace;
}

TEST(ExportTiming, GivesProcessesFilesOfTheirOwnWhereNamesDo) {
  const auto by_rank = [](const FileFacts& facts) { return std::to_string(facts.rank); };
  const Files files = Export({Labelled(TwoRanks)}, {.file_key = by_rank});
  EXPECT_EQ(files.ranks, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(nlohmann::json::parse(files.texts[1])["f"].size(), 2u);
  EXPECT_EQ(nlohmann::json::parse(Export({Labelled(TwoRanks)}).texts[0])["f"].size(), 3u);
}

TEST(ExportTiming, SaysNullWhereNothingIsKnown) {
  const auto make = [] {
    auto trace = std::make_unique<FakeTrace>();
    trace->Enter(MakeConfig(1, "f"));
    return trace;
  };
  const auto json = nlohmann::json::parse(Export({Labelled(make)}).texts[0]);
  EXPECT_TRUE(json["f"]["TotalTime(ms)"].is_null());
  EXPECT_TRUE(json["f"]["1"]["StartTimestamp"].is_null());
}

TEST(TimingNames, SayOverloadsModulesAndLines) {
  const auto names = [](const Config& config) { return TimingApi(config) + " " + DetailedApiName(config); };
  EXPECT_EQ(names(MakeConfig(0, "torch.Tensor.add")), "torch.Tensor.add torch.Tensor.add");
  EXPECT_EQ(names(MakeConfig(2, "aten::add.Tensor")), "aten::add aten::add.Tensor");
  EXPECT_EQ(names(MakeConfig(4, "aten::add.Tensor")), "aten::add aten::add.Tensor");
  EXPECT_EQ(names(MakeConfig(4, "Optimizer.step#SGD.step")), "Optimizer.step#SGD.step Optimizer.step#SGD.step");
  EXPECT_EQ(names(MakeConfig(2, "my.lib::f")), "my.lib::f my.lib::f");
  EXPECT_EQ(names(MakeConfig(3, "torch.nn.Linear", {}, {{"path", TextValue("encoder.0")}})),
            "torch.nn.Linear torch.nn.Linear@encoder.0");
  EXPECT_EQ(names(MakeConfig(3, "Linear", {}, {{"path", TextValue("fc")}, {"model", TextValue("Net_0")}})),
            "Linear Linear@Net_0.fc");
  EXPECT_EQ(names(MakeConfig(3, "__main__.f", {}, {{"file", TextValue("a.py")}, {"line", IntValue(12)}})),
            "__main__.f __main__.f@a.py:12");
}

}  // namespace
}  // namespace torchtrace
