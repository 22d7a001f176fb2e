#include "tracer/attach/stopped_thread.h"

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <elf.h>
#include <linux/rseq.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <iterator>
#include <string>
#include <string_view>

#include "serialize/base/monotonic_clock.h"
#include "tracer/attach/process_status.h"
#include "tracer/attach/remote_memory.h"
#endif

namespace torchtrace {

#ifdef __x86_64__

namespace {

constexpr size_t kMostVectorBytes = 1 << 15;
constexpr size_t kRedZone = 128;
// For the functions that are called.
constexpr uint64_t kCallBytes = 32 << 10;
constexpr uint64_t kStackGap = 1 << 20;  // that the kernel keeps free below a stack
constexpr int64_t kPatienceNs = 3'000'000'000, kSpinNs = 200'000;

// The kernel's codes for a system call that it will restart.
constexpr int64_t kRestartSys = -512, kRestartNoIntr = -513, kRestartNoHand = -514, kRestartBlock = -516;

constexpr uint64_t kNoSystemCall = UINT64_MAX;

absl::Status Gone(pid_t pid) { return absl::NotFoundError(absl::StrCat("process ", pid, " has ended")); }

absl::Status BadMoment(const std::string& what) { return absl::UnavailableError(what); }

bool IsSystemCallStop(int status) { return WSTOPSIG(status) == (SIGTRAP | 0x80); }
bool IsEventStop(int status) { return status >> 16 == PTRACE_EVENT_STOP; }

// Waits until the thread stops. DeadlineExceeded, NotFound.
absl::StatusOr<int> WaitForStop(pid_t pid) {
  const int64_t begin = MonotonicNowNs();
  for (;;) {
    int status = 0;
    const pid_t waited = waitpid(pid, &status, __WALL | WNOHANG);
    if (waited == pid && WIFSTOPPED(status)) return status;
    if (waited == pid || (waited < 0 && errno != EINTR)) return Gone(pid);
    const int64_t waited_ns = MonotonicNowNs() - begin;
    if (waited_ns > kPatienceNs) return absl::DeadlineExceededError("");
    const timespec pause = {0, 50'000};
    if (waited_ns < kSpinNs) {
      sched_yield();
    } else {
      nanosleep(&pause, nullptr);
    }
  }
}

// What the kernel stores before a signal handler runs, as far as it reads it at the handler's end.
struct SignalFrame {
  uint64_t return_address;
  uint64_t flags;
  uint64_t link;
  stack_t stack;
  sigcontext context;
  uint64_t mask;
};
constexpr uint64_t kFrameFlags = 7;  // extended state; the stack segment counts
// No valid one: then the kernel leaves the thread's alternate stack as it is.
constexpr int kNoStackFlags = 0x40;

// The vectors are as the processor stores them: 512 bytes, of which the last ones are software's, then which features
// are not in their first state.
constexpr size_t kSoftwareAt = 464, kFeaturesAt = 512;

// The bytes of them that the kernel takes from a signal's frame: AMX's tiles only from a thread that has some.
size_t BytesInFrame(const std::string& vectors) {
  constexpr uint32_t kTiles = 18;
  uint64_t features = 0;
  std::memcpy(&features, vectors.data() + kFeaturesAt, sizeof features);
  unsigned int size = 0, offset = 0, ecx = 0, edx = 0;
  __cpuid_count(0xd, kTiles, size, offset, ecx, edx);
  const bool without_tiles = offset != 0 && (features >> kTiles & 1) == 0;
  return without_tiles ? std::min<size_t>(vectors.size(), offset) : vectors.size();
}

}  // namespace

struct StoppedThread::Registers {
  user_regs_struct general;
  std::string vectors;
  uint64_t mask = 0;  // of blocked signals

  // The system call that the kernel is to make again, in which the thread was stopped; kNoSystemCall: none.
  uint64_t Restarted() const {
    const auto code = static_cast<int64_t>(general.rax);
    if (general.orig_rax == kNoSystemCall) return kNoSystemCall;
    if (code == kRestartBlock) return SYS_restart_syscall;
    return code == kRestartSys || code == kRestartNoIntr || code == kRestartNoHand ? general.orig_rax : kNoSystemCall;
  }

