// Reading a log: the file as it lies in memory, and its frames and processes.

#ifndef TORCHTRACE_SERIALIZE_LOG_LOG_READER_H_
#define TORCHTRACE_SERIALIZE_LOG_LOG_READER_H_

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/log/log_format.h"

namespace torchtrace {

// LogFile is a log's bytes: an open file that is read by position. It is not
// mapped: a mapped file that shrinks while it is read (a writer gives space
// back, a user truncates it) kills its reader, and here it is a short read.
// It owns a descriptor while it is used: a run may have left more logs than a
// process may have files open. Files that share a pool take turns. Not thread-safe.

class LogFile;

// Of its files only so many have a descriptor at a time.
class LogFilePool {
 public:
  explicit LogFilePool(size_t max_open = 32) : max_open_(max_open) {}

 private:
  friend class LogFile;
  // For one more.
  void MakeRoom();

  const size_t max_open_;
  std::list<const LogFile*> open_;  // the one that was opened first is in front
};

class LogFile {
 public:
  // NotFound, PermissionDenied or FailedPrecondition (a folder, a device), with
  // the path.
  static absl::StatusOr<std::unique_ptr<LogFile>> Open(const std::string& path,
                                                       std::shared_ptr<LogFilePool> pool = nullptr);
  // A file that can't be opened again, such as an unlinked one: it keeps `fd`, which it owns, to the
  // end. `name` stands for its path.
  static absl::StatusOr<std::unique_ptr<LogFile>> FromDescriptor(int fd, std::string name);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  const std::string& path() const { return path_; }
  // When it was first opened; a running program's log grows.
  uint64_t bytes() const { return bytes_; }

  // Closes the descriptor until the next read, if there is a path to open it by.
  void Rest() const;

  // Returns the number of bytes read, which is less than asked for where the
  // file ends or the disk fails.
  size_t ReadAt(uint64_t offset, void* to, size_t bytes) const;

  // XXH3_64 of a range, or of as much of it as can be read.
  uint64_t HashAt(uint64_t offset, uint64_t bytes) const;

  // True when no byte of the range is other than zero.
  bool IsZeroAt(uint64_t offset, uint64_t bytes) const;

 private:
  LogFile(std::string path, bool reopens, std::shared_ptr<LogFilePool> pool, const struct stat& file);
  void Take(int fd) const;
  void Close() const;
  bool Wake() const;

  const std::string path_;
  const bool reopens_;  // path_ opens it
  const uint64_t bytes_;
  const uint64_t device_;
  const uint64_t inode_;
  const std::shared_ptr<LogFilePool> pool_;            // null: no bound
  mutable int fd_ = -1;                                // while it rests
  mutable std::list<const LogFile*>::iterator place_;  // in the pool, while it doesn't
};

// LogReader opens a log file, finds its frames and tells which of their bytes
// can be trusted. It reads what stands in the file when it is opened: a log may
// be read while its program runs. Frames behind a damaged header are found
// again. Decoding is CallReader's work. Not thread-safe.

// A frame whose header could be read.
struct LogFrame {
  uint64_t offset = 0;
  FrameHeader header = {};

  uint64_t payload_offset() const { return offset + sizeof(FrameHeader); }
  uint64_t payload_capacity() const { return header.capacity_bytes - sizeof(FrameHeader); }
  FrameType type() const { return static_cast<FrameType>(header.type); }
};

// The frames of one process. In a log of one process it has all of them.
struct LogProcess {
  uint32_t number = 0;
  std::vector<uint32_t> frames;  // indices into LogReader::frames(), in file order
  // What the log's closing frame says that the process has; without one it isn't known.
  struct Totals {
    uint64_t frames = 0;
    uint64_t calls = 0;
  };
  std::optional<Totals> totals;
};

// A part of the file where there should be frames and none can be read. Empty
// when frames are missing and left no gap.
struct LostRegion {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::optional<uint64_t> calls;  // known when what is left of one header tells
};

// What may be read of a frame's payload.
struct FramePayload {
  enum Trust : uint8_t {
    kVerified,    // a checksum proves every byte
    kUnverified,  // the frame was never closed, or the file ends in it: read whole records
    kUseless,     // a checksum disproves it, or none is left to prove it
  };
  Trust trust = kUseless;
  uint64_t bytes = 0;
  std::optional<uint64_t> calls;  // enter records that the header counts
  std::string note;               // what is wrong, one sentence; empty: nothing
};

class LogReader {
 public:
  // Errors name the path. NotFound and PermissionDenied; InvalidArgument: not a
  // log, saying what was expected, or a log of which nothing can be read; Unimplemented: a newer version, naming both.
  static absl::StatusOr<std::unique_ptr<LogReader>> Open(const std::string& path,
                                                         std::shared_ptr<LogFilePool> pool = nullptr);
  static absl::StatusOr<std::unique_ptr<LogReader>> Open(std::unique_ptr<LogFile> file);

  const LogFile& file() const { return *file_; }
  // By offset and by sequence number.
  const std::vector<LogFrame>& frames() const { return frames_; }
  // By number; at least one. Those of which only the closing frame tells have no frames.
  const std::vector<LogProcess>& processes() const { return processes_; }
  // A log that TraceWriter made: frames name their process, and a closing frame counts them.
  bool many_processes() const { return many_processes_; }
  // What is wrong with the closing frame, one sentence; empty: nothing, or there is none.
  const std::string& closing_note() const { return closing_note_; }
  // Of many processes: some frames may be missing, of a process whose totals aren't known.
  bool may_lack_frames() const { return may_lack_frames_; }
  const std::vector<LostRegion>& lost_regions() const { return lost_regions_; }
  bool superblock_damaged() const { return superblock_damaged_; }
  // The file ends where it can't have ended by itself: frames may be missing.
  bool cut() const { return cut_; }

  // Reads the payload once to verify it.
  FramePayload Verify(const LogFrame& frame) const;

  // True when the commit word of an open frame that nobody is writing is damaged: it hides
  // records. One record behind it is none that was lost: a dying process hadn't committed it yet.
  bool HasLostRecords(const LogFrame& frame) const;

 private:
  explicit LogReader(std::unique_ptr<LogFile> file) : file_(std::move(file)) {}

  absl::Status ReadSuperblock(uint32_t* version);
  absl::Status CheckReadable() const;
  void FindFrames(uint64_t search_end);
  bool ReadHeader(uint64_t offset, LogFrame* frame) const;
  uint64_t FindHeader(uint64_t offset, uint64_t search_end, uint64_t sequence) const;
  void GroupFrames(uint32_t version);
  void ReadClosingFrame();
  FramePayload VerifyDoubtful(const LogFrame& frame, uint64_t available) const;

  const std::unique_ptr<LogFile> file_;
  std::vector<LogFrame> frames_;
  std::vector<LostRegion> lost_regions_;
  std::vector<LogProcess> processes_;
  bool many_processes_ = false;
  std::string closing_note_;
  bool may_lack_frames_ = false;
  bool superblock_damaged_ = false;
  bool cut_ = false;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_LOG_LOG_READER_H_
