#include "serialize/trace/running.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/files.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;

// How long a process is believed to map its log while it doesn't write.
constexpr int64_t kLookAgainNs = 10'000'000'000;

std::string OfProcess(pid_t pid, const char* file) { return absl::StrCat("/proc/", pid, "/", file); }

// Calls `visit` with the inode and the path of each mapped file. False: the mappings can't be read.
bool VisitMappings(pid_t pid, const std::function<void(uint64_t inode, std::string_view path)>& visit) {
  errno = 0;
  std::ifstream maps(OfProcess(pid, "maps"));
  if (!maps.is_open()) return errno != EACCES && errno != EPERM;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string addresses, access, offset, device, path;
    uint64_t inode = 0;
    words >> addresses >> access >> offset >> device >> inode >> std::ws;
    std::getline(words, path);
    if (inode != 0) visit(inode, path);
  }
  return true;
}

// The log's writer keeps its first page mapped, whatever else it does.
Running MapsLog(pid_t pid, const std::string& path, uint64_t inode) {
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  bool found = false;
  const bool listed = VisitMappings(pid, [&](uint64_t mapped, std::string_view file) {
    found = found || (mapped == inode && file.find(name) != std::string_view::npos);
  });
  return found ? Running::kYes : listed ? Running::kNo : Running::kUnknown;
}

struct ProcessStat {
  char state = 'X';
  pid_t parent = 0;
  uint64_t started = 0;  // in the kernel's units
};

// None if there is no such process.
std::optional<ProcessStat> StatOf(pid_t pid) {
  std::ifstream file(OfProcess(pid, "stat"));
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream words(line.substr(name_end + 1));
  ProcessStat stat;
  words >> stat.state >> stat.parent;
  std::string skipped;
  for (int i = 0; i < 17; ++i) words >> skipped;  // up to the 22nd field
  words >> stat.started;
  return words.fail() ? std::nullopt : std::optional(stat);
}

// 0 if there is no such process, or only what is left of one.
uint64_t StartOf(pid_t pid) {
  const std::optional<ProcessStat> stat = StatOf(pid);
  return !stat.has_value() || stat->state == 'Z' || stat->state == 'X' ? 0 : stat->started;
}

std::vector<pid_t> AllProcesses() {
  std::vector<pid_t> pids;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    if (pid_t pid; absl::SimpleAtoi(entry->path().filename().string(), &pid)) pids.push_back(pid);
  }
  return pids;
}

// What a process in a container calls itself; 0: it is in none.
int64_t InnerPid(pid_t pid) {
  std::ifstream status(OfProcess(pid, "status"));
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("NSpid:")) continue;
    std::istringstream numbers(line.substr(6));
    int64_t number = 0;
    int count = 0;
    while (numbers >> number) ++count;
    return count > 1 ? number : 0;
  }
  return 0;
}

struct FoundProcess {
  Running running = Running::kUnknown;
  pid_t pid = 0;
};

FoundProcess FindProcess(const ProcessInfo& process, ProcessTable* processes) {
  const std::optional<int64_t> pid = process.known.pid;
  if (process.closed) return {process.known.program_goes_on ? Running::kUnknown : Running::kNo};
  struct stat log;
  if (!pid.has_value() || *pid <= 0 || *pid > INT32_MAX) return {};
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const bool is_here = process.known.host == host;
  // A log that is gone may still be written, where nobody reads it.
  if (stat(process.path.c_str(), &log) != 0) return {};
  Running answer = is_here ? Running::kNo : Running::kUnknown;
  const auto look = [&](pid_t candidate) {
    const Running maps = MapsLog(candidate, process.path, log.st_ino);
    if (maps == Running::kUnknown) answer = maps;
    return maps == Running::kYes;
  };
  if (look(static_cast<pid_t>(*pid))) return {Running::kYes, static_cast<pid_t>(*pid)};
  for (const pid_t candidate : processes->Called(*pid)) {
    if (look(candidate)) return {Running::kYes, candidate};
  }
  return {answer};
}

