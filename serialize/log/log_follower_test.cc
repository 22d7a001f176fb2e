#include "serialize/log/log_follower.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "serialize/base/files.h"
#include "serialize/log/call_counts.h"
#include "serialize/log/live_logs.h"
#include "serialize/model/config.h"
#include "serialize/testing/log_samples.h"

namespace torchtrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// APIs by number. Calls of level 3 are modules of the same name.
class Names {
 public:
  CallNaming naming() {
    return [this](std::string_view identity) -> CallName {
      const ConfigHead head = ReadConfigHead(identity);
      const uint32_t number = Number(std::string(head.api));
      return {number, head.level == 3 ? number : kNoName};
    };
  }
  // `f 2 calls 30 ns` of each name, by name.
  std::vector<std::string> Lines(const std::vector<Activity>& activities) const {
    std::map<std::string, Activity> sorted;
    for (const Activity& activity : activities) sorted[names_.at(activity.name)] = activity;
    std::vector<std::string> lines;
    for (const auto& [name, sum] : sorted)
      lines.push_back(absl::StrCat(name, " ", sum.calls, " calls ", sum.self_ns, " ns"));
    return lines;
  }
  const std::string& name(uint32_t number) const { return names_.at(number); }

 private:
  uint32_t Number(const std::string& name) {
    const auto [at, fresh] = numbers_.try_emplace(name, static_cast<uint32_t>(names_.size()));
    if (fresh) names_.push_back(name);
    return at->second;
  }

  std::map<std::string, uint32_t> numbers_;
  std::vector<std::string> names_;
};

constexpr uint64_t kEverything = UINT64_MAX;

class LogFollowerTest : public ::testing::Test {
 protected:
  std::unique_ptr<LogFollower> Open(uint64_t recent_bytes = kEverything) {
    absl::StatusOr<std::unique_ptr<LogFollower>> follower =
        LogFollower::Open(path_, nullptr, names_.naming(), recent_bytes);
    EXPECT_TRUE(follower.ok()) << follower.status();
    return *std::move(follower);
  }
  LiveProcess Step(LogFollower* follower) {
    follower->Step();
    return follower->Report(Running::kYes, static_cast<int64_t>(log_.now()));
  }
  // `0: f (10 ns, 1 open)` for each thread in an open call.
  static std::vector<std::string> Inside(const LiveProcess& process) {
    std::vector<std::string> lines;
    for (const LiveThread& thread : process.inside) {
      const std::string api(thread.identity.empty() ? "..." : ReadConfigHead(thread.identity).api);
      const int64_t open_ns = thread.identity.empty() ? 0 : process.until_ns - thread.entered_ns;
      lines.push_back(absl::StrCat(thread.number, ": ", api, " (", open_ns, " ns, ", thread.open_calls, " open)"));
    }
    return lines;
  }

  const std::string path_ = TestFolder() + "/a.ttlog";
  SampleLog log_{path_};
  Names names_;
};

TEST_F(LogFollowerTest, EachStepHasWhatWasAdded) {
  const auto follower = Open();
  EXPECT_THAT(Step(follower.get()).apis, IsEmpty());
  log_.Enter(0, 1, "f");
  log_.Enter(0, 2, "op");
  log_.Leave(0);
  log_.Wait(100);
  LiveProcess process = Step(follower.get());
  EXPECT_THAT(names_.Lines(process.apis), ElementsAre("f 1 calls 110 ns", "op 1 calls 10 ns"));
  EXPECT_THAT(Inside(process), ElementsAre("0: f (120 ns, 1 open)"));
  EXPECT_EQ(process.calls, 2u);
  // An open call goes on, whether the log grows or not.
  log_.Wait(1000);
  process = Step(follower.get());
  EXPECT_FALSE(follower->grew());
  EXPECT_THAT(names_.Lines(process.apis), ElementsAre("f 0 calls 1000 ns"));
  log_.Leave(0);
  log_.Call(1, 1, "g", 3);
  process = Step(follower.get());
  EXPECT_TRUE(follower->grew());
  EXPECT_THAT(names_.Lines(process.apis), ElementsAre("f 0 calls 10 ns", "g 3 calls 30 ns"));
  EXPECT_THAT(Inside(process), IsEmpty());
  EXPECT_EQ(process.info.calls, 5u);
  EXPECT_EQ(process.threads, 2u);
}

