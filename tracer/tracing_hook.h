// One way of seeing a program's calls, at one level.

#ifndef TORCHTRACE_TRACER_TRACING_HOOK_H_
#define TORCHTRACE_TRACER_TRACING_HOOK_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "tracer/record/export.h"

namespace torchtrace {

// Destroyed when it was uninstalled; whoever calls one later than that may share it.
class TORCHTRACE_EXPORT TracingHook : public std::enable_shared_from_this<TracingHook> {
 public:
  virtual ~TracingHook() = default;

  virtual int level() const = 0;
  virtual std::string name() const = 0;

  // Both need the GIL. A hook that fails to install has left nothing behind.
  virtual absl::Status Install() = 0;
  // Puts back what Install changed. Safe to call when it is not installed.
  virtual void Uninstall() = 0;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_TRACING_HOOK_H_
