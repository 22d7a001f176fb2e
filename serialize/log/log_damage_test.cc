// Damages a log everywhere: cuts it at every byte and flips every bit. Each time
// the reader must return only calls that were recorded, all calls of undamaged
// frames, and a correct report of what is missing.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "serialize/base/bytes.h"
#include "serialize/log/log_format.h"
#include "serialize/log/log_trace.h"
#include "serialize/testing/log_samples.h"
#include "serialize/trace/trace.h"

namespace torchtrace {
namespace {

// A call as the reader returned it.
struct SeenCall {
  uint64_t thread = 0;
  std::string_view api;
  int64_t entered = 0;
  SampleCall::Outcome outcome = SampleCall::kOpen;
  int64_t ended = 0;
};

// Reads the log; sets `problem` where the reader contradicts itself.
std::vector<SeenCall> ReadCalls(Trace* trace, std::string* problem) {
  std::vector<SeenCall> calls;
  int64_t last_time = INT64_MIN;
  const absl::Status status = trace->Read([&](const CallRecord& record) {
    if (record.time_ns < last_time) *problem = absl::StrCat("time runs back at ", record.time_ns);
    last_time = record.time_ns;
    if (record.kind == CallRecord::kEnter) {
      if (record.call != calls.size()) *problem = absl::StrCat("call ", record.call, " after ", calls.size());
      std::string_view api;
      ByteReader reader(trace->identity(record.config).substr(1));
      if (!reader.String(&api)) *problem = "not an identity";
      calls.push_back({record.thread, api, record.time_ns});
    } else {
      SeenCall& call = calls.at(record.call);
      if (call.outcome != SampleCall::kOpen) *problem = absl::StrCat("call ", record.call, " ends twice");
      call.outcome = record.kind == CallRecord::kLeave ? SampleCall::kLeft : SampleCall::kRaised;
      call.ended = record.time_ns;
    }
    return absl::OkStatus();
  });
  if (!status.ok()) *problem = status.ToString();
  const std::vector<uint64_t> counts = trace->Count().value();
  const uint64_t counted = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  if (counted != calls.size() || trace->processes()[0].calls != calls.size()) *problem = "counts differ from calls";
  const auto open =
      std::count_if(calls.begin(), calls.end(), [](const SeenCall& call) { return call.outcome == SampleCall::kOpen; });
  if (static_cast<uint64_t>(open) != trace->processes()[0].open_calls) *problem = "open calls are miscounted";
  return calls;
}

class DamagedLog : public testing::Test {
 protected:
  void WriteLog(SampleEnd end) {
    end_ = end;
    const std::string sample = absl::StrCat(TestFolder(), "/sample.ttlog");
    log_ = WriteSampleLog(sample, end);
    bytes_ = ReadFile(sample);
    for (const SampleCall& call : log_->calls()) by_time_[call.entered] = &call;
    for (size_t at = kPageBytes; at < bytes_.size();) {
      FrameHeader header;
      std::memcpy(&header, &bytes_[at], sizeof header);
      frames_.push_back({at, header});
      at += header.capacity_bytes;
    }
    // In memory, because it is read half a million times.
    fd_ = memfd_create("sample", MFD_CLOEXEC);
    ASSERT_GE(fd_, 0);
    path_ = absl::StrCat("/proc/self/fd/", fd_);
    WriteFile(path_, bytes_);
  }
  void TearDown() override { close(fd_); }

  bool killed() const { return end_ == SampleEnd::kKilled; }
  uint64_t total() const { return log_->calls().size(); }

