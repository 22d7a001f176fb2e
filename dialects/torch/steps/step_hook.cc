#include "dialects/torch/steps/step_hook.h"

#include <Python.h>
#include <pthread.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dialects/python/describe/object_names.h"
#include "dialects/python/setattr/call_through.h"
#include "dialects/python/setattr/function_patches.h"
#include "dialects/python/setattr/hidden_types.h"
#include "dialects/python/setattr/native_entries.h"
#include "dialects/python/setattr/patches.h"
#include "dialects/torch/steps/step_count.h"
#include "tracer/cpython/objects.h"
#include "tracer/python/python_patch.h"
#include "tracer/record/recorder.h"

namespace torchtrace::torch_dialect {
namespace {

using python_dialect::CallArguments;
using python_dialect::kStepLayer;
using python_dialect::TracedApi;

StepOn ParseStepOn(const std::string& text) {
  if (text == kStepOnAuto) return StepOn::kAuto;
  if (text == kStepOnOptimizer) return StepOn::kOptimizer;
  return text == kStepOnForward ? StepOn::kForward : StepOn::kApi;
}

// An attribute of a module that is imported; null: there is none. `sys.modules` holds it.
PyObject* AttributeOf(const char* module, const char* name) {
  PyObject* const imported = ImportedModule(module);
  return imported == nullptr ? nullptr : InstanceAttribute(imported, name);
}

// A method in Python of a class there; null: there is none.
PyObject* MethodOf(const char* module, const char* type, const char* name) {
  PyObject* const found = AttributeOf(module, type);
  PyObject* const method = found == nullptr || !PyType_Check(found)
                               ? nullptr
                               : FindInDict(DictOf(reinterpret_cast<PyTypeObject*>(found)), name);
  return method != nullptr && PyFunction_Check(method) ? method : nullptr;
}

// The code of the function that the library puts around each optimizer's `step` (Optimizer.profile_hook_step); null: it
// is made in another way.
PyObject* FindWrapperCode(PyTypeObject* optimizer) {
  PyObject* const method = FindInDict(DictOf(optimizer), "profile_hook_step");
  PyObject* const function =
      method != nullptr && Py_TYPE(method) == &PyStaticMethod_Type ? StructMember(method, "__func__") : nullptr;
  if (function == nullptr || !PyFunction_Check(function)) return nullptr;
  PyObject* const constants = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function))->co_consts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i) {
    PyObject* const each = PyTuple_GET_ITEM(constants, i);
    if (PyCode_Check(each) && TextIs(reinterpret_cast<PyCodeObject*>(each)->co_name, "wrapper")) return each;
  }
  return nullptr;
}

// The optimizer that ends steps: the first one that has stepped, as long as it is used.
class DecidingOptimizer {
 public:
  // Call it once for each step of an optimizer.
  bool Is(const void* optimizer) {
    if (std::exchange(forgotten_, false)) Forget();
    if (weak_ != nullptr) {
      PyObject* const living = PyWeakref_GET_OBJECT(weak_);
      if (living == optimizer) {
        steps_of_others_ = 0;
        return true;
      }
      // A program may keep the optimizer of a training that is over. Some step another one several times in between.
      if (living != Py_None && ++steps_of_others_ < kManySteps) return false;
    }
    steps_of_others_ = 0;
    Py_XDECREF(weak_);
    // The new object must not start the garbage collector, which may run the program's code.
    const bool collects = PyGC_Disable() != 0;
    weak_ = PyWeakref_NewRef(static_cast<PyObject*>(const_cast<void*>(optimizer)), nullptr);
    if (collects) PyGC_Enable();
    if (weak_ == nullptr) PyErr_Clear();
    return true;
  }
  void Forget() {
    Py_CLEAR(weak_);
    steps_of_others_ = 0;
  }
  // In a forked process, perhaps without the GIL: it has an optimizer of its own.
  void ForgetLater() { forgotten_ = true; }

 private:
  static constexpr int kManySteps = 8;

  PyObject* weak_ = nullptr;
  bool forgotten_ = false;
  int steps_of_others_ = 0;  // since its own last one
};

