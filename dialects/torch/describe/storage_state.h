// What is remembered of a storage for the numbers of its tensors.

#ifndef TORCHTRACE_DIALECTS_TORCH_DESCRIBE_STORAGE_STATE_H_
#define TORCHTRACE_DIALECTS_TORCH_DESCRIBE_STORAGE_STATE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "serialize/model/tensor_notes.h"

namespace torchtrace::torch_dialect {

// The tensor that was read last, and its numbers.
struct LastRead {
  static constexpr size_t kMostDims = 6;  // of more, nothing is remembered
  bool known = false;
  uint8_t type = 0;
  uint8_t dims = 0;
  uint32_t version = 0;
  const void* first = nullptr;  // its first element
  int64_t storage_bytes = 0;
  std::array<int64_t, kMostDims> sizes = {};
  std::array<int64_t, kMostDims> strides = {};
  TensorNote::Numbers numbers = {};
};

struct StorageState {
  std::atomic_flag busy;                      // who sets it may use the rest
  bool seen = false;                          // in a call
  bool written = true;                        // false: it was allocated, and a call that writes to it isn't known
  bool under_way = false;                     // asynchronous work writes it, or did
  std::optional<uint32_t> allocated_at = {};  // the version of the tensor that was allocated
  std::optional<uint32_t> version = {};       // of the tensor that was described last
  LastRead last;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DESCRIBE_STORAGE_STATE_H_
