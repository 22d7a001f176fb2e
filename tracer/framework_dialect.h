// What a framework provides to the tracer: the hooks of its levels, and when they can be installed.

#ifndef TORCHTRACE_TRACER_FRAMEWORK_DIALECT_H_
#define TORCHTRACE_TRACER_FRAMEWORK_DIALECT_H_

struct _object;  // PyObject
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tracer/record/export.h"
#include "tracer/record/recorder.h"
#include "tracer/record/recording_options.h"

namespace torchtrace {

// One way to see a program's calls, at one level. Destroyed after it was uninstalled, unless code that still calls it
// shares it.
class TORCHTRACE_EXPORT TracingHook : public std::enable_shared_from_this<TracingHook> {
 public:
  virtual ~TracingHook() = default;

  virtual int level() const = 0;
  virtual std::string name() const = 0;

  // Both need the GIL. If Install fails, it has changed nothing.
  virtual absl::Status Install() = 0;
  // Restores what Install changed. Safe to call when it is not installed.
  virtual void Uninstall() = 0;
};

// Whether the dotted name is in the package.
inline bool IsOf(std::string_view package, std::string_view name) {
  return name.substr(0, package.size()) == package && name.size() > package.size() && name[package.size()] == '.';
}

// The tracer's view of a framework. A dialect knows the package whose import arms the levels, and creates the hooks of
// each level. It registers itself; tracer/ names no framework.
class TORCHTRACE_EXPORT FrameworkDialect {
 public:
  virtual ~FrameworkDialect() = default;

  virtual std::string name() const = 0;
  // The top-level Python package whose successful import arms the levels.
  virtual std::string package() const = 0;
  // The levels this build can trace, ascending.
  virtual std::vector<int> levels() const = 0;
  // Whether this build can trace the package's version, called before the program starts with the version from the
  // metadata in its environment. An error is a sentence for the user.
  virtual absl::Status CheckVersion(const std::string& version, const RecordingOptions& options) const {
    static_cast<void>(version);
    static_cast<void>(options);
    return absl::OkStatus();
  }

  // Hooks that need nothing from the package. Called once, with the GIL held, when levels are armed. They are installed
  // before all others.
  virtual std::vector<std::unique_ptr<TracingHook>> CreateEarlyHooks(const RecordingOptions& options) {
    static_cast<void>(options);
    return {};
  }

  // Called once, with the GIL held, right after the package was imported.
  // Hooks are installed in the order given and uninstalled in reverse.
  virtual absl::StatusOr<std::vector<std::unique_ptr<TracingHook>>> CreateHooks(Recorder* recorder,
                                                                                const RecordingOptions& options) = 0;
};

// The registry. Register before main or before a run; not thread-safe.
TORCHTRACE_EXPORT void RegisterDialect(std::unique_ptr<FrameworkDialect> dialect);
// Null if there is no dialect of that name.
TORCHTRACE_EXPORT FrameworkDialect* FindDialect(const std::string& name);
TORCHTRACE_EXPORT std::vector<std::string> RegisteredDialects();

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_FRAMEWORK_DIALECT_H_
