// Orders to the processes that write a trace, by the control page that each of them reads before a call.

#ifndef TORCHTRACE_TRACER_LAUNCH_RUN_CONTROL_H_
#define TORCHTRACE_TRACER_LAUNCH_RUN_CONTROL_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tracer/record/control_page.h"

namespace torchtrace {

class RunControl {
 public:
  // Of the trace in `folder`. NotFound: no process writes it now, or none that can be controlled.
  static absl::StatusOr<RunControl> Open(const std::string& folder);
  RunControl(RunControl&& other) noexcept;
  ~RunControl();

  ControlPage::Order order() const;
  // "recording", "paused", "recording for another 3.0 s", ...
  std::string Describe() const;
  // With kWindow: how long calls are still recorded; 0: not any more.
  int64_t window_left_ns() const;

  // Each process obeys from its next call on. FailedPrecondition after kStop.
  absl::Status Give(ControlPage::Order order, int64_t window_ns = 0);

 private:
  explicit RunControl(void* mapped) : mapped_(mapped) {}
  ControlPage* page() const;

  void* mapped_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_LAUNCH_RUN_CONTROL_H_
