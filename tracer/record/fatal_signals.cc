#include "tracer/record/fatal_signals.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "tracer/record/recorder.h"
#include "tracer/record/standard_error.h"

namespace torchtrace {
namespace {

// Every signal whose default action ends the process, except SIGKILL, SIGPIPE and SIGXFSZ (Python ignores them) and
// SIGINT (Python handles it).
constexpr int kSignals[] = {SIGHUP,  SIGQUIT, SIGILL,  SIGTRAP, SIGABRT,   SIGBUS,  SIGFPE, SIGSEGV, SIGTERM,  SIGUSR1,
                            SIGUSR2, SIGALRM, SIGPROF, SIGXCPU, SIGVTALRM, SIGPOLL, SIGPWR, SIGSYS,  SIGSTKFLT};

// For an alternate stack, as the main thread may have overflowed its own.
constexpr size_t kStackBytes = 64 << 10;

const char* volatile g_message = nullptr;
const StandardErrorWatch* g_watched_standard_error = nullptr;
pid_t g_main_pid = 0;

// Whether it is a processor fault, which is raised again when the handler returns.
bool IsFault(int signal, const siginfo_t* info) {
  return (signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE) && info != nullptr &&
         info->si_code > 0;
}

// Dies of the same signal when the handler returns: until then it is blocked.
void DieOf(int signal, siginfo_t* info) {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  if (IsFault(signal, info)) return;
  if (info == nullptr || syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, info) != 0) {
    raise(signal);
  }
}

bool IsRecovered(int signal, const siginfo_t* info) {
  const int saved_errno = errno;
  // SIGSEGV: in a process that was forked without the fork handlers, where no frame is mapped.
  const bool recovered =
      (signal == SIGBUS || signal == SIGSEGV) && IsFault(signal, info) && Recorder::RecoverFrame(info->si_addr);
  errno = saved_errno;
  return recovered;
}

// Closes the log and prints the message. Only async-signal-safe calls.
void EndBySignal(int signal) {
  Recorder::Get()->FinishFromSignal(signal);
  const char* const message = g_message;
  if (message != nullptr && getpid() == g_main_pid && g_watched_standard_error->IsTheSame()) {
    const iovec text = {const_cast<char*>(message), std::strlen(message)};
    if (WriteWithoutSignal(STDERR_FILENO, &text, 1) < 0) {
      // There is no other place to print it.
    }
  }
}

void OnFatalSignal(int signal, siginfo_t* info, void*) {
  if (IsRecovered(signal, info)) return;
  const int saved_errno = errno;
  EndBySignal(signal);
  DieOf(signal, info);
  errno = saved_errno;
}

bool IsFunction(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

void Call(const struct sigaction& action, int signal, siginfo_t* info, void* context) {
  if ((action.sa_flags & SA_RESETHAND) != 0) {
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    sigaction(signal, &standard, nullptr);
  }
  if ((action.sa_flags & SA_SIGINFO) != 0) {
    action.sa_sigaction(signal, info, context);
  } else {
    action.sa_handler(signal);
  }
}

// See WatchHandlersOf.
struct sigaction g_library_handlers[std::size(kSignals)] = {};

void OnLibrarySignal(int signal, siginfo_t* info, void* context) {
  if (IsRecovered(signal, info)) return;
  EndBySignal(signal);
  Call(g_library_handlers[std::find(std::begin(kSignals), std::end(kSignals), signal) - std::begin(kSignals)], signal,
       info, context);
}

// The program's action for a SIGBUS that is not the log's.
struct sigaction g_bus_before = {};
bool g_watching_bus = false;
// The program has replaced our handler and may call it from its own, which ours must then never call.
bool g_bus_handler_is_known = false;

void OnBusError(int signal, siginfo_t* info, void* context) {
  if (IsRecovered(signal, info)) return;
  const struct sigaction before = g_bus_before;
  if (IsFunction(before)) return Call(before, signal, info, context);
  if (before.sa_handler == SIG_DFL || IsFault(signal, info)) DieOf(signal, info);
}

bool IsHandledBy(const struct sigaction& action, void (*handler)(int, siginfo_t*, void*)) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == handler;
}

void UseAlternateStack() {
  stack_t now = {};
  if (sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;
  void* const memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t stack = {};
  stack.ss_sp = memory;
  stack.ss_size = kStackBytes;
  sigaltstack(&stack, nullptr);
}

// Installs our handler over the default action, and no other.
void Watch(int signal) {
  struct sigaction now;
  if (sigaction(signal, nullptr, &now) != 0 || IsFunction(now) || now.sa_handler != SIG_DFL) return;
  struct sigaction ours = {};
  ours.sa_sigaction = OnFatalSignal;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigfillset(&ours.sa_mask);
  for (const int own : {SIGBUS, SIGSEGV}) sigdelset(&ours.sa_mask, own);  // the handler's stores to the log raise them
  sigaction(signal, &ours, nullptr);
}

}  // namespace

void ChangeFatalSignalMessage(const char* message) { g_message = message; }

void WatchFatalSignals(const char* message) {
  g_watched_standard_error = new StandardErrorWatch();
  g_message = message;
  g_main_pid = getpid();
  UseAlternateStack();
  for (int signal : kSignals) Watch(signal);
}

void WatchHandlersOf(const char* library) {
  if (g_watched_standard_error == nullptr) return;  // this process's signals are not watched
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    struct sigaction now;
    Dl_info place;
    if (sigaction(kSignals[i], nullptr, &now) != 0 || !IsFunction(now) ||
        dladdr(reinterpret_cast<void*>(now.sa_sigaction), &place) == 0 ||
        !std::string_view(place.dli_fname).ends_with(library)) {
      continue;
    }
    g_library_handlers[i] = now;
    struct sigaction ours = now;
    ours.sa_sigaction = OnLibrarySignal;
    ours.sa_flags = (now.sa_flags | SA_SIGINFO) & ~SA_RESETHAND;
    sigaction(kSignals[i], &ours, nullptr);
  }
}

void WatchBusErrors() {
  struct sigaction now;
  if (g_bus_handler_is_known || sigaction(SIGBUS, nullptr, &now) != 0 || IsHandledBy(now, OnFatalSignal) ||
      IsHandledBy(now, OnBusError)) {
    return;
  }
  g_bus_before = now;
  struct sigaction ours = {};
  ours.sa_sigaction = OnBusError;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | (now.sa_flags & (SA_NODEFER | SA_RESTART));
  ours.sa_mask = now.sa_mask;
  g_watching_bus = sigaction(SIGBUS, &ours, nullptr) == 0;
}

bool IsWatchingBusErrors() {
  struct sigaction now;
  return sigaction(SIGBUS, nullptr, &now) == 0 && IsHandledBy(now, OnBusError);
}

void UnwatchBusErrors() {
  struct sigaction now;
  if (!std::exchange(g_watching_bus, false) || sigaction(SIGBUS, nullptr, &now) != 0) return;
  if (IsHandledBy(now, OnBusError)) {
    sigaction(SIGBUS, &g_bus_before, nullptr);
  } else {
    g_bus_handler_is_known = true;
  }
}

void WatchSignalAgain(int signal) {
  if (signal == SIGINT || std::find(std::begin(kSignals), std::end(kSignals), signal) != std::end(kSignals)) {
    Watch(signal);
  }
  // We must get the log's bus errors first: another handler that returns from one gets it again, for ever.
  struct sigaction now;
  if (signal == SIGBUS && sigaction(SIGBUS, nullptr, &now) == 0 &&
      ((now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_IGN)) {
    WatchBusErrors();
  }
}

}  // namespace torchtrace