// Never freed: calls may be under way when the hook is uninstalled.
struct Steps {
  StepCount count{StepOn::kAuto, nullptr, nullptr};
  DecidingOptimizer deciding;
  PyObject* wrapper_code = nullptr;  // the library's function holds it
  python_dialect::FunctionPatches functions;
  void (*begins)(PyObject* object) = nullptr;
  bool by_optimizers = false;  // end steps
  const TracedApi* of_module = nullptr;
  const TracedApi* of_optimizer = nullptr;
  const TracedApi* of_wrapping = nullptr;
  const TracedApi* of_scaled = nullptr;
};
Steps& TheSteps() {
  static auto* const steps = new Steps;
  return *steps;
}

// What `wrapper` calls, the `step` of a class, gets an entry. It is called from the wrapper with its arguments in a
// tuple, so by C code even where calls in bytecode pass entries by (CPython 3.11).
void EnterStep(PyObject* wrapper, PyObject* step) {
  Steps& steps = TheSteps();
  if (wrapper == nullptr || step == nullptr || !PyFunction_Check(wrapper) || !PyFunction_Check(step)) return;
  if (PyFunction_GET_CODE(wrapper) != steps.wrapper_code) return;
  steps.count.SeeOptimizer();
  if (!steps.functions.Has(step)) PatchCallable(kStepLayer, step, steps.of_optimizer, steps.functions.Of(step));
}

class StepObserver final : public python_dialect::EntryDialect {
 public:
  bool Begin(const TracedApi& api, const CallArguments& arguments) override {
    Steps& steps = TheSteps();
    const void* const thread = PyThreadState_Get();
    PyObject* const first = arguments.count == 0 ? nullptr : arguments.positional[0];
    if (&api == steps.of_module) return steps.count.BeginModule(thread) && Tell(first);
    if (&api == steps.of_optimizer) return first != nullptr && BeginStep(thread, first);
    if (&api == steps.of_scaled) return arguments.count > 1 && BeginStep(thread, arguments.positional[1]);
    if (&api != steps.of_wrapping) return steps.count.BeginStep(thread, nullptr);
    if (first != nullptr) EnterStep(first, Wrapped(arguments));
    return false;
  }
  void End(PyObject* result) override { TheSteps().count.End(PyThreadState_Get(), result != nullptr); }
  void CountGetter() override {}

  absl::StatusOr<const TracedApi*> Api(PyObject* object, const std::string& name) override {
    return python_dialect::MakeTracedApi(kStepLayer, name, object);
  }
  void NoteNotSeen(const std::string& text) override {
    const size_t colon = text.find(": ");
    Recorder::Get()->NoteNotSeen(absl::StrCat("steps", colon == std::string::npos ? ": " : "", text.substr(colon)));
  }

 private:
  static bool Tell(PyObject* object) {
    if (TheSteps().begins != nullptr && object != nullptr) TheSteps().begins(object);
    return true;
  }

  static bool BeginStep(const void* thread, PyObject* optimizer) {
    Steps& steps = TheSteps();
    if (steps.by_optimizers) return steps.count.BeginStep(thread, optimizer) && Tell(optimizer);
    steps.count.SeeStep();
    Tell(optimizer);
    return false;
  }

  // The second argument of functools.update_wrapper(wrapper, wrapped, ...).
  static PyObject* Wrapped(const CallArguments& arguments) {
    if (arguments.count > 1) return arguments.positional[1];
    if (arguments.keywords != nullptr) return FindInDict(arguments.keywords, "wrapped");
    for (Py_ssize_t i = 0; arguments.names != nullptr && i < PyTuple_GET_SIZE(arguments.names); ++i) {
      if (TextIs(PyTuple_GET_ITEM(arguments.names, i), "wrapped")) return arguments.positional[arguments.count + i];
    }
    return nullptr;
  }
};

class StepHook final : public TracingHook {
 public:
  StepHook(const RecordingOptions& options, void (*begins)(PyObject* object))
      : level_(options.levels.front()), step_on_(options.step_on), begins_(begins) {}

  int level() const override { return level_; }
  std::string name() const override { return "steps"; }

