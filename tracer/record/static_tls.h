// Thread-local variables that are reached by one instruction, in a library that is loaded late.

#ifndef TORCHTRACE_TRACER_RECORD_STATIC_TLS_H_
#define TORCHTRACE_TRACER_RECORD_STATIC_TLS_H_

// Behind the variable's name, in its declaration. glibc keeps little space for such variables: they
// must be small. And they must have external linkage: of one that is local to its file, GNU ld 2.40
// forgets where in the library's block it stands, and it is another one's memory.
#define TORCHTRACE_STATIC_TLS __attribute__((tls_model("initial-exec")))

#endif  // TORCHTRACE_TRACER_RECORD_STATIC_TLS_H_
