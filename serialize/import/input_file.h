// Input files: plain, compressed, pipes.

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

// The unpacked bytes of a gzip file, by position. Reading on unpacks; reading an earlier
// position restarts at the beginning, which readers do only for another pass. It keeps only a
// block in memory. Not thread-safe; the LogFile must outlive it.
class GzipFile {
 public:
  // By its first bytes.
  static bool IsGzip(const LogFile& file);

  explicit GzipFile(const LogFile* file);
  ~GzipFile();

  // Returns fewer bytes where the file ends or can't be unpacked further.
  size_t ReadAt(uint64_t offset, void* to, size_t bytes);

  // DataLoss, with the file's name, once a read has reached a place where it is cut or damaged.
  const absl::Status& status() const { return status_; }
  // How much of the packed file was read.
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
  uint64_t offset_ = 0;  // of the byte that Read returns next
  bool at_end_ = false;
  absl::Status status_;
};

// InputFile is a file of any format for importers, which may read any position any number
// of times. Gzip files are unpacked. Input that can be read only once (standard input, a pipe)
// is copied to an unlinked temporary file first. Named files hold no descriptor
// between reads, so that thousands may be open. Not thread-safe.
class InputFile {
 public:
  // `-` is standard input. Errors name the path and the cause. `observer` may be null, and
  // must outlive the file.
  static absl::StatusOr<std::unique_ptr<InputFile>> Open(const std::string& path, ReadingObserver* observer = nullptr);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // For errors and reports: the path, or "standard input".
  const std::string& name() const { return file_->path(); }
  // Without folders and `.gz`; empty for standard input.
  std::string_view file_name() const;
  bool is_copy() const { return is_copy_; }

  // On the disk.
  uint64_t bytes() const { return file_->bytes(); }
  // A good read size: smaller for a small file.
  size_t block_bytes() const;
  // Returns fewer bytes where the file ends or unpacking fails, which status() reports.
  size_t ReadAt(uint64_t offset, void* to, size_t bytes) const;
  absl::Status status() const { return unpacked_ == nullptr ? absl::OkStatus() : unpacked_->status(); }
  // The first bytes, at most so many.
  std::string Head(size_t bytes) const;
  // Closes the descriptor until the next read.
  void Rest() const { file_->Rest(); }
  // The file itself, or an unpacked copy of it. Don't use this object afterwards.
  absl::StatusOr<std::unique_ptr<LogFile>> TakeFile();

 private:
  InputFile(std::unique_ptr<LogFile> file, bool is_copy, ReadingObserver* observer);

  std::unique_ptr<LogFile> file_;
  const std::unique_ptr<GzipFile> unpacked_;  // null: not a gzip file
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
  // Of the line that Next returned, from 1.
  uint64_t number() const { return number_; }

 private:
  const InputFile* const file_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of the bytes not yet returned
  size_t end_ = 0;
  uint64_t offset_ = 0;  // in the file, after the buffer
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