TEST_F(LogFollowerTest, ACallIsInTheInnermostModule) {
  const auto follower = Open();
  log_.Enter(0, 3, "Outer");
  log_.Enter(0, 1, "f");
  log_.Enter(0, 3, "Inner");
  log_.Enter(0, 1, "g");
  for (int i = 0; i < 4; ++i) log_.Leave(0);
  log_.Call(0, 1, "f");
  const LiveProcess process = Step(follower.get());
  EXPECT_THAT(names_.Lines(process.modules), ElementsAre("Inner 1 calls 30 ns", "Outer 1 calls 40 ns"));
}

TEST_F(LogFollowerTest, TheEndOfALogIsEnoughToBegin) {
  log_.Enter(0, 1, "outer");
  log_.Call(0, 2, "op", 200);
  log_.NewFrame(0);
  log_.Enter(0, 1, "inner");
  const auto follower = Open(0);
  LiveProcess process = Step(follower.get());
  EXPECT_THAT(process.apis, IsEmpty());
  EXPECT_EQ(process.calls, 0u);
  EXPECT_EQ(process.info.calls, 202u);
  EXPECT_THAT(Inside(process), ElementsAre("0: inner (0 ns, 2 open)"));
  // The call that was entered before the last frame has no name.
  log_.Leave(0);
  process = Step(follower.get());
  EXPECT_THAT(names_.Lines(process.apis), ElementsAre("inner 0 calls 10 ns"));
  EXPECT_THAT(Inside(process), ElementsAre("0: ... (0 ns, 1 open)"));
  log_.Leave(0);
  log_.Call(0, 1, "outer");
  process = Step(follower.get());
  EXPECT_THAT(names_.Lines(process.apis), ElementsAre("outer 1 calls 10 ns"));
  EXPECT_THAT(Inside(process), IsEmpty());
  // It has one in a longer part.
  log_.Enter(0, 1, "outer");
  log_.NewFrame(0);
  log_.Enter(0, 1, "inner");
  log_.Leave(0);
  EXPECT_THAT(Inside(Step(Open(0).get())), ElementsAre("0: ... (0 ns, 1 open)"));
  EXPECT_THAT(Inside(Step(Open(3 * kPageBytes).get())), ElementsAre(HasSubstr("0: outer (")));
}

uint64_t BytesRead() {
  std::ifstream file("/proc/self/io");
  std::string name;
  uint64_t bytes = 0;
  file >> name >> bytes;
  EXPECT_EQ(name, "rchar:");
  return bytes;
}

TEST_F(LogFollowerTest, ItsCostDoesNotGrowWithTheLog) {
  constexpr uint32_t kFrame = 1 << 20;
  for (int i = 0; i < 30; ++i) {
    log_.NewFrame(0, kFrame);
    log_.Call(0, 1, "f", 10);
  }
  const uint64_t before = BytesRead();
  const auto follower = Open(0);
  EXPECT_EQ(Step(follower.get()).info.calls, 300u);
  EXPECT_LT(BytesRead() - before, kFrame / 2);
  log_.Call(0, 1, "f");
  const uint64_t between = BytesRead();
  EXPECT_EQ(Step(follower.get()).calls, 1u);
  EXPECT_LT(BytesRead() - between, 16u << 10);
}

