// Files that are written: made without following links, locked by folder, whole or not there at all.

#ifndef TORCHTRACE_SERIALIZE_BASE_FILES_H_
#define TORCHTRACE_SERIALIZE_BASE_FILES_H_

#include <sys/types.h>

#include <cstdio>
#include <memory>
#include <mutex>
#include <streambuf>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace torchtrace {

// `what` and what errno says of it: NotFound, PermissionDenied or Unavailable.
absl::Status FileError(std::string_view what, int error);

// Files and folders that stand under a temporary name until they are complete. The name
// can't be known before, and nothing that has it already is taken: who can write to the
// same folder (/tmp) can't have us write to a file of his choice. Thread-safe.

// The hidden name beside `path` that it has until it is complete: `out/.run.json.8f3k...tmp`.
std::string TemporaryName(const std::string& path);

// Creates a file to write. Fails, with errno, where there is anything, also a link. The
// umask applies to `mode`.
int CreateNewFile(const std::string& path, mode_t mode);

// A file to write and read that goes with the process, in $TMPDIR, else /tmp; programs that are started have none of
// it. Null, with errno, where there can't be one.
std::FILE* OpenNamelessFile();

// The lock of a trace's folder, held by who writes logs into it: `log/.lock`, with an flock.
// The lock hangs on a mapping of the file and not on a descriptor, which the traced
// program may close; the kernel gives it up with the mapping's last copy. Forked processes
// have copies, so it is held while one of them lives; programs that they start have none.
// Nothing is ever read from the mapping.
//
// Where the file system has no locks, everybody gets one. Not thread-safe.

class FolderLock {
 public:
  static constexpr char kName[] = ".lock";

  // The lock of the folder `log`, an absolute path. AlreadyExists where somebody else holds it:
  // the message says who, to be put after the folder's name. FailedPrecondition where it is no folder.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Take(const std::string& log);
  // Lets go of this process's copy. The last one takes the file away.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  FolderLock(std::string log, void* mapping) : log_(std::move(log)), mapping_(mapping) {}

  const std::string log_;
  void* const mapping_;  // null: no lock is held
};

// What stands under a temporary name until it is complete, in this process: it goes
// when its writer gives up, and RemoveUnfinished takes all of it away when a signal ends
// the program. Nothing here installs a signal handler (cmd/cli/output.h does).
// Any thread may use it.

class Unfinished {
 public:
  enum Kind : uint8_t {
    kFile,  // or a folder, which then stays when it is not empty
    kTree,  // a folder with all that is in it
  };
  // Before the file or folder is created.
  Unfinished(std::string path, Kind kind);
  ~Unfinished();  // takes it away, unless it is complete
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  const std::string& path() const { return path_; }
  // It is complete, and has its name.
  void Complete();

  // While this is held, RemoveUnfinished waits: for the moment in which something gets its name.
  static std::unique_lock<std::recursive_mutex> Lock();

 private:
  const std::string path_;
  const Kind kind_;
  bool complete_ = false;
};

// Takes away all that is unfinished, and lets nothing be completed, created or told of
// afterwards: other threads that come to it wait for ever. The process is about to end.
void RemoveUnfinished();

// OutputFile writes one file that readers see whole or not at all: it is
// written under a temporary name beside its own, in large blocks, and gets its
// name at Commit. A file that is never committed leaves nothing behind
// (files.h). Not thread-safe; owns the file.

struct OutputFileOptions {
  // The umask applies.
  mode_t mode = 0666;
  // The name was given by the user: a link is followed, a device or a pipe is written to as it
  // is. Else what isn't a regular file is refused.
  bool follow = true;
  // A file of that name may be there, or come to be there meanwhile.
  bool replace = true;
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
  bool replace_ = true;
  int fd_;  // -1 once finished
  std::string buffer_;
  absl::Status status_;
};

// A file as a stream's buffer; the file has one of its own.
class OutputFileBuffer : public std::streambuf {
 public:
  explicit OutputFileBuffer(OutputFile* file) : file_(file) {}

 protected:
  int overflow(int c) override {
    if (c == traits_type::eof()) return 0;
    const char byte = static_cast<char>(c);
    return xsputn(&byte, 1) == 1 ? c : traits_type::eof();
  }
  std::streamsize xsputn(const char* bytes, std::streamsize size) override {
    file_->Append(std::string_view(bytes, static_cast<size_t>(size)));
    return file_->status().ok() ? size : 0;
  }

 private:
  OutputFile* const file_;
};

// One file at once.
absl::Status WriteOutputFile(const std::string& path, std::string_view content, const OutputFileOptions& options = {});

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_FILES_H_
