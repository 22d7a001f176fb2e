#include "tracer/attach/attached_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "serialize/base/files.h"
#include "serialize/base/monotonic_clock.h"
#include "serialize/base/read_file.h"
#include "tracer/attach/process_status.h"
#include "tracer/attach/remote_memory.h"
#include "tracer/attach/stopped_thread.h"
#include "tracer/launch/find_python.h"
#include "tracer/launch/runtime_api.h"

namespace torchtrace {
namespace {

constexpr char kText[] =
#include "tracer/attach/attached_text.inc"
    ;

// From this version on.
constexpr int kRemoteExecMinor = 14;

constexpr uint64_t kMemoryBytes = 64 << 10;

// In the process's memory. What a pending call returns can become an exception in the program, so PyRun_SimpleString
// isn't one itself: it is called as what destroys the key of a hash table of CPython's, which ignores its result. The
// table and what it consists of are "freed" by sigemptyset, which returns 0 and leaves zeros; the table comes last.
struct Request {
  struct alignas(sizeof(sigset_t)) Table {
    uint64_t entries = 1, buckets = 1, bucket_array = 0, get_entry = 0, hash = 0, compare = 0;
    uint64_t destroy_key = 0, destroy_value = 0, allocate = 0, free = 0;
  } table;
  struct alignas(sizeof(sigset_t)) Bucket {
    uint64_t first = 0;
  } bucket;
  struct alignas(sizeof(sigset_t)) Entry {
    uint64_t next = 0, hash = 0, key = 0, value = 0;
  } entry;

  // At `address`, with the text behind it.
  Request(uint64_t address, const RemotePython& python) {
    table.bucket_array = address + offsetof(Request, bucket);
    table.destroy_key = python.run_simple_string.address;
    table.free = python.libc.sigemptyset.address;
    bucket.first = address + offsetof(Request, entry);
    entry.key = address + sizeof(Request);
  }
};

// In place of an answer.
constexpr char kNoAnswer[] =
    "failed it can't run what it is asked to: its calls are too deep, an audit hook or trace function raises, or its "
    "Python is ending";
constexpr int64_t kAgainNs = 100'000'000;
// An import is waited for so long: some programs run inside of one.
constexpr int64_t kImportNs = 10'000'000'000;
// Bad moments are over at once, or never.
constexpr int kMoments = 100;

// A bytes object's literal.
std::string PythonBytes(std::string_view bytes) {
  return absl::StrCat("b'", absl::CHexEscape(absl::string_view(bytes.data(), bytes.size())), "'");
}

// ptrace knows the thread that calls it, and lets go of everything when that ends.
absl::Status OnThreadOfItsOwn(const std::function<absl::Status()>& body) {
  absl::Status status;
  std::thread([&] { status = body(); }).join();
  return status;
}

absl::StatusOr<std::unique_ptr<StoppedThread>> StopAtGoodMoment(pid_t pid, const RemoteLibc& libc,
                                                                const RemoteFunction& wait = {}) {
  absl::Status status;
  for (int i = 0; i < kMoments; ++i) {
    absl::StatusOr<std::unique_ptr<StoppedThread>> thread = StoppedThread::Stop(pid, libc, wait);
    if (thread.ok() || !absl::IsUnavailable(thread.status())) return thread;
    status = thread.status();
    usleep(5'000);
  }
  return absl::UnavailableError(absl::StrCat("process ", pid, " can't be attached to: ", status.message()));
}

}  // namespace

AttachedProcess::AttachedProcess(pid_t pid, RemotePython python, std::string package, std::string task)
    : pid_(pid),
      handle_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))),
      python_(std::move(python)),
      package_(std::move(package)),
      task_(std::move(task)) {}

AttachedProcess::~AttachedProcess() {
  if (handle_ >= 0) close(handle_);
  unlink(AnswerPath().c_str());
}

