// Changes of Python's own objects that can be undone, and the memory that they are in.

#ifndef TORCHTRACE_TRACER_PYTHON_PYTHON_PATCH_H_
#define TORCHTRACE_TRACER_PYTHON_PYTHON_PATCH_H_

struct PyMethodDef;
typedef struct _object PyObject;

namespace torchtrace {

// Whether a word of the process may be stored to: tables of C extensions may be constant, and a store
// to one would end the program.

// Guarded by the GIL.
bool IsWritable(const void* place);

// Puts a native function in place of one of Python's own, inside the function
// object, so that whoever holds that object gets the new one and sees no other:
// `os._exit is posix._exit` and its repr stay. Needs the GIL.

// What sys.modules has under the name; borrowed, null where it has nothing. An import would go through
// the program's __import__ and importlib, and run Python code.
PyObject* ImportedModule(const char* name);

class BuiltinPatch {
 public:
  // `flags` are the METH_ flags that the function must have; `function` has
  // their signature. False when it is not there or another kind of function.
  bool Install(const char* module, const char* name, int flags, void* function);
  // The same in a module that the caller has, which may be on its way into sys.modules.
  bool Install(PyObject* module, const char* name, int flags, void* function);

  // Puts the original back. Nothing where Install did nothing.
  void Restore();

  // Null where Install did nothing.
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
