#include "dialects/torch/describe/tensor_numbers.h"

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "dialects/torch/describe/object_numbers.h"
#include "dialects/torch/describe/storage_state.h"
#include "dialects/torch/describe/tensor_elements.h"
#include "dialects/torch/numbers/numbers.h"

namespace torchtrace::torch_dialect {
namespace {

using NotedNumbers = TensorNote::Numbers;

std::optional<ElementType> TypeOf(const c10::TensorImpl& impl) {
  if (!impl.dtype().isScalarType()) return std::nullopt;
  switch (const c10::ScalarType type = c10::typeMetaToScalarType(impl.dtype())) {
    case c10::ScalarType::QInt8:
      return ElementType::kInt8;
    case c10::ScalarType::QUInt8:
      return ElementType::kUint8;
    case c10::ScalarType::QInt32:
      return ElementType::kInt32;
    default:
      return ElementTypeOfNumber(static_cast<int64_t>(type));
  }
}

std::span<const int64_t> Span(c10::IntArrayRef dims) { return {dims.data(), dims.size()}; }

NotedNumbers Noted(const Numbers& numbers) {
  NotedNumbers noted = {.nans = numbers.nans,
                        .positive_infinities = numbers.positive_infinities,
                        .negative_infinities = numbers.negative_infinities,
                        .zeros = numbers.zeros,
                        .finite = numbers.finite(),
                        .fingerprint = numbers.fingerprint};
  if (noted.finite != 0) {
    noted.least = numbers.least;
    noted.most = numbers.most;
    noted.mean = numbers.mean;
    noted.norm = numbers.norm;
  }
  return noted;
}

// A tensor's elements as NumbersOf takes them.
struct Readable {
  ElementType type;
  const char* first;
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;