std::string AttachedProcess::WhatItDoes() const {
  return ask_at_ns_ != 0 && importing_ ? "it imports a module" : torchtrace::WhatItDoes(pid_);
}

std::string AttachedProcess::AnswerPath() const { return absl::StrCat(task_, "-", pid_); }
std::string AttachedProcess::ScriptPath() const { return absl::StrCat(task_, "-", pid_, ".py"); }

bool AttachedProcess::Lives() const {
  if (handle_ < 0) return kill(pid_, 0) == 0 || errno == EPERM;
  pollfd ended = {handle_, POLLIN, 0};
  return poll(&ended, 1, 0) <= 0;
}

void AttachedProcess::Fail(const std::string& why) {
  state_ = state_ == kEnding ? kEnded : kFailed;
  error_ = why;
}

void AttachedProcess::Ask(State state) {
  state_ = state;
  importing_ = false;
  first_asked_ns_ = MonotonicNowNs();
  AskAgain();
}

void AttachedProcess::AskAgain() {
  ask_at_ns_ = 0;
  if (!Lives()) return;
  const absl::Status status = RunText(Text());
  if (state_ == kEnding && absl::IsUnavailable(status)) {
    ask_at_ns_ = MonotonicNowNs() + kAgainNs;  // nobody else closes it
  } else if (!status.ok()) {
    Fail(std::string(status.message()));
  }
}

void AttachedProcess::Look() {
  if (state_ == kUnasked || state_ == kEnded || state_ == kFailed) return;
  const bool lives = Lives(), over = IsCallOver();
  const std::string path = AnswerPath();
  const absl::StatusOr<std::string> answer = ReadWholeFile(path);
  if (is_asked() && answer.ok() && over) {
    unlink(path.c_str());
    TakeAnswer(*answer);
  } else if (!lives) {
    if (state_ == kBeginning) return Fail(absl::StrCat("process ", pid_, " has ended"));
    state_ = kEnded;
  } else if (ask_at_ns_ != 0) {
    if (MonotonicNowNs() >= ask_at_ns_) AskAgain();
  } else if (is_asked() && over && memory_ != 0) {
    TakeAnswer(kNoAnswer);
  }
}

void AttachedProcess::TakeAnswer(const std::string& answer) {
  absl::string_view rest = answer;
  if (absl::ConsumePrefix(&rest, "failed ")) {
    FreeMemory();
    return Fail(absl::StrCat("process ", pid_,
                             state_ == kBeginning ? " can't be attached to: " : " has not closed its trace: ", rest));
  }
  if (absl::ConsumePrefix(&rest, "done")) {
    state_ = state_ == kBeginning ? kTracing : kEnded;
    if (state_ == kEnded) FreeMemory();
    return;
  }
  importing_ = absl::StartsWith(answer, "importing");
  ask_at_ns_ = MonotonicNowNs() + kAgainNs;
}

std::string AttachedProcess::Text() const {
  const bool patient = MonotonicNowNs() - first_asked_ns_ > kImportNs;
  const auto run = [&](const char* raised) {
    return absl::StrCat("__import__('builtins').exec(", PythonBytes(kText), ", {'VERB': '",
                        state_ == kBeginning ? "begin" : "end", "', 'PACKAGE': ", PythonBytes(package_),
                        ", 'VERSION': ", kRuntimeApiVersion, ", 'TASK': ", PythonBytes(task_),
                        ", 'ANSWER': ", PythonBytes(AnswerPath()), ", 'PATIENT': ", patient ? "True" : "False",
                        ", 'RAISED': [", raised, "]})\n");
  };
  // A handler of the program's signals may raise before the text has begun; a Python that ends can't run it. Its own
  // exception would be the program's.
  return absl::StrCat("try:\n try: ", run(""), " except BaseException as torchtrace_raised: ", run("torchtrace_raised"),
                      "except BaseException: pass\n");
}

// What is known of its memory is true.
absl::Status AttachedProcess::CheckIsSame() const {
  if (ImageOf(pid_) == python_.image) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("process ", pid_, " has become another program"));
}

