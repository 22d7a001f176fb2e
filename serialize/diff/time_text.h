// Differences of measured numbers as text.

#ifndef TORCHTRACE_SERIALIZE_DIFF_TIME_TEXT_H_
#define TORCHTRACE_SERIALIZE_DIFF_TIME_TEXT_H_

#include <cmath>
#include <string>

#include "absl/strings/str_format.h"
#include "serialize/diff/time_diff.h"

namespace torchtrace {

// `+20.1%`, `x12.3`; of nothing, `new`.
inline std::string FormatChange(double a, double b) {
  if (a == b) return "+0.0%";
  if (a <= 0) return "new";
  const double ratio = b / a;
  return ratio < 10 ? absl::StrFormat("%+.1f%%", 100 * (ratio - 1)) : absl::StrFormat("x%.1f", ratio);
}

// `3.2%` of A's number.
inline std::string FormatNoise(const Difference& difference, double a) {
  if (!difference.noise.has_value()) return "unknown";
  return a > 0 ? absl::StrFormat("%.1f%%", 100 * *difference.noise / a) : "-";
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_TIME_TEXT_H_
