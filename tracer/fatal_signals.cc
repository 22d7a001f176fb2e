#include "tracer/fatal_signals.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "tracer/recorder.h"
#include "tracer/standard_error.h"

namespace torchtrace {
namespace {

// Every signal whose default action ends the process, but for SIGKILL, for
// SIGPIPE and SIGXFSZ (Python ignores them) and for SIGINT (Python handles it).
constexpr int kSignals[] = {SIGHUP,  SIGQUIT, SIGILL,  SIGTRAP, SIGABRT,   SIGBUS,  SIGFPE, SIGSEGV, SIGTERM,  SIGUSR1,
                            SIGUSR2, SIGALRM, SIGPROF, SIGXCPU, SIGVTALRM, SIGPOLL, SIGPWR, SIGSYS,  SIGSTKFLT};

// The main thread's own stack may be what ran out.
constexpr size_t kStackBytes = 64 << 10;

const char* volatile g_message = nullptr;
const StandardErrorWatch* g_standard_error = nullptr;
pid_t g_main_pid = 0;

// Only async-signal-safe calls.
void OnFatalSignal(int signal, siginfo_t* info, void*) {
  const int saved_errno = errno;
  Recorder::Get()->FinishFromSignal(signal);
  const char* const message = g_message;
  if (message != nullptr && getpid() == g_main_pid && g_standard_error->IsTheSame() &&
      write(STDERR_FILENO, message, std::strlen(message)) < 0) {
    // There is no other place to say it.
  }
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  errno = saved_errno;
  // A fault of the processor comes again when the handler returns. Anything else
  // is sent again as it came, and waits until then: it is blocked here.
  const bool fault = signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE;
  if (fault && info != nullptr && info->si_code > 0) return;
  if (info == nullptr || syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, info) != 0) {
    raise(signal);
  }
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

// Where the action is the default one.
void Watch(int signal) {
  struct sigaction now;
  if (sigaction(signal, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL) return;
  struct sigaction ours = {};
  ours.sa_sigaction = OnFatalSignal;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigfillset(&ours.sa_mask);
  sigaction(signal, &ours, nullptr);
}

}  // namespace

void ChangeFatalSignalMessage(const char* message) { g_message = message; }

void WatchFatalSignals(const char* message) {
  g_standard_error = new StandardErrorWatch();
  g_message = message;
  g_main_pid = getpid();
  UseAlternateStack();
  for (int signal : kSignals) Watch(signal);
}

void WatchSignalAgain(int signal) {
  if (signal == SIGINT || std::find(std::begin(kSignals), std::end(kSignals), signal) != std::end(kSignals)) {
    Watch(signal);
  }
}

}  // namespace torchtrace
