#include "serialize/log_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "serialize/hash.h"

namespace torchtrace {
namespace {

absl::Status Errno(const char* what, const std::string& path, int error) {
  std::string text = absl::StrCat(what, " ", path, ": ", static_cast<const char*>(std::strerror(error)));
  return error == ENOSPC || error == EDQUOT || error == EFBIG ? absl::ResourceExhaustedError(text)
                                                              : absl::UnavailableError(text);
}

// Reserves blocks, not only length: a hole would be SIGBUS on a full disk.
int ReserveBlocks(int fd, uint64_t offset, uint64_t bytes) {
  // Asking for more than the process may have would be SIGXFSZ.
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && offset + bytes > limit.rlim_cur) return EFBIG;
  int error;
  do {
    error = posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (error == EINTR);
  return error;
}

// Out of the way of the traced program: its own descriptors keep the numbers
// that they have untraced. -1 stays -1.
int MoveUp(int fd) {
  if (fd < 0) return fd;
  for (const int first : {900, 200}) {
    const int moved = fcntl(fd, F_DUPFD_CLOEXEC, first);
    if (moved < 0) continue;
    close(fd);
    return moved;
  }
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LogWriter>> LogWriter::Create(const std::string& path, mode_t mode) {
  const int fd = MoveUp(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (fd < 0) return Errno("cannot create", path, errno);
  std::unique_ptr<LogWriter> writer(new LogWriter(path, fd));
  if (const int error = ReserveBlocks(fd, 0, kPageBytes)) {
    unlink(path.c_str());
    return Errno("cannot reserve space for", path, error);
  }
  Superblock block = {};
  std::memcpy(block.magic, kLogMagic, sizeof block.magic);
  block.version = kOneProcessVersion;
  block.page_bytes = kPageBytes;
  block.hash = Hash64(&block, offsetof(Superblock, hash));
  if (pwrite(fd, &block, sizeof block, 0) != static_cast<ssize_t>(sizeof block)) {
    const int error = errno;
    unlink(path.c_str());
    return Errno("cannot write", path, error);
  }
  return writer;
}

LogWriter::~LogWriter() { close(fd_); }

absl::StatusOr<Frame> LogWriter::Reserve(FrameType type, uint32_t payload_bytes) {
  const uint64_t wanted = uint64_t{payload_bytes} + sizeof(FrameHeader);
  const uint64_t capacity = (wanted + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (capacity > UINT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("a frame of ", payload_bytes, " bytes is too large"));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (const int error = ReserveBlocks(fd_, end_offset_, capacity)) {
    // Best effort: readers ignore a tail that is no frame.
    if (ftruncate(fd_, static_cast<off_t>(end_offset_)) != 0) {
    }
    return Errno("cannot reserve space in", path_, error);
  }
  void* const mapped =
      mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, static_cast<off_t>(end_offset_));
  if (mapped == MAP_FAILED) return Errno("cannot map", path_, errno);
  madvise(mapped, capacity, MADV_DONTFORK);  // a child must never write to it
  Frame frame{static_cast<FrameHeader*>(mapped)};
  frame.header->magic = kFrameMagic;
  frame.header->type = static_cast<uint16_t>(type);
  frame.header->capacity_bytes = static_cast<uint32_t>(capacity);
  frame.header->sequence = frames_;
  frame.header->open_hash = Hash64(frame.header, kOpenHashedBytes);
  end_offset_ += capacity;
  ++frames_;
  return frame;
}

void LogWriter::Seal(Frame frame, uint64_t calls) {
  FrameHeader* const header = frame.header;
  header->calls = calls;
  header->payload_hash = Hash64(frame.payload(), header->committed_bytes);
  header->closed = kFrameClosed;
  header->close_hash = Hash64(reinterpret_cast<const char*>(header) + kCloseHashedOffset, kCloseHashedBytes);
}

void LogWriter::Close(Frame frame, uint64_t calls) {
  Seal(frame, calls);
  munmap(frame.header, frame.header->capacity_bytes);
}

absl::Status LogWriter::AppendMetadata(std::string_view json) {
  absl::StatusOr<Frame> frame = Reserve(FrameType::kMetadata, static_cast<uint32_t>(json.size()));
  if (!frame.ok()) return frame.status();
  std::memcpy(frame->payload(), json.data(), json.size());
  frame->header->committed_bytes = static_cast<uint32_t>(json.size());
  Close(*frame, 0);
  return absl::OkStatus();
}

}  // namespace torchtrace
