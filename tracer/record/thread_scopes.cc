// Calls that don't end with their hook: scopes that the program opens and closes by two calls, and calls that were open
// before the thread's first record.

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tracer/record/recorder.h"
#include "tracer/record/thread_recorder.h"

namespace torchtrace {

void ThreadRecorder::Raise(std::string_view exception) {
  if (scopes_.empty()) return RaiseInnermost(exception);
  EndAmongScopes([&] { RaiseInnermost(exception); });
}

void ThreadRecorder::OpenScope(uint64_t key, std::string_view config, uint32_t identity_bytes,
                               const CallExtras& extras) {
  const uint64_t now = ClockNow();
  if (!IsUpToDate()) return;
  CloseScopesClosedElsewhere();
  recorder_->OrStop([&] {
    scopes_.push_back({key, std::string(config), identity_bytes, *extras.facts, std::string(extras.notes), now});
    ++waiting_scopes_;
  });
}

void ThreadRecorder::CloseScope(uint64_t key, bool raised) {
  // A closed scope stays while calls in it are open, and another one may have its key by now.
  const auto find = [&] {
    return std::find_if(scopes_.begin(), scopes_.end(),
                        [&](const Scope& scope) { return scope.key == key && !scope.closed; });
  };
  const auto opened = find();
  if (opened == scopes_.end()) return;
  // Scopes that were opened later may outlive it, and go on waiting.
  const auto later = static_cast<size_t>(scopes_.end() - opened) - 1;
  if (waiting_scopes_ > later) BeginScopes(waiting_scopes_ - later);
  const auto scope = find();
  if (scope == scopes_.end()) return;  // filtered out
  scope->closed = true;
  scope->raised = raised;
  EndClosedScopes();
}

void ThreadRecorder::SettleScopes() {
  CloseScopesClosedElsewhere();
  if (waiting_scopes_ != 0) BeginScopes(waiting_scopes_);
}

void ThreadRecorder::CloseScopesClosedElsewhere() {
  if (closed_elsewhere_ == nullptr) return;
  closed_elsewhere_->ForEach([this](uint64_t key) { CloseScope(key, /*raised=*/false); });
}

void ThreadRecorder::ForgetWaitingScopes() {
  scopes_.erase(scopes_.end() - static_cast<ptrdiff_t>(std::exchange(waiting_scopes_, 0)), scopes_.end());
}

void ThreadRecorder::BeginScopes(size_t count) {
  recorder_->OrStop([&] {
    // Entering a call may begin another session, which forgets all scopes.
    const auto first = scopes_.end() - static_cast<ptrdiff_t>(waiting_scopes_);
    const auto last = first + static_cast<ptrdiff_t>(count);
    std::vector<Scope> beginning(std::make_move_iterator(first), std::make_move_iterator(last));
    scopes_.erase(first, last);
    waiting_scopes_ -= count;
    for (Scope& scope : beginning) {
      if (!EnterAt(scope.time, scope.config, scope.identity_bytes, {&scope.facts, scope.notes}, nullptr)) continue;
      scope.depth = open_calls_;
      scopes_.insert(scopes_.end() - static_cast<ptrdiff_t>(waiting_scopes_), std::move(scope));
    }
  });
}

void ThreadRecorder::EndInnermostScope() {
  InnermostScope()->raised ? RaiseInnermost({}) : LeaveInnermost();
  scopes_.erase(scopes_.end() - static_cast<ptrdiff_t>(waiting_scopes_) - 1);
}

void ThreadRecorder::EndClosedScopes() {
  for (const Scope* scope = InnermostScope(); scope != nullptr && scope->closed; scope = InnermostScope()) {
    EndInnermostScope();
  }
}

bool ThreadRecorder::EnterOpenCall(std::string_view config, uint32_t identity_bytes) {
  if (open_calls_ != before_calls_ || !Enter(config, identity_bytes)) return false;
  ++before_calls_;
  return true;
}

void ThreadRecorder::LeaveOpenCall() {
  EndAmongScopes([this] {
    if (before_calls_ == 0 || open_calls_ != before_calls_) return;
    --before_calls_;
    LeaveInnermost();
  });
}

}  // namespace torchtrace
