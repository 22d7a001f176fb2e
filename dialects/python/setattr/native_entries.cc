#include "dialects/python/setattr/native_entries.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "dialects/python/describe/object_names.h"
#include "dialects/python/setattr/attribute_path.h"
#include "dialects/python/setattr/call_through.h"
#include "dialects/python/setattr/frame_evaluation.h"
#include "dialects/python/setattr/patches.h"
#include "dialects/python/setattr/stack_use.h"
#include "serialize/model/levels.h"
#include "serialize/model/value.h"
#include "tracer/cpython/objects.h"
#include "tracer/python/import_watch.h"

namespace torchtrace::python_dialect {
namespace {

constexpr size_t kMaxToldNames = 20;

// Public before private, then few parts, then short.
auto Rank(const std::string& name) {
  const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
  const bool special = last.size() > 4 && last.substr(0, 2) == "__" && last.substr(last.size() - 2) == "__";
  const bool is_private = name.find("._") != std::string::npos && !special;
  return std::make_tuple(is_private, std::count(name.begin(), name.end(), '.'), name.size(), name);
}

// Whether the type is one of Python's own.
bool IsBuiltin(PyTypeObject* type) {
  return !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) && std::string_view(type->tp_name).find('.') == std::string_view::npos;
}

}  // namespace

TracedApi* MakeTracedApi(int level, const std::string& name, PyObject* object) {
  using Key = std::tuple<int, PyObject*, std::string>;
  static auto* const apis = new std::map<Key, TracedApi*>();
  TracedApi*& known = (*apis)[{level, object, name}];
  if (known != nullptr) return known;
  auto* const api = new TracedApi;
  api->head.assign(1, static_cast<char>(level));
  AppendString(name, &api->head);
  api->name = name;
  api->getter = name.ends_with(".__get__");
  api->object = Py_NewRef(object);
  return known = api;
}

// An object that can have an entry, however many names it has.
struct NativeEntries::Target {
  enum Kind { kCallable, kMethod, kProperty, kSlot };
  Kind kind = kCallable;
  PyObject* object = nullptr;  // borrowed
  const void* key = nullptr;   // identifies the target
  PyMethodDef* method = nullptr;
  MethodSelf self = MethodSelf::kModule;
  PyObject* only_self = nullptr;
  // For a property.
  PyGetSetDef* property = nullptr;
  bool get = false;
  bool set = false;
  // For a Python property's function.
  std::string accessor;
  PyTypeObject* owner = nullptr;  // the property's class
  std::string name;
};

NativeEntries::NativeEntries(EntryDialect* dialect, EntryOptions options)
    : dialect_(dialect), options_(std::move(options)) {}

// `object` as it is in a dictionary. False: it can't have an entry.
bool NativeEntries::MakeTarget(PyObject* object, const std::string& accessor, Target* target) {
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
    // All types share this definition, and CPython uses its function to recognise classes with their own __new__.
    if (std::string_view(target->method->ml_name) == "__new__") return false;
    const bool free = self == nullptr || PyModule_Check(self) || PyType_Check(self) || PyCapsule_CheckExact(self);
    target->self = free ? MethodSelf::kModule : MethodSelf::kOnly;
    target->only_self = self;
    return true;
  }
  if (PyType_Check(object) && IsBuiltin(reinterpret_cast<PyTypeObject*>(object))) return false;
  return PyCallable_Check(object) != 0;
}

bool NativeEntries::Patch(const Target& target, const TracedApi* api, const TracedApi* set_api) {
  const int layer = options_.level;
  switch (target.kind) {
    case Target::kCallable:
      // Level 1's only property in Python is read by C code.
      if (target.accessor == "__get__" && layer == kSetattrLevel
              ? !PatchGetter(layer, target.owner, target.object, api, &patches_)
              : !PatchCallable(layer, target.object, api, &patches_)) {
        return false;
      }
      if (kCallsSkipVectorcall && !std::exchange(needs_frames_, true)) UseFrameEvaluation();
      if (options_.constructors && PyType_Check(target.object)) {
        PatchConstructor(layer, reinterpret_cast<PyTypeObject*>(target.object), api, &patches_);
      }
      return true;
    case Target::kMethod:
      return PatchMethod(layer, target.method, target.self, target.only_self, api, &patches_);
    case Target::kProperty:
      return PatchProperty(layer, target.property, api, set_api, &patches_);
    case Target::kSlot:
      return PatchSlot(layer, target.object, api, &patches_);
  }
  return false;
}

