#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <Python.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>
#include <exception>
#include <iterator>
#include <mutex>

#include "dialects/torch/common/thread_starts.h"
#include "dialects/torch/dispatch/torch_dispatch_hook.h"
#include "tracer/record/native_threads.h"
#include "tracer/record/recorder.h"

namespace torchtrace::torch_dialect {
namespace {

// About every seventh operator of a thread is sampled; the others cost a countdown. PyTorch draws the countdown from a
// generator of each thread, all with the same seed, whose first draw gives 0 for probabilities from 0.1355 on: so the
// first operator of a new thread is always sampled.
constexpr double kLookedAt = 0.14;

constexpr const char* kSentences[] = {
    "level 2: operators called on threads that C++ made, or that were there before tracing",
    "level 2: operators called in parallel regions of C++ code",
};

std::unique_ptr<at::ObserverContext> Began(const at::RecordFunction&) {
  // If the key is excluded, this is inside a recorded operator.
  if (c10::impl::tls_is_dispatch_key_included(kDispatchKey) || c10::impl::tls_is_dispatch_key_excluded(kDispatchKey) ||
      torch::autograd::get_current_graph_task_id() != -1 || !Recorder::Recording() || Recorder::HoldsBack()) {
    return nullptr;
  }
  thread_local uint64_t told[std::size(kSentences)] = {};  // the session, by its g_arming
  const size_t which = at::in_parallel_region() ? 1 : 0;
  if (told[which] != g_arming) {
    told[which] = g_arming;
    Recorder::Get()->NoteNotSeen(kSentences[which]);
  }
  return nullptr;
}

at::RecordFunctionCallback Looking() {
  return at::RecordFunctionCallback(&Began).samplingProb(kLookedAt).scopes({at::RecordScope::FUNCTION});
}

std::mutex g_mutex;
bool g_installed = false;
// Read without the mutex too: by new threads, which must not hold it while another one forks.
std::atomic<at::CallbackHandle> g_callback = at::INVALID_CALLBACK_HANDLE;
std::atomic<bool> g_all_look = true;  // all native threads that have begun

// Looks on all threads. With such a callback, everything that sets PyTorch's thread-local state draws a new countdown,
// as each node of a backward pass does. So it is installed only if there is a thread that can't look itself.
void LookEverywhere() {
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (g_installed && g_callback == at::INVALID_CALLBACK_HANDLE) g_callback = at::addGlobalCallback(Looking());
}

// Looks on this thread, which has just begun; not twice, as only one of two callbacks would get the first draw.
void LookHere() {
  if (g_callback != at::INVALID_CALLBACK_HANDLE) {
    g_all_look = false;
    return;
  }
  try {
    at::addThreadLocalCallback(Looking());
  } catch (const std::exception&) {  // out of memory
    LookEverywhere();
  }
}

// Other Python threads have not armed themselves yet. Needs the GIL.
bool OtherPythonThreads() {
  PyThreadState* const first = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
  return first != nullptr && PyThreadState_Next(first) != nullptr;
}

WatchNativeThreadsFunction Watch() {
  return reinterpret_cast<WatchNativeThreadsFunction>(dlsym(RTLD_DEFAULT, kWatchNativeThreadsName));
}

}  // namespace

absl::Status ForeignThreadsHook::Install() {
  const WatchNativeThreadsFunction watch = Watch();
  {
    const std::lock_guard<std::mutex> lock(g_mutex);
    g_installed = true;
  }
  const bool all_look =
      watch != nullptr && watch(LookHere, LookEverywhere, StartsPythonThread) && g_all_look && !OtherPythonThreads();
  if (!all_look) LookEverywhere();
  return absl::OkStatus();
}

void ForeignThreadsHook::Uninstall() {
  // Threads that look go on looking, as nobody else can stop them; and so do new ones, for the next session.
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_installed = false;
  if (g_callback != at::INVALID_CALLBACK_HANDLE) at::removeCallback(g_callback);
  g_callback = at::INVALID_CALLBACK_HANDLE;
}

}  // namespace torchtrace::torch_dialect
