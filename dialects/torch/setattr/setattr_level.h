// Level 0 for torch.

#ifndef TORCHTRACE_DIALECTS_TORCH_SETATTR_SETATTR_LEVEL_H_
#define TORCHTRACE_DIALECTS_TORCH_SETATTR_SETATTR_LEVEL_H_

#include <memory>

#include "dialects/torch/versions/versions.h"
#include "tracer/framework_dialect.h"

namespace torchtrace::torch_dialect {

// SetattrHook with torch's names and descriptions. Install it after the other levels' hooks: its entries then run
// before theirs, so that a call's record at level 0 is the parent of the others.
std::unique_ptr<TracingHook> MakeSetattrHook(const TorchVersion& torch, const RecordingOptions& options);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_SETATTR_SETATTR_LEVEL_H_
