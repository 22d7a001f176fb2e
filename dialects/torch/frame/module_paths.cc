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

// Models are held by weak references, and where a module was found is looked at again before it is told: what is found
// at an address is never another module than the one that is called.

// Of a module's `_modules`, where each child is on the way from a model.
using Way = std::vector<Py_ssize_t>;

// So many are remembered, or twice the parts of the largest model: programs that make modules anew have addresses
// without end.
constexpr size_t kLeastRemembered = 1 << 16;
size_t g_most_remembered = kLeastRemembered;

// Deeper than Python calls modules in modules by itself; a chain of more has no paths.
constexpr size_t kMostSteps = 500;

// All objects are looked through for the parents of so many modules that nothing is known of; then for fewer and fewer.
constexpr uint64_t kMostLookedFor = 64;

// Of modules around one, so many are tried as the model that it is a part of.
constexpr size_t kMostTried = 64;

// Of models without parts that are gone, so many give their names to others.
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

// Of each module where it was seen, the last place first.
std::unordered_map<PyObject*, std::vector<Place>>& Places() {
  static auto* const places = new std::unordered_map<PyObject*, std::vector<Place>>();
  return *places;
}

// Borrowed; null where the module has no such dictionary (one of TorchScript).
PyObject* Children(PyObject* module) {
  PyObject* const children = InstanceAttribute(module, "_modules");
  return children != nullptr && PyDict_Check(children) ? children : nullptr;
}

// Calls `visit(position, child)` for each child, until that says true.
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

// In the order of named_modules(): the first path of a module that has several.
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

// Where the module was seen before and still is, in that model or, where it is 0, in any, of which it is the last place
// then.
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

// Where each part of the model is, by the first way that leads there: parts that were seen elsewhere are its parts from
// now on.
void TakeAllParts(ModelNumber model, PyObject* root) {
  std::unordered_set<PyObject*> seen;
  Way way;
  TakeParts(model, root, &seen, &way);
}

// The same by any way that leads there. One that is new in the model has others beside it.
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

// "Linear_3": the class, and which of that class it is. A model has a number of its own; what has no parts, as losses
// that are made for each step, takes that of one that is gone.
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

// What `module` is a part of, the nearest first, without ways through `without`.
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

// The outermost module that `module` is a part of by all ways, whatever else has them both; null where there is none.
PyObject* TopOf(PyObject* module, PyTypeObject* module_class) {
  Parents parents;
  std::unordered_map<PyTypeObject*, bool> classes;
  for (PyObject* object : CollectedObjects()) {
    if (!IsModule(Py_TYPE(object), module_class, &classes)) continue;
    AnyChild(object, [&](Py_ssize_t, PyObject* child) {
      parents[child].push_back(object);
      return false;
    });
  }
  const auto is_top = [&parents](PyObject* each) { return !parents.contains(each); };
  const std::vector<PyObject*> above = Above(module, parents, nullptr);
  const size_t most = std::min(above.size(), kMostTried);
  for (size_t i = above.size(); i-- > above.size() - most;) {
    const std::vector<PyObject*> around = Above(module, parents, above[i]);
    if (std::none_of(around.begin(), around.end(), is_top)) return above[i];
  }
  return nullptr;
}

// Whether to look for the parents of a module that nothing is known of. One that only its caller holds has none.
bool LooksForParents(PyObject* module) {
  static uint64_t looked_for = 0;
  return Py_REFCNT(module) > 1 && (++looked_for <= kMostLookedFor || std::has_single_bit(looked_for));
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

}  // namespace torchtrace::torch_dialect
