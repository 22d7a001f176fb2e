// The name of the API behind a function object, as level 1 sees them: the
// shortest public name, and for what has none its module and
// qualified name. Names are cached by identity only for objects that the cache
// keeps alive. Needs the GIL.

#ifndef TORCHTRACE_DIALECTS_TORCH_COMMON_API_NAMES_H_
#define TORCHTRACE_DIALECTS_TORCH_COMMON_API_NAMES_H_

#include <Python.h>

#include <memory>
#include <string>
#include <unordered_map>

namespace torchtrace::torch_dialect {

struct Api {
  std::string name;
  std::string head;  // level 1 and the name, as a config's first bytes
  bool is_public = false;
};

class ApiNames {
 public:
  // The process's, with the public names, read at the first call. Needs `import torch` before.
  static ApiNames* Loaded();

  // Null for what has no public name.
  const Api* FindPublic(PyObject* function) const {
    const auto found = by_function_.find(function);
    return found == by_function_.end() || !found->second->is_public ? nullptr : found->second.get();
  }

  // Never null. The reference holds until the next call for functions that are
  // not cached (local ones, a new object each time), else for ever.
  const Api& Resolve(PyObject* function);

 private:
  void Load();
  const Api& Cache(PyObject* keep_alive, Api api);

  std::unordered_map<PyObject*, std::unique_ptr<Api>> by_function_;
  Api uncached_;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_COMMON_API_NAMES_H_
