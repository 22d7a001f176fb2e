// What CPython's versions keep in different places or export under different names: for types, functions, ints, sets
// and instances. No function here calls Python code. All but HoldsGil need the GIL and return borrowed references.

#ifndef TORCHTRACE_TRACER_CPYTHON_OBJECTS_H_
#define TORCHTRACE_TRACER_CPYTHON_OBJECTS_H_

// Python.h first, as it demands.
#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

// Later headers don't declare it, but libpython exports it.
#if PY_VERSION_HEX >= 0x030D0000
extern "C" __attribute__((visibility("default"))) PyObject* _PyObject_MakeTpCall(PyThreadState* thread,
                                                                                 PyObject* callable,
                                                                                 PyObject* const* arguments,
                                                                                 Py_ssize_t count, PyObject* keywords);
#endif

namespace torchtrace {

inline bool PythonIsEnding() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// The thread state that holds the GIL; null if none does.
inline PyThreadState* CurrentThread() {
#if PY_VERSION_HEX >= 0x030D0000
  return PyThreadState_GetUnchecked();
#else
  return _PyThreadState_UncheckedGet();
#endif
}

// Whether the calling thread holds the GIL. PyGILState_Check returns 1 on all threads once there was a subinterpreter.
inline bool HoldsGil() {
  if (Py_IsInitialized() == 0 || PythonIsEnding()) return false;
  PyThreadState* const own = PyGILState_GetThisThreadState();
  return own != nullptr && own == CurrentThread();
}

// ---- types ----

// The namespace of a type: since 3.12 that of CPython's static types is elsewhere, one for each interpreter.
inline PyObject* DictOf(PyTypeObject* type) {
#if PY_VERSION_HEX >= 0x030C0000
  PyObject* const dict = PyType_GetDict(type);
  Py_XDECREF(dict);
  return dict;
#else
  return type->tp_dict;
#endif
}

// The type of `object().__str__`.
inline PyTypeObject* MethodWrapperType() {
#if PY_VERSION_HEX >= 0x030D0000
  static PyTypeObject* const type = [] {
    PyObject* const wrapper = PyObject_GetAttrString(Py_None, "__str__");
    PyTypeObject* const found = wrapper == nullptr ? nullptr : Py_TYPE(wrapper);
    PyErr_Clear();
    Py_XDECREF(wrapper);
    return found;
  }();
  return type;
#else
  return &_PyMethodWrapper_Type;
#endif
}

// No two types have the same version, and a changed type gets a new one, but not for each change. 0: it has none now.
inline unsigned int TypeVersion(const PyTypeObject* type) {
#if PY_VERSION_HEX < 0x030D0000
  if ((type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) == 0) return 0;
#endif
  return static_cast<unsigned int>(type->tp_version_tag);
}

// The specialising interpreter enters two kinds of Python functions directly, whatever their `vectorcall`: constructors
// of simple Python classes, since 3.13, if the class's `tp_alloc` is the usual one, and getters of properties, since
// 3.14, if the instance's class has the usual `tp_getattro`. IsMadeUnasked and IsReadUnasked: whether it is.
// AllocateAsUsual and GetAsUsual do the same as the usual ones, but are other functions.
inline constexpr bool kMakesUnasked = PY_VERSION_HEX >= 0x030D0000;
inline constexpr bool kReadsUnasked = PY_VERSION_HEX >= 0x030E0000;
// And 3.13 constructors where a frame evaluation function is set.
inline constexpr bool kMakesUnevaluated = PY_VERSION_HEX >= 0x030D0000 && PY_VERSION_HEX < 0x030E0000;
inline bool IsMadeUnasked(const PyTypeObject* type) {
  return kMakesUnasked && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && type->tp_alloc == PyType_GenericAlloc;
}
inline bool IsReadUnasked(const PyTypeObject* type) {
  return kReadsUnasked && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && type->tp_getattro == PyObject_GenericGetAttr;
}
inline PyObject* AllocateAsUsual(PyTypeObject* type, Py_ssize_t count) { return PyType_GenericAlloc(type, count); }
inline PyObject* GetAsUsual(PyObject* object, PyObject* name) { return PyObject_GenericGetAttr(object, name); }

// ---- functions and code ----

// The `vectorcall` of every function, as CPython sets it.
inline vectorcallfunc FunctionVectorcall() {
#if PY_VERSION_HEX >= 0x030D0000
  static const vectorcallfunc found = [] {
    PyObject* const globals = PyDict_New();
    PyObject* const made = globals == nullptr ? nullptr : PyRun_String("lambda: 0", Py_eval_input, globals, globals);
    const vectorcallfunc call = made == nullptr ? nullptr : reinterpret_cast<PyFunctionObject*>(made)->vectorcall;
    PyErr_Clear();
    Py_XDECREF(made);
    Py_XDECREF(globals);
    return call;
  }();
  return found;
#else
  return _PyFunction_Vectorcall;
#endif
}

// Whether calls from bytecode ignore a function's `vectorcall`, unless there is a frame evaluation function (PEP 523).
inline constexpr bool kCallsSkipVectorcall = PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000;

// Reports functions from now on, since 3.12: `kChanged` is called with each that is being created or is
// about to get another code, and with that code; `kGone`, with each that is being freed. -1: Python can't, or has no
// place for one more watcher; then a Python error may be set.
inline constexpr bool kFunctionsAreWatched = PY_VERSION_HEX >= 0x030C0000;
template <void (*kChanged)(PyFunctionObject*, PyCodeObject*), void (*kGone)(PyFunctionObject*)>
int WatchFunctions() {
#if PY_VERSION_HEX >= 0x030C0000
  return PyFunction_AddWatcher([](PyFunction_WatchEvent event, PyFunctionObject* function, PyObject* value) {
    if (event == PyFunction_EVENT_CREATE) kChanged(function, reinterpret_cast<PyCodeObject*>(function->func_code));
    if (event == PyFunction_EVENT_MODIFY_CODE) kChanged(function, reinterpret_cast<PyCodeObject*>(value));
    if (event == PyFunction_EVENT_DESTROY) kGone(function);
    return 0;
  });
#else
  return -1;
#endif
}
// Calls `visit(object, data)` with all objects that the garbage collector knows, except, in some versions, those of
// gc.freeze(); since 3.12.
inline void VisitObjects([[maybe_unused]] int (*visit)(PyObject*, void*), [[maybe_unused]] void* data) {
#if PY_VERSION_HEX >= 0x030C0000
  PyUnstable_GC_VisitObjects(visit, data);
#endif
}

// The specialising interpreter enters a function whose version it knows directly, without reading its `vectorcall`.
// This hides the version of `function`, whose `vectorcall` is not FunctionVectorcall() from now on. `*number` belongs
// to the function and is 0 at first; `replace(place, number)` stores a number in a way that can be undone.
template <typename Replace>
void HideFromSpecialization([[maybe_unused]] PyFunctionObject* function, [[maybe_unused]] uint32_t* number,
                            [[maybe_unused]] Replace&& replace) {
#if PY_VERSION_HEX >= 0x030C0000
  // Clears the version, in CPython's tables too; a function with another `vectorcall` gets no new one.
  PyFunction_SetVectorcall(function, function->vectorcall);
#elif PY_VERSION_HEX >= 0x030B0000
  // The interpreter gives no version to a function that has one, and can't use one this large.
  static uint32_t next = 0x80000000u;
  if (*number == 0) *number = next++;
  replace(&function->func_version, *number);
#endif
}

// The same for functions that are made of `code` from now on: since 3.12 they get its version.
inline void HideFutureFunctions([[maybe_unused]] PyCodeObject* code) {
#if PY_VERSION_HEX >= 0x030C0000
  code->co_version = 0;
#endif
}

inline PyObject* QualifiedName(const PyCodeObject* code) {
#if PY_VERSION_HEX >= 0x030B0000
  return code->co_qualname;
#else
  return code->co_name;
#endif
}

// Data that can be attached to a code object, in a slot that CPython hands out. `free` is called with the data, unless
// it is null, when the code is freed. TakeCodePlace returns -1 if no slot is left.
#if PY_VERSION_HEX >= 0x030C0000
inline Py_ssize_t TakeCodePlace(freefunc free) { return PyUnstable_Eval_RequestCodeExtraIndex(free); }
inline int GetAtCode(PyCodeObject* code, Py_ssize_t place, void** kept) {
  return PyUnstable_Code_GetExtra(reinterpret_cast<PyObject*>(code), place, kept);
}
inline int KeepAtCode(PyCodeObject* code, Py_ssize_t place, void* kept) {
  return PyUnstable_Code_SetExtra(reinterpret_cast<PyObject*>(code), place, kept);
}
#else
inline Py_ssize_t TakeCodePlace(freefunc free) { return _PyEval_RequestCodeExtraIndex(free); }
inline int GetAtCode(PyCodeObject* code, Py_ssize_t place, void** kept) {
  return _PyCode_GetExtra(reinterpret_cast<PyObject*>(code), place, kept);
}
inline int KeepAtCode(PyCodeObject* code, Py_ssize_t place, void* kept) {
  return _PyCode_SetExtra(reinterpret_cast<PyObject*>(code), place, kept);
}
#endif

// The name of the `index`th of a code's `co_nlocals` local variables, parameters first.
inline PyObject* LocalName(const PyCodeObject* code, Py_ssize_t index) {
#if PY_VERSION_HEX >= 0x030B0000
  return PyTuple_GET_ITEM(code->co_localsplusnames, index);
#else
  return PyTuple_GET_ITEM(code->co_varnames, index);
#endif
}

// ---- ints ----

// The sign of any int (-1, 0 or 1), and how many bits its magnitude has.
inline int SignOf(PyObject* number) {
#if PY_VERSION_HEX >= 0x030E0000
  int sign = 0;
  PyLong_GetSign(number, &sign);
  return sign;
#else
  return _PyLong_Sign(number);
#endif
}
inline size_t BitsOf(PyObject* number) { return static_cast<size_t>(_PyLong_NumBits(number)); }

// Its two's complement, least significant byte first; it must fit.
inline void CopyBytes(PyObject* number, unsigned char* bytes, size_t size) {
  auto* const value = reinterpret_cast<PyLongObject*>(number);
#if PY_VERSION_HEX >= 0x030D0000
  _PyLong_AsByteArray(value, bytes, size, /*little_endian=*/1, /*is_signed=*/1, /*with_exceptions=*/0);
#else
  _PyLong_AsByteArray(value, bytes, size, /*little_endian=*/1, /*is_signed=*/1);
#endif
}

// ---- strings and dictionaries ----

// False also for a str that is not ready: one that a deprecated C function made.
inline bool IsText(PyObject* text) { return text != nullptr && PyUnicode_Check(text) && PyUnicode_IS_READY(text); }

inline std::string_view AsciiText(PyObject* text) {
  return {static_cast<const char*>(PyUnicode_DATA(text)), static_cast<size_t>(PyUnicode_GET_LENGTH(text))};
}

// Compares without the str's own __eq__. `ascii` must be ASCII.
inline bool TextIs(PyObject* text, std::string_view ascii) {
  return IsText(text) && PyUnicode_IS_ASCII(text) && AsciiText(text) == ascii;
}

// Doesn't use the dictionary's own look-up, which would call __eq__ of keys of the program's types. Null if there is no
// such key.
inline PyObject* FindInDict(PyObject* dict, std::string_view name) {
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &key, &value) != 0) {
    if (TextIs(key, name)) return value;
  }
  return nullptr;
}

