// Versions of a library by their first two numbers, and spans of them: what a row of a table holds for.

#ifndef TORCHTRACE_SERIALIZE_BASE_VERSION_SPANS_H_
#define TORCHTRACE_SERIALIZE_BASE_VERSION_SPANS_H_

#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace torchtrace {

struct MinorVersion {
  int major = 0;
  int minor = 0;
  auto operator<=>(const MinorVersion&) const = default;
};

// "2.13.0+cpu", "2.16.0.dev20261122", "2.13"; nothing for what does not begin with two numbers.
std::optional<MinorVersion> ParseMinorVersion(std::string_view text);
std::string FormatMinorVersion(const MinorVersion& version);

// Whether a version is among spans: "2.7-2.9,2.13"; "-2.8" reaches back from there, "2.10-" goes on for ever; empty:
// all versions. What is no span has no version. version_spans.py writes them.
bool IsAmong(std::string_view spans, const MinorVersion& version);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_VERSION_SPANS_H_
