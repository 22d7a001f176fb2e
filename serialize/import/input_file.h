// Files that are read: plain, compressed, pipes.

#ifndef TORCHTRACE_SERIALIZE_IMPORT_INPUT_FILE_H_
#define TORCHTRACE_SERIALIZE_IMPORT_INPUT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <istream>
#include <memory>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/log/log_reader.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// The bytes that a gzip file was packed from, by position. Going on costs unpacking; going
// back starts again at the beginning, as readers do for another reading. Nothing is kept but
// a block, however much the file unpacks to. Not thread-safe; the LogFile must outlive it.

class GzipFile {
 public:
  // By its first bytes.
  static bool IsGzip(const LogFile& file);

  explicit GzipFile(const LogFile* file);
  ~GzipFile();

  // Fewer bytes than asked for where the file ends, or can't be unpacked further.
  size_t ReadAt(uint64_t offset, void* to, size_t bytes);

  // DataLoss, naming the file, once a reading has come to a place where it is cut or damaged.
  const absl::Status& status() const { return status_; }
  // Of the packed file, how much was read.
  uint64_t packed_offset() const { return packed_offset_; }

 private:
  struct Stream;

  void Rewind();
  bool Refill();
  // The next bytes; fewer only at the end.
  size_t Read(void* to, size_t bytes);
  void Fail(const char* what);

  const LogFile* const file_;
  const std::unique_ptr<Stream> stream_;
  uint64_t packed_offset_ = 0;
  uint64_t offset_ = 0;  // of what Read gives next
  bool at_end_ = false;
  absl::Status status_;
};

// InputFile is a file of any format, as importers read it: by position, as often
// as they like; unpacked, if it is a gzip file. What can be read only once (standard input, a pipe) is copied to
// an unlinked temporary file first. Files with a name rest without a descriptor
// between readings, so that thousands may be open. Not thread-safe.

class InputFile {
 public:
  // `-` is standard input. Errors name the path and the cause. `observer` may be null, and
  // outlives the file.
  static absl::StatusOr<std::unique_ptr<InputFile>> Open(const std::string& path, ReadingObserver* observer = nullptr);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // As errors and reports name it: the path, or "standard input".
  const std::string& name() const { return file_->path(); }
  // Without folders and `.gz`; empty for standard input.
  std::string_view file_name() const;
  bool is_copy() const { return is_copy_; }

  // On the disk.
  uint64_t bytes() const { return file_->bytes(); }
  // As many as a reader may want at once: fewer for a small file.
  size_t block_bytes() const;
  // Fewer bytes than asked for where the file ends, or where status() isn't OK any more.
  size_t ReadAt(uint64_t offset, void* to, size_t bytes) const;
  absl::Status status() const { return unpacked_ == nullptr ? absl::OkStatus() : unpacked_->status(); }
  // The first bytes, at most so many.
  std::string Head(size_t bytes) const;
  // Gives back the descriptor until the next reading.
  void Rest() const { file_->Rest(); }
  // The file itself, or an unpacked copy of it; this is of no use afterwards.
  absl::StatusOr<std::unique_ptr<LogFile>> TakeFile();

 private:
  InputFile(std::unique_ptr<LogFile> file, bool is_copy, ReadingObserver* observer);

  std::unique_ptr<LogFile> file_;
  const std::unique_ptr<GzipFile> unpacked_;  // null: it isn't packed
  const bool is_copy_;
  ReadingObserver* const observer_;
};

// A file's lines, one after the other, without their ends (\n or \r\n).
class LineReader {
 public:
  static constexpr size_t kMaxLineBytes = size_t{64} << 20;

  // `file` must outlive it.
  explicit LineReader(const InputFile* file) : file_(file) {}
  ~LineReader() { file_->Rest(); }

  // False at the end. DataLoss for a line beyond kMaxLineBytes. `line` is valid until the next call.
  absl::StatusOr<bool> Next(std::string_view* line);
  // Of the line that Next gave, from 1.
  uint64_t number() const { return number_; }

 private:
  const InputFile* const file_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of what is not yet given
  size_t end_ = 0;
  uint64_t offset_ = 0;  // in the file, of what comes behind the buffer
  bool at_end_ = false;
  uint64_t number_ = 0;
};

// The file as a stream, for parsers that take one. `file` must outlive it.
class InputStream : public std::istream {
 public:
  explicit InputStream(const InputFile* file) : std::istream(nullptr), buffer_(file) { rdbuf(&buffer_); }

 private:
  class Buffer : public std::streambuf {
   public:
    explicit Buffer(const InputFile* file) : file_(file) {}
    ~Buffer() override { file_->Rest(); }

   protected:
    int_type underflow() override;

   private:
    const InputFile* const file_;
    uint64_t offset_ = 0;
    std::vector<char> bytes_;
  };

  Buffer buffer_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_INPUT_FILE_H_