// ---- sets ----

// Iterates over the set's items, from position 0 on; false at the end.
inline bool NextOfSet(PyObject* set, Py_ssize_t* position, PyObject** item) {
  const auto* const table = reinterpret_cast<const PySetObject*>(set);
  for (; *position <= table->mask; ++*position) {
    const setentry& entry = table->table[*position];
    // A removed item leaves a dummy, whose hash is -1.
    if (entry.key == nullptr || entry.hash == -1) continue;
    *item = entry.key;
    ++*position;
    return true;
  }
  return false;
}

// ---- instances ----

// The attributes of an instance that has no dictionary yet: 3.11 and later keep them in an array, and the names in the
// class. Asking for the dictionary would create it, which may start the garbage collector.
class InlineAttributes {
 public:
  explicit InlineAttributes(PyObject* object) : values_(ValuesOf(object)) {
#if PY_VERSION_HEX >= 0x030B0000
    if (values_ == nullptr) return;
    keys_ = reinterpret_cast<const SharedKeys*>(reinterpret_cast<PyHeapTypeObject*>(Py_TYPE(object))->ht_cached_keys);
#endif
  }

  // False: the attributes are in the dictionary, or the object has none.
  bool there() const { return values_ != nullptr; }
  Py_ssize_t count() const { return keys_->count; }
  PyObject* name(Py_ssize_t i) const {
    struct Entry {
      PyObject* name;
      PyObject* value;
    };
    const char* const indices = reinterpret_cast<const char*>(keys_ + 1);
    return reinterpret_cast<const Entry*>(indices + (size_t{1} << keys_->log2_index_bytes))[i].name;
  }
  PyObject* value(Py_ssize_t i) const { return values_[i]; }

