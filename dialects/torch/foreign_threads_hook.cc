#include "dialects/torch/foreign_threads_hook.h"

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/graph_task.h>

#include <mutex>

#include "dialects/torch/dispatch_key.h"
#include "dialects/torch/thread_state.h"
#include "tracer/native_threads.h"

namespace torchtrace::torch_dialect {
namespace {

// Of a thread's operators every fiftieth or so is looked at: what isn't costs a countdown.
constexpr double kLookedAt = 0.02;

std::unique_ptr<at::ObserverContext> Began(const at::RecordFunction&) {
  // Excluded: inside an operator that is recorded. In a parallel region, likewise.
  if (ThisThreadIsArmed() || c10::impl::tls_is_dispatch_key_included(kDispatchKey) ||
      c10::impl::tls_is_dispatch_key_excluded(kDispatchKey) || at::in_parallel_region() ||
      torch::autograd::get_current_graph_task_id() != -1 || !Recorder::Recording()) {
    return nullptr;
  }
  thread_local bool told = false;
  if (!told) {
    told = true;
    Recorder::Get()->NoteNotSeen("level 2: operators called on threads that C++ made");
  }
  return nullptr;
}

std::mutex g_mutex;
bool g_installed = false;
at::CallbackHandle g_callback = at::INVALID_CALLBACK_HANDLE;

// While there is a callback, what sets PyTorch's thread-local state draws lots again: each node of a
// backward pass does. So there is one only where there is a thread that it is for.
void Look() {
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (!g_installed || g_callback != at::INVALID_CALLBACK_HANDLE) return;
  g_callback = at::addGlobalCallback(
      at::RecordFunctionCallback(&Began).samplingProb(kLookedAt).scopes({at::RecordScope::FUNCTION}));
}

WatchNativeThreadsFunction Watch() {
  return reinterpret_cast<WatchNativeThreadsFunction>(dlsym(RTLD_DEFAULT, kWatchNativeThreadsName));
}

}  // namespace

absl::Status ForeignThreadsHook::Install() {
  {
    const std::lock_guard<std::mutex> lock(g_mutex);
    g_installed = true;
  }
  if (const WatchNativeThreadsFunction watch = Watch()) {
    watch(Look);
  } else {
    Look();
  }
  return absl::OkStatus();
}

void ForeignThreadsHook::Uninstall() {
  if (const WatchNativeThreadsFunction watch = Watch()) watch(nullptr);
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_installed = false;
  if (g_callback != at::INVALID_CALLBACK_HANDLE) at::removeCallback(g_callback);
  g_callback = at::INVALID_CALLBACK_HANDLE;
}

}  // namespace torchtrace::torch_dialect
