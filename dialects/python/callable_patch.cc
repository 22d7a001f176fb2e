#include "dialects/python/callable_patch.h"

#include <utility>

#include "dialects/python/call_through.h"
#include "dialects/python/pointer_map.h"

namespace torchtrace::python_dialect {
namespace {

// One for each callable, for ever.
struct Entry {
  const TracedApi* api = nullptr;
  vectorcallfunc original = nullptr;  // null: the type's tp_call
  uint64_t installation = 0;          // that of the hook which made it
  uint32_t version = 0;               // of a function, while the entry stands in it
};

struct TypeEntry {
  ternaryfunc original;
};

PointerMap<Entry>& Entries() {
  static auto* const entries = new PointerMap<Entry>();
  return *entries;
}
const PointerMap<Entry>& g_entries = Entries();

PointerMap<TypeEntry>& TypeEntries() {
  static auto* const entries = new PointerMap<TypeEntry>();
  return *entries;
}

PyObject* EnterVectorcall(PyObject* callable, PyObject* const* arguments, size_t flags, PyObject* names) {
  const Entry* const entry = g_entries.Find(callable);
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  const auto call = [&] {
    if (entry != nullptr && entry->original != nullptr) return entry->original(callable, arguments, flags, names);
    // What CPython does where the pointer is null.
    return _PyObject_MakeTpCall(PyThreadState_Get(), callable, arguments, count, names);
  };
  if (entry == nullptr) return call();
  return CallThrough(*entry->api, {nullptr, arguments, count, names, nullptr}, call);
}

PyObject* EnterTypeCall(PyObject* callable, PyObject* args, PyObject* kwargs) {
  // A type that was made since has inherited the pointer.
  const TypeEntry* type = nullptr;
  for (PyTypeObject* base = Py_TYPE(callable); base != nullptr && type == nullptr; base = base->tp_base) {
    type = TypeEntries().Find(base);
  }
  if (type == nullptr) {
    PyErr_Format(PyExc_TypeError, "'%.200s' object is not callable", Py_TYPE(callable)->tp_name);
    return nullptr;
  }
  const Entry* const entry = g_entries.Find(callable);
  // Types that were made while an earlier hook was installed keep the pointer.
  if (entry == nullptr || entry->installation != g_call_options.installation) {
    return type->original(callable, args, kwargs);
  }
  const CallArguments arguments = {nullptr, reinterpret_cast<PyTupleObject*>(args)->ob_item, PyTuple_GET_SIZE(args),
                                   nullptr, kwargs};
  return CallThrough(*entry->api, arguments, [&] { return type->original(callable, args, kwargs); });
}

// Where the callable keeps its own pointer; null when it has none.
vectorcallfunc* OwnPointer(PyObject* callable) {
  const PyTypeObject* const type = Py_TYPE(callable);
  if (!(type->tp_flags & Py_TPFLAGS_HAVE_VECTORCALL) || type->tp_vectorcall_offset <= 0) return nullptr;
  return reinterpret_cast<vectorcallfunc*>(reinterpret_cast<char*>(callable) + type->tp_vectorcall_offset);
}

#if PY_VERSION_HEX < 0x030C0000
// The specialising interpreter enters functions whose version it knows directly, in
// the case of __getitem__ without another look. It gives no version to a function
// that has one, and can't use one that is so large.
void HideVersion(PyFunctionObject* function, Entry* entry, PatchList* patches) {
  static uint32_t next = 0x80000000u;
  if (entry->version == 0) entry->version = next++;
  patches->ReplaceNumber(&function->func_version, entry->version);
}
#else
void HideVersion(PyFunctionObject* function, Entry*, PatchList* patches) {
  patches->ReplaceNumber(&function->func_version, 0);
}
#endif

// The entry for `callable`, made anew or taken again.
Entry* TakeEntry(PyObject* callable, const TracedApi* api, vectorcallfunc original) {
  Entry* entry = g_entries.Find(callable);
  if (entry == nullptr) Entries().Insert(callable, entry = new Entry());
  entry->api = api;
  entry->original = original;
  entry->installation = g_call_options.installation;
  return entry;
}

}  // namespace

bool PatchCallable(PyObject* callable, const TracedApi* api, PatchList* patches) {
  vectorcallfunc* const pointer = OwnPointer(callable);
  const bool is_type = PyType_Check(callable);
  if (pointer != nullptr && (*pointer != nullptr || is_type)) {
    if (*pointer == EnterVectorcall) return false;
    if (PyFunction_Check(callable) && *pointer != _PyFunction_Vectorcall) return false;
    Entry* const entry = TakeEntry(callable, api, *pointer);
    if (PyFunction_Check(callable)) HideVersion(reinterpret_cast<PyFunctionObject*>(callable), entry, patches);
    patches->Replace(pointer, static_cast<vectorcallfunc>(EnterVectorcall));
    return true;
  }
  PyTypeObject* const type = Py_TYPE(callable);
  if (type->tp_call == nullptr || !PatchList::Writable(&type->tp_call)) return false;
  if (type->tp_call != EnterTypeCall) {
    TypeEntry* entry = TypeEntries().Find(type);
    if (entry == nullptr) TypeEntries().Insert(type, entry = new TypeEntry());
    entry->original = type->tp_call;
    patches->Replace(&type->tp_call, static_cast<ternaryfunc>(EnterTypeCall));
  }
  TakeEntry(callable, api, nullptr);
  return true;
}

}  // namespace torchtrace::python_dialect
