#include "dialects/python/setattr/builtin_identity.h"

#include "dialects/python/setattr/patch_list.h"
#include "dialects/python/setattr/pointer_map.h"

namespace torchtrace::python_dialect {
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

int g_users = 0;
hashfunc g_hash = nullptr;
richcmpfunc g_compare = nullptr;

// The function object as it would be without an entry, for CPython to look at.
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

PyObject* Compare(PyObject* self, PyObject* other, int operation) {
  if (!PyCFunction_Check(self) || !PyCFunction_Check(other)) return g_compare(self, other, operation);
  return g_compare(WithoutEntry(self).get(), WithoutEntry(other).get(), operation);
}

void Patch(PyTypeObject* type) {
  if (type->tp_hash == g_hash) Patches().Replace(&type->tp_hash, static_cast<hashfunc>(Hash));
  if (type->tp_richcompare == g_compare) Patches().Replace(&type->tp_richcompare, static_cast<richcmpfunc>(Compare));
  PyObject *name, *member;
  Py_ssize_t position = 0;
  while (PyDict_Next(type->tp_dict, &position, &name, &member)) {
    if (Py_TYPE(member) != &PyWrapperDescr_Type) continue;
    void** const wrapped = &reinterpret_cast<PyWrapperDescrObject*>(member)->d_wrapped;
    if (*wrapped == reinterpret_cast<void*>(g_hash)) Patches().Replace(wrapped, reinterpret_cast<void*>(Hash));
    if (*wrapped == reinterpret_cast<void*>(g_compare)) Patches().Replace(wrapped, reinterpret_cast<void*>(Compare));
  }
}

}  // namespace

void StartKeepingBuiltins() {
  if (g_users++ > 0) return;
  g_hash = PyCFunction_Type.tp_hash;
  g_compare = PyCFunction_Type.tp_richcompare;
  Patch(&PyCFunction_Type);
  Patch(&PyCMethod_Type);
}

void StopKeepingBuiltins() {
  if (--g_users == 0) Patches().UndoAll();
}

void KeepBuiltin(PyMethodDef* definition, PyCFunction original) {
  if (Originals().Find(definition) == nullptr) Originals().Insert(definition, reinterpret_cast<void*>(original));
}

}  // namespace torchtrace::python_dialect
