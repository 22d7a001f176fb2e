// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "dialects/python/frame/python_calls.h"

#include <Python.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dialects/python/describe/object_names.h"
#include "dialects/python/setattr/frame_evaluation.h"
#include "dialects/python/setattr/recorded_calls.h"
#include "serialize/base/matching.h"
#include "serialize/base/text.h"
#include "serialize/model/config_builder.h"
#include "tracer/cpython/frames.h"
#include "tracer/cpython/objects.h"
#include "tracer/record/thread_state.h"

namespace torchtrace::python_dialect {
namespace {

// All below is guarded by the GIL.

// How a call is handled; passed from Begin to End.
enum What : int {
  kHidden,  // it is not recorded
  kClosed,  // and neither is what it calls
  kRecorded,
};

// How a code object's calls are recorded, kept with it.
struct KnownCode {
  uint64_t installation = 0;          // for which it was computed
  const PyObject* globals = nullptr;  // of the frame for which it was computed
  What what = kHidden;
  std::string config;
  uint32_t identity_bytes = 0;
};
void FreeKnownCode(void* known) { delete static_cast<KnownCode*>(known); }
Py_ssize_t g_place = -1;

struct Installation {
  uint64_t number = 0;
  const RecordingOptions* options = nullptr;  // null: none
  const std::vector<std::string>*plumbing = nullptr, *closed = nullptr;
  std::string folder;
  ConfigBuilder config;
};
Installation& Now() {
  static auto* const now = new Installation;
  return *now;
}

struct CallsOfThread {
  uint64_t depth = 0;   // number of open recorded calls
  uint64_t closed = 0;  // number of open closed calls
  // The open calls that began before the thread's first record of the session, outermost first.
  std::vector<const InterpreterFrame*> from_before;
};
thread_local CallsOfThread t_calls;

bool Matches(const std::vector<std::string>& globs, std::string_view file, std::string_view whole) {
  return std::any_of(globs.begin(), globs.end(),
                     [&](const std::string& glob) { return GlobMatch(glob, file) || GlobMatch(glob, whole); });
}

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void WorkOut(const InterpreterFrame* frame, KnownCode* known) {
  Installation& now = Now();
  PyCodeObject* const code = CodeOf(frame);
  known->installation = now.number;
  known->globals = frame->f_globals;
  known->what = kHidden;
  const std::string whole = TextOf(code->co_filename);
  const std::string_view file = ShortSourcePath(whole, now.folder);
  PyObject* const module_name =
      PyDict_Check(frame->f_globals) ? PyDict_GetItemString(frame->f_globals, "__name__") : nullptr;
  std::string module = TextOf(module_name);
  if (module.empty()) module = "<UnknownModule>";
  const std::string api = absl::StrCat(module, ".", TextOf(QualifiedName(code)));
  // The import system is left out of tracebacks too.
  if (module == "torchtrace" || IsOf("torchtrace", module) || whole.starts_with("<frozen importlib")) return;
  if (Contains(*now.plumbing, api)) return;
  if (Contains(*now.closed, api)) {
    known->what = kClosed;
    return;
  }
  const RecordingOptions& options = *now.options;
  if (!options.frame_include.empty() && !Matches(options.frame_include, file, whole)) return;
  if (Matches(options.frame_exclude, file, whole)) return;
  known->what = kRecorded;
  now.config.Begin(ConfigBuilder::EncodeHead(kFrameLevel, api));
  now.config.Positional(0);
  now.config.Keywords(2);
  now.config.Keyword("file");
  now.config.values().String(KeptText(file), file.size());
  now.config.Keyword("line");
  now.config.values().Int(code->co_firstlineno);
  known->config = now.config.Finish();
  known->identity_bytes = now.config.identity_bytes();
}

// Null: hidden.
const KnownCode* Known(const InterpreterFrame* frame) {
  PyCodeObject* const code = CodeOf(frame);
  void* kept = nullptr;
  if (GetAtCode(code, g_place, &kept) != 0) {
    PyErr_Clear();
    return nullptr;
  }
  auto* known = static_cast<KnownCode*>(kept);
  if (known == nullptr || known->installation != Now().number || known->globals != frame->f_globals) [[unlikely]] {
    try {
      auto made = known == nullptr ? std::make_unique<KnownCode>() : nullptr;
      WorkOut(frame, known == nullptr ? made.get() : known);
      if (known == nullptr && KeepAtCode(code, g_place, made.get()) != 0) {
        PyErr_Clear();
        throw std::bad_alloc();
      }
      if (known == nullptr) known = made.release();
    } catch (const std::exception& error) {
      Recorder::Get()->Stop(error.what());
      return nullptr;
    }
  }
  return known->what == kHidden ? nullptr : known;
}

// `enter(config, identity_bytes)` records the entry, or returns false.
template <typename RecordEntry>
What Enter(const InterpreterFrame* frame, RecordEntry enter) {
  CallsOfThread& calls = t_calls;
  const KnownCode* const known = Known(frame);
  if (known == nullptr) return kHidden;
  if (known->what == kClosed) return kClosed;
  const uint64_t most = Now().options->frame_depth;
  if (calls.closed != 0 || (most != 0 && calls.depth >= most)) return kHidden;
  if (!enter(known->config, known->identity_bytes)) return kHidden;
  ++calls.depth;
  return kRecorded;
}

// Enters the calls that began before recording did on this thread. We don't see the end of those that our evaluation
// function doesn't evaluate, but notice it later from the thread's frames.
void EnterFromBefore() {
  if (PyGILState_Check() == 0 || Now().options == nullptr || !FramesAreKnown()) return;
  t_calls.depth = 0;
  t_calls.from_before.clear();
  std::vector<InterpreterFrame*> frames;
  for (InterpreterFrame* frame = InnermostFrame(PyThreadState_Get()); frame != nullptr; frame = PreviousFrame(frame)) {
    if (HasBegun(frame)) frames.push_back(frame);
  }
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    const auto enter = [](std::string_view config, uint32_t identity_bytes) {
      return t_thread.recorder->EnterOpenCall(config, identity_bytes);
    };
    const What what = Enter(*frame, enter);
    if (what == kClosed) break;
    if (what == kRecorded) t_calls.from_before.push_back(*frame);
  }
}

void EndThoseGone() {
  std::vector<const InterpreterFrame*>& from_before = t_calls.from_before;
  const InterpreterFrame* frame = InnermostFrame(PyThreadState_Get());
  // If a frame still exists, so do all around it: only the innermost has to be checked.
  while (!from_before.empty()) {
    const InterpreterFrame* at = frame;
    while (at != nullptr && at != from_before.back()) at = PreviousFrame(at);
    if (at != nullptr) return;
    from_before.pop_back();
    --t_calls.depth;
    t_thread.recorder->LeaveOpenCall();
  }
}

int Begin(const void* evaluated, bool outermost) {
  if (!t_thread.Recording()) return kHidden;
  if (outermost && !t_calls.from_before.empty()) EndThoseGone();
  const auto enter = [](std::string_view config, uint32_t identity_bytes) {
    return t_thread.EnterKnown(config, identity_bytes);
  };
  const What what = Enter(static_cast<const InterpreterFrame*>(evaluated), enter);
  if (what == kClosed) ++t_calls.closed;
  return what;
}

void End(const void* evaluated, int begun, PyObject* result) {
  CallsOfThread& calls = t_calls;
  if (begun == kClosed && calls.closed != 0) --calls.closed;
  const bool was_before = !calls.from_before.empty() && calls.from_before.back() == evaluated;
  if (begun != kRecorded && !was_before) return;
  if (calls.depth != 0) --calls.depth;
  if (was_before) {
    calls.from_before.pop_back();
    if (t_thread.recorder != nullptr) t_thread.recorder->LeaveOpenCall();
  }
  // If it was both, Begin recorded it in an earlier session.
  if (begun == kRecorded) EndCall(result);
}

constexpr FrameObserver kObserver = {Begin, End};

}  // namespace

