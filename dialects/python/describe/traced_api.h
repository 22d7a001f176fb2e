// What a call that a native entry sees is made of, and who is told of it. Nothing here knows a
// framework: a dialect brings the observer.

#ifndef TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_TRACED_API_H_
#define TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_TRACED_API_H_

#include <Python.h>

#include <string>

namespace torchtrace::python_dialect {

class ArgumentForm;

// An API whose calls are seen. Lives for ever: calls may be under way when the
// hook is uninstalled.
struct TracedApi {
  std::string name;
  std::string head;     // level and name, as a config's first bytes
  bool getter = false;  // a property's read: noise, left out by default
  // Of a Python function whose arguments are told in another form than the call's own (argument_form.h).
  const ArgumentForm* form = nullptr;
  // Not 0: what is told is the call of the first argument, with those from this one on.
  Py_ssize_t first_argument = 0;
  bool asks = false;  // no API, but how a function asks whether it is overridden
  // The callable or descriptor as Python code holds it. A reference of ours
  // keeps it alive.
  PyObject* object = nullptr;
};

// The arguments in either of CPython's two forms. Borrowed.
struct CallArguments {
  PyObject* self = nullptr;  // goes before the others when not null
  PyObject* const* positional = nullptr;
  Py_ssize_t count = 0;
  PyObject* names = nullptr;     // a tuple: keywords whose values follow the positional ones
  PyObject* keywords = nullptr;  // or a dict
};

// Told of calls, on the thread that makes them, with the GIL held. It runs no
// Python code and keeps a Python error that is set.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // Before the call. True: the call was recorded, and End follows.
  virtual bool Begin(const TracedApi& api, const CallArguments& arguments) = 0;
  // `result` as the call returned it: null means that a Python error is set.
  virtual void End(PyObject* result) = 0;
  // Instead, for a property's read that is left out.
  virtual void CountGetter() = 0;
};

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_TRACED_API_H_
