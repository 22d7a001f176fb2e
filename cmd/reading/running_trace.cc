#include "cmd/reading/running_trace.h"

#include <sys/types.h>

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "serialize/trace/running.h"

namespace torchtrace {

absl::StatusOr<std::string> FindRunningTrace(const std::string& what) {
  // `"$(pgrep ...)"` that found nothing.
  if (what.empty()) return absl::InvalidArgumentError("PID|DIR is empty: there is no such process");
  pid_t pid;
  if (!absl::SimpleAtoi(what, &pid)) return what;
  const absl::StatusOr<std::vector<std::string>> folders = TraceFoldersOf(pid);
  if (!folders.ok()) return folders.status();
  if (folders->size() == 1) return folders->front();
  return absl::InvalidArgumentError(
      absl::StrCat("process ", pid, " belongs to several traces: give one of ", absl::StrJoin(*folders, ", ")));
}

}  // namespace torchtrace
