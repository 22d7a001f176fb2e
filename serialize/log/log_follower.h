// Following one log while its process writes it: what was called since the last step, and which calls are open.

#ifndef TORCHTRACE_SERIALIZE_LOG_LOG_FOLLOWER_H_
#define TORCHTRACE_SERIALIZE_LOG_LOG_FOLLOWER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "serialize/base/reused_stack.h"
#include "serialize/log/call_reader.h"
#include "serialize/log/log_metadata.h"
#include "serialize/log/log_reader.h"
#include "serialize/trace/live.h"

namespace torchtrace {

// Activities by name, between two readings.
class ActivitySums {
 public:
  // Names that occur get numbers of their own, so that those of other processes take no room.
  uint32_t Number(uint32_t name);
  Activity& At(uint32_t number) { return sums_[number]; }
  // Those that aren't 0, and begins again.
  std::vector<Activity> Take();

 private:
  absl::flat_hash_map<uint32_t, uint32_t> numbers_;
  std::vector<Activity> sums_;
};

// A step reads the log's new frames, and the new records of frames that were open: its cost doesn't grow with the log.
// Memory grows with the open frames, the threads and the names. Not thread-safe.
class LogFollower {
 public:
  // `recent_bytes`: of the frames that are there, reads the open ones and about so many bytes of the last ones, which
  // is where nearly all open calls were entered, and counts no call in them. With UINT64_MAX it reads and counts all.
  // Errors are those of LogReader::Open; FailedPrecondition: a log of many processes, which nobody writes.
  static absl::StatusOr<std::unique_ptr<LogFollower>> Open(const std::string& path, std::shared_ptr<LogFilePool> pool,
                                                           CallNaming naming, uint64_t recent_bytes);

  // Reads what was added.
  void Step();
  // Whether that was anything.
  bool grew() const { return grew_; }

  const ProcessInfo& info() const { return info_; }
  // What happened since the last time. `now_ns`: of CLOCK_MONOTONIC, before the Step; if the process runs, its open
  // calls last until then.
  LiveProcess Report(Running running, int64_t now_ns);

 private:
  struct Definition {
    uint32_t api = kNoName;  // numbers of sums
    uint32_t module = kNoName;
    uint32_t offset = 0;  // of its record in the frame's payload
  };
  struct OpenCall {
    Definition definition;  // with the module that it is in
    uint64_t payload = 0;   // offset of that frame's payload
    int64_t time_ns = 0;
    uint64_t unknown = 0;  // instead of all these: number of calls whose entries were not read
  };
  struct Thread {
    uint64_t number = 0;
    std::string name;
    uint64_t calls = 0;  // entered, by the log
    uint64_t depth = 0;  // calls in `open`
    int64_t time_ns = 0;
    ReusedStack<OpenCall> open;  // outermost first
  };
  struct FollowedFrame {
    uint32_t index = 0;        // into LogReader::frames()
    uint64_t read = 0;         // bytes of the payload
    uint64_t time = 0;         // of the last record that was read
    bool broken = false;       // a record can't be read
    bool waits = false;        // since an earlier step, for the thread that continues in it
    Thread* thread = nullptr;  // to which the next record belongs
    std::vector<Definition> definitions = {};
  };

  // Calls that are only counted: what a frame's counts were at the last step.
  struct FollowedCounts {
    struct Count {
      Definition definition;
      uint64_t calls = 0;
    };
    uint32_t index = 0;  // into LogReader::frames()
    std::vector<Count> counts = {};
  };

  LogFollower(std::unique_ptr<LogReader> reader, CallNaming naming)
      : naming_(std::move(naming)), reader_(std::move(reader)) {}

  void Start(uint64_t recent_bytes);
  void TakeMetadata();
  void ReadFrames();
  bool ReadFrame(bool force, FollowedFrame* frame);
  void ReadCounts(FollowedCounts* counts);
  Definition Define(std::string_view identity, uint64_t offset);
  void CountCalls(const Definition& definition, uint64_t calls);
  bool Continues(const LogRecord::ThreadRecord& record) const;
  Thread* Begin(const LogRecord::ThreadRecord& record);
  void EndThread(const Thread* thread);
  void Charge(int64_t time_ns, Thread* thread);
  void Enter(const Definition& definition, uint64_t payload, int64_t time_ns, Thread* thread);
  static void Pop(Thread* thread);
  LiveThread Describe(const Thread& thread) const;

  const CallNaming naming_;
  const std::unique_ptr<LogReader> reader_;
  std::unique_ptr<LogClock> clock_;
  ProcessInfo info_;
  size_t known_frames_ = 0;
  std::vector<FollowedFrame> frames_;  // in file order; without those that are closed and read
  std::vector<FollowedCounts> counts_of_calls_;
  std::map<uint64_t, Thread> threads_;   // by number
  absl::flat_hash_set<uint64_t> ended_;  // threads
  Thread stray_;                         // of records that are older than what is known of their thread
  uint64_t thread_count_ = 0;
  int64_t last_ns_ = 0;  // time of the last record, or a later one at which it ran
  ActivitySums apis_;
  ActivitySums modules_;
  uint64_t calls_ = 0;  // since Report
  bool counts_ = true;  // false: the frames that were there are still to be read
  bool grew_ = false;
  bool is_over_ = false;  // nothing is added any more
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_LOG_LOG_FOLLOWER_H_
