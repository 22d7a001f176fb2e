// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "dialects/python/setattr/script_hook.h"

#include <Python.h>

#include <cstdint>
#include <exception>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "dialects/python/describe/object_names.h"
#include "dialects/python/setattr/frame_evaluation.h"
#include "dialects/python/setattr/function_patches.h"
#include "dialects/python/setattr/hidden_types.h"
#include "dialects/python/setattr/native_entries.h"
#include "dialects/python/setattr/patch_list.h"
#include "dialects/python/setattr/patches.h"
#include "dialects/python/setattr/stack_use.h"
#include "serialize/model/levels.h"
#include "tracer/cpython/namespaces.h"
#include "tracer/cpython/objects.h"
#include "tracer/record/recorder.h"
#include "tracer/record/recording_options.h"

namespace torchtrace::python_dialect {
namespace {

// The names of the script's module: as the program, and where multiprocessing runs it again.
constexpr const char* kScriptModules[] = {kScriptLibrary, "__mp_main__"};

bool IsScriptModule(PyObject* name) {
  return name != nullptr && (TextIs(name, kScriptModules[0]) || TextIs(name, kScriptModules[1]));
}

// Methods that operators and statements call, SLOTS of dialects/scan/scan_library.py; and the one that calls do.
bool IsOperator(const std::string& name) {
  static const auto* const names = [] {
    auto* const made = new absl::flat_hash_set<std::string>;
    for (const auto binary :
         absl::StrSplit("add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or", ' ')) {
      for (const char* const prefix : {"", "r", "i"}) made->insert(absl::StrCat("__", prefix, binary, "__"));
    }
    for (const auto other :
         absl::StrSplit("lt le eq ne gt ge neg pos abs invert bool int float complex index round "
                        "trunc floor ceil len contains getitem setitem delitem iter next reversed call",
                        ' ')) {
      made->insert(absl::StrCat("__", other, "__"));
    }
    return made;
  }();
  return names->contains(name);
}

bool IsSpecial(std::string_view name) { return name.size() > 4 && name.starts_with("__") && name.ends_with("__"); }

bool IsCacheWrapper(PyObject* object) {
  return std::string_view(Py_TYPE(object)->tp_name) == "functools._lru_cache_wrapper";
}

bool IsOfScript(PyTypeObject* type) {
  PyObject* const dict = (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 ? DictOf(type) : nullptr;
  return dict != nullptr && IsScriptModule(FindInDict(dict, "__module__"));
}

// Whether it is the script's own, and one of the kinds that a scan lists: a function, a class, a function under
// functools.cache, an object with a function's name of a class of the script.
bool IsOfScript(PyObject* object) {
  if (PyFunction_Check(object)) return IsScriptModule(reinterpret_cast<PyFunctionObject*>(object)->func_module);
  if (PyType_Check(object)) return IsOfScript(reinterpret_cast<PyTypeObject*>(object));
  if (IsCacheWrapper(object)) return IsScriptModule(InstanceAttribute(object, "__module__"));
  return Py_TYPE(object)->tp_call != nullptr && IsOfScript(Py_TYPE(object)) &&
         IsText(InstanceAttribute(object, "__name__"));
}

int g_dict_watcher = -1;  // since 3.12

// All is guarded by the GIL.
class Script {
 public:
  void Begin(bool everything) {
    on_ = true;
    everything_ = everything;
  }
  bool on() const { return on_; }

  // A name that is being bound, in the script's module or one of its classes.
  void Bind(PyObject* dict, PyObject* key, PyObject* value) {
    if (!on_ || value == nullptr || !IsText(key)) return;
    try {
      if (const auto of = classes_.find(dict); of != classes_.end()) {
        const ClassPlace place = of->second;
        AddMember(place, value, TextOf(key));
      } else {
        BindInModule(TextOf(key), value);
      }
    } catch (const std::exception& error) {
      Recorder::Get()->Stop(error.what());
    }
  }

  void BindAll(PyObject* dict) {
    // Entering may start the garbage collector, which may run the program's code: it may change the dictionary.
    std::vector<std::pair<PyObject*, PyObject*>> bound;
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value) != 0;) {
      if (!Has(value)) bound.emplace_back(Py_NewRef(key), Py_NewRef(value));
    }
    for (const auto& [each, its_value] : bound) {
      Bind(dict, each, its_value);
      Py_DECREF(each);
      Py_DECREF(its_value);
    }
  }

