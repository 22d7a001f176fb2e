// The interface between the executable and the runtime library that it loads at run time: plain data and two functions,
// so that no C++ type crosses it. The runtime embeds one version of Python and contains the dialects.
//
// The caller owns everything in a request and must never free it: an exit handler may report the end of a run. One
// thread.

#ifndef TORCHTRACE_TRACER_LAUNCH_RUNTIME_API_H_
#define TORCHTRACE_TRACER_LAUNCH_RUNTIME_API_H_

#include <cstdint>

namespace torchtrace {

// Increase it with every change of this file: a runtime built for another Python may be older than the executable.
inline constexpr uint32_t kRuntimeApiVersion = 10;

inline constexpr char kRuntimeLibraryName[] = "libtorchtrace_runtime.so";

// How a traced program ended, or that it is about to.
struct RuntimeEnd {
  // 1: the interpreter is about to be finalised, which may hang or abort because other threads are alive. The end
  // itself is reported later, if possible.
  int provisional;
  int exit_code;
  int signal;  // 0: it exited
};

struct RuntimeRequest {
  uint32_t api_version;
  // 1: a Python that a traced program started (kRuntimeFollowName).
  uint32_t followed;

  // The command line that `python` would have received, argv[0] included.
  int argc;
  char** argv;

  // The version of the chosen Python, "3.11.7", and of the dialect's package there; empty: it isn't installed.
  const char* python_version;
  const char* package_version;

  // RecordingOptions as JSON: `include` and `exclude` contain only globs, and `apis` is set.
  const char* options_json;

  // See RecorderOptions.
  const char* log_folder;
  const char* metadata_json;

  // With which what the program starts is followed (tracer/follow/follow.h): the task's path, and the library. Null: it
  // isn't.
  const char* follow_task;
  const char* follow_library;

  // One line for standard error when the program dies of a signal, newline included; null: print nothing.
  const char* signal_message;
  // The same for a death after `ended` was called provisionally.
  const char* late_signal_message;

  // Called right before the program starts. Returns 0, or writes a sentence to `error` and returns 1: then the program
  // isn't started. May be null.
  int (*starting)(void* context, char* error, uint64_t error_bytes);
  // Called in the traced process when the program has ended and the log is closed, once, and perhaps once before that
  // with `provisional` set. `starting` was not called before it if Python ended without running a program
  // (`python --version`). Never called in a forked child. May be null.
  void (*ended)(const RuntimeEnd* end, void* context);
  // Called in each process forked from the traced one, when it ends and its log is closed. May be null.
  void (*fork_ended)(void* context);
  void* context;
};

// Checks what can be checked before the program starts. Returns 0, or writes a sentence for the user to `error` and
// returns 1.
using RuntimeCheckFunction = int (*)(const RuntimeRequest* request, char* error, uint64_t error_bytes);
inline constexpr char kRuntimeCheckName[] = "torchtrace_runtime_check";

// Runs the program and returns its exit code, or doesn't return, depending on the program. -1: the program was never
// started, see `error`.
using RuntimeRunFunction = int (*)(const RuntimeRequest* request, char* error, uint64_t error_bytes);
inline constexpr char kRuntimeRunName[] = "torchtrace_runtime_run";

// Runs a Python that was started in a traced program (tracer/launch/follow_task.h) with the arguments of its main().
// `task`: the text of the task's file. Returns as RuntimeRunFunction does.
using RuntimeFollowFunction = int (*)(const char* task, int argc, char** argv, char* error, uint64_t error_bytes);
inline constexpr char kRuntimeFollowName[] = "torchtrace_runtime_follow";

}  // namespace torchtrace

// Registers the dialects of this build, for sessions that begin without a request.
extern "C" void torchtrace_runtime_register_dialects();

#endif  // TORCHTRACE_TRACER_LAUNCH_RUNTIME_API_H_
