// Tells the log which of how many processes this is, when torch.distributed knows.

#ifndef TORCHTRACE_DIALECTS_TORCH_COMMON_PROCESS_RANK_H_
#define TORCHTRACE_DIALECTS_TORCH_COMMON_PROCESS_RANK_H_

#include "absl/status/status.h"

namespace torchtrace::torch_dialect {

// Tells it of the default process group that there is, and of each that is made from now on. A group that is destroyed
// takes nothing back. Once per session; needs the GIL.
absl::Status WatchProcessRank();

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_COMMON_PROCESS_RANK_H_
