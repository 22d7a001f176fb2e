// What is remembered of a storage for the numbers of its tensors.

#ifndef TORCHTRACE_DIALECTS_TORCH_DESCRIBE_STORAGE_STATE_H_
#define TORCHTRACE_DIALECTS_TORCH_DESCRIBE_STORAGE_STATE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "dialects/torch/numbers/element_type.h"
#include "serialize/model/tensor_notes.h"

namespace torchtrace::torch_dialect {

class DeviceRead;

// Raised when something may have been written that isn't known: what was read before that isn't known any more.
inline std::atomic<uint32_t> g_unknown_writes{0};

// Elements in row-major order, of a tensor or another one that views the same ones in the same order, and their
// numbers.
struct ReadElements {
  static constexpr size_t kMostDims = 5;  // of more, nothing is remembered
  bool known = false;
  bool will_change = false;  // PyTorch adds one to the version once the call that wrote them has ended
  uint8_t type = 0;
  FlippedSigns flipped = {};
  uint8_t dims = 0;
  uint32_t version = 0;
  uint32_t unknown_writes = 0;  // before it was read
  const void* first = nullptr;
  int64_t storage_bytes = 0;
  // Without dimensions of size 1, and with neighbours that can be walked as one as one.
  std::array<int64_t, kMostDims> sizes = {};
  std::array<int64_t, kMostDims> strides = {};
  uint64_t words = 0;  // of the fingerprint (fingerprint.h)
  TensorNote::Numbers numbers = {};
  std::shared_ptr<DeviceRead> on_device = {};  // instead of both, on a GPU
};

struct StorageState {
  std::atomic_flag busy;  // who sets it may use the rest
  bool seen = false;      // in a call
  // False: it was allocated, and a call that writes to it isn't known. Anybody may set it.
  std::atomic<bool> written = true;
  bool under_way = false;                     // asynchronous work writes it, or did
  std::optional<uint32_t> allocated_at = {};  // the version of the tensor that was allocated
  uint32_t new_views = 0;                     // by how much other views of the tensor have raised it since then
  std::optional<uint32_t> version = {};       // of the tensor that was described last
  // The last ones first. A matrix and its transpose are often read in turn.
  std::array<ReadElements, 2> read;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DESCRIBE_STORAGE_STATE_H_
