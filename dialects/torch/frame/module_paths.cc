#include "dialects/torch/frame/module_paths.h"

#include <Python.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dialects/python/describe/object_names.h"
#include "tracer/cpython/interpreter.h"
#include "tracer/cpython/objects.h"

namespace torchtrace::torch_dialect {
namespace {

// Models are held by weak references, and a remembered place is checked before it is used: another object at a module's
// old address is never taken for that module.

// The way from a model to a part of it: the position of the child in `_modules` at each step.
using Way = std::vector<Py_ssize_t>;

// At most this many modules are remembered, or twice the parts of the largest model: a program that keeps making
// modules has new addresses without end.
constexpr size_t kLeastRemembered = 1 << 16;
size_t g_most_remembered = kLeastRemembered;

// Deeper than Python's recursion limit lets modules call modules; a longer chain gets no paths.
constexpr size_t kMostSteps = 500;

// For this many unknown modules all objects are searched for their parents, then for fewer and fewer.
constexpr uint64_t kMostLookedFor = 64;

// At most this many of the modules around a module are tried as its model.
constexpr size_t kMostTried = 64;

// At most this many modules are known to be parts of no other one.
constexpr size_t kMostTops = 64;

// At most this many models without parts pass their names on when they are gone.
constexpr size_t kMostNamesLeft = 64;

struct Model {
  PyObject* reference = nullptr;  // weak
  std::string name;

