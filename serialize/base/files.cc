#include "serialize/base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace torchtrace {
namespace {

constexpr size_t kRandomLetters = 12;  // 60 bits

std::string RandomLetters() {
  constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyz234567";
  uint8_t bytes[kRandomLetters] = {};
  // getrandom never returns fewer than so few bytes, once the machine has started.
  if (getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) bytes[0] = 0;
  std::string letters;
  for (const uint8_t byte : bytes) letters += kLetters[byte % 32];
  return letters;
}

}  // namespace

std::string TemporaryName(const std::string& path) {
  const size_t slash = path.rfind('/');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  const std::string shown = path.substr(name, NAME_MAX - kRandomLetters - sizeof "...tmp");
  return absl::StrCat(path.substr(0, name), ".", shown, ".", RandomLetters(), ".tmp");
}

int CreateNewFile(const std::string& path, mode_t mode) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
}

std::FILE* OpenNamelessFile() {
  const char* const folder = std::getenv("TMPDIR");
  const std::string in = folder == nullptr || *folder == '\0' ? "/tmp" : folder;
  int file = open(in.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) {
    // Not every file system supports O_TMPFILE.
    std::string name = in + "/torchtrace-XXXXXX";
    file = mkostemp(name.data(), O_CLOEXEC);
    if (file < 0) return nullptr;
    unlink(name.c_str());
  }
  return fdopen(file, "w+");
}

namespace {

constexpr size_t kBytes = 4096;
constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr int kOpenFile = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

absl::Status Failed(const std::string& log, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot lock ", log, "/", FolderLock::kName));
}

// The file contains `123 host`, but anybody may have written it.
std::string Holder(int file) {
  char text[300] = "";
  const ssize_t bytes = pread(file, text, sizeof text - 1, 0);
  const std::string_view all(text, bytes > 0 ? static_cast<size_t>(bytes) : 0);
  const size_t space = all.find(' ');
  const std::string_view number = all.substr(0, space);
  int pid = 0;
  if (!absl::SimpleAtoi(absl::string_view(number.data(), number.size()), &pid)) return "another process";
  char own[256] = "";
  gethostname(own, sizeof own - 1);
  const std::string_view host = space == std::string_view::npos ? "" : all.substr(space + 1);
  bool plain = host != own && !host.empty();
  for (const char c : host) plain = plain && c > ' ' && c < 127;
  return absl::StrCat("process ", pid, plain ? absl::StrCat(" on ", std::string(host)) : "");
}

void WriteHolder(int file) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const std::string text = absl::StrCat(getpid(), " ", host);
  // If the disk is full, messages don't name the holder.
  if (ftruncate(file, 0) != 0 || pwrite(file, text.data(), text.size(), 0) < 0) return;
}

bool HasOrders(int file) {
  char orders[FolderLock::kOrdersBytes];
  const ssize_t bytes = pread(file, orders, sizeof orders, FolderLock::kOrdersOffset);
  return bytes > 0 && std::any_of(orders, orders + bytes, [](char byte) { return byte != 0; });
}