  // What the thread goes on with after a signal handler: a wait with a timeout is not begun again.
  user_regs_struct AfterHandler() const {
    user_regs_struct regs = general;
    if (const uint64_t number = Restarted(); number == SYS_restart_syscall) {
      regs.rax = static_cast<uint64_t>(-EINTR);
    } else if (number != kNoSystemCall) {
      regs.rax = number;
      regs.rip -= 2;  // its instruction
    }
    return regs;
  }

  bool Get(pid_t pid) {
    vectors.resize(kMostVectorBytes);
    iovec set = {vectors.data(), vectors.size()};
    if (ptrace(PTRACE_GETREGS, pid, nullptr, &general) != 0 ||
        ptrace(PTRACE_GETREGSET, pid, NT_X86_XSTATE, &set) != 0 ||
        ptrace(PTRACE_GETSIGMASK, pid, sizeof mask, &mask) != 0) {
      return false;
    }
    vectors.resize(set.iov_len);
    return vectors.size() > kFeaturesAt;
  }
};

StoppedThread::StoppedThread(pid_t pid, const RemoteLibc& libc) : pid_(pid), libc_(libc) {}

absl::StatusOr<std::unique_ptr<StoppedThread>> StoppedThread::Stop(pid_t pid, const RemoteLibc& libc,
                                                                   const RemoteFunction& wait) {
  if (libc.mmap.address == 0 || libc.munmap.address == 0 || libc.sigemptyset.address == 0 || libc.sigreturn == 0) {
    return absl::UnimplementedError(
        absl::StrCat("process ", pid, " can't be attached to: torchtrace doesn't know its C library"));
  }
  std::unique_ptr<StoppedThread> thread(new StoppedThread(pid, libc));
  absl::Status status = thread->Seize();
  if (status.ok()) status = thread->Save();
  if (status.ok()) status = thread->CheckMoment();
  if (status.ok()) thread->InterruptWait(wait);
  if (status.ok()) status = thread->WriteFrame();
  if (!status.ok()) return status;
  return thread;
}

absl::Status StoppedThread::Seize() {
  if (ptrace(PTRACE_SEIZE, pid_, nullptr, PTRACE_O_TRACESYSGOOD) != 0) {
    const int error = errno;
    const absl::StatusOr<ProcessStatus> status = ReadProcessStatus(pid_);
    if (status.ok() && status->tracer != 0) return BadMoment(absl::StrCat("process ", status->tracer, " traces it"));
    return WhyRefused(pid_, error);
  }
  if (ptrace(PTRACE_INTERRUPT, pid_, nullptr, nullptr) != 0) return Gone(pid_);
  for (;;) {
    const absl::StatusOr<int> status = WaitForStop(pid_);
    if (absl::IsDeadlineExceeded(status.status())) {
      return absl::FailedPreconditionError(
          absl::StrCat("process ", pid_, " does not stop: its main thread is inside of the kernel (state D)"));
    }
    if (!status.ok()) return status.status();
    stopped_ = true;
    if (IsEventStop(*status)) {
      if (WSTOPSIG(*status) == SIGTRAP) return absl::OkStatus();
      return absl::FailedPreconditionError(
          absl::StrCat("process ", pid_, " is stopped: `kill -CONT ", pid_, "` lets it go on"));
    }
    // A signal of its own was first.
    ptrace(PTRACE_CONT, pid_, nullptr, WSTOPSIG(*status));
    stopped_ = false;
  }
}

absl::Status StoppedThread::Save() {
  auto saved = std::make_unique<Registers>();
  if (!saved->Get(pid_)) return WhyRefused(pid_, errno);
  saved_ = std::move(saved);
  return absl::OkStatus();
}

// A thread that works on its processor's own data without a lock begins again if the kernel finds it there; called
// functions would hide where it is.
bool StoppedThread::IsInCriticalSection() const {
#ifdef PTRACE_GET_RSEQ_CONFIGURATION
  __ptrace_rseq_configuration known = {};
  uint64_t section_address = 0;
  rseq_cs section;
  if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, pid_, sizeof known, &known) != sizeof known ||
      known.rseq_abi_pointer == 0 ||
      !ReadMemory(pid_, known.rseq_abi_pointer + offsetof(struct rseq, rseq_cs), &section_address) ||
      section_address == 0 || !ReadMemory(pid_, section_address, &section)) {
    return false;
  }
  return saved_->general.rip - section.start_ip < section.post_commit_offset;
#else
  return false;
#endif
}

