// The one way from every native entry to the original: tells the observer around the call,
// or passes it on untold. Costs one thread-local access beside what the observer costs.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_CALL_THROUGH_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_CALL_THROUGH_H_

#include <Python.h>

#include <cstdint>

#include "dialects/python/describe/describe_call.h"
#include "tracer/record/static_tls.h"

namespace torchtrace::python_dialect {

// What the entries of one level have in common. Each level has entries of its own, so an object
// that two levels trace has two, the later one before the other. Set before the first entry is in
// place, and kept when they are taken out: calls may be under way. Guarded by the GIL.
struct Layer {
  CallObserver* observer = nullptr;
  bool outermost = false;  // leave out calls within calls
  bool include_getters = false;
  uint64_t installation = 0;  // changes when entries are made and there are no others
  int users = 0;              // NativeEntries that are installed
};

// Levels 0 and 1, and the calls of C functions of level 3.
inline constexpr int kLayers = 3;
inline constexpr int kFrameLayer = 2;
extern Layer g_layers[kLayers];

// Recorded calls under way on the thread, of a layer that leaves out those within them.
extern thread_local int t_depth TORCHTRACE_STATIC_TLS;

// `call` runs the original and returns a new reference, or null with an error.
template <typename Call>
PyObject* CallThrough(const Layer& layer, const TracedApi& api, const CallArguments& arguments, Call&& call) {
  // A framework's takes the place of a library's while calls are under way.
  CallObserver* const observer = layer.observer;
  if (api.getter && !layer.include_getters) {
    observer->CountGetter();
    return call();
  }
  const int deeper = layer.outermost ? 1 : 0;
  if ((deeper != 0 && t_depth > 0) || !observer->Begin(api, arguments)) return call();
  t_depth += deeper;
  PyObject* const result = call();
  t_depth -= deeper;
  observer->End(result);
  return result;
}

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_CALL_THROUGH_H_
