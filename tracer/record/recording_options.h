// All that a recording may be told: what `torchtrace run` takes as flags and
// torchtrace.trace() as keywords. One struct from there to the hooks; where it
// crosses a boundary (Python to the module, the executable to the runtime library)
// it is a JSON object, whose members have the same names. A new option is a member
// here with its line in recording_options.cc, and a flag and keyword that set it.

#ifndef TORCHTRACE_TRACER_RECORD_RECORDING_OPTIONS_H_
#define TORCHTRACE_TRACER_RECORD_RECORDING_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace torchtrace {

struct RecordingOptions {
  // What is traced, and what of it is recorded.
  std::string dialect = "torch";     // one of a build, or module:Class
  bool untested_torch = false;       // also a newer version than this build was tested with
  std::vector<int> levels;           // ascending; empty: those of a dialect that is written in Python
  std::vector<std::string> include;  // API globs ('*', '?'), and groups that stand for some; empty: everything
  std::vector<std::string> exclude;
  std::string groups;  // a file with more groups; empty: none
  bool include_getters = false;
  bool start_paused = false;  // nothing, until the program asks for it
  bool outputs = false;       // what calls return, too
  // Of each tensor: which one it is; the contents of those of so many bytes; of small ones of integers ranges and
  // values, of each configuration's "first" calls on a thread or of "all"; empty: of none.
  bool ids = false;
  uint64_t values = 0;
  std::string int_ranges = "first";
  std::string stacks;                  // of each configuration's "first" calls on a thread, or of "all"; empty: none
  std::string stack_format = "short";  // how they are to be written

  // What level 0 traces, as it was asked for ...
  std::string api_list;  // a file with a list of names; empty: none
  std::vector<std::string> libraries;
  bool disable_torch_api_list = false;  // all that a scan finds, and not only what is public
  bool outermost = false;               // only calls that no other call of this level caused
  // ... and what that comes to: dotted names, of any library, and the dialect's own list.
  std::vector<std::string> apis;
  bool default_apis = true;

  // What level 3 traces: the calls of "modules", those of "python" functions too, or "all": those of C too.
  std::string frames = "python";
  std::vector<std::string> frame_include;  // globs of the functions' files; empty: everything
  std::vector<std::string> frame_exclude;
  uint64_t frame_depth = 0;  // at most so many functions in one another; 0: no limit

  // The files that are left.
  std::string formats = "all";           // see RenderFormats
  std::optional<uint64_t> render_limit;  // see RenderOptions; none: the usual one
  bool merge_output = true;              // one set for all levels
  bool force = false;                    // in place of an earlier trace
  bool readable = false;                 // by others too, as the umask has it

  bool quiet = false;  // nothing is said on standard error

  bool traces_python_frames() const;
  bool traces_c_frames() const { return traces_python_frames() && frames == "all"; }
};

// A JSON object's text with every member. Bytes that are no UTF-8 are replaced.
std::string FormatRecordingOptions(const RecordingOptions& options);

// What isn't in `json` is as above. InvalidArgument names a member that is unknown or of
// another type.
absl::StatusOr<RecordingOptions> ParseRecordingOptions(std::string_view json);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_RECORDING_OPTIONS_H_
