#include "serialize/trace/trace.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/base/bytes.h"
#include "serialize/edit/edit.h"
#include "serialize/log/log_format.h"
#include "serialize/log/log_trace.h"
#include "serialize/log/log_writer.h"
#include "serialize/testing/log_samples.h"

namespace torchtrace {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::unique_ptr<Trace> Open(const std::string& path) {
  absl::StatusOr<std::unique_ptr<Trace>> trace = OpenLogs(path);
  EXPECT_TRUE(trace.ok()) << trace.status();
  return *std::move(trace);
}

std::string Dump(const std::string& path) {
  EXPECT_EQ(CompareReadings(path), "");
  return DumpTrace(Open(path).get());
}

void ZeroFrame(const std::string& path, uint64_t offset) {
  std::string bytes = ReadFile(path);
  std::memset(&bytes[offset], 0, kPageBytes);
  WriteFile(path, bytes);
}

TEST(TraceTest, CallsComeInOrderWithTheirParents) {
  const std::string path = TestFolder() + "/a.ttlog";
  SampleLog log(path);
  log.Enter(0, 1, "f");
  log.Enter(1, 1, "g");
  log.Enter(0, 2, "op", 1);
  log.Leave(0);
  log.Raise(1, "ValueError");
  log.Enter(0, 2, "op", 1, "\x02\x03");
  log.Leave(0);
  log.Leave(0);
  log.Enter(0, 1, "f");
  log.CloseFrames();
  log.End();
  EXPECT_EQ(Dump(path), R"(  1020 0/0 enter #0 f level 1 config 0 variant 0
  1040 0/1 enter #1 g level 1 config 2 variant 3
  1050 0/0   enter #2 in #0 op level 2 config 1 variant 1
  1060 0/0   leave #2 in #0 after 10
  1070 0/1 raise #1 after 30 ValueError
  1080 0/0   enter #3 in #0 op level 2 config 1 variant 2
  1090 0/0   leave #3 in #0 after 10
  1100 0/0 leave #0 after 80
  1110 0/0 enter #4 f level 1 config 0 variant 0
process: calls 5, open 1, closed 1
  thread 0: os id 100, name thread-0, calls 4
  thread 1: os id 101, name thread-1, calls 1
)");
  const auto trace = Open(path);
  EXPECT_THAT(trace->Count().value(), ElementsAre(2, 1, 1, 1));
  EXPECT_EQ(trace->config_count(), 3u);
  EXPECT_EQ(trace->variant_count(), 4u);
  EXPECT_EQ(trace->identity(1), SampleIdentity(2, "op", 1));
  EXPECT_EQ(trace->facets(2), "\x02\x03");
  EXPECT_EQ(trace->config_of(2), 1u);
  const ProcessInfo& process = trace->processes()[0];
  EXPECT_EQ(process.path, path);
  EXPECT_EQ(process.file_bytes, std::filesystem::file_size(path));
  EXPECT_EQ(process.event_bytes, 5u * 2 + 3 * 1 + 12);  // enters, leaves, a raise
  EXPECT_EQ((*process.metadata)["end"]["exit_code"], 0);
}

TEST(TraceTest, ReadingTwiceGivesTheSame) {
  const std::string path = TestFolder() + "/a.ttlog";
  WriteSampleLog(path, SampleEnd::kInOrder);
  const auto trace = Open(path);
  const std::string first = DumpTrace(trace.get());
  EXPECT_EQ(DumpTrace(trace.get()), first);
  const auto counted = Open(path);
  const std::vector<uint64_t> counts = counted->Count().value();
  EXPECT_EQ(counts, trace->Count().value());
  EXPECT_EQ(DumpTrace(counted.get()), first);
}

// A thread continues in a frame that another left half full: its records aren't
// in file order, and earlier definitions of the frame still apply.
TEST(TraceTest, FrameIsHandedOn) {
  const std::string path = TestFolder() + "/a.ttlog";
  SampleLog log(path);
  log.Enter(0, 1, "outer");
  log.Call(1, 1, "f");
  log.TakeFrame(1, 0);  // thread 0's frame is read by another thread first
  log.Call(1, 1, "g");
  log.TakeFrame(2, 1);
  log.Call(2, 1, "g");
  log.Leave(0);
  log.CloseFrames();
  log.End();
  EXPECT_EQ(Dump(path), R"(  1020 0/0 enter #0 outer level 1 config 0 variant 0
  1040 0/1 enter #1 f level 1 config 2 variant 2
  1050 0/1 leave #1 after 10
  1070 0/1 enter #2 g level 1 config 1 variant 1
  1080 0/1 leave #2 after 10
  1100 0/2 enter #3 g level 1 config 1 variant 1
  1110 0/2 leave #3 after 10
  1130 0/0 leave #0 after 110
process: calls 4, open 0, closed 1
  thread 0: os id 100, name thread-0, calls 1
  thread 1: os id 101, name thread-1, calls 2
  thread 2: os id 102, name thread-2, calls 1
)");
}

// Threads and processes whose calls alternate.
TEST(TraceTest, OrderOfThreadsThatAreReadOneByOne) {
  const std::string folder = TestFolder();
  std::filesystem::create_directories(folder + "/log");
  for (const int process : {0, 1}) {
    SampleLog log(absl::StrCat(folder, "/log/p", process, ".ttlog"));
    log.Wait(static_cast<uint64_t>(5 * process));
    for (uint64_t i = 0; i < 20; ++i) {
      log.Enter(i % 3, 1, absl::StrCat("f", i, process));
      if (i % 4 != 0) log.Leave(i % 3);
    }
    log.CloseFrames();
    log.End();
  }
  const auto ordered = Open(folder);
  std::vector<std::string> calls;
  ASSERT_TRUE(ordered
                  ->Read([&](const CallRecord& record) {
                    if (record.kind == CallRecord::kEnter) calls.emplace_back(ordered->identity(record.config));
                    return absl::OkStatus();
                  })
                  .ok());
  const auto trace = Open(folder);
  std::vector<std::string> as_read;
  std::map<CallOrder, std::string> sorted;
  ASSERT_TRUE(trace
                  ->ReadThreads([&](const CallRecord& record) {
                    if (record.kind != CallRecord::kEnter) return;
                    as_read.emplace_back(trace->identity(record.config));
                    sorted[trace->OrderOf(record)] = as_read.back();
                  })
                  .ok());
  EXPECT_NE(as_read, calls);
  std::vector<std::string> in_order;
  for (const auto& [order, call] : sorted) in_order.push_back(call);
  EXPECT_EQ(in_order, calls);
  EXPECT_EQ(calls.size(), 40u);
}

TEST(TraceTest, OtherThreadsHelp) {
  struct Helped : ReadingObserver {
    void OnRead(Unit, uint64_t done, uint64_t total) override {
      ++frames;
      EXPECT_LE(done, total);
    }
    size_t threads() const override { return 3; }
    uint64_t frames = 0;
  };
  const std::string folder = TestFolder();
  const std::string path = folder + "/a.ttlog";
  SampleLog log(path);
  uint64_t lost = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    log.NewFrame(i % 5);
    if (i == 50) lost = log.frame_offset(i % 5);
    for (uint64_t call = 0; call < 10; ++call) log.Call(i % 5, 1, absl::StrCat("f", (i * call) % 17));
  }
  // More records, and longer ones, than go from thread to thread at once.
  log.NewFrame(0, 2 << 20);
  log.Call(0, 1, "f", 20'000);
  for (const char letter : {'g', 'h', 'i'}) {
    log.Call(0, 1, std::string(200 << 10, letter));
    log.Call(0, 1, "f");
  }
  log.CloseFrames();
  log.End();
  const std::string merged = folder + "/b.ttlog";
  ASSERT_TRUE(MergeInputs({{path, ""}, {path, ""}, {path, ""}}, merged).ok());
  for (const bool damaged : {false, true}) {
    if (damaged) {
      ZeroFrame(path, lost);
      ZeroFrame(merged, std::filesystem::file_size(merged) / 2 / kPageBytes * kPageBytes);
    }
    for (const std::string& each : {path, merged}) {
      const auto alone = Open(each);
      Helped observer;
      const auto helped = OpenLogs(each, &observer).value();
      EXPECT_EQ(helped->Count().value(), alone->Count().value());
      EXPECT_EQ(DumpTrace(helped.get()), DumpTrace(alone.get()));
      for (size_t i = 0; i < alone->processes().size(); ++i) {
        EXPECT_EQ(helped->processes()[i].damage.sentences, alone->processes()[i].damage.sentences);
      }
      EXPECT_GE(observer.frames, 100u - damaged);
      EXPECT_EQ(CompareReadings(each), "");
    }
  }
}

TEST(TraceTest, ManyThreadsOneAfterAnotherInOneFrame) {
  const std::string path = TestFolder() + "/a.ttlog";
  constexpr uint64_t kThreads = 2000;
  SampleLog log(path);
  log.NewFrame(0, 1 << 20);
  for (uint64_t i = 0; i < kThreads; ++i) {
    if (i > 0) log.TakeFrame(i, i - 1);
    log.Call(i, 1, absl::StrCat("f", i % 7), 3);
  }
  log.CloseFrames();
  const auto trace = Open(path);
  uint64_t calls = 0;
  ASSERT_TRUE(trace
                  ->Read([&](const CallRecord& record) {
                    if (record.kind != CallRecord::kEnter) return absl::OkStatus();
                    EXPECT_EQ(record.thread, calls++ / 3);
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(calls, 3 * kThreads);
  EXPECT_EQ(trace->config_count(), 7u);
  EXPECT_EQ(trace->processes()[0].threads.size(), kThreads);
}

TEST(TraceTest, ChildForkedInsideCalls) {
  const std::string path = TestFolder() + "/fork-1.ttlog";
  SampleLog log(path);
  log.BeginInside(0, 2);
  log.Call(0, 1, "f");
  log.Leave(0);  // of a call that the parent entered
  log.Enter(0, 1, "g");
  log.CloseFrames();
  log.End();
  EXPECT_EQ(Dump(path), R"(  1020 0/0     enter #0 f level 1 config 0 variant 0
  1030 0/0     leave #0 after 10
  1050 0/0   enter #1 g level 1 config 1 variant 1
process: calls 2, open 1, closed 1
  thread 0: os id 100, name thread-0, calls 2
)");
}

// Three calls are open, and a frame with one more entry is lost: the two outermost
// calls are certainly still open after it.
TEST(TraceTest, CallsAroundLostOnesKeepTheirEnds) {
  const std::string path = TestFolder() + "/a.ttlog";
  SampleLog log(path);
  for (const char* api : {"a", "b", "c"}) log.Enter(0, 1, api);
  log.NewFrame(0);
  const uint64_t lost = log.frame_offset(0);
  log.Enter(0, 1, "d");
  log.Leave(0);
  log.NewFrame(0);
  for (int i = 0; i < 3; ++i) log.Leave(0);
  log.Call(0, 1, "e");
  log.CloseFrames();
  log.End();
  ZeroFrame(path, lost);
  EXPECT_EQ(Dump(path), absl::StrCat(R"(  1020 0/0 enter #0 a level 1 config 0 variant 0
  1030 0/0   enter #1 in #0 b level 1 config 1 variant 1
  1040 0/0     enter #2 in #1 c level 1 config 2 variant 2
  1100 0/0   leave #1 in #0 after 70
  1110 0/0 leave #0 after 90
  1120 0/0 enter #3 e level 1 config 3 variant 3
  1130 0/0 leave #3 after 10
process: calls 4, open 1, closed 1
  thread 0: os id 100, name thread-0, calls 4
  damage: no frame can be read in bytes )",
                                     lost, " to ", lost + kPageBytes, "\n  lost calls: 1\n"));
}

TEST(TraceTest, CallsThatEndedInALostFrame) {
  const std::string path = TestFolder() + "/a.ttlog";
  SampleLog log(path);
  log.Enter(0, 1, "a");
  log.Enter(0, 1, "b");
  log.NewFrame(0);
  const uint64_t lost = log.frame_offset(0);
  log.Leave(0);
  log.NewFrame(0);
  log.Enter(0, 1, "c");
  log.Leave(0);
  log.Leave(0);
  log.CloseFrames();
  ZeroFrame(path, lost);
  EXPECT_EQ(Dump(path), absl::StrCat(R"(  1020 0/0 enter #0 a level 1 config 0 variant 0
  1030 0/0   enter #1 in #0 b level 1 config 1 variant 1
  1070 0/0   enter #2 in #0 c level 1 config 2 variant 2
  1080 0/0   leave #2 in #0 after 10
  1090 0/0 leave #0 after 70
process: calls 3, open 1, closed 0
  thread 0: os id 100, name thread-0, calls 3
  damage: no frame can be read in bytes )",
                                     lost, " to ", lost + kPageBytes, "\n  lost calls: at least 0\n"));
}

TEST(TraceTest, KilledProcess) {
  const std::string path = TestFolder() + "/a.ttlog";
  SampleLog log(path);
  log.Enter(0, 1, "f");
  log.Drop(0, 3, "recursion");
  log.Enter(0, 2, "op");
  EXPECT_EQ(Dump(path), R"(  1020 0/0 enter #0 f level 1 config 0 variant 0
  1030 0/0   enter #1 in #0 op level 2 config 1 variant 1
process: calls 2, open 2, closed 0
  thread 0: os id 100, name thread-0, calls 2
  dropped 3: recursion
)");
}

// Bytes after the committed ones of a killed process are not a record.
TEST(TraceTest, RecordThatWasNeverCommitted) {
  const std::string path = TestFolder() + "/a.ttlog";
  SampleLog log(path);
  log.Enter(0, 1, "f");
  const uint64_t frame = log.frame_offset(0);
  log.NewFrame(1);
  const uint64_t thread_frame = log.frame_offset(1);
  const std::string whole = ReadFile(path);
  FrameHeader header;
  std::memcpy(&header, &whole[frame], sizeof header);
  const uint64_t behind = frame + sizeof header + header.committed_bytes;
  for (const std::string& tail : {std::string("\5"), std::string("\1\7"), std::string("\4\200\1partly")}) {
    for (const bool thread_is_committed : {true, false}) {
      for (const bool has_header : {true, false}) {
        std::string bytes = whole;
        bytes.replace(behind, tail.size(), tail);
        const uint32_t none = 0;
        if (!thread_is_committed) std::memcpy(&bytes[thread_frame + offsetof(FrameHeader, committed_bytes)], &none, 4);
        if (!has_header) bytes.replace(thread_frame + 16, bytes.size(), bytes.size() - thread_frame - 16, '\0');
        WriteFile(path, bytes);
        const auto trace = Open(path);
        EXPECT_THAT(trace->Count().value(), ElementsAre(1));
        EXPECT_THAT(trace->processes()[0].damage.sentences, IsEmpty());
        EXPECT_TRUE(trace->processes()[0].damage.lost_calls_exact);
      }
    }
  }
}

TEST(TraceTest, CommitWordThatHidesRecords) {
  const std::string path = TestFolder() + "/a.ttlog";
  SampleLog log(path);
  log.Enter(0, 1, "f");
  std::string bytes = ReadFile(path);
  log.Leave(0);
  log.Enter(0, 1, "f");
  const uint64_t at = log.frame_offset(0) + offsetof(FrameHeader, committed_bytes);
  const std::string now = ReadFile(path);
  bytes.replace(at + 4, bytes.size(), now, at + 4, now.size());
  WriteFile(path, bytes);
  const auto trace = Open(path);
  EXPECT_THAT(trace->Count().value(), ElementsAre(1));
  const Damage& damage = trace->processes()[0].damage;
  ASSERT_EQ(damage.sentences.size(), 1u);
  EXPECT_THAT(damage.sentences[0], HasSubstr("records after its commit word"));
  EXPECT_FALSE(damage.lost_calls_exact);

  // It hides all of them.
  bytes.replace(at, 4, 4, '\0');
  WriteFile(path, bytes);
  const auto empty = Open(path);
  EXPECT_THAT(empty->Count().value(), IsEmpty());
  EXPECT_THAT(empty->processes()[0].damage.sentences, ElementsAre(HasSubstr("records after its commit word")));
  EXPECT_FALSE(empty->processes()[0].damage.lost_calls_exact);
}

// The process died between the last stores of closing.
TEST(TraceTest, FrameThatIsNearlyClosed) {
  const std::string path = TestFolder() + "/a.ttlog";
  SampleLog log(path);
  log.Call(0, 1, "f", 3);
  const uint64_t frame = log.frame_offset(0);
  log.CloseFrames();
  std::string bytes = ReadFile(path);
  bytes.replace(frame + offsetof(FrameHeader, close_hash), 8, 8, '\0');
  WriteFile(path, bytes);
  const auto trace = Open(path);
  EXPECT_THAT(trace->Count().value(), ElementsAre(3));
  EXPECT_THAT(trace->processes()[0].damage.sentences, IsEmpty());
}

TEST(TraceTest, NothingCanBeRead) {
  const std::string path = TestFolder() + "/a.ttlog";
  WriteSampleLog(path, SampleEnd::kInOrder);
  std::string bytes = ReadFile(path);
  for (size_t at = kPageBytes; at < bytes.size();) {
    FrameHeader header;
    std::memcpy(&header, &bytes[at], sizeof header);
    bytes[at + sizeof header + 1] ^= 1;
    at += header.capacity_bytes;
  }
  WriteFile(path, bytes);
  const absl::Status status = OpenLogs(path).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("a.ttlog holds nothing that can be read: none of the "));
}

// A closing frame must not count processes without a frame.
TEST(TraceTest, ClosingFrameThatTellsOfTooManyProcesses) {
  const std::string path = TestFolder() + "/a.ttlog";
  constexpr uint32_t kProcesses = 100'000;
  {
    const auto writer = LogWriter::Create(path).value();
    const Frame frame = writer->Reserve(FrameType::kClosing, 2 * kProcesses + 10).value();
    char* const end = EncodeVarint(kProcesses, frame.payload());
    std::memset(end, 1, 2 * kProcesses);
    frame.header->committed_bytes = static_cast<uint32_t>(end - frame.payload()) + 2 * kProcesses;
    LogWriter::Close(frame, 0);
  }
  std::string bytes = ReadFile(path);
  Superblock block;
  std::memcpy(&block, bytes.data(), sizeof block);
  block.version = kManyProcessesVersion;
  block.hash = Hash64(&block, offsetof(Superblock, hash));
  std::memcpy(bytes.data(), &block, sizeof block);
  WriteFile(path, bytes);
  const auto trace = Open(path);
  EXPECT_THAT(trace->Count().value(), IsEmpty());
  ASSERT_EQ(trace->processes().size(), 1u);
  EXPECT_THAT(trace->processes()[0].damage.sentences[0], HasSubstr("the closing frame at byte 4096 is damaged"));
}

// The log grows while it is read: that is not damage.
TEST(TraceTest, RunningProcess) {
  const std::string path = TestFolder() + "/a.ttlog";
  SampleLog log(path);
  log.Enter(0, 1, "f");
  const auto trace = Open(path);
  log.Call(0, 1, "g", 5000);
  EXPECT_THAT(trace->Count().value(), ElementsAre(1));
  EXPECT_THAT(trace->processes()[0].damage.sentences, IsEmpty());
  EXPECT_TRUE(trace->processes()[0].damage.lost_calls_exact);
  EXPECT_THAT(Open(path)->Count().value(), ElementsAre(1, 5000));
}

TEST(TraceTest, FileThatShrinksWhileItIsRead) {
  const std::string path = TestFolder() + "/a.ttlog";
  SampleLog log(path);
  log.NewFrame(0, 1 << 20);
  log.Call(0, 1, "f", 100'000);
  log.CloseFrames();
  const auto trace = Open(path);
  ASSERT_EQ(trace->Count().value()[0], 100'000u);
  uint64_t calls = 0;
  EXPECT_TRUE(trace
                  ->Read([&](const CallRecord& record) {
                    calls += record.kind == CallRecord::kEnter;
                    if (calls != 10) return absl::OkStatus();
                    EXPECT_EQ(truncate(path.c_str(), kPageBytes), 0);
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_GE(calls, 10u);
  EXPECT_LT(calls, 100'000u);
}

// Read must not rely on what Count saw.
TEST(TraceTest, FileThatIsReplacedBetweenCountAndRead) {
  const std::string folder = TestFolder();
  const std::string path = folder + "/a.ttlog";
  WriteSampleLog(path, SampleEnd::kInOrder);
  const auto trace = Open(path);
  ASSERT_TRUE(trace->Count().ok());
  const auto read = [&] {
    uint64_t records = 0;
    EXPECT_TRUE(trace->Read([&](const CallRecord&) { return ++records, absl::OkStatus(); }).ok());
    return records;
  };
  const uint64_t records = read();
  EXPECT_GT(records, 0u);
  std::string bytes = ReadFile(path);
  for (size_t i = kPageBytes; i < bytes.size(); i += 3) bytes[i] = static_cast<char>(i * 37);
  WriteFile(path, bytes);  // the same file
  read();
  std::filesystem::rename(path, folder + "/b");
  WriteFile(path, bytes);  // another file of that name
  EXPECT_EQ(read(), 0u);
}

TEST(TraceTest, ProcessesAreMergedByTime) {
  const std::string folder = TestFolder();
  std::filesystem::create_directories(folder + "/log");
  SampleLog parent(folder + "/log/main-1.ttlog");
  SampleLog child(folder + "/log/fork-2.ttlog", R"({"role": "fork", "clock": {"origin_monotonic_ns": 1005}})");
  for (int i = 0; i < 2; ++i) {
    parent.Call(0, 1, "f");
    child.Call(0, 1, "f");
  }
  parent.CloseFrames();
  child.CloseFrames();
  parent.End();
  child.End(3);
  for (const std::string& path : {folder, folder + "/", folder + "/log"}) {
    const auto trace = Open(path);
    ASSERT_EQ(trace->processes().size(), 2u);
    EXPECT_EQ((*trace->processes()[0].metadata)["role"], "main");
    EXPECT_EQ((*trace->processes()[1].metadata)["end"]["exit_code"], 3u);
    EXPECT_EQ(DumpTrace(trace.get()), R"(  1020 0/0 enter #0 f level 1 config 0 variant 0
  1025 1/0 enter #1 f level 1 config 0 variant 0
  1030 0/0 leave #0 after 10
  1035 1/0 leave #1 after 10
  1040 0/0 enter #2 f level 1 config 0 variant 0
  1045 1/0 enter #3 f level 1 config 0 variant 0
  1050 0/0 leave #2 after 10
  1055 1/0 leave #3 after 10
process: calls 2, open 0, closed 1
  thread 0: os id 100, name thread-0, calls 2
process: calls 2, open 0, closed 1
  thread 0: os id 100, name thread-0, calls 2
)");
  }
}

TEST(TraceTest, MachinesAreMergedByTheTimeOfDay) {
  const std::string folder = TestFolder();
  std::filesystem::create_directories(folder + "/log");
  // The second machine was started much later, and called first.
  SampleLog one(folder + "/log/main-1.ttlog", R"({"host": "one", "clock": {"origin_realtime_ns": 2000000}})");
  SampleLog two(folder + "/log/main-2.ttlog",
                R"({"host": "two", "clock": {"origin_monotonic_ns": 900000, "origin_realtime_ns": 1000000}})");
  one.Enter(0, 1, "later");
  two.Enter(0, 1, "sooner");
  one.CloseFrames();
  two.CloseFrames();
  EXPECT_EQ(Dump(folder), R"(900020 0/0 enter #0 sooner level 1 config 0 variant 0
  1020 1/0 enter #1 later level 1 config 1 variant 1
process: calls 1, open 1, closed 0
  thread 0: os id 100, name thread-0, calls 1
process: calls 1, open 1, closed 0
  thread 0: os id 100, name thread-0, calls 1
)");
}

TEST(TraceTest, MoreLogsThanFilesMayBeOpen) {
  const std::string folder = TestFolder();
  std::filesystem::create_directories(folder + "/log");
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit few = {32, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  constexpr uint64_t kLogs = 100;
  for (uint64_t i = 0; i < kLogs; ++i) {
    SampleLog log(absl::StrCat(folder, "/log/fork-", i, ".ttlog"),
                  absl::StrCat(R"({"clock": {"origin_monotonic_ns": )", 1000 * (i + 1), "}}"));
    log.Call(0, 1, "f");
    log.CloseFrames();
    log.End();
  }
  const auto trace = Open(folder);
  uint64_t records = 0;
  EXPECT_TRUE(trace->Read([&](const CallRecord&) { return ++records, absl::OkStatus(); }).ok());
  EXPECT_EQ(records, 2 * kLogs);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST(TraceTest, ObserverIsToldHowFarItIs) {
  struct Observer : ReadingObserver {
    void OnRead(Unit unit, uint64_t done, uint64_t total) override {
      EXPECT_GE(done, unit == last_unit ? last_done : 0);
      EXPECT_LE(done, total);
      last_unit = unit;
      last_done = done;
      told[unit].push_back(total);
    }
    Unit last_unit = kBytes;
    uint64_t last_done = 0;
    std::vector<uint64_t> told[2];
  } observer;
  constexpr int kCalls = 100'000;
  const std::string path = TestFolder() + "/a.ttlog";
  {
    SampleLog log(path);
    log.NewFrame(0, 4 << 20);
    log.Call(0, 1, "f", kCalls);
    log.CloseFrames();
    log.End();
  }
  const auto trace = OpenLogs(path, &observer).value();
  ASSERT_TRUE(trace->Count().ok());
  EXPECT_THAT(observer.told[ReadingObserver::kBytes], Each(std::filesystem::file_size(path)));
  EXPECT_FALSE(observer.told[ReadingObserver::kBytes].empty());
  ASSERT_TRUE(trace->Read([](const CallRecord&) { return absl::OkStatus(); }).ok());
  EXPECT_THAT(observer.told[ReadingObserver::kCalls], ElementsAre(kCalls, kCalls, kCalls));
}

TEST(TraceTest, VisitorEndsTheReading) {
  const std::string path = TestFolder() + "/a.ttlog";
  WriteSampleLog(path, SampleEnd::kInOrder);
  const auto trace = Open(path);
  uint64_t records = 0;
  const absl::Status status = trace->Read(
      [&](const CallRecord&) { return ++records == 3 ? absl::CancelledError("enough") : absl::OkStatus(); });
  EXPECT_EQ(status, absl::CancelledError("enough"));
  EXPECT_EQ(records, 3u);
}

TEST(TraceTest, WhatIsNoTrace) {
  const std::string folder = TestFolder();
  const std::string path = folder + "/a.ttlog";
  std::string newer(kPageBytes, '\0');
  Superblock block = {{}, kLogVersion + 1, kPageBytes, 0};
  std::memcpy(block.magic, kLogMagic, sizeof block.magic);
  block.hash = Hash64(&block, offsetof(Superblock, hash));
  std::memcpy(newer.data(), &block, sizeof block);
  std::string damaged = newer;
  damaged[9] ^= 1;
  block.version = kLogVersion;
  block.hash = Hash64(&block, offsetof(Superblock, hash));
  std::string whole(kPageBytes, '\0');
  std::memcpy(whole.data(), &block, sizeof block);
  const struct {
    std::string content;
    absl::StatusCode code;
    std::string says;
  } kCases[] = {
      {"", absl::StatusCode::kInvalidArgument, "expected a superblock of 24 bytes, found 0"},
      {"TTLOG\r\n", absl::StatusCode::kInvalidArgument, "expected a superblock of 24 bytes, found 7"},
      {"- api: torch.add\n", absl::StatusCode::kInvalidArgument, "is not a torchtrace log: expected \"TTLOG\""},
      {std::string(100'000, 'x'), absl::StatusCode::kInvalidArgument, "is not a torchtrace log"},
      {newer, absl::StatusCode::kUnimplemented, "is a log of version 3; this torchtrace reads versions up to 2"},
      {damaged, absl::StatusCode::kInvalidArgument, "its superblock is damaged"},
      {whole.substr(0, 1000), absl::StatusCode::kInvalidArgument,
       "nothing that can be read: no frame of a log in its 1000"},
      {whole + std::string(5000, 'x'), absl::StatusCode::kInvalidArgument, "no frame of a log in its 9096 bytes"},
  };
  for (const auto& c : kCases) {
    WriteFile(path, c.content);
    for (const std::string& target : {path, folder}) {
      const absl::Status status = OpenLogs(target).status();
      EXPECT_EQ(status.code(), c.code) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(c.says));
      EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    }
  }
  std::filesystem::remove(path);
  for (const std::string& target : {folder, path, folder + "/no/such/place"}) {
    const absl::Status status = OpenLogs(target).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(target));
  }
  EXPECT_THAT(std::string(OpenLogs("/dev/null").status().message()), HasSubstr("regular file"));
}

// A file that isn't a log doesn't prevent reading the others.
TEST(TraceTest, LogsBesideOneThatIsNone) {
  const std::string folder = TestFolder();
  std::filesystem::create_directories(folder + "/log");
  WriteFile(folder + "/log/fork-1.ttlog", "");
  SampleLog log(folder + "/log/main-2.ttlog");
  log.Call(0, 1, "f");
  log.CloseFrames();
  const auto trace = Open(folder);
  EXPECT_THAT(trace->Count().value(), ElementsAre(1));
  ASSERT_EQ(trace->processes().size(), 2u);
  EXPECT_THAT(trace->processes()[0].damage.sentences, IsEmpty());
  const ProcessInfo& none = trace->processes()[1];
  ASSERT_EQ(none.damage.sentences.size(), 1u);
  EXPECT_THAT(none.damage.sentences[0], HasSubstr("fork-1.ttlog holds no log"));
  EXPECT_FALSE(none.damage.lost_calls_exact);
}

TEST(TraceTest, LogWithoutFrames) {
  const std::string path = TestFolder() + "/a.ttlog";
  ASSERT_TRUE(LogWriter::Create(path).ok());
  const auto trace = Open(path);
  EXPECT_THAT(trace->Count().value(), IsEmpty());
  EXPECT_EQ(DumpTrace(trace.get()), "process: calls 0, open 0, closed 0\n");
}

// Reserved space without a header is not damage; neither are frames of a later
// version's type.
TEST(TraceTest, WhatReadersSkip) {
  const std::string path = TestFolder() + "/a.ttlog";
  {
    SampleLog log(path);
    log.Call(0, 1, "f");
    log.CloseFrames();
    const Frame frame = log.writer().Reserve(static_cast<FrameType>(77), 10).value();
    std::memcpy(frame.payload(), "whatever", 8);
    frame.header->committed_bytes = 8;
    LogWriter::Close(frame, 0);
  }
  std::filesystem::resize_file(path, std::filesystem::file_size(path) + 3 * kPageBytes);
  const auto trace = Open(path);
  EXPECT_THAT(trace->Count().value(), ElementsAre(1));
  EXPECT_THAT(trace->processes()[0].damage.sentences, IsEmpty());
}

}  // namespace
}  // namespace torchtrace
