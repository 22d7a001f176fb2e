#include "dialects/torch/describe/tensor_elements.h"

#include <c10/core/StorageImpl.h>
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <optional>

namespace torchtrace::torch_dialect {
namespace {

// Null: there is no data, or the program has forbidden to read it.
const char* DataOf(const c10::Storage& storage) {
  try {
    return static_cast<const char*>(storage.data());
  } catch (const c10::Error&) {
    return nullptr;
  }
}

bool ArePagesReadable(const char* from, const char* to) {
  static const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  constexpr size_t kMaskBytes = 8;
  const int saved = errno;
  const auto last = reinterpret_cast<uintptr_t>(to) - 1;
  for (uintptr_t at = reinterpret_cast<uintptr_t>(from) & ~(page - 1); at <= last; at += page) {
    // The kernel reads the mask before it rejects the operation ~0.
    if (syscall(SYS_rt_sigprocmask, ~0, at, nullptr, kMaskBytes) == -1 && errno != EINVAL) {
      errno = saved;
      return false;
    }
  }
  errno = saved;
  return true;
}

// Nothing: other bits than signs differ.
std::optional<FlippedSigns> FlippedSignsOf(const c10::TensorImpl& impl) {
  const bool negative = impl.key_set().has(c10::DispatchKey::Negative);
  const bool conjugate = impl.key_set().has(c10::DispatchKey::Conjugate);
  const FlippedSigns flipped = {.real = negative, .imaginary = negative != conjugate};
  if (!negative && !conjugate) [[likely]]
    return flipped;
  const c10::ScalarType type = c10::typeMetaToScalarType(impl.dtype());
  if (c10::isComplexType(type)) return flipped;
  if (conjugate || !c10::isFloatingType(type) || c10::isFloat8Type(type)) return std::nullopt;
  return flipped;
}

}  // namespace

bool IsReadable(const TensorElements& elements, int64_t most_bytes) {
  return elements.end - elements.first <= most_bytes && ArePagesReadable(elements.first, elements.end);
}

TensorElements ElementsOf(const c10::TensorImpl& impl, c10::DeviceType device) {
  if (impl.key_set().has_any(c10::sparse_ks | c10::sparse_csr_ks | c10::mkldnn_ks | c10::functorch_transforms_ks |
                             c10::python_ks | c10::DispatchKeySet(c10::DispatchKey::Functionalize) |
                             c10::DispatchKeySet(c10::DispatchKey::NestedTensor)) ||
      impl.has_symbolic_sizes_strides() || !impl.dtype().isScalarType() || !impl.has_storage() ||
      !impl.unsafe_storage() || impl.unsafe_storage().device_type() != device) {
    return {};
  }
  const c10::IntArrayRef sizes = impl.sizes_default(), strides = impl.strides_default();
  for (const int64_t size : sizes) {
    if (size == 0) return {.empty = true};
  }
  const std::optional<FlippedSigns> flipped = FlippedSignsOf(impl);
  if (!flipped) return {};
  const c10::Storage& storage = impl.unsafe_storage();
  const char* const start = DataOf(storage);
  const c10::SymInt bytes = storage.sym_nbytes();
  if (start == nullptr || bytes.is_heap_allocated()) return {};
  // A tensor may claim more than its storage holds.
  const int64_t offset = PassiveFields::StorageOffsetOf(impl);
  int64_t last = offset;
  for (size_t d = 0; d < sizes.size(); ++d) {
    int64_t reach;
    if (strides[d] < 0 || __builtin_mul_overflow(sizes[d] - 1, strides[d], &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return {};
    }
  }
  const size_t itemsize = impl.dtype().itemsize();
  if (last < 0 || (static_cast<uint64_t>(last) + 1) * itemsize > static_cast<uint64_t>(bytes.as_int_unchecked())) {
    return {};
  }
  return {.first = start + static_cast<size_t>(offset) * itemsize,
          .end = start + (static_cast<size_t>(last) + 1) * itemsize,
          .flipped = *flipped};
}

}  // namespace torchtrace::torch_dialect