  // The reader's first mistake on the file as it is now; empty: none.
  // `must_have`: which records must be found.
  template <typename MustHave>
  std::string Examine(const MustHave& must_have, bool account_is_exempt = false) {
    absl::StatusOr<std::unique_ptr<Trace>> trace = OpenLogs(path_);
    if (!trace.ok()) return trace.status().ToString();
    std::string problem;
    // It takes as long as all else.
    if (examined_++ % 8 == 0) problem = CompareReadings(path_);
    if (!problem.empty()) return problem;
    const std::vector<SeenCall> calls = ReadCalls(trace->get(), &problem);
    if (!problem.empty()) return problem;
    size_t found = 0;
    bool complete = calls.size() == total();
    for (const SeenCall& seen : calls) {
      const auto truth = by_time_.find(seen.entered);
      if (truth == by_time_.end()) return absl::StrCat("a call at ", seen.entered, " that never was");
      const SampleCall& call = *truth->second;
      if (call.thread != seen.thread || call.api != seen.api) return absl::StrCat("another call at ", seen.entered);
      const bool has_end = seen.outcome != SampleCall::kOpen;
      if (has_end && (seen.outcome != call.outcome || seen.ended != call.ended)) {
        return absl::StrCat("a wrong end of the call at ", seen.entered);
      }
      if (!has_end && call.outcome != SampleCall::kOpen) {
        complete = false;
        // The end is known if all of its thread's records up to it are found.
        const bool has_all = std::all_of(log_->calls().begin(), log_->calls().end(), [&](const SampleCall& other) {
          const bool entry_matters =
              other.thread == call.thread && other.entered >= call.entered && other.entered < call.ended;
          return !entry_matters || must_have(other.entry);
        });
        if (has_all && must_have(call.exit)) return absl::StrCat("no end of the call at ", seen.entered);
      }
      found += must_have(call.entry);
    }
    const auto wanted = std::count_if(log_->calls().begin(), log_->calls().end(),
                                      [&](const SampleCall& call) { return must_have(call.entry); });
    if (found != static_cast<size_t>(wanted)) return absl::StrCat(found, " of ", wanted, " calls that must be there");
    const Damage& damage = (*trace)->processes()[0].damage;
    if (!complete && damage.sentences.empty() && !account_is_exempt) return "something is missing and nothing said";
    const uint64_t sum = damage.lost_calls + calls.size();
    if (damage.lost_calls_exact ? sum != total() && !account_is_exempt : sum > total()) {
      return absl::StrCat(calls.size(), " read and ", damage.lost_calls_exact ? "" : "at least ", damage.lost_calls,
                          " lost of ", total());
    }
    ++(damage.lost_calls_exact ? exact_ : inexact_);
    return "";
  }

  // The end of the last entry or leave record before `end` in the frame at `frame`.
  uint64_t EventBefore(uint64_t frame, uint64_t end) const {
    uint64_t last = 0;
    for (const SampleCall& call : log_->calls()) {
      for (const SamplePlace& place : {call.entry, call.exit}) {
        if (place.frame == frame && place.end < end) last = std::max(last, place.end);
      }
    }
    return last;
  }

