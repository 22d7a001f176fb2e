// When devices ran what calls launched (`run --device-times`): CUPTI gets the number of the call that each thread is
// in, and brings that number back with each kernel, copy and memset.
//
// CUPTI fills buffers, which a thread of torchtrace's own reads. What it finds of a thread's calls is recorded by that
// thread, with its next call, and at the end by whoever ends the session.

#ifndef TORCHTRACE_DIALECTS_TORCH_DEVICE_TIMES_DEVICE_TIMES_H_
#define TORCHTRACE_DIALECTS_TORCH_DEVICE_TIMES_DEVICE_TIMES_H_

#include "absl/status/status.h"
#include "dialects/torch/device_times/cupti.h"

namespace torchtrace::torch_dialect {

// Of a session. `cupti` must stay. FailedPrecondition: another tool uses it in a way that excludes us.
absl::Status BeginDeviceTimes(const Cupti& cupti);
void EndDeviceTimes();

// CUPTI has one client at a time. Between these two calls, on any thread, it is the program's own profiler: nothing of
// ours is in what that sees. Further calls of either do nothing.
void LeaveCuptiToProgram();
void TakeCuptiBack();

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DEVICE_TIMES_DEVICE_TIMES_H_
