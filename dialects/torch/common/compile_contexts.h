// Python that the dialect brings along as text, and the threads' compilations that it tells of.

#ifndef TORCHTRACE_DIALECTS_TORCH_COMMON_COMPILE_CONTEXTS_H_
#define TORCHTRACE_DIALECTS_TORCH_COMMON_COMPILE_CONTEXTS_H_

#include <Python.h>

namespace torchtrace::torch_dialect {

// The dialect's own Python files, compiled into the library: a traced program
// needs nothing installed. Needs the GIL.

// Runs dialects/torch/<name>.py as a new module that is not in sys.modules, and calls its function,
// unseen by sys.settrace and sys.setprofile. Null with a Python error set.
PyObject* CallPythonSource(const char* name, const char* function, PyObject* args);

// What torch.compile does itself is none of the program's calls: its threads record nothing meanwhile.

// Says that compiled code may run: for where something is compiled, or was.
void NoteCompiledCode();

// A Python context manager around `context_manager_maker(*args)` in whose body the
// thread records nothing: `wrap` in compile_watch.py.
PyObject* WrapCompileContext(PyObject* context_manager_maker);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_COMMON_COMPILE_CONTEXTS_H_
