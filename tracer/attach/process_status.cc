#include "tracer/attach/process_status.h"

#include <pwd.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "serialize/base/command_name.h"
#include "serialize/base/proc_stat.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;

constexpr char kYama[] = "/proc/sys/kernel/yama/ptrace_scope";

// Empty if it can't be read.
std::string ContentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string Folder(pid_t pid) { return absl::StrCat("/proc/", pid); }

template <typename Number>
Number FirstNumber(absl::string_view text, size_t index = 0) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  Number number = 0;
  if (index < words.size() && !absl::SimpleAtoi(words[index], &number)) return 0;
  return number;
}

std::string UserName(uid_t user) {
  const passwd* const entry = getpwuid(user);
  return entry != nullptr ? absl::StrCat("user ", entry->pw_name) : absl::StrCat("user ", user);
}

absl::Status No(pid_t pid, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("process ", pid, " ", why));
}

std::string SudoAttach(pid_t pid) { return absl::StrCat("`sudo ", CommandName(), " attach ", pid, "`"); }

// Zero bytes end them.
std::vector<std::string> Strings(const std::string& content) {
  std::vector<std::string> strings = absl::StrSplit(content, '\0');
  if (!strings.empty() && strings.back().empty()) strings.pop_back();
  return strings;
}

}  // namespace

ProcessStatus ParseProcessStatus(std::string_view text) {
  ProcessStatus status;
  for (const absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    const std::pair<absl::string_view, absl::string_view> field = absl::StrSplit(line, absl::MaxSplits(":\t", 1));
    if (field.first == "Tgid") status.process = FirstNumber<pid_t>(field.second);
    if (field.first == "Name") status.name = std::string(field.second);
    if (field.first == "State" && !field.second.empty()) status.state = field.second[0];
    if (field.first == "TracerPid") status.tracer = FirstNumber<pid_t>(field.second);
    // Real, effective, saved, and of the file system.
    if (field.first == "Uid") status.user = FirstNumber<uid_t>(field.second, 1);
    if (field.first == "Gid") status.group = FirstNumber<gid_t>(field.second, 1);
  }
  return status;
}

absl::StatusOr<ProcessStatus> ReadProcessStatus(pid_t pid) {
  ProcessStatus status = ParseProcessStatus(ContentOf(Folder(pid) + "/status"));
  // Threads have such files, too.
  if (status.process != pid || pid == 0) return absl::NotFoundError(absl::StrCat("there is no process ", pid));
  return status;
}

std::vector<std::string> CommandLineOf(pid_t pid) { return Strings(ContentOf(Folder(pid) + "/cmdline")); }

std::string VariableOf(pid_t pid, std::string_view name) {
  const std::string prefix = absl::StrCat(std::string(name), "=");
  for (const std::string& entry : Strings(ContentOf(Folder(pid) + "/environ"))) {
    if (entry.starts_with(prefix)) return entry.substr(prefix.size());
  }
  return "";
}

std::vector<Mapping> MappingsOf(pid_t pid) {
  std::vector<Mapping> mappings;
  const std::string content = ContentOf(Folder(pid) + "/maps");
  for (const absl::string_view line : absl::StrSplit(content, '\n', absl::SkipEmpty())) {
    // begin-end rwxp offset device inode path
    Mapping mapping;
    char flags[5] = "";
    int path = 0;
    if (std::sscanf(std::string(line).c_str(), "%lx-%lx %4s %lx %*s %*s %n", &mapping.begin, &mapping.end, flags,
                    &mapping.offset, &path) < 4) {
      continue;
    }
    mapping.readable = flags[0] == 'r';
    mapping.executable = flags[2] == 'x';
    if (path > 0) mapping.path = std::string(line.substr(std::min<size_t>(static_cast<size_t>(path), line.size())));
    mappings.push_back(std::move(mapping));
  }
  return mappings;
}

uint64_t StackLimitOf(pid_t pid) {
  // prlimit() needs other rights than tracing.
  constexpr std::string_view kName = "Max stack size";
  const std::string limits = ContentOf(Folder(pid) + "/limits");
  const size_t at = limits.find(kName);
  if (at == std::string::npos) return 0;
  const absl::string_view rest = absl::StripLeadingAsciiWhitespace(absl::string_view(limits).substr(at + kName.size()));
  uint64_t bytes = 0;
  return absl::SimpleAtoi(rest.substr(0, rest.find(' ')), &bytes) ? bytes : UINT64_MAX;
}

std::vector<pid_t> ProcessesBelow(pid_t pid) {
  std::multimap<pid_t, pid_t> children;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    pid_t process = 0;
    if (!absl::SimpleAtoi(entry->path().filename().string(), &process)) continue;
    if (const pid_t parent = ParentOf(process); parent != 0) children.emplace(parent, process);
  }
  std::vector<pid_t> below;
  const auto add = [&](pid_t parent) {
    const auto [first, last] = children.equal_range(parent);
    for (auto child = first; child != last; ++child) below.push_back(child->second);
  };
  add(pid);
  for (size_t i = 0; i < below.size(); ++i) add(below[i]);
  std::sort(below.begin(), below.end());
  return below;
}

