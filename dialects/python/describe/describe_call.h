// What a native entry knows of a call, the observer that it notifies, and the call's description as bytes. Nothing here
// knows a framework: the dialect provides the observer.

#ifndef TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_DESCRIBE_CALL_H_
#define TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_DESCRIBE_CALL_H_

#include <Python.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "dialects/python/describe/object_names.h"
#include "serialize/model/config_builder.h"
#include "tracer/cpython/objects.h"

namespace torchtrace::python_dialect {

class ArgumentForm;

// A traced API. Never freed: calls may be running when the hook is uninstalled. In one line of the processor's caches,
// but for what calls don't need.
struct alignas(64) TracedApi {
  std::string head;     // level and name, as a config's first bytes
  bool getter = false;  // a property's read: noise, left out by default
  // Set for a Python function whose arguments are recorded in another form than the call's own (argument_form.h).
  const ArgumentForm* form = nullptr;
  // Not 0: records a call of the first argument, with the arguments from this index on.
  Py_ssize_t first_argument = 0;
  enum class Kind : char {
    kCall,
    kUntold,     // a call that overrides of functions don't receive
    kAsks,       // not an API: a function asks through it whether it is overridden
    kCallsBack,  // not an API: calls code of the program
    kArms,       // not an API: called before a thread may call any
  };
  Kind kind = Kind::kCall;
  uint8_t dialects = 0;  // what the dialect keeps of it
  std::string name;
  // The callable or descriptor as Python code sees it. We own a reference.
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

// Notified of calls, on the calling thread, with the GIL held. It runs no Python code and preserves a Python error that
// is set.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // Before the call. True: the call was recorded, and End follows.
  virtual bool Begin(const TracedApi& api, const CallArguments& arguments) = 0;
  // `result` as the call returned it: null means that a Python error is set.
  virtual void End(PyObject* result) = 0;
  // Called instead for a property read that is left out.
  virtual void CountGetter() = 0;
};

// Describes one call that a native entry sees to `config`, a ConfigBuilder or a CallKey. `head`: level and API
// (ConfigBuilder::EncodeHead). `describe(value)` appends an argument's description.
template <typename Call, typename Describe>
void DescribeCall(std::string_view head, const CallArguments& arguments, Call* config, Describe&& describe) {
  config->Begin(head);
  config->Positional(static_cast<size_t>(arguments.count + (arguments.self != nullptr)));
  if (arguments.self != nullptr) describe(arguments.self);
  for (Py_ssize_t i = 0; i < arguments.count; ++i) describe(arguments.positional[i]);
  const auto keyword = [&](PyObject* name, PyObject* value) {
    config->Keyword(PythonText(name).kept());
    describe(value);
  };
  if (arguments.names != nullptr) {
    const Py_ssize_t count = PyTuple_GET_SIZE(arguments.names);
    config->Keywords(static_cast<size_t>(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
      keyword(PyTuple_GET_ITEM(arguments.names, i), arguments.positional[arguments.count + i]);
    }
  } else if (arguments.keywords != nullptr) {
    config->Keywords(static_cast<size_t>(PyDict_GET_SIZE(arguments.keywords)));
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(arguments.keywords, &position, &name, &value)) keyword(name, value);
  } else {
    config->Keywords(0);
  }
}

// Describes a running call: the current values of its parameters, positional ones without trailing defaults. `local(i)`
// is the function's ith local variable, parameters first; null for one without a value.
template <typename Local, typename Describe>
void DescribeRunningCall(std::string_view head, PyObject* function, Local&& local, ConfigBuilder* config,
                         Describe&& describe) {
  const auto* const code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  PyObject* const defaults = PyFunction_GET_DEFAULTS(function);
  const Py_ssize_t default_count = defaults == nullptr ? 0 : PyTuple_GET_SIZE(defaults);
  const auto value_of = [&](Py_ssize_t i) {
    PyObject* const value = local(i);
    // An inner function uses this parameter.
    return value != nullptr && PyCell_Check(value) ? PyCell_GET(value) : value;
  };
  const auto describe_if_set = [&](PyObject* value) { describe(value == nullptr ? Py_None : value); };
  const Py_ssize_t keyword_only = code->co_kwonlyargcount;
  Py_ssize_t next = code->co_argcount + keyword_only;
  PyObject* const rest = (code->co_flags & CO_VARARGS) != 0 ? value_of(next++) : nullptr;
  PyObject* const extra = (code->co_flags & CO_VARKEYWORDS) != 0 ? value_of(next) : nullptr;
  const Py_ssize_t rest_count = rest != nullptr && PyTuple_Check(rest) ? PyTuple_GET_SIZE(rest) : 0;
  Py_ssize_t positional = code->co_argcount;
  // A program may set more defaults than there are parameters.
  while (rest_count == 0 && positional > std::max<Py_ssize_t>(code->co_argcount - default_count, 0) &&
         value_of(positional - 1) == PyTuple_GET_ITEM(defaults, positional - 1 - code->co_argcount + default_count)) {
    --positional;
  }
  config->Begin(head);
  config->Positional(static_cast<size_t>(positional + rest_count));
  for (Py_ssize_t i = 0; i < positional; ++i) describe_if_set(value_of(i));
  for (Py_ssize_t i = 0; i < rest_count; ++i) describe(PyTuple_GET_ITEM(rest, i));
  const Py_ssize_t extra_count = extra != nullptr && PyDict_Check(extra) ? PyDict_GET_SIZE(extra) : 0;
  config->Keywords(static_cast<size_t>(keyword_only + extra_count));
  for (Py_ssize_t i = code->co_argcount; i < code->co_argcount + keyword_only; ++i) {
    config->Keyword(PythonText(LocalName(code, i)).kept());
    describe_if_set(value_of(i));
  }
  PyObject *name, *value;
  Py_ssize_t position = 0;
  for (Py_ssize_t i = 0; i < extra_count && PyDict_Next(extra, &position, &name, &value) != 0; ++i) {
    config->Keyword(PythonText(name).kept());
    describe(value);
  }
}

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_DESCRIBE_CALL_H_