  // In classes. Before 3.12.
  void BindChanged() {
    std::vector<PyObject*> changed;
    for (auto& [dict, seen] : versions_) {
      if (const uint64_t version = DictVersion(dict); version != seen) {
        seen = version;
        changed.push_back(dict);
      }
    }
    for (PyObject* const dict : changed) BindAll(dict);
  }

  bool Has(PyObject* object) const { return functions_.Has(object) || held_.contains(object); }

  // Returns what was held, for the caller to release. Calls may be running: their callers hold what they call.
  std::vector<PyObject*> End() {
    on_ = false;
    NoteRemovedEntries();
    functions_.UndoAll();
    patches_.UndoAll();
    // A class that lives on, but in no name of the script, would be taken for the script's module by the next trace.
    for (const auto& [dict, place] : classes_) UnwatchDict(g_dict_watcher, dict);
    classes_.clear();
    versions_.clear();
    std::vector<PyObject*> held(held_.begin(), held_.end());
    held_.clear();
    return held;
  }

 private:
  struct ClassPlace {
    PyTypeObject* type;
    std::string name;
  };

  static const TracedApi* Api(const std::string& name) { return MakeTracedApi(kSetattrLevel, name, Py_None); }

  void BindInModule(const std::string& name, PyObject* value) {
    if (Py_TYPE(value) == &PyMethod_Type) value = PyMethod_GET_FUNCTION(value);
    if (!IsOfScript(value) || (!everything_ && name.starts_with('_'))) return;
    Add(value, absl::StrCat(kScriptLibrary, ".", name));
  }

  void Add(PyObject* object, const std::string& name) {
    if (PyFunction_Check(object)) {
      AddFunction(object, name);
    } else if (PyType_Check(object)) {
      AddClass(reinterpret_cast<PyTypeObject*>(object), name);
    } else if (Hold(object)) {
      PatchCallable(kSetattrLevel, object, Api(name), &patches_);
    }
  }

  // False: it is held.
  bool Hold(PyObject* object) {
    if (!held_.insert(object).second) return false;
    Py_INCREF(object);
    return true;
  }

  void AddFunction(PyObject* function, const std::string& name) {
    if (!functions_.Has(function)) PatchCallable(kSetattrLevel, function, Api(name), functions_.Of(function));
  }

  void AddClass(PyTypeObject* type, const std::string& name) {
    if (!Hold(reinterpret_cast<PyObject*>(type))) return;
    PatchCallable(kSetattrLevel, reinterpret_cast<PyObject*>(type), Api(name), &patches_);
    PyObject* const dict = DictOf(type);
    if (classes_.insert_or_assign(dict, ClassPlace{type, name}).second) versions_.emplace_back(dict, DictVersion(dict));
    WatchDict(g_dict_watcher, dict);
    BindAll(dict);
  }

  void AddMember(const ClassPlace& of, PyObject* object, const std::string& member) {
    if (member == "__init__" && PyFunction_Check(object)) {
      if (!Has(object)) PatchConstructor(kSetattrLevel, of.type, Api(of.name), functions_.Of(object));
      return;
    }
    if (IsSpecial(member) ? !IsOperator(member) : !everything_ && member.starts_with('_')) return;
    const std::string name = absl::StrCat(of.name, ".", member);
    if (Py_TYPE(object) == &PyProperty_Type) {
      if (everything_) AddProperty(of.type, object, name);
      return;
    }
    if (Py_TYPE(object) == &PyStaticMethod_Type || Py_TYPE(object) == &PyClassMethod_Type) {
      object = StructMember(object, "__func__");
    }
    if (object == nullptr || !IsOfScript(object)) return;
    if (PyFunction_Check(object) || IsCacheWrapper(object)) return Add(object, name);
    // A class that is only named here is not a part of this one.
    if (!PyType_Check(object)) return;
    const auto qualified = [](PyObject* of_type) {
      return TextOf(reinterpret_cast<PyHeapTypeObject*>(of_type)->ht_qualname);
    };
    if (qualified(object) == absl::StrCat(qualified(reinterpret_cast<PyObject*>(of.type)), ".", member))
      Add(object, name);
  }