TEST_F(LogFollowerTest, TheEndIsSeen) {
  const auto follower = Open();
  log_.Call(0, 1, "f");
  EXPECT_FALSE(Step(follower.get()).info.closed);
  log_.Call(0, 1, "f");
  log_.CloseFrames();
  log_.End(3);
  LiveProcess process = Step(follower.get());
  EXPECT_TRUE(process.info.closed);
  EXPECT_EQ(process.info.known.exit_code, 3);
  EXPECT_EQ(process.calls, 1u);
  EXPECT_EQ(Step(follower.get()).calls, 0u);
  // Whoever comes later reads no call.
  process = Step(Open(0).get());
  EXPECT_TRUE(process.info.closed);
  EXPECT_EQ(process.info.calls, 2u);
  EXPECT_EQ(process.threads, 1u);
}

TEST_F(LogFollowerTest, NobodyRunsInADeadProcess) {
  log_.Enter(0, 1, "f");
  const auto follower = Open();
  log_.Wait(1000);
  follower->Step();
  const LiveProcess process = follower->Report(Running::kNo, static_cast<int64_t>(log_.now()));
  EXPECT_THAT(names_.Lines(process.apis), ElementsAre("f 1 calls 0 ns"));
  EXPECT_THAT(Inside(process), ElementsAre("0: f (0 ns, 1 open)"));
}

TEST_F(LogFollowerTest, AForkedProcessBeginsInsideCalls) {
  log_.BeginInside(0, 2);
  log_.Enter(0, 1, "f");
  log_.Leave(0);
  const auto follower = Open();
  EXPECT_THAT(Inside(Step(follower.get())), ElementsAre("0: ... (0 ns, 2 open)"));
  log_.Leave(0);
  log_.Leave(0);
  EXPECT_THAT(Inside(Step(follower.get())), IsEmpty());
}

// A program of several threads, at random: what SampleLog knows of it.
class RandomProgram {
 public:
  explicit RandomProgram(uint32_t seed, SampleLog* log) : random_(seed), log_(log) {}

  void Go(int steps) {
    for (int i = 0; i < steps; ++i) {
      const uint64_t thread = alive_[Pick(alive_.size())];
      switch (Pick(20)) {
        case 0:
          log_->NewFrame(thread);
          break;
        case 1:
          log_->Wait(Pick(1000));
          break;
        case 2:
          EndThread(thread);
          break;
        default:
          if (depth_[thread] > 0 && Pick(2) == 0) {
            --depth_[thread];
            log_->Leave(thread);
          } else if (depth_[thread] < 6) {
            ++depth_[thread];
            log_->Enter(thread, 1 + static_cast<int>(Pick(3)), absl::StrCat("f", Pick(9)),
                        static_cast<int64_t>(Pick(3)));
          }
      }
    }
  }

  // By API, up to now.
  std::map<std::string, uint64_t> SelfTimes() const {
    std::map<std::string, uint64_t> sums;
    std::map<uint64_t, std::vector<const SampleCall*>> open;
    std::map<uint64_t, int64_t> since;
    std::map<int64_t, const SampleCall*> events;  // entries and ends
    for (const SampleCall& call : log_->calls()) {
      events[call.entered] = &call;
      if (call.outcome != SampleCall::kOpen) events[call.ended] = &call;
    }
    const auto charge = [&](uint64_t thread, int64_t time) {
      if (!open[thread].empty()) sums[open[thread].back()->api] += static_cast<uint64_t>(time - since[thread]);
      since[thread] = time;
    };
    for (const auto& [time, call] : events) {
      charge(call->thread, time);
      if (time == call->entered) {
        open[call->thread].push_back(call);
      } else {
        open[call->thread].pop_back();
      }
    }
    for (const auto& [thread, calls] : open) charge(thread, static_cast<int64_t>(log_->now()));
    std::erase_if(sums, [](const auto& sum) { return sum.second == 0; });
    return sums;
  }

  std::vector<std::string> Inside() const {
    std::map<uint64_t, const SampleCall*> innermost;
    for (const SampleCall& call : log_->calls()) {
      if (call.outcome == SampleCall::kOpen) innermost[call.thread] = &call;
    }
    std::vector<std::string> lines;
    for (const auto& [thread, call] : innermost) {
      lines.push_back(absl::StrCat(thread, ": ", call->api, " (", static_cast<int64_t>(log_->now()) - call->entered,
                                   " ns, ", depth_.at(thread), " open)"));
    }
    return lines;
  }

