// Records the calls that native entries see, around their execution. Needs the GIL, and keeps a
// Python error that is set.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_RECORDED_CALLS_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_RECORDED_CALLS_H_

#include <Python.h>

#include <string>
#include <string_view>

#include "dialects/python/describe/describe_call.h"
#include "dialects/python/describe/object_names.h"
#include "dialects/python/setattr/native_entries.h"
#include "tracer/record/thread_state.h"

namespace torchtrace::python_dialect {

// `result` as the call returned it: null means that a Python error is set.
inline void EndCall(PyObject* result) {
  if (result != nullptr) return t_thread.Leave();
  PyObject* const type = PyErr_Occurred();
  t_thread.Raise(type == nullptr ? "SystemError" : TypeName(reinterpret_cast<PyTypeObject*>(type)));
}

// Every call under its own name, at level 0. `kDescribe` appends the description of an argument.
template <void (*kDescribe)(PyObject* value, ConfigBuilder* config)>
class RecordedCalls : public EntryDialect {
 public:
  bool Begin(const TracedApi& api, const CallArguments& arguments) override { return Record(api.head, arguments); }
  void End(PyObject* result) override { EndCall(result); }
  void CountGetter() override { t_thread.CountGetter(); }
  absl::StatusOr<const TracedApi*> Api(PyObject* object, const std::string& name) override {
    return MakeTracedApi(0, name, object);
  }
  void NoteNotSeen(const std::string& text) override { Recorder::Get()->NoteNotSeen(text); }

 protected:
  // `head`: level and API (ConfigBuilder::EncodeHead). True: EndCall follows.
  static bool Record(std::string_view head, const CallArguments& arguments) {
    return t_thread.Enter([&](ConfigBuilder* config) {
      DescribeCall(head, arguments, config, [config](PyObject* value) { kDescribe(value, config); });
    });
  }
};

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_RECORDED_CALLS_H_
