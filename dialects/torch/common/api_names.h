// The API name of a function object as level 1 sees it: its shortest public name, or its module and qualified name if
// it has none. Names are cached by identity, and only for objects that the cache keeps alive. Needs the GIL.

#ifndef TORCHTRACE_DIALECTS_TORCH_COMMON_API_NAMES_H_
#define TORCHTRACE_DIALECTS_TORCH_COMMON_API_NAMES_H_

#include <Python.h>

#include <memory>
#include <string>
#include <unordered_map>

namespace torchtrace::torch_dialect {

struct Api {
  std::string name;
  std::string head;  // the first bytes of a config: level 1 and the name
  bool is_public = false;
};

class ApiNames {
 public:
  // The names of this process. The first call reads the public ones; torch must have been imported before.
  static ApiNames* Loaded();

  // Null if the function has no public name.
  const Api* FindPublic(PyObject* function) const {
    const auto found = by_function_.find(function);
    return found == by_function_.end() || !found->second->is_public ? nullptr : found->second.get();
  }

  // The reference is valid for ever, or only until the next call if the function is not cached (a local function is a
  // new object each time).
  const Api& Resolve(PyObject* function);

 private:
  void Load();
  const Api& Cache(PyObject* keep_alive, Api api);

  std::unordered_map<PyObject*, std::unique_ptr<Api>> by_function_;
  Api uncached_;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_COMMON_API_NAMES_H_
