#include "dialects/torch/describe/tensor_notes.h"

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
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

// Calls `visit(element)` for the address of each, in row-major order.
template <typename Visit>
void ForEachElement(const c10::TensorImpl& impl, const char* first, const Visit& visit) {
  const auto itemsize = static_cast<int64_t>(impl.dtype().itemsize());
  const int64_t count = impl.numel_default();
  if (impl.is_contiguous_default(c10::MemoryFormat::Contiguous)) {
    for (int64_t i = 0; i < count; ++i) visit(first + i * itemsize);
    return;
  }
  const c10::IntArrayRef sizes = impl.sizes_default(), strides = impl.strides_default();
  std::vector<int64_t> index(sizes.size());
  for (int64_t i = 0; i < count; ++i) {
    visit(first);
    for (size_t d = sizes.size(); d-- > 0;) {
      first += strides[d] * itemsize;
      if (++index[d] < sizes[d]) break;
      first -= sizes[d] * strides[d] * itemsize;
      index[d] = 0;
    }
  }
}

// Without an option, nothing is read of a tensor that is scattered over more memory.
constexpr int64_t kMaxSpanBytes = 256 << 10;

template <typename Integer>
TensorNote::Range RangeOf(const c10::TensorImpl& impl, const char* first) {
  Integer least, most;
  std::memcpy(&least, first, sizeof least);
  most = least;
  ForEachElement(impl, first, [&](const char* element) {
    Integer value;
    std::memcpy(&value, element, sizeof value);
    least = std::min(least, value);
    most = std::max(most, value);
  });
  return {static_cast<int64_t>(least), static_cast<int64_t>(most)};
}

std::optional<TensorNote::Range> RangeOf(const c10::TensorImpl& impl, const char* first) {
  switch (c10::typeMetaToScalarType(impl.dtype())) {
    case c10::ScalarType::Bool:
    case c10::ScalarType::Byte:
      return RangeOf<uint8_t>(impl, first);
    case c10::ScalarType::Char:
      return RangeOf<int8_t>(impl, first);
    case c10::ScalarType::Short:
      return RangeOf<int16_t>(impl, first);
    case c10::ScalarType::Int:
      return RangeOf<int32_t>(impl, first);
    case c10::ScalarType::Long:
      return RangeOf<int64_t>(impl, first);
    case c10::ScalarType::UInt16:
      return RangeOf<uint16_t>(impl, first);
    case c10::ScalarType::UInt32:
      return RangeOf<uint32_t>(impl, first);
    default:
      return std::nullopt;
  }
}

void SeeNans(const FoundNumbers& found, Elements elements) {
  SeenNans& seen = elements == Elements::kRead ? t_taken : t_made;
  seen.any |= found.now.has_value() && found.now->nans != 0;
  if (found.later.read != nullptr) seen.later.push_back(found.later.read);
}

void TakeNotes(const c10::TensorImpl& impl, ConfigBuilder* config) {
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
      const FoundNumbers found =
          NumbersOfTensor(impl, number.state.get(), elements, /*arguments=*/numbers == WhichNumbers::kAll);
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
  if (const char* const first = memory.first; first != nullptr) {
    const int64_t count = impl.numel_default();
    const bool has_range =
        count <= kMaxRangeElements && (of_all_calls || (of_first_call && IsReadable(memory, kMaxSpanBytes)));
    if (has_range) note.range = RangeOf(impl, first);
    const size_t itemsize = impl.dtype().itemsize();
    const size_t bytes = static_cast<size_t>(count) * itemsize;
    if (bytes <= contents_bytes || (has_range && count <= kMaxKeptElements)) {
      if (impl.is_contiguous_default(c10::MemoryFormat::Contiguous)) {
        note.contents = std::string_view(first, bytes);
      } else {
        contents.reserve(bytes);
        ForEachElement(impl, first, [&](const char* element) { contents.append(element, itemsize); });
        note.contents = contents;
      }
    }
  }
  if (note.identity || note.range || note.contents || note.numbers) config->Note(note);
}

}  // namespace

void NoteTensor(const at::Tensor& tensor, ConfigBuilder* config) {
  try {
    TakeNotes(*tensor.unsafeGetTensorImpl(), config);
  } catch (const c10::Error& error) {
    Recorder::Get()->CountLost("tensors without notes",
                               [&error] { return std::string(error.what_without_backtrace()); });
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
