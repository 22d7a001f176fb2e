// What the executable asks of the runtime library, which it loads at run time:
// plain data and two functions, so that nothing of C++ crosses between them.
// The runtime embeds one version of Python and knows the dialects.
//
// Everything in a request belongs to the caller and must outlive the process's
// last breath: the end of a run may come from an exit handler. One thread.

#ifndef TORCHTRACE_TRACER_LAUNCH_RUNTIME_API_H_
#define TORCHTRACE_TRACER_LAUNCH_RUNTIME_API_H_

#include <cstdint>

namespace torchtrace {

// Changes with any change of this file: a runtime that was built for another
// Python may be older than the executable.
inline constexpr uint32_t kRuntimeApiVersion = 6;

inline constexpr char kRuntimeLibraryName[] = "libtorchtrace_runtime.so";

// How a traced program ended, or that it is about to.
struct RuntimeEnd {
  // 1: the interpreter is yet to be finalised, which may hang or abort because
  // other threads are alive. The end itself is told later, if it can be.
  int provisional;
  int exit_code;
  int signal;  // 0: it exited
};

struct RuntimeRequest {
  uint32_t api_version;

  // The command line that `python` would have been given, argv[0] included.
  int argc;
  char** argv;

  // The Python chosen, "3.11.7", and the version of the dialect's package there;
  // empty: it isn't installed.
  const char* python_version;
  const char* package_version;

  // RecordingOptions as JSON: `include` and `exclude` are globs alone, and `apis` is known.
  const char* options_json;

  // See RecorderOptions.
  const char* log_folder;
  const char* metadata_json;

  // One line for standard error when the program dies of a signal, newline
  // included; null: say nothing.
  const char* signal_message;
  // The same for a death after `ended` was called provisionally.
  const char* late_signal_message;

  // Called when nothing is left to do but to start the program. Returns 0, or writes a sentence
  // to `error` and returns 1: then it isn't started. May be null.
  int (*starting)(void* context, char* error, uint64_t error_bytes);
  // Called in the traced process when the program has ended and the log is
  // closed, once, and perhaps once before that with `provisional` set. Without `starting`
  // before it, where Python ended without running it (`python --version`). Never in a forked
  // child. May be null.
  void (*ended)(const RuntimeEnd* end, void* context);
  void* context;
};

// Checks what can be checked before the program starts. Returns 0, or writes a
// sentence for the user to `error` and returns 1.
using RuntimeCheckFunction = int (*)(const RuntimeRequest* request, char* error, uint64_t error_bytes);
inline constexpr char kRuntimeCheckName[] = "torchtrace_runtime_check";

// Runs the program and returns its exit code; or does not return, as the
// program will have it. -1: it was never started, see `error`.
using RuntimeRunFunction = int (*)(const RuntimeRequest* request, char* error, uint64_t error_bytes);
inline constexpr char kRuntimeRunName[] = "torchtrace_runtime_run";

}  // namespace torchtrace

// Makes the dialects of this build known, for who begins sessions without a request.
extern "C" void torchtrace_runtime_register_dialects();

#endif  // TORCHTRACE_TRACER_LAUNCH_RUNTIME_API_H_
