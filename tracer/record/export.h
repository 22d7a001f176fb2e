// Marks what the runtime library offers to the modules it loads. Everything
// else in it is hidden, so that its libraries never meet the program's own.

#ifndef TORCHTRACE_TRACER_RECORD_EXPORT_H_
#define TORCHTRACE_TRACER_RECORD_EXPORT_H_

#define TORCHTRACE_EXPORT __attribute__((visibility("default")))

#endif  // TORCHTRACE_TRACER_RECORD_EXPORT_H_