  void AddProperty(PyTypeObject* type, PyObject* property, const std::string& name) {
    PyObject* const get = StructMember(property, "fget");
    if (get != nullptr && PyFunction_Check(get) && !Has(get)) {
      PatchGetter(kSetattrLevel, type, get, Api(name + ".__get__"), functions_.Of(get));
    }
    PyObject* const set = StructMember(property, "fset");
    if (set != nullptr && PyFunction_Check(set)) AddFunction(set, name + ".__set__");
  }

  bool on_ = false;
  bool everything_ = false;
  FunctionPatches functions_;
  absl::flat_hash_set<PyObject*> held_;
  absl::flat_hash_map<PyObject*, ClassPlace> classes_;    // by their dictionaries
  std::vector<std::pair<PyObject*, uint64_t>> versions_;  // of these dictionaries, when all was bound
  PatchList patches_;                                     // of objects that are held
};

Script& TheScript() {
  static auto* const script = new Script;
  return *script;
}

PyObject* DictOfModule(PyObject* module) {
  return module != nullptr && PyModule_Check(module) ? PyModule_GetDict(module) : nullptr;
}

// ---- Before 3.12: whatever calls the script's objects looks first ----

struct Looked {
  PyObject* dict;
  uint64_t version;
};
Looked g_looked[std::size(kScriptModules)];
// Where the script runs, whatever it puts in the place of its module.
Looked g_first;

void LookIn(PyObject* dict, Looked* looked) {
  if (dict == nullptr || (dict == looked->dict && DictVersion(dict) == looked->version)) return;
  *looked = {dict, DictVersion(dict)};
  TheScript().BindAll(dict);
}

PyObject* DictOfScript(const char* name) { return DictOfModule(PyDict_GetItemString(PyImport_GetModuleDict(), name)); }

void Look() {
  LookIn(g_first.dict, &g_first);
  for (size_t i = 0; i < std::size(kScriptModules); ++i) {
    if (PyObject* const dict = DictOfScript(kScriptModules[i]); dict != g_first.dict) LookIn(dict, &g_looked[i]);
  }
  TheScript().BindChanged();
}

// True: `callable` has got an entry.
bool HasNowAnEntry(PyObject* callable) {
  if (!TheScript().on() || TheScript().Has(callable) || !IsOfScript(callable)) return false;
  Look();
  return TheScript().Has(callable);
}

ternaryfunc g_call_function = nullptr;
PyObject* CallFunction(PyObject* function, PyObject* args, PyObject* kwargs) {
  HasNowAnEntry(function);
  // No destructor counts it again: a thread may end within the call (stack_use.h).
  CountRecursion(-1);
  PyObject* const result = g_call_function(function, args, kwargs);
  CountRecursion(1);
  return result;
}

absl::flat_hash_map<PyTypeObject*, ternaryfunc>& OriginalCalls() {
  static auto* const calls = new absl::flat_hash_map<PyTypeObject*, ternaryfunc>;
  return *calls;
}

// The nearest type, from `type` up, whose `tp_call` is replaced; null: there is none.
PyTypeObject* NearestLookedAt(PyTypeObject* type) {
  while (type != nullptr && !OriginalCalls().contains(type)) type = type->tp_base;
  return type;
}

// What the thread calls by a type's original `tp_call`, which may call on to a base's, as other entries do.
struct CalledOn {
  PyObject* callable = nullptr;
  PyTypeObject* type = nullptr;
};
thread_local CalledOn t_called_on;

// In the `tp_call` of types whose instances the script may define. Types derived from them inherit it.
PyObject* CallInstance(PyObject* callable, PyObject* args, PyObject* kwargs) {
  PyTypeObject* type = Py_TYPE(callable);
  if (t_called_on.callable == callable) {
    type = t_called_on.type->tp_base;
  } else if (HasNowAnEntry(callable)) {
    return PyObject_Call(callable, args, kwargs);
  }
  if (type = NearestLookedAt(type); type != nullptr) {
    const bool may_call_on = NearestLookedAt(type->tp_base) != nullptr;
    const CalledOn before = std::exchange(t_called_on, may_call_on ? CalledOn{callable, type} : CalledOn());
    PyObject* const result = OriginalCalls().find(type)->second(callable, args, kwargs);
    t_called_on = before;
    return result;
  }
  PyErr_Format(PyExc_TypeError, "'%.200s' object is not callable", Py_TYPE(callable)->tp_name);
  return nullptr;
}

void LookAtInstancesOf(PyTypeObject* type) {
  if (type->tp_call == nullptr || type->tp_call == CallInstance || OriginalCalls().contains(type)) return;
  OriginalCalls().emplace(type, std::exchange(type->tp_call, CallInstance));
}

void LookAtNewType(PyTypeObject* type) {
  // One that was freed may have lain at the same address.
  if (type->tp_call == CallInstance && type->tp_base->tp_call == CallInstance) OriginalCalls().erase(type);
  if (!TheScript().on() || !IsOfScript(type)) return;
  LookAtInstancesOf(Py_TYPE(type));
  LookAtInstancesOf(type);
}

void BeginLooking() {
  if (g_call_function == nullptr) {
    g_call_function = std::exchange(PyFunction_Type.tp_call, CallFunction);
    LookAtInstancesOf(&PyType_Type);
    PyObject* const functools = PyImport_ImportModule("_functools");
    PyObject* const wrapper = functools == nullptr ? nullptr : PyObject_GetAttrString(functools, "_lru_cache_wrapper");
    if (wrapper != nullptr && PyType_Check(wrapper)) LookAtInstancesOf(reinterpret_cast<PyTypeObject*>(wrapper));
    PyErr_Clear();
    Py_XDECREF(wrapper);
    Py_XDECREF(functools);
    WatchNewTypes(LookAtNewType);
  }
  CallFunctionsByType(true);
  if (kCallsSkipVectorcall) UseFrameEvaluation();
  for (Looked& looked : g_looked) looked = {};
  g_first = {DictOfScript(kScriptLibrary), 0};
  Py_XINCREF(g_first.dict);
  Look();
}

// Returns what was held, for the caller to release; null: nothing.
PyObject* EndLooking() {
  CallFunctionsByType(false);
  if (kCallsSkipVectorcall) ReleaseFrameEvaluation();
  return std::exchange(g_first.dict, nullptr);
}

// ---- Since 3.12: the dictionaries are watched ----

void WatchModule(PyObject* module) {
  PyObject* const dict = DictOfModule(module);
  if (dict == nullptr) return;
  WatchDict(g_dict_watcher, dict);
  TheScript().BindAll(dict);
}

void BindsInDict(PyObject* dict, PyObject* key, PyObject* value) {
  if (!TheScript().on()) return;
  if (dict != PyImport_GetModuleDict()) return TheScript().Bind(dict, key, value);
  if (IsScriptModule(key)) WatchModule(value);
}

absl::Status BeginWatching() {
  if (g_dict_watcher < 0) g_dict_watcher = TakeDictWatcher<BindsInDict>();
  if (g_dict_watcher < 0) {
    PyErr_Clear();
    return absl::InternalError("other code watches dictionaries, and Python has no place for one more watcher");
  }
  PyObject* const modules = PyImport_GetModuleDict();
  WatchDict(g_dict_watcher, modules);
  for (const char* const name : kScriptModules) WatchModule(PyDict_GetItemString(modules, name));
  return absl::OkStatus();
}

// ----

class ScriptHook final : public TracingHook {
 public:
  explicit ScriptHook(bool everything) : everything_(everything) {}
  // Only here, with the GIL, is everything released that the trace has held: all hooks are uninstalled now, and what is
  // freed may run the program's code.
  ~ScriptHook() override {
    if (held_.empty()) return;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    for (PyObject* const held : held_) Py_DECREF(held);
    PyErr_Restore(type, value, traceback);
  }
  ScriptHook(const ScriptHook&) = delete;
  ScriptHook& operator=(const ScriptHook&) = delete;

  int level() const override { return kSetattrLevel; }
  std::string name() const override { return "script"; }
  absl::Status Install() override {
    WatchNewTypes(ForgetOlderType);
    TheScript().Begin(everything_);
    if (kDictsAreWatched) return BeginWatching();
    BeginLooking();
    return absl::OkStatus();
  }
  void Uninstall() override {
    if (!TheScript().on()) return;
    PyObject* const first = kDictsAreWatched ? nullptr : EndLooking();
    held_ = TheScript().End();
    if (first != nullptr) held_.push_back(first);
  }

 private:
  const bool everything_;
  std::vector<PyObject*> held_;  // since it was uninstalled
};

}  // namespace

std::unique_ptr<TracingHook> MakeScriptHook(bool everything) { return std::make_unique<ScriptHook>(everything); }

}  // namespace torchtrace::python_dialect
