#include "cmd/new_trace_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "serialize/render_formats.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;

// What a signal takes away. Whoever commits or drops a folder holds the mutex, so
// that it is either there or gone.
struct Unfinished {
  std::mutex mutex;
  std::set<std::string> folders;
};
Unfinished& TheUnfinished() {
  static auto* const unfinished = new Unfinished;  // a thread uses it until the process ends
  return *unfinished;
}

void RemoveAll(const std::string& folder) {
  std::error_code error;
  // While it goes, another thread may write into it.
  for (int attempt = 0; attempt < 100; ++attempt) {
    fs::remove_all(folder, error);
    if (!fs::exists(folder, error)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// A thread waits for the signals that end a program, cleans up, and lets it end. A fork
// has its parent's mask and not its thread: it gets one of its own.
void WatchSignals() {
  static pid_t watched = 0;
  if (watched == getpid()) return;
  watched = getpid();
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action;
    const bool ignored = sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
    if (!ignored) sigaddset(&signals, number);
  }
  // Other threads of ours are none: so nobody takes them but the one that waits.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    int number = 0;
    if (sigwait(&signals, &number) != 0) return;
    Unfinished& unfinished = TheUnfinished();
    // Never unlocked: the main thread must not tell of the failures that this causes.
    unfinished.mutex.lock();
    for (const std::string& folder : unfinished.folders) RemoveAll(folder);
    signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    kill(getpid(), number);
  }).detach();
}

absl::Status Failed(std::string_view what, const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", std::string(what), " ", path));
}

// Moves what a trace has not written from `old` to `folder`. False when something is left.
bool KeepOthers(const fs::path& old, const fs::path& folder, bool is_log) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator entry(old, error), end; !error && entry != end; entry.increment(error)) {
    entries.push_back(entry->path());
  }
  bool all = !error;
  for (const fs::path& entry : entries) {
    const std::string name = entry.filename().string();
    if (!is_log && name == "log" && fs::is_directory(fs::symlink_status(entry, error))) {
      all = KeepOthers(entry, folder / name, true) && all;
      continue;
    }
    const bool ours = is_log ? entry.extension() == ".ttlog" : IsRenderedFileName(name);
    if (ours) continue;
    fs::rename(entry, folder / name, error);
    all = all && !error;
  }
  return all;
}

}  // namespace

bool LiesIn(const std::string& path, const std::string& folder) {
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(path, error);
  const fs::path outer = fs::weakly_canonical(folder, error);
  auto at = inner.begin();
  for (const fs::path& part : outer) {
    if (part.empty()) continue;  // of a name that ends with a slash
    if (at == inner.end() || *at != part) return false;
    ++at;
  }
  return true;
}

absl::StatusOr<std::unique_ptr<NewTraceFolder>> NewTraceFolder::Create(const std::string& folder, bool force) {
  if (folder.empty()) return absl::InvalidArgumentError("the output folder's name is empty");
  std::error_code error;
  fs::path target = fs::weakly_canonical(fs::absolute(folder, error), error);
  if (!target.has_filename()) target = target.parent_path();
  if (error) return Failed("find the output folder", folder, error.value());
  struct stat is, parent_is;
  const bool exists = stat(target.c_str(), &is) == 0;
  if (exists) {
    if (!S_ISDIR(is.st_mode)) {
      return absl::AlreadyExistsError(absl::StrCat("the output folder ", folder, " is a file; give another with -o"));
    }
    const bool empty = fs::is_empty(target, error);
    if (error) return Failed("read the output folder", folder, error.value());
    if (!empty && !force) {
      return absl::AlreadyExistsError(absl::StrCat(
          "the output folder ", folder, " is not empty; --force overwrites the trace in it, -o gives another"));
    }
    // It is to be renamed.
    if (LiesIn(".", target.string()) || !target.has_relative_path()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the output folder ", folder, " holds the current folder; give another with -o"));
    }
    if (stat(target.parent_path().c_str(), &parent_is) == 0 && is.st_dev != parent_is.st_dev) {
      return absl::InvalidArgumentError(
          absl::StrCat("the output folder ", folder, " is the root of a file system; give a folder in it with -o"));
    }
  }
  const fs::path temporary =
      target.parent_path() / absl::StrCat(".", target.filename().string(), ".", getpid(), ".tmp");
  std::unique_ptr<NewTraceFolder> result(new NewTraceFolder(folder, target.string(), temporary.string()));
  for (fs::path around = target.parent_path(); !fs::exists(around, error); around = around.parent_path()) {
    result->created_ = around.string();
  }
  WatchSignals();
  {
    std::lock_guard<std::mutex> lock(TheUnfinished().mutex);
    TheUnfinished().folders.insert(result->created_.empty() ? result->temporary_ : result->created_);
  }
  fs::create_directories(temporary / "log", error);
  if (error) return Failed("create the output folder", folder, error.value());
  return result;
}

NewTraceFolder::~NewTraceFolder() {
  if (committed_) return;
  std::lock_guard<std::mutex> lock(TheUnfinished().mutex);
  const std::string& folder = created_.empty() ? temporary_ : created_;
  RemoveAll(folder);
  TheUnfinished().folders.erase(folder);
}

std::string NewTraceFolder::Shown(std::string_view text) const {
  return absl::StrReplaceAll(absl::string_view(text.data(), text.size()), {{temporary_, folder_}});
}

absl::Status NewTraceFolder::Shown(const absl::Status& status) const {
  if (status.ok()) return status;
  const absl::string_view message = status.message();
  return absl::Status(status.code(), Shown(std::string_view(message.data(), message.size())));
}

absl::Status NewTraceFolder::Commit() {
  std::lock_guard<std::mutex> lock(TheUnfinished().mutex);
  // Takes the place of an empty folder, too.
  if (rename(temporary_.c_str(), target_.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST) return Failed("write", folder_, errno);
    if (absl::Status s = Replace(); !s.ok()) return s;
  }
  committed_ = true;
  TheUnfinished().folders.erase(created_.empty() ? temporary_ : created_);
  return absl::OkStatus();
}

// What is there goes when the new one has its place.
absl::Status NewTraceFolder::Replace() {
  std::string old = temporary_;
  if (renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) != 0) {
    // Not every file system can.
    old += ".old";
    if (rename(target_.c_str(), old.c_str()) != 0) return Failed("replace", folder_, errno);
    if (rename(temporary_.c_str(), target_.c_str()) != 0) {
      const int error = errno;
      if (rename(old.c_str(), target_.c_str()) != 0) {
        return absl::InternalError(absl::StrCat("cannot replace ", folder_, "; what it held is now in ", old));
      }
      return Failed("replace", folder_, error);
    }
  }
  if (KeepOthers(old, target_, false)) RemoveAll(old);
  return absl::OkStatus();
}

}  // namespace torchtrace
