#include "dialects/torch/foreign_threads_hook.h"

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/graph_task.h>

#include "dialects/torch/dispatch_key.h"
#include "dialects/torch/thread_state.h"

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

}  // namespace

absl::Status ForeignThreadsHook::Install() {
  callback_ = at::addGlobalCallback(
      at::RecordFunctionCallback(&Began).samplingProb(kLookedAt).scopes({at::RecordScope::FUNCTION}));
  return absl::OkStatus();
}

void ForeignThreadsHook::Uninstall() {
  if (callback_ != 0) at::removeCallback(callback_);
  callback_ = 0;
}

}  // namespace torchtrace::torch_dialect
