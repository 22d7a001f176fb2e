// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "tracer/python/import_watch.h"

#include <Python.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace torchtrace {
namespace {

struct Watcher {
  const void* owner;
  std::function<void()> after;
};

// All guarded by the GIL. Objects are never freed: they are few, and the interpreter may be gone when static objects
// are destroyed.
struct Watches {
  std::map<std::string, std::vector<Watcher>> waiting;
  std::set<std::string> failed;     // watched modules whose code raised
  PyObject* loader_type = nullptr;  // the class that defines exec_module
  PyObject* original = nullptr;     // its exec_module
  PyObject* ours = nullptr;         // our replacement
  bool installed = false;
};

Watches& ImportWatches() {
  static auto* const state = new Watches;
  return *state;
}

// The module's name, without asking the module: it may be lazy.
std::string ModuleName(PyObject* module) {
  if (module == nullptr || !PyModule_Check(module)) return "";
  PyObject* const dict = PyModule_GetDict(module);
  PyObject* const name = dict != nullptr ? PyDict_GetItemString(dict, "__name__") : nullptr;
  if (name == nullptr || !PyUnicode_Check(name)) return "";
  const char* const text = PyUnicode_AsUTF8(name);
  if (text == nullptr) PyErr_Clear();
  return text != nullptr ? text : "";
}

void Uninstall() {
  Watches& state = ImportWatches();
  if (!state.installed) return;
  // If other code has wrapped our method since, it stays: it calls the original, and serves the next watch.
  PyObject* const now = PyObject_GetAttrString(state.loader_type, "exec_module");
  if (now == state.ours && PyObject_SetAttrString(state.loader_type, "exec_module", state.original) == 0) {
    Py_CLEAR(state.ours);
    state.installed = false;
  }
  Py_XDECREF(now);
  PyErr_Clear();
}

void Notify(const std::string& module) {
  Watches& state = ImportWatches();
  const auto found = state.waiting.find(module);
  if (found == state.waiting.end()) return;
  // Removed first, as a callback may watch more modules, or import.
  const std::vector<Watcher> told = std::move(found->second);
  state.waiting.erase(found);
  for (const Watcher& each : told) {
    each.after();
    PyErr_Clear();
  }
  if (state.waiting.empty()) Uninstall();
}

// exec_module(loader, module)
PyObject* ExecModule(PyObject*, PyObject* args, PyObject* kwargs) {
  PyObject* module = PyTuple_GET_SIZE(args) > 1 ? PyTuple_GET_ITEM(args, 1) : nullptr;
  if (module == nullptr && kwargs != nullptr) module = PyDict_GetItemString(kwargs, "module");
  const std::string name = ImportWatches().waiting.empty() ? "" : ModuleName(module);
  PyObject* const result = PyObject_Call(ImportWatches().original, args, kwargs);
  if (!ImportWatches().waiting.contains(name)) return result;
  if (result != nullptr) {
    ImportWatches().failed.erase(name);
    Notify(name);
  } else {
    ImportWatches().failed.insert(name);
  }
  return result;
}

// The replacement's type. Like the Python function it replaces it is itself in a class, binds to instances of any class
// (importlib.abc copies it into another one), and shows the function's attributes.
PyObject* GetOfOriginal(PyObject*, PyObject* name) { return PyObject_GetAttr(ImportWatches().original, name); }
PyObject* ReprOfOriginal(PyObject*) { return PyObject_Repr(ImportWatches().original); }
PyObject* Bind(PyObject* self, PyObject* loader, PyObject*) {
  return loader == nullptr ? Py_NewRef(self) : PyMethod_New(self, loader);
}

PyTypeObject* ReplacementType() {
  static PyTypeObject* const ready = [] {
    static PyTypeObject type = {
        .ob_base = {.ob_base = {.ob_refcnt = 1}},
        .tp_name = "function",
        .tp_basicsize = sizeof(PyObject),
        .tp_repr = ReprOfOriginal,
        .tp_call = ExecModule,
        .tp_getattro = GetOfOriginal,
        .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_METHOD_DESCRIPTOR,
        .tp_descr_get = Bind,
    };
    return PyType_Ready(&type) == 0 ? &type : nullptr;
  }();
  return ready;
}

absl::Status PythonError(const std::string& what) {
  PyErr_Clear();
  return absl::InternalError(absl::StrCat("cannot watch for imports: ", what));
}

absl::Status Install() {
  Watches& state = ImportWatches();
  if (state.installed) return absl::OkStatus();
  if (state.loader_type == nullptr) {
    PyObject* const external = PyImport_ImportModule("_frozen_importlib_external");
    if (external == nullptr) return PythonError("importlib is not there");
    state.loader_type = PyObject_GetAttrString(external, "_LoaderBasics");
    Py_DECREF(external);
    if (state.loader_type == nullptr) return PythonError("importlib has no _LoaderBasics");
  }
  PyObject* const original = PyObject_GetAttrString(state.loader_type, "exec_module");
  if (original == nullptr) return PythonError("_LoaderBasics has no exec_module");
  Py_XSETREF(state.original, original);
  state.ours = ReplacementType() == nullptr ? nullptr : PyObject_New(PyObject, ReplacementType());
  if (state.ours == nullptr || PyObject_SetAttrString(state.loader_type, "exec_module", state.ours) != 0) {
    Py_CLEAR(state.ours);
    return PythonError("_LoaderBasics cannot be changed");
  }
  state.installed = true;
  return absl::OkStatus();
}

// Whether `module` is in sys.modules and its import has finished.
bool IsImported(const std::string& module) {
  PyObject* const modules = PyImport_GetModuleDict();
  PyObject* const found = modules != nullptr ? PyDict_GetItemString(modules, module.c_str()) : nullptr;
  if (found == nullptr || !PyModule_Check(found)) return false;
  PyObject* const spec = PyDict_GetItemString(PyModule_GetDict(found), "__spec__");
  if (spec == nullptr || spec == Py_None) return true;
  PyObject* const initializing = PyObject_GetAttrString(spec, "_initializing");
  const bool over = initializing == nullptr || PyObject_IsTrue(initializing) == 0;
  Py_XDECREF(initializing);
  PyErr_Clear();
  return over;
}

}  // namespace

absl::Status WatchImport(const std::string& module, std::function<void()> after, const void* owner) {
  if (IsImported(module)) {
    after();
    PyErr_Clear();
    return absl::OkStatus();
  }
  if (absl::Status status = Install(); !status.ok()) return status;
  ImportWatches().waiting[module].push_back({owner, std::move(after)});
  return absl::OkStatus();
}

bool ImportFailed(const std::string& module) { return ImportWatches().failed.contains(module); }

void UnwatchImports(const void* owner) {
  Watches& state = ImportWatches();
  for (auto& [module, waiting] : state.waiting) {
    std::erase_if(waiting, [owner](const Watcher& each) { return each.owner == owner; });
  }
  std::erase_if(state.waiting, [](const auto& module) { return module.second.empty(); });
  if (state.waiting.empty()) Uninstall();
}

}  // namespace torchtrace