  absl::Status Install() override {
    static auto* const observer = new StepObserver;
    static const int forks = pthread_atfork(nullptr, nullptr, [] {
      TheSteps().count.Forget();
      TheSteps().deciding.ForgetLater();
    });
    static_cast<void>(forks);
    Steps& steps = TheSteps();
    const StepOn on = ParseStepOn(step_on_);
    steps.deciding.Forget();
    steps.begins = begins_;
    steps.by_optimizers = on == StepOn::kAuto || on == StepOn::kOptimizer;
    steps.count = StepCount(
        on, [](const void* optimizer) { return TheSteps().deciding.Is(optimizer); },
        [](const StepMarks& marks, bool decided) { Recorder::Get()->SetSteps(marks, decided); });
    steps.of_module = python_dialect::MakeTracedApi(kStepLayer, "torch.nn.Module.__call__", Py_None);
    steps.of_optimizer = python_dialect::MakeTracedApi(kStepLayer, "torch.optim.Optimizer.step", Py_None);
    steps.of_wrapping = python_dialect::MakeTracedApi(kStepLayer, "functools.update_wrapper", Py_None);
    steps.of_scaled = python_dialect::MakeTracedApi(kStepLayer, "torch.amp.GradScaler.step", Py_None);
    std::vector<std::string> names;
    if (on == StepOn::kApi) names.push_back(step_on_);
    entries_ = std::make_shared<python_dialect::NativeEntries>(
        observer, python_dialect::EntryOptions{.level = kStepLayer, .names = std::move(names)});
    if (absl::Status status = entries_->Install(); !status.ok()) return status;
    EnterModules();
    Recorder::SetBeforeModule([] { TheSteps().count.SeeModule(); });
    if (steps.by_optimizers || begins_ != nullptr) EnterOptimizers();
    if (steps.by_optimizers) EnterScalers();
    return absl::OkStatus();
  }

  void Uninstall() override {
    if (entries_ == nullptr) return;
    Recorder::SetBeforeModule(nullptr);
    TheSteps().functions.UndoAll();
    patches_.UndoAll();
    entries_->Uninstall();
    entries_ = nullptr;
  }

 private:
  void EnterModules() {
    PyObject* const call = MethodOf("torch.nn.modules.module", "Module", "__call__");
    if (call == nullptr || !PatchCallable(kStepLayer, call, TheSteps().of_module, &patches_)) {
      Recorder::Get()->NoteNotSeen("steps: torch.nn.Module.__call__ is not as expected");
    }
  }

  // A gradient scaler's `step` calls this, by C code, for each optimizer that it may skip.
  void EnterScalers() {
    PyObject* const step = MethodOf("torch.amp.grad_scaler", "GradScaler", "_maybe_opt_step");
    if (step == nullptr || !PatchCallable(kStepLayer, step, TheSteps().of_scaled, &patches_)) {
      Recorder::Get()->NoteNotSeen("steps: torch.amp.GradScaler.step is not as expected");
    }
  }

  void EnterOptimizers() {
    Steps& steps = TheSteps();
    PyObject* const type = AttributeOf("torch.optim.optimizer", "Optimizer");
    PyObject* const wrapping = AttributeOf("functools", "update_wrapper");
    steps.wrapper_code =
        type == nullptr || !PyType_Check(type) ? nullptr : FindWrapperCode(reinterpret_cast<PyTypeObject*>(type));
    if (steps.wrapper_code == nullptr || wrapping == nullptr ||
        !PatchCallable(kStepLayer, wrapping, steps.of_wrapping, &patches_)) {
      return Recorder::Get()->NoteNotSeen("steps: torch.optim.Optimizer.profile_hook_step is not as expected");
    }
    python_dialect::ForEachSubclass(reinterpret_cast<PyTypeObject*>(type), [](PyTypeObject* each) {
      PyObject* const dict = DictOf(each);
      PyObject* const step = dict == nullptr ? nullptr : FindInDict(dict, "step");
      if (step != nullptr && PyFunction_Check(step)) EnterStep(step, InstanceAttribute(step, "__wrapped__"));
    });
  }

  const int level_;
  const std::string step_on_;
  void (*const begins_)(PyObject* object);
  std::shared_ptr<python_dialect::NativeEntries> entries_;
  python_dialect::PatchList patches_;
};

}  // namespace

std::unique_ptr<TracingHook> MakeStepHook(const RecordingOptions& options, void (*begins)(PyObject* object)) {
  return std::make_unique<StepHook>(options, begins);
}

}  // namespace torchtrace::torch_dialect
