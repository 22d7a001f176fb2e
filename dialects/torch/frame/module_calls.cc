#include "dialects/torch/frame/module_calls.h"

#include <Python.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "dialects/python/describe/object_names.h"
#include "dialects/python/setattr/recorded_calls.h"
#include "serialize/model/config_builder.h"
#include "tracer/cpython/objects.h"
#include "tracer/python/python_patch.h"
#include "tracer/record/thread_state.h"

namespace torchtrace::torch_dialect {
namespace {

// All below is guarded by the GIL. Modules are known by their addresses alone, and what was found of one is looked at
// again before it is used: the object may be gone and another in its place.

constexpr char kTorch[] = "torch";

ModuleCallsHook::Describe g_describe = nullptr;
vectorcallfunc g_original = nullptr;  // kept when the entry is taken out: calls may be under way
uint32_t g_version = 0;               // of the function, while the entry stands in it

// Of a module's `_modules`, where each child is on the way from a root.
using Way = std::vector<Py_ssize_t>;

// So many are remembered: programs that make modules anew have addresses without end.
constexpr size_t kMostRemembered = 1 << 16;

// Deeper than Python calls modules in modules by itself; a chain of more has no paths.
constexpr size_t kMostSteps = 500;

// The modules whose calls are under way on this thread, filtered out or not.
struct ModuleThread {
  std::vector<PyObject*> roots;  // of each call, the outermost first
  // By root and module: no path led from the one to the other since the outermost call began.
  std::set<std::pair<PyObject*, PyObject*>> apart;

  // Where greenlets change places on the thread, calls don't end in the order in which they began.
  void Shrink(size_t depth) {
    if (roots.size() > depth) roots.resize(depth);
    if (roots.empty() && !apart.empty()) apart.clear();
  }
};
thread_local ModuleThread t_modules;

// Borrowed; null where the module has no such dictionary (one of TorchScript).
PyObject* Children(PyObject* module) {
  PyObject* const children = InstanceAttribute(module, "_modules");
  return children != nullptr && PyDict_Check(children) ? children : nullptr;
}

// The name at each step of `way`, joined; empty where it doesn't lead from `root` to `module`.
std::string Follow(PyObject* root, const Way& way, PyObject* module) {
  std::string path;
  PyObject* at = root;
  for (Py_ssize_t position : way) {
    PyObject* const children = Children(at);
    PyObject *name = nullptr, *child = nullptr;
    if (children == nullptr || PyDict_Next(children, &position, &name, &child) == 0) return {};
    if (!path.empty()) path += '.';
    path += PythonText(name).kept();
    at = child;
  }
  return at == module ? path : std::string();
}

// In the order of named_modules(): the first path of a module that has several.
bool Search(PyObject* from, PyObject* module, std::set<PyObject*>* seen, Way* way) {
  PyObject* const children = Children(from);
  if (children == nullptr || way->size() >= kMostSteps || !seen->insert(from).second) return false;
  PyObject *name = nullptr, *child = nullptr;
  Py_ssize_t next = 0;
  for (Py_ssize_t position = next; PyDict_Next(children, &next, &name, &child) != 0; position = next) {
    if (child == Py_None) continue;
    way->push_back(position);
    if (child == module || Search(child, module, seen, way)) return true;
    way->pop_back();
  }
  return false;
}

// The module's path from `root`; empty where there is none.
std::string PathFrom(PyObject* root, PyObject* module) {
  static auto* const ways = new std::map<std::pair<PyObject*, PyObject*>, Way>();
  const auto known = ways->find({root, module});
  if (known != ways->end()) {
    if (std::string path = Follow(root, known->second, module); !path.empty()) return path;
  }
  if (t_modules.apart.count({root, module}) != 0) return {};
  std::set<PyObject*> seen;
  Way way;
  if (!Search(root, module, &seen, &way)) {
    t_modules.apart.insert({root, module});
    return {};
  }
  if (ways->size() >= kMostRemembered) ways->clear();
  std::string path = Follow(root, way, module);
  (*ways)[{root, module}] = std::move(way);
  return path;
}

// "Linear_3": a root's class, and which of that class it is.
std::string RootName(PyObject* module, std::string_view type) {
  static auto* const names = new std::map<PyObject*, std::pair<PyTypeObject*, std::string>>();
  static auto* const counts = new std::map<std::string, uint64_t, std::less<>>();
  auto& [known_type, name] = (*names)[module];
  if (known_type == Py_TYPE(module)) return name;
  const std::string last(type.substr(type.rfind('.') + 1));
  name = absl::StrCat(last, "_", (*counts)[last]++);
  known_type = Py_TYPE(module);
  std::string result = name;
  if (names->size() >= kMostRemembered) names->clear();
  return result;
}

// Of a class of torch's the shortest name that leads to it: torch.nn.Linear is torch.nn.modules.linear.Linear.
std::string FindPublicName(PyTypeObject* type, const std::string& name) {
  const std::string last = name.substr(name.rfind('.') + 1);
  std::string prefix;
  PyObject* at = ImportedModule(kTorch);
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(name, '.'))) {
    if (!prefix.empty()) at = InstanceAttribute(at, part);
    if (at == nullptr || !PyModule_Check(at)) break;
    absl::StrAppend(&prefix, prefix.empty() ? "" : ".", part);
    if (InstanceAttribute(at, last) == reinterpret_cast<PyObject*>(type)) return absl::StrCat(prefix, ".", last);
  }
  return name;
}

