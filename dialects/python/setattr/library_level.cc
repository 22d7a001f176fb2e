// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "dialects/python/setattr/library_level.h"

#include <Python.h>

#include <string_view>
#include <utility>

#include "dialects/python/describe/describe_call.h"
#include "dialects/python/describe/guarded_description.h"
#include "dialects/python/describe/value_describer.h"
#include "dialects/python/setattr/setattr_hook.h"
#include "tracer/record/recorder.h"

namespace torchtrace::python_dialect {
namespace {

struct ThreadState {
  ThreadRecorder* recorder = nullptr;  // null until the first call
  ConfigBuilder* config = nullptr;     // likewise
  bool over = false;                   // the thread ends
  bool describing = false;             // a call's description is under way

  bool Attach();
};
thread_local ThreadState t_state;

// Owns the thread's scratch. Its end is the end of recording on the thread: the
// ThreadRecorder, made just before it, is destroyed right after it.
struct Scratch {
  ~Scratch() {
    t_state.recorder = nullptr;
    t_state.over = true;
  }
  ConfigBuilder config;
};

bool ThreadState::Attach() {
  if (over) return false;
  recorder = Recorder::Get()->ThisThread();
  if (recorder == nullptr) return false;
  static thread_local Scratch scratch;
  config = &scratch.config;
  return true;
}

class LibraryCalls final : public EntryDialect {
 public:
  bool Begin(const TracedApi& api, const CallArguments& arguments) override {
    ThreadState& state = t_state;
    if (!Recorder::Recording() || (state.recorder == nullptr && !state.Attach())) return false;
    ValueDescriber<NoFramework> describer(state.config);
    std::string_view bytes;
    const auto describe = [&] {
      bytes = DescribeCall(api.head, arguments, state.config, [&](PyObject* value) { describer.Value(value); });
    };
    return DescribeGuarded(&state.describing, describe) && state.recorder->Enter(bytes, state.config->identity_bytes());
  }

  void End(PyObject* result) override {
    ThreadRecorder* const recorder = t_state.recorder;
    if (recorder == nullptr) return;
    if (result != nullptr) return recorder->Leave();
    PyObject* const type = PyErr_Occurred();
    recorder->Raise(type == nullptr ? "SystemError" : TypeName(reinterpret_cast<PyTypeObject*>(type)));
  }

  void CountGetter() override {
    if (Recorder::Recording() && (t_state.recorder != nullptr || t_state.Attach())) t_state.recorder->CountGetter();
  }

  absl::StatusOr<const TracedApi*> Api(PyObject* object, const std::string& name) override {
    return MakeTracedApi(0, name, object);
  }
  void NoteNotSeen(const std::string& text) override { Recorder::Get()->NoteNotSeen(text); }
};

}  // namespace

std::unique_ptr<TracingHook> MakeLibraryHook(std::vector<std::string> names, const RecordingOptions& options) {
  // Never destroyed: calls may be under way when the hook is uninstalled.
  static auto* const calls = new LibraryCalls;
  return std::make_unique<SetattrHook>(calls, EntryOptions{.level = 0,
                                                           .names = std::move(names),
                                                           .outermost = options.outermost,
                                                           .include_getters = options.include_getters,
                                                           .constructors = true});
}

}  // namespace torchtrace::python_dialect
