#include "dialects/torch/describe/tensor_notes.h"

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/torch/describe/copied_numbers.h"
#include "dialects/torch/describe/describe.h"
#include "dialects/torch/describe/device_notes.h"
#include "dialects/torch/describe/nan_stop.h"
#include "dialects/torch/describe/object_numbers.h"
#include "dialects/torch/describe/tensor_elements.h"
#include "dialects/torch/describe/tensor_numbers.h"
#include "dialects/torch/numbers/row_major.h"
#include "serialize/model/tensor_notes.h"
#include "tracer/record/recorder.h"

namespace torchtrace::torch_dialect {
namespace {

// A range is taken of at most this many elements: enough for indices, masks and lengths, in a few hundred nanoseconds.
constexpr int64_t kMaxRangeElements = 4096;
// At most this many elements are kept themselves: lengths, offsets and labels of a batch, shapes.
constexpr int64_t kMaxKeptElements = 32;

const c10::StorageImpl* StorageOf(const c10::TensorImpl& impl) {
  return impl.has_storage() && impl.unsafe_storage() ? impl.unsafe_storage().unsafeGetStorageImpl() : nullptr;
}

std::optional<TensorNote::Identity> IdentityOf(const c10::TensorImpl& impl, const TensorNumber& number) {
  if (number.tensor == 0) return std::nullopt;
  TensorNote::Identity identity = {.tensor = number.tensor, .storage = number.storage};
  if (number.storage != 0 && !impl.has_symbolic_sizes_strides()) {
    identity.offset = static_cast<uint64_t>(std::max<int64_t>(0, PassiveFields::StorageOffsetOf(impl)));
  }
  return identity;
}

std::atomic<bool> g_identities{false};
std::atomic<bool> g_ranges{false};
std::atomic<uint64_t> g_contents_bytes{0};

StridedElements Strided(const c10::TensorImpl& impl, const TensorElements& elements) {
  const c10::IntArrayRef sizes = impl.sizes_default(), strides = impl.strides_default();
  const size_t itemsize = impl.dtype().itemsize();
  const bool is_complex = c10::isComplexType(c10::typeMetaToScalarType(impl.dtype()));
  return {.first = reinterpret_cast<const std::byte*>(elements.first),
          .element_size = itemsize,
          .sizes = {sizes.data(), sizes.size()},
          .strides = {strides.data(), strides.size()},
          .flipped = elements.flipped,
          .part_size = is_complex ? itemsize / 2 : itemsize};
}

// Without an option, nothing is read of a tensor that is scattered over more memory.
constexpr int64_t kMaxSpanBytes = 256 << 10;

template <typename Integer>
TensorNote::Range RangeOf(const StridedElements& elements) {
  Integer least = std::numeric_limits<Integer>::max(), most = std::numeric_limits<Integer>::min();
  ForEachBlock(elements, [&](const std::byte* block, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      Integer value;
      std::memcpy(&value, block + i * sizeof value, sizeof value);
      least = std::min(least, value);
      most = std::max(most, value);
    }
  });
  return {static_cast<int64_t>(least), static_cast<int64_t>(most)};
}

std::optional<TensorNote::Range> RangeOf(c10::ScalarType type, const StridedElements& elements) {
  switch (type) {
    case c10::ScalarType::Bool:
    case c10::ScalarType::Byte:
      return RangeOf<uint8_t>(elements);
    case c10::ScalarType::Char:
      return RangeOf<int8_t>(elements);
    case c10::ScalarType::Short:
      return RangeOf<int16_t>(elements);
    case c10::ScalarType::Int:
      return RangeOf<int32_t>(elements);
    case c10::ScalarType::Long:
      return RangeOf<int64_t>(elements);
    case c10::ScalarType::UInt16:
      return RangeOf<uint16_t>(elements);
    case c10::ScalarType::UInt32:
      return RangeOf<uint32_t>(elements);
    default:
      return std::nullopt;
  }
}

void SeeNans(const FoundNumbers& found, Elements elements) {
  SeenNans& seen = elements == Elements::kRead ? SeenOnThread().taken : SeenOnThread().made;
  seen.any |= found.now.has_value() && found.now->nans != 0;
  if (found.later.read != nullptr) seen.later.push_back(found.later.read);
}

void TakeNotes(const c10::TensorImpl& impl, const c10::TensorImpl& inner, ConfigBuilder* config) {
  TensorNote note;
  const WhichNumbers numbers = g_which_numbers.load(std::memory_order_relaxed);
  const Elements elements = config->elements();
  if (elements == Elements::kUnnoted) return;
  if (g_identities.load(std::memory_order_relaxed)) {
    const bool has_numbers = numbers != WhichNumbers::kNone && WithoutNumbers::AreTaken();
    const TensorNumber number = NumberOf(impl, StorageOf(impl), /*with_state=*/has_numbers);
    note.identity = IdentityOf(impl, number);
    if (has_numbers) {
      PollDeviceNotes();
      const TensorNumber of_inner = &inner == &impl ? number : NumberOf(inner, StorageOf(inner), /*with_state=*/true);
      const FoundNumbers found =
          NumbersOfTensor(inner, of_inner.state.get(), elements, /*arguments=*/numbers == WhichNumbers::kAll);
      note.numbers = found.now;
      if (g_stops_on_nan.load(std::memory_order_relaxed)) [[unlikely]]
        SeeNans(found, elements);
      if (found.later.read != nullptr) NoteLater(found.later, config);
    }
  }
  const bool of_integers =
      impl.dtype().isScalarType() && c10::isIntegralType(c10::typeMetaToScalarType(impl.dtype()), /*includeBool=*/true);
  const bool of_all_calls = of_integers && g_ranges.load(std::memory_order_relaxed);
  const bool of_first_call = of_integers && config->takes_first_notes() && elements == Elements::kRead;
  const uint64_t contents_bytes = g_contents_bytes.load(std::memory_order_relaxed);
  std::string contents;
  const TensorElements memory =
      contents_bytes != 0 || of_all_calls || of_first_call ? ElementsOf(impl) : TensorElements();
  if (memory.first != nullptr) {
    const StridedElements in_memory = Strided(impl, memory);
    const int64_t count = impl.numel_default();
    const bool has_range =
        count <= kMaxRangeElements && (of_all_calls || (of_first_call && IsReadable(memory, kMaxSpanBytes)));
    if (has_range) note.range = RangeOf(c10::typeMetaToScalarType(impl.dtype()), in_memory);
    const size_t bytes = static_cast<size_t>(count) * in_memory.element_size;
    if (bytes <= contents_bytes || (has_range && count <= kMaxKeptElements)) {
      if (impl.is_contiguous_default(c10::MemoryFormat::Contiguous) && !memory.flipped.any()) {
        note.contents = std::string_view(memory.first, bytes);
      } else {
        contents.reserve(bytes);
        ForEachBlock(in_memory, [&](const std::byte* block, size_t elements_of_block) {
          contents.append(reinterpret_cast<const char*>(block), elements_of_block * in_memory.element_size);
        });
        note.contents = contents;
      }
    }
  }
  if (note.identity || note.range || note.contents || note.numbers) config->Note(note);
}

}  // namespace

