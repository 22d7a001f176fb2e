// Which addresses are frames of logs. A log that is cut under a running program, or whose
// disk is gone, makes a store to one of its frames a SIGBUS: whoever handles that asks
// here. Lock-free; all of it may be called from a signal handler, on any thread.

#ifndef TORCHTRACE_SERIALIZE_LOG_MAPPED_FRAMES_H_
#define TORCHTRACE_SERIALIZE_LOG_MAPPED_FRAMES_H_

#include <cstdint>

namespace torchtrace {

// `begin` is a page's. Where there is no memory to remember it, it is forgotten.
void AddMappedFrame(const void* begin, uint64_t bytes);
void RemoveMappedFrame(const void* begin, uint64_t bytes);
// In a forked child, where no frame is mapped.
void ForgetMappedFrames();

// When `address` is in a frame, its file gives way to zeros: the access that failed works
// when it is done again. False: it is not ours.
bool MapZerosOverFrame(const void* address);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_LOG_MAPPED_FRAMES_H_
