#include "serialize/log/live_logs.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "serialize/base/files.h"
#include "serialize/base/monotonic_clock.h"
#include "serialize/log/log_trace.h"

namespace torchtrace {
namespace {

// What the first reading takes of all logs together, and at most and at least of one.
constexpr uint64_t kRecentBytes = 256 << 20;
constexpr uint64_t kMostOfALog = 16 << 20;
constexpr uint64_t kLeastOfALog = 1 << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<LiveLogs>> LiveLogs::Open(const std::string& path, CallNaming naming) {
  std::unique_ptr<LiveLogs> live(new LiveLogs(path, std::move(naming)));
  if (absl::Status s = live->List(); !s.ok()) return s;
  if (!live->logs_.empty()) return live;
  if (!live->unreadable_.empty()) return absl::InvalidArgumentError(live->unreadable_.begin()->second);
  const std::string folder = (std::filesystem::path(path) / "log").string();
  // The run's processes may have called nothing yet.
  if (!FolderLock::Sharing(folder).empty()) return live;
  return absl::NotFoundError(absl::StrCat(path, " holds no trace: expected logs named ", folder, "/*.ttlog"));
}

absl::Status LiveLogs::List() {
  const absl::StatusOr<std::vector<std::string>> paths = FindLogs(path_);
  if (!paths.ok()) return paths.status();
  const uint64_t recent =
      last_ns_ != 0 ? UINT64_MAX
                    : std::clamp(kRecentBytes / std::max<size_t>(paths->size(), 1), kLeastOfALog, kMostOfALog);
  // A run that replaces another (--force) removes its logs.
  const auto is_gone = [&](const auto& log) { return !std::binary_search(paths->begin(), paths->end(), log.first); };
  std::erase_if(logs_, is_gone);
  std::erase_if(unreadable_, is_gone);
  for (const std::string& path : *paths) {
    if (logs_.contains(path)) continue;
    absl::StatusOr<std::unique_ptr<LogFollower>> follower = LogFollower::Open(path, pool_, naming_, recent);
    if (follower.ok()) {
      logs_[path].follower = *std::move(follower);
      unreadable_.erase(path);
    } else {
      // It may be in the making.
      unreadable_[path] = std::string(follower.status().message());
    }
  }
  return absl::OkStatus();
}

LiveReading LiveLogs::Read() {
  // What can't be listed now may be next time.
  if (last_ns_ != 0) List().IgnoreError();
  LiveReading reading;
  const int64_t now_ns = MonotonicNowNs();
  if (last_ns_ != 0) reading.elapsed_ns = now_ns - last_ns_;
  last_ns_ = now_ns;
  ProcessTable processes;
  for (auto& [path, log] : logs_) {
    // Before its records are read: a process that has died by now writes no more.
    const bool dead = log.running == Running::kNo;
    log.running = log.watch.Ask(log.follower->info(), log.follower->grew(), now_ns, &processes);
    if (!dead || log.running != Running::kNo || log.follower->grew()) log.follower->Step();
    reading.processes.push_back(log.follower->Report(log.running, now_ns));
  }
  std::stable_sort(reading.processes.begin(), reading.processes.end(), [](const LiveProcess& a, const LiveProcess& b) {
    const auto key = [](const LiveProcess& process) {
      const ProcessMetadata& known = process.info.known;
      return std::tuple(known.ranked.rank.value_or(std::numeric_limits<int64_t>::max()),
                        known.origin_realtime_ns.value_or(0));
    };
    return key(a) < key(b);
  });
  for (const auto& [path, what] : unreadable_) reading.unreadable.push_back(what);
  return reading;
}

}  // namespace torchtrace
