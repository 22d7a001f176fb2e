// A process that torchtrace has attached to: its Python is asked to open and to close a trace, and says so by a file.
//
// Up to Python 3.13 the process's main thread is stopped for about a millisecond (stopped_thread.h), and a pending call
// that runs a text of Python is added. From 3.14 on that is Python's own offer (PEP 768), and nothing is stopped. In
// both cases the text runs when the main thread next runs Python code.

#ifndef TORCHTRACE_TRACER_ATTACH_ATTACHED_PROCESS_H_
#define TORCHTRACE_TRACER_ATTACH_ATTACHED_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "tracer/attach/remote_python.h"

namespace torchtrace {

class AttachedProcess {
 public:
  enum State : uint8_t {
    kUnasked,
    kBeginning,  // it was asked to open the trace
    kTracing,
    kEnding,  // it was asked to close it
    kEnded,   // it has; or the process itself has ended
    kFailed,  // there is no trace of it
  };

  // `package`: the folder of the package torchtrace for its Python. `task`: the file that says what to trace; answers
  // are files beside it.
  AttachedProcess(pid_t pid, RemotePython python, std::string package, std::string task);
  ~AttachedProcess();
  AttachedProcess(const AttachedProcess&) = delete;
  AttachedProcess& operator=(const AttachedProcess&) = delete;

  pid_t pid() const { return pid_; }
  State state() const { return state_; }
  // Whether an answer is awaited.
  bool is_asked() const { return state_ == kBeginning || state_ == kEnding; }
  // Why it failed, or could not close the trace, and what to do.
  const std::string& error() const { return error_; }
  // What it does while its answer is awaited.
  std::string WhatItDoes() const;

  void Begin() { Ask(kBeginning); }
  void End() { Ask(kEnding); }
  // Looks for its answer, and whether it still lives. To be called often.
  void Look();

 private:
  void Ask(State state);
  void AskAgain();
  void Fail(const std::string& why);
  void TakeAnswer(const std::string& answer);
  bool Lives() const;
  std::string Text() const;
  std::string AnswerPath() const;
  std::string ScriptPath() const;
  absl::Status CheckIsSame() const;
  absl::Status RunText(const std::string& text);
  absl::Status AddPendingCall(const std::string& text);
  bool IsCallOver() const;
  absl::Status RemoteExec(const std::string& text);
  void FreeMemory();

  pid_t pid_;
  int handle_;  // keeps its number from meaning another process; negative: there is none
  RemotePython python_;
  std::string package_;
  std::string task_;
  State state_ = kUnasked;
  std::string error_;
  bool importing_ = false;  // it was asked within an import
  int64_t first_asked_ns_ = 0;
  int64_t ask_at_ns_ = 0;  // when to ask it again; 0: not
  uint64_t memory_ = 0;    // there, with the text; 0: none
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_ATTACH_ATTACHED_PROCESS_H_
