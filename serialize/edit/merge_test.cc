#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/edit/edit.h"
#include "serialize/log/log_trace.h"
#include "serialize/testing/fake_trace.h"
#include "serialize/testing/log_samples.h"
#include "serialize/trace/trace.h"

namespace torchtrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

std::unique_ptr<Trace> Open(const std::string& path) { return OpenLogs(path).value(); }

std::string Merge(const std::vector<MergeInput>& inputs, const std::string& path) {
  std::filesystem::remove(path);
  const absl::Status status = MergeInputs(inputs, path);
  EXPECT_TRUE(status.ok()) << status;
  return path;
}

std::vector<std::string> MetadataOf(const Trace& trace) {
  std::vector<std::string> metadata;
  for (const ProcessInfo& process : trace.processes()) metadata.push_back(process.metadata->dump());
  return metadata;
}

// Calls per configuration and facets.
std::map<std::pair<std::string, std::string>, uint64_t> CountsOf(Trace* trace) {
  std::map<std::pair<std::string, std::string>, uint64_t> counts;
  const std::vector<uint64_t> by_variant = trace->Count().value();
  for (VariantId variant = 0; variant < by_variant.size(); ++variant) {
    counts[{std::string(trace->identity(trace->config_of(variant))), std::string(trace->facets(variant))}] +=
        by_variant[variant];
  }
  return counts;
}

// Random logs, folders of logs as programs leave them, and traces without clocks.
class RandomTraces {
 public:
  explicit RandomTraces(uint32_t seed) : random_(seed), folder_(TestFolder()) {}

  std::string folder() const { return folder_; }

  std::string Make() {
    const std::string path = absl::StrCat(folder_, "/", count_++);
    switch (Below(4)) {
      case 0:
        MakeLog(path + ".ttlog");
        return path + ".ttlog";
      case 1:
        MakeClockless(path + ".ttlog");
        return path + ".ttlog";
      default:
        std::filesystem::create_directories(path + "/log");
        for (uint64_t i = Below(3) + 1; i > 0; --i) MakeLog(absl::StrCat(path, "/log/main-", i, ".ttlog"));
        return path;
    }
  }

 private:
  uint64_t Below(uint64_t limit) { return random_() % limit; }

