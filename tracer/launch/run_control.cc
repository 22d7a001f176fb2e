#include "tracer/launch/run_control.h"

#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/files.h"
#include "serialize/base/monotonic_clock.h"
#include "serialize/base/text.h"

namespace torchtrace {
absl::StatusOr<RunControl> RunControl::Open(const std::string& folder) {
  const std::string log = folder + "/log";
  const auto nobody = [&] {
    return absl::NotFoundError(absl::StrCat("no process writes a trace to ", folder, " now"));
  };
  const int file = FolderLock::OpenFile(log);
  if (file < 0 && (errno == ENOENT || errno == ENOTDIR)) return nobody();
  if (file < 0) return absl::ErrnoToStatus(errno, absl::StrCat(log, "/", FolderLock::kName));
  const absl::Cleanup close_file = [file] { close(file); };
  // A lock that is left over. Where there are no locks, nobody can tell.
  if (flock(file, LOCK_EX | LOCK_NB) == 0) {
    flock(file, LOCK_UN);
    return nobody();
  }
  struct stat status;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size < off_t{kControlPageBytes}) {
    return absl::NotFoundError(absl::StrCat("the processes that write ", folder, " can't be controlled"));
  }
  void* const mapped = mmap(nullptr, kControlPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) return absl::ErrnoToStatus(errno, absl::StrCat(log, "/", FolderLock::kName));
  return RunControl(mapped);
}

RunControl::RunControl(RunControl&& other) noexcept : mapped_(std::exchange(other.mapped_, nullptr)) {}

RunControl::~RunControl() {
  if (mapped_ != nullptr) munmap(mapped_, kControlPageBytes);
}

ControlPage* RunControl::page() const {
  return reinterpret_cast<ControlPage*>(static_cast<char*>(mapped_) + kControlOffset);
}

ControlPage::Order RunControl::order() const { return static_cast<ControlPage::Order>(page()->order.load()); }

int64_t RunControl::window_left_ns() const {
  return std::max<int64_t>(0, static_cast<int64_t>(page()->until_ns.load()) - MonotonicNowNs());
}

std::string RunControl::Describe() const {
  switch (order()) {
    case ControlPage::kNone:
      return "recording";
    case ControlPage::kPause:
      return "paused";
    case ControlPage::kStop:
      return "stopped";
    case ControlPage::kWindow:
      break;
  }
  const int64_t left_ns = window_left_ns();
  return left_ns == 0 ? "paused: the window is over" : absl::StrCat("recording for another ", FormatDuration(left_ns));
}

absl::Status RunControl::Give(ControlPage::Order order, int64_t window_ns) {
  if (this->order() == ControlPage::kStop) {
    return absl::FailedPreconditionError("recording was stopped for good; a new run or attach begins another trace");
  }
  page()->until_ns = static_cast<uint64_t>(MonotonicNowNs() + window_ns);
  page()->order = order;
  return absl::OkStatus();
}

}  // namespace torchtrace
