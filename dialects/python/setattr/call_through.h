// How every native entry calls the original: notifies the observer around the call, or just calls it. Costs one
// thread-local access on top of the observer.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_CALL_THROUGH_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_CALL_THROUGH_H_

#include <Python.h>

#include <cstdint>

#include "dialects/python/describe/describe_call.h"
#include "tracer/record/static_tls.h"

namespace torchtrace::python_dialect {

// What the entries of one level share. Each level has its own entries, so an object that two levels trace has two, the
// later one called first. Set before the first entry is in place, and kept when they are removed: calls may be running.
// Guarded by the GIL.
struct Layer {
  CallObserver* observer = nullptr;
  bool outermost = false;  // leave out calls within calls
  bool include_getters = false;
  uint64_t installation = 0;  // changes when entries are installed and no others are
  int users = 0;              // how many NativeEntries are installed
};

// Levels 0 and 1, the calls of C functions of level 3, and what ends the program's steps, which is no level.
inline constexpr int kLayers = 4;
inline constexpr int kFrameLayer = 2;
inline constexpr int kStepLayer = 3;
extern Layer g_layers[kLayers];

// Number of the thread's running recorded calls, of layers with `outermost`.
extern thread_local int t_depth TORCHTRACE_STATIC_TLS;

// `call` runs the original and returns a new reference, or null with an error.
template <typename Call>
PyObject* CallThrough(const Layer& layer, const TracedApi& api, const CallArguments& arguments, Call&& call) {
  // Read once: a framework's observer may replace a library's during the call.
  CallObserver* const observer = layer.observer;
  if (api.getter && !layer.include_getters) {
    observer->CountGetter();
    return call();
  }
  const bool outermost = layer.outermost;
  if ((outermost && t_depth > 0) || !observer->Begin(api, arguments)) return call();
  if (outermost) ++t_depth;
  PyObject* const result = call();
  if (outermost) --t_depth;
  observer->End(result);
  return result;
}

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_CALL_THROUGH_H_