 private:
  // The head of internal/pycore_dict.h's keys, which C++ can't read.
  struct SharedKeys {
    Py_ssize_t references;
    uint8_t log2_size;
    uint8_t log2_index_bytes;
    uint8_t kind;
    uint32_t version;
    Py_ssize_t usable;
    Py_ssize_t count;
  };

  static PyObject* const* ValuesOf([[maybe_unused]] PyObject* object) {
#if PY_VERSION_HEX >= 0x030D0000
    struct Values {
      uint8_t capacity, size, embedded, valid;
      PyObject* values[1];
    };
    const PyTypeObject* const type = Py_TYPE(object);
    if ((type->tp_flags & Py_TPFLAGS_INLINE_VALUES) == 0) return nullptr;
    const auto* const values =
        reinterpret_cast<const Values*>(reinterpret_cast<const char*>(object) + type->tp_basicsize);
    return values->valid != 0 ? values->values : nullptr;
#elif PY_VERSION_HEX >= 0x030C0000
    if ((Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT) == 0) return nullptr;
    // The word holds either, distinguished by its lowest bit.
    const auto word = reinterpret_cast<const uintptr_t*>(object)[-3];
    return (word & 1) != 0 ? reinterpret_cast<PyObject* const*>(word + 1) : nullptr;
#elif PY_VERSION_HEX >= 0x030B0000
    if ((Py_TYPE(object)->tp_flags & Py_TPFLAGS_MANAGED_DICT) == 0) return nullptr;
    return reinterpret_cast<PyObject***>(object)[-4];
#else
    return nullptr;
#endif
  }