absl::Status NativeEntries::Enter(const Target& target) {
  const TracedApi* apis[2] = {};
  const auto find = [&](const std::string& name, int at) {
    absl::StatusOr<const TracedApi*> api = dialect_->Api(target.object, name);
    if (api.ok()) apis[at] = *api;
    return api.status();
  };
  absl::Status status;
  if (target.kind != Target::kProperty) {
    status = find(target.accessor.empty() ? target.name : absl::StrCat(target.name, ".", target.accessor), 0);
  } else {
    if (target.get) status = find(target.name + ".__get__", 0);
    if (target.set && status.ok()) status = find(target.name + ".__set__", 1);
  }
  if (!status.ok()) return status;
  // Api may have run Python code, and so another thread may have run too.
  if (!installed_ || (apis[0] == nullptr && apis[1] == nullptr)) return absl::OkStatus();
  if (Patch(target, apis[0], apis[1])) {
    entered_.insert(target.key);
  } else {
    closed_.push_back(target.name);
  }
  return absl::OkStatus();
}

absl::Status NativeEntries::Add(const std::vector<std::string>& names, const std::string& imported) {
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
        if (PyType_Check(attribute.owner)) target.owner = reinterpret_cast<PyTypeObject*>(attribute.owner);
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

void NativeEntries::Await(const std::string& module) {
  // Keeps this alive, as another thread may end the session meanwhile.
  const auto imported = [this, module, alive = weak_from_this().lock()] {
    const auto found = awaited_.find(module);
    if (!installed_ || found == awaited_.end()) return;
    const std::vector<std::string> names = std::move(found->second);
    awaited_.erase(found);
    if (absl::Status added = Add(names, module); !added.ok()) dialect_->NoteNotSeen(std::string(added.message()));
  };
  const absl::Status status = WatchImport(module, imported, this);
  if (!status.ok())
    dialect_->NoteNotSeen(absl::StrCat("level ", options_.level, ": ", module, ": ", std::string(status.message())));
}

absl::Status NativeEntries::Install() {
  Layer& layer = g_layers[options_.level];
  // NativeEntries that are installed together count as one installation.
  if (layer.users++ == 0) ++layer.installation;
  layer.observer = dialect_;
  layer.outermost = options_.outermost;
  layer.include_getters = options_.include_getters;
  installed_ = true;
  StartKeepingBuiltins();
  absl::Status status = Add(options_.names);
  if (!status.ok()) {
    Uninstall();
    return status;
  }
  return absl::OkStatus();
}

void NativeEntries::Tell(const char* what, const std::vector<std::string>& names) {
  if (names.empty()) return;
  const size_t told = std::min(names.size(), kMaxToldNames);
  dialect_->NoteNotSeen(absl::StrCat("level ", options_.level, ": ", names.size(), " of the API list ", what, ": ",
                                     absl::StrJoin(names.begin(), names.begin() + static_cast<ptrdiff_t>(told), ", "),
                                     told < names.size() ? ", ..." : ""));
}

void NativeEntries::Uninstall() {
  if (!installed_) return;
  installed_ = false;
  --g_layers[options_.level].users;
  NoteRemovedEntries();
  UnwatchImports(this);
  Tell("are not there", missing_);
  Tell("cannot be traced", closed_);
  std::vector<std::string> never_imported;
  for (const auto& [module, names] : awaited_) {
    if (module.find('.') == std::string::npos) never_imported.push_back(module);
  }
  if (!never_imported.empty()) {
    dialect_->NoteNotImported(absl::StrCat("level ", options_.level, ": the API list names ",
                                           absl::StrJoin(never_imported, ", "), ", which the program did not import"));
  }
  if (std::exchange(needs_frames_, false)) ReleaseFrameEvaluation();
  patches_.UndoAll();
  RestoreInheritedSlots(options_.level);
  StopKeepingBuiltins();
  // Frees memory now, as the object itself may have to stay for a while.
  entered_.clear();
  awaited_.clear();
  for (std::vector<std::string>* names : {&missing_, &closed_, &options_.names})
    std::vector<std::string>().swap(*names);
}

}  // namespace torchtrace::python_dialect