  // Borrowed; null where it is gone.
  PyObject* root() const { return ReferredTo(reference); }
};

struct Place {
  ModelNumber model = 0;
  Way way;
};

struct ClassNumbers {
  uint64_t next = 0;
  std::vector<std::pair<ModelNumber, std::string>> without_parts;  // and their names
};

std::map<ModelNumber, Model>& Models() {
  static auto* const models = new std::map<ModelNumber, Model>();
  return *models;
}

// The places where each module was seen, the last one first.
std::unordered_map<PyObject*, std::vector<Place>>& Places() {
  static auto* const places = new std::unordered_map<PyObject*, std::vector<Place>>();
  return *places;
}

// Weak references to modules that were parts of no other one when all objects were searched last.
std::vector<PyObject*>& Tops() {
  static auto* const tops = new std::vector<PyObject*>();
  return *tops;
}

// Borrowed; null where the module has no such dictionary (one of TorchScript).
PyObject* Children(PyObject* module) {
  PyObject* const children = InstanceAttribute(module, "_modules");
  return children != nullptr && PyDict_Check(children) ? children : nullptr;
}

// Calls `visit(position, child)` for each child, until it returns true.
template <typename Visit>
bool AnyChild(PyObject* module, Visit visit) {
  PyObject* const children = Children(module);
  if (children == nullptr) return false;
  PyObject *name = nullptr, *child = nullptr;
  Py_ssize_t next = 0;
  for (Py_ssize_t position = next; PyDict_Next(children, &next, &name, &child) != 0; position = next) {
    if (child != Py_None && visit(position, child)) return true;
  }
  return false;
}

// The name at each step of `way`, joined; nothing where it doesn't lead from `root` to `module`.
std::optional<std::string> Follow(PyObject* root, const Way& way, PyObject* module) {
  std::string path;
  PyObject* at = root;
  for (Py_ssize_t position : way) {
    PyObject* const children = Children(at);
    PyObject *name = nullptr, *child = nullptr;
    if (children == nullptr || PyDict_Next(children, &position, &name, &child) == 0) return std::nullopt;
    if (!path.empty()) path += '.';
    path += PythonText(name).kept();
    at = child;
  }
  return at == module ? std::optional(std::move(path)) : std::nullopt;
}

// Searches in the order of named_modules(), so that a module with several paths gets the first one.
bool Search(PyObject* from, PyObject* module, std::unordered_set<PyObject*>* seen, Way* way) {
  if (way->size() >= kMostSteps || !seen->insert(from).second) return false;
  return AnyChild(from, [&](Py_ssize_t position, PyObject* child) {
    way->push_back(position);
    if (child == module || Search(child, module, seen, way)) return true;
    way->pop_back();
    return false;
  });
}

void AddPlace(PyObject* module, Place place) {
  if (Places().size() >= g_most_remembered) Places().clear();
  std::vector<Place>& places = Places()[module];
  std::erase_if(places, [&](const Place& old) { return old.model == place.model || !Models().contains(old.model); });
  places.insert(places.begin(), std::move(place));
}

// A remembered place where the module still is, in the model `of` or, if that is 0, in any. It becomes the last place.
std::optional<ModulePlace> KnownPlace(ModelNumber of, PyObject* module) {
  const auto known = Places().find(module);
  if (known == Places().end()) return std::nullopt;
  std::vector<Place>& places = known->second;
  for (auto place = places.begin(); place != places.end(); ++place) {
    const auto model = of == 0 || place->model == of ? Models().find(place->model) : Models().end();
    PyObject* const root = model == Models().end() ? nullptr : model->second.root();
    if (root == nullptr) continue;
    std::optional<std::string> path = Follow(root, place->way, module);
    if (!path.has_value()) continue;
    std::rotate(places.begin(), place, place + 1);
    return ModulePlace{model->first, model->second.name, *std::move(path)};
  }
  return std::nullopt;
}

void TakeParts(ModelNumber model, PyObject* module, std::unordered_set<PyObject*>* seen, Way* way) {
  if (way->size() >= kMostSteps || !seen->insert(module).second) return;
  AddPlace(module, {model, *way});
  g_most_remembered = std::max(g_most_remembered, 2 * seen->size());
  AnyChild(module, [&](Py_ssize_t position, PyObject* child) {
    way->push_back(position);
    TakeParts(model, child, seen, way);
    way->pop_back();
    return false;
  });
}

// Remembers where each part of the model is, by the first way that leads there. Parts that were seen in another model
// count as this one's from now on.
void TakeAllParts(ModelNumber model, PyObject* root) {
  std::unordered_set<PyObject*> seen;
  Way way;
  TakeParts(model, root, &seen, &way);
}

// Searches the model for the module. If it finds it, other parts may be new too, so it remembers all of them again.
std::optional<ModulePlace> FindPlace(ModelNumber number, PyObject* module) {
  const auto model = Models().find(number);
  PyObject* const root = model == Models().end() ? nullptr : model->second.root();
  std::unordered_set<PyObject*> seen;
  Way way;
  if (root == nullptr || (root != module && !Search(root, module, &seen, &way))) return std::nullopt;
  TakeAllParts(number, root);
  return ModulePlace{number, model->second.name, Follow(root, way, module).value_or("")};
}

PyObject* WeakReference(PyObject* module) {
  // A collection would run code of the program.
  const bool collects = PyGC_Disable() != 0;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* const reference = PyWeakref_NewRef(module, nullptr);
  PyErr_Restore(type, value, traceback);
  if (collects) PyGC_Enable();
  return reference;
}

void ForgetModel(std::map<ModelNumber, Model>::iterator model) {
  Py_XDECREF(model->second.reference);
  Models().erase(model);
}

void ForgetGoneModels() {
  for (auto model = Models().begin(); model != Models().end();) {
    const auto next = std::next(model);
    if (model->second.root() == nullptr) ForgetModel(model);
    model = next;
  }
}

// "Linear_3": the class, and a number for each model of that class. A model without parts, such as a loss that is made
// for each step, takes over the name of one that is gone.
std::string NameOf(PyObject* root, ModelNumber number) {
  static auto* const classes = new std::map<std::string, ClassNumbers, std::less<>>();
  const std::string type = TypeName(Py_TYPE(root));
  const std::string last = type.substr(type.rfind('.') + 1);
  ClassNumbers& numbers = (*classes)[last];
  const bool has_parts = AnyChild(root, [](Py_ssize_t, PyObject*) { return true; });
  if (!has_parts) {
    for (auto& [other, name] : numbers.without_parts) {
      const auto model = Models().find(other);
      if (model != Models().end() && model->second.root() != nullptr) continue;
      if (model != Models().end()) ForgetModel(model);
      other = number;
      return name;
    }
  }
  std::string name = absl::StrCat(last, "_", numbers.next++);
  if (!has_parts && numbers.without_parts.size() < kMostNamesLeft) numbers.without_parts.emplace_back(number, name);
  return name;
}

ModelNumber AddModel(PyObject* root) {
  static ModelNumber last = 0;
  static size_t most = 64;
  const ModelNumber number = ++last;
  std::string name = NameOf(root, number);
  if (Models().size() >= most) {
    ForgetGoneModels();
    most = 64 + 2 * Models().size();
  }
  Models()[number] = {WeakReference(root), std::move(name)};
  TakeAllParts(number, root);
  return number;
}

bool IsModule(PyTypeObject* type, PyTypeObject* module_class, std::unordered_map<PyTypeObject*, bool>* known) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return false;
  const auto [at, fresh] = known->try_emplace(type, false);
  if (fresh) at->second = PyType_IsSubtype(type, module_class) != 0;
  return at->second;
}

using Parents = std::unordered_map<PyObject*, std::vector<PyObject*>>;

// The modules that `module` is a part of, the nearest first, without ways through `without`.
std::vector<PyObject*> Above(PyObject* module, const Parents& parents, PyObject* without) {
  std::vector<PyObject*> above = {module};
  std::unordered_set<PyObject*> seen = {module, without};
  for (size_t i = 0; i < above.size(); ++i) {
    const auto found = parents.find(above[i]);
    if (found == parents.end()) continue;
    for (PyObject* parent : found->second) {
      if (seen.insert(parent).second) above.push_back(parent);
    }
  }
  above.erase(above.begin());
  return above;
}

// The outermost module that lies on all ways down to `module`; null if there is none.
PyObject* TopOf(PyObject* module, PyTypeObject* module_class) {
  Parents parents;
  std::vector<PyObject*> modules;
  std::unordered_map<PyTypeObject*, bool> classes;
  for (PyObject* object : CollectedObjects()) {
    if (!IsModule(Py_TYPE(object), module_class, &classes)) continue;
    modules.push_back(object);
    AnyChild(object, [&](Py_ssize_t, PyObject* child) {
      parents[child].push_back(object);
      return false;
    });
  }
  const auto is_top = [&parents](PyObject* each) { return !parents.contains(each); };
  for (PyObject* const old : std::exchange(Tops(), {})) Py_XDECREF(old);
  for (size_t i = 0; i < modules.size() && Tops().size() < kMostTops; ++i) {
    if (is_top(modules[i])) Tops().push_back(WeakReference(modules[i]));
  }
  const std::vector<PyObject*> above = Above(module, parents, nullptr);
  const size_t most = std::min(above.size(), kMostTried);
  for (size_t i = above.size(); i-- > above.size() - most;) {
    const std::vector<PyObject*> around = Above(module, parents, above[i]);
    if (std::none_of(around.begin(), around.end(), is_top)) return above[i];
  }
  return nullptr;
}

// Whether to look for the parents of an unknown module. One that only its caller holds has none.
bool LooksForParents(PyObject* module) {
  static uint64_t looked_for = 0;
  const auto is_it = [&](PyObject* top) { return ReferredTo(top) == module; };
  if (Py_REFCNT(module) <= 1 || std::any_of(Tops().begin(), Tops().end(), is_it)) return false;
  return (++looked_for <= kMostLookedFor || std::has_single_bit(looked_for));
}

}  // namespace

ModulePlace PlaceOf(PyObject* module, PyTypeObject* module_class, ModelNumber around, ModulesApart* apart) {
  std::optional<ModulePlace> place;
  if (around != 0 && !apart->contains({around, module})) {
    place = KnownPlace(around, module);
    if (!place.has_value()) place = FindPlace(around, module);
    if (!place.has_value()) apart->insert({around, module});
  }
  if (!place.has_value()) place = KnownPlace(0, module);
  for (auto model = Models().begin(); !place.has_value() && model != Models().end(); ++model) {
    place = FindPlace(model->first, module);
  }
  if (place.has_value()) return *std::move(place);
  PyObject* const top = LooksForParents(module) ? TopOf(module, module_class) : nullptr;
  const ModelNumber number = AddModel(top == nullptr ? module : top);
  place = KnownPlace(number, module);
  return place.has_value() ? *std::move(place) : ModulePlace{number, Models()[number].name, ""};
}

void LookForPlace(PyObject* module, PyTypeObject* module_class) {
  if (!Places().contains(module)) PlaceOf(module, module_class, 0, nullptr);
}

}  // namespace torchtrace::torch_dialect
