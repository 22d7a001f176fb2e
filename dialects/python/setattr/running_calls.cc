#include "dialects/python/setattr/running_calls.h"

#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "dialects/python/describe/object_names.h"
#include "dialects/python/setattr/frame_evaluation.h"
#include "dialects/python/setattr/hidden_types.h"
#include "dialects/python/setattr/patches.h"
#include "dialects/python/setattr/stack_use.h"
#include "tracer/cpython/frames.h"
#include "tracer/cpython/objects.h"
#include "tracer/record/recorder.h"
#include "tracer/record/static_tls.h"

namespace torchtrace::python_dialect {

// By number, as greenlets leave and enter calls in any order.
struct WatchedCall {
  PyObject* function = nullptr;  // borrowed
  uint64_t number = 0;
};
struct AwaitedCall {
  uint64_t number;
  void (*ended)(PyObject* result);
  AwaitedCall* outer;
};
struct WatchedCalls {
  WatchedCall innermost;
  uint64_t calls = 0;
  AwaitedCall* awaited = nullptr;
};
constinit thread_local WatchedCalls t_watched TORCHTRACE_STATIC_TLS;

namespace {

PyObject* g_name = nullptr;  // interned; null: nothing was ever watched
bool g_watching = false;

bool NamesIt(PyCodeObject* code) {
  // Not the code of a module or class, which may import the name.
  if ((code->co_flags & CO_NEWLOCALS) == 0) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i) {
    if (PyTuple_GET_ITEM(code->co_names, i) == g_name) return true;  // names in code are interned
  }
  return false;
}

PyObject* EnterWatched(PyObject* function, PyObject* const* arguments, size_t flags, PyObject* names) {
  WatchedCalls& watched = t_watched;
  const WatchedCall around = watched.innermost;
  const uint64_t number = ++watched.calls;
  watched.innermost = {function, number};
  PyObject* const result = CallPastEntries(function, arguments, flags, names);
  watched.innermost = around;
  if (watched.awaited != nullptr && watched.awaited->number == number) [[unlikely]] {
    const std::unique_ptr<AwaitedCall> awaited(std::exchange(watched.awaited, watched.awaited->outer));
    awaited->ended(result);
  }
  return result;
}

// Replaces one of the two pointers by the other.
bool Replace(PyFunctionObject* function, vectorcallfunc from, vectorcallfunc to) {
  vectorcallfunc* const place = PointerBelowEntries(function);
  if (*place != from) return false;
  *place = to;
  // The pointer has changed, and the specialising interpreter must read it.
  uint32_t number = 0;
  HideFromSpecialization(function, &number, [](uint32_t*, uint32_t) {});
  return true;
}

// Those that name it. Kept up to date when nothing is watched too: to find them again would take a look at all objects.
absl::flat_hash_set<PyFunctionObject*>& WatchedFunctions() {
  static auto* const functions = new absl::flat_hash_set<PyFunctionObject*>;
  return *functions;
}

void Forget(PyFunctionObject* function) {
  if (NamesIt(reinterpret_cast<PyCodeObject*>(function->func_code))) WatchedFunctions().erase(function);
}

// `code`: the function's, or the one that it is about to get.
void Watch(PyFunctionObject* function, PyCodeObject* code) {
  if (!NamesIt(code)) {
    if (reinterpret_cast<PyCodeObject*>(function->func_code) == code) return;
    Replace(function, EnterWatched, FunctionVectorcall());
    return Forget(function);
  }
  WatchedFunctions().insert(function);
  if (g_watching) Replace(function, FunctionVectorcall(), EnterWatched);
  HideFutureFunctions(code);
}

// The type's own properties may be read without a call of their getters.
void HideWatchedGetters(PyTypeObject* type) {
  PyObject* const dict = DictOf(type);
  if (!kReadsUnasked || dict == nullptr) return;
  PyObject *name, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &name, &value);) {
    if (Py_TYPE(value) != &PyProperty_Type) continue;
    PyObject* const getter = StructMember(value, "fget");
    if (getter != nullptr && PyFunction_Check(getter) &&
        WatchedFunctions().contains(reinterpret_cast<PyFunctionObject*>(getter))) {
      return ForEachSubclass(type, HideReading);
    }
  }
}

// Watches the functions that are reached from modules: their own, those of classes, those that a decorator wraps. Calls
// no Python code.
class ModuleFunctions {
 public:
  void WatchAll() {
    PyObject *name, *module;
    for (Py_ssize_t at = 0; PyDict_Next(PyImport_GetModuleDict(), &at, &name, &module);) {
      if (PyModule_Check(module)) AddValues(PyModule_GetDict(module));
    }
    while (!objects_.empty()) {
      PyObject* const object = objects_.back();
      objects_.pop_back();
      Visit(object);
    }
  }

