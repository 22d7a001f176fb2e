// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "dialects/python/frame/c_calls.h"

#include <Python.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dialects/python/describe/describe_call.h"
#include "dialects/python/describe/object_names.h"
#include "dialects/python/frame/python_calls.h"
#include "dialects/python/setattr/attribute_path.h"
#include "dialects/python/setattr/call_through.h"
#include "dialects/python/setattr/patches.h"
#include "dialects/python/setattr/recorded_calls.h"
#include "serialize/base/text.h"
#include "serialize/model/config_builder.h"
#include "tracer/cpython/interpreter.h"
#include "tracer/cpython/objects.h"
#include "tracer/python/python_patch.h"
#include "tracer/record/thread_state.h"

namespace torchtrace::python_dialect {
namespace {

// All below is guarded by the GIL.

// A definition or class that was found. Never freed, like its object.
struct CFunction : TracedApi {
  std::string owner;          // for a function of pybind11 in a class: the class's name
  bool is_named = false;      // the TracedApi has its name and head
  uint64_t installation = 0;  // the layer's, when we last tried to add an entry
};

CCallsHook* g_installed = nullptr;
const RecordingOptions* g_options = nullptr;  // of the hook that is or was installed

std::string g_named_package;
std::string (*g_package_name)(PyObject* callable) = nullptr;

// By definition or class, for all sessions.
std::unordered_map<const void*, CFunction*>& Known() {
  static auto* const known = new std::unordered_map<const void*, CFunction*>;
  return *known;
}

// If a C module (_operator) implements another module that shows its functions, we use the other module's name.
std::string ShownName(PyObject* function, std::string name) {
  if (!PyCFunction_Check(function) || !name.starts_with('_')) return name;
  const size_t dot = name.find('.');
  PyObject* const module = dot == std::string::npos ? nullptr : ImportedModule(name.substr(1, dot - 1).c_str());
  if (module == nullptr || !PyModule_Check(module)) return name;
  PyObject* const shown = PyDict_GetItemString(PyModule_GetDict(module), name.c_str() + dot + 1);
  return shown == function ? name.substr(1) : name;
}

void Name(CFunction* function) {
  std::string name = CallableName(function->object);
  if (!function->owner.empty()) {
    name = absl::StrCat(function->owner, ".", reinterpret_cast<PyCFunctionObject*>(function->object)->m_ml->ml_name);
  } else if (PyType_Check(function->object)) {
    name = TypeName(reinterpret_cast<PyTypeObject*>(function->object));
  } else if (g_package_name != nullptr && IsOf(g_named_package, name)) {
    name = g_package_name(function->object);
  } else {
    name = ShownName(function->object, std::move(name));
  }
  function->head = ConfigBuilder::EncodeHead(kFrameLevel, name);
  function->name = std::move(name);
  function->is_named = true;
}

class Calls : public CallObserver {
 public:
  bool Begin(const TracedApi& api, const CallArguments&) override {
    if (!t_thread.Recording() || !CallMayBegin(*g_options)) return false;
    const bool recorded = t_thread.Enter([&](ConfigBuilder* config) {
      auto& function = const_cast<CFunction&>(static_cast<const CFunction&>(api));
      if (!function.is_named) [[unlikely]] {
        Name(&function);
      }
      config->Begin(function.head);
      config->Positional(0);
      config->Keywords(0);
    });
    if (recorded) CallBegan();
    return recorded;
  }
  void End(PyObject* result) override {
    CallEnded();
    EndCall(result);
  }
  void CountGetter() override {}
};

// pybind11 keeps each function's data in an object, or a capsule, of that function alone.
bool IsOwnSelf(PyObject* self) {
  return PyCapsule_CheckExact(self) ||
         std::string_view(Py_TYPE(self)->tp_name).find("pybind11_detail_function_record") != std::string_view::npos;
}

PyCFunctionObject* AsBuiltin(PyObject* object) {
  return PyCFunction_CheckExact(object) || PyCMethod_CheckExact(object) ? reinterpret_cast<PyCFunctionObject*>(object)
                                                                        : nullptr;
}

// Adds entries to all functions and classes that it finds, and owns a reference to each.
class Finder {
 public:
  Finder(const std::vector<std::string>& replaced, PatchList* patches) : replaced_(replaced), patches_(patches) {}

  // How many functions there was no room for, and the name of one.
  size_t not_entered() const { return not_entered_; }
  const std::string& example() const { return example_; }

  void Look(PyObject* object) {
    PyTypeObject* const type = Py_TYPE(object);
    if (type == &PyMethodDescr_Type || type == &PyClassMethodDescr_Type) {
      auto* const descriptor = reinterpret_cast<PyMethodDescrObject*>(object);
      Method(object, descriptor->d_method, MethodSelf::kModule, {});
      Class(descriptor->d_common.d_type);
    } else if (PyCFunctionObject* const function = AsBuiltin(object)) {
      // Bound methods of other objects are found through their classes.
      PyObject* const self = function->m_self;
      if (self == nullptr || PyModule_Check(self) || PyType_Check(self)) {
        Method(object, function->m_ml, MethodSelf::kModule, {});
      }
    } else if (PyModule_Check(object)) {
      Members(PyModule_GetDict(object), {});
    } else if (PyType_Check(object)) {
      Members(DictOf(reinterpret_cast<PyTypeObject*>(object)), TypeName(reinterpret_cast<PyTypeObject*>(object)));
    }
  }

