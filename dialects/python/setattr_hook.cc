#include "dialects/python/setattr_hook.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "dialects/python/attribute_path.h"
#include "dialects/python/builtin_identity.h"
#include "dialects/python/call_through.h"
#include "dialects/python/callable_patch.h"
#include "dialects/python/frame_evaluation.h"
#include "dialects/python/method_patch.h"
#include "dialects/python/property_patch.h"
#include "dialects/python/slot_patch.h"
#include "serialize/value.h"
#include "tracer/import_watch.h"

namespace torchtrace::python_dialect {
namespace {

constexpr size_t kMaxToldNames = 20;

int g_installed = 0;  // hooks

// Public before private, then few parts, then short.
auto Rank(const std::string& name) {
  const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
  const bool special = last.size() > 4 && last.substr(0, 2) == "__" && last.substr(last.size() - 2) == "__";
  const bool is_private = name.find("._") != std::string::npos && !special;
  return std::make_tuple(is_private, std::count(name.begin(), name.end(), '.'), name.size(), name);
}

// A member of the C struct: reading it runs no Python.
PyObject* StructMember(PyObject* object, const char* name) {
  PyObject* const member = PyObject_GetAttrString(object, name);
  PyErr_Clear();
  Py_XDECREF(member);  // the object holds it
  return member == Py_None ? nullptr : member;
}

// What everything has, or what is Python's own.
bool IsBuiltin(PyTypeObject* type) {
  return !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) && std::string_view(type->tp_name).find('.') == std::string_view::npos;
}

const TracedApi* MakeApi(std::string name, bool getter, PyObject* object) {
  // As many as there are names, however often a hook is installed.
  static auto* const apis = new std::map<std::pair<PyObject*, std::string>, const TracedApi*>();
  const TracedApi*& known = (*apis)[{object, name}];
  if (known != nullptr) return known;
  auto* const api = new TracedApi;
  api->head.assign(1, '\0');  // the level
  AppendString(name, &api->head);
  api->name = std::move(name);
  api->getter = getter;
  api->object = Py_NewRef(object);
  return known = api;
}

}  // namespace

// One thing that can be entered, however many names it has.
struct SetattrHook::Target {
  enum Kind { kCallable, kMethod, kProperty, kSlot };
  Kind kind = kCallable;
  PyObject* object = nullptr;  // borrowed
  const void* key = nullptr;   // tells targets apart
  PyMethodDef* method = nullptr;
  MethodSelf self = MethodSelf::kModule;
  PyObject* only_self = nullptr;
  // Of a property.
  PyGetSetDef* property = nullptr;
  bool get = false;
  bool set = false;
  std::string accessor;  // of a Python property's function
  std::string name;
};

SetattrHook::SetattrHook(SetattrDialect* dialect, SetattrOptions options)
    : dialect_(dialect), options_(std::move(options)) {}

// `object` as it stands in a dictionary. False: it can't be entered.
bool SetattrHook::MakeTarget(PyObject* object, const std::string& accessor, Target* target) {
  PyTypeObject* const type = Py_TYPE(object);
  if (type == &PyStaticMethod_Type || type == &PyClassMethod_Type) {
    PyObject* const function = StructMember(object, "__func__");
    return function != nullptr && MakeTarget(function, accessor, target);
  }
  if (type == &PyInstanceMethod_Type) return MakeTarget(PyInstanceMethod_GET_FUNCTION(object), accessor, target);
  if (type == &PyMethod_Type) return MakeTarget(PyMethod_GET_FUNCTION(object), accessor, target);
  target->object = object;
  target->key = object;
  if (type == &PyGetSetDescr_Type) {
    if (IsBuiltin(PyDescr_TYPE(object))) return false;
    target->kind = Target::kProperty;
    target->property = reinterpret_cast<PyGetSetDescrObject*>(object)->d_getset;
    target->key = target->property;
    return true;
  }
  if (type == &PyWrapperDescr_Type) {
    target->kind = Target::kSlot;
    return !IsBuiltin(PyDescr_TYPE(object));
  }
  if (type == &PyMethodDescr_Type || type == &PyClassMethodDescr_Type) {
    if (IsBuiltin(PyDescr_TYPE(object))) return false;
    target->kind = Target::kMethod;
    target->method = reinterpret_cast<PyMethodDescrObject*>(object)->d_method;
    target->self = MethodSelf::kArgument;
    target->key = target->method;
    return true;
  }
  if (PyCFunction_Check(object)) {
    PyObject* const self = PyCFunction_GET_SELF(object);
    target->kind = Target::kMethod;
    target->method = reinterpret_cast<PyCFunctionObject*>(object)->m_ml;
    target->key = target->method;
    // All types share this definition, and CPython tells by its function which classes have a
    // __new__ of their own.
    if (std::string_view(target->method->ml_name) == "__new__") return false;
    const bool free = self == nullptr || PyModule_Check(self) || PyType_Check(self) || PyCapsule_CheckExact(self);
    target->self = free ? MethodSelf::kModule : MethodSelf::kOnly;
    target->only_self = self;
    return true;
  }
  if (PyType_Check(object) && IsBuiltin(reinterpret_cast<PyTypeObject*>(object))) return false;
  return PyCallable_Check(object) != 0;
}

bool SetattrHook::Patch(const Target& target, const TracedApi* api, const TracedApi* set_api) {
  switch (target.kind) {
    case Target::kCallable:
      return PatchCallable(target.object, api, &patches_);
    case Target::kMethod:
      return PatchMethod(target.method, target.self, target.only_self, api, &patches_);
    case Target::kProperty:
      return PatchProperty(target.property, api, set_api, &patches_);
    case Target::kSlot:
      return PatchSlot(target.object, api, &patches_);
  }
  return false;
}

