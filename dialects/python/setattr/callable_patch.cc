#include <algorithm>
#include <iterator>
#include <utility>

#include "dialects/python/setattr/call_through.h"
#include "dialects/python/setattr/hidden_types.h"
#include "dialects/python/setattr/patch_list.h"
#include "dialects/python/setattr/patches.h"
#include "dialects/python/setattr/stack_use.h"
#include "tracer/cpython/objects.h"
#include "tracer/python/python_patch.h"

namespace torchtrace::python_dialect {
namespace {

// One for each callable, never freed.
struct CallableEntry {
  const TracedApi* api = nullptr;
  vectorcallfunc original = nullptr;  // null: the type's tp_call
  uint64_t installation = 0;          // of the hook that made it
  uint32_t version = 0;               // a function's version while the entry is in place
  // For a class's __init__: the class. Calls for instances of other classes are reported as calls of this class,
  // without the instance.
  PyTypeObject* constructed = nullptr;
  bool reads = false;  // for a property's getter that the specialising interpreter may enter directly
};

struct TypeEntry {
  ternaryfunc original;
};

// By layer.
PointerMap<CallableEntry>* Entries() {
  static auto* const entries = new PointerMap<CallableEntry>[kLayers];
  return entries;
}
PointerMap<CallableEntry>* const g_entries = Entries();

PointerMap<TypeEntry>& TypeEntries(int layer) {
  static auto* const entries = new PointerMap<TypeEntry>[kLayers];
  return entries[layer];
}

// Whether the constructor's call is not to be reported: the instance is of the class itself, or of one with an entry.
template <int kLayer>
bool IsToldByItsClass(const CallableEntry& entry, PyObject* const* arguments, Py_ssize_t count) {
  if (count == 0 || Py_TYPE(arguments[0]) == entry.constructed) return true;
  const CallableEntry* const own = g_entries[kLayer].Find(Py_TYPE(arguments[0]));
  return own != nullptr && own->installation == g_layers[kLayer].installation;
}

// The Python function that initialises the type's instances; null: none does.
PyObject* ConstructorOf(PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString("__init__");
  PyObject* const found = _PyType_Lookup(type, name);
  return found != nullptr && PyFunction_Check(found) ? found : nullptr;
}

template <int kLayer>
PyObject* EnterVectorcall(PyObject* callable, PyObject* const* arguments, size_t flags, PyObject* names) {
  const CallableEntry* const entry = g_entries[kLayer].Find(callable);
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  const auto call = [&] {
    if (entry != nullptr && entry->original != nullptr) {
      const bool last = entry->original == FunctionVectorcall();
      return (last ? CallPastEntries : entry->original)(callable, arguments, flags, names);
    }
    // As CPython does if the pointer is null.
    return _PyObject_MakeTpCall(PyThreadState_Get(), callable, arguments, count, names);
  };
  if (entry == nullptr) return call();
  if (entry->constructed != nullptr) [[unlikely]] {
    if (IsToldByItsClass<kLayer>(*entry, arguments, count)) return call();
    if (PyTypeObject* const type = Py_TYPE(arguments[0]); ConstructorOf(type) == callable) HideMaking(type);
    return CallThrough(g_layers[kLayer], *entry->api, {nullptr, arguments + 1, count - 1, names, nullptr}, call);
  }
  if (entry->reads && count > 0) [[unlikely]]
    HideReading(Py_TYPE(arguments[0]));
  return CallThrough(g_layers[kLayer], *entry->api, {nullptr, arguments, count, names, nullptr}, call);
}

// The callable's entry, or for a class without one, that of the base whose __new__ it inherits, unless that is
// object's.
template <int kLayer>
const CallableEntry* EntryOfCalled(PyObject* callable) {
  const CallableEntry* entry = g_entries[kLayer].Find(callable);
  if (entry != nullptr || !PyType_Check(callable)) return entry;
  const auto* const type = reinterpret_cast<PyTypeObject*>(callable);
  if (type->tp_new == PyBaseObject_Type.tp_new) return nullptr;
  for (PyTypeObject* base = type->tp_base; entry == nullptr && base != nullptr; base = base->tp_base) {
    if (base->tp_new != type->tp_new) return nullptr;
    entry = g_entries[kLayer].Find(reinterpret_cast<PyObject*>(base));
  }
  return entry;
}

template <int kLayer>
PyObject* EnterTypeCall(PyObject* callable, PyObject* args, PyObject* kwargs) {
  // A type that was created since has inherited the pointer.
  const TypeEntry* type = nullptr;
  for (PyTypeObject* base = Py_TYPE(callable); base != nullptr && type == nullptr; base = base->tp_base) {
    type = TypeEntries(kLayer).Find(base);
  }
  if (type == nullptr) {
    PyErr_Format(PyExc_TypeError, "'%.200s' object is not callable", Py_TYPE(callable)->tp_name);
    return nullptr;
  }
  const CallableEntry* const entry = EntryOfCalled<kLayer>(callable);
  // Types that were created while an earlier hook was installed keep the pointer.
  if (entry == nullptr || entry->installation != g_layers[kLayer].installation) {
    return type->original(callable, args, kwargs);
  }
  const CallArguments arguments = {nullptr, reinterpret_cast<PyTupleObject*>(args)->ob_item, PyTuple_GET_SIZE(args),
                                   nullptr, kwargs};
  return CallThrough(g_layers[kLayer], *entry->api, arguments, [&] { return type->original(callable, args, kwargs); });
}

// Where the callable keeps its own pointer. Null if it has none, or if it is a class with a metaclass written in C,
// whose calls may be those of a subclass.
vectorcallfunc* OwnPointer(PyObject* callable) {
  // Whatever their type says meanwhile (CallFunctionsByType).
  if (PyFunction_Check(callable)) return &reinterpret_cast<PyFunctionObject*>(callable)->vectorcall;
  const PyTypeObject* const type = Py_TYPE(callable);
  if (PyType_Check(callable) && type != &PyType_Type && !(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return nullptr;
  if (!(type->tp_flags & Py_TPFLAGS_HAVE_VECTORCALL) || type->tp_vectorcall_offset <= 0) return nullptr;
  return reinterpret_cast<vectorcallfunc*>(reinterpret_cast<char*>(callable) + type->tp_vectorcall_offset);
}

// Make the specialising interpreter use what is patched.
void HideFunction(PyFunctionObject* function, CallableEntry* entry, PatchList* patches) {
  HideFromSpecialization(function, &entry->version,
                         [&](uint32_t* place, uint32_t number) { patches->ReplaceNumber(place, number); });
}
void HideClass(PyTypeObject* type, PatchList* patches) {
  if (!IsMadeUnasked(type)) return;
  patches->Replace(&type->tp_alloc, static_cast<allocfunc>(AllocateAsUsual));
  PyType_Modified(type);
}

constexpr vectorcallfunc kVectorcalls[kLayers] = {EnterVectorcall<0>, EnterVectorcall<1>, EnterVectorcall<2>,
                                                  EnterVectorcall<3>};
constexpr ternaryfunc kTypeCalls[kLayers] = {EnterTypeCall<0>, EnterTypeCall<1>, EnterTypeCall<2>, EnterTypeCall<3>};

bool IsEntry(vectorcallfunc function) {
  return std::find(std::begin(kVectorcalls), std::end(kVectorcalls), function) != std::end(kVectorcalls);
}

vectorcallfunc g_also = nullptr;

// A subclass of what was patched.
void HideNewType(PyTypeObject* type) {
  PyObject* const constructor = ConstructorOf(type);
  if (constructor != nullptr && IsEntry(EntryOf(reinterpret_cast<PyFunctionObject*>(constructor)))) HideMaking(type);
}

// The entry for `callable`, new or reused.
CallableEntry* TakeEntry(int layer, PyObject* callable, const TracedApi* api, vectorcallfunc original) {
  CallableEntry* entry = g_entries[layer].Find(callable);
  if (entry == nullptr) g_entries[layer].Insert(callable, entry = new CallableEntry());
  entry->api = api;
  entry->original = original;
  entry->installation = g_layers[layer].installation;
  entry->constructed = nullptr;
  entry->reads = false;
  return entry;
}

}  // namespace

void PatchAlso(vectorcallfunc vectorcall) { g_also = vectorcall; }

bool PatchCallable(int layer, PyObject* callable, const TracedApi* api, PatchList* patches) {
  vectorcallfunc* const pointer = OwnPointer(callable);
  const bool is_type = PyType_Check(callable);
  if (pointer != nullptr && (*pointer != nullptr || is_type)) {
    if (*pointer == kVectorcalls[layer]) {
      // A constructor that is listed itself is reported under its own name.
      CallableEntry* const known = g_entries[layer].Find(callable);
      if (known == nullptr || known->constructed == nullptr) return false;
      known->api = api;
      known->constructed = nullptr;
      return true;
    }
    // The entries of C functions come after all others.
    if (layer == kFrameLayer && IsEntry(*pointer)) return false;
    if (PyFunction_Check(callable) && *pointer != FunctionVectorcall() && *pointer != g_also && !IsEntry(*pointer)) {
      return false;
    }
    CallableEntry* const entry = TakeEntry(layer, callable, api, *pointer);
    patches->Replace(pointer, kVectorcalls[layer]);
    if (PyFunction_Check(callable)) HideFunction(reinterpret_cast<PyFunctionObject*>(callable), entry, patches);
    if (is_type) HideClass(reinterpret_cast<PyTypeObject*>(callable), patches);
    return true;
  }
  PyTypeObject* const type = Py_TYPE(callable);
  if (type->tp_call == nullptr || !IsWritable(&type->tp_call)) return false;
  if (type->tp_call != kTypeCalls[layer]) {
    TypeEntry* entry = TypeEntries(layer).Find(type);
    if (entry == nullptr) TypeEntries(layer).Insert(type, entry = new TypeEntry());
    entry->original = type->tp_call;
    patches->Replace(&type->tp_call, kTypeCalls[layer]);
  }
  TakeEntry(layer, callable, api, nullptr);
  return true;
}

void ForgetOlderType(PyTypeObject* type) {
  if (type->tp_base == nullptr || type->tp_base->tp_call != type->tp_call) return;
  for (int layer = 0; layer < kLayers; ++layer) {
    if (TypeEntries(layer).Find(type) != nullptr) TypeEntries(layer).Insert(type, nullptr);
  }
}

vectorcallfunc* PointerBelowEntries(PyFunctionObject* function) {
  vectorcallfunc* pointer = &function->vectorcall;
  for (;;) {
    const auto* const found = std::find(std::begin(kVectorcalls), std::end(kVectorcalls), *pointer);
    CallableEntry* const entry =
        found == std::end(kVectorcalls) ? nullptr : g_entries[found - std::begin(kVectorcalls)].Find(function);
    if (entry == nullptr) return pointer;
    pointer = &entry->original;
  }
}

bool PatchConstructor(int layer, PyTypeObject* type, const TracedApi* api, PatchList* patches) {
  static PyObject* const name = PyUnicode_InternFromString("__init__");
  PyObject* const dict = DictOf(type);
  PyObject* const function = dict == nullptr ? nullptr : PyDict_GetItemWithError(dict, name);
  if (function == nullptr || !PyFunction_Check(function)) return false;
  if (!PatchCallable(layer, function, api, patches)) return false;
  g_entries[layer].Find(function)->constructed = type;
  if (!kMakesUnasked) return true;
  ForEachSubclass(type, [function](PyTypeObject* each) {
    if (ConstructorOf(each) == function) HideMaking(each);
  });
  WatchNewTypes(HideNewType);
  return true;
}

bool PatchGetter(int layer, PyTypeObject* type, PyObject* function, const TracedApi* api, PatchList* patches) {
  if (!PatchCallable(layer, function, api, patches)) return false;
  if (!kReadsUnasked || !PyFunction_Check(function)) return true;
  g_entries[layer].Find(function)->reads = true;
  if (type == nullptr) return true;
  if (IsReadUnasked(type)) {
    patches->Replace(&type->tp_getattro, static_cast<getattrofunc>(GetAsUsual));
    PyType_Modified(type);
  }
  ForEachSubclass(type, HideReading);
  WatchNewTypes(HideNewType);
  return true;
}

}  // namespace torchtrace::python_dialect
