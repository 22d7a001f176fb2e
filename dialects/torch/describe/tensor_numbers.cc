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

#include "dialects/torch/describe/copied_numbers.h"
#include "dialects/torch/describe/device_notes.h"
#include "dialects/torch/describe/object_numbers.h"
#include "dialects/torch/describe/storage_state.h"
#include "dialects/torch/describe/tensor_elements.h"
#include "dialects/torch/numbers/fingerprint.h"
#include "dialects/torch/numbers/noted_numbers.h"
#include "dialects/torch/numbers/numbers.h"

namespace torchtrace::torch_dialect {
namespace {

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

// A tensor's elements as NumbersOf takes them.
struct Readable {
  ElementType type;
  const char* first;
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
  FlippedSigns flipped;
  int device;                     // of CUDA; -1: another one
  const c10::TensorImpl* copied;  // a tensor of another device than the CPU and CUDA, else null

  FoundNumbers Read() const {
    if (copied != nullptr) return {NumbersOfCopy(*copied, type)};
    if (device < 0) return {NotedNumbers(NumbersOf(type, first, sizes, strides, flipped))};
    return {{}, {ReadOnDevice(type, first, sizes, strides, flipped, device), ShapeSeed(type, sizes)}};
  }
};

// Memory that PyTorch didn't allocate: others write to it, and it may be of a file, and not be there.
bool IsOfOthers(const c10::TensorImpl& impl) {
  const c10::Storage& storage = impl.unsafe_storage();
  return storage.allocator() == nullptr && storage.device_type() == c10::kCPU;
}

bool MayBeRead(const c10::TensorImpl& impl, const TensorElements& elements) {
  constexpr int64_t kMostRepeated = int64_t{256} << 20, kMostOfOthers = int64_t{1} << 30;
  const auto itemsize = static_cast<int64_t>(impl.dtype().itemsize());
  const int64_t bytes = impl.numel_default() * itemsize;
  if (bytes > kMostRepeated && bytes > impl.unsafe_storage().sym_nbytes().as_int_unchecked()) return false;
  return !IsOfOthers(impl) || IsReadable(elements, kMostOfOthers);
}

std::optional<Readable> ReadableOf(const c10::TensorImpl& impl) {
  const std::optional<ElementType> type = TypeOf(impl);
  if (!type) return std::nullopt;
  const c10::DeviceType on = impl.unsafe_storage().device_type();
  const bool cuda = on == c10::kCUDA, copied = !cuda && on != c10::kCPU;
  if (copied && !CanBeCopied(impl)) return std::nullopt;
  const TensorElements elements = ElementsOf(impl, on);
  if (elements.first == nullptr && !elements.empty) return std::nullopt;
  if (!elements.empty && !cuda && !MayBeRead(impl, elements)) return std::nullopt;
  const int device = cuda && !elements.empty ? impl.unsafe_storage().device().index() : -1;
  return Readable{*type,
                  elements.first,
                  Span(impl.sizes_default()),
                  Span(impl.strides_default()),
                  elements.flipped,
                  device,
                  copied && !elements.empty ? &impl : nullptr};
}

// A nested tensor's values are its whole storage.
FoundNumbers NumbersOfNested(const c10::TensorImpl& impl) {
  const std::optional<ElementType> type = TypeOf(impl);
  if (!type || !impl.has_storage() || !impl.unsafe_storage() || impl.unsafe_storage().device_type() != c10::kCPU) {
    return {};
  }
  const c10::SymInt bytes = impl.unsafe_storage().sym_nbytes();
  const void* const data = impl.unsafe_storage().data();
  if (bytes.is_heap_allocated()) return {};
  const int64_t count = data == nullptr ? 0 : bytes.as_int_unchecked() / static_cast<int64_t>(ElementSize(*type));
  const int64_t stride = 1;
  return {NotedNumbers(NumbersOf(*type, data, {&count, 1}, {&stride, 1}))};
}

std::optional<uint32_t> VersionOf(const c10::TensorImpl& impl) {
  const c10::VariableVersion& version = impl.version_counter();
  return version.enabled() ? std::optional(version.current_version()) : std::nullopt;
}

// A description of what is to be read, in the place of what was read.
ReadElements ElementsToRead(const c10::TensorImpl& impl, const Readable& readable, std::optional<uint32_t> version) {
  ReadElements read;
  read.known = version.has_value() && !IsOfOthers(impl) && g_reads_are_kept.load(std::memory_order_relaxed) &&
               !g_kernels_are_fused.load(std::memory_order_relaxed);
  read.unknown_writes = g_unknown_writes.load(std::memory_order_relaxed);
  read.version = version.value_or(0);
  read.type = static_cast<uint8_t>(readable.type);
  read.flipped = readable.flipped;
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
FoundNumbers NumbersAs(std::span<const int64_t> sizes, const ReadElements& read) {
  const auto type = static_cast<ElementType>(read.type);
  if (read.on_device != nullptr) {
    const LaterNumbers later = {read.on_device, ShapeSeed(type, sizes)};
    const std::optional<TensorNote::Numbers> arrived = later.Arrived();
    return arrived.has_value() ? FoundNumbers{arrived} : FoundNumbers{{}, later};
  }
  TensorNote::Numbers numbers = read.numbers;
  numbers.fingerprint = FinishFingerprint(read.words, ShapeSeed(type, sizes));
  return {numbers};
}

// Null: the elements were not read as they are now.
ReadElements* FindRead(StorageState* state, const ReadElements& wanted) {
  if (!wanted.known) return nullptr;
  for (ReadElements& read : state->read) {
    if (!read.known || read.unknown_writes != wanted.unknown_writes || read.first != wanted.first ||
        read.type != wanted.type || read.flipped != wanted.flipped || read.dims != wanted.dims ||
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
FoundNumbers NumbersIn(StorageState* state, const c10::TensorImpl& impl, Elements elements, bool arguments) {
  const std::optional<uint32_t> version = VersionOf(impl);
  const bool first_seen = !std::exchange(state->seen, true);
  const std::optional<uint32_t> version_before = std::exchange(state->version, version);
  const bool changed = first_seen || !version.has_value() || version_before != version;
  // An alias with a version of its own (`x.data`) may have a lower one.
  const bool was_written = state->written || (version.has_value() && state->allocated_at.has_value() &&
                                              *version > uint64_t{*state->allocated_at} + state->new_views);
  switch (elements) {
    case Elements::kUnread:
    case Elements::kUnnoted:
      return {};
    case Elements::kAllocated:
      state->written = false;
      state->allocated_at = version;
      state->new_views = changed ? 0 : 1;  // resize_ raises the version
      state->under_way = false;
      Forget(state);
      return {};
    case Elements::kLater:
      state->written = true;
      state->under_way = true;
      Forget(state);
      return {};
    case Elements::kView:
      if (!first_seen) return {};
      break;
    case Elements::kNewView:
      // Level 2 comes before the call raises the version.
      state->new_views += changed && version.has_value() ? *version - version_before.value_or(*version) : 1;
      return {};
    case Elements::kReturned:
      if (state->under_way || !was_written) return {};
      break;
    case Elements::kRead:
      state->under_way = false;
      if (!was_written || !arguments) return {};
      break;
    case Elements::kWritten:
    case Elements::kMutated:
      Forget(state);
      // Another storage may show the same memory.
      if (IsOfOthers(impl)) g_unknown_writes.fetch_add(1, std::memory_order_relaxed);
      break;
  }
  state->under_way = false;
  state->written = true;
  const std::optional<Readable> readable = ReadableOf(impl);
  if (!readable) return {};
  ReadElements elements_now = ElementsToRead(impl, *readable, version);
  if (ReadElements* const known = FindRead(state, elements_now)) {
    const bool is_as_it_was = std::exchange(known->will_change, false) && known->version != elements_now.version;
    known->version = elements_now.version;
    if (elements == Elements::kRead || !changed || is_as_it_was) {
      std::swap(*known, state->read.front());
      return NumbersAs(readable->sizes, state->read.front());
    }
  }
  const bool as_it_was = !changed && !g_kernels_are_fused.load(std::memory_order_relaxed);
  if (elements == Elements::kReturned && as_it_was) return {};
  const FoundNumbers found = readable->Read();
  elements_now.on_device = found.later.read;
  if (found.now.has_value()) {
    elements_now.numbers = *found.now;
    elements_now.words = SumOfWords(found.now->fingerprint, ShapeSeed(readable->type, readable->sizes));
  } else if (found.later.read == nullptr) {
    elements_now.known = false;
  }
  elements_now.will_change = elements == Elements::kMutated && !c10::InferenceMode::is_enabled();
  if (elements_now.known) {
    state->read.back() = state->read.front();
    state->read.front() = elements_now;
  }
  return found;
}

}  // namespace

FoundNumbers NumbersOfTensor(const c10::TensorImpl& impl, StorageState* state, Elements elements, bool arguments) {
  const c10::DispatchKeySet keys = impl.key_set();
  if (keys.has_any(c10::functorch_transforms_ks | c10::python_ks)) return {};
  if (keys.has_any(c10::sparse_ks | c10::sparse_csr_ks)) {
    const at::Tensor values = keys.has_any(c10::sparse_ks) ? static_cast<const at::SparseTensorImpl&>(impl).values()
                                                           : static_cast<const at::SparseCsrTensorImpl&>(impl).values();
    const c10::TensorImpl& its = *values.unsafeGetTensorImpl();
    if (!its.has_storage() || !its.unsafe_storage()) return {};
    const TensorNumber number = NumberOf(its, its.unsafe_storage().unsafeGetStorageImpl(), /*with_state=*/true);
    return NumbersOfTensor(its, number.state.get(), elements, arguments);
  }
  if (state == nullptr || impl.has_symbolic_sizes_strides()) return {};
  const bool is_written = elements == Elements::kWritten || elements == Elements::kMutated;
  const bool wanted = elements == Elements::kReturned || is_written || (arguments && elements == Elements::kRead);
  if (keys.has(c10::DispatchKey::NestedTensor)) return wanted ? NumbersOfNested(impl) : FoundNumbers();
  if (state->busy.test_and_set(std::memory_order_acquire)) {
    // Another thread describes a tensor of this storage, or did so when the process was forked.
    if (is_written || elements == Elements::kLater) {
      state->written = true;
      g_unknown_writes.fetch_add(1, std::memory_order_relaxed);
    }
    if (!wanted) return {};
    const std::optional<Readable> readable = ReadableOf(impl);
    return readable ? readable->Read() : FoundNumbers();
  }
  const FoundNumbers numbers = NumbersIn(state, impl, elements, arguments);
  state->busy.clear(std::memory_order_release);
  return numbers;
}

}  // namespace torchtrace::torch_dialect
