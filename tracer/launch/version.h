// The version of torchtrace.

#ifndef TORCHTRACE_TRACER_LAUNCH_VERSION_H_
#define TORCHTRACE_TRACER_LAUNCH_VERSION_H_

namespace torchtrace {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_LAUNCH_VERSION_H_