 private:
  // Looks at functions of pybind11 in modules and classes (others may be temporary), and at static types.
  void Members(PyObject* dict, const std::string& owner) {
    PyObject *name, *member;
    Py_ssize_t position = 0;
    while (dict != nullptr && PyDict_Next(dict, &position, &name, &member) != 0) {
      if (PyType_Check(member)) Class(reinterpret_cast<PyTypeObject*>(member));
      if (Py_TYPE(member) == &PyInstanceMethod_Type) member = PyInstanceMethod_GET_FUNCTION(member);
      PyCFunctionObject* const function = AsBuiltin(member);
      if (function == nullptr || function->m_self == nullptr || !IsOwnSelf(function->m_self)) continue;
      Method(member, function->m_ml, MethodSelf::kOwn, owner);
    }
  }

  void Method(PyObject* object, PyMethodDef* definition, MethodSelf self, const std::string& owner) {
    // All classes share this definition; see NativeEntries.
    if (std::string_view(definition->ml_name) == "__new__") return;
    CFunction* const function = Take(object, definition);
    // Another level's entry must come before ours and be removed before it, so ours can't be added on top.
    if (function == nullptr || IsEntered(definition)) return;
    function->owner = owner;
    PyObject* const only_self = self == MethodSelf::kOwn ? PyCFunction_GET_SELF(object) : nullptr;
    if (PatchMethod(kFrameLayer, definition, self, only_self, function, patches_)) return;
    if (IsWritable(&definition->ml_meth) && not_entered_++ == 0) example_ = CallableName(object);
  }

  void Class(PyTypeObject* type) {
    if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 || IsClassKnownByHeart(type)) return;
    CFunction* const function = Take(reinterpret_cast<PyObject*>(type), type);
    if (function != nullptr) PatchCallable(kFrameLayer, function->object, function, patches_);
  }

  // Null: gets no entry, or was looked at before.
  CFunction* Take(PyObject* object, const void* key) {
    CFunction*& function = Known()[key];
    if (function == nullptr) {
      const std::string name =
          PyType_Check(object) ? TypeName(reinterpret_cast<PyTypeObject*>(object)) : CallableName(object);
      if (name == "torchtrace" || IsOf("torchtrace", name) ||
          std::find(replaced_.begin(), replaced_.end(), name) != replaced_.end()) {
        return nullptr;
      }
      function = new CFunction;
      function->object = Py_NewRef(object);
    }
    const uint64_t installation = g_layers[kFrameLayer].installation;
    return std::exchange(function->installation, installation) == installation ? nullptr : function;
  }

  const std::vector<std::string>& replaced_;
  PatchList* const patches_;
  size_t not_entered_ = 0;
  std::string example_;
};

// Called when a module written in C was imported.
BuiltinPatch g_exec_dynamic, g_exec_builtin;

PyObject* ExecDynamic(PyObject* self, PyObject* module) {
  PyObject* const result = g_exec_dynamic.original<PyCFunction>()(self, module);
  CCallsHook::FindMore();
  return result;
}
PyObject* ExecBuiltin(PyObject* self, PyObject* module) {
  PyObject* const result = g_exec_builtin.original<PyCFunction>()(self, module);
  CCallsHook::FindMore();
  return result;
}

}  // namespace

CCallsHook::CCallsHook(const RecordingOptions& options, std::vector<std::string> replaced)
    : options_(options), replaced_(std::move(replaced)) {}

absl::Status CCallsHook::Install() {
  if (installed_) return absl::OkStatus();
  // Never freed, as calls that are running when the hook is removed still use them.
  static auto* const options = new RecordingOptions;
  static auto* const calls = new Calls;
  *options = options_;
  g_options = options;
  Layer& layer = g_layers[kFrameLayer];
  ++layer.installation;
  layer.observer = calls;
  installed_ = true;
  g_installed = this;
  StartKeepingBuiltins();
  g_exec_dynamic.Install("_imp", "exec_dynamic", METH_O, reinterpret_cast<void*>(ExecDynamic));
  g_exec_builtin.Install("_imp", "exec_builtin", METH_O, reinterpret_cast<void*>(ExecBuiltin));
  const std::vector<PyObject**> known_by_heart = CallablesKnownByHeart();
  for (PyObject** place : known_by_heart) patches_.Replace(place, static_cast<PyObject*>(nullptr));
  Find();
  return absl::OkStatus();
}

void CCallsHook::Find() {
  try {
    Finder finder(replaced_, &patches_);
    for (PyObject* object : CollectedObjects()) finder.Look(object);
    if (not_entered_ == 0) example_ = finder.example();
    not_entered_ += finder.not_entered();
  } catch (const std::exception& error) {
    Recorder::Get()->Stop(error.what());
  }
}

void CCallsHook::FindMore() {
  if (g_installed != nullptr) g_installed->Find();
}

void CCallsHook::SetNames(std::string package, std::string (*name)(PyObject* callable)) {
  g_named_package = std::move(package);
  g_package_name = name;
  for (const auto& [key, function] : Known()) {
    if (function != nullptr && IsOf(g_named_package, function->name)) function->is_named = false;
  }
}

void CCallsHook::Uninstall() {
  if (!std::exchange(installed_, false)) return;
  g_installed = nullptr;
  patches_.UndoAll();
  g_exec_builtin.Restore();
  g_exec_dynamic.Restore();
  StopKeepingBuiltins();
  if (const size_t count = std::exchange(not_entered_, 0); count != 0) {
    Recorder::Get()->NoteNotSeen(absl::StrCat("level 3: calls of ", Counted(count, "function", "functions"),
                                              " written in C, for which there was no room: ", example_,
                                              count > 1 ? ", ..." : ""));
  }
}

}  // namespace torchtrace::python_dialect
