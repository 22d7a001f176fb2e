#include "tracer/record/session_state.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serialize/base/files.h"

namespace torchtrace {

static_assert(kControlOffset == FolderLock::kOrdersOffset);
static_assert(offsetof(ControlPage, until_ns) == FolderLock::kOrdersBytes);

std::atomic<uint64_t> SessionState::epoch_{0};
std::atomic<uint64_t> SessionState::session_{0};
std::atomic<bool> SessionState::wants_results_{false};
SessionState::Page SessionState::control_page_{};

void SessionState::MapControlPage(const std::string& log_folder) {
  if (sysconf(_SC_PAGESIZE) != kControlPageBytes) return;
  const int file = FolderLock::OpenFile(log_folder);
  if (file < 0) return;
  struct stat status;
  const bool usable = fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
                      (status.st_size >= off_t{kControlPageBytes} || ftruncate(file, kControlPageBytes) == 0);
  if (usable) {
    const void* const mapped = mmap(&control_page_, kControlPageBytes, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0);
    // A failed MAP_FIXED may leave nothing there.
    if (mapped == MAP_FAILED) UnmapControlPage();
  }
  close(file);
}

uint64_t SessionState::AddLogBytes(const std::string& log_folder, uint64_t bytes, uint64_t own) {
  const int file = FolderLock::OpenFile(log_folder);
  if (file < 0) return own;
  void* const mapped = mmap(nullptr, kControlPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  // The page is there as long as the file has it: reading another's end would be a SIGBUS.
  struct stat status;
  const bool usable = fstat(file, &status) == 0 && status.st_size >= off_t{kControlPageBytes};
  close(file);
  if (mapped == MAP_FAILED) return own;
  if (usable) own = reinterpret_cast<Page*>(mapped)->page.log_bytes.fetch_add(bytes) + bytes;
  munmap(mapped, kControlPageBytes);
  return own;
}

void SessionState::UnmapControlPage() {
  mmap(&control_page_, kControlPageBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

bool SessionState::RecoverControlPage(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address), page = reinterpret_cast<uintptr_t>(&control_page_);
  if (at - page >= kControlPageBytes) return false;
  UnmapControlPage();
  return true;
}

}  // namespace torchtrace
