// What torch.compile does itself is none of the program's calls: its threads record nothing meanwhile.

#ifndef TORCHTRACE_DIALECTS_TORCH_COMMON_COMPILE_CONTEXTS_H_
#define TORCHTRACE_DIALECTS_TORCH_COMMON_COMPILE_CONTEXTS_H_

#include <Python.h>

namespace torchtrace::torch_dialect {

// Says that compiled code may run: for where something is compiled, or was.
void NoteCompiledCode();

// A Python context manager around `context_manager_maker(*args)` in whose body the
// thread records nothing: `wrap(install_callbacks)` in compile_watch.py.
PyObject* WrapCompileContext(PyObject* context_manager_maker);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_COMMON_COMPILE_CONTEXTS_H_