absl::Status StoppedThread::CheckMoment() const {
  const uint64_t sp = saved_->general.rsp;
  const uint64_t frame = kRedZone + saved_->vectors.size() + sizeof(SignalFrame);
  const uint64_t limit = StackLimitOf(pid_);
  uint64_t below = 0;  // the end of the mapping below
  for (const Mapping& mapping : MappingsOf(pid_)) {
    if (mapping.path != "[stack]") {
      below = mapping.end;
      continue;
    }
    if (sp < mapping.begin || sp >= mapping.end) return BadMoment("its main thread uses another stack");
    // The stack grows when the thread itself writes below it: that is enough for called functions.
    if (sp - mapping.begin < frame) return BadMoment("its main thread is at its deepest call so far");
    if (sp < below + kStackGap + frame + kCallBytes || mapping.end - sp + frame + kCallBytes > limit) {
      return BadMoment("its main thread's stack is almost full");
    }
    return IsInCriticalSection() ? BadMoment("its main thread is in a critical section") : absl::OkStatus();
  }
  return BadMoment("its main thread has no stack of its own");
}

absl::Status StoppedThread::WriteFrame() {
  const size_t vector_bytes = BytesInFrame(saved_->vectors);
  // The vectors, in 64 bytes' steps, and the frame below them; a function is entered 8 bytes off 16.
  const uint64_t vectors = (saved_->general.rsp - kRedZone - vector_bytes - FP_XSTATE_MAGIC2_SIZE) & ~uint64_t{63};
  entry_sp_ = ((vectors - sizeof(SignalFrame)) & ~uint64_t{15}) - 8;

  const user_regs_struct regs = saved_->AfterHandler();
  SignalFrame frame = {};
  frame.return_address = libc_.sigreturn;
  frame.flags = kFrameFlags;
  frame.stack.ss_flags = kNoStackFlags;
  frame.mask = saved_->mask;
  sigcontext& context = frame.context;
  context.r8 = regs.r8, context.r9 = regs.r9, context.r10 = regs.r10, context.r11 = regs.r11;
  context.r12 = regs.r12, context.r13 = regs.r13, context.r14 = regs.r14, context.r15 = regs.r15;
  context.rdi = regs.rdi, context.rsi = regs.rsi, context.rbp = regs.rbp, context.rbx = regs.rbx;
  context.rdx = regs.rdx, context.rax = regs.rax, context.rcx = regs.rcx, context.rsp = regs.rsp;
  context.rip = regs.rip, context.eflags = regs.eflags;
  context.cs = static_cast<uint16_t>(regs.cs), context.__pad0 = static_cast<uint16_t>(regs.ss);
  context.fpstate = reinterpret_cast<_fpstate*>(vectors);  // NOLINT(performance-no-int-to-ptr)

  std::string state = saved_->vectors.substr(0, vector_bytes);
  auto* const shown = reinterpret_cast<_fpx_sw_bytes*>(state.data() + kSoftwareAt);
  uint64_t features = 0;
  std::memcpy(&features, shown, sizeof features);  // for debuggers: which ones there are
  *shown = {};
  shown->magic1 = FP_XSTATE_MAGIC1;
  shown->extended_size = static_cast<uint32_t>(vector_bytes + FP_XSTATE_MAGIC2_SIZE);
  shown->xstate_bv = features;
  shown->xstate_size = static_cast<uint32_t>(vector_bytes);
  const uint32_t end = FP_XSTATE_MAGIC2;
  state.append(reinterpret_cast<const char*>(&end), sizeof end);

  if (!WriteMemory(pid_, vectors, state) ||
      !WriteMemory(pid_, entry_sp_, {reinterpret_cast<const char*>(&frame), sizeof frame})) {
    return errno == EFAULT ? BadMoment("its stack is full") : WhyRefused(pid_, errno);
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> StoppedThread::Call(const RemoteFunction& function, const std::vector<uint64_t>& arguments) {
  if (!stopped_) return Gone(pid_);
  user_regs_struct regs = saved_->general;
  unsigned long long* const places[] = {&regs.rdi, &regs.rsi, &regs.rdx, &regs.rcx, &regs.r8, &regs.r9};
  for (size_t i = 0; i < arguments.size() && i < std::size(places); ++i) *places[i] = arguments[i];
  // In place of the system call that ends the call before, one that any filter allows.
  regs.orig_rax = returning_ ? SYS_getpid : kNoSystemCall;
  regs.rip = function.address;
  regs.rsp = entry_sp_;
  regs.eflags &= ~uint64_t{0x400};  // the direction flag
  // All but those that an instruction raises.
  uint64_t blocked = ~uint64_t{0};
  for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS}) blocked &= ~(uint64_t{1} << (number - 1));
  // The end of the call unblocks them, so it must be certain first.
  if (ptrace(PTRACE_SETREGS, pid_, nullptr, &regs) != 0) return WhyRefused(pid_, errno);
  called_ = true;
  ptrace(PTRACE_SETSIGMASK, pid_, sizeof blocked, &blocked);

  int64_t result = 0;
  bool inside = false;
  returning_ = false;
  while (ptrace(PTRACE_SYSCALL, pid_, nullptr, nullptr) == 0) {
    const absl::StatusOr<int> status = WaitForStop(pid_);
    if (absl::IsDeadlineExceeded(status.status())) {
      ptrace(PTRACE_INTERRUPT, pid_, nullptr, nullptr);
      if (!WaitForStop(pid_).ok()) break;
      return absl::InternalError(absl::StrCat("process ", pid_, " can't be attached to now: a call in it hangs"));
    }
    if (!status.ok()) break;
    if (IsEventStop(*status)) continue;  // somebody stops the process: it stops again when it goes on
    if (!IsSystemCallStop(*status)) {
      return absl::FailedPreconditionError(
          absl::StrCat("process ", pid_, " can't be attached to now: its Python is just starting or ending"));
    }
    __ptrace_syscall_info call = {};
    if (ptrace(PTRACE_GET_SYSCALL_INFO, pid_, sizeof call, &call) <= 0) break;
    if (call.op == PTRACE_SYSCALL_INFO_ENTRY) {
      inside = true;
      returning_ = call.entry.nr == SYS_rt_sigreturn && call.stack_pointer == entry_sp_ + sizeof(uint64_t);
      if (returning_) return result;
    } else if (std::exchange(inside, false)) {
      result = call.exit.rval;
    }
  }
  stopped_ = false;
  return Gone(pid_);
}

