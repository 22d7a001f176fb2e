// Files that users name and that are read whole: lists of names, groups, numbers, manifests.

#ifndef TORCHTRACE_SERIALIZE_BASE_READ_FILE_H_
#define TORCHTRACE_SERIALIZE_BASE_READ_FILE_H_

#include <cstdio>
#include <string>

#include "absl/status/statusor.h"

namespace torchtrace {

// Larger than any real list; stops reading of endless devices before it exhausts memory.
inline constexpr size_t kMostFileBytes = size_t{64} << 20;

// NotFound and Unavailable name `path` and the cause; InvalidArgument: it is larger than kMostFileBytes.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);
// The same for an open file; `path` is its name in errors.
absl::StatusOr<std::string> ReadWholeFile(std::FILE* file, const std::string& path);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_READ_FILE_H_
