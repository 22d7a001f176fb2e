#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/edit/edit.h"
#include "serialize/log/log_reader.h"
#include "serialize/log/log_trace.h"
#include "serialize/model/device_work.h"
#include "serialize/model/step_marks.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/testing/fake_trace.h"
#include "serialize/testing/log_samples.h"
#include "serialize/trace/trace.h"

namespace torchtrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Json = nlohmann::json;

std::unique_ptr<TraceWriter> Create(const std::string& path) { return TraceWriter::Create(path).value(); }
std::unique_ptr<Trace> OpenWhole(const std::string& path) { return OpenLogs(path).value(); }
std::unique_ptr<LogReader> OpenLog(const std::string& path) { return LogReader::Open(path).value(); }

// Copies the processes of the log, with their metadata.
absl::Status CopyLog(const std::string& from, TraceWriter* writer) {
  const auto log = OpenLog(from);
  const auto trace = OpenWhole(from);
  // In the order of the log, which differs from that of the trace.
  std::vector<size_t> order(log->processes().size());
  for (size_t i = 0; i < order.size(); ++i) order[trace->log_source(i).process] = i;
  for (uint32_t i = 0; i < order.size(); ++i) {
    const uint32_t process = writer->AddProcess(*trace->processes()[order[i]].metadata).value();
    if (absl::Status s = writer->CopyCalls(*log, i, process); !s.ok()) return s;
  }
  return absl::OkStatus();
}

TEST(TraceWriterTest, CallsOfManyProcessesAndThreads) {
  const std::string path = TestFolder() + "/a.ttlog";
  {
    const auto writer = Create(path);
    const Json clock = {{"unit_ns", 1.0}, {"origin_units", 100}, {"origin_monotonic_ns", 100}};
    EXPECT_EQ(writer->AddProcess({{"pid", 1}, {"host", "m"}, {"clock", clock}}).value(), 0u);
    EXPECT_EQ(writer->AddProcess({{"pid", 2}, {"host", "m"}, {"clock", clock}}).value(), 1u);
    writer->NameThread(1, 3, 77, "worker");
    const std::string f = SampleIdentity(1, "f");
    const std::string op = SampleIdentity(2, "op", 5);
    ASSERT_TRUE(writer->Enter(1, 3, 110, f, "").ok());
    ASSERT_TRUE(writer->Enter(0, 0, 120, f, "").ok());
    ASSERT_TRUE(writer->Enter(1, 3, 130, op, "\x01\x02").ok());
    ASSERT_TRUE(writer->Raise(1, 3, 140, "RuntimeError").ok());
    ASSERT_TRUE(writer->Leave(0, 0, 150).ok());
    ASSERT_TRUE(writer->Leave(1, 3, 160).ok());
    ASSERT_TRUE(writer->Enter(0, 0, 170, op, "").ok());
    EXPECT_FALSE(std::filesystem::exists(path));
    ASSERT_TRUE(writer->Finish().ok());
  }
  const auto trace = OpenWhole(path);
  EXPECT_EQ(DumpTrace(trace.get()), R"(   110 1/3 enter #0 f level 1 config 0 variant 0
   120 0/0 enter #1 f level 1 config 0 variant 0
   130 1/3   enter #2 in #0 op level 2 config 1 variant 2
   140 1/3   raise #2 in #0 after 10 RuntimeError
   150 0/0 leave #1 after 30
   160 1/3 leave #0 after 50
   170 0/0 enter #3 op level 2 config 1 variant 1
process: calls 2, open 1, closed 0
  thread 0: os id 0, name , calls 2
process: calls 2, open 0, closed 0
  thread 3: os id 77, name worker, calls 2
)");
  EXPECT_EQ((*trace->processes()[1].metadata)["pid"], 2);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(std::filesystem::path(path).parent_path()), {}), 1);
}

