// What follows when a traced program has ended, or a torchtrace.trace() within one: the
// files for its user are rendered from the log, run.json is written, and the summary is
// said. Also called from exit handlers: nothing here throws or exits.

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

  // The program is about to end, in a way that may never come to its end: the
  // files are rendered, and run.json says that the end is not known.
  void RenderEarly();
  // It has ended and the log is closed. What fails is said.
  void Finish();
  // The same, and what fails is returned.
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