// False if the previous holder of the lock removed the file, and another file has its name by now.
bool HasItsName(int folder, int file) {
  struct stat opened, named;
  return fstat(file, &opened) == 0 && fstatat(folder, FolderLock::kName, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FolderLock>> FolderLock::Take(const std::string& log) { return Lock(log, false); }
absl::StatusOr<std::unique_ptr<FolderLock>> FolderLock::Share(const std::string& log) { return Lock(log, true); }

absl::StatusOr<std::unique_ptr<FolderLock>> FolderLock::Share(std::unique_ptr<FolderLock> lock) {
  lock->Release();
  return Share(lock->log_);
}

std::unique_ptr<FolderLock> FolderLock::TakeAlone(std::unique_ptr<FolderLock> lock) {
  lock->Release();
  // Each process that ends asks, so nobody is looked for whom no message names.
  absl::StatusOr<std::unique_ptr<FolderLock>> alone = Lock(lock->log_, /*shared=*/false, /*names_holder=*/false);
  return alone.ok() ? *std::move(alone) : nullptr;
}

absl::StatusOr<std::unique_ptr<FolderLock>> FolderLock::Lock(const std::string& log, bool shared, bool names_holder) {
  const int folder = open(log.c_str(), kOpenFolder);
  // open's error doesn't say what the path is instead.
  if (struct stat is; folder < 0 && lstat(log.c_str(), &is) == 0 && !S_ISDIR(is.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(log, S_ISLNK(is.st_mode) ? " is a link" : " is not a folder"));
  }
  if (folder < 0) return Failed(log, errno);
  const absl::Cleanup close_folder = [folder] { close(folder); };
  while (true) {
    const int file = openat(folder, kName, kOpenFile | O_CREAT, 0600);
    if (file < 0) return Failed(log, errno);
    const absl::Cleanup close_file = [file] { close(file); };
    struct stat info;
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) return Failed(log, EINVAL);
    if (flock(file, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK && !names_holder) return absl::AlreadyExistsError("");
      if (errno == EWOULDBLOCK) {
        const std::vector<int> sharing = Sharing(log);
        const std::string holder =
            sharing.empty() ? Holder(file) : absl::StrCat("process ", absl::StrJoin(sharing, ", "));
        return absl::AlreadyExistsError(absl::StrCat(
            "is in use: ", holder, ", or one that it forked, still writes its trace there; wait until it ends"));
      }
      return std::unique_ptr<FolderLock>(new FolderLock(log, nullptr));
    }
    if (!HasItsName(folder, file)) continue;
    if (!shared && names_holder) WriteHolder(file);
    void* const mapping = mmap(nullptr, kBytes, PROT_NONE, MAP_SHARED, file, 0);
    return std::unique_ptr<FolderLock>(new FolderLock(log, mapping == MAP_FAILED ? nullptr : mapping));
  }
}

std::vector<int> FolderLock::Sharing(const std::string& log) {
  std::set<int> pids;
  struct stat info;
  if (lstat((log + "/" + kName).c_str(), &info) != 0) return {};
  // proc(5): `1: FLOCK  ADVISORY  READ 1234 08:01:131074 0 EOF`
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    char kind[16], access[16];
    int pid;
    unsigned int major_number, minor_number;
    unsigned long long inode;
    if (sscanf(line.c_str(), "%*d: %15s ADVISORY %15s %d %x:%x:%llu", kind, access, &pid, &major_number, &minor_number,
               &inode) != 6) {
      continue;
    }
    if (std::string_view(kind) == "FLOCK" && std::string_view(access) == "READ" && inode == info.st_ino &&
        // A file system without a device of its own (btrfs) has another one there.
        (makedev(major_number, minor_number) == info.st_dev || major(info.st_dev) == 0)) {
      pids.insert(pid);
    }
  }
  return {pids.begin(), pids.end()};
}

int FolderLock::OpenFile(const std::string& log) { return open(absl::StrCat(log, "/", kName).c_str(), kOpenFile); }

void FolderLock::Release() {
  if (mapping_ != nullptr) munmap(std::exchange(mapping_, nullptr), kBytes);
}

FolderLock::~FolderLock() {
  if (mapping_ == nullptr) return;
  Release();
  const int folder = open(log_.c_str(), kOpenFolder);
  if (folder < 0) return;
  const int file = openat(folder, kName, kOpenFile);
  // Only unlink while locked: Take ignores a locked file that has lost its name (HasItsName).
  if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0 && !HasOrders(file) && HasItsName(folder, file)) {
    unlinkat(folder, kName, 0);
  }
  if (file >= 0) close(file);
  close(folder);
}

namespace {

absl::Status CannotWrite(const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot write ", path));
}

}  // namespace

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path,
                                                               const OutputFileOptions& options) {
  std::string target = path;
  struct stat file;
  if (!options.follow) {
    if (lstat(path.c_str(), &file) == 0 && !S_ISREG(file.st_mode)) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot write ", path, ": it is ", S_ISLNK(file.st_mode) ? "a link" : "not a regular file"));
    }
  } else if (stat(path.c_str(), &file) == 0) {
    if (!S_ISREG(file.st_mode) && !S_ISDIR(file.st_mode)) {
      const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
      if (fd < 0) return CannotWrite(path, errno);
      return std::unique_ptr<OutputFile>(new OutputFile(path, path, nullptr, fd));
    }
    if (lstat(path.c_str(), &file) == 0 && S_ISLNK(file.st_mode)) {
      std::error_code error;
      target = std::filesystem::canonical(path, error).string();
      if (error) return CannotWrite(path, error.value());
    }
  }
  auto temporary = std::make_unique<Unfinished>(TemporaryName(target), Unfinished::kFile);
  const int fd = CreateNewFile(temporary->path(), options.mode);
  if (fd < 0) return CannotWrite(path, errno);
  std::unique_ptr<OutputFile> output(new OutputFile(path, std::move(target), std::move(temporary), fd));
  output->replace_ = options.replace;
  return output;
}

