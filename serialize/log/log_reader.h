// LogReader opens a log file, finds its frames and tells which of their bytes
// can be trusted. It reads what stands in the file when it is opened: a log may
// be read while its program runs. Frames behind a damaged header are found
// again. Decoding is CallReader's work. Not thread-safe.

#ifndef TORCHTRACE_SERIALIZE_LOG_LOG_READER_H_
#define TORCHTRACE_SERIALIZE_LOG_LOG_READER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/log/log_file.h"
#include "serialize/log/log_format.h"

namespace torchtrace {

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