 private:
  size_t Pick(size_t below) { return std::uniform_int_distribution<size_t>(0, below - 1)(random_); }

  // Another thread goes on in its frame: a new one, or one that leaves its own.
  void EndThread(uint64_t thread) {
    if (depth_[thread] > 0 || alive_.size() < 2) return;
    if (written_.insert(thread).second) log_->Call(thread, 1, "f");
    std::erase(alive_, thread);
    const uint64_t heir = Pick(2) == 0 ? alive_[Pick(alive_.size())] : next_++;
    if (std::find(alive_.begin(), alive_.end(), heir) == alive_.end()) alive_.push_back(heir);
    log_->TakeFrame(heir, thread);
    if (alive_.size() < 4) alive_.push_back(next_++);
  }

  std::mt19937 random_;
  SampleLog* const log_;
  std::vector<uint64_t> alive_ = {0, 1, 2, 3};
  uint64_t next_ = 4;
  std::map<uint64_t, int> depth_;
  std::set<uint64_t> written_;
};

TEST_F(LogFollowerTest, ThreadsThatChangeFramesAtRandom) {
  RandomProgram program(1, &log_);
  const auto follower = Open();
  std::unique_ptr<LogFollower> late;
  std::map<std::string, uint64_t> self, calls;
  for (int step = 0; step < 200; ++step) {
    program.Go(step % 60);
    const LiveProcess process = Step(follower.get());
    for (const Activity& activity : process.apis) {
      self[names_.name(activity.name)] += activity.self_ns;
      calls[names_.name(activity.name)] += activity.calls;
    }
    ASSERT_EQ(process.info.calls, log_.calls().size()) << step;
    ASSERT_THAT(Inside(process), program.Inside()) << step;
    std::erase_if(self, [](const auto& sum) { return sum.second == 0; });
    ASSERT_EQ(self, program.SelfTimes()) << step;
    // One that begins in the middle knows as many open calls, if not all of their names.
    if (step % 100 == 50) late = Open(0);
    if (late == nullptr) continue;
    const LiveProcess other = Step(late.get());
    ASSERT_EQ(other.info.calls, process.info.calls) << step;
    ASSERT_EQ(other.inside.size(), process.inside.size()) << step;
    for (size_t i = 0; i < process.inside.size(); ++i) {
      ASSERT_EQ(other.inside[i].open_calls, process.inside[i].open_calls) << step;
      const std::string& identity = other.inside[i].identity;
      ASSERT_THAT(identity, ::testing::AnyOf("", process.inside[i].identity)) << step;
    }
  }
  std::map<std::string, uint64_t> entered;
  for (const SampleCall& call : log_.calls()) ++entered[call.api];
  EXPECT_EQ(calls, entered);
  EXPECT_GT(calls.size(), 5u);
}

TEST_F(LogFollowerTest, RefusesWhatNobodyWrites) {
  const std::string file = TestFolder() + "/other.ttlog";
  WriteFile(file, "text");
  EXPECT_THAT(LogFollower::Open(file, nullptr, names_.naming(), 0).status().message(),
              HasSubstr("is not a torchtrace log"));
}

class LiveLogsTest : public ::testing::Test {
 protected:
  const std::string folder_ = TestFolder();
  Names names_;
};