std::string WhatItDoes(pid_t pid) {
  const absl::StatusOr<ProcessStatus> status = ReadProcessStatus(pid);
  if (!status.ok()) return "it has ended";
  switch (status->state) {
    case 'R':
      return "it runs native code";
    case 'T':
      return absl::StrCat("it is stopped: `kill -CONT ", pid, "` lets it go on");
    case 'Z':
      return "it has ended";
    default:
      break;
  }
  static const std::map<int64_t, const char*> kCalls = {
      {SYS_futex, "futex (a lock, or the end of a thread)"},
      {SYS_clock_nanosleep, "clock_nanosleep (sleep)"},
      {SYS_pselect6, "select"},
      {SYS_ppoll, "poll"},
      {SYS_epoll_pwait, "epoll_wait"},
#ifdef SYS_poll  // of older processors
      {SYS_nanosleep, "nanosleep (sleep)"},
      {SYS_select, "select"},
      {SYS_poll, "poll"},
      {SYS_epoll_wait, "epoll_wait"},
      {SYS_pause, "pause"},
#endif
      {SYS_wait4, "wait4 (the end of a process)"},
      {SYS_waitid, "waitid (the end of a process)"},
      {SYS_read, "read"},
      {SYS_recvfrom, "recvfrom"},
      {SYS_recvmsg, "recvmsg"},
      {SYS_accept4, "accept"},
      {SYS_accept, "accept"},
      {SYS_connect, "connect"},
      {SYS_rt_sigtimedwait, "sigwait"},
  };
  // The number comes first.
  int64_t number = -1;
  const std::string text = ContentOf(Folder(pid) + "/syscall");
  if (!absl::SimpleAtoi(text.substr(0, text.find(' ')), &number)) return "it runs native code";
  const auto known = kCalls.find(number);
  return known != kCalls.end() ? absl::StrCat("it waits in the system call ", known->second)
                               : absl::StrCat("it waits in the system call ", number);
}

absl::Status CheckAttachable(pid_t pid, const ProcessStatus& status) {
  if (pid == getpid()) return No(pid, "is torchtrace itself");
  if (status.state == 'Z' || status.state == 'X') {
    return No(pid, "has ended, or its main thread has: without that thread it can't be attached to");
  }
  if (status.tracer != 0) {
    const absl::StatusOr<ProcessStatus> tracer = ReadProcessStatus(status.tracer);
    return No(pid, absl::StrCat("is traced by ", tracer.ok() ? tracer->name : "a debugger", " (process ", status.tracer,
                                "): end that first"));
  }
  if (status.state == 'T') return No(pid, absl::StrCat("is stopped: `kill -CONT ", pid, "` lets it go on"));
  if (geteuid() != 0 && geteuid() != status.user) {
    return No(pid, absl::StrCat("belongs to ", UserName(status.user), ": ", SudoAttach(pid),
                                " attaches to it, and writes the trace as that user"));
  }
  return absl::OkStatus();
}

std::string DescribeRefusal(pid_t pid, int error, std::string_view yama) {
  const std::string failed =
      absl::StrCat("the kernel refuses access to process ", pid, " (", std::strerror(error), ")");
  if (error != EPERM && error != EACCES) return failed;
  switch (yama.empty() ? '0' : yama[0]) {
    case '1':
      return absl::StrCat(failed, ": ", kYama, " is 1, which allows it to a process's parents and root alone: use ",
                          SudoAttach(pid), ", or `echo 0 | sudo tee ", kYama, "`");
    case '2':
      return absl::StrCat(failed, ": ", kYama, " is 2, which allows it to root alone: use ", SudoAttach(pid));
    case '3':
      return absl::StrCat(failed, ": ", kYama, " is 3, which forbids it to everybody until the machine starts again");
    default:
      return absl::StrCat(failed, ": it has rights that you don't have (", SudoAttach(pid),
                          " attaches to it), or this container lacks one (start it with `--cap-add SYS_PTRACE`)");
  }
}

absl::Status WhyRefused(pid_t pid, int error) {
  if (error == ESRCH) return No(pid, "has ended");
  return absl::PermissionDeniedError(DescribeRefusal(pid, error, ContentOf(kYama)));
}

void WriteAsUserOf(const ProcessStatus& status) {
  if (geteuid() != 0) return;
  setfsgid(status.group);
  setfsuid(status.user);
}

absl::Status CheckSeesFile(pid_t pid, const std::string& path) {
  struct stat here, there;
  if (stat(path.c_str(), &here) != 0) return absl::OkStatus();  // it will be missed elsewhere
  const bool seen = stat(absl::StrCat("/proc/", pid, "/root", path).c_str(), &there) == 0;
  if (!seen && errno != ENOENT && errno != ENOTDIR) return WhyRefused(pid, errno);
  if (seen && here.st_dev == there.st_dev && here.st_ino == there.st_ino) return absl::OkStatus();
  return No(pid, absl::StrCat("runs in a container, or another root folder, in which ", path, " is ",
                              seen ? "another file" : "missing",
                              ": attach from inside of it, or mount the folder there under the same name"));
}

}  // namespace torchtrace
