// What most files of the rooms include, read once (rooms.bzl). Each file still includes what it uses.

#ifndef TORCHTRACE_TOOLS_BAZEL_PRECOMPILED_COMMON_H_
#define TORCHTRACE_TOOLS_BAZEL_PRECOMPILED_COMMON_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

#endif  // TORCHTRACE_TOOLS_BAZEL_PRECOMPILED_COMMON_H_
