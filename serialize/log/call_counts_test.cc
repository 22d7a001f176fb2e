#include "serialize/log/call_counts.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "serialize/edit/edit.h"
#include "serialize/log/log_trace.h"
#include "serialize/model/config.h"
#include "serialize/testing/log_samples.h"

namespace torchtrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

using Counts = std::map<std::string, uint64_t>;  // by API

void Add(const std::string& api, uint64_t calls, CountWriter* writer, CallCount** count = nullptr) {
  const std::string config = SampleIdentity(1, api) + '\0';
  ASSERT_TRUE(writer->Fits(config));
  std::string_view stored;
  CallCount* const added = writer->Add(config, static_cast<uint32_t>(config.size() - 1), calls, &stored);
  EXPECT_EQ(stored, config);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(added) % alignof(CallCount), 0u);
  if (count != nullptr) *count = added;
}

// A log of 2 calls of `f` that are listed, and 3 of `f` and 300 of `counted` that aren't.
void WriteLog(const std::string& path, bool closed) {
  SampleLog log(path);
  log.Call(0, 1, "f", 2);
  CountWriter counts;
  counts.Continue(log.writer().Reserve(FrameType::kCounts, SampleLog::kSmallFrame).value());
  CallCount* f = nullptr;
  Add("f", 1, &counts, &f);
  Add("counted", 300, &counts);
  f->fetch_add(2);
  if (!closed) return counts.Forget();
  log.CloseFrames();
}

struct Read {
  Counts counts;   // by Count
  Counts visited;  // of ReadCounts
  ProcessInfo process;
};
Read ReadLog(const std::string& path) {
  const auto trace = OpenLogs(path).value();
  Read read;
  const std::vector<uint64_t> counts = trace->Count().value();
  const auto api = [&](ConfigId config) { return std::string(ReadConfigHead(trace->identity(config)).api); };
  for (VariantId variant = 0; variant < counts.size(); ++variant) {
    if (counts[variant] != 0) read.counts[api(trace->config_of(variant))] += counts[variant];
  }
  EXPECT_TRUE(trace
                  ->ReadCounts([&](const CallRecord& call) {
                    EXPECT_EQ(call.thread, kNoThread);
                    EXPECT_EQ(call.level, 1);
                    if (call.kind == CallRecord::kEnter) read.visited[api(call.config)] += call.count;
                    return absl::OkStatus();
                  })
                  .ok());
  read.process = trace->processes().at(0);
  return read;
}

TEST(CallCountsTest, CountsAreReadBesideListedCalls) {
  for (const bool closed : {true, false}) {
    const std::string path = absl::StrCat(TestFolder(), closed, ".ttlog");
    WriteLog(path, closed);
    const Read read = ReadLog(path);
    EXPECT_THAT(read.counts, ElementsAre(Pair("counted", 300), Pair("f", 5)));
    EXPECT_THAT(read.visited, ElementsAre(Pair("counted", 300), Pair("f", 3)));
    EXPECT_EQ(read.process.calls, 305u);
    EXPECT_EQ(read.process.counted, 303u);
    EXPECT_EQ(read.process.threads.at(0).calls, 2u);
    EXPECT_THAT(read.process.damage.sentences, IsEmpty());
    EXPECT_EQ(CompareReadings(path), "");
  }
}

TEST(CallCountsTest, AFullFrameIsFollowedByAnother) {
  const std::string path = TestFolder() + "/a.ttlog";
  SampleLog log(path);
  {
    CountWriter counts;
    EXPECT_FALSE(counts.Fits("x"));
    for (int i = 0; i < 300; ++i) {
      const std::string config = SampleIdentity(1, absl::StrCat("f", i)) + '\0';
      if (!counts.Fits(config)) {
        counts.Continue(log.writer().Reserve(FrameType::kCounts, SampleLog::kSmallFrame).value());
      }
      Add(absl::StrCat("f", i), static_cast<uint64_t>(i) + 1, &counts);
    }
    EXPECT_EQ(counts.calls(), 300u * 301 / 2);
  }
  const Read read = ReadLog(path);
  EXPECT_EQ(read.counts.size(), 300u);
  EXPECT_EQ(read.counts.at("f299"), 300u);
  EXPECT_EQ(read.process.counted, 300u * 301 / 2);
}

// No damage changes a closed frame's counts unnoticed: they are right, or said to be lost.
TEST(CallCountsTest, DamageIsTold) {
  const std::string path = TestFolder() + "/a.ttlog";
  WriteLog(path, /*closed=*/true);
  const std::string whole = ReadFile(path);
  const size_t frame = whole.find("TTFR", whole.rfind("counted") - 300);
  ASSERT_NE(frame, std::string::npos);
  const size_t end = whole.rfind("counted") + 24;
  for (size_t at = frame; at < end; ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    WriteFile(path, bytes);
    const Read read = ReadLog(path);
    const Damage& damage = read.process.damage;
    if (read.process.counted == 303) {
      EXPECT_THAT(read.counts, ElementsAre(Pair("counted", 300), Pair("f", 5))) << at - frame;
    } else {
      EXPECT_EQ(read.process.counted, 0u) << at - frame;
      EXPECT_FALSE(damage.sentences.empty()) << at - frame;
      EXPECT_TRUE(!damage.lost_calls_exact || damage.lost_calls == 303) << at - frame << " " << damage.lost_calls;
    }
  }
  // The header of an open frame alone is lost with it.
  WriteFile(path, whole.substr(0, frame + 80));
  EXPECT_FALSE(ReadLog(path).process.damage.sentences.empty());
}