TEST_F(LiveLogsTest, LogsThatAppearLaterCountFromTheirBeginning) {
  SampleLog first(folder_ + "/a.ttlog", R"({"rank": 1})");
  first.Call(0, 1, "f", 7);
  const auto logs = LiveLogs::Open(folder_, names_.naming()).value();
  LiveReading reading = logs->Read();
  EXPECT_EQ(reading.elapsed_ns, 0);
  ASSERT_EQ(reading.processes.size(), 1u);
  EXPECT_EQ(reading.processes[0].calls, 0u);
  EXPECT_EQ(reading.processes[0].info.calls, 7u);
  SampleLog second(folder_ + "/b.ttlog", R"({"rank": 0})");
  second.Call(0, 1, "g", 3);
  WriteFile(folder_ + "/c.ttlog", "");
  reading = logs->Read();
  EXPECT_GT(reading.elapsed_ns, 0);
  ASSERT_EQ(reading.processes.size(), 2u);
  EXPECT_EQ(reading.processes[0].info.known.ranked.rank, 0);
  EXPECT_EQ(reading.processes[0].calls, 3u);
  EXPECT_EQ(reading.processes[1].calls, 0u);
  EXPECT_THAT(reading.unreadable, ElementsAre(HasSubstr("c.ttlog")));
  std::filesystem::remove(folder_ + "/c.ttlog");
  const SampleLog third(folder_ + "/c.ttlog");
  reading = logs->Read();
  EXPECT_EQ(reading.processes.size(), 3u);
  EXPECT_THAT(reading.unreadable, IsEmpty());
  std::filesystem::remove(folder_ + "/a.ttlog");
  EXPECT_EQ(logs->Read().processes.size(), 2u);
}

TEST_F(LiveLogsTest, SaysWhereThereIsNone) {
  const auto open = [this](const std::string& path) {
    return std::string(LiveLogs::Open(path, names_.naming()).status().message());
  };
  EXPECT_EQ(open(folder_), absl::StrCat(folder_, " holds no trace: expected logs named ", folder_, "/log/*.ttlog"));
  EXPECT_THAT(open(folder_ + "/none"), HasSubstr("cannot read "));
  // A run whose processes have called nothing.
  std::filesystem::create_directory(folder_ + "/log");
  const auto lock = FolderLock::Share(folder_ + "/log").value();
  EXPECT_THAT(LiveLogs::Open(folder_, names_.naming()).value()->Read().processes, IsEmpty());
}

// Counts change in place.
TEST_F(LogFollowerTest, CallsThatAreOnlyCounted) {
  log_.Call(0, 1, "f", 2);
  const auto count = [](const std::string& api, CountWriter* counts) {
    std::string_view stored;
    const std::string config = SampleIdentity(3, api) + '\0';
    return counts->Add(config, static_cast<uint32_t>(config.size() - 1), 1, &stored);
  };
  {
    CountWriter counts;
    counts.Continue(log_.writer().Reserve(FrameType::kCounts, SampleLog::kSmallFrame).value());
    CallCount* const f = count("f", &counts);
    const auto follower = Open(), late = Open(0);
    LiveProcess process = Step(follower.get());
    EXPECT_EQ(process.calls, 3u);
    EXPECT_EQ(process.info.calls, 3u);
    EXPECT_EQ(Step(late.get()).calls, 0u);  // what was there
    EXPECT_EQ(Step(late.get()).info.calls, 3u);
    f->fetch_add(5);
    count("g", &counts);
    for (LogFollower* const each : {follower.get(), late.get()}) {
      process = Step(each);
      EXPECT_TRUE(each->grew());
      EXPECT_EQ(process.calls, 6u);
      EXPECT_EQ(process.info.calls, 9u);
      EXPECT_EQ(process.info.counted, 7u);
      EXPECT_THAT(names_.Lines(process.apis), ElementsAre("f 5 calls 0 ns", "g 1 calls 0 ns"));
      EXPECT_THAT(names_.Lines(process.modules), ElementsAre("f 5 calls 0 ns", "g 1 calls 0 ns"));
      EXPECT_EQ(Step(each).calls, 0u);
      EXPECT_FALSE(each->grew());
    }
    f->fetch_add(1);
  }
  // The frame is closed.
  EXPECT_EQ(Step(Open(0).get()).info.calls, 10u);
}

}  // namespace
}  // namespace torchtrace
