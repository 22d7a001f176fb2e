// What each thread of the traced program keeps for the hooks of all levels: its recorder, and the scratch buffer in
// which its calls are described, one at a time. Reading it costs one thread-local access.

#ifndef TORCHTRACE_TRACER_RECORD_THREAD_STATE_H_
#define TORCHTRACE_TRACER_RECORD_THREAD_STATE_H_

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/functional/function_ref.h"
#include "serialize/model/config_builder.h"
#include "tracer/record/call_key.h"
#include "tracer/record/export.h"
#include "tracer/record/recorder.h"
#include "tracer/record/static_tls.h"

namespace torchtrace {

struct ThreadState {
  using Describe = absl::FunctionRef<void(ConfigBuilder*)>;

  ThreadRecorder* recorder = nullptr;  // null until the first call, and when the thread ends
  ConfigBuilder* config = nullptr;     // null until the first call
  CallKey* key = nullptr;              // null until the first call
  int suspended = 0;                   // not 0: the running code isn't the program's, or the thread ends
  bool describing = false;             // a call's description is under way

  // False: this thread records nothing now. True: the recorder and the scratch exist, created at the thread's first
  // call.
  bool Recording() {
    if (suspended != 0 || !Recorder::Recording()) [[unlikely]] {
      return false;
    }
    return recorder != nullptr || Attach();
  }

  // The same while the session is paused, too.
  bool InSession() {
    if (suspended != 0 || !Recorder::SessionIsOn()) return false;
    return recorder != nullptr || Attach();
  }

  // Describes a call by `describe(config)` and records that it was entered. True: Leave or Raise must end it. No error
  // of the description reaches the program: if memory runs out, recording stops; if something can't be described, the
  // call is recorded without its arguments and counted. `describe` may be called twice. `facts`: for calls of level 4.
  // If `describe` also takes a CallKey*, calls whose key is known are not described. That must not throw.
  template <typename DescribeCall>
  bool Enter(const DescribeCall& describe, const RecordFacts* facts = nullptr) {
    // If a description runs code of the program, its calls would fill the same scratch.
    if (!Recording() || describing || IsHeldBack([&](ConfigBuilder* config) { describe(config); })) return false;
    if constexpr (std::is_invocable_v<const DescribeCall&, CallKey*>) {
      describe(key);
      if (key->valid()) [[likely]] {
        const ThreadRecorder::Again again = recorder->EnterAgain(*key, facts);
        if (again != ThreadRecorder::Again::kUnknown) [[likely]]
          return again == ThreadRecorder::Again::kEntered;
      }
      return EnterDescribed([&](ConfigBuilder* config) { describe(config); }, facts, key);
    } else {
      return EnterDescribed(describe, facts, nullptr);
    }
  }

  // The same with a kept description from ConfigBuilder::Finish.
  bool EnterKnown(std::string_view bytes, uint32_t identity_bytes) {
    if (!Recording() || describing) return false;
    return Recorder::HoldsBack() ? recorder->LeaveOut(bytes) : recorder->Enter(bytes, identity_bytes);
  }

  // Describes a scope in the same way (ThreadRecorder::OpenScope). Null: it isn't recorded. Else CloseScope ends it.
  std::shared_ptr<Scope> OpenScope(Describe describe, const RecordFacts& facts) {
    if (!Recording() || describing || IsHeldBack(describe)) return nullptr;
    bool whole = false;
    const std::string_view bytes = Described(describe, &whole);
    if (bytes.empty()) return nullptr;
    return recorder->OpenScope(bytes, config->identity_bytes(), {&facts, config->notes()});
  }
  // By any thread.
  void CloseScope(Scope* scope, bool raised) { ThreadRecorder::CloseScope(recorder, scope, raised); }

