#include "serialize/base/proc_stat.h"

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "serialize/base/read_file.h"

namespace torchtrace {

std::optional<ProcStat> ReadProcStat(pid_t pid) {
  const absl::StatusOr<std::string> text = ReadWholeFile(absl::StrCat("/proc/", pid, "/stat"));
  if (!text.ok()) return std::nullopt;
  // proc(5): the second field is the name, in parentheses, which may contain anything; the third comes first here.
  const size_t name = text->rfind(") ");
  if (name == std::string::npos) return std::nullopt;
  const std::vector<std::string> fields = absl::StrSplit(text->substr(name + 2), ' ');
  ProcStat stat;
  if (fields.size() < 20 || !absl::SimpleAtoi(fields[1], &stat.parent) ||
      !absl::SimpleAtoi(fields[19], &stat.started)) {
    return std::nullopt;
  }
  return stat;
}

pid_t ParentOf(pid_t pid) {
  const std::optional<ProcStat> stat = ReadProcStat(pid);
  return stat.has_value() ? stat->parent : 0;
}

}  // namespace torchtrace
