#include "serialize/log/log_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/bytes.h"
#include "serialize/log/log_format.h"

namespace torchtrace {
namespace {

absl::Status Errno(const char* what, const std::string& path, int error) {
  std::string text = absl::StrCat(what, " ", path, ": ", static_cast<const char*>(std::strerror(error)));
  return error == ENOSPC || error == EDQUOT || error == EFBIG ? absl::ResourceExhaustedError(text)
                                                              : absl::UnavailableError(text);
}

// Reserves blocks, not only length: writing to a hole raises SIGBUS on a full disk.
int ReserveBlocks(int fd, uint64_t offset, uint64_t bytes) {
  // Exceeding the limit would raise SIGXFSZ.
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && offset + bytes > limit.rlim_cur) return EFBIG;
  int error;
  do {
    error = posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (error == EINTR);
  return error;
}

// Moves a descriptor out of the way of the traced program: its other threads get the same numbers
// as without tracing. -1 stays -1.
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

// Opens a file for a moment, raising the limit if the program has used up its descriptors.
int OpenForAWhile(const char* path) {
  constexpr int kFlags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const int fd = open(path, kFlags);
  rlimit limit;
  if (fd >= 0 || errno != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0) return MoveUp(fd);
  const rlimit more = {limit.rlim_cur + 1, limit.rlim_max};
  const bool raised = setrlimit(RLIMIT_NOFILE, &more) == 0;
  const int again = raised ? open(path, kFlags) : -1;
  const int error = raised ? errno : EMFILE;
  if (raised) setrlimit(RLIMIT_NOFILE, &limit);
  errno = error;
  return again;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LogWriter>> LogWriter::Create(const std::string& path, mode_t mode) {
  const int file = MoveUp(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (file < 0) return Errno("cannot create", path, errno);
  const absl::Cleanup close_file = [file] { close(file); };
  struct stat created;
  Superblock block = {};
  std::memcpy(block.magic, kLogMagic, sizeof block.magic);
  block.version = kOneProcessVersion;
  block.page_bytes = kPageBytes;
  block.hash = Hash64(&block, offsetof(Superblock, hash));
  const char* what = "cannot reserve space for";
  int error = ReserveBlocks(file, 0, kPageBytes);
  void* page = MAP_FAILED;
  if (error == 0) {
    what = "cannot write";
    const bool written =
        pwrite(file, &block, sizeof block, 0) == static_cast<ssize_t>(sizeof block) && fstat(file, &created) == 0;
    // The file is reopened later, so it must be accessible whatever the umask is.
    if (written) static_cast<void>(fchmod(file, (created.st_mode & 0777) | 0600));
    if (written) page = mmap(nullptr, kPageBytes, PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) error = errno;
  }
  if (error != 0) {
    unlink(path.c_str());
    return Errno(what, path, error);
  }
  madvise(page, kPageBytes, MADV_DONTFORK);
  std::unique_ptr<LogWriter> writer(new LogWriter(path, created));
  writer->first_page_ = page;
  return writer;
}

absl::Status LogWriter::MoveTo(const std::string& path) {
  // rename() would replace a file. Some file systems have no links.
  if (link(path_.c_str(), path.c_str()) == 0) {
    unlink(path_.c_str());
  } else if (errno == EEXIST || access(path.c_str(), F_OK) == 0) {
    return absl::AlreadyExistsError(path);
  } else if (rename(path_.c_str(), path.c_str()) != 0) {
    return Errno("cannot create", path, errno);
  }
  path_ = path;
  return absl::OkStatus();
}

uint64_t LogWriter::bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return end_offset_;
}

LogWriter::~LogWriter() { munmap(first_page_, kPageBytes); }

absl::StatusOr<int> LogWriter::Open() const {
  const int fd = OpenForAWhile(path_.c_str());
  if (fd < 0) return Errno("cannot go on with", path_, errno);
  struct stat now;
  if (fstat(fd, &now) != 0 || now.st_dev != file_.st_dev || now.st_ino != file_.st_ino) {
    close(fd);
    return absl::UnavailableError(absl::StrCat("cannot go on with ", path_, ": it is another file now"));
  }
  if (now.st_size < static_cast<off_t>(end_offset_)) {
    close(fd);
    return absl::UnavailableError(absl::StrCat("cannot go on with ", path_, ": it was cut"));
  }
  return fd;
}

absl::StatusOr<Frame> LogWriter::Reserve(FrameType type, uint32_t payload_bytes) {
  const uint64_t wanted = uint64_t{payload_bytes} + sizeof(FrameHeader);
  const uint64_t capacity = (wanted + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (capacity > UINT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("a frame of ", payload_bytes, " bytes is too large"));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  const absl::StatusOr<int> opened = Open();
  if (!opened.ok()) return opened.status();
  const int file = *opened;
  const absl::Cleanup close_file = [file] { close(file); };
  if (const int error = ReserveBlocks(file, end_offset_, capacity)) {
    // Best effort: readers ignore a tail without a frame.
    if (ftruncate(file, static_cast<off_t>(end_offset_)) != 0) {
    }
    return Errno("cannot reserve space in", path_, error);
  }
  void* const mapped =
      mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(end_offset_));
  if (mapped == MAP_FAILED) return Errno("cannot map", path_, errno);
  madvise(mapped, capacity, MADV_DONTFORK);  // a child must never write to it
  AddMappedFrame(mapped, capacity);
  Frame frame{static_cast<FrameHeader*>(mapped), static_cast<uint32_t>(capacity)};
  frame.header->magic = kFrameMagic;
  frame.header->type = static_cast<uint16_t>(type);
  frame.header->capacity_bytes = frame.capacity_bytes;
  frame.header->sequence = frames_;
  frame.header->open_hash = Hash64(frame.header, kOpenHashedBytes);
  end_offset_ += capacity;
  ++frames_;
  return frame;
}

void LogWriter::Seal(Frame frame, uint64_t calls) {
  FrameHeader* const header = frame.header;
  header->calls = calls;
  header->payload_hash = Hash64(frame.payload(), std::min(header->committed_bytes, frame.payload_bytes()));
  header->closed = kFrameClosed;
  header->close_hash = Hash64(reinterpret_cast<const char*>(header) + kCloseHashedOffset, kCloseHashedBytes);
}

void LogWriter::Close(Frame frame, uint64_t calls) {
  Seal(frame, calls);
  RemoveMappedFrame(frame.header, frame.capacity_bytes);
  munmap(frame.header, frame.capacity_bytes);
}

absl::Status LogWriter::AppendMetadata(std::string_view json) {
  absl::StatusOr<Frame> frame = Reserve(FrameType::kMetadata, static_cast<uint32_t>(json.size()));
  if (!frame.ok()) return frame.status();
  std::memcpy(frame->payload(), json.data(), json.size());
  frame->header->committed_bytes = static_cast<uint32_t>(json.size());
  Close(*frame, 0);
  return absl::OkStatus();
}

namespace {

// A frame in one word, so that a handler never sees a partial update: the number of its first
// page, then its number of pages. 0: none.
constexpr int kPagesBits = 21;  // frames are below 4 GiB

uint64_t Pack(const void* begin, uint64_t bytes) {
  return reinterpret_cast<uintptr_t>(begin) / kPageBytes << kPagesBits | bytes / kPageBytes;
}
uintptr_t BeginOf(uint64_t frame) { return (frame >> kPagesBits) * kPageBytes; }
uint64_t BytesOf(uint64_t frame) { return (frame & ((uint64_t{1} << kPagesBits) - 1)) * kPageBytes; }

// Grows to the largest number of frames mapped at one time; never freed.
struct Frames {
  std::atomic<uint64_t> frames[63] = {};
  std::atomic<Frames*> more{nullptr};
};
Frames g_frames;

// Replaces an entry `from` by `to`.
bool Exchange(uint64_t from, uint64_t to, Frames* table) {
  for (std::atomic<uint64_t>& frame : table->frames) {
    uint64_t expected = from;
    if (frame.load(std::memory_order_relaxed) == from && frame.compare_exchange_strong(expected, to)) return true;
  }
  return false;
}

}  // namespace

void AddMappedFrame(const void* begin, uint64_t bytes) {
  for (Frames* table = &g_frames;;) {
    if (Exchange(0, Pack(begin, bytes), table)) return;
    Frames* next = table->more.load();
    if (next == nullptr) {
      auto* const made = new (std::nothrow) Frames;
      if (made == nullptr) return;
      if (table->more.compare_exchange_strong(next, made)) {
        next = made;
      } else {
        delete made;
      }
    }
    table = next;
  }
}

void RemoveMappedFrame(const void* begin, uint64_t bytes) {
  for (Frames* table = &g_frames; table != nullptr; table = table->more.load()) {
    if (Exchange(Pack(begin, bytes), 0, table)) return;
  }
}

void ForgetMappedFrames() {
  for (Frames* table = &g_frames; table != nullptr; table = table->more.load()) {
    for (std::atomic<uint64_t>& frame : table->frames) frame = 0;
  }
}

bool MapZerosOverFrame(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (Frames* table = &g_frames; table != nullptr; table = table->more.load()) {
    for (const std::atomic<uint64_t>& slot : table->frames) {
      const uint64_t frame = slot.load();
      if (frame == 0 || at < BeginOf(frame) || at - BeginOf(frame) >= BytesOf(frame)) continue;
      return mmap(reinterpret_cast<void*>(BeginOf(frame)), BytesOf(frame), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
    }
  }
  return false;
}

}  // namespace torchtrace
