// The name of the API behind a function object, as level 1 sees them: the
// shortest public name (api_names.py), and for what has none its module and
// qualified name. Names are cached by identity only for objects that the cache
// keeps alive. Needs the GIL.

#ifndef TORCHTRACE_DIALECTS_TORCH_API_NAMES_H_
#define TORCHTRACE_DIALECTS_TORCH_API_NAMES_H_

#include <Python.h>

#include <memory>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"

namespace torchtrace::torch_dialect {

struct Api {
  std::string name;
  std::string head;     // level 1 and the name, as a config's first bytes
  bool getter = false;  // a property's read: noise, left out by default
};

class ApiNames {
 public:
  // Reads the public names. Needs `import torch` before.
  absl::Status Load();

  // Null for what has no public name. Before any Resolve.
  const Api* FindPublic(PyObject* function) const {
    const auto found = by_function_.find(function);
    return found == by_function_.end() ? nullptr : found->second.get();
  }

  // Never null. The reference holds until the next call for functions that are
  // not cached (local ones, a new object each time), else for ever.
  const Api& Resolve(PyObject* function);
  // The same, or null when the function is not cached.
  const Api* ResolveLasting(PyObject* function) {
    const Api& api = Resolve(function);
    return &api == &uncached_ ? nullptr : &api;
  }

  // "torch.Tensor.<property>.<accessor>", accessor being "__get__" or "__set__".
  static std::string PropertyName(PyObject* owner_descriptor, const char* accessor);

  static Api MakeApi(std::string name, bool getter);

 private:
  const Api& Cache(PyObject* keep_alive, Api api);

  std::unordered_map<PyObject*, std::unique_ptr<Api>> by_function_;
  // Property accessors are new objects at every read: found by descriptor and
  // accessor name.
  std::unordered_map<PyObject*, std::unordered_map<std::string, std::unique_ptr<Api>>> by_property_;
  Api uncached_;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_API_NAMES_H_