  void Leave() {
    if (recorder != nullptr) recorder->Leave();
  }
  // The same with the result, which `describe(config)` describes, from BeginResult on. Calls `describe` only if results
  // are recorded.
  template <typename DescribeResult>
  void Leave(const DescribeResult& describe) {
    Recorder::WantsResults() ? LeaveWithResult(describe) : Leave();
  }
  void Raise(std::string_view exception) {
    if (recorder != nullptr) recorder->Raise(exception);
  }
  // The same with notes on what the call wrote: `describe(config)` describes the call again, until KeepWritten.
  void Raise(std::string_view exception, Describe describe) {
    if (recorder == nullptr) return;
    const uint64_t now = ClockNow();
    recorder->Raise(exception, DescribesEnd(describe) ? config->written() : std::string_view(), now);
  }
  void CountGetter() {
    if (Recording()) recorder->CountGetter();
  }

 private:
  // A call that the user holds back is described only if its name decides whether it counts.
  bool IsHeldBack(Describe describe) {
    if (!Recorder::HoldsBack()) [[likely]]
      return false;
    bool whole = false;
    recorder->LeaveOut(recorder->IsFiltered() ? Described(describe, &whole) : std::string_view());
    return true;
  }

  class DescribedAgain final : public FirstNotes {
   public:
    DescribedAgain(ThreadState* thread, Describe describe) : thread_(thread), describe_(describe) {}
    std::string_view Take() override {
      ConfigBuilder* const config = thread_->config;
      config->set_takes_first_notes(true);
      const bool described =
          thread_->Guarded([&] { describe_(config); }, [] { return "calls without notes on their tensors"; });
      config->set_takes_first_notes(false);
      return described ? config->notes() : std::string_view();
    }

   private:
    ThreadState* const thread_;
    const Describe describe_;
  };

  TORCHTRACE_EXPORT bool Attach();

  bool EnterDescribed(Describe describe, const RecordFacts* facts, const CallKey* call_key) {
    bool whole = false;
    const std::string_view bytes = Described(describe, &whole);
    if (bytes.empty()) return false;
    if (!whole) call_key = nullptr;
    DescribedAgain again(this, describe);
    const bool entered =
        recorder->Enter(bytes, config->identity_bytes(),
                        {facts, config->notes(), config->offers_first_notes() ? &again : nullptr}, call_key);
    if (config->has_later()) [[unlikely]]
      Recorder::TellEntered(entered);
    return entered;
  }

  void LeaveWithResult(Describe describe) {
    if (recorder == nullptr) return;
    if (suspended != 0 || describing) return recorder->Leave();
    // The description is not part of the call.
    const uint64_t now = ClockNow();
    const bool described = DescribesEnd(describe);
    recorder->Leave(described ? config->FinishResult() : CallResult(), now);
  }

  bool DescribesEnd(Describe describe) {
    if (suspended != 0 || describing) return false;
    config->ForgetWritten();
    return Guarded([&] { describe(config); }, [] { return "calls without their result"; });
  }

  // Empty: nothing is recorded. Sets `whole`: nothing is missing.
  std::string_view Described(Describe describe, bool* whole) {
    std::string_view bytes;
    config->bytes()->clear();
    *whole = Guarded(
        [&] {
          describe(config);
          bytes = config->Finish();
        },
        [&] {
          if (!DropArguments()) return "calls that are missing";
          bytes = config->Finish();
          return "calls without their arguments";
        });
    return bytes;
  }

  // False: `body` threw. If memory ran out, recording stops; otherwise what `lost()` returns is counted as lost.
  bool Guarded(absl::FunctionRef<void()> body, absl::FunctionRef<const char*()> lost) {
    describing = true;
    bool done = false;
    try {
      try {
        body();
        done = true;
      } catch (const std::bad_alloc&) {
        throw;
      } catch (const std::exception& error) {
        Recorder::Get()->CountLost(lost(), [&error] { return std::string(error.what()); });
      }
    } catch (const std::bad_alloc& error) {
      Recorder::Get()->Stop(error.what());
    }
    describing = false;
    return done;
  }

  // After a failed description: keeps the call's name, with one argument that reports the failure. False: not even the
  // name is known.
  TORCHTRACE_EXPORT bool DropArguments();
};

extern constinit thread_local ThreadState t_thread TORCHTRACE_EXPORT TORCHTRACE_STATIC_TLS;

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_THREAD_STATE_H_