 private:
  void AddValues(PyObject* dict) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; dict != nullptr && PyDict_Next(dict, &at, &key, &value);) Add(value);
  }
  void Add(PyObject* object) {
    if (object != nullptr && seen_.insert(object).second) objects_.push_back(object);
  }

  void Visit(PyObject* object) {
    if (PyFunction_Check(object)) {
      auto* const function = reinterpret_cast<PyFunctionObject*>(object);
      Watch(function, reinterpret_cast<PyCodeObject*>(function->func_code));
      AddValues(function->func_dict);  // __wrapped__
      PyObject* const cells = function->func_closure;
      for (Py_ssize_t i = 0; cells != nullptr && i < PyTuple_GET_SIZE(cells); ++i) {
        Add(PyCell_GET(PyTuple_GET_ITEM(cells, i)));
      }
    } else if (PyType_Check(object)) {
      AddValues(DictOf(reinterpret_cast<PyTypeObject*>(object)));
    } else if (Py_TYPE(object) == &PyStaticMethod_Type || Py_TYPE(object) == &PyClassMethod_Type) {
      Add(StructMember(object, "__func__"));
    } else if (Py_TYPE(object) == &PyProperty_Type) {
      for (const char* const accessor : {"fget", "fset", "fdel"}) Add(StructMember(object, accessor));
    }
  }

  absl::flat_hash_set<PyObject*> seen_;
  std::vector<PyObject*> objects_;
};

// Whether gc.freeze() has put objects where VisitObjects may not look.
bool AnythingIsFrozen() {
  PyObject* const gc = PyDict_GetItemString(PyImport_GetModuleDict(), "gc");
  PyObject* const get =
      gc == nullptr || !PyModule_Check(gc) ? nullptr : PyDict_GetItemString(PyModule_GetDict(gc), "get_freeze_count");
  PyObject* const count = get == nullptr || !PyCFunction_Check(get) ? nullptr : PyObject_CallNoArgs(get);
  const bool frozen = count != nullptr && PyLong_AsLong(count) > 0;
  PyErr_Clear();
  Py_XDECREF(count);
  return frozen;
}

int g_watcher = -1;

}  // namespace

absl::Status WatchCalls(const char* name) {
  if (g_name == nullptr) g_name = PyUnicode_InternFromString(name);
  if (g_name == nullptr) {
    PyErr_Clear();
    return absl::ResourceExhaustedError("out of memory");
  }
  g_watching = true;
  if (!kFunctionsAreWatched) {
    UseFrameEvaluation();
    return absl::OkStatus();
  }
  FunctionVectorcall();  // the first call makes a function
  PatchAlso(EnterWatched);
  if (g_watcher >= 0) {
    for (PyFunctionObject* const function : WatchedFunctions()) Replace(function, FunctionVectorcall(), EnterWatched);
    return absl::OkStatus();
  }
  g_watcher = WatchFunctions<Watch, Forget>();
  if (g_watcher < 0) {
    PyErr_Clear();
    g_watching = false;
    return absl::InternalError("other code watches functions, and Python has no place for one more watcher");
  }
  VisitObjects(
      [](PyObject* object, void*) {
        if (PyFunction_Check(object)) {
          auto* const function = reinterpret_cast<PyFunctionObject*>(object);
          Watch(function, reinterpret_cast<PyCodeObject*>(function->func_code));
        }
        return 1;  // go on
      },
      nullptr);
  if (AnythingIsFrozen()) ModuleFunctions().WatchAll();
  if (kReadsUnasked) {
    ForEachSubclass(&PyBaseObject_Type, HideWatchedGetters);
    WatchNewTypes(HideWatchedGetters);
  }
  return absl::OkStatus();
}

void UnwatchCalls() {
  if (!std::exchange(g_watching, false)) return;
  if (!kFunctionsAreWatched) return ReleaseFrameEvaluation();
  NoteRemovedEntries();
  for (PyFunctionObject* const function : WatchedFunctions()) Replace(function, EnterWatched, FunctionVectorcall());
}

bool InnermostCall(RunningCall* call) {
  if (!FramesAreKnown()) return false;
  const InterpreterFrame* const frame = InnermostFrame(PyThreadState_Get());
  if (frame == nullptr || !IsOfCall(frame)) return false;
  const auto is_watched = [](PyObject* function) {
    // Calls of it that are made as untraced don't enter EnterWatched.
    return function != nullptr && function == t_watched.innermost.function &&
           reinterpret_cast<PyFunctionObject*>(function)->vectorcall != FunctionVectorcall();
  };
  const bool known = kFunctionsAreWatched ? is_watched(FunctionOf(frame)) : frame == EvaluatedFrame();
  if (!known || !NamesIt(CodeOf(frame))) return false;
  call->frame_ = frame;
  return true;
}

PyObject* RunningCall::Function() const { return FunctionOf(static_cast<const InterpreterFrame*>(frame_)); }

PyObject* RunningCall::Local(Py_ssize_t index) const {
  return LocalOf(static_cast<const InterpreterFrame*>(frame_), index);
}

void WhenInnermostCallEnds(void (*ended)(PyObject* result)) {
  if (!kFunctionsAreWatched) return WhenEvaluatedFrameEnds(ended);
  // nothrow: an exception would pass through Python's C code.
  auto* const awaited = new (std::nothrow) AwaitedCall{t_watched.innermost.number, ended, t_watched.awaited};
  if (awaited == nullptr) {
    Recorder::Get()->Stop(kNoMemory);
    return ended(nullptr);
  }
  t_watched.awaited = awaited;
}

}  // namespace torchtrace::python_dialect
