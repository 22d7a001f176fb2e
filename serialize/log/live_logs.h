// Following all logs of a run, and those that appear later.

#ifndef TORCHTRACE_SERIALIZE_LOG_LIVE_LOGS_H_
#define TORCHTRACE_SERIALIZE_LOG_LIVE_LOGS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "serialize/log/log_follower.h"
#include "serialize/log/log_reader.h"
#include "serialize/trace/live.h"
#include "serialize/trace/running.h"

namespace torchtrace {

//   absl::StatusOr<std::unique_ptr<LiveLogs>> logs = LiveLogs::Open("out", naming);
//   for (;; Sleep()) Show((*logs)->Read());
class LiveLogs {
 public:
  // `path`: an output folder or a log. NotFound if there is no log and no process that may write one, InvalidArgument
  // if none of the logs can be followed.
  static absl::StatusOr<std::unique_ptr<LiveLogs>> Open(const std::string& path, CallNaming naming);

  // What the processes did since the reading before. Ranks come first, then by start.
  LiveReading Read();

 private:
  struct Log {
    std::unique_ptr<LogFollower> follower;
    ProcessWatch watch;
    Running running = Running::kUnknown;
  };

  LiveLogs(std::string path, CallNaming naming) : path_(std::move(path)), naming_(std::move(naming)) {}
  // Opens logs that are new, and drops those that are gone.
  absl::Status List();

  const std::string path_;
  const CallNaming naming_;
  const std::shared_ptr<LogFilePool> pool_ = std::make_shared<LogFilePool>();
  std::map<std::string, Log> logs_;                // by path
  std::map<std::string, std::string> unreadable_;  // what is wrong, by path
  int64_t last_ns_ = 0;                            // of the last reading; 0: there was none
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_LOG_LIVE_LOGS_H_
