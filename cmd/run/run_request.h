// From the command line of a run to the runtime library that runs it.

#ifndef TORCHTRACE_CMD_RUN_RUN_REQUEST_H_
#define TORCHTRACE_CMD_RUN_RUN_REQUEST_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tracer/launch/find_python.h"
#include "tracer/launch/follow_task.h"
#include "tracer/launch/output_folder.h"
#include "tracer/launch/run_ending.h"
#include "tracer/launch/runtime_api.h"

namespace torchtrace {

// Options that are followed by a value, as typed ("--output", "-o"). All others count as flags.
using OptionsWithValue = std::set<std::string>;

// Options with an optional value, and the words that count as the value if they follow.
using OptionsWithChoice = std::map<std::string, std::vector<std::string>>;

struct RunArguments {
  std::vector<std::string> options;
  std::vector<std::string> program;  // empty: no program was named
};

// Separates torchtrace's own options from the traced program, which is as python would get it.
//
//   run -l 1,2 train.py --lr 1     options `-l 1,2`, program `train.py --lr 1`
//   run -q -m pkg.train -l x       options `-q`, program `-m pkg.train -l x`
//   run -qc 'print(1)'             options `-q`, program `-c 'print(1)'`
//   run -o out -- train.py         the same without the `--`
//
// InvalidArgument: `-m` or `-c` without its argument, or an option of python's after `--`.
absl::StatusOr<RunArguments> SplitRunArguments(const std::vector<std::string>& args,
                                               const OptionsWithValue& options_with_value,
                                               const OptionsWithChoice& options_with_choice = {});

// What the trace is named after: the script without its folder and suffix, the
// module's last part (`pkg` for pkg.__main__), `c` for -c, `stdin` for `-`.
std::string ProgramStem(const std::vector<std::string>& program);

// The functions of the runtime library: the part of torchtrace that embeds Python, one build of it for each minor
// version of Python, with a module for each era of torch. They are in
//
//   PREFIX/runtime/py3.11/
//
// where PREFIX is torchtrace's (cmd/cli/installation.h), or, if a wheel installed them, in
// PREFIX/lib/python3.11/site-packages/torchtrace/runtime/, or in $TORCHTRACE_RUNTIME_DIR, which may be such a folder or
// hold several.
struct RuntimeLibrary {
  RuntimeCheckFunction check = nullptr;
  RuntimeRunFunction run = nullptr;
};

// "py3.11" for Python 3.11.7.
std::string RuntimeKey(const std::string& python_version);

// The keys of the installed runtimes, sorted.
std::vector<std::string> AvailableRuntimes();

// The installed runtimes' libraries by Python's minor version, "3.11", with that of this folder.
std::map<std::string, std::string> RuntimeLibraries(const std::string& folder, const PythonInfo& info);

// The folder of the runtime for this Python. NotFound says which runtimes there are, and how to build the missing one.
absl::StatusOr<std::string> FindRuntimeFolder(const FoundPython& python, const PythonInfo& info);

// Loads libpython, unless the process is a Python, and the runtime, for the rest of the process's life. All libraries
// see their symbols, since Python's extension modules rely on that.
absl::StatusOr<RuntimeLibrary> LoadRuntime(const std::string& folder, const PythonInfo& info);

// A RuntimeRequest and everything that it points to. Create it with new and never delete it: the traced program may end
// in an exit handler, after main()'s frame is gone.
class RunRequest {
 public:
  struct Content {
    std::vector<std::string> argv;  // python's arguments, including its own name
    std::string python_version;
    std::string package_version;
    std::string metadata_json;
    std::string signal_message;
    std::string late_signal_message;
    RunEnding::Options ending;
    std::optional<FollowTask> follow;  // what the program starts; `ending` isn't set
    bool of_job = false;               // a launcher has started others of the same run
  };

  explicit RunRequest(Content content);
  RunRequest(const RunRequest&) = delete;
  RunRequest& operator=(const RunRequest&) = delete;

  const RuntimeRequest* get() const { return &request_; }

  // Where the trace is written. Owned until the program has ended.
  void set_folder(std::unique_ptr<OutputFolder> folder) { folder_ = std::move(folder); }
  // Call this if the program wasn't started: removes the folder.
  void Drop();

 private:
  absl::Status WriteTask();
  void Finish();
  static int OnStarting(void* request, char* error, uint64_t error_bytes);
  static void OnEnded(const RuntimeEnd* end, void* request);
  static void OnForkEnded(void* request);

  Content content_;
  const std::string log_folder_;
  const std::string options_json_;
  std::vector<char*> argv_;
  const std::string task_path_;
  const std::string library_;
  RunEnding ending_;
  std::unique_ptr<OutputFolder> folder_;
  bool started_ = false;
  RuntimeRequest request_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_RUN_RUN_REQUEST_H_