OutputFile::OutputFile(std::string path, std::string target, std::unique_ptr<Unfinished> temporary, int fd)
    : path_(std::move(path)), target_(std::move(target)), temporary_(std::move(temporary)), fd_(fd) {
  buffer_.reserve(kBufferBytes);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) close(fd_);
}

void OutputFile::Flush() {
  std::string_view rest = buffer_;
  while (!rest.empty() && status_.ok()) {
    const ssize_t written = write(fd_, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      status_ = CannotWrite(path_, errno);
    }
  }
  buffer_.clear();
}

absl::Status OutputFile::Finish() {
  if (fd_ < 0) return status_;
  Flush();
  // Some file systems report a full disk only here.
  if (close(fd_) != 0 && status_.ok()) status_ = CannotWrite(path_, errno);
  fd_ = -1;
  buffer_ = std::string();
  return status_;
}

absl::Status OutputFile::Commit() {
  if (absl::Status s = Finish(); !s.ok()) return s;
  if (temporary_ == nullptr) return absl::OkStatus();
  const auto lock = Unfinished::Lock();
  const char *const from = temporary_->path().c_str(), *const to = target_.c_str();
  int error = 0;
  if (!replace_ && renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) != 0) error = errno;
  if (error == EEXIST) return absl::AlreadyExistsError(absl::StrCat(path_, " exists; --force replaces it"));
  // Not every file system supports RENAME_NOREPLACE.
  const bool plain = replace_ || error == EINVAL || error == ENOSYS;
  if (plain) error = std::rename(from, to) != 0 ? errno : 0;
  if (error != 0) return CannotWrite(path_, error);
  temporary_->Complete();
  return absl::OkStatus();
}

absl::Status WriteOutputFile(const std::string& path, std::string_view content, const OutputFileOptions& options) {
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(path, options);
  if (!file.ok()) return file.status();
  (*file)->Append(content);
  return (*file)->Commit();
}

namespace {

namespace fs = std::filesystem;

struct Entry {
  const Unfinished* owner;
  std::string path;
  Unfinished::Kind kind;
};

struct Registry {
  std::recursive_mutex mutex;
  std::vector<Entry> entries;  // folders before the files in them
};
Registry& TheRegistry() {
  static auto* const registry = new Registry;  // never destroyed: threads may use it until the process ends
  return *registry;
}

void Remove(const std::string& path, Unfinished::Kind kind) {
  std::error_code error;
  if (kind == Unfinished::kFile) {
    fs::remove(path, error);
    return;
  }
  // Another thread may still write into it during the removal.
  for (int attempt = 0; attempt < 100; ++attempt) {
    fs::remove_all(path, error);
    if (!fs::exists(path, error)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace

Unfinished::Unfinished(std::string path, Kind kind) : path_(std::move(path)), kind_(kind) {
  const auto lock = Lock();
  TheRegistry().entries.push_back({this, path_, kind_});
}

Unfinished::~Unfinished() {
  if (complete_) return;
  const auto lock = Lock();
  Remove(path_, kind_);
  Complete();
}

void Unfinished::Complete() {
  const auto lock = Lock();
  complete_ = true;
  std::erase_if(TheRegistry().entries, [this](const Entry& entry) { return entry.owner == this; });
}

std::unique_lock<std::recursive_mutex> Unfinished::Lock() {
  return std::unique_lock<std::recursive_mutex>(TheRegistry().mutex);
}

void RemoveUnfinished() {
  Registry& registry = TheRegistry();
  registry.mutex.lock();  // and never unlocked
  std::for_each(registry.entries.rbegin(), registry.entries.rend(),
                [](const Entry& entry) { Remove(entry.path, entry.kind); });
}

absl::Status FileError(std::string_view what, int error) {
  const std::string text = absl::StrCat(std::string(what), ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(text);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(text);
    default:
      return absl::UnavailableError(text);
  }
}

}  // namespace torchtrace
