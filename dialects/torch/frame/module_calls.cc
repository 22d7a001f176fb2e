#include "dialects/torch/frame/module_calls.h"

#include <Python.h>

#include <exception>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "dialects/python/describe/object_names.h"
#include "dialects/python/setattr/recorded_calls.h"
#include "dialects/torch/frame/module_paths.h"
#include "serialize/model/config_builder.h"
#include "tracer/cpython/objects.h"
#include "tracer/python/python_patch.h"
#include "tracer/record/thread_state.h"

namespace torchtrace::torch_dialect {
namespace {

// The GIL guards everything below.

constexpr char kTorch[] = "torch";

ModuleCallsHook::Describe g_describe = nullptr;
vectorcallfunc g_original = nullptr;  // kept when the entry is taken out: calls may be under way
uint32_t g_version = 0;               // of the function, while the entry is in it
PyTypeObject* g_module_class = nullptr;

// The modules whose calls are under way on this thread, filtered out or not.
struct ModuleThread {
  struct Module {
    ModelNumber model;
    std::string path;
  };
  std::vector<Module> modules;  // of each call, the outermost first
  ModulesApart apart;           // since the outermost call began

  // With greenlets, calls on a thread need not end in the reverse order of their beginnings.
  void Shrink(size_t depth) {
    if (modules.size() > depth) modules.resize(depth);
    if (modules.empty() && !apart.empty()) apart.clear();
  }
};
thread_local ModuleThread t_modules;

// The shortest name of a class of torch: torch.nn.Linear for torch.nn.modules.linear.Linear.
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

// True: the call was recorded, and EndCall must follow.
bool Begin(PyObject* module) {
  return t_thread.Enter([&](ConfigBuilder* config) {
    std::vector<ModuleThread::Module>& modules = t_modules.modules;
    ModulePlace place = PlaceOf(module, g_module_class, modules.empty() ? 0 : modules.back().model, &t_modules.apart);
    const bool is_part = !place.path.empty();
    std::string& path = is_part ? place.path : place.model_name;
    config->Begin(ConfigBuilder::EncodeHead(kFrameLevel, ClassName(Py_TYPE(module))));
    config->Positional(0);
    config->Keywords(is_part ? 2 : 1);
    config->Keyword("path");
    config->values().String(path, path.size());
    if (is_part) {
      config->Keyword("model");
      config->values().String(place.model_name, place.model_name.size());
    }
    modules.push_back({place.model, std::move(path)});
  });
}

// Also where nothing is recorded now: later steps may be.
void LookForModule(PyObject* module) {
  if (!t_thread.InSession() || t_thread.describing) return;
  try {
    LookForPlace(module, g_module_class);
  } catch (const std::exception&) {  // the description will fail as well
  }
}

PyObject* EnterModuleCall(PyObject* function, PyObject* const* arguments, size_t flags, PyObject* names) {
  if (PyVectorcall_NARGS(flags) == 0) return g_original(function, arguments, flags, names);
  const size_t depth = t_modules.modules.size();
  if (depth == 0) {
    // What that takes is no part of a step.
    LookForModule(arguments[0]);
    Recorder::TellBeforeModule();
  }
  const bool recorded = Begin(arguments[0]);
  PyObject* const result = g_original(function, arguments, flags, names);
  t_modules.Shrink(depth);
  if (recorded) python_dialect::EndCall(result, g_describe);
  return result;
}

}  // namespace

std::string ModuleUnderWay() { return t_modules.modules.empty() ? "" : t_modules.modules.back().path; }

absl::Status ModuleCallsHook::Install() {
  PyObject* const nn = ImportedModule("torch.nn");
  PyObject* const type = nn == nullptr ? nullptr : PyObject_GetAttrString(nn, "Module");
  PyObject* const call =
      type == nullptr || !PyType_Check(type)
          ? nullptr
          : PyDict_GetItemString(DictOf(reinterpret_cast<PyTypeObject*>(type)), "__call__");  // the class holds it
  PyErr_Clear();
  g_module_class = reinterpret_cast<PyTypeObject*>(type);  // sys.modules holds it
  Py_XDECREF(type);
  if (call == nullptr || !PyFunction_Check(call))
    return absl::InternalError("torch.nn.Module.__call__ is not a Python function: another library replaced it");
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
