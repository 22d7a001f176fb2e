// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "tracer/python/thread_names.h"

#include <Python.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <string_view>

#include "tracer/cpython/objects.h"
#include "tracer/python/python_patch.h"
#include "tracer/record/recorder.h"
#include "tracer/record/thread_state.h"

namespace torchtrace {
namespace {

// Plain memory, because it is also read while the thread ends.
thread_local char t_name[kThreadNameBytes];

void Keep(std::string_view name) {
  size_t bytes = name.copy(t_name, sizeof t_name - 1);
  // Cuts between characters.
  while (bytes < name.size() && bytes > 0 && (name[bytes] & 0xC0) == 0x80) --bytes;
  t_name[bytes] = '\0';
}

// The `_name` of a threading.Thread.
void KeepNameOf(PyObject* thread) {
  PyObject* const name = InstanceAttribute(thread, "_name");
  if (!IsText(name)) return;
  if (PyUnicode_IS_ASCII(name)) return Keep(AsciiText(name));
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* const encoded = PyUnicode_AsEncodedString(name, "utf-8", "replace");
  if (encoded != nullptr) Keep({PyBytes_AS_STRING(encoded), static_cast<size_t>(PyBytes_GET_SIZE(encoded))});
  Py_XDECREF(encoded);
  PyErr_Restore(type, value, traceback);
}

// The threading.Thread of the calling thread, if threading has started it or was loaded in it; null for a _DummyThread,
// as the system's name is better than its made-up one.
PyObject* ThisThread() {
  PyObject* const threading = ImportedModule("threading");
  PyObject* const names = threading == nullptr || !PyModule_Check(threading) ? nullptr : PyModule_GetDict(threading);
  PyObject* const active = names == nullptr ? nullptr : FindInDict(names, "_active");
  if (active == nullptr || !PyDict_CheckExact(active)) return nullptr;
  const PyObject* const made_up = FindInDict(names, "_DummyThread");
  PyObject *key, *thread;
  Py_ssize_t position = 0;
  while (PyDict_Next(active, &position, &key, &thread) != 0) {
    if (!PyLong_CheckExact(key) || SignOf(key) <= 0 || BitsOf(key) > 8 * sizeof(uint64_t)) continue;
    if (PyLong_AsUnsignedLongLong(key) != PyThread_get_thread_ident()) continue;
    return reinterpret_cast<PyObject*>(Py_TYPE(thread)) == made_up ? nullptr : thread;
  }
  return nullptr;
}

}  // namespace

void KeepThreadName(PyObject* started) {
  if (started != nullptr) {
    if (!PyMethod_Check(started) || !PyFunction_Check(PyMethod_GET_FUNCTION(started))) return;
    const auto* const function = reinterpret_cast<PyFunctionObject*>(PyMethod_GET_FUNCTION(started));
    if (TextIs(function->func_qualname, "Thread._bootstrap")) KeepNameOf(PyMethod_GET_SELF(started));
  } else if (PyObject* const thread = ThisThread()) {
    KeepNameOf(thread);
  } else if (t_name[0] == '\0' && syscall(SYS_gettid) == getpid()) {
    Keep("MainThread");  // as threading will call it
  }
}

std::string PythonThreadName() {
  if (HoldsGil()) KeepThreadName(nullptr);
  return t_name;
}

void TellThreadName() {
  if (t_thread.recorder != nullptr) t_thread.recorder->TellName();
}

}  // namespace torchtrace
