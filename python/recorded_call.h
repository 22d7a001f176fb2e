// A call that an extension records: torchtrace._native.record().

#ifndef TORCHTRACE_PYTHON_RECORDED_CALL_H_
#define TORCHTRACE_PYTHON_RECORDED_CALL_H_

#include <Python.h>

namespace torchtrace {

// record(level, api, args, kwargs, special): describes the call (describe_value.h) and
// records that it was entered. Returns a context manager: the call ends with its block, in
// which an exception is the call's, or else when the object goes. None while nothing is recorded.
PyObject* RecordCall(PyObject* self, PyObject* args);

}  // namespace torchtrace

#endif  // TORCHTRACE_PYTHON_RECORDED_CALL_H_
