// How the bindings of a module can be watched: by dictionary watchers since 3.12. Before, a dictionary only has a
// version number, at which whatever calls a function can look first. All need the GIL.

#ifndef TORCHTRACE_TRACER_CPYTHON_NAMESPACES_H_
#define TORCHTRACE_TRACER_CPYTHON_NAMESPACES_H_

// Python.h first, as it demands.
#include <Python.h>

#include <cstdint>

namespace torchtrace {

inline constexpr bool kDictsAreWatched = PY_VERSION_HEX >= 0x030C0000;

// The number of a watcher that calls `kBinds` before a watched dictionary gets a value for a key. `kBinds` must not
// change the dictionary or run Python code. -1: Python has no place for one more; then a Python error is set.
template <void (*kBinds)(PyObject* dict, PyObject* key, PyObject* value)>
int TakeDictWatcher() {
#if PY_VERSION_HEX >= 0x030C0000
  return PyDict_AddWatcher([](PyDict_WatchEvent event, PyObject* dict, PyObject* key, PyObject* value) {
    if (event == PyDict_EVENT_ADDED || event == PyDict_EVENT_MODIFIED) kBinds(dict, key, value);
    return 0;
  });
#else
  return -1;
#endif
}
inline void WatchDict([[maybe_unused]] int watcher, [[maybe_unused]] PyObject* dict) {
#if PY_VERSION_HEX >= 0x030C0000
  if (PyDict_Watch(watcher, dict) != 0) PyErr_Clear();
#endif
}
inline void UnwatchDict([[maybe_unused]] int watcher, [[maybe_unused]] PyObject* dict) {
#if PY_VERSION_HEX >= 0x030C0000
  if (PyDict_Unwatch(watcher, dict) != 0) PyErr_Clear();
#endif
}

// Another one after each change, before 3.12.
inline uint64_t DictVersion([[maybe_unused]] PyObject* dict) {
#if PY_VERSION_HEX >= 0x030C0000
  return 0;
#else
  return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#endif
}

// Whether calls of Python functions go through `PyFunction_Type.tp_call`, as if functions had no `vectorcall`. For
// versions before 3.12; in 3.11 it only works while a frame evaluation function is set.
inline void CallFunctionsByType(bool by_type) {
  const unsigned long flag = Py_TPFLAGS_HAVE_VECTORCALL;
  PyFunction_Type.tp_flags = by_type ? PyFunction_Type.tp_flags & ~flag : PyFunction_Type.tp_flags | flag;
}

// In a `tp_call` that CPython would not go through: takes back the recursion that CPython has counted for it (-1), and
// counts it again (1). Before 3.12.
inline void CountRecursion([[maybe_unused]] int calls) {
#if PY_VERSION_HEX >= 0x030C0000
#elif PY_VERSION_HEX >= 0x030B0000
  PyThreadState_Get()->recursion_remaining -= calls;
#else
  PyThreadState_Get()->recursion_depth += calls;
#endif
}

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_CPYTHON_NAMESPACES_H_
