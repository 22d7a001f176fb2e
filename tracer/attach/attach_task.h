// What attached programs have to know: a file in the trace's folder log/, which they read when they open the trace.
// While they record they look whether torchtrace still holds its lock (python/attacher.h): if it ends in any way, they
// end their traces.

#ifndef TORCHTRACE_TRACER_ATTACH_ATTACH_TASK_H_
#define TORCHTRACE_TRACER_ATTACH_ATTACH_TASK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace torchtrace {

class AttachTask {
 public:
  struct Content {
    std::string run;  // its id, common to all its processes
    std::vector<int> levels;
    std::vector<std::string> libraries;  // of level 0
    bool recompile = false;              // compiled functions may compile again
    int64_t duration_ns = 0;             // the most that is recorded, counted from now; 0: any time
  };

  // In the folder `log`.
  static absl::StatusOr<std::unique_ptr<AttachTask>> Create(const std::string& log, const Content& content);
  // Removes it: nothing more is recorded, and who hasn't opened the trace yet will not.
  ~AttachTask();
  AttachTask(const AttachTask&) = delete;
  AttachTask& operator=(const AttachTask&) = delete;

  const std::string& path() const { return path_; }

 private:
  AttachTask(std::string path, int file) : path_(std::move(path)), file_(file) {}

  const std::string path_;
  const int file_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_ATTACH_ATTACH_TASK_H_