bool CallMayBegin(const RecordingOptions& options) {
  CallsOfThread& calls = t_calls;
  if (!calls.from_before.empty() && EvaluatedFrame() == nullptr) EndThoseGone();
  return calls.closed == 0 && (options.frame_depth == 0 || calls.depth < options.frame_depth);
}

void CallBegan() { ++t_calls.depth; }

void CallEnded() {
  if (t_calls.depth != 0) --t_calls.depth;
}

PythonCallsHook::PythonCallsHook(const RecordingOptions& options, std::vector<std::string> plumbing,
                                 std::vector<std::string> closed)
    : options_(options), plumbing_(std::move(plumbing)), closed_(std::move(closed)) {}

absl::Status PythonCallsHook::Install() {
  if (installed_) return absl::OkStatus();
  if (!CheckFrames())
    return absl::InternalError("this Python's frames differ from those of the Python that it was built for");
  if (g_place < 0) g_place = TakeCodePlace(FreeKnownCode);
  if (g_place < 0) return absl::InternalError("this Python has no place left to keep something with code");
  Installation& now = Now();
  ++now.number;
  now.options = &options_;
  now.plumbing = &plumbing_;
  now.closed = &closed_;
  std::error_code error;
  now.folder = std::filesystem::current_path(error).string();
  if (!now.folder.empty() && now.folder.back() != '/') now.folder += '/';
  Recorder::SetEnterOpenCalls(EnterFromBefore);
  ObserveFrames(&kObserver);
  UseFrameEvaluation();
  installed_ = true;
  return absl::OkStatus();
}

void PythonCallsHook::Uninstall() {
  if (!std::exchange(installed_, false)) return;
  ReleaseFrameEvaluation();
  ObserveFrames(nullptr);
  Recorder::SetEnterOpenCalls(nullptr);
  Now().options = nullptr;
}

}  // namespace torchtrace::python_dialect
