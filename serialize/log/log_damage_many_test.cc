// Damages a log of many processes at every byte, as log_damage_test.cc does for the log of
// one traced process. For every process the reader must return only calls that it made,
// all calls of undamaged frames, and a correct report of what is missing.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/edit/edit.h"
#include "serialize/log/log_format.h"
#include "serialize/log/log_reader.h"
#include "serialize/log/log_trace.h"
#include "serialize/testing/log_samples.h"
#include "serialize/trace/trace.h"

namespace torchtrace {
namespace {

// Identifies a call: every record has a unique time.
using CallKey = std::pair<uint32_t, int64_t>;  // thread, time

class ManyProcessesDamageTest : public testing::Test {
 protected:
  struct PlacedFrame {
    uint64_t offset = 0;
    uint64_t end = 0;  // of what is committed
    FrameHeader header = {};
  };

  void SetUp() override {
    const std::string folder = TestFolder();
    WriteSampleLog(folder + "/whole.ttlog", SampleEnd::kInOrder);
    {
      SampleLog killed(folder + "/killed.ttlog", R"({"pid": 7})");
      killed.Enter(0, 1, "torch.outer");
      killed.Call(0, 2, "aten::mm", 5);
      killed.NewFrame(0);
      killed.Call(0, 2, "aten::mm", 5);
    }
    const std::string path = folder + "/many.ttlog";
    const auto writer = TraceWriter::Create(path).value();
    for (const char* name : {"whole", "killed"}) {
      const std::string source = absl::StrCat(folder, "/", name, ".ttlog");
      const uint32_t process = writer->AddProcess(*OpenLogs(source).value()->processes()[0].metadata).value();
      ASSERT_TRUE(writer->CopyCalls(*LogReader::Open(source).value(), 0, process).ok());
    }
    ASSERT_TRUE(writer->AddProcess({{"pid", 8}}).ok());
    for (uint64_t i = 0; i < 10; ++i) {
      ASSERT_TRUE(writer->Enter(2, i % 2, 1000 + 20 * i, SampleIdentity(1, "f", static_cast<int64_t>(i)), "").ok());
      ASSERT_TRUE(writer->Leave(2, i % 2, 1010 + 20 * i).ok());
    }
    ASSERT_TRUE(writer->AddProcess({{"pid", 9}}).ok());  // made no call
    ASSERT_TRUE(writer->Finish().ok());

    bytes_ = ReadFile(path);
    for (size_t at = kPageBytes; at < bytes_.size();) {
      PlacedFrame frame{at, 0, {}};
      std::memcpy(&frame.header, &bytes_[at], sizeof frame.header);
      frame.end = at + sizeof frame.header + frame.header.committed_bytes;
      frames_.push_back(frame);
      at += frame.header.capacity_bytes;
    }
    fd_ = memfd_create("many", MFD_CLOEXEC);
    ASSERT_GE(fd_, 0);
    path_ = absl::StrCat("/proc/self/fd/", fd_);
    WriteFile(path_, bytes_);
    // The expectation: the frame that contains each call's entry, found by reading the
    // file with all other call frames damaged.
    for (const PlacedFrame& frame : frames_) {
      if (static_cast<FrameType>(frame.header.type) != FrameType::kCalls) continue;
      for (const PlacedFrame& other : frames_) {
        if (static_cast<FrameType>(other.header.type) == FrameType::kCalls && other.offset != frame.offset) {
          Put(other.offset, '\0');
        }
      }
      for (const auto& [process, calls] : ReadCalls()) {
        for (const auto& [key, api] : calls) truth_[process][key] = {frame.offset, api};
      }
      WriteFile(path_, bytes_);
    }
    for (const auto& [process, calls] : truth_) total_ += calls.size();
  }
  void TearDown() override { close(fd_); }

  void Put(uint64_t at, char byte) { ASSERT_EQ(pwrite(fd_, &byte, 1, static_cast<off_t>(at)), 1); }

