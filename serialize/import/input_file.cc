#include "serialize/import/input_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/files.h"

namespace torchtrace {
namespace {

constexpr size_t kBlockBytes = 256 << 10;
constexpr char kStandardInput[] = "standard input";

// An unlinked file in the folder for temporary files.
int OpenUnlinked(std::string* folder) {
  const char* const from_environment = std::getenv("TMPDIR");
  *folder = from_environment != nullptr && *from_environment != '\0' ? from_environment : "/tmp";
  const int fd = open(folder->c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  std::string path = absl::StrCat(*folder, "/torchtrace-XXXXXX");
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) unlink(path.c_str());
  return named;
}

// Returns the next bytes to copy; 0 at the end.
using CopySource = std::function<absl::StatusOr<size_t>(char* to, size_t bytes)>;

CopySource FromDescriptor(int fd, const std::string& name) {
  return [fd, name](char* to, size_t bytes) -> absl::StatusOr<size_t> {
    while (true) {
      const ssize_t got = read(fd, to, bytes);
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) return FileError(absl::StrCat("cannot read ", name), errno);
    }
  };
}

// Returns the copy's descriptor.
absl::StatusOr<int> Copy(const CopySource& from, const std::string& name, ReadingObserver* observer) {
  std::string folder;
  const int to = OpenUnlinked(&folder);
  if (to < 0) return FileError(absl::StrCat("cannot create a temporary file in ", folder, " (see TMPDIR)"), errno);
  std::vector<char> block(kBlockBytes);
  uint64_t copied = 0;
  while (true) {
    const absl::StatusOr<size_t> got = from(block.data(), block.size());
    if (!got.ok()) {
      close(to);
      return got.status();
    }
    if (*got == 0) return to;
    for (size_t at = 0; at < *got;) {
      const ssize_t put = write(to, block.data() + at, *got - at);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) {
        const int error = errno;
        close(to);
        return FileError(absl::StrCat("cannot copy ", name, " to a temporary file in ", folder, " (see TMPDIR)"),
                         error);
      }
      at += static_cast<size_t>(put);
    }
    copied += *got;
    if (observer != nullptr) observer->OnRead(ReadingObserver::kBytes, copied, 0);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<InputFile>> InputFile::Open(const std::string& path, ReadingObserver* observer) {
  const bool standard = path == "-";
  struct stat file;
  if (!standard) {
    if (stat(path.c_str(), &file) != 0) return FileError(absl::StrCat("cannot read ", path), errno);
    if (S_ISREG(file.st_mode) || S_ISDIR(file.st_mode)) {
      absl::StatusOr<std::unique_ptr<LogFile>> opened = LogFile::Open(path);
      if (!opened.ok()) return opened.status();
      return std::unique_ptr<InputFile>(new InputFile(*std::move(opened), /*is_copy=*/false, observer));
    }
  }
  const std::string name = standard ? kStandardInput : path;
  const int from = standard ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (from < 0) return FileError(absl::StrCat("cannot read ", name), errno);
  // If the descriptor is closed, the copy would get its number.
  if (fcntl(from, F_GETFD) < 0) return FileError(absl::StrCat("cannot read ", name), errno);
  const absl::StatusOr<int> copy = Copy(FromDescriptor(from, name), name, observer);
  if (!standard) close(from);
  if (!copy.ok()) return copy.status();
  absl::StatusOr<std::unique_ptr<LogFile>> opened = LogFile::FromDescriptor(*copy, name);
  if (!opened.ok()) return opened.status();
  return std::unique_ptr<InputFile>(new InputFile(*std::move(opened), /*is_copy=*/true, observer));
}

InputFile::InputFile(std::unique_ptr<LogFile> file, bool is_copy, ReadingObserver* observer)
    : file_(std::move(file)),
      unpacked_(GzipFile::IsGzip(*file_) ? std::make_unique<GzipFile>(file_.get()) : nullptr),
      is_copy_(is_copy),
      observer_(observer) {}

std::string_view InputFile::file_name() const {
  if (is_copy()) return {};
  std::string_view name = this->name();
  name = name.substr(name.rfind('/') + 1);
  if (unpacked_ != nullptr && name.ends_with(".gz")) name.remove_suffix(3);
  return name;
}

size_t InputFile::block_bytes() const {
  // Reading one byte more than the file has shows its end.
  return unpacked_ != nullptr ? kBlockBytes : static_cast<size_t>(std::clamp<uint64_t>(bytes() + 1, 256, kBlockBytes));
}

size_t InputFile::ReadAt(uint64_t offset, void* to, size_t bytes) const {
  const size_t read = unpacked_ == nullptr ? file_->ReadAt(offset, to, bytes) : unpacked_->ReadAt(offset, to, bytes);
  if (observer_ != nullptr) {
    const uint64_t done = unpacked_ == nullptr ? offset + read : unpacked_->packed_offset();
    observer_->OnRead(ReadingObserver::kBytes, done, file_->bytes());
  }
  return read;
}

absl::StatusOr<std::unique_ptr<LogFile>> InputFile::TakeFile() {
  if (unpacked_ == nullptr) return std::move(file_);
  uint64_t offset = 0;
  const auto unpack = [&](char* to, size_t bytes) -> absl::StatusOr<size_t> {
    const size_t got = ReadAt(offset, to, bytes);
    offset += got;
    return got == 0 && !status().ok() ? absl::StatusOr<size_t>(status()) : got;
  };
  const absl::StatusOr<int> copy = Copy(unpack, name(), nullptr);
  if (!copy.ok()) return copy.status();
  return LogFile::FromDescriptor(*copy, name());
}

std::string InputFile::Head(size_t bytes) const {
  std::string head(bytes, '\0');
  head.resize(ReadAt(0, head.data(), head.size()));
  return head;
}

absl::StatusOr<bool> LineReader::Next(std::string_view* line) {
  size_t searched = begin_;
  while (true) {
    const void* const found = searched < end_ ? std::memchr(buffer_.data() + searched, '\n', end_ - searched) : nullptr;
    if (found != nullptr || (at_end_ && begin_ < end_)) {
      const size_t stop =
          found != nullptr ? static_cast<size_t>(static_cast<const char*>(found) - buffer_.data()) : end_;
      *line = std::string_view(buffer_.data() + begin_, stop - begin_);
      if (line->ends_with('\r')) line->remove_suffix(1);
      begin_ = std::min(stop + 1, end_);
      ++number_;
      return true;
    }
    if (at_end_) return file_->status().ok() ? absl::StatusOr<bool>(false) : file_->status();
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    searched = end_;
    if (end_ >= kMaxLineBytes) {
      return absl::DataLossError(
          absl::StrCat(file_->name(), " line ", number_ + 1, " is longer than ", kMaxLineBytes >> 20, " MiB"));
    }
    if (end_ == buffer_.size()) {
      buffer_.resize(std::max(2 * buffer_.size(), file_->block_bytes()));
    }
    const size_t got = file_->ReadAt(offset_, buffer_.data() + end_, buffer_.size() - end_);
    at_end_ = got < buffer_.size() - end_;
    end_ += got;
    offset_ += got;
  }
}

InputStream::Buffer::int_type InputStream::Buffer::underflow() {
  bytes_.resize(file_->block_bytes());
  const size_t got = file_->ReadAt(offset_, bytes_.data(), bytes_.size());
  offset_ += got;
  setg(bytes_.data(), bytes_.data(), bytes_.data() + got);
  return got == 0 ? traits_type::eof() : traits_type::to_int_type(bytes_[0]);
}

}  // namespace torchtrace
