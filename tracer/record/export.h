// Marks what the runtime library exports to the modules that it loads. Everything else in it is hidden, so that the
// libraries linked into it never conflict with the program's.

#ifndef TORCHTRACE_TRACER_RECORD_EXPORT_H_
#define TORCHTRACE_TRACER_RECORD_EXPORT_H_

#define TORCHTRACE_EXPORT __attribute__((visibility("default")))

#endif  // TORCHTRACE_TRACER_RECORD_EXPORT_H_