TEST(TraceWriterTest, WithoutFinishNothingIsLeft) {
  const std::string folder = TestFolder();
  {
    const auto writer = Create(folder + "/a.ttlog");
    ASSERT_TRUE(writer->AddProcess(Json::object()).ok());
    ASSERT_TRUE(writer->Enter(0, 0, 1, SampleIdentity(1, "f"), "").ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(TraceWriterTest, Errors) {
  const std::string folder = TestFolder();
  WriteFile(folder + "/a.ttlog", "mine");
  EXPECT_EQ(TraceWriter::Create(folder + "/a.ttlog").status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadFile(folder + "/a.ttlog"), "mine");
  EXPECT_THAT(std::string(TraceWriter::Create(folder + "/no/b.ttlog").status().message()),
              HasSubstr("cannot write " + folder + "/no/b.ttlog: No such file"));
  const auto writer = Create(folder + "/c.ttlog");
  ASSERT_TRUE(writer->AddProcess(Json::object()).ok());
  EXPECT_EQ(writer->Leave(0, 0, 1).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(writer->Enter(0, 0, 1, SampleIdentity(1, "f"), "").ok());
  ASSERT_TRUE(writer->Leave(0, 0, 2).ok());
  EXPECT_EQ(writer->Raise(0, 0, 3, "E").code(), absl::StatusCode::kFailedPrecondition);
}

// When frames are full, definitions are repeated, and open calls continue.
TEST(TraceWriterTest, ManyFrames) {
  const std::string path = TestFolder() + "/a.ttlog";
  constexpr int kCalls = 400'000;
  const std::string outer = SampleIdentity(1, "outer");
  const std::string large = SampleIdentity(1, std::string(3 << 20, 'x'));
  {
    const auto writer = Create(path);
    ASSERT_TRUE(writer->AddProcess(Json::object()).ok());
    uint64_t time = 0;
    for (uint64_t thread = 0; thread < 2; ++thread) ASSERT_TRUE(writer->Enter(0, thread, ++time, outer, "").ok());
    for (int i = 0; i < kCalls; ++i) {
      const std::string identity = SampleIdentity(2, "op", i % 1000);
      const uint64_t thread = static_cast<uint64_t>(i) % 2;
      ASSERT_TRUE(writer->Enter(0, thread, ++time, identity, "").ok());
      ASSERT_TRUE(writer->Leave(0, thread, ++time).ok());
    }
    ASSERT_TRUE(writer->Enter(0, 0, ++time, large, "").ok());
    ASSERT_TRUE(writer->Finish().ok());
  }
  EXPECT_GT(OpenLog(path)->frames().size(), 6u);
  const auto trace = OpenWhole(path);
  uint64_t calls = 0;
  ASSERT_TRUE(trace
                  ->Read([&](const CallRecord& record) {
                    if (record.kind != CallRecord::kEnter) {
                      EXPECT_EQ(record.duration_ns, 1);
                    } else if (calls++ >= 2) {
                      EXPECT_EQ(record.depth, 1u);
                      EXPECT_EQ(record.parent, record.thread);
                    }
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(calls, kCalls + 3u);
  EXPECT_EQ(trace->config_count(), 1002u);
  EXPECT_EQ(trace->processes()[0].open_calls, 3u);
  EXPECT_THAT(trace->processes()[0].damage.sentences, IsEmpty());
}

// More threads than can have open frames.
TEST(TraceWriterTest, ManyThreads) {
  const std::string path = TestFolder() + "/a.ttlog";
  constexpr uint64_t kThreads = 10'000;
  {
    const auto writer = Create(path);
    for (uint32_t process = 0; process < 10; ++process) ASSERT_TRUE(writer->AddProcess(Json::object()).ok());
    uint64_t time = 0;
    for (int round = 0; round < 3; ++round) {
      for (uint64_t i = 0; i < kThreads; ++i) {
        ASSERT_TRUE(writer->Enter(i % 10, i, ++time, SampleIdentity(1, "f", round), "").ok());
      }
    }
    ASSERT_TRUE(writer->Finish().ok());
  }
  const auto trace = OpenWhole(path);
  EXPECT_THAT(trace->Count().value(), ElementsAre(kThreads, kThreads, kThreads));
  for (const ProcessInfo& process : trace->processes()) {
    EXPECT_EQ(process.threads.size(), kThreads / 10);
    EXPECT_TRUE(process.damage.sentences.empty() && process.damage.lost_calls_exact);
  }
}

TEST(TraceWriterTest, CopiedLogReadsTheSame) {
  const std::string folder = TestFolder();
  for (const SampleEnd end : {SampleEnd::kInOrder, SampleEnd::kKilled}) {
    const std::string source = absl::StrCat(folder, "/source", static_cast<int>(end), ".ttlog");
    const std::string copy = absl::StrCat(folder, "/copy", static_cast<int>(end), ".ttlog");
    const std::string again = absl::StrCat(folder, "/again", static_cast<int>(end), ".ttlog");
    const auto sample = WriteSampleLog(source, end);
    for (const auto& [from, to] : {std::pair(source, copy), std::pair(copy, again)}) {
      const auto writer = Create(to);
      ASSERT_TRUE(CopyLog(from, writer.get()).ok());
      ASSERT_TRUE(writer->Finish().ok());
      EXPECT_EQ(DumpTrace(OpenWhole(to).get()), DumpTrace(OpenWhole(source).get()));
      EXPECT_EQ(*OpenWhole(to)->processes()[0].metadata, *OpenWhole(source)->processes()[0].metadata);
    }
    EXPECT_EQ(ReadFile(again), ReadFile(copy));
    const auto copied = OpenLog(copy);
    for (const LogFrame& frame : copied->frames()) {
      EXPECT_EQ(frame.header.closed, kFrameClosed);
      EXPECT_LT(frame.payload_capacity() - frame.header.committed_bytes, kPageBytes);
    }
  }
}

// Copied, written call by call, and merged from a trace that is not a log.
TEST(TraceWriterTest, NumbersAreKept) {
  const std::string folder = TestFolder();
  const std::string source = folder + "/source.ttlog";
  WriteNumbersLog(source);
  const std::string calls = DumpTrace(OpenWhole(source).get());
  {
    const auto copied = Create(folder + "/copied.ttlog");
    ASSERT_TRUE(CopyLog(source, copied.get()).ok());
    ASSERT_TRUE(copied->Finish().ok());
    const auto filtered = Create(folder + "/filtered.ttlog");
    ASSERT_TRUE(FilterTrace(OpenWhole(source).get(), {}, filtered.get()).ok());
    ASSERT_TRUE(filtered->Finish().ok());
  }
  EXPECT_EQ(DumpTrace(OpenWhole(folder + "/copied.ttlog").get()), calls);
  EXPECT_EQ(DumpTrace(OpenWhole(folder + "/filtered.ttlog").get()), calls);

  std::string written;
  AppendTensorNote({.position = 1, .numbers = TensorNote::Numbers{.nans = 5}}, &written);
  FakeTrace fake;
  for (const bool raises : {false, true}) {
    fake.Enter(MakeConfig(2, "aten::add_.Tensor"));
    raises ? fake.Raise("ValueError") : fake.Leave();
    fake.SetWritten(written);
  }
  const auto merged = Create(folder + "/merged.ttlog");
  ASSERT_TRUE(MergeTrace(&fake, "", merged.get()).ok());
  ASSERT_TRUE(merged->Finish().ok());
  std::vector<std::string> kept;
  const absl::Status read = OpenWhole(folder + "/merged.ttlog")->Read([&](const CallRecord& record) {
    if (record.kind != CallRecord::kEnter) kept.emplace_back(record.result.written);
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
  EXPECT_THAT(kept, ElementsAre(written, written));
}

// The later notes of a trace: calls and notes, by call. They have no times of their own, so the threads' order may
// change.
std::vector<std::pair<uint64_t, std::string>> LaterNotesOf(Trace* trace) {
  std::vector<std::pair<uint64_t, std::string>> later;
  const LaterNotesShown shown(trace);
  const absl::Status read = trace->Read([&](const CallRecord& record) {
    if (record.kind == CallRecord::kLater) {
      later.emplace_back(record.call,
                         absl::StrCat(std::string(record.notes), "|", std::string(record.result.notes), "|",
                                      std::string(record.result.written), record.device_work.empty() ? "" : "|device"));
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
  std::stable_sort(later.begin(), later.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return later;
}

TEST(TraceWriterTest, LaterNotesAreKept) {
  const std::string folder = TestFolder();
  const std::string source = folder + "/source.ttlog";
  WriteLaterLog(source);
  const auto later = LaterNotesOf(OpenWhole(source).get());
  EXPECT_EQ(later.size(), 6u);
  const auto copied = Create(folder + "/copied.ttlog");
  ASSERT_TRUE(CopyLog(source, copied.get()).ok());
  ASSERT_TRUE(copied->Finish().ok());
  EXPECT_EQ(LaterNotesOf(OpenWhole(folder + "/copied.ttlog").get()), later);
  const auto filtered = Create(folder + "/filtered.ttlog");
  ASSERT_TRUE(FilterTrace(OpenWhole(source).get(), {}, filtered.get()).ok());
  ASSERT_TRUE(filtered->Finish().ok());
  EXPECT_EQ(LaterNotesOf(OpenWhole(folder + "/filtered.ttlog").get()), later);

  FakeTrace fake;
  fake.Call(MakeConfig(2, "aten::f"));
  for (int i = 0; i < 3; ++i) fake.Call(MakeConfig(2, "aten::g"));
  fake.Later(0, LaterOf::kResult, "first");
  fake.Call(MakeConfig(2, "aten::g"));
  fake.Later(3, LaterOf::kArguments, "last");
  fake.Later(4, LaterOf::kWritten, "g");
  const auto merged = Create(folder + "/merged.ttlog");
  ASSERT_TRUE(MergeTrace(&fake, "", merged.get()).ok());
  ASSERT_TRUE(merged->Finish().ok());
  EXPECT_THAT(LaterNotesOf(OpenWhole(folder + "/merged.ttlog").get()),
              ElementsAre(Pair(0, "|first|"), Pair(3, "last||"), Pair(4, "||g")));

  // The notes on calls that are left out are left out; the others find their calls.
  FilterOptions options;
  options.calls = NumberSet::Parse("0,3-4").value();
  const auto some = Create(folder + "/some.ttlog");
  ASSERT_TRUE(FilterTrace(&fake, options, some.get()).ok());
  ASSERT_TRUE(some->Finish().ok());
  EXPECT_THAT(LaterNotesOf(OpenWhole(folder + "/some.ttlog").get()),
              ElementsAre(Pair(0, "|first|"), Pair(1, "last||"), Pair(2, "||g")));
  options.calls = NumberSet::Parse("1-2").value();
  const auto none = Create(folder + "/none.ttlog");
  ASSERT_TRUE(FilterTrace(&fake, options, none.get()).ok());
  ASSERT_TRUE(none->Finish().ok());
  EXPECT_THAT(LaterNotesOf(OpenWhole(folder + "/none.ttlog").get()), ElementsAre());
}

// As readers of the whole trace count it.
TEST(TraceWriterTest, DeviceWorkOfCallsThatAreLeftOutIsOfTheCallAround) {
  const std::string folder = TestFolder();
  std::string work;
  AppendDeviceWork({.start_ns = 5, .duration_ns = 7}, &work);
  FakeTrace fake;
  for (int i = 0; i < 2; ++i) {
    fake.Enter(MakeConfig(1, "torch.f"));
    fake.Enter(MakeConfig(2, "aten::f"));
    fake.Call(MakeConfig(4, "aten::f"));
    fake.Leave();
    fake.Leave();
  }
  fake.Call(MakeConfig(2, "aten::alone"));
  fake.Later(2, LaterOf::kDeviceWork, work);
  fake.Later(2, LaterOf::kArguments, "numbers");
  fake.Later(6, LaterOf::kDeviceWork, work);
  const auto filtered = [&](int level, bool with_parents) {
    FilterOptions options;
    options.levels = {level};
    options.with_parents = with_parents;
    const std::string path = absl::StrCat(folder, "/", level, with_parents ? "p" : "", ".ttlog");
    const auto writer = Create(path);
    EXPECT_TRUE(FilterTrace(&fake, options, writer.get()).ok());
    EXPECT_TRUE(writer->Finish().ok());
    return LaterNotesOf(OpenWhole(path).get());
  };
  EXPECT_THAT(filtered(1, false), ElementsAre(Pair(0, "|||device")));
  EXPECT_THAT(filtered(2, false), ElementsAre(Pair(0, "|||device"), Pair(2, "|||device")));
  EXPECT_THAT(filtered(4, true), ElementsAre(Pair(2, "|||device"), Pair(2, "numbers||")));
}

// A text that changes only in its steps is written once in a frame.
TEST(TraceWriterTest, StepsShareTheirTags) {
  const std::string folder = TestFolder();
  const std::string path = folder + "/steps.ttlog";
  FakeTrace fake;
  const std::string tags = R"({"phase":")" + std::string(100'000, 'x') + R"("})";
  for (uint64_t step = 1; step <= 100; ++step) {
    StepMarks marks;
    marks.at(StepKind::kStep) = {step, static_cast<int64_t>(100 * step)};
    fake.Tag(WithStepMarks(tags, marks));
    fake.Call(MakeConfig(2, "aten::f"));
  }
  const auto writer = Create(path);
  ASSERT_TRUE(FilterTrace(&fake, {}, writer.get()).ok());
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_LT(std::filesystem::file_size(path), 300'000u);
  const auto trace = OpenWhole(path);
  std::vector<uint64_t> steps;
  ASSERT_TRUE(trace
                  ->Read([&](const CallRecord& record) {
                    if (record.kind != CallRecord::kEnter) return absl::OkStatus();
                    EXPECT_EQ(trace->tags(record.tags), tags);
                    const StepMark& mark = trace->steps(record.tags).at(StepKind::kStep);
                    EXPECT_EQ(mark.begin_ns, static_cast<int64_t>(100 * mark.number));
                    steps.push_back(mark.number);
                    return absl::OkStatus();
                  })
                  .ok());
  ASSERT_EQ(steps.size(), 100u);
  EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
  EXPECT_EQ(steps.back(), 100u);
}

TEST(TraceWriterTest, SourcesKeepTheirOwnThreadsAndTimes) {
  const std::string folder = TestFolder();
  WriteSampleLog(folder + "/a.ttlog", SampleEnd::kInOrder);
  {
    SampleLog later(folder + "/b.ttlog", R"({"pid": 5, "clock": {"origin_monotonic_ns": 500000}})");
    later.Call(0, 1, "torch.add");
    later.CloseFrames();
    later.End();
  }
  const auto writer = Create(folder + "/m.ttlog");
  for (const char* name : {"b", "a", "b"}) {
    ASSERT_TRUE(CopyLog(absl::StrCat(folder, "/", name, ".ttlog"), writer.get()).ok());
  }
  ASSERT_TRUE(writer->Finish().ok());
  const auto merged = OpenWhole(folder + "/m.ttlog");
  ASSERT_EQ(merged->processes().size(), 3u);
  EXPECT_EQ((*merged->processes()[0].metadata)["pid"], 41);
  EXPECT_EQ(merged->log_source(0).process, 1u);
  EXPECT_EQ((*merged->processes()[1].metadata)["pid"], 5);
  ASSERT_TRUE(merged->Count().ok());
  EXPECT_EQ(merged->processes()[1].calls, 1u);
  EXPECT_EQ(merged->processes()[0].threads.size(), 4u);
}

// The report of a log's damage survives any number of copies, and later damage
// is added to it.
TEST(TraceWriterTest, DamageOfTheSourceIsKept) {
  const std::string folder = TestFolder();
  const std::string source = folder + "/source.ttlog";
  for (const SampleEnd end : {SampleEnd::kInOrder, SampleEnd::kKilled}) {
    std::filesystem::remove(source);
    WriteSampleLog(source, end);
    const std::string intact = ReadFile(source);
    std::vector<uint64_t> frames;
    const auto log = OpenLog(source);
    for (const LogFrame& frame : log->frames()) frames.push_back(frame.offset);
    for (size_t i = 0; i < frames.size(); ++i) {
      for (const char* kind : {"header", "payload", "cut"}) {
        std::string damaged = intact;
        if (*kind == 'h') std::memset(&damaged[frames[i]], 0, sizeof(FrameHeader));
        if (*kind == 'p') damaged[frames[i] + sizeof(FrameHeader) + 20] ^= 0x40;
        if (*kind == 'c') damaged.resize(frames[i] + sizeof(FrameHeader) + 15);
        WriteFile(source, damaged);
        std::string from = source;
        for (int copy = 0; copy < 2; ++copy) {
          const std::string to = absl::StrCat(folder, "/copy", copy, ".ttlog");
          std::filesystem::remove(to);
          const auto writer = Create(to);
          ASSERT_TRUE(CopyLog(from, writer.get()).ok());
          ASSERT_TRUE(writer->Finish().ok());
          from = to;
          const auto expected = OpenWhole(source);
          const auto seen = OpenWhole(to);
          ASSERT_EQ(expected->Count().value(), seen->Count().value());
          const Damage& was = expected->processes()[0].damage;
          const Damage& is = seen->processes()[0].damage;
          EXPECT_EQ(was.lost_calls, is.lost_calls) << kind << " of frame " << i;
          EXPECT_EQ(was.lost_calls_exact, is.lost_calls_exact) << kind << " of frame " << i;
          ASSERT_EQ(was.sentences.size(), is.sentences.size()) << kind << " of frame " << i;
          for (size_t s = 0; s < was.sentences.size(); ++s) {
            EXPECT_EQ(is.sentences[s], absl::StrCat(source, ": ", was.sentences[s]));
          }
        }
      }
    }
  }
}

TEST(TraceWriterTest, ProgressCountsTheBytesAndMayEndIt) {
  const std::string folder = TestFolder();
  WriteSampleLog(folder + "/a.ttlog", SampleEnd::kInOrder);
  const auto log = OpenLog(folder + "/a.ttlog");
  const auto writer = Create(folder + "/b.ttlog");
  uint64_t bytes = 0;
  const uint32_t process = writer->AddProcess(Json::object()).value();
  ASSERT_TRUE(writer->CopyCalls(*log, 0, process, [&](uint64_t more) { return bytes += more, absl::OkStatus(); }).ok());
  EXPECT_EQ(bytes, log->file().bytes() - kPageBytes);
  EXPECT_EQ(writer->CopyCalls(*log, 0, process).code(), absl::StatusCode::kFailedPrecondition);
  const uint32_t second = writer->AddProcess(Json::object()).value();
  EXPECT_EQ(writer->CopyCalls(*log, 0, second, [&](uint64_t) { return absl::CancelledError("enough"); }),
            absl::CancelledError("enough"));
}

TEST(TraceWriterTest, ClockInNanoseconds) {
  const Json metadata =
      Json::parse(R"({"pid": 3, "clock": {"unit_ns": 0.5, "origin_units": 7, "origin_monotonic_ns": 9000,
      "origin_realtime_ns": 1700000000000000000}, "end": {"units": 400000007, "monotonic_ns": 200009000}})");
  const Json expected = Json::parse(R"({"pid": 3, "clock": {"unit_ns": 1.0, "origin_units": 9000,
      "origin_monotonic_ns": 9000, "origin_realtime_ns": 1700000000000000000}, "end": {"monotonic_ns": 200009000}})");
  EXPECT_EQ(InNanoseconds(metadata), expected);
  EXPECT_EQ(InNanoseconds({{"pid", 3}, {"clock", "none"}}), Json({{"pid", 3}}));
}

}  // namespace
}  // namespace torchtrace
