#include "dialects/python/setattr/attribute_path.h"

#include <vector>

#include "dialects/python/setattr/patch_list.h"
#include "tracer/cpython/objects.h"

namespace torchtrace::python_dialect {
namespace {

std::vector<std::string> Split(std::string_view dotted) {
  std::vector<std::string> parts;
  size_t start = 0;
  while (true) {
    const size_t dot = dotted.find('.', start);
    parts.emplace_back(dotted.substr(start, dot - start));
    if (dot == std::string_view::npos) return parts;
    start = dot + 1;
  }
}

PyObject* InDict(PyObject* dict, const std::string& name) {
  PyObject* const key = PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
  PyObject* const value =
      key == nullptr || dict == nullptr || !PyDict_Check(dict) ? nullptr : PyDict_GetItemWithError(dict, key);
  Py_XDECREF(key);
  PyErr_Clear();
  return value;
}

// From the dictionary of the first class in the method resolution order that has it.
PyObject* InClass(PyTypeObject* type, const std::string& name) {
  PyObject* const order = type->tp_mro;
  for (Py_ssize_t i = 0; order != nullptr && i < PyTuple_GET_SIZE(order); ++i) {
    auto* const base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(order, i));
    if (PyObject* const found = InDict(DictOf(base), name)) return found;
  }
  return nullptr;
}

PyObject* Member(PyObject* owner, const std::string& name) {
  if (PyType_Check(owner)) return InClass(reinterpret_cast<PyTypeObject*>(owner), name);
  PyObject** const dict = _PyObject_GetDictPtr(owner);
  return dict == nullptr ? nullptr : InDict(*dict, name);
}

// Whether the module's own code has not run to its end yet.
bool IsInitializing(PyObject* module) {
  PyObject* const spec = InDict(PyModule_GetDict(module), "__spec__");
  return spec != nullptr && Member(spec, "_initializing") == Py_True;
}

// Packages may replace themselves by an object of their own class: torch.backends.
bool MayHaveSubmodules(PyObject* module) {
  return InDict(PyModule_GetDict(module), "__path__") != nullptr || Py_TYPE(module) != &PyModule_Type;
}

bool IsProperty(PyObject* object) {
  return Py_TYPE(object) == &PyProperty_Type || Py_TYPE(object) == &PyGetSetDescr_Type;
}

}  // namespace

Attribute FindAttribute(std::string_view dotted, std::string_view complete) {
  const std::vector<std::string> parts = Split(dotted);
  PyObject* const modules = PyImport_GetModuleDict();
  // The longest prefix of the name that is a module, without the last word.
  PyObject* found = nullptr;
  std::string module_name;
  size_t at = 0;
  std::string prefix;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    prefix += (i == 0 ? "" : ".") + parts[i];
    PyObject* const module = InDict(modules, prefix);
    if (module == nullptr || !PyModule_Check(module)) break;
    found = module;
    module_name = prefix;
    at = i + 1;
  }
  Attribute attribute;
  if (found == nullptr) {
    if (parts.size() > 1) attribute.awaited_module = parts[0];
    return attribute;
  }
  PyObject* const module = found;
  const size_t first = at;
  for (; at < parts.size(); ++at) {
    if (IsProperty(found) && at + 1 == parts.size() && (parts[at] == "__get__" || parts[at] == "__set__")) {
      attribute.accessor = parts[at];
      break;
    }
    PyObject* const next = Member(found, parts[at]);
    if (next == nullptr) {
      if (at != first) return attribute;
      if (module_name != complete && IsInitializing(module)) {
        attribute.awaited_module = module_name;
      } else if (at + 1 < parts.size() && MayHaveSubmodules(module)) {
        attribute.awaited_module = module_name + "." + parts[at];
      }
      return attribute;
    }
    attribute.owner = found;
    found = next;
  }
  attribute.object = found;
  return attribute;
}

namespace {

// From definitions to C functions.
PointerMap<void>& Originals() {
  static auto* const originals = new PointerMap<void>();
  return *originals;
}

PatchList& Patches() {
  static auto* const patches = new PatchList();
  return *patches;
}

int g_patch_users = 0;
hashfunc g_hash = nullptr;
richcmpfunc g_type_compare = nullptr;

// A copy of the function object as it would be without an entry, to pass to CPython.
class WithoutEntry {
 public:
  explicit WithoutEntry(PyObject* function) : object_(*reinterpret_cast<PyCFunctionObject*>(function)) {
    void* const original = Originals().Find(object_.m_ml);
    if (original == nullptr) return;
    definition_ = *object_.m_ml;
    definition_.ml_meth = reinterpret_cast<PyCFunction>(original);
    object_.m_ml = &definition_;
  }
  WithoutEntry(const WithoutEntry&) = delete;
  PyObject* get() { return reinterpret_cast<PyObject*>(&object_); }

 private:
  PyMethodDef definition_ = {};
  PyCFunctionObject object_;
};

Py_hash_t Hash(PyObject* self) { return g_hash(WithoutEntry(self).get()); }

PyObject* CompareTypes(PyObject* self, PyObject* other, int operation) {
  if (!PyCFunction_Check(self) || !PyCFunction_Check(other)) return g_type_compare(self, other, operation);
  return g_type_compare(WithoutEntry(self).get(), WithoutEntry(other).get(), operation);
}

void Patch(PyTypeObject* type) {
  if (type->tp_hash == g_hash) Patches().Replace(&type->tp_hash, static_cast<hashfunc>(Hash));
  if (type->tp_richcompare == g_type_compare)
    Patches().Replace(&type->tp_richcompare, static_cast<richcmpfunc>(CompareTypes));
  PyObject *name, *member;
  Py_ssize_t position = 0;
  while (PyDict_Next(DictOf(type), &position, &name, &member)) {
    if (Py_TYPE(member) != &PyWrapperDescr_Type) continue;
    void** const wrapped = &reinterpret_cast<PyWrapperDescrObject*>(member)->d_wrapped;
    if (*wrapped == reinterpret_cast<void*>(g_hash)) Patches().Replace(wrapped, reinterpret_cast<void*>(Hash));
    if (*wrapped == reinterpret_cast<void*>(g_type_compare))
      Patches().Replace(wrapped, reinterpret_cast<void*>(CompareTypes));
  }
}

}  // namespace

void StartKeepingBuiltins() {
  if (g_patch_users++ > 0) return;
  g_hash = PyCFunction_Type.tp_hash;
  g_type_compare = PyCFunction_Type.tp_richcompare;
  Patch(&PyCFunction_Type);
  Patch(&PyCMethod_Type);
}

void StopKeepingBuiltins() {
  if (--g_patch_users == 0) Patches().UndoAll();
}

void KeepBuiltin(PyMethodDef* definition, PyCFunction original) {
  if (Originals().Find(definition) == nullptr) Originals().Insert(definition, reinterpret_cast<void*>(original));
}

}  // namespace torchtrace::python_dialect