  SampleEnd end_ = SampleEnd::kInOrder;
  std::string path_;  // of the copy that is damaged
  std::unique_ptr<SampleLog> log_;
  std::string bytes_;
  std::vector<std::pair<uint64_t, FrameHeader>> frames_;
  std::map<int64_t, const SampleCall*> by_time_;
  int fd_ = -1;
  uint64_t exact_ = 0;
  uint64_t inexact_ = 0;
  uint64_t examined_ = 0;
};

class LogDamageTest : public DamagedLog, public testing::WithParamInterface<SampleEnd> {
 protected:
  void SetUp() override { WriteLog(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Ends, LogDamageTest, testing::Values(SampleEnd::kInOrder, SampleEnd::kKilled),
                         [](const auto& info) { return info.param == SampleEnd::kKilled ? "Killed" : "InOrder"; });

TEST_P(LogDamageTest, IntactLogIsWhole) {
  EXPECT_EQ(Examine([](const SamplePlace&) { return true; }), "");
  const Damage damage = [&] {
    auto trace = OpenLogs(path_).value();
    trace->Count().value();
    return trace->processes()[0].damage;
  }();
  EXPECT_TRUE(damage.sentences.empty());
  EXPECT_TRUE(damage.lost_calls_exact);
  EXPECT_EQ(damage.lost_calls, 0u);
  EXPECT_EQ(damage.lost_bytes, 0u);
}

TEST_P(LogDamageTest, CutAtEveryByte) {
  const uint64_t end_frame = frames_[1].first;
  for (uint64_t size = bytes_.size(); size-- > 0;) {
    ASSERT_EQ(ftruncate(fd_, static_cast<off_t>(size)), 0);
    if (size <= kPageBytes + sizeof(FrameHeader)) {
      const absl::StatusOr<std::unique_ptr<Trace>> trace = OpenLogs(path_);
      // A log without a payload can't be opened, unless it never had one.
      ASSERT_EQ(trace.ok(), size == kPageBytes) << size;
      if (!trace.ok()) continue;
    }
    // A log without end metadata that is cut between two frames looks whole.
    const bool between_frames =
        std::any_of(frames_.begin(), frames_.end(), [&](const auto& frame) { return frame.first == size; });
    const bool end_is_there = !killed() && size > end_frame + sizeof(FrameHeader) + frames_[1].second.committed_bytes;
    const std::string problem = Examine([size](const SamplePlace& place) { return place.end <= size; },
                                        /*account_is_exempt=*/between_frames && !end_is_there);
    ASSERT_EQ(problem, "") << "cut at " << size;
  }
  RecordProperty("exact", static_cast<int>(exact_));
  RecordProperty("inexact", static_cast<int>(inexact_));
}

// As after a disk failure or a crash of the whole machine.
TEST_P(LogDamageTest, EverySectorZeroed) {
  constexpr ssize_t kSector = 512;
  const std::string zeros(kSector, '\0');
  for (size_t at = 0; at < bytes_.size(); at += kSector) {
    uint64_t hit_frame = 0;
    bool unguarded = false;
    for (const auto& [offset, header] : frames_) {
      const uint64_t end = offset + sizeof(FrameHeader) + header.committed_bytes;
      if (at + kSector > offset && at < end) {
        hit_frame = offset;
        unguarded = header.closed == 0;
      }
    }
    ASSERT_EQ(pwrite(fd_, zeros.data(), kSector, static_cast<off_t>(at)), kSector);
    if (unguarded) {
      auto trace = OpenLogs(path_).value();
      std::string problem;
      EXPECT_LE(ReadCalls(trace.get(), &problem).size(), total()) << "zeros at " << at;
    } else {
      EXPECT_EQ(Examine([hit_frame](const SamplePlace& place) { return place.frame != hit_frame; }), "")
          << "zeros at " << at;
    }
    ASSERT_EQ(pwrite(fd_, &bytes_[at], kSector, static_cast<off_t>(at)), kSector);
  }
}

TEST_P(LogDamageTest, EveryFrameMissing) {
  for (const auto& [offset, header] : frames_) {
    std::string rest = bytes_;
    rest.erase(offset, header.capacity_bytes);
    WriteFile(path_, rest);
    // In a log without end metadata, the loss of the last frame can't be noticed.
    const bool exempt = offset + header.capacity_bytes == bytes_.size();
    const uint64_t gone = offset;
    EXPECT_EQ(Examine([gone](const SamplePlace& place) { return place.frame != gone; }, exempt), "") << offset;
  }
}

TEST_P(LogDamageTest, EveryFrameTwice) {
  for (const auto& [offset, header] : frames_) {
    std::string twice = bytes_;
    twice.insert(offset, bytes_, offset, header.capacity_bytes);
    WriteFile(path_, twice);
    EXPECT_EQ(Examine([](const SamplePlace&) { return true; }), "") << offset;
  }
}

// One test per bit of a byte.
class LogBitFlipTest : public DamagedLog, public testing::WithParamInterface<std::tuple<SampleEnd, int>> {
 protected:
  void SetUp() override { WriteLog(std::get<0>(GetParam())); }
};

INSTANTIATE_TEST_SUITE_P(Ends, LogBitFlipTest,
                         testing::Combine(testing::Values(SampleEnd::kInOrder, SampleEnd::kKilled),
                                          testing::Range(0, 8)));

TEST_P(LogBitFlipTest, EveryByte) {
  const int bit = std::get<1>(GetParam());
  for (uint64_t byte = 0; byte < bytes_.size(); ++byte) {
    // The frame that is hit, and whether no checksum covers the byte.
    uint64_t hit_frame = 0;
    bool unguarded = false;
    bool hides_one = false;  // one record looks uncommitted
    for (const auto& [offset, header] : frames_) {
      const uint64_t end = offset + sizeof(FrameHeader) + header.committed_bytes;
      if (byte >= offset && byte < end) hit_frame = offset;
      if (const uint64_t at = byte - offset - offsetof(FrameHeader, committed_bytes); at < 4 && header.closed == 0) {
        const uint64_t word = header.committed_bytes ^ (1u << (8 * at + static_cast<uint64_t>(bit)));
        const uint64_t new_end = offset + sizeof(FrameHeader) + word;
        hides_one = new_end < end && new_end >= EventBefore(offset, end);
      }
      if (header.closed == 0 && byte >= offset + sizeof(FrameHeader) && byte < end) unguarded = true;
    }
    const char flipped = static_cast<char>(bytes_[byte] ^ (1 << bit));
    ASSERT_EQ(pwrite(fd_, &flipped, 1, static_cast<off_t>(byte)), 1);
    if (unguarded) {
      // The frame that is hit may yield anything. All calls of the others must be
      // found, but possibly with wrong times and ends.
      auto trace = OpenLogs(path_).value();
      std::string problem;
      std::map<std::pair<uint64_t, std::string_view>, int64_t> missing;
      for (const SampleCall& call : log_->calls()) missing[{call.thread, call.api}] += call.entry.frame != hit_frame;
      for (const SeenCall& seen : ReadCalls(trace.get(), &problem)) --missing[{seen.thread, seen.api}];
      for (const auto& [call, count] : missing) {
        ASSERT_LE(count, 0) << "bit " << bit << " of byte " << byte << " takes a call of " << call.second;
      }
    } else {
      const std::string problem =
          Examine([hit_frame](const SamplePlace& place) { return place.frame != hit_frame; }, hides_one);
      ASSERT_EQ(problem, "") << "bit " << bit << " of byte " << byte;
    }
    ASSERT_EQ(pwrite(fd_, &bytes_[byte], 1, static_cast<off_t>(byte)), 1);
  }
  RecordProperty("exact", static_cast<int>(exact_));
  RecordProperty("inexact", static_cast<int>(inexact_));
}

}  // namespace
}  // namespace torchtrace