std::string ClassName(PyTypeObject* type) {
  static auto* const public_names = new std::map<std::string, std::string>();
  std::string name = TypeName(type);
  if (!IsOf(kTorch, name)) return name;
  std::string& found = (*public_names)[name];
  if (found.empty()) found = FindPublicName(type, name);
  return found;
}

// True: the call was recorded, and EndCall follows.
bool Begin(PyObject* module) {
  return t_thread.Enter([&](ConfigBuilder* config) {
    const std::string type = ClassName(Py_TYPE(module));
    std::vector<PyObject*>& roots = t_modules.roots;
    PyObject* const root = roots.empty() ? module : roots.back();
    std::string path = root == module ? std::string() : PathFrom(root, module);
    roots.push_back(path.empty() ? module : root);
    if (path.empty()) path = RootName(module, type);
    config->Begin(ConfigBuilder::EncodeHead(kFrameLevel, type));
    config->Positional(0);
    config->Keywords(1);
    config->Keyword("path");
    config->values().String(path, path.size());
  });
}

PyObject* EnterModuleCall(PyObject* function, PyObject* const* arguments, size_t flags, PyObject* names) {
  if (PyVectorcall_NARGS(flags) == 0) return g_original(function, arguments, flags, names);
  const size_t depth = t_modules.roots.size();
  const bool recorded = Begin(arguments[0]);
  PyObject* const result = g_original(function, arguments, flags, names);
  t_modules.Shrink(depth);
  if (recorded) python_dialect::EndCall(result, g_describe);
  return result;
}

}  // namespace

absl::Status ModuleCallsHook::Install() {
  PyObject* const nn = ImportedModule("torch.nn");
  PyObject* const type = nn == nullptr ? nullptr : PyObject_GetAttrString(nn, "Module");
  PyObject* const call =
      type == nullptr || !PyType_Check(type)
          ? nullptr
          : PyDict_GetItemString(DictOf(reinterpret_cast<PyTypeObject*>(type)), "__call__");  // the class holds it
  PyErr_Clear();
  Py_XDECREF(type);
  if (call == nullptr || !PyFunction_Check(call))
    return absl::InternalError("torch.nn.Module.__call__ is no Python function: another library replaced it");
  auto* const function = reinterpret_cast<PyFunctionObject*>(call);
  if (function->vectorcall == EnterModuleCall) return absl::OkStatus();
  g_describe = describe_;
  g_original = function->vectorcall;
  patches_.Replace(&function->vectorcall, static_cast<vectorcallfunc>(EnterModuleCall));
  HideFromSpecialization(function, &g_version,
                         [this](uint32_t* place, uint32_t number) { patches_.ReplaceNumber(place, number); });
  return absl::OkStatus();
}

void ModuleCallsHook::Uninstall() { patches_.UndoAll(); }

}  // namespace torchtrace::torch_dialect
