// What a verb writes, and how it ends: exit codes, messages, standard output, files, signals.

#ifndef TORCHTRACE_CMD_CLI_OUTPUT_H_
#define TORCHTRACE_CMD_CLI_OUTPUT_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cmd/cli/terminal.h"

namespace torchtrace {

// The exit codes of torchtrace's own making. `run` else exits as the program does.

enum ExitCode : int {
  kExitOk = 0,
  kExitDifferent = 1,     // diff: the traces differ; replay: a call did otherwise than recorded
  kExitBelow = 1,         // coverage: below the bar
  kExitTrouble = 2,       // of any kind, in every verb but run
  kExitNotStarted = 125,  // run: torchtrace failed before the program started
};

// What torchtrace says to its user: on standard error, after `torchtrace: `, on one line
// whatever names are in it. Standard output is for what was asked for.

// Writes in one piece, so that what several processes say doesn't mix. Nothing
// is written when standard error isn't what it was when the process started.
void Say(const std::string& text);

// Says what went wrong and returns `exit_code`.
int Fail(int exit_code, const std::string& text);
// The same of a status that is not OK: its message.
int Fail(int exit_code, const absl::Status& status);

// Standard output as verbs write to it: buffered, and with an account of how it
// failed. A reader that has gone away (`| head`) is no failure.

class StandardOutput : public std::ostream {
 public:
  enum Content : uint8_t {
    kText,         // becomes plain text (text.h)
    kColoredText,  // the same, but colours stay
    kBinary,
  };
  // Writes to `fd`, which it doesn't own.
  explicit StandardOutput(Content content = kText, int fd = 1);
  // Text, of which a terminal gets the first screen; the rest is shown by an option. Empty: all of it.
  explicit StandardOutput(const std::string& rest_option);

  // Flushes, and returns the exit code of a verb that ended with `status`: a
  // failed write outweighs it, but for a reader that has gone.
  int Finish(const absl::Status& status);

 private:
  class Buffer : public std::streambuf {
   public:
    Buffer(Content content, int fd, FirstScreen screen) : content_(content), fd_(fd), screen_(std::move(screen)) {
      setp(bytes_, bytes_ + sizeof bytes_);
    }
    int error() const { return error_; }
    // Nothing more comes.
    void Finish();

   protected:
    int overflow(int c) override;
    int sync() override;

   private:
    void Write(std::string_view bytes);

    const Content content_;
    const int fd_;
    FirstScreen screen_;
    int error_ = 0;        // errno of the first failed write
    std::string waiting_;  // the beginning of a character
    char bytes_[1 << 16];
  };

  void Begin();

  Buffer buffer_;
};

// Writes `text` and returns the exit code.
int WriteStandardOutput(const std::string& text, int failure_exit_code);

// What signals, and memory that runs out, do to verbs that only read and write files. `run` is
// not among them: there they are the program's.

// A file that may not grow and a reader that has gone away become errors of the
// write, which are told like a full disk.
void MakeWritesFail();

// Ctrl-C, SIGTERM and a terminal that goes away take away what is unfinished
// (serialize/base/files.h) before they end the process. To be called by the main
// thread before there are others and before anything unfinished is there; again after a fork.
void CleanUpOnSignals();

// For a process that becomes another program, which will call CleanUpOnSignals: they wait
// until then.
void HoldEndingSignals();

// Without memory the process takes away what is unfinished, says so and ends with kExitTrouble: what
// fails to allocate may stand in a destructor, where nothing may be thrown.
void EndWithoutMemory();

// Where a verb writes what it was asked for: a file, or standard output. A file
// appears under its name when all of it is written, replaces another one only with
// --force, and is checked before anything is read.
//
//   absl::StatusOr<std::unique_ptr<Output>> out = Output::Open(path, force);
//   if (!out.ok()) return Fail(kExitTrouble, out.status());
//   return (*out)->Finish(WriteReport(&(*out)->stream()));

struct OutputOptions {
  bool force = false;
  // Not for a terminal.
  bool binary = false;
  // As StandardOutput has it.
  std::string rest_option = {};
};

class Output {
 public:
  // Standard output when `path` is empty or `-`. A device or a pipe is written to as it is.
  static absl::StatusOr<std::unique_ptr<Output>> Open(const std::string& path, const OutputOptions& options = {});
  virtual ~Output() = default;

  virtual std::ostream& stream() = 0;
  virtual bool is_file() const = 0;

  // Hands all that was written to the system: what Finish may still fail in is the name.
  virtual absl::Status Flush() = 0;

  // Completes the output when `status` is OK, else drops a file. Returns the verb's exit
  // code, what went wrong having been said.
  virtual int Finish(const absl::Status& status) = 0;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_CLI_OUTPUT_H_
