// Files that users name and that are read whole: lists of names, groups, numbers, manifests.

#ifndef TORCHTRACE_SERIALIZE_BASE_READ_FILE_H_
#define TORCHTRACE_SERIALIZE_BASE_READ_FILE_H_

#include <cstdio>
#include <string>

#include "absl/status/statusor.h"

namespace torchtrace {

// More than any list, and less than harms: a device may have no end.
inline constexpr size_t kMostFileBytes = size_t{64} << 20;

// NotFound and Unavailable name `path` and the cause; InvalidArgument: it is larger than kMostFileBytes.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);
// The same of a file that is open; `path` is how it is called.
absl::StatusOr<std::string> ReadWholeFile(std::FILE* file, const std::string& path);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_READ_FILE_H_
