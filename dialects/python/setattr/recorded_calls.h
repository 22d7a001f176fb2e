// Records the calls of patched functions, and level 0 of any Python library with it.

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

// Records the end of a call that a native entry sees. `result` as the call returned it: null means that a Python error
// is set, which stays set. `describe(result, config)` appends its description if results are recorded; a null pointer:
// they are not. Needs the GIL.
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

// Records every call under its own name, at level 0. `kDescribe` appends the description of an argument; `kAddToKey`
// adds it to a call's key. Null: calls have no keys.
template <void (*kDescribe)(PyObject* value, ConfigBuilder* config),
          void (*kAddToKey)(PyObject* value, CallKey* key) = nullptr>
class RecordedCalls : public EntryDialect {
 public:
  bool Begin(const TracedApi& api, const CallArguments& arguments) override { return Record(api.head, arguments); }
  void End(PyObject* result) override { EndCall(result, kDescribe); }
  void CountGetter() override { t_thread.CountGetter(); }
  absl::StatusOr<const TracedApi*> Api(PyObject* object, const std::string& name) override {
    return MakeTracedApi(kSetattrLevel, name, object);
  }
  void NoteNotSeen(const std::string& text) override { Recorder::Get()->NoteNotSeen(text); }
  void NoteNotImported(const std::string& text) override { Recorder::Get()->NoteNotImported(text); }

 protected:
  // `head`: level and API (ConfigBuilder::EncodeHead). True: EndCall follows.
  static bool Record(std::string_view head, const CallArguments& arguments) {
    return Enter([&](auto* call, auto&& describe) { DescribeCall(head, arguments, call, describe); });
  }

  // `describe_call(call, describe)` describes the call to `call`, a ConfigBuilder or a CallKey, and its arguments by
  // `describe(value)`.
  template <typename DescribeCall>
  static bool Enter(const DescribeCall& describe_call) {
    return t_thread.Enter([&](auto* call) { describe_call(call, [call](PyObject* value) { Describe(value, call); }); });
  }

 private:
  static void Describe(PyObject* value, ConfigBuilder* config) { kDescribe(value, config); }
  static void Describe(PyObject* value, CallKey* key) {
    if constexpr (kAddToKey == nullptr) {
      key->Fail();
    } else {
      kAddToKey(value, key);
    }
  }
};

// Level 0 of libraries outside the framework, from the program's start: it needs nothing from a framework. The
// framework's own hook, installed later, records and describes all calls of level 0 from then on.
std::unique_ptr<TracingHook> MakeLibraryHook(std::vector<std::string> names, const RecordingOptions& options);

// The early hooks of a dialect whose level 0 is SetattrHook: for the names outside its package, and for the script's
// own.
std::vector<std::unique_ptr<TracingHook>> MakeOtherLibrariesHooks(std::string_view package,
                                                                  const RecordingOptions& options);

// The options of that dialect's own hook: the names in its package, and if the user asked for them, `default_names`,
// one per line.
TORCHTRACE_EXPORT EntryOptions FrameworkEntries(std::string_view package, std::string_view default_names,
                                                const RecordingOptions& options);

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_RECORDED_CALLS_H_
