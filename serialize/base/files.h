// Writing files: created without following links, locked by folder, visible only when complete.

#ifndef TORCHTRACE_SERIALIZE_BASE_FILES_H_
#define TORCHTRACE_SERIALIZE_BASE_FILES_H_

#include <sys/types.h>

#include <cstdio>
#include <memory>
#include <mutex>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace torchtrace {

// `what` and the message for errno `error`, as NotFound, PermissionDenied or Unavailable.
absl::Status FileError(std::string_view what, int error);

// Aborted when the stream failed.
inline absl::Status StreamStatus(const std::ostream& out) {
  return out.good() ? absl::OkStatus() : absl::AbortedError("cannot write the output");
}

// A hidden name beside `path`, for a file or folder until it is complete: `out/.run.json.8f3k...tmp`. Unpredictable:
// others who can write to the same folder (/tmp) can't put a link there to redirect what we write. Thread-safe.
std::string TemporaryName(const std::string& path);

// Creates a file to write. Fails, with errno, if anything exists at `path`, even a link. The
// umask applies to `mode`. Thread-safe.
int CreateNewFile(const std::string& path, mode_t mode);

// A nameless file to write and read, in $TMPDIR, else /tmp. It vanishes with the process, and started programs don't
// inherit it. Null, with errno, on failure.
std::FILE* OpenNamelessFile();

// The lock of a trace's folder, held by the process that writes logs into it: an flock of `log/.lock`. A mapping of the
// file keeps the lock, not a descriptor, which the traced program may close; the kernel releases the lock with the last
// copy of the mapping. Forked processes have copies, so the lock is held as long as one of them lives; programs that
// they start have none. Nothing is ever read from the mapping; tracer/record/control_page.h has another one.
//
// Processes that write logs into it together share the lock.
//
// If the file system has no locks, Take and Share always succeed. Not thread-safe.
class FolderLock {
 public:
  static constexpr char kName[] = ".lock";
  // In the file, behind the holder's name: orders for the processes of the run, 0 if there are none.
  static constexpr size_t kOrdersOffset = 2048;
  static constexpr size_t kOrdersBytes = 16;

  // Locks the folder `log`, an absolute path. AlreadyExists if another process holds the lock: the message says which
  // one and goes after the folder's name. FailedPrecondition if `log` is not a folder.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Take(const std::string& log);
  // The same, for others to share. AlreadyExists if a process holds it alone.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Share(const std::string& log);
  // Releases a lock, but keeps the file, and takes it again for others to share. AlreadyExists: another process has it.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Share(std::unique_ptr<FolderLock> lock);
  // Releases a lock, and takes it again alone. Null: another process holds it.
  static std::unique_ptr<FolderLock> TakeAlone(std::unique_ptr<FolderLock> lock);
  // The processes on this machine, in order, that share the lock of the folder `log`, as far as the system tells.
  static std::vector<int> Sharing(const std::string& log);
  // False: the file system has no locks.
  bool held() const { return mapping_ != nullptr; }
  // Opens the lock's file, to read and write it. -1: errno says why.
  static int OpenFile(const std::string& log);
  // Releases this process's copy of the lock. The last copy removes the file, unless it has orders, for a process of
  // the run that begins when no other is there.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  FolderLock(std::string log, void* mapping) : log_(std::move(log)), mapping_(mapping) {}
  static absl::StatusOr<std::unique_ptr<FolderLock>> Lock(const std::string& log, bool shared,
                                                          bool names_holder = true);
  void Release();

  const std::string log_;
  void* mapping_;  // null: no lock is held
};

// A file or folder of this process that has a temporary name until it is complete. The destructor removes it if its
// writer gives up; RemoveUnfinished removes all of them when a signal ends the program. Nothing here installs a signal
// handler (cmd/cli/output.h does). Thread-safe.
class Unfinished {
 public:
  enum Kind : uint8_t {
    kFile,  // or a folder, which is only removed if it is empty
    kTree,  // a folder with its contents
  };
  // Call it before the file or folder is created.
  Unfinished(std::string path, Kind kind);
  ~Unfinished();  // removes it, unless it is complete
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  const std::string& path() const { return path_; }
  // Call it when it is complete and has its final name.
  void Complete();

  // Blocks RemoveUnfinished while it is held: hold it to rename something and call Complete.
  static std::unique_lock<std::recursive_mutex> Lock();

 private:
  const std::string path_;
  const Kind kind_;
  bool complete_ = false;
};

// Removes everything unfinished, for a process that is about to end. After it, other threads that create or complete
// something block for ever.
void RemoveUnfinished();

struct OutputFileOptions {
  // The umask applies.
  mode_t mode = 0666;
  // For names that users give: follows a link, and writes into a device or pipe. Without it, anything but a regular
  // file is an error.
  bool follow = true;
  // Replaces an existing file of that name. Without it, one that exists at Commit is an error.
  bool replace = true;
};

// Writes a file that readers see whole or not at all: it has a temporary name beside its own until Commit. A file that
// is never committed is removed. Writes in large blocks. Not thread-safe; owns the file.
class OutputFile {
 public:
  // Errors, here and below, name the path and the cause.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path,
                                                            const OutputFileOptions& options = {});
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // After an error, writes nothing more; Finish returns the error.
  void Append(std::string_view text) {
    if (buffer_.size() + text.size() > kBufferBytes) Flush();
    buffer_.append(text);
  }

  // Writes everything and closes the file; append nothing after it.
  absl::Status Finish();
  // Calls Finish if it wasn't called yet, and renames the file to its name. Replaces an older file if the options
  // allow.
  absl::Status Commit();

  const std::string& path() const { return path_; }
  // The first error so far.
  const absl::Status& status() const { return status_; }

 private:
  static constexpr size_t kBufferBytes = 512 * 1024;

  OutputFile(std::string path, std::string target, std::unique_ptr<Unfinished> temporary, int fd);
  void Flush();

  const std::string path_;                       // as the caller named it
  const std::string target_;                     // with links followed
  const std::unique_ptr<Unfinished> temporary_;  // null: a device or pipe, written to directly
  bool replace_ = true;
  int fd_;  // -1 once finished
  std::string buffer_;
  absl::Status status_;
};

// A stream buffer that writes to an OutputFile, which does the buffering.
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

// Creates, writes and commits a file.
absl::Status WriteOutputFile(const std::string& path, std::string_view content, const OutputFileOptions& options = {});

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_FILES_H_
