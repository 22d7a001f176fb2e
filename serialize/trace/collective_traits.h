// Operations of torch.distributed, as their calls describe them.

#ifndef TORCHTRACE_SERIALIZE_TRACE_COLLECTIVE_TRAITS_H_
#define TORCHTRACE_SERIALIZE_TRACE_COLLECTIVE_TRAITS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serialize/model/config.h"

namespace torchtrace {

// What ranks must agree on in one operation.
struct CollectiveTraits {
  enum Kind : uint8_t { kNone, kCollective, kSend, kReceive };
  Kind kind = kNone;
  bool is_operator = false;  // else a function of torch.distributed
  std::string group;         // its name, kDefaultGroup, kUnnamedGroup
  std::string operation;     // `all_reduce`: of functions and operators alike
  std::string reduction;     // `sum`
  std::string root;          // of a broadcast, reduce, gather, scatter
  std::string shapes;        // `[4, 2], [4]`
  std::string dtypes;        // `float32`, once for each tensor
  std::string devices;       // `cpu`, `cuda`
  int64_t elements = 0;      // of all tensors; -1: not known
  // Of an all_to_all: the elements for each rank of the group, and from each. None: each has the same part of all; or
  // not known.
  std::vector<int64_t> sends, receives;
  int64_t sends_in_all = -1, receives_in_all = -1;  // -1: not known
  // Of a send or receive.
  std::optional<int64_t> peer;  // in its group if peer_in_group; nullopt: any
  bool peer_in_group = false;
  int64_t tag = 0;
};

// PyTorch's name of the group of all ranks.
inline constexpr char kDefaultGroup[] = "0";
// Of traces that don't name groups: all of them together.
inline constexpr char kUnnamedGroup[] = "";

// The operation of an API at a level: `all_reduce`, by whatever name; empty: none.
std::string OperationOf(std::string_view api, int level);
// kNone: not an operation, or the rank is no member of the group.
CollectiveTraits CollectiveTraitsOf(const Config& config);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_COLLECTIVE_TRAITS_H_
