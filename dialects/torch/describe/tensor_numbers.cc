#include "dialects/torch/describe/tensor_numbers.h"

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "dialects/torch/describe/object_numbers.h"
#include "dialects/torch/describe/storage_state.h"
#include "dialects/torch/describe/tensor_elements.h"
#include "dialects/torch/numbers/fingerprint.h"
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

// A description of what is to be read, in the place of what was read.
ReadElements ElementsToRead(const c10::TensorImpl& impl, const Readable& readable, std::optional<uint32_t> version) {
  ReadElements read;
  read.known = version.has_value();
  read.version = version.value_or(0);
  read.type = static_cast<uint8_t>(readable.type);
  read.first = readable.first;
  read.storage_bytes = impl.unsafe_storage().sym_nbytes().as_int_unchecked();
  for (size_t i = 0; i < readable.sizes.size(); ++i) {
    const int64_t size = readable.sizes[i], stride = readable.strides[i];
    if (size == 1) continue;
    if (read.dims != 0 && read.strides[read.dims - 1] == stride * size) {
      read.sizes[read.dims - 1] *= size;
      read.strides[read.dims - 1] = stride;
    } else if (read.dims == ReadElements::kMostDims) {
      read.known = false;
      break;
    } else {
      read.sizes[read.dims] = size;
      read.strides[read.dims++] = stride;
    }
  }
  return read;
}

// The numbers of a tensor of these sizes.
NotedNumbers NumbersAs(std::span<const int64_t> sizes, const ReadElements& read) {
  NotedNumbers numbers = read.numbers;
  numbers.fingerprint = FinishFingerprint(read.words, static_cast<ElementType>(read.type), sizes);
  return numbers;
}

// Null: the elements were not read as they are now.
ReadElements* FindRead(StorageState* state, const ReadElements& wanted) {
  if (!wanted.known) return nullptr;
  for (ReadElements& read : state->read) {
    if (!read.known || read.first != wanted.first || read.type != wanted.type || read.dims != wanted.dims ||
        read.storage_bytes != wanted.storage_bytes || read.sizes != wanted.sizes || read.strides != wanted.strides) {
      continue;
    }
    if (read.version == wanted.version || (read.will_change && read.version + 1 == wanted.version)) return &read;
  }
  return nullptr;
}

void Forget(StorageState* state) {
  for (ReadElements& read : state->read) read.known = false;
}

// Decides by what is known of the storage whether the tensor has numbers, and updates that.
std::optional<NotedNumbers> NumbersIn(StorageState* state, const c10::TensorImpl& impl, Elements elements,
                                      bool arguments) {
  const std::optional<uint32_t> version = VersionOf(impl);
  const bool first_seen = !std::exchange(state->seen, true);
  const std::optional<uint32_t> version_before = std::exchange(state->version, version);
  const bool changed = first_seen || !version.has_value() || version_before != version;
  const bool was_written = state->written || (version.has_value() && version != state->allocated_at);
  switch (elements) {
    case Elements::kUnread:
    case Elements::kUnnoted:
      return std::nullopt;
    case Elements::kAllocated:
      state->written = false;
      state->allocated_at = version;
      state->under_way = false;
      Forget(state);
      return std::nullopt;
    case Elements::kLater:
      state->written = true;
      state->under_way = true;
      Forget(state);
      return std::nullopt;
    case Elements::kView:
      if (!first_seen) return std::nullopt;
      break;
    case Elements::kReturned:
      if (state->under_way || (!was_written && version.has_value())) return std::nullopt;
      break;
    case Elements::kRead:
      state->under_way = false;
      if (!was_written || !arguments) return std::nullopt;
      break;
    case Elements::kWritten:
      Forget(state);
      break;
  }
  state->under_way = false;
  state->written = true;
  const std::optional<Readable> readable = ReadableOf(impl);
  if (!readable) return std::nullopt;
  ReadElements elements_now = ElementsToRead(impl, *readable, version);
  if (ReadElements* const known = FindRead(state, elements_now)) {
    const bool is_as_it_was = std::exchange(known->will_change, false) && known->version != elements_now.version;
    known->version = elements_now.version;
    if (elements == Elements::kRead || !changed || is_as_it_was) {
      std::swap(*known, state->read.front());
      return NumbersAs(readable->sizes, state->read.front());
    }
  }
  if (elements == Elements::kReturned && !changed) return std::nullopt;
  elements_now.numbers = readable->Read();
  elements_now.words = SumOfWords(elements_now.numbers.fingerprint, readable->type, readable->sizes);
  elements_now.will_change = elements == Elements::kWritten && !first_seen && !c10::InferenceMode::is_enabled();
  if (elements_now.known) {
    state->read.back() = state->read.front();
    state->read.front() = elements_now;
  }
  return elements_now.numbers;
}

}  // namespace

std::optional<NotedNumbers> NumbersOfTensor(const c10::TensorImpl& impl, StorageState* state, Elements elements,
                                            bool arguments) {
  const c10::DispatchKeySet keys = impl.key_set();
  if (keys.has_any(c10::functorch_transforms_ks | c10::python_ks)) return std::nullopt;
  if (keys.has_any(c10::sparse_ks | c10::sparse_csr_ks)) {
    const at::Tensor values = keys.has_any(c10::sparse_ks) ? static_cast<const at::SparseTensorImpl&>(impl).values()
                                                           : static_cast<const at::SparseCsrTensorImpl&>(impl).values();
    const c10::TensorImpl& its = *values.unsafeGetTensorImpl();
    if (!its.has_storage() || !its.unsafe_storage()) return std::nullopt;
    const TensorNumber number = NumberOf(its, its.unsafe_storage().unsafeGetStorageImpl(), /*with_state=*/true);
    return NumbersOfTensor(its, number.state.get(), elements, arguments);
  }
  if (state == nullptr || impl.has_symbolic_sizes_strides()) return std::nullopt;
  const bool wanted =
      elements == Elements::kReturned || elements == Elements::kWritten || (arguments && elements == Elements::kRead);
  if (keys.has(c10::DispatchKey::NestedTensor)) return wanted ? NumbersOfNested(impl) : std::nullopt;
  if (state->busy.test_and_set(std::memory_order_acquire)) {
    // Another thread describes a tensor of this storage, or did so when the process was forked.
    if (!wanted) return std::nullopt;
    const std::optional<Readable> readable = ReadableOf(impl);
    return readable ? std::optional(readable->Read()) : std::nullopt;
  }
  const std::optional<NotedNumbers> numbers = NumbersIn(state, impl, elements, arguments);
  state->busy.clear(std::memory_order_release);
  return numbers;
}

}  // namespace torchtrace::torch_dialect
