// Calls of patched functions, recorded; and level 0 of any Python library, which records them so.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_RECORDED_CALLS_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_RECORDED_CALLS_H_

#include <Python.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dialects/python/describe/describe_call.h"
#include "dialects/python/describe/object_names.h"
#include "dialects/python/setattr/native_entries.h"
#include "tracer/framework_dialect.h"
#include "tracer/record/thread_state.h"

namespace torchtrace::python_dialect {

// Records the calls that native entries see, around their execution. Needs the GIL, and keeps a
// Python error that is set.

// `result` as the call returned it: null means that a Python error is set. `describe(result, config)` appends its
// description where results are wanted; a null pointer: they are not.
template <typename Describe = std::nullptr_t>
void EndCall(PyObject* result, Describe&& describe = nullptr) {
  if (result != nullptr) {
    if constexpr (std::is_null_pointer_v<std::remove_cvref_t<Describe>>) {
      return t_thread.Leave();
    } else {
      return t_thread.Leave([&](ConfigBuilder* config) {
        config->BeginResult(1);
        describe(result, config);
      });
    }
  }
  PyObject* const type = PyErr_Occurred();
  t_thread.Raise(type == nullptr ? "SystemError" : TypeName(reinterpret_cast<PyTypeObject*>(type)));
}

// Every call under its own name, at level 0. `kDescribe` appends the description of an argument.
template <void (*kDescribe)(PyObject* value, ConfigBuilder* config)>
class RecordedCalls : public EntryDialect {
 public:
  bool Begin(const TracedApi& api, const CallArguments& arguments) override { return Record(api.head, arguments); }
  void End(PyObject* result) override { EndCall(result, kDescribe); }
  void CountGetter() override { t_thread.CountGetter(); }
  absl::StatusOr<const TracedApi*> Api(PyObject* object, const std::string& name) override {
    return MakeTracedApi(kSetattrLevel, name, object);
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

// Level 0 of libraries that are no framework's, from the program's start: nothing of a
// framework is needed. A framework's own hook, installed later, records and describes all calls
// of level 0 from then on.

std::unique_ptr<TracingHook> MakeLibraryHook(std::vector<std::string> names, const RecordingOptions& options);

// What a dialect whose level 0 is SetattrHook makes of the options.

// Its early hooks: those of the names that are not its package's.
std::vector<std::unique_ptr<TracingHook>> MakeOtherLibrariesHooks(std::string_view package,
                                                                  const RecordingOptions& options);

// Its own hook's: the names in its package, and where they are asked for those of `default_names`, one a line.
TORCHTRACE_EXPORT EntryOptions FrameworkEntries(std::string_view package, std::string_view default_names,
                                                const RecordingOptions& options);

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_RECORDED_CALLS_H_
