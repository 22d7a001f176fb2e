#include "cmd/cli/ending_signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <thread>

#include "cmd/cli/exit_code.h"
#include "cmd/cli/message.h"
#include "serialize/base/unfinished.h"

namespace torchtrace {
namespace {

constexpr size_t kReserveBytes = 1 << 20;

// To clean up with.
std::atomic<char*> g_reserve{nullptr};

void OnNoMemory() {
  static thread_local bool is_ending = false;
  if (is_ending) _exit(kExitTrouble);
  is_ending = true;
  char* const reserve = g_reserve.exchange(nullptr);
  // Another thread ends the process.
  while (reserve == nullptr) pause();
  delete[] reserve;
  RemoveUnfinished();
  _exit(Fail(kExitTrouble, "there is no memory left"));
}

// But for those that are ignored, as under nohup.
sigset_t EndingSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action;
    const bool ignored = sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
    if (!ignored) sigaddset(&signals, number);
  }
  return signals;
}

}  // namespace

void EndWithoutMemory() {
  g_reserve = new char[kReserveBytes];
  std::set_new_handler(OnNoMemory);
}

void MakeWritesFail() {
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
}

void HoldEndingSignals() {
  const sigset_t signals = EndingSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

// A thread waits for the signals, cleans up, and lets the process end. A fork has its
// parent's mask and not its thread: it gets one of its own.
void CleanUpOnSignals() {
  static pid_t watched = 0;
  if (watched == getpid()) return;
  watched = getpid();
  const sigset_t signals = EndingSignals();
  // Other threads of ours are none: so nobody takes them but the one that waits.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals] {
    int number = 0;
    if (sigwait(&signals, &number) != 0) return;
    // The main thread can't tell of the failures that this causes.
    RemoveUnfinished();
    signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    kill(getpid(), number);
  }).detach();
}

}  // namespace torchtrace
