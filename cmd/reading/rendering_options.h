// The options that verbs which write a new trace have in common, `run` too: its files, and
// how much is said. Spelled and told the same everywhere.

#ifndef TORCHTRACE_CMD_READING_RENDERING_OPTIONS_H_
#define TORCHTRACE_CMD_READING_RENDERING_OPTIONS_H_

#include <cstdint>
#include <string>

#include "CLI/App.hpp"
#include "serialize/render/render.h"
#include "tracer/record/recording_options.h"

namespace torchtrace {

// --formats, --render-limit, --merge-output, --readable and --quiet.
struct RenderingOptions {
  std::string formats = "all";
  uint64_t render_limit = kDefaultRenderLimit;
  bool merge_output = true;
  bool readable = false;
  bool quiet = false;

  // It must outlive the parsing.
  void AddTo(CLI::App* app);
  // Once the options were parsed.
  void Apply(RenderOptions* options) const;
};

// The same without --quiet, of `run`; with TORCHTRACE_FORMATS and so on, under a heading of the help.
void AddRenderingOptions(CLI::App* app, RecordingOptions* options, const std::string& group);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_READING_RENDERING_OPTIONS_H_
