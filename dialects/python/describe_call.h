// The bytes of one call at level 0 (serialize/config.h).

#ifndef TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_CALL_H_
#define TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_CALL_H_

#include <Python.h>

#include <cstdint>
#include <string_view>

#include "dialects/python/config_builder.h"
#include "dialects/python/python_text.h"
#include "dialects/python/traced_api.h"
#include "serialize/value.h"

namespace torchtrace::python_dialect {

// `describe(value)` appends an argument's description to `config`.
template <typename Describe>
std::string_view DescribeCall(const TracedApi& api, const CallArguments& arguments, ConfigBuilder* config,
                              Describe&& describe) {
  config->Begin(api.head);
  AppendVarint(static_cast<uint64_t>(arguments.count + (arguments.self != nullptr)), config->bytes());
  if (arguments.self != nullptr) describe(arguments.self);
  for (Py_ssize_t i = 0; i < arguments.count; ++i) describe(arguments.positional[i]);
  const auto keyword = [&](PyObject* name, PyObject* value) {
    AppendString(PythonText(name).kept(), config->bytes());
    describe(value);
  };
  if (arguments.names != nullptr) {
    const Py_ssize_t count = PyTuple_GET_SIZE(arguments.names);
    AppendVarint(static_cast<uint64_t>(count), config->bytes());
    for (Py_ssize_t i = 0; i < count; ++i) {
      keyword(PyTuple_GET_ITEM(arguments.names, i), arguments.positional[arguments.count + i]);
    }
  } else if (arguments.keywords != nullptr) {
    AppendVarint(static_cast<uint64_t>(PyDict_GET_SIZE(arguments.keywords)), config->bytes());
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(arguments.keywords, &position, &name, &value)) keyword(name, value);
  } else {
    AppendVarint(0, config->bytes());
  }
  return config->Finish();
}

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_CALL_H_
