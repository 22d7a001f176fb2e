// Reading a log: the file, and its frames and processes.

#ifndef TORCHTRACE_SERIALIZE_LOG_LOG_READER_H_
#define TORCHTRACE_SERIALIZE_LOG_LOG_READER_H_

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/log/log_format.h"

namespace torchtrace {

class LogFile;

// Limits how many of its files have a descriptor at a time.
class LogFilePool {
 public:
  explicit LogFilePool(size_t max_open = 32) : max_open_(max_open) {}

 private:
  friend class LogFile;
  // Makes room for one more.
  void MakeRoom();

  const size_t max_open_;
  std::list<const LogFile*> open_;  // the oldest in front
};

// LogFile is a log's bytes: an open file that is read by position. It is not
// mapped: a mapped file that shrinks while it is read (a writer returns space, a
// user truncates it) kills its reader; here it is a short read.
// It holds a descriptor only while it is used, because a run may leave more logs
// than a process may have open files. Files that share a pool take turns. Several threads may read the same file.
class LogFile {
 public:
  // NotFound, PermissionDenied or FailedPrecondition (a folder, a device), with
  // the path.
  static absl::StatusOr<std::unique_ptr<LogFile>> Open(const std::string& path,
                                                       std::shared_ptr<LogFilePool> pool = nullptr);
  // For a file that can't be reopened, such as an unlinked one: owns `fd` and keeps it open. path()
  // returns `name`.
  static absl::StatusOr<std::unique_ptr<LogFile>> FromDescriptor(int fd, std::string name);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  const std::string& path() const { return path_; }
  // The size when it was first opened, or at the last Update; a running program's log grows.
  uint64_t bytes() const { return bytes_; }
  // Not while another thread uses the file.
  void Update();

  // Closes the descriptor until the next read, if the file can be reopened.
  void Rest() const;

  // Returns the number of bytes read, which is less than asked for where the
  // file ends or the disk fails.
  size_t ReadAt(uint64_t offset, void* to, size_t bytes) const;
  // The readable part of a range.
  std::string ReadAt(uint64_t offset, uint64_t bytes) const;

  // XXH3_64 of the readable part of a range.
  uint64_t HashAt(uint64_t offset, uint64_t bytes) const;

  // True when the readable part of the range is all zero.
  bool IsZeroAt(uint64_t offset, uint64_t bytes) const;

 private:
  LogFile(std::string path, bool reopens, std::shared_ptr<LogFilePool> pool, const struct stat& file);
  void Take(int fd) const;
  void Close() const;
  // The open descriptor, or -1.
  int Wake() const;

  const std::string path_;
  const bool reopens_;  // by path_
  uint64_t bytes_;
  const uint64_t device_;
  const uint64_t inode_;
  const std::shared_ptr<LogFilePool> pool_;            // null: no limit
  mutable std::mutex mutex_;                           // for Wake
  mutable int fd_ = -1;                                // -1 while it rests
  mutable std::list<const LogFile*>::iterator place_;  // in the pool, while it is open
};

// A frame whose header could be read.
struct LogFrame {
  uint64_t offset = 0;
  FrameHeader header = {};

  uint64_t payload_offset() const { return offset + sizeof(FrameHeader); }
  uint64_t payload_capacity() const { return header.capacity_bytes - sizeof(FrameHeader); }
  bool closed() const { return header.closed == kFrameClosed; }
  FrameType type() const { return static_cast<FrameType>(header.type); }
};

// The frames of one process. In a log of one process it has all of them.
struct LogProcess {
  uint32_t number = 0;
  std::vector<uint32_t> frames;  // indices into LogReader::frames(), in file order
  // The process's totals in the log's closing frame; none: unknown.
  struct Totals {
    uint64_t frames = 0;
    uint64_t calls = 0;
  };
  std::optional<Totals> totals;
};

// A part of the file that should hold frames but has none that can be read. Empty
// when frames are missing without a gap.
struct LostRegion {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::optional<uint64_t> calls;  // if the rest of a header still has the count
};

// How much of a frame's payload can be read.
struct FramePayload {
  enum Trust : uint8_t {
    kVerified,    // a checksum proves every byte
    kUnverified,  // the frame was never closed, or the file ends in it: read whole records
    kUseless,     // its checksum is wrong or lost
  };
  Trust trust = kUseless;
  uint64_t bytes = 0;
  std::optional<uint64_t> calls;  // enter records, by the header
  std::string note;               // what is wrong, one sentence; empty: nothing
};

// LogReader opens a log file, finds its frames and determines which of their bytes
// can be trusted. It reads what the file holds when it is opened, so a log may be
// read while its program runs; Update takes in what was added. It finds frames after a
// damaged header too. CallReader decodes the payloads. Several threads may use one.
class LogReader {
 public:
  // Errors name the path. NotFound and PermissionDenied; InvalidArgument: not a log, with what was expected, or a log
  // with nothing readable; Unimplemented: a newer version, with both versions.
  static absl::StatusOr<std::unique_ptr<LogReader>> Open(const std::string& path,
                                                         std::shared_ptr<LogFilePool> pool = nullptr);
  static absl::StatusOr<std::unique_ptr<LogReader>> Open(std::unique_ptr<LogFile> file);

  const LogFile& file() const { return *file_; }
  // By offset and by sequence number.
  const std::vector<LogFrame>& frames() const { return frames_; }
  // By number; at least one. Those that only the closing frame mentions have no frames.
  const std::vector<LogProcess>& processes() const { return processes_; }
  // TraceWriter wrote the log: frames name their process, and a closing frame counts them.
  bool many_processes() const { return many_processes_; }
  // What is wrong with the closing frame, one sentence; empty: nothing, or no closing frame.
  const std::string& closing_note() const { return closing_note_; }
  // In a log of many processes: frames of a process without known totals may be missing.
  bool may_lack_frames() const { return may_lack_frames_; }
  const std::vector<LostRegion>& lost_regions() const { return lost_regions_; }
  bool superblock_damaged() const { return superblock_damaged_; }
  // The file ends where no writer ends it: frames may be missing.
  bool cut() const { return cut_; }

  // Reads the headers of frames that were open, and finds frames that were added. Returns the frames, in order, that
  // are new or have changed. Not for a log of many processes, nor while another thread uses the reader.
  std::vector<uint32_t> Update();

  // Reads the payload once to verify it.
  FramePayload Verify(const LogFrame& frame) const;

  // True when an open frame, which no process is writing, has records after its commit word,
  // which is then damaged. A single record isn't lost: a dying process hadn't committed it yet.
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
  // Where FindFrames goes on.
  uint64_t next_offset_ = kPageBytes;
  uint64_t next_sequence_ = 0;
  std::vector<uint32_t> open_;  // frames that Update reads again
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
