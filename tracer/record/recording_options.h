// The options of a recording, which `torchtrace run` takes as flags and torchtrace.trace() as keywords. One struct from
// there to the hooks; across a boundary (Python to the module, the executable to the runtime library) it is passed as a
// JSON object, whose members have the same names. A new option needs a member here, its line in recording_options.cc,
// and a flag and a keyword that set it.

#ifndef TORCHTRACE_TRACER_RECORD_RECORDING_OPTIONS_H_
#define TORCHTRACE_TRACER_RECORD_RECORDING_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace torchtrace {

// Of which calls something is recorded: of none, of the first ones of each configuration on a thread, or of all.
enum class WhichCalls : uint8_t { kNone, kFirst, kAll };
// "", "first", "all".
const char* WhichCallsName(WhichCalls calls);

// Of which tensors numbers are recorded: of none, of those that calls return or write, or of arguments too.
enum class WhichNumbers : uint8_t { kNone, kResults, kAll };
// "", "results", "all".
const char* WhichNumbersName(WhichNumbers numbers);

// In `libraries`: the program itself.
inline constexpr char kScriptLibrary[] = "__main__";

// Values of `step_on`.
inline constexpr char kStepOnAuto[] = "auto";
inline constexpr char kStepOnOptimizer[] = "optimizer";
inline constexpr char kStepOnForward[] = "forward";

struct RecordingOptions {
  // What is traced, and what of it is recorded.
  std::string dialect = "torch";     // one of the build's, or module:Class
  bool untested_torch = false;       // allow a newer version than this build was tested with
  std::vector<int> levels;           // ascending; empty: those of a dialect that is written in Python
  std::vector<std::string> include;  // API globs ('*', '?'), and names of groups of them; empty: everything
  std::vector<std::string> exclude;
  std::string groups;  // a file with more groups; empty: none
  bool include_getters = false;
  bool start_paused = false;                   // record nothing until the program resumes
  bool outputs = false;                        // also what calls return
  bool ids = false;                            // which tensor each is
  uint64_t values = 0;                         // contents of tensors up to this many bytes
  WhichNumbers numbers = WhichNumbers::kNone;  // with it, `outputs` and `ids` are on (ResolveImplied)
  WhichCalls int_ranges = WhichCalls::kFirst;  // ranges and values of small integer tensors
  bool memory = false;                         // allocated and freed
  bool stop_on_nan = false;                    // raise an exception at an operator that makes one
  bool device_times = false;                   // when GPUs did the work that calls launched
  WhichCalls stacks = WhichCalls::kNone;
  std::string stack_format = "short";  // how stacks are written

  // Which of a process's calls are recorded, in this order; the others are counted.
  uint64_t skip = 0;         // leave out the first ones
  uint64_t duration_ns = 0;  // none later than this after the first one; 0: no limit
  uint64_t first = 0;        // of each configuration on a thread this many; 0: no limit
  double sample = 1;         // this part of them, by chance, the same in each run
  uint64_t max_calls = 0;    // not more; 0: no limit

  // What ends a step of the program: "auto", "optimizer", "forward", or the name of an API.
  std::string step_on = kStepOnAuto;
  std::string steps;       // record only these, "10-12,20"; empty: all, and what is around them
  uint64_t max_steps = 0;  // record no more of them; 0: no limit

  uint64_t max_size = 0;  // bytes of all logs of the job, up to which calls are listed, and then counted; 0: no limit

  // What level 0 traces, as the user asked for it ...
  std::string api_list;  // a file with a list of names; empty: none
  std::vector<std::string> libraries;
  bool disable_torch_api_list = false;  // all that a scan finds, not only public names
  bool outermost = false;               // only calls that no other call of this level caused
  // ... and as it was resolved: dotted names, of any library, and the dialect's own list.
  std::vector<std::string> apis;
  bool default_apis = true;

  // What level 3 traces: calls of "modules"; "python": also of Python functions; "all": also of C functions.
  std::string frames = "python";
  std::vector<std::string> frame_include;  // globs of the functions' files; empty: everything
  std::vector<std::string> frame_exclude;
  uint64_t frame_depth = 0;  // how deep functions may nest; 0: no limit

  // The output files.
  std::string formats = "all";           // see RenderFormats
  std::optional<uint64_t> render_limit;  // see RenderOptions; none: the default
  bool merge_output = true;              // one set for all levels
  bool force = false;                    // replace an earlier trace
  bool readable = false;                 // for other users too, as the umask allows

  bool quiet = false;  // print nothing on standard error

  bool traces_python_frames() const;
  bool traces_script() const;  // level 0 of the program's own functions and classes
  bool traces_c_frames() const { return traces_python_frames() && frames == "all"; }
};

// A JSON object's text with every member. Bytes that aren't UTF-8 are replaced.
std::string FormatRecordingOptions(const RecordingOptions& options);

// Turns on what other options need.
void ResolveImplied(RecordingOptions* options);

// InvalidArgument: it is not a value of `step_on`.
absl::Status CheckStepOn(const std::string& step_on);
// InvalidArgument: it is not a list of steps' numbers.
absl::Status CheckSteps(const std::string& steps);

// InvalidArgument: options that can't be combined.
absl::Status CheckRecordingOptions(const RecordingOptions& options);

// Members missing in `json` keep their defaults. InvalidArgument names a member that is unknown or has another type.
absl::StatusOr<RecordingOptions> ParseRecordingOptions(std::string_view json);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_RECORDING_OPTIONS_H_
