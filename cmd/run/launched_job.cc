#include "cmd/run/launched_job.h"

#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "serialize/base/bytes.h"
#include "serialize/base/proc_stat.h"
#include "tracer/attach/process_status.h"
#include "tracer/launch/run_metadata.h"

namespace torchtrace {
namespace {

// torchrun sets it for all that it starts. Many jobs have the same one, `none`.
constexpr char kJobVariable[] = "TORCHELASTIC_RUN_ID";

// The nearest process above this one that isn't of the job itself; 0: there is none.
pid_t AgentOf(const std::string& job) {
  for (pid_t pid = getppid(); pid > 0; pid = ParentOf(pid)) {
    if (VariableOf(pid, kJobVariable) != job) return pid;
  }
  return 0;
}

}  // namespace

std::string RunIdOfJob() {
  const char* const job = getenv(kJobVariable);
  const pid_t agent = job != nullptr ? AgentOf(job) : 0;
  if (agent == 0) return "";
  const std::optional<ProcStat> stat = ReadProcStat(agent);
  if (!stat.has_value()) return "";
  const std::string identity = absl::StrCat(HostName(), "\n", job, "\n", agent, "\n", stat->started);
  return absl::StrCat(absl::Hex(Hash64(identity.data(), identity.size()), absl::kZeroPad16));
}

}  // namespace torchtrace
