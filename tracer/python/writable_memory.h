// Whether a word of the process may be stored to: tables of C extensions may be constant, and a store
// to one would end the program.

#ifndef TORCHTRACE_TRACER_PYTHON_WRITABLE_MEMORY_H_
#define TORCHTRACE_TRACER_PYTHON_WRITABLE_MEMORY_H_

namespace torchtrace {

// Guarded by the GIL.
bool IsWritable(const void* place);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_PYTHON_WRITABLE_MEMORY_H_
