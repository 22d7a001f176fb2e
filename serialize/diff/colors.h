// The ANSI colours of differences, as diff tools have them.

#ifndef TORCHTRACE_SERIALIZE_DIFF_COLORS_H_
#define TORCHTRACE_SERIALIZE_DIFF_COLORS_H_

namespace torchtrace {

inline constexpr char kRed[] = "\x1b[31m";     // what A has
inline constexpr char kGreen[] = "\x1b[32m";   // what B has
inline constexpr char kYellow[] = "\x1b[33m";  // what changed
inline constexpr char kCyan[] = "\x1b[36m";    // where
inline constexpr char kBold[] = "\x1b[1m";
inline constexpr char kDim[] = "\x1b[2m";
inline constexpr char kReset[] = "\x1b[0m";

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_COLORS_H_
