// Calls that don't end with their hook: scopes that the program opens and closes by two calls, and calls that were open
// before the thread's first record.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tracer/record/recorder.h"
#include "tracer/record/thread_recorder.h"

namespace torchtrace {

void ThreadRecorder::Raise(std::string_view exception, std::string_view written, uint64_t time) {
  if (scopes_.empty()) return RaiseInnermost(exception, written, time);
  EndAmongScopes(time, [&] { RaiseInnermost(exception, written, time); });
}

std::shared_ptr<Scope> ThreadRecorder::OpenScope(std::string_view config, uint32_t identity_bytes,
                                                 const CallExtras& extras) {
  const uint64_t now = ClockNow();
  if (!IsUpToDate()) return nullptr;
  if (!scopes_.empty()) EndClosedScopes();
  return recorder_->OrStop([&] {
    auto scope = std::make_shared<Scope>();
    scope->config_ = config;
    scope->identity_bytes_ = identity_bytes;
    scope->facts_ = *extras.facts;
    scope->notes_ = extras.notes;
    scope->opened_ = now;
    scopes_.push_back(scope);
    ++waiting_scopes_;
    return scope;
  });
}

void ThreadRecorder::CloseScope(ThreadRecorder* thread, Scope* scope, bool raised) {
  scope->raised_.store(raised, std::memory_order_relaxed);
  scope->closed_.store(ClockNow(), std::memory_order_release);
  if (thread == nullptr) return;
  const auto is_it = [&](const std::shared_ptr<Scope>& own) { return own.get() == scope; };
  if (std::any_of(thread->scopes_.begin(), thread->scopes_.end(), is_it)) thread->EndClosedScopes();
}

void ThreadRecorder::SettleScopes() {
  EndClosedScopes();
  if (waiting_scopes_ != 0) BeginScopes(waiting_scopes_);
}

void ThreadRecorder::EndClosedScopes() {
  // Before a waiting scope that is closed can end it begins, and those around it. Scopes that were opened later may
  // outlive it, and go on waiting.
  const auto is_closed = [](const std::shared_ptr<Scope>& scope) {
    return scope->closed_.load(std::memory_order_acquire) != 0;
  };
  while (waiting_scopes_ != 0) {
    const auto waiting = scopes_.end() - static_cast<ptrdiff_t>(waiting_scopes_);
    const auto closed = std::find_if(waiting, scopes_.end(), is_closed);
    if (closed == scopes_.end()) break;
    BeginScopes(static_cast<size_t>(closed - waiting) + 1);
  }
  for (const Scope* scope = InnermostScope(); scope != nullptr && scope->closed_.load(std::memory_order_acquire) != 0;
       scope = InnermostScope()) {
    EndInnermostScope();
  }
}

void ThreadRecorder::ForgetWaitingScopes() {
  scopes_.erase(scopes_.end() - static_cast<ptrdiff_t>(std::exchange(waiting_scopes_, 0)), scopes_.end());
}

void ThreadRecorder::BeginScopes(size_t count) {
  // Entering a call may begin another session, which forgets all scopes.
  for (; count != 0 && waiting_scopes_ != 0; --count) {
    const auto first = scopes_.end() - static_cast<ptrdiff_t>(waiting_scopes_--);
    std::shared_ptr<Scope> scope = std::move(*first);
    scopes_.erase(first);
    const CallExtras extras = {&scope->facts_, scope->notes_};
    if (!EnterAt(scope->opened_, scope->config_, scope->identity_bytes_, extras, nullptr)) continue;
    scope->depth_ = open_calls_;
    scopes_.insert(scopes_.end() - static_cast<ptrdiff_t>(waiting_scopes_), std::move(scope));
  }
}

void ThreadRecorder::EndInnermostScope(uint64_t time) {
  const Scope& scope = *InnermostScope();
  if (const uint64_t closed = scope.closed_.load(std::memory_order_acquire); closed != 0) time = closed;
  scope.raised_.load(std::memory_order_relaxed) ? RaiseInnermost({}, {}, time) : LeaveInnermost({}, time);
  scopes_.erase(scopes_.end() - static_cast<ptrdiff_t>(waiting_scopes_) - 1);
}

bool ThreadRecorder::EnterOpenCall(std::string_view config, uint32_t identity_bytes) {
  if (Recorder::HoldsBack()) return LeaveOut(config);
  if (open_calls_ != before_calls_ || !Enter(config, identity_bytes)) return false;
  ++before_calls_;
  return true;
}

void ThreadRecorder::LeaveOpenCall() {
  EndAmongScopes(/*time=*/0, [this] {
    if (before_calls_ == 0 || open_calls_ != before_calls_) return;
    --before_calls_;
    LeaveInnermost();
  });
}

}  // namespace torchtrace
