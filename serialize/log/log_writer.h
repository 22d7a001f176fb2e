// Writing a log: frames of a file, mapped into memory, and what keeps a frame that is gone from killing the program.

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

// LogWriter owns one log file and hands out its frames: space that is already
// reserved on the disk and mapped, so that writing to it can neither fail nor
// be lost when the process dies. It allocates no memory per frame. Reserve and
// Close may be called from any thread; a frame belongs to one thread at a time.
//
// It keeps no descriptor: a program may close all of them and get the number for
// a file of its own. The file is opened anew for each frame, and must still be the
// one that was created. Its first page stays mapped while the writer lives, so no other
// file can have its inode's number.
//
// After a fork the child must not use its parent's writer, and finds its frames
// unmapped: they are the parent's bytes. It forgets it (never deletes it) and
// creates its own.

// A mapped frame; plain data, empty when header is null.
struct Frame {
  FrameHeader* header = nullptr;
  uint32_t capacity_bytes = 0;  // what the header says may be gone with the file
  char* payload() const { return reinterpret_cast<char*>(header + 1); }
  uint32_t payload_bytes() const { return capacity_bytes - static_cast<uint32_t>(sizeof(FrameHeader)); }
};

class LogWriter {
 public:
  // Creates `path`, which must not exist, with its superblock. The umask applies to `mode`.
  static absl::StatusOr<std::unique_ptr<LogWriter>> Create(const std::string& path, mode_t mode = 0600);
  // Lets go of the file; frames that are still mapped stay valid.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // A frame whose payload holds at least `payload_bytes`. ResourceExhausted
  // when the disk is full; the file is then as it was before. Unavailable when the file is
  // not there any more, or out of reach.
  absl::StatusOr<Frame> Reserve(FrameType type, uint32_t payload_bytes);

  // Marks the frame as closed, with its hash and `calls`, the enter records in
  // it. Only stores to the frame: a signal handler may call it.
  static void Seal(Frame frame, uint64_t calls);
  // Seals the frame and unmaps it.
  static void Close(Frame frame, uint64_t calls);

  // Writes one closed metadata frame that holds `json`.
  absl::Status AppendMetadata(std::string_view json);

  const std::string& path() const { return path_; }

 private:
  LogWriter(std::string path, const struct stat& file) : path_(std::move(path)), file_(file) {}
  // The log's file, or an error where `path` is another one by now.
  absl::StatusOr<int> Open() const;

  const std::string path_;
  const struct stat file_;  // as it was created
  void* first_page_ = nullptr;
  std::mutex mutex_;  // guards the two below
  uint64_t end_offset_ = kPageBytes;
  uint64_t frames_ = 0;
};

// Which addresses are frames of logs. A log that is cut under a running program, or whose
// disk is gone, makes a store to one of its frames a SIGBUS: whoever handles that asks
// here. Lock-free; all of it may be called from a signal handler, on any thread.

// `begin` is a page's. Where there is no memory to remember it, it is forgotten.
void AddMappedFrame(const void* begin, uint64_t bytes);
void RemoveMappedFrame(const void* begin, uint64_t bytes);
// In a forked child, where no frame is mapped.
void ForgetMappedFrames();

// When `address` is in a frame, its file gives way to zeros: the access that failed works
// when it is done again. False: it is not ours.
bool MapZerosOverFrame(const void* address);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_LOG_LOG_WRITER_H_
