// Verbs as functions of libtorchtrace_verbs.so, which a Python calls to read traces: the C interface between them.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_VERB_CALLS_H_
#define TORCHTRACE_SERIALIZE_EXPORT_VERB_CALLS_H_

#include <stddef.h>

struct ArrowArrayStream;

extern "C" {

// What the verb that is called does with its output. All functions get `context`, on the thread that calls the verb.
struct torchtrace_verb_host {
  void* context;
  // Standard output.
  void (*write)(void* context, const char* bytes, size_t size);
  // A remark.
  void (*say)(void* context, const char* text, size_t size);
  // Why it failed. `code`: an absl::StatusCode.
  void (*fail)(void* context, int code, const char* text, size_t size);
  // Called now and then: another number than 0 ends the verb, as does `take_rows`.
  int (*stops)(void* context);
  // Of `export parquet`, in place of a file: the next rows, first a stream without any. It owns the stream, but what
  // it gets from it may outlive the verb.
  int (*take_rows)(void* context, struct ArrowArrayStream* rows);
};

enum {
  TORCHTRACE_VERB_STOPPED = -1,
  TORCHTRACE_VERB_WITHOUT_MEMORY = -2,
};

// Runs the verb `words[0]` with the others as its arguments, and returns its exit code, or one of the above. Several
// threads may call it at once.
typedef int (*torchtrace_call_verb_function)(const char* const* words, size_t count,
                                             const struct torchtrace_verb_host* host);

}  // extern "C"

#endif  // TORCHTRACE_SERIALIZE_EXPORT_VERB_CALLS_H_