void StoppedThread::InterruptWait(const RemoteFunction& wait) {
  user_regs_struct& regs = saved_->general;
  const auto code = static_cast<int64_t>(regs.rax);
  if (regs.orig_rax != SYS_futex || (code != kRestartSys && code != kRestartBlock)) return;
  // The function must be among the nearest callers.
  uint64_t words[128] = {};
  if (!ReadMemory(pid_, regs.rsp, &words)) return;
  const bool waits = std::any_of(std::begin(words), std::end(words),
                                 [&wait](uint64_t word) { return word - wait.address < wait.bytes; });
  if (waits) regs.rax = static_cast<uint64_t>(-EINTR);
}

// After a call it is about to return as from a signal handler. In place of that the kernel makes the system call again
// in which the thread was stopped, if it was.
void StoppedThread::GoOn() {
  user_regs_struct regs = saved_->general;
  if (returning_) {
    const uint64_t number = saved_->Restarted();
    if (number == kNoSystemCall) return;
    regs.orig_rax = number;
  }
  // What the handler's end would restore, too, comes first.
  iovec set = {saved_->vectors.data(), saved_->vectors.size()};
  ptrace(PTRACE_SETREGSET, pid_, NT_X86_XSTATE, &set);
  ptrace(PTRACE_SETSIGMASK, pid_, sizeof saved_->mask, &saved_->mask);
  ptrace(PTRACE_SETREGS, pid_, nullptr, &regs);
}

StoppedThread::~StoppedThread() {
  if (!stopped_) return;
  if (called_) GoOn();
  ptrace(PTRACE_DETACH, pid_, nullptr, nullptr);
}

#else

struct StoppedThread::Registers {};

absl::StatusOr<std::unique_ptr<StoppedThread>> StoppedThread::Stop(pid_t pid, const RemoteLibc&,
                                                                   const RemoteFunction&) {
  return absl::UnimplementedError(absl::StrCat(
      "process ", pid, " can't be attached to: on this processor torchtrace attaches to Python 3.14 and later alone"));
}
StoppedThread::~StoppedThread() = default;
absl::StatusOr<int64_t> StoppedThread::Call(const RemoteFunction&, const std::vector<uint64_t>&) { return 0; }

#endif

}  // namespace torchtrace
