#include "tracer/attach/attach_task.h"

#include <errno.h>
#include <sys/file.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/base/files.h"
#include "serialize/base/monotonic_clock.h"
#include "tracer/launch/follow_task.h"

namespace torchtrace {

absl::StatusOr<std::unique_ptr<AttachTask>> AttachTask::Create(const std::string& log, const Content& content) {
  const std::string path = FollowTaskPath(log, content.run);
  const int file = CreateNewFile(path, 0600);
  if (file < 0) return FileError(absl::StrCat("cannot create ", path), errno);
  std::unique_ptr<AttachTask> task(new AttachTask(path, file));
  const nlohmann::json json = {
      {"run", content.run},
      {"recompile", content.recompile},
      {"locks", flock(file, LOCK_EX | LOCK_NB) == 0},
      {"deadline_ns", content.duration_ns == 0 ? 0 : MonotonicNowNs() + content.duration_ns},
      {"options", {{"levels", content.levels}, {"library", content.libraries}}},
  };
  const std::string text = json.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
  if (write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return FileError(absl::StrCat("cannot write ", path), errno);
  }
  return task;
}

AttachTask::~AttachTask() {
  unlink(path_.c_str());
  close(file_);
}

}  // namespace torchtrace