  void MakeLog(const std::string& path) {
    const bool second_host = Below(3) == 0;
    SampleLog log(path, Json({{"pid", Below(100'000)},
                              {"host", second_host ? "two" : "one"},
                              {"rank", Below(4)},
                              {"clock",
                               {{"origin_monotonic_ns", 1000 + Below(300)},
                                {"origin_realtime_ns", 1'700'000'000'000'000'000 + Below(300)}}}})
                            .dump());
    std::vector<uint64_t> open(3);
    for (int i = 0; i < 150; ++i) {
      const uint64_t thread = Below(open.size());
      const uint64_t what = Below(10);
      if (what < 5) {
        log.Enter(thread, static_cast<int>(1 + Below(2)), absl::StrCat("f", Below(5)), static_cast<int64_t>(Below(3)),
                  Below(4) == 0 ? "\x01\x01" : "");
        ++open[thread];
      } else if (what < 8 && open[thread] > 0) {
        log.Leave(thread);
        --open[thread];
      } else if (what == 8 && open[thread] > 0) {
        log.Raise(thread, "ValueError");
        --open[thread];
      } else if (what == 9 && open[thread] > 0 && Below(3) == 0) {
        log.NewFrame(thread);
      }
    }
    if (Below(3) == 0) return;  // killed
    log.CloseFrames();
    log.End();
  }

  // Like an importer: written call by call.
  void MakeClockless(const std::string& path) {
    FakeTrace trace(Json({{"imported", Below(100'000)}}));
    if (Below(2) == 0) trace.AddProcess(Json({{"imported", "second"}}));
    for (int i = 0; i < 40; ++i) {
      trace.In(static_cast<uint32_t>(Below(trace.processes().size())), static_cast<uint32_t>(Below(2)));
      const Config inner = MakeConfig(2, "aten::mm", {IntValue(static_cast<int64_t>(Below(3)))});
      trace.Enter(MakeConfig(1, absl::StrCat("g", Below(3))));
      trace.Call(inner);
      Below(4) == 0 ? trace.Raise("TypeError") : trace.Leave();
    }
    const auto writer = TraceWriter::Create(path).value();
    ASSERT_TRUE(MergeTrace(&trace, "", writer.get()).ok());
    ASSERT_TRUE(writer->Finish().ok());
  }

  std::mt19937 random_;
  const std::string folder_;
  int count_ = 0;
};

class MergePropertyTest : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, MergePropertyTest, testing::Range(0u, 40u));

TEST_P(MergePropertyTest, IsAssociative) {
  RandomTraces random(GetParam());
  const std::string a = random.Make();
  const std::string b = random.Make();
  const std::string c = random.Make();
  const std::string folder = random.folder();
  const std::string ab = Merge({{a, ""}, {b, "second"}}, folder + "/ab.ttlog");
  const std::string bc = Merge({{b, "second"}, {c, ""}}, folder + "/bc.ttlog");
  const auto all = Open(Merge({{a, ""}, {b, "second"}, {c, ""}}, folder + "/all.ttlog"));
  const std::string calls = DumpTrace(all.get());
  for (const std::string& path :
       {Merge({{ab, "outer"}, {c, ""}}, folder + "/ab_c.ttlog"), Merge({{a, ""}, {bc, ""}}, folder + "/a_bc.ttlog")}) {
    const auto other = Open(path);
    EXPECT_EQ(DumpTrace(other.get()), calls) << path;
    EXPECT_EQ(CountsOf(other.get()), CountsOf(all.get())) << path;
    std::vector<std::string> metadata = MetadataOf(*other);
    // "outer" becomes the label of processes without one.
    for (std::string& text : metadata) {
      Json json = Json::parse(text);
      if (json.value("label", "") == "outer") json.erase("label");
      text = json.dump();
    }
    EXPECT_EQ(metadata, MetadataOf(*all)) << path;
  }
}

TEST_P(MergePropertyTest, WithItselfDoublesEveryCount) {
  RandomTraces random(GetParam());
  const std::string path = random.Make();
  auto counts = CountsOf(Open(path).get());
  for (auto& [config, count] : counts) count *= 2;
  const auto merged = Open(Merge({{path, "a"}, {path, "b"}}, random.folder() + "/m.ttlog"));
  EXPECT_EQ(CountsOf(merged.get()), counts);
}

TEST_P(MergePropertyTest, OfOneIsTheSame) {
  RandomTraces random(GetParam());
  const std::string path = random.Make();
  const auto merged = Open(Merge({{path, ""}}, random.folder() + "/m.ttlog"));
  const auto original = Open(path);
  EXPECT_EQ(DumpTrace(merged.get()), DumpTrace(original.get()));
  ASSERT_EQ(merged->processes().size(), original->processes().size());
  for (size_t i = 0; i < merged->processes().size(); ++i) {
    Json metadata = *merged->processes()[i].metadata;
    if (!original->processes()[i].metadata->contains("source")) {
      EXPECT_EQ(metadata["source"], original->processes()[i].path);
      metadata.erase("source");
    }
    EXPECT_EQ(metadata, *original->processes()[i].metadata);
  }
}

// Calls of processes with clocks are in order of time, independent of the order of the traces.
TEST_P(MergePropertyTest, OrderIsByTime) {
  RandomTraces random(GetParam());
  std::vector<MergeInput> inputs;
  for (int i = 0; i < 5; ++i) inputs.push_back({random.Make(), ""});
  const auto merged = Open(Merge(inputs, random.folder() + "/m.ttlog"));
  std::map<std::string, bool> hosts;
  for (const ProcessInfo& process : merged->processes()) {
    if (process.metadata->contains("clock")) hosts[(*process.metadata)["host"]] = true;
  }
  int64_t last_ns = INT64_MIN;
  std::vector<bool> read(merged->processes().size());
  uint32_t last_process = 0;
  ASSERT_TRUE(merged
                  ->Read([&](const CallRecord& record) {
                    const Json& metadata = *merged->processes()[record.process].metadata;
                    if (!metadata.contains("clock")) {
                      // Its calls are consecutive.
                      EXPECT_TRUE(record.process == last_process || !read[record.process]);
                    } else {
                      const Json& clock = metadata["clock"];
                      const int64_t shift_ns = hosts.size() < 2 ? 0
                                                                : clock["origin_realtime_ns"].get<int64_t>() -
                                                                      clock["origin_monotonic_ns"].get<int64_t>();
                      EXPECT_GE(record.time_ns + shift_ns, last_ns);
                      last_ns = record.time_ns + shift_ns;
                    }
                    read[record.process] = true;
                    last_process = record.process;
                    return absl::OkStatus();
                  })
                  .ok());
}

TEST(MergeTest, ProcessesSayWhereTheyCameFrom) {
  const std::string folder = TestFolder();
  std::filesystem::create_directories(folder + "/run/log");
  {
    SampleLog log(folder + "/run/log/main-1.ttlog", R"({"environment": {"RANK": "1", "WORLD_SIZE": "2"}})");
    log.Call(0, 1, "f");
    log.CloseFrames();
    log.End();
  }
  const std::string once = Merge({{folder + "/run", "first"}}, folder + "/once.ttlog");
  const auto merged = Open(Merge({{once, "second"}}, folder + "/twice.ttlog"));
  const Json& metadata = *merged->processes()[0].metadata;
  EXPECT_EQ(metadata["source"], folder + "/run/log/main-1.ttlog");
  EXPECT_EQ(metadata["label"], "first");
  EXPECT_EQ(metadata["rank"], 1);
  EXPECT_EQ(metadata["world_size"], 2);
  EXPECT_EQ(metadata["host"], "machine");
  EXPECT_EQ(metadata["pid"], 41);
}

TEST(MergeTest, CallsThatNoLogHolds) {
  FakeTrace fake(Json({{"clock", {{"unit_ns", 2.0}, {"origin_units", 5}, {"origin_monotonic_ns", 0}}}, {"host", "m"}}));
  fake.AddProcess(Json({{"host", "m"}}));
  AddExampleCalls(&fake);
  fake.In(1, 2);
  fake.Enter(MakeConfig(1, "torch.outer"));
  fake.Enter(MakeConfig(2, "aten::inner"), "\x01\x01");
  fake.Raise("ValueError");
  const std::string path = TestFolder() + "/m.ttlog";
  const auto writer = TraceWriter::Create(path).value();
  ASSERT_TRUE(MergeTrace(&fake, "imported", writer.get()).ok());
  ASSERT_TRUE(writer->Finish().ok());
  const auto merged = Open(path);
  EXPECT_EQ(CountsOf(merged.get()), CountsOf(&fake));
  std::vector<std::string> records[2];
  int side = 0;
  for (Trace* trace : {static_cast<Trace*>(&fake), merged.get()}) {
    ASSERT_TRUE(trace
                    ->Read([&](const CallRecord& r) {
                      records[side].push_back(absl::StrCat(r.kind, " ", r.process, "/", r.thread, " ", r.time_ns, " ",
                                                           r.duration_ns, " ", r.call, " in ", r.parent, " ",
                                                           std::string(r.exception)));
                      return absl::OkStatus();
                    })
                    .ok());
    ++side;
  }
  EXPECT_EQ(records[0], records[1]);
  EXPECT_EQ(merged->processes()[1].open_calls, 1u);
  EXPECT_EQ(merged->processes()[1].threads.back().name, "thread2");
  EXPECT_EQ((*merged->processes()[1].metadata)["label"], "imported");
}

TEST(MergeTest, FileAmongLogsThatIsNone) {
  const std::string folder = TestFolder();
  std::filesystem::create_directories(folder + "/run/log");
  WriteFile(folder + "/run/log/fork-2.ttlog", "nothing of a log");
  WriteSampleLog(folder + "/run/log/main-1.ttlog", SampleEnd::kInOrder);
  const std::string once = Merge({{folder + "/run", ""}}, folder + "/once.ttlog");
  const auto merged = Open(Merge({{once, ""}}, folder + "/twice.ttlog"));
  ASSERT_TRUE(merged->Count().ok());
  int damaged = 0;
  for (const ProcessInfo& process : merged->processes()) {
    if (process.damage.sentences.empty()) continue;
    ++damaged;
    EXPECT_THAT(process.damage.sentences, ElementsAre(HasSubstr("fork-2.ttlog is not a torchtrace log")));
    EXPECT_FALSE(process.damage.lost_calls_exact);
  }
  EXPECT_EQ(damaged, 1);
}

TEST(MergeTest, FolderOfTraces) {
  const std::string folder = TestFolder();
  for (const char* name : {"b", "a", "c"}) {
    std::filesystem::create_directories(absl::StrCat(folder, "/", name, "/log"));
    WriteSampleLog(absl::StrCat(folder, "/", name, "/log/main-1.ttlog"), SampleEnd::kInOrder);
  }
  std::filesystem::create_directories(folder + "/empty");
  const auto expanded = ExpandMergeInput({folder, "all"}).value();
  ASSERT_EQ(expanded.size(), 3u);
  EXPECT_EQ(expanded[0].path, folder + "/a");
  EXPECT_EQ(expanded[2].path, folder + "/c");
  EXPECT_EQ(expanded[2].label, "all");
  for (const std::string& path : {folder + "/a", folder + "/a/log", folder + "/empty", folder + "/none"}) {
    const auto one = ExpandMergeInput({path, ""}).value();
    ASSERT_EQ(one.size(), 1u);
    EXPECT_EQ(one[0].path, path);
  }
  EXPECT_EQ(MergeInputBytes(folder + "/a"), std::filesystem::file_size(folder + "/a/log/main-1.ttlog"));
  EXPECT_EQ(MergeInputBytes(folder + "/none"), 0u);
}

TEST(MergeTest, WhatCannotBeRead) {
  const std::string folder = TestFolder();
  const std::string log = folder + "/a.ttlog";
  WriteSampleLog(log, SampleEnd::kInOrder);
  for (const std::string& bad : {folder + "/none", folder}) {
    std::filesystem::create_directories(folder + "/log");
    const absl::Status status = CheckMergeInputs({{log, ""}, {bad == folder ? folder + "/log" : bad, ""}});
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(folder));
    EXPECT_EQ(MergeInputs({{log, ""}, {folder + "/none", ""}}, folder + "/m.ttlog").code(),
              absl::StatusCode::kNotFound);
    EXPECT_FALSE(std::filesystem::exists(folder + "/m.ttlog"));
  }
  EXPECT_THAT(ExpandMergeInput({log, ""}).value(), testing::SizeIs(1));
}

}  // namespace
}  // namespace torchtrace
