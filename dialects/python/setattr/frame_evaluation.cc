#include "dialects/python/setattr/frame_evaluation.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dialects/python/setattr/attribute_path.h"
#include "dialects/python/setattr/hidden_types.h"
#include "tracer/cpython/frames.h"
#include "tracer/python/python_patch.h"
#include "tracer/record/recorder.h"
#include "tracer/record/static_tls.h"

namespace torchtrace::python_dialect {

struct Frames {
  uintptr_t innermost = 0;                  // the address of Evaluate's frame
  size_t taken_bytes = 0;                   // C stack of frames that would use none untraced
  const InterpreterFrame* frame = nullptr;  // the one that Evaluate evaluates
};
// See WhenEvaluatedFrameEnds.
struct AwaitedFrame {
  const InterpreterFrame* frame;
  void (*ended)(PyObject* result);
  AwaitedFrame* outer;
};
struct ThreadFrames {
  Frames now;
  size_t most_bytes = 0;  // the limit of taken_bytes; 0: not known yet
  AwaitedFrame* awaited = nullptr;
};
constinit thread_local ThreadFrames t_frames TORCHTRACE_STATIC_TLS;

namespace {

// Most C stack that a direct call from one Python frame to the next uses in any build of Python (1,064 in Debian's
// 3.14). If more is used, the call goes through C code, which uses it untraced too.
constexpr uintptr_t kStraightBytes = 2048;
constexpr size_t kMostBytes = 1 << 20;
// About what Evaluate itself uses, where CPython uses the rest untraced too.
constexpr size_t kOwnBytes = 160;
// A thread's stack may be small: use at most an eighth of it.
constexpr size_t kPartOfStack = 8;

int g_evaluation_users = 0;

const FrameObserver* g_observer = nullptr;             // the current one
void (*g_end)(const void*, int, PyObject*) = nullptr;  // of the last one, even if it was removed

size_t MostBytes() {
  size_t size = 0;
  if (gettid() == getpid()) {
    // pthread_getattr_np would open a file.
    rlimit limit = {};
    if (getrlimit(RLIMIT_STACK, &limit) == 0) size = limit.rlim_cur;
  } else if (pthread_attr_t attributes; pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstacksize(&attributes, &size);
    pthread_attr_destroy(&attributes);
  }
  return std::min(size / kPartOfStack, kMostBytes);
}

// Left for the program, of the C frames that CPython allows a thread.
constexpr int kFramesLeft = 1000;

bool MayTake(ThreadFrames* frames, const PyThreadState* thread) {
  if (frames->most_bytes == 0) [[unlikely]] {
    frames->most_bytes = MostBytes();
  }
  return frames->now.taken_bytes <= frames->most_bytes && FramesLeft(thread) > kFramesLeft;
}

PyObject* Evaluate(PyThreadState* thread, InterpreterFrame* frame, int throwing);

bool IsSet(PyInterpreterState* interpreter) { return _PyInterpreterState_GetEvalFrameFunc(interpreter) == Evaluate; }

// Calls that begin before this one returns, on any thread, use no C stack.
[[gnu::noinline]] PyObject* EvaluateDeep(PyThreadState* thread, InterpreterFrame* frame, int throwing) {
  PyInterpreterState* const interpreter = PyThreadState_GetInterpreter(thread);
  const bool ours = IsSet(interpreter);
  if (ours) {
    _PyInterpreterState_SetEvalFrameFunc(interpreter, _PyEval_EvalFrameDefault);
    if (Recorder* const recorder = Recorder::Get()) {
      recorder->NoteNotSeen("Python functions called when Python's frames had used up their part of the C stack");
    }
  }
  PyObject* const result = _PyEval_EvalFrameDefault(thread, frame, throwing);
  if (ours) KeepFrameEvaluation();
  return result;
}

PyObject* Evaluate(PyThreadState* thread, InterpreterFrame* frame, int throwing) {
  ThreadFrames& frames = t_frames;
  const Frames before = frames.now;
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  const uintptr_t step = before.innermost - here;
  frames.now.innermost = here;
  frames.now.frame = frame;
  if (kCallsTakeStack) {
    frames.now.taken_bytes += kOwnBytes;
  } else if (step <= kStraightBytes) {
    frames.now.taken_bytes += step;
  }
  const int begun = g_observer == nullptr ? 0 : g_observer->begin(frame, before.frame == nullptr);
  PyObject* result;
  if (!MayTake(&frames, thread) || g_evaluation_users == 0) [[unlikely]] {
    // Other code that had kept our function has set it again since it was released.
    if (g_evaluation_users == 0 && IsSet(PyThreadState_GetInterpreter(thread))) {
      _PyInterpreterState_SetEvalFrameFunc(PyThreadState_GetInterpreter(thread), _PyEval_EvalFrameDefault);
    }
    result = EvaluateDeep(thread, frame, throwing);
  } else {
    result = _PyEval_EvalFrameDefault(thread, frame, throwing);
  }
  frames.now = before;
  if (frames.awaited != nullptr && frames.awaited->frame == frame) [[unlikely]] {
    const std::unique_ptr<AwaitedFrame> awaited(std::exchange(frames.awaited, frames.awaited->outer));
    awaited->ended(result);
  }
  if (g_end != nullptr) g_end(frame, begun, result);
  return result;
}

}  // namespace

const void* EvaluatedFrame() { return t_frames.now.frame; }

void WhenEvaluatedFrameEnds(void (*ended)(PyObject* result)) {
  // nothrow: an exception would pass through Python's C code.
  auto* const awaited = new (std::nothrow) AwaitedFrame{t_frames.now.frame, ended, t_frames.awaited};
  if (awaited == nullptr) {
    Recorder::Get()->Stop(kNoMemory);
    return ended(nullptr);
  }
  t_frames.awaited = awaited;
}

void ObserveFrames(const FrameObserver* observer) {
  g_observer = observer;
  if (observer != nullptr) g_end = observer->end;
}

void KeepFrameEvaluation() {
  PyInterpreterState* const interpreter = PyInterpreterState_Get();
  if (g_evaluation_users > 0 && _PyInterpreterState_GetEvalFrameFunc(interpreter) == _PyEval_EvalFrameDefault) {
    _PyInterpreterState_SetEvalFrameFunc(interpreter, Evaluate);
  }
}

void UseFrameEvaluation() {
  ++g_evaluation_users;
  KeepFrameEvaluation();
  if (!kMakesUnevaluated) return;
  ForEachSubclass(&PyBaseObject_Type, HideMaking);
  WatchNewTypes([](PyTypeObject* type) {
    if (g_evaluation_users > 0) HideMaking(type);
  });
}

void ReleaseFrameEvaluation() {
  if (--g_evaluation_users > 0) return;
  PyInterpreterState* const interpreter = PyInterpreterState_Get();
  if (IsSet(interpreter)) _PyInterpreterState_SetEvalFrameFunc(interpreter, _PyEval_EvalFrameDefault);
}

namespace {

BuiltinPatch g_set_eval_frame;

PyObject* SetWithOne(PyObject* self, PyObject* callback) {
  PyObject* const before = g_set_eval_frame.original<PyCFunction>()(self, callback);
  KeepFrameEvaluation();
  return before;
}

PyObject* SetWithAny(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* const before = g_set_eval_frame.original<PyCFunctionWithKeywords>()(self, args, kwargs);
  KeepFrameEvaluation();
  return before;
}

}  // namespace

absl::Status FrameSlotHook::Install() {
  constexpr char kFunction[] = "set_eval_frame";
  const bool installed =
      g_set_eval_frame.Install(module_.c_str(), kFunction, METH_O, reinterpret_cast<void*>(SetWithOne)) ||
      g_set_eval_frame.Install(module_.c_str(), kFunction, METH_VARARGS | METH_KEYWORDS,
                               reinterpret_cast<void*>(SetWithAny));
  if (!installed) return absl::InternalError(absl::StrCat(module_, ".", kFunction, " is not as expected"));
  StartKeepingBuiltins();
  KeepBuiltin(g_set_eval_frame.definition(), g_set_eval_frame.original<PyCFunction>());
  return absl::OkStatus();
}

void FrameSlotHook::Uninstall() {
  if (g_set_eval_frame.definition() == nullptr) return;
  g_set_eval_frame.Restore();
  StopKeepingBuiltins();
}

}  // namespace torchtrace::python_dialect