  NotedNumbers Read() const { return Noted(NumbersOf(type, first, sizes, strides)); }
};

std::optional<Readable> ReadableOf(const c10::TensorImpl& impl) {
  const std::optional<ElementType> type = TypeOf(impl);
  if (!type || impl.key_set().has_any(c10::DispatchKeySet({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}))) {
    return std::nullopt;
  }
  const TensorElements elements = ElementsOf(impl);
  if (elements.first == nullptr && !elements.empty) return std::nullopt;
  return Readable{*type, elements.first, Span(impl.sizes_default()), Span(impl.strides_default())};
}

// A nested tensor's values are its whole storage.
std::optional<NotedNumbers> NumbersOfNested(const c10::TensorImpl& impl) {
  const std::optional<ElementType> type = TypeOf(impl);
  if (!type || !impl.has_storage() || !impl.unsafe_storage() || impl.unsafe_storage().device_type() != c10::kCPU) {
    return std::nullopt;
  }
  const c10::SymInt bytes = impl.unsafe_storage().sym_nbytes();
  const void* const data = impl.unsafe_storage().data();
  if (bytes.is_heap_allocated()) return std::nullopt;
  const int64_t count = data == nullptr ? 0 : bytes.as_int_unchecked() / static_cast<int64_t>(ElementSize(*type));
  const int64_t stride = 1;
  return Noted(NumbersOf(*type, data, {&count, 1}, {&stride, 1}));
}

std::optional<uint32_t> VersionOf(const c10::TensorImpl& impl) {
  const c10::VariableVersion& version = impl.version_counter();
  return version.enabled() ? std::optional(version.current_version()) : std::nullopt;
}

bool IsOf(const LastRead& last, const c10::TensorImpl& impl, const Readable& readable,
          std::optional<uint32_t> version) {
  const size_t dims = readable.sizes.size();
  return last.known && version.has_value() && last.version == *version && last.first == readable.first &&
         last.type == static_cast<uint8_t>(readable.type) && last.dims == dims &&
         last.storage_bytes == impl.unsafe_storage().sym_nbytes().as_int_unchecked() &&
         std::equal(readable.sizes.begin(), readable.sizes.end(), last.sizes.begin()) &&
         std::equal(readable.strides.begin(), readable.strides.end(), last.strides.begin());
}

void Remember(const c10::TensorImpl& impl, const Readable& readable, std::optional<uint32_t> version,
              const NotedNumbers& numbers, LastRead* last) {
  last->known = version.has_value() && readable.sizes.size() <= LastRead::kMostDims;
  if (!last->known) return;
  last->version = *version;
  last->first = readable.first;
  last->type = static_cast<uint8_t>(readable.type);
  last->dims = static_cast<uint8_t>(readable.sizes.size());
  last->storage_bytes = impl.unsafe_storage().sym_nbytes().as_int_unchecked();
  std::copy(readable.sizes.begin(), readable.sizes.end(), last->sizes.begin());
  std::copy(readable.strides.begin(), readable.strides.end(), last->strides.begin());
  last->numbers = numbers;
}

// Decides by what is known of the storage whether the tensor has numbers, and updates that.
std::optional<NotedNumbers> NumbersIn(StorageState* state, const c10::TensorImpl& impl, Elements elements,
                                      bool arguments) {
  const std::optional<uint32_t> version = VersionOf(impl);
  const bool first_seen = !std::exchange(state->seen, true);
  const std::optional<uint32_t> version_before = std::exchange(state->version, version);
  const bool changed = first_seen || !version.has_value() || version_before != version;
  const bool was_written = state->written || (version.has_value() && version != state->allocated_at);
  bool is_argument = false, may_be_known = false;
  switch (elements) {
    case Elements::kUnread:
    case Elements::kUnnoted:
      return std::nullopt;
    case Elements::kAllocated:
      state->written = false;
      state->allocated_at = version;
      state->under_way = false;
      state->last.known = false;
      return std::nullopt;
    case Elements::kLater:
      state->written = true;
      state->under_way = true;
      state->last.known = false;
      return std::nullopt;
    case Elements::kView:
      if (!first_seen) return std::nullopt;
      break;
    case Elements::kReturned:
      if (state->under_way || (!was_written && version.has_value())) return std::nullopt;
      may_be_known = !changed;
      break;
    case Elements::kRead:
      state->under_way = false;
      if (!was_written || !arguments) return std::nullopt;
      is_argument = may_be_known = true;
      break;
    case Elements::kWritten:
      break;
  }
  state->under_way = false;
  state->written = true;
  const std::optional<Readable> readable = ReadableOf(impl);
  if (!readable) return std::nullopt;
  if (may_be_known) {
    if (IsOf(state->last, impl, *readable, version)) return state->last.numbers;
    if (!is_argument) return std::nullopt;
  }
  const NotedNumbers numbers = readable->Read();
  Remember(impl, *readable, version, numbers, &state->last);
  return numbers;
}

}  // namespace

std::optional<NotedNumbers> NumbersOfTensor(const c10::TensorImpl& impl, Elements elements, bool arguments) {
  const c10::DispatchKeySet keys = impl.key_set();
  if (keys.has_any(c10::functorch_transforms_ks | c10::python_ks)) return std::nullopt;
  if (keys.has_any(c10::sparse_ks)) {
    return NumbersOfTensor(*static_cast<const at::SparseTensorImpl&>(impl).values().unsafeGetTensorImpl(), elements,
                           arguments);
  }
  if (keys.has_any(c10::sparse_csr_ks)) {
    return NumbersOfTensor(*static_cast<const at::SparseCsrTensorImpl&>(impl).values().unsafeGetTensorImpl(), elements,
                           arguments);
  }
  if (!impl.has_storage() || !impl.unsafe_storage() || impl.has_symbolic_sizes_strides()) return std::nullopt;
  const bool wanted =
      arguments ? elements == Elements::kRead || elements == Elements::kReturned || elements == Elements::kWritten
                : elements == Elements::kReturned || elements == Elements::kWritten;
  if (keys.has(c10::DispatchKey::NestedTensor)) return wanted ? NumbersOfNested(impl) : std::nullopt;
  const std::shared_ptr<StorageState> state = StateOf(*impl.unsafe_storage().unsafeGetStorageImpl());
  if (state == nullptr) return std::nullopt;
  if (state->busy.test_and_set(std::memory_order_acquire)) {
    // Another thread describes a tensor of this storage, or did so when the process was forked.
    if (!wanted) return std::nullopt;
    const std::optional<Readable> readable = ReadableOf(impl);
    return readable ? std::optional(readable->Read()) : std::nullopt;
  }
  const std::optional<NotedNumbers> numbers = NumbersIn(state.get(), impl, elements, arguments);
  state->busy.clear(std::memory_order_release);
  return numbers;
}

}  // namespace torchtrace::torch_dialect
