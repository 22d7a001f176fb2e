// Where a verb writes what it was asked for: a file, or standard output. A file
// appears under its name when all of it is written, replaces another one only with
// --force, and is checked before anything is read.
//
//   absl::StatusOr<std::unique_ptr<Output>> out = Output::Open(path, force);
//   if (!out.ok()) return Fail(kExitTrouble, out.status());
//   return (*out)->Finish(WriteReport(&(*out)->stream()));

#ifndef TORCHTRACE_CMD_CLI_OUTPUT_H_
#define TORCHTRACE_CMD_CLI_OUTPUT_H_

#include <memory>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace torchtrace {

struct OutputOptions {
  bool force = false;
  // Not for a terminal.
  bool binary = false;
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
