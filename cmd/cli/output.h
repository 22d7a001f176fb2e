// A verb's output and end: exit codes, messages, standard output, files, signals.

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

// torchtrace's own exit codes. `run` otherwise exits as the program does.
enum ExitCode : int {
  kExitOk = 0,
  kExitDifferent = 1,     // diff: the traces differ; replay: a call differs from its record
  kExitBelow = 1,         // coverage: below the bar
  kExitFound = 1,         // nan: there is one
  kExitTrouble = 2,       // any error, in every verb except run
  kExitNotStarted = 125,  // run: torchtrace failed before the program started
};

// Prints a message to the user: on standard error, after `torchtrace: `, on one line whatever names it holds. Standard
// output is for what the user asked for. Writes in one piece, so that messages of several processes don't mix. Prints
// nothing if standard error is not the file that it was when the process started.
void Say(const std::string& text);

// Prints what went wrong and returns `exit_code`.
int Fail(int exit_code, const std::string& text);
// The same with the message of an error status.
int Fail(int exit_code, const absl::Status& status);

// Standard output of verbs: buffered, and keeps the error of a failed write. A reader that has gone away (`| head`) is
// no failure.
class StandardOutput : public std::ostream {
 public:
  enum Content : uint8_t {
    kText,         // becomes plain text (text.h)
    kColoredText,  // the same, but colours stay
    kBinary,
  };
  // Writes to `fd`, which it doesn't own.
  explicit StandardOutput(Content content = kText, int fd = 1);
  // Text. A terminal gets only the first screen, which names the option that shows the rest. Empty: everything.
  explicit StandardOutput(const std::string& rest_option);

  // Flushes, and returns the exit code of a verb that ended with `status`. A failed write outweighs it, except when the
  // reader has gone.
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
    std::string waiting_;  // the beginning of an incomplete character
    char bytes_[1 << 16];
  };

  void Begin();

  Buffer buffer_;
};

// Writes `text` and returns the exit code.
int WriteStandardOutput(const std::string& text, int failure_exit_code);

// For verbs that only read and write files; in `run`, signals are the program's. A file that may not grow and a reader
// that has gone away become errors of the write, reported like a full disk.
void MakeWritesFail();

// On Ctrl-C, SIGTERM and the end of the terminal, removes unfinished files (serialize/base/files.h) before the process
// ends. To be called by the main thread, before there are other threads or unfinished files; again after a fork.
void CleanUpOnSignals();

// For a process that will exec another program, which calls CleanUpOnSignals: blocks the signals until then.
void HoldEndingSignals();

// When memory runs out, removes unfinished files, prints a message and ends the process with kExitTrouble. It doesn't
// throw, since an allocation may fail in a destructor.
void EndWithoutMemory();

struct OutputOptions {
  bool force = false;
  // Refuse to write to a terminal.
  bool binary = false;
  // See StandardOutput.
  std::string rest_option = {};
};

// The output of a verb: a file, or standard output. A file appears under its name when it is complete, replaces another
// one only with --force, and is checked before anything is read. It is compressed if its name ends in .gz.
//
//   absl::StatusOr<std::unique_ptr<Output>> out = Output::Open(path, {.force = force});
//   if (!out.ok()) return Fail(kExitTrouble, out.status());
//   return (*out)->Finish(WriteReport(&(*out)->stream()));
class Output {
 public:
  // Standard output when `path` is empty or `-`. A device or a pipe is written to directly.
  static absl::StatusOr<std::unique_ptr<Output>> Open(const std::string& path, const OutputOptions& options = {});
  virtual ~Output() = default;

  virtual std::ostream& stream() = 0;
  virtual bool is_file() const = 0;

  // Passes everything that was written to the system: after that, Finish can only fail in renaming.
  virtual absl::Status Flush() = 0;

  // Completes the output when `status` is OK, else drops a file. Prints errors and returns the verb's exit code.
  virtual int Finish(const absl::Status& status) = 0;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_CLI_OUTPUT_H_