  PyObject* const* values_;
  const SharedKeys* keys_ = nullptr;
};

// The attribute in the object's own __dict__, or in the array that replaces a __dict__ not yet created; null if there
// is none. `name` is ASCII.
inline PyObject* InstanceAttribute(PyObject* object, std::string_view name) {
  if (const InlineAttributes attributes(object); attributes.there()) {
    for (Py_ssize_t i = 0; i < attributes.count(); ++i) {
      if (TextIs(attributes.name(i), name)) return attributes.value(i);
    }
    return nullptr;
  }
  PyObject** const dict = _PyObject_GetDictPtr(object);
  return dict == nullptr || *dict == nullptr ? nullptr : FindInDict(*dict, name);
}

// The object that a weak reference refers to; null if it is gone.
inline PyObject* ReferredTo(PyObject* reference) {
  PyObject* object = nullptr;
  if (reference == nullptr) return nullptr;
#if PY_VERSION_HEX >= 0x030D0000
  if (PyWeakref_GetRef(reference, &object) == 1) Py_DECREF(object);  // the caller knows that another reference exists
#else
  object = PyWeakref_GET_OBJECT(reference);
  if (object == Py_None) object = nullptr;
#endif
  return object;
}

// ---- threads ----

// While one exists, the thread's tracing and profiling functions, which are the program's, are not called.
class Unwatched {
 public:
#if PY_VERSION_HEX >= 0x030B0000
  Unwatched() { PyThreadState_EnterTracing(PyThreadState_Get()); }
  ~Unwatched() { PyThreadState_LeaveTracing(PyThreadState_Get()); }
#else
  Unwatched() {}
#endif
  Unwatched(const Unwatched&) = delete;
  Unwatched& operator=(const Unwatched&) = delete;
};

// Whether CPython reports an exception in a thread of `_thread.start_new_thread` by the function alone, as
// TellRaisedInThread does. Later versions print the repr of the callable that was started.
inline constexpr bool kTellsRaisedInThread = PY_VERSION_HEX < 0x030D0000;
inline void TellRaisedInThread([[maybe_unused]] PyObject* function) {
#if PY_VERSION_HEX < 0x030D0000
  _PyErr_WriteUnraisableMsg("in thread started by", function);
#endif
}

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_CPYTHON_OBJECTS_H_
