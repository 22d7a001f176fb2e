// Thread-local variables that are reached by one instruction, in a library that is loaded late.

#ifndef TORCHTRACE_TRACER_STATIC_TLS_H_
#define TORCHTRACE_TRACER_STATIC_TLS_H_

// Behind the variable's name, in its declaration. glibc keeps little space for such variables: they
// must be small. And they must have external linkage: of one that is local to its file, GNU ld 2.40
// forgets where in the library's block it stands, and it is another one's memory.
#define TORCHTRACE_STATIC_TLS __attribute__((tls_model("initial-exec")))

namespace torchtrace {

// For the file that defines such a variable of more than 8 bytes. glibc may place a late library's at
// multiples of 8 only, whatever the library asks for; a compiler that sees the definition raises the
// alignment, and trusts it.
template <typename T>
T& AtAnyAlignment(T& variable) {
  T* address = &variable;
  asm("" : "+r"(address));
  return *address;
}

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_STATIC_TLS_H_
