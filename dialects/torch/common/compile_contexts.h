// Runs the dialect's embedded Python files, and suspends recording while torch.compile works.

#ifndef TORCHTRACE_DIALECTS_TORCH_COMMON_COMPILE_CONTEXTS_H_
#define TORCHTRACE_DIALECTS_TORCH_COMMON_COMPILE_CONTEXTS_H_

#include <Python.h>

namespace torchtrace::torch_dialect {

// Runs dialects/torch/common/<name>.py once, as a module that is not in sys.modules, and calls its function, unseen by
// sys.settrace and sys.setprofile. The file is compiled into the library: a traced program needs nothing installed.
// Null with a Python error set. Needs the GIL.
PyObject* CallPythonSource(const char* name, const char* function, PyObject* args);

// Reports that compiled code may run. Call it when something is compiled, or was before.
void NoteCompiledCode();

// `wrap` of compile_watch.py. `of`: a function, and what a call of it begins: a "graph" or a "backward" compiles in the
// bodies of the context managers that the function makes, and "" something else; there the thread records nothing,
// since what torch.compile calls is none of the program's calls. A "backward run" is a function that it makes, if
// that is for a backward graph, and a "backward load" the function that the method makes.
// A "package run" is a call of the function itself, which stays, as does one that makes such functions, a "library
// load".
PyObject* WrapForCompiling(PyObject* of);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_COMMON_COMPILE_CONTEXTS_H_
