// The bytes that a gzip file was packed from, by position. Going on costs unpacking; going
// back starts again at the beginning, as readers do for another reading. Nothing is kept but
// a block, however much the file unpacks to. Not thread-safe; the LogFile must outlive it.

#ifndef TORCHTRACE_SERIALIZE_IMPORT_GZIP_FILE_H_
#define TORCHTRACE_SERIALIZE_IMPORT_GZIP_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "serialize/log/log_file.h"

namespace torchtrace {

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

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_GZIP_FILE_H_
