// Writing a log: frames of a file, mapped into memory, and protection of the program when a frame's file is gone.

#ifndef TORCHTRACE_SERIALIZE_LOG_LOG_WRITER_H_
#define TORCHTRACE_SERIALIZE_LOG_LOG_WRITER_H_

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/log/log_format.h"

namespace torchtrace {

// A mapped frame; plain data, empty when header is null.
struct Frame {
  FrameHeader* header = nullptr;
  uint32_t capacity_bytes = 0;  // a copy: the header may disappear with the file
  char* payload() const { return reinterpret_cast<char*>(header + 1); }
  uint32_t payload_bytes() const { return capacity_bytes - static_cast<uint32_t>(sizeof(FrameHeader)); }
};

// LogWriter owns one log file and hands out its frames: space that is already
// reserved on the disk and mapped, so writes to it can neither fail nor
// be lost when the process dies. It allocates no memory per frame. Reserve and
// Close may be called from any thread; a frame belongs to one thread at a time.
//
// It keeps no descriptor, because a program may close all descriptors and reuse the
// number for another file. It reopens the file for each frame and checks that it is still
// the one that it created. The first page stays mapped while the writer lives, so no other
// file can get the same inode number.
//
// After a fork the child must not use its parent's writer, and its frames are unmapped,
// because the bytes are the parent's. The child drops the writer (without deleting it)
// and creates its own.
class LogWriter {
 public:
  // Creates `path`, which must not exist, with its superblock. The umask applies to `mode`.
  static absl::StatusOr<std::unique_ptr<LogWriter>> Create(const std::string& path, mode_t mode = 0600);
  // Unmaps the first page; frames that are still mapped stay valid.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // A frame whose payload holds at least `payload_bytes`. ResourceExhausted
  // when the disk is full; the file is then unchanged. Unavailable when the file is
  // gone or unreachable.
  absl::StatusOr<Frame> Reserve(FrameType type, uint32_t payload_bytes);

  // Marks the frame as closed, with its hash and `calls`, the number of its enter
  // records. It only stores to the frame, so a signal handler may call it.
  static void Seal(Frame frame, uint64_t calls);
  // Seals the frame and unmaps it.
  static void Close(Frame frame, uint64_t calls);

  // Writes one closed metadata frame that holds `json`.
  absl::Status AppendMetadata(std::string_view json);

  const std::string& path() const { return path_; }
  // That the file takes.
  uint64_t bytes() const;

  // Gives the file another name. AlreadyExists if there is such a file.
  absl::Status MoveTo(const std::string& path);

 private:
  LogWriter(std::string path, const struct stat& file) : path_(std::move(path)), file_(file) {}
  // Opens the log's file. Fails if `path` is a different file by now.
  absl::StatusOr<int> Open() const;

  std::string path_;
  const struct stat file_;  // as it was created
  void* first_page_ = nullptr;
  mutable std::mutex mutex_;  // guards the two below
  uint64_t end_offset_ = kPageBytes;
  uint64_t frames_ = 0;
};

// The addresses of mapped frames, for the SIGBUS handler: a store to a frame raises SIGBUS
// when its log was truncated or its disk is gone. Lock-free; all functions may be called from
// a signal handler, on any thread.

// `begin` is page-aligned. Without memory to record the frame, it is ignored.
void AddMappedFrame(const void* begin, uint64_t bytes);
void RemoveMappedFrame(const void* begin, uint64_t bytes);
// For a forked child, in which no frame is mapped.
void ForgetMappedFrames();

// Replaces the frame that contains `address` by zero pages, so that the failed access
// succeeds when it is retried. False: `address` is in no frame.
bool MapZerosOverFrame(const void* address);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_LOG_LOG_WRITER_H_