void NoteTensor(const at::Tensor& tensor, const at::Tensor& inner, ConfigBuilder* config) {
  try {
    TakeNotes(*tensor.unsafeGetTensorImpl(), *inner.unsafeGetTensorImpl(), config);
  } catch (const c10::Error& error) {
    Recorder::Get()->CountLost("tensors without notes",
                               [&error] { return std::string(error.what_without_backtrace()); });
  }
}

void CountAsWritten(const at::Tensor& tensor) {
  try {
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    const TensorNumber number = NumberOf(impl, StorageOf(impl), /*with_state=*/true);
    if (number.state != nullptr) number.state->written = true;
  } catch (const c10::Error&) {  // it has no storage
  }
}

std::optional<uint64_t> NumberTensorsOfPython() {
  const bool known = VisitTensorsOfPython([](const at::Tensor& tensor) {
    try {
      const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
      NumberOf(impl, StorageOf(impl), /*with_state=*/false);
      if (const at::Tensor& gradient = impl.grad(); gradient.defined()) {
        const c10::TensorImpl& its = *gradient.unsafeGetTensorImpl();
        NumberOf(its, StorageOf(its), /*with_state=*/false);
      }
    } catch (const c10::Error&) {  // it gets no number, nor does it in a call
    }
  });
  return known ? std::optional(LastNumber()) : std::nullopt;
}

absl::Status TensorNotesHook::Install() {
  if (options_.ids) BeginObjectNumbers();
  g_identities = options_.ids;
  g_ranges = options_.int_ranges == WhichCalls::kAll;
  g_contents_bytes = options_.values;
  g_which_numbers = options_.numbers;
  // Level 2 alone knows what is written.
  g_reads_are_kept = std::find(options_.levels.begin(), options_.levels.end(), kDispatchLevel) != options_.levels.end();
  g_stops_on_nan = options_.stop_on_nan;
  if (options_.numbers != WhichNumbers::kNone) {
    BeginDeviceNotes();
    BeginCopiedNumbers();
  }
  g_tensor_notes_wanted = options_.ids || g_ranges || options_.values != 0;
  return absl::OkStatus();
}

void TensorNotesHook::Uninstall() {
  g_tensor_notes_wanted = false;
  g_stops_on_nan = false;
  if (g_which_numbers.exchange(WhichNumbers::kNone) != WhichNumbers::kNone) EndDeviceNotes();
  g_identities = false;
  EndObjectNumbers();
}

}  // namespace torchtrace::torch_dialect
