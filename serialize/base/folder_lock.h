// The lock of a trace's folder, held by who writes logs into it: `log/.lock`, with an flock.
// The lock hangs on a mapping of the file and not on a descriptor, which the traced
// program may close; the kernel gives it up with the mapping's last copy. Forked processes
// have copies, so it is held while one of them lives; programs that they start have none.
// Nothing is ever read from the mapping.
//
// Where the file system has no locks, everybody gets one. Not thread-safe.

#ifndef TORCHTRACE_SERIALIZE_BASE_FOLDER_LOCK_H_
#define TORCHTRACE_SERIALIZE_BASE_FOLDER_LOCK_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace torchtrace {

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

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_FOLDER_LOCK_H_
