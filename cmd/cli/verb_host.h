// Verbs as functions: a program that calls a verb in its own process (cmd/verbs_library.cc) gets what it prints, its
// errors and its tables, and can stop it. Nothing then goes to the process's own files, terminal or signals.

#ifndef TORCHTRACE_CMD_CLI_VERB_HOST_H_
#define TORCHTRACE_CMD_CLI_VERB_HOST_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace torchtrace {

// What Check throws when the caller has had enough. Nothing but the caller catches it.
struct VerbStopped {};

// All functions are called on the thread that called the verb.
class VerbHost {
 public:
  virtual ~VerbHost() = default;

  // Standard output.
  virtual void Write(std::string_view bytes) = 0;
  // A remark; of an error, the text.
  virtual void Say(const std::string& text) = 0;
  virtual void Fail(absl::StatusCode code, const std::string& text) = 0;
  // Called now and then while a trace is read. Throws VerbStopped.
  virtual void Check() = 0;

  // Of the verb that this thread runs; null: the process is a command.
  static VerbHost*& Current() {
    static thread_local VerbHost* current = nullptr;
    return current;
  }
};

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_CLI_VERB_HOST_H_
