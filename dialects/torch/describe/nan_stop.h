// --stop-on-nan: which call made a NaN, that is, returned or wrote one though its arguments have none.

#ifndef TORCHTRACE_DIALECTS_TORCH_DESCRIBE_NAN_STOP_H_
#define TORCHTRACE_DIALECTS_TORCH_DESCRIBE_NAN_STOP_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tracer/record/thread_recorder.h"

namespace torchtrace::torch_dialect {

class DeviceRead;

inline std::atomic<bool> g_stops_on_nan{false};
// The path of the module whose call is the thread's innermost one, or an empty text. Null: level 3 isn't recorded.
inline std::atomic<std::string (*)()> g_module_under_way{nullptr};

// What some tensors have. Of those whose numbers come later (device_notes.h), who will tell.
struct SeenNans {
  bool any = false;
  std::vector<std::shared_ptr<DeviceRead>> later = {};
};
// The thread's tensors that were described since these were reset.
struct SeenTensors {
  SeenNans taken;  // arguments
  SeenNans made;   // results
};
inline SeenTensors& SeenOnThread() {
  // glibc keeps little room for the thread-local variables of a library that is loaded late.
  thread_local const auto seen = std::make_unique<SeenTensors>();
  return *seen;
}

// A call that may have made a NaN.
struct NanCall {
  EnteredCall call;
  SeenNans taken;
  SeenNans made = {};
  std::string api = {};
  std::string module = {};
};

// What to tell the user of a call that made one.
std::string NanMessage(const NanCall& call);

// The call has ended. It is returned if it made a NaN. If numbers that decide it are to come, it is kept until then.
std::optional<NanCall> JudgeNan(NanCall call);
// The next one of the kept calls that made a NaN, of any thread, in the order in which they ended.
std::optional<NanCall> NextNan();

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DESCRIBE_NAN_STOP_H_