absl::Status AttachedProcess::RunText(const std::string& text) {
  return python_.minor >= kRemoteExecMinor ? RemoteExec(text) : OnThreadOfItsOwn([&] { return AddPendingCall(text); });
}

absl::Status AttachedProcess::AddPendingCall(const std::string& text) {
  // A wait for one of Python's locks is interrupted: then Python looks for pending calls.
  absl::StatusOr<std::unique_ptr<StoppedThread>> thread = StopAtGoodMoment(pid_, python_.libc, python_.acquire_lock);
  if (!thread.ok()) return thread.status();
  if (absl::Status same = CheckIsSame(); !same.ok()) return same;
  if (memory_ == 0) {
    const absl::StatusOr<int64_t> mapped = (*thread)->Call(
        python_.libc.mmap,
        {0, kMemoryBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, static_cast<uint64_t>(-1), 0});
    if (!mapped.ok()) return mapped.status();
    if (*mapped <= 0) return absl::ResourceExhaustedError(absl::StrCat("process ", pid_, " has no memory left"));
    memory_ = static_cast<uint64_t>(*mapped);
  }
  const Request request(memory_, python_);
  std::string bytes(reinterpret_cast<const char*>(&request), sizeof request);
  absl::StrAppend(&bytes, text, absl::string_view("", 1));
  if (bytes.size() > kMemoryBytes) return absl::InvalidArgumentError("the output folder's name is too long");
  if (!WriteMemory(pid_, memory_, bytes)) return WhyRefused(pid_, errno);
  return (*thread)->Call(python_.add_pending_call, {python_.destroy_table.address, memory_}).status();
}

// Whether nothing is called any more that uses the memory.
bool AttachedProcess::IsCallOver() const {
  uint64_t entries = 0;
  return memory_ == 0 || !ReadMemory(pid_, memory_ + offsetof(Request, table.entries), &entries) || entries == 0;
}

absl::Status AttachedProcess::RemoteExec(const std::string& text) {
  if (absl::Status same = CheckIsSame(); !same.ok()) return same;
  // The text itself removes it, as Python complains if it is missing.
  if (absl::Status status = WriteOutputFile(ScriptPath(), text, {.mode = 0600, .follow = false}); !status.ok()) {
    return status;
  }
  const absl::StatusOr<CommandResult> done =
      RunCommand({absl::StrCat("/proc/", pid_, "/exe"), "-I", "-S", "-c",
                  "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])", absl::StrCat(pid_), ScriptPath()});
  if (!done.ok()) return done.status();
  if (done->exit_code == 0) return absl::OkStatus();
  absl::string_view said = absl::StripTrailingAsciiWhitespace(done->standard_error);
  said = said.substr(said.rfind('\n') + 1);
  if (absl::StrContains(said, "not enabled")) {
    return absl::FailedPreconditionError(absl::StrCat(
        "process ", pid_, " forbids it: start it without PYTHON_DISABLE_REMOTE_DEBUG and -X disable-remote-debug"));
  }
  if (absl::StrContains(said, "PermissionError") || absl::StrContains(said, "Operation not permitted")) {
    return WhyRefused(pid_, EPERM);
  }
  return absl::FailedPreconditionError(absl::StrCat("process ", pid_, " can't be attached to: ", said));
}

void AttachedProcess::FreeMemory() {
  if (memory_ == 0) return;
  // It is harmless if it stays.
  OnThreadOfItsOwn([&] {
    absl::StatusOr<std::unique_ptr<StoppedThread>> thread = StopAtGoodMoment(pid_, python_.libc);
    if (!thread.ok()) return thread.status();
    if (absl::Status same = CheckIsSame(); !same.ok()) return same;
    return (*thread)->Call(python_.libc.munmap, {memory_, kMemoryBytes}).status();
  }).IgnoreError();
  memory_ = 0;
}

}  // namespace torchtrace
