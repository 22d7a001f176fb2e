// The one way from every entry of level 0 to the original: tells the observer
// around the call, or passes it on untold. Costs one thread-local access beside
// what the observer costs.

#ifndef TORCHTRACE_DIALECTS_PYTHON_CALL_THROUGH_H_
#define TORCHTRACE_DIALECTS_PYTHON_CALL_THROUGH_H_

#include <Python.h>

#include <cstdint>

#include "dialects/python/traced_api.h"
#include "tracer/export.h"

namespace torchtrace::python_dialect {

struct CallOptions {
  CallObserver* observer = nullptr;
  bool outermost = false;  // leave out calls within calls
  bool include_getters = false;
  uint64_t installation = 0;  // changes when a hook is installed and there is no other
};
// Set before the first entry is in place, and kept when the hook is uninstalled: calls may be
// under way. Guarded by the GIL.
extern CallOptions g_call_options;

struct CallState {
  PyObject* passing = nullptr;  // see PassOn
  int depth = 0;                // recorded calls under way
};
TORCHTRACE_EXPORT extern thread_local CallState t_calls __attribute__((tls_model("initial-exec")));

// While it lives, the next call of `function` on this thread is not the program's
// but one that another level makes in its place. For an accessor of a property
// `function` is the descriptor.
class PassOn {
 public:
  explicit PassOn(PyObject* function) { t_calls.passing = function; }
  ~PassOn() { t_calls.passing = nullptr; }
  PassOn(const PassOn&) = delete;
};

// `call` runs the original and returns a new reference, or null with an error.
template <typename Call>
PyObject* CallThrough(const TracedApi& api, const CallArguments& arguments, Call&& call) {
  CallState& state = t_calls;
  // A framework's takes the place of a library's while calls are under way.
  CallObserver* const observer = g_call_options.observer;
  if (state.passing == api.object) [[unlikely]] {
    state.passing = nullptr;
    return call();
  }
  if (api.getter && !g_call_options.include_getters) {
    observer->CountGetter();
    return call();
  }
  if ((g_call_options.outermost && state.depth > 0) || !observer->Begin(api, arguments)) return call();
  ++state.depth;
  PyObject* const result = call();
  --state.depth;
  observer->End(result);
  return result;
}

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_CALL_THROUGH_H_
