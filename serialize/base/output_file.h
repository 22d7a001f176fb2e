// OutputFile writes one file that readers see whole or not at all: it is
// written under a temporary name beside its own, in large blocks, and gets its
// name at Commit. A file that is never committed leaves nothing behind
// (unfinished.h). Not thread-safe; owns the file.

#ifndef TORCHTRACE_SERIALIZE_BASE_OUTPUT_FILE_H_
#define TORCHTRACE_SERIALIZE_BASE_OUTPUT_FILE_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/base/unfinished.h"

namespace torchtrace {

struct OutputFileOptions {
  // The umask applies.
  mode_t mode = 0666;
  // The name was given by the user: a link is followed, a device or a pipe is written to as it
  // is. Else what isn't a regular file is refused.
  bool follow = true;
};

class OutputFile {
 public:
  // Errors, here and below, name the path and the cause.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path,
                                                            const OutputFileOptions& options = {});
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // After an error nothing more is written, and Finish returns it.
  void Append(std::string_view text) {
    if (buffer_.size() + text.size() > kBufferBytes) Flush();
    buffer_.append(text);
  }

  // Hands everything to the system; nothing may be appended after it.
  absl::Status Finish();
  // Finishes when that is still to be done, and gives the file its name, in
  // place of any file that had it.
  absl::Status Commit();

  const std::string& path() const { return path_; }
  // The first error so far.
  const absl::Status& status() const { return status_; }

 private:
  static constexpr size_t kBufferBytes = 512 * 1024;

  OutputFile(std::string path, std::string target, std::unique_ptr<Unfinished> temporary, int fd);
  void Flush();

  const std::string path_;                       // as it was named
  const std::string target_;                     // what it is, links followed
  const std::unique_ptr<Unfinished> temporary_;  // null: written to directly
  int fd_;                                       // -1 once finished
  std::string buffer_;
  absl::Status status_;
};

// One file at once.
absl::Status WriteOutputFile(const std::string& path, std::string_view content, const OutputFileOptions& options = {});

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_OUTPUT_FILE_H_
