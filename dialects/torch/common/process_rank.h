// Records this process's rank and the number of processes, when torch.distributed knows them.

#ifndef TORCHTRACE_DIALECTS_TORCH_COMMON_PROCESS_RANK_H_
#define TORCHTRACE_DIALECTS_TORCH_COMMON_PROCESS_RANK_H_

#include "absl/status/status.h"

namespace torchtrace::torch_dialect {

// Records both for the current default process group, and for each one made later. Destroying a group changes nothing.
// Call once per session, with the GIL.
absl::Status WatchProcessRank();

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_COMMON_PROCESS_RANK_H_