absl::Status SetattrHook::Enter(const Target& target) {
  std::string name = target.name;
  if (target.kind != Target::kProperty && target.accessor.empty()) {
    absl::StatusOr<std::string> known = dialect_->PublicName(target.object);
    if (!known.ok()) return known.status();
    // Python code ran there, and perhaps another thread's.
    if (!installed_) return absl::OkStatus();
    if (!known->empty()) name = *std::move(known);
  }
  const TracedApi* api = nullptr;
  const TracedApi* set_api = nullptr;
  if (target.kind == Target::kProperty) {
    if (target.get) api = MakeApi(name + ".__get__", true, target.object);
    if (target.set) set_api = MakeApi(name + ".__set__", false, target.object);
  } else {
    if (!target.accessor.empty()) absl::StrAppend(&name, ".", target.accessor);
    api = MakeApi(std::move(name), target.accessor == "__get__", target.object);
  }
  if (Patch(target, api, set_api)) {
    entered_.insert(target.key);
  } else {
    closed_.push_back(target.name);
  }
  return absl::OkStatus();
}

absl::Status SetattrHook::Add(const std::vector<std::string>& names, const std::string& imported) {
  std::vector<Target> targets;
  std::map<const void*, size_t> by_key;
  std::set<std::string> modules;
  const auto add = [&](Target target, const std::string& name, bool get, bool set) {
    if (entered_.count(target.key) != 0) return;
    const auto [place, is_new] = by_key.emplace(target.key, targets.size());
    if (is_new) {
      target.name = name;
      targets.push_back(std::move(target));
    }
    Target& known = targets[place->second];
    if (Rank(name) < Rank(known.name)) known.name = name;
    known.get |= get;
    known.set |= set;
  };
  for (const std::string& name : names) {
    const Attribute attribute = FindAttribute(name, imported);
    if (attribute.object == nullptr) {
      if (attribute.awaited_module.empty()) {
        missing_.push_back(name);
      } else {
        awaited_[attribute.awaited_module].push_back(name);
        modules.insert(attribute.awaited_module);
      }
      continue;
    }
    const std::string& accessor = attribute.accessor;
    const std::string owner = accessor.empty() ? name : name.substr(0, name.size() - accessor.size() - 1);
    Target target;
    if (Py_TYPE(attribute.object) == &PyProperty_Type) {
      for (const auto& [half, member] : {std::pair("__get__", "fget"), std::pair("__set__", "fset")}) {
        if (!accessor.empty() && accessor != half) continue;
        PyObject* const function = StructMember(attribute.object, member);
        target = Target();
        if (function == nullptr || !MakeTarget(function, "", &target)) continue;
        target.accessor = half;
        add(target, owner, false, false);
      }
    } else if (MakeTarget(attribute.object, accessor, &target)) {
      add(target, owner, accessor != "__set__", accessor != "__get__");
    } else {
      closed_.push_back(name);
    }
  }
  for (const Target& target : targets) {
    if (absl::Status status = Enter(target); !status.ok()) return status;
  }
  for (const std::string& module : modules) Await(module);
  return absl::OkStatus();
}

void SetattrHook::Await(const std::string& module) {
  // The session may end, on another thread, while this runs.
  const auto imported = [this, module, alive = weak_from_this().lock()] {
    const auto found = awaited_.find(module);
    if (!installed_ || found == awaited_.end()) return;
    const std::vector<std::string> names = std::move(found->second);
    awaited_.erase(found);
    if (absl::Status added = Add(names, module); !added.ok()) dialect_->NoteNotSeen(std::string(added.message()));
  };
  const absl::Status status = WatchImport(module, imported, this);
  if (!status.ok()) dialect_->NoteNotSeen(absl::StrCat("level 0: ", module, ": ", std::string(status.message())));
}

absl::Status SetattrHook::Install() {
  // Hooks that are installed together are one installation.
  const uint64_t installation = g_call_options.installation + (g_installed++ == 0 ? 1 : 0);
  g_call_options = {dialect_, options_.outermost, options_.include_getters, installation};
  installed_ = true;
  StartKeepingBuiltins();
  absl::Status status = Add(options_.names);
  if (!status.ok()) {
    Uninstall();
    return status;
  }
  if (installed_) SetFrameEvaluation();
  return absl::OkStatus();
}

void SetattrHook::Tell(const char* what, const std::vector<std::string>& names) {
  if (names.empty()) return;
  const size_t told = std::min(names.size(), kMaxToldNames);
  dialect_->NoteNotSeen(absl::StrCat("level 0: ", names.size(), " of the API list ", what, ": ",
                                     absl::StrJoin(names.begin(), names.begin() + static_cast<ptrdiff_t>(told), ", "),
                                     told < names.size() ? ", ..." : ""));
}

void SetattrHook::Uninstall() {
  if (!installed_) return;
  installed_ = false;
  --g_installed;
  UnwatchImports(this);
  Tell("are not there", missing_);
  Tell("cannot be traced", closed_);
  RestoreFrameEvaluation();
  patches_.UndoAll();
  RestoreInheritedSlots();
  StopKeepingBuiltins();
  // The hook itself may have to stay for a while.
  entered_.clear();
  awaited_.clear();
  for (std::vector<std::string>* names : {&missing_, &closed_, &options_.names})
    std::vector<std::string>().swap(*names);
}

}  // namespace torchtrace::python_dialect
