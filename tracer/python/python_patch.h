// Replaces Python's own functions in a way that can be undone.

#ifndef TORCHTRACE_TRACER_PYTHON_PYTHON_PATCH_H_
#define TORCHTRACE_TRACER_PYTHON_PYTHON_PATCH_H_

struct PyMethodDef;
typedef struct _object PyObject;

namespace torchtrace {

// Whether the memory is writable: tables of C extensions may be constant, and a store to one would crash the program.
// Guarded by the GIL.
bool IsWritable(const void* place);

// The module in sys.modules; borrowed, null if there is none. An import would go through the program's __import__ and
// importlib, and run Python code.
PyObject* ImportedModule(const char* name);

// Replaces one of Python's own functions by a native one, inside the function object, so that all references to the
// object call the new one, and the object looks the same: `os._exit is posix._exit` and its repr stay. Needs the GIL.
class BuiltinPatch {
 public:
  // `flags` are the METH_ flags that the function must have; `function` has their signature. False if it doesn't exist
  // or is another kind of function.
  bool Install(const char* module, const char* name, int flags, void* function);
  // The same in a given module, which may not be in sys.modules yet.
  bool Install(PyObject* module, const char* name, int flags, void* function);

  // Restores the original. Does nothing if Install failed.
  void Restore();

  // Null if Install failed.
  PyMethodDef* definition() const { return definition_; }

  template <typename Function>
  Function original() const {
    return reinterpret_cast<Function>(original_);
  }

 private:
  PyMethodDef* definition_ = nullptr;
  void* original_ = nullptr;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_PYTHON_PYTHON_PATCH_H_
