// Which memory holds parameters.

#ifndef TORCHTRACE_DIALECTS_TORCH_MEMORY_PARAMETERS_H_
#define TORCHTRACE_DIALECTS_TORCH_MEMORY_PARAMETERS_H_

#include <Python.h>

namespace torchtrace::torch_dialect {

// Records for each parameter of a module, with the modules in it, or of an optimizer, that its block holds one, if it
// isn't recorded yet. Reads their attributes passively, without Python code. Needs the GIL.
void NoteParametersOf(PyObject* object);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_MEMORY_PARAMETERS_H_