TEST(CallCountsTest, WhatIsNoCountIsTold) {
  const std::string path = TestFolder() + "/a.ttlog";
  WriteLog(path, /*closed=*/false);
  std::string bytes = ReadFile(path);
  const size_t count = bytes.rfind("counted") - 100 + bytes.substr(bytes.rfind("counted") - 100).find("\x2c\x01");
  ASSERT_LT(count, bytes.size());
  bytes[count + 6] = 1;  // 2^48 calls and more
  WriteFile(path, bytes);
  const Read read = ReadLog(path);
  EXPECT_EQ(read.process.counted, 3u);
  ASSERT_EQ(read.process.damage.sentences.size(), 1u);
  EXPECT_THAT(read.process.damage.sentences[0], HasSubstr("holds no count at byte"));
  EXPECT_FALSE(read.process.damage.lost_calls_exact);
}

// A frame that its last thread didn't close has no checksum, but the process's end has the sum.
TEST(CallCountsTest, CountsBeyondTheirSumAreDamage) {
  for (const uint64_t sum : {303, 302, 300}) {
    const std::string path = TestFolder() + "/a.ttlog";
    SampleLog log(path);
    log.Call(0, 1, "f", 2);
    ASSERT_TRUE(log.writer()
                    .AppendMetadata(absl::StrCat(R"({"end": {"exit_code": 0, "threads": [{"number": 0, "calls": 2}], )",
                                                 R"("counted": )", sum, "}}"))
                    .ok());
    CountWriter counts;
    counts.Continue(log.writer().Reserve(FrameType::kCounts, SampleLog::kSmallFrame).value());
    Add("counted", 303, &counts);
    counts.Forget();
    log.CloseFrames();
    // A thread may have counted one call more while the end was written.
    EXPECT_EQ(ReadLog(path).process.damage.sentences.empty(), sum >= 302) << sum;
  }
}

TEST(CallCountsTest, MergingKeepsThem) {
  for (const bool closed : {true, false}) {
    const std::string folder = TestFolder();
    WriteLog(folder + "/a.ttlog", closed);
    const std::string once = folder + "/once.ttlog", twice = folder + "/twice.ttlog";
    ASSERT_TRUE(MergeInputs({{folder + "/a.ttlog", ""}}, once, nullptr, nullptr, nullptr).ok());
    ASSERT_TRUE(MergeInputs({{once, ""}}, twice, nullptr, nullptr, nullptr).ok());
    for (const std::string& path : {once, twice}) {
      const Read read = ReadLog(path);
      EXPECT_THAT(read.counts, ElementsAre(Pair("counted", 300), Pair("f", 5)));
      EXPECT_EQ(read.process.counted, 303u);
      EXPECT_THAT(read.process.damage.sentences, IsEmpty());
      EXPECT_EQ(read.process.damage.lost_calls, 0u);
      EXPECT_EQ(CompareReadings(path), "");
    }
  }
}

TEST(CallCountsTest, FilteringSelectsThemByConfig) {
  const std::string folder = TestFolder();
  WriteLog(folder + "/a.ttlog", /*closed=*/true);
  const auto filtered = [&](const FilterOptions& options, const std::string& name) {
    const auto trace = OpenLogs(folder + "/a.ttlog").value();
    const std::unique_ptr<TraceWriter> writer = TraceWriter::Create(folder + name).value();
    const FilterReport report = FilterTrace(trace.get(), options, writer.get()).value();
    EXPECT_TRUE(writer->Finish().ok());
    EXPECT_EQ(report.read, 305u);
    return std::pair(report.kept, ReadLog(folder + name));
  };
  FilterOptions by_api;
  by_api.filter.include = {"counted"};
  const auto [kept, read] = filtered(by_api, "/api.ttlog");
  EXPECT_EQ(kept, 300u);
  EXPECT_THAT(read.counts, ElementsAre(Pair("counted", 300)));
  EXPECT_THAT(read.process.damage.sentences, IsEmpty());
  // The thread of calls that are only counted is unknown.
  FilterOptions by_thread;
  by_thread.threads = {"*"};
  EXPECT_THAT(filtered(by_thread, "/thread.ttlog").second.counts, ElementsAre(Pair("f", 2)));
  FilterOptions by_depth;
  by_depth.where = Where::Parse("depth = 0").value();
  EXPECT_THAT(filtered(by_depth, "/depth.ttlog").second.counts, ElementsAre(Pair("f", 2)));
}

}  // namespace
}  // namespace torchtrace