  // By process number: the calls and their APIs.
  std::map<uint32_t, std::map<CallKey, std::string>> ReadCalls() {
    const auto trace = OpenLogs(path_).value();
    std::map<uint32_t, std::map<CallKey, std::string>> calls;
    const absl::Status status = trace->Read([&](const CallRecord& record) {
      if (record.kind == CallRecord::kEnter) {
        calls[NumberOf(*trace, record.process)][{record.thread, record.time_ns}] =
            std::string(trace->identity(record.config));
      }
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok());
    return calls;
  }

  static uint32_t NumberOf(const Trace& trace, size_t process) {
    const LogSource source = trace.log_source(process);
    return source.log->processes()[source.process].number;
  }

  // The reader's first mistake on the file as it is now; empty: none.
  // `intact`: whether the calls of the frame at an offset must be found.
  template <typename Intact>
  std::string Examine(const Intact& intact) {
    absl::StatusOr<std::unique_ptr<Trace>> trace = OpenLogs(path_);
    if (!trace.ok()) return trace.status().ToString();
    // It takes as long as all else.
    if (examined_++ % 8 == 0) {
      if (std::string problem = CompareReadings(path_); !problem.empty()) return problem;
    }
    const auto seen = ReadCalls();
    const std::vector<uint64_t> counts = (*trace)->Count().value();
    std::map<uint32_t, const ProcessInfo*> infos;
    bool damage_told = false;
    for (size_t i = 0; i < (*trace)->processes().size(); ++i) {
      const ProcessInfo& info = (*trace)->processes()[i];
      infos[NumberOf(**trace, i)] = &info;
      damage_told = damage_told || !info.damage.sentences.empty();
    }
    uint64_t found = 0;
    for (const auto& [process, calls] : seen) {
      const auto truth = truth_.find(process);
      if (truth == truth_.end()) return absl::StrCat("calls of process ", process, " which made none");
      for (const auto& [key, api] : calls) {
        const auto call = truth->second.find(key);
        if (call == truth->second.end()) return absl::StrCat("a call at ", key.second, " that never was");
        if (call->second.second != api) return absl::StrCat("another call at ", key.second);
      }
      found += calls.size();
    }
    for (const auto& [process, calls] : truth_) {
      const auto of_process = seen.find(process);
      uint64_t read = 0;
      for (const auto& [key, place] : calls) {
        const bool is_there = of_process != seen.end() && of_process->second.count(key) > 0;
        read += is_there;
        if (!is_there && intact(place.first)) return absl::StrCat("no call at ", key.second, " of process ", process);
      }
      const auto info = infos.find(process);
      if (info == infos.end()) {
        if (!damage_told) return absl::StrCat("process ", process, " has vanished and no message says so");
        continue;
      }
      const Damage& damage = info->second->damage;
      if (info->second->calls != read) return absl::StrCat(info->second->calls, " calls counted, ", read, " read");
      if (read < calls.size() && damage.sentences.empty()) {
        return absl::StrCat("calls of process ", process, " are missing and no message says so");
      }
      const uint64_t sum = read + damage.lost_calls;
      if (damage.lost_calls_exact ? sum != calls.size() : sum > calls.size()) {
        return absl::StrCat("process ", process, ": ", read, " read and ", damage.lost_calls_exact ? "" : "at least ",
                            damage.lost_calls, " lost of ", calls.size());
      }
      ++(damage.lost_calls_exact ? exact_ : inexact_);
    }
    if (found < total_ && !damage_told) return "something is missing and no message says so";
    if (std::accumulate(counts.begin(), counts.end(), uint64_t{0}) != found) return "counts differ from calls";
    return "";
  }

  std::string path_;  // of the copy that is damaged
  std::string bytes_;
  std::vector<PlacedFrame> frames_;
  std::map<uint32_t, std::map<CallKey, std::pair<uint64_t, std::string>>> truth_;  // frame and identity
  uint64_t total_ = 0;
  uint64_t exact_ = 0;
  uint64_t inexact_ = 0;
  uint64_t examined_ = 0;
  int fd_ = -1;
};

TEST_F(ManyProcessesDamageTest, IntactLogIsWhole) {
  EXPECT_EQ(Examine([](uint64_t) { return true; }), "");
  EXPECT_EQ(inexact_, 0u);
  EXPECT_EQ(truth_.size(), 3u);
  const auto trace = OpenLogs(path_).value();
  ASSERT_TRUE(trace->Count().ok());
  ASSERT_EQ(trace->processes().size(), 4u);
  uint64_t calls = 0;
  for (const ProcessInfo& process : trace->processes()) {
    EXPECT_TRUE(process.damage.sentences.empty());
    EXPECT_EQ(process.damage.lost_bytes, 0u);
    calls += process.calls;
  }
  EXPECT_EQ(calls, total_);
}

// A cut between two frames is noticed here, because the closing frame is missing.
TEST_F(ManyProcessesDamageTest, CutAtEveryByte) {
  const uint64_t closed = frames_.back().end;
  for (uint64_t size = bytes_.size(); size-- > kPageBytes + sizeof(FrameHeader) + 1;) {
    ASSERT_EQ(ftruncate(fd_, static_cast<off_t>(size)), 0);
    const uint64_t exact_before = exact_;
    // The reader reads the beginning of the frame that is cut.
    const std::string problem = Examine([&](uint64_t offset) {
      const auto frame = std::find_if(frames_.begin(), frames_.end(),
                                      [offset](const PlacedFrame& placed) { return placed.offset == offset; });
      return frame->end <= size;
    });
    ASSERT_EQ(problem, "") << "cut at " << size;
    ASSERT_EQ(exact_ - exact_before, size < closed ? 0 : truth_.size()) << "cut at " << size;
  }
}

TEST_F(ManyProcessesDamageTest, EveryFrameMissing) {
  for (const PlacedFrame& gone : frames_) {
    std::string rest = bytes_;
    rest.erase(gone.offset, gone.header.capacity_bytes);
    WriteFile(path_, rest);
    EXPECT_EQ(Examine([&](uint64_t offset) { return offset != gone.offset; }), "") << gone.offset;
    const bool closing = static_cast<FrameType>(gone.header.type) == FrameType::kClosing;
    EXPECT_EQ(inexact_, closing ? truth_.size() : 0) << gone.offset;
  }
}

TEST_F(ManyProcessesDamageTest, EveryFrameTwice) {
  for (const PlacedFrame& frame : frames_) {
    std::string twice = bytes_;
    twice.insert(frame.offset, bytes_, frame.offset, frame.header.capacity_bytes);
    WriteFile(path_, twice);
    EXPECT_EQ(Examine([](uint64_t) { return true; }), "") << frame.offset;
  }
}

TEST_F(ManyProcessesDamageTest, AllFramesOfAProcessMissing) {
  std::string rest = bytes_;
  for (size_t i = frames_.size(); i-- > 0;) {
    if (frames_[i].header.process == 1 && static_cast<FrameType>(frames_[i].header.type) != FrameType::kClosing) {
      std::memset(&rest[frames_[i].offset], 0, frames_[i].header.capacity_bytes);
    }
  }
  WriteFile(path_, rest);
  EXPECT_EQ(Examine([&](uint64_t offset) { return rest[offset] != 0; }), "");
  const auto trace = OpenLogs(path_).value();
  ASSERT_TRUE(trace->Count().ok());
  ASSERT_EQ(trace->processes().size(), 4u);
  for (const ProcessInfo& process : trace->processes()) {
    const bool is_it = process.metadata->empty();
    EXPECT_EQ(process.damage.lost_calls, is_it ? truth_[1].size() : 0);
    EXPECT_TRUE(process.damage.lost_calls_exact);
  }
}

// One test per bit of a byte.
class ManyProcessesBitFlipTest : public ManyProcessesDamageTest, public testing::WithParamInterface<int> {};

INSTANTIATE_TEST_SUITE_P(Bits, ManyProcessesBitFlipTest, testing::Range(0, 8));

TEST_P(ManyProcessesBitFlipTest, EveryByte) {
  const auto flip = [&](uint64_t byte) {
    const PlacedFrame* hit = nullptr;
    for (const PlacedFrame& frame : frames_) {
      if (byte >= frame.offset && byte < frame.end) hit = &frame;
    }
    const char flipped = static_cast<char>(bytes_[byte] ^ (1 << GetParam()));
    Put(byte, flipped);
    const std::string problem = Examine([&](uint64_t offset) { return hit == nullptr || offset != hit->offset; });
    ASSERT_EQ(problem, "") << "bit " << GetParam() << " of byte " << byte;
    Put(byte, bytes_[byte]);
  };
  for (const PlacedFrame& frame : frames_) {
    for (uint64_t byte = frame.offset; byte < frame.end; ++byte) ASSERT_NO_FATAL_FAILURE(flip(byte));
    // Padding has no content: test only its first and last byte.
    const uint64_t next = frame.offset + frame.header.capacity_bytes;
    if (frame.end == next) continue;
    ASSERT_NO_FATAL_FAILURE(flip(frame.end));
    ASSERT_NO_FATAL_FAILURE(flip(next - 1));
  }
  for (uint64_t byte = 0; byte < sizeof(Superblock); ++byte) ASSERT_NO_FATAL_FAILURE(flip(byte));
  // Counts are inexact only if the closing frame's counts are lost and a header can't
  // be read.
  EXPECT_GT(exact_, 10 * inexact_);
}

}  // namespace
}  // namespace torchtrace