// Adds the folders that the process writes its trace to. False: nobody may know.
bool AddTraceFolders(pid_t pid, std::set<std::string>* folders) {
  const std::string lock = absl::StrCat("/log/", FolderLock::kName);
  return VisitMappings(pid, [&](uint64_t, std::string_view path) {
    if (!path.ends_with(lock)) return;
    const std::string folder(path.substr(0, path.size() - lock.size()));
    std::error_code error;
    // In a container it has another name.
    const std::string elsewhere = absl::StrCat("/proc/", pid, "/root", folder);
    folders->insert(fs::exists(folder + lock, error) || !fs::exists(elsewhere + lock, error) ? folder : elsewhere);
  });
}

}  // namespace

std::vector<pid_t> ProcessTable::Called(int64_t pid) {
  if (!std::exchange(listed_, true)) {
    for (const pid_t each : AllProcesses()) {
      if (const int64_t inner = InnerPid(each); inner != 0) in_containers_.emplace(inner, each);
    }
  }
  std::vector<pid_t> called;
  const auto [first, last] = in_containers_.equal_range(pid);
  for (auto at = first; at != last; ++at) called.push_back(at->second);
  return called;
}

Running IsRunning(const ProcessInfo& process, ProcessTable* processes) {
  return FindProcess(process, processes).running;
}

Running ProcessWatch::Ask(const ProcessInfo& process, bool grew, int64_t now_ns, ProcessTable* processes) {
  const bool looked_lately = looked_ns_ > now_ns - kLookAgainNs;
  if (!process.closed) {
    if (answer_ == Running::kNo && !grew) return answer_;
    if (pid_ != 0 && answer_ == Running::kYes) {
      if (StartOf(pid_) != started_) return answer_ = Running::kNo;
      if (grew || looked_lately) return answer_;
    } else if (looked_lately) {
      return grew ? Running::kYes : answer_;
    }
  }
  const FoundProcess found = FindProcess(process, processes);
  looked_ns_ = now_ns;
  answer_ = found.running;
  if (found.pid != 0) {
    pid_ = found.pid;
    started_ = StartOf(pid_);
  }
  // Somebody whom this machine doesn't show writes it.
  return grew && pid_ == 0 && !process.closed ? Running::kYes : answer_;
}

absl::StatusOr<std::vector<std::string>> TraceFoldersOf(pid_t pid) {
  std::map<pid_t, ProcessStat> all;
  for (const pid_t each : AllProcesses()) {
    if (const std::optional<ProcessStat> stat = StatOf(each)) all[each] = *stat;
  }
  if (!all.contains(pid)) return absl::NotFoundError(absl::StrCat("there is no process ", pid));
  std::set<std::string> folders;
  const bool own_known = AddTraceFolders(pid, &folders);
  // What it started, and what that started.
  std::set<pid_t> family = {pid};
  for (size_t before = 0; folders.empty() && before != family.size();) {
    before = family.size();
    for (const auto& [each, stat] : all) {
      if (family.contains(stat.parent)) family.insert(each);
    }
  }
  for (const pid_t each : family) {
    if (each != pid) AddTraceFolders(each, &folders);
  }
  for (pid_t up = all[pid].parent; folders.empty() && up > 0 && all.contains(up); up = all[up].parent) {
    AddTraceFolders(up, &folders);
  }
  if (!folders.empty()) return std::vector<std::string>(folders.begin(), folders.end());
  if (own_known) {
    return absl::NotFoundError(absl::StrCat("process ", pid,
                                            " writes no trace, and no process that it started, or "
                                            "that started it: give the folder of a trace"));
  }
  return absl::PermissionDeniedError(
      absl::StrCat("what process ", pid, " writes can't be seen (another user's?): give the folder of its trace"));
}

}  // namespace torchtrace
