// A write that is an error, and nothing more, where the reader has gone away or the file may not
// grow: SIGPIPE and SIGXFSZ are the program's, which may have them end it.

#ifndef TORCHTRACE_TRACER_RECORD_WRITE_WITHOUT_SIGNAL_H_
#define TORCHTRACE_TRACER_RECORD_WRITE_WITHOUT_SIGNAL_H_

#include <sys/types.h>
#include <sys/uio.h>

namespace torchtrace {

// As writev. Async-signal-safe.
ssize_t WriteWithoutSignal(int fd, const iovec* parts, int count);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_WRITE_WITHOUT_SIGNAL_H_
