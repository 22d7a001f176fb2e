// What happens when a traced program, or a torchtrace.trace() in one, has ended: renders the files for the user from
// the log, writes run.json, and prints the summary. Also called from exit handlers: nothing here throws or exits.

#ifndef TORCHTRACE_TRACER_LAUNCH_RUN_ENDING_H_
#define TORCHTRACE_TRACER_LAUNCH_RUN_ENDING_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "serialize/render/render.h"
#include "serialize/trace/trace.h"
#include "tracer/record/recording_options.h"

namespace torchtrace {

class RunEnding {
 public:
  struct Options {
    std::string folder;      // absolute: the program may have changed its own
    std::string shown_name;  // the same as the user typed it
    RecordingOptions recording;
  };

  explicit RunEnding(Options options) : options_(std::move(options)) {}

  // The program is about to end, but may hang or abort: renders the files, and marks the end as unknown in run.json.
  void RenderEarly();
  // The program has ended and the log is closed. Prints errors.
  void Finish();
  // Renders the files again, and prints nothing.
  void RenderAgain() { RenderEarly(); }
  // As Finish, but returns errors.
  absl::Status Complete();

 private:
  absl::Status TryRender(Trace* trace);
  absl::Status TryRenderEarly();
  absl::Status TryFinish();
  void Report(const absl::Status& status) const;

  const Options options_;
  std::optional<RenderReport> report_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_LAUNCH_RUN_ENDING_H_
