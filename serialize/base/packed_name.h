// Names of files that are compressed: their suffix comes before that of the compression.

#ifndef TORCHTRACE_SERIALIZE_BASE_PACKED_NAME_H_
#define TORCHTRACE_SERIALIZE_BASE_PACKED_NAME_H_

#include <string_view>

namespace torchtrace {

inline constexpr std::string_view kGzipSuffix = ".gz";

// Whether files of that name are compressed by gzip.
inline bool IsGzipName(std::string_view name) {
  if (name.size() <= kGzipSuffix.size()) return false;
  const std::string_view end = name.substr(name.size() - kGzipSuffix.size());
  return end[0] == '.' && (end[1] | 0x20) == 'g' && (end[2] | 0x20) == 'z';
}

// `calls.csv` of `calls.csv.gz`; other names as they are.
inline std::string_view UnpackedName(std::string_view name) {
  if (IsGzipName(name)) name.remove_suffix(kGzipSuffix.size());
  return name;
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_PACKED_NAME_H_
