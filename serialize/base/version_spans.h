// Library versions by their first two numbers, and spans of versions for which a row of a table holds.

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

// "2.13.0+cpu", "2.16.0.dev20261122", "2.13"; nullopt if the text does not begin with two numbers.
std::optional<MinorVersion> ParseMinorVersion(std::string_view text);
std::string FormatMinorVersion(const MinorVersion& version);

// Whether a version is in the spans: "2.7-2.9,2.13"; "-2.8": up to 2.8; "2.10-": from 2.10 on; empty: all versions. A
// malformed span contains no version. version_spans.py writes them.
bool IsAmong(std::string_view spans, const MinorVersion& version);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_VERSION_SPANS_H_
