// Thread-local variables that one instruction can access, in a library that is loaded late.

#ifndef TORCHTRACE_TRACER_RECORD_STATIC_TLS_H_
#define TORCHTRACE_TRACER_RECORD_STATIC_TLS_H_

// Goes behind the variable's name in its declaration. Such variables must be small, as glibc reserves little space for
// them. And they must have external linkage: GNU ld 2.40 loses the offset of a file-local one in the library's block,
// so that it overlaps another variable.
#define TORCHTRACE_STATIC_TLS __attribute__((tls_model("initial-exec")))

#endif  // TORCHTRACE_TRACER_RECORD_STATIC_TLS_H_
