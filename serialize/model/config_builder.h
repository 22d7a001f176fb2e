// Builds the bytes of one call: identity, then facets (serialize/model/config.h).
// All levels use it; only this file knows the layout, hooks just describe the arguments.
// One per thread and reused, so that describing a call allocates nothing. Describing
// must not run code that makes traced calls: they would use the same buffers.
//
//   config.Begin(head);
//   config.Positional(1);
//   config.values().Int(7);
//   config.Keywords(1);
//   config.Keyword("axis");
//   config.values().None();
//   config.Finish()
//
// SchemaArguments leaves out arguments that have their default values.

#ifndef TORCHTRACE_SERIALIZE_MODEL_CONFIG_BUILDER_H_
#define TORCHTRACE_SERIALIZE_MODEL_CONFIG_BUILDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "serialize/base/bytes.h"
#include "serialize/model/call_extras.h"
#include "serialize/model/config.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/model/value.h"

namespace torchtrace {

// Limits of a description. The value itself has the number of what was left out.
inline constexpr size_t kMaxStringBytes = 1024;
inline constexpr size_t kMaxItems = 1024;
inline constexpr int kMaxDepth = 12;
// Once a config has this many bytes, containers get no more items.
inline constexpr size_t kMaxConfigBytes = 64 << 10;

// The part of UTF-8 `text` that a description keeps: never ends inside a character.
inline std::string_view KeptText(std::string_view text) {
  size_t bytes = std::min(text.size(), kMaxStringBytes);
  while (bytes < text.size() && bytes > 0 && (text[bytes] & 0xc0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

// What a call does with the elements of the tensors that are described next, for notes on them (tensor_notes.h).
enum class Elements : uint8_t {
  kRead,       // arguments, by default
  kUnread,     // arguments of which only the metadata matters
  kReturned,   // results, by default: perhaps arguments, or views of them
  kView,       // results that are views of arguments
  kNewView,    // arguments that the call made other views of their memory (unsqueeze_)
  kWritten,    // as they are after the call
  kMutated,    // the same, of arguments whose version PyTorch raises by one when the call has ended
  kAllocated,  // results without contents
  kLater,      // work that is still under way when the call ends writes them
  kUnnoted,    // nothing is noted of these tensors
};

class ConfigBuilder {
 public:
  using Writer = BasicValueWriter<ByteBuffer>;

  // `head`: level and API as identity bytes (see EncodeHead).
  void Begin(std::string_view head) {
    bytes_.clear();
    bytes_.append(head);
    facets_.clear();
    notes_.clear();
    offers_notes_ = false;
    has_later_ = false;
    is_result_ = false;
    elements_ = Elements::kRead;
    tensors_ = 0;
    facet_count_ = 0;
    framework_ = {};
    depth_ = 0;
  }
  // `count` values must follow.
  void Positional(size_t count) { AppendVarint(count, &bytes_); }
  // Always called next; `count` times a Keyword and its value must follow.
  void Keywords(size_t count) { AppendVarint(count, &bytes_); }
  void Keyword(std::string_view name) { AppendString(name, &bytes_); }

  ByteBuffer* bytes() { return &bytes_; }
  Writer values() { return Writer(&bytes_); }

  // Enters a container. Returns false if that is too deep, after writing Deep() in place of the container.
  bool GoIn() {
    if (depth_ == kMaxDepth) {
      values().Deep();
      return false;
    }
    ++depth_;
    return true;
  }
  void GoOut() { --depth_; }

  // A container of `whole` items. Calls `describe_item(i)` for each item that is kept, which appends it; an item of a
  // dict is a key and a value.
  template <typename DescribeItem>
  void Container(ValueTag tag, size_t whole, DescribeItem&& describe_item) {
    if (!GoIn()) return;
    const size_t written = BeginItems(tag, whole);
    for (size_t i = 0; i < written; ++i) describe_item(i);
    GoOut();
  }

  // The same for a set, whose order depends on addresses and hash seeds: sorts the items by their bytes, for equal sets
  // to have equal bytes. Tensors in sets may get out of order with their facets; tensors hash by identity, so there is
  // no better order.
  template <typename DescribeItem>
  void Set(ValueTag tag, size_t whole, DescribeItem&& describe_item) {
    if (!GoIn()) return;
    const size_t written = BeginItems(tag, whole);
    const size_t start = bytes_.size();
    std::vector<std::string> items;
    for (size_t i = 0; i < written; ++i) {
      describe_item(i);
      items.emplace_back(bytes_.view().substr(start));
      bytes_.resize(start);
    }
    std::sort(items.begin(), items.end());
    for (const std::string& item : items) bytes_.append(item);
    GoOut();
  }

  // Call it after each tensor; `subclass` is empty for torch.Tensor itself.
  void EndTensor(bool requires_grad, std::string_view subclass) {
    if (requires_grad || !subclass.empty()) {
      ++facet_count_;
      AppendVarint(tensors_, &facets_);
      uint64_t bits = 0;
      if (requires_grad) bits |= kFacetRequiresGrad;
      if (!subclass.empty()) bits |= kFacetSubclass;
      AppendVarint(bits, &facets_);
      if (!subclass.empty()) AppendString(subclass, &facets_);
    }
    ++tensors_;
  }
  // Call it after EndTensor, if there is a note on the tensor.
  void Note(TensorNote note) {
    note.position = tensors_ - 1;
    AppendTensorNote(note, &notes_);
  }
  std::string_view notes() const { return notes_.view(); }
  // How many tensors were described.
  uint64_t tensors() const { return tensors_; }

  // Some notes come later than the call (LaterNotes): who makes them asks what the description is of; Recorder::
  // SetEntered says afterwards whether the call was entered.
  void SetHasLater() { has_later_ = true; }
  bool has_later() const { return has_later_; }
  LaterOf later_of() const {
    if (is_result_) return LaterOf::kResult;
    return elements_ == Elements::kWritten || elements_ == Elements::kMutated || elements_ == Elements::kLater
               ? LaterOf::kWritten
               : LaterOf::kArguments;
  }

  // Some tensors have more notes if their configuration is new (FirstNotes): a description offers them, and is then
  // repeated with `takes_first_notes`. Only for tensors whose elements the call reads.
  void OfferFirstNotes() { offers_notes_ |= elements_ == Elements::kRead; }
  bool offers_first_notes() const { return offers_notes_; }
  void set_takes_first_notes(bool takes) { takes_first_notes_ = takes; }
  bool takes_first_notes() const { return takes_first_notes_; }

  void SetElements(Elements elements) { elements_ = elements; }
  Elements elements() const { return elements_; }

  // Builds the result of a call instead of a config: `count` values must follow, then FinishResult.
  void BeginResult(size_t count) {
    Begin({});
    elements_ = Elements::kReturned;
    is_result_ = true;
    Positional(count);
  }
  CallResult FinishResult() const { return {bytes_.view(), notes_.view(), written_.view()}; }

  // The description was that of a call after it ran, with kWritten and kLater for what it wrote and kUnnoted for the
  // rest: keeps its notes for FinishResult, until ForgetWritten.
  void KeepWritten() { written_.append(notes_.view()); }
  void ForgetWritten() { written_.clear(); }
  std::string_view written() const { return written_.view(); }

  // Some of the values are of this framework; the name must outlive the config. Not called for torch's values, which
  // are frequent.
  void OfFramework(std::string_view framework) { framework_ = framework; }

  // The whole config; the identity is its first identity_bytes().
  std::string_view Finish() {
    if (!framework_.empty() && framework_ != FrameworkOfApi(ReadConfigHead(bytes_.view()).api)) {
      AppendString(framework_, &bytes_);
    }
    identity_bytes_ = static_cast<uint32_t>(bytes_.size());
    AppendVarint(facet_count_, &bytes_);
    bytes_.append(facets_.view());
    return bytes_.view();
  }
  uint32_t identity_bytes() const { return identity_bytes_; }

  static std::string EncodeHead(int level, std::string_view api) {
    std::string head(1, static_cast<char>(level));
    AppendString(api, &head);
    return head;
  }

 private:
  // Returns how many items must follow.
  size_t BeginItems(ValueTag tag, size_t whole) {
    const size_t written = bytes_.size() > kMaxConfigBytes ? 0 : std::min(whole, kMaxItems);
    values().Container(tag, whole, written);
    return written;
  }

  ByteBuffer bytes_;
  ByteBuffer facets_;
  ByteBuffer notes_;
  ByteBuffer written_;
  bool offers_notes_ = false;
  bool takes_first_notes_ = false;
  bool has_later_ = false;
  bool is_result_ = false;
  Elements elements_ = Elements::kRead;
  uint64_t tensors_ = 0;
  uint64_t facet_count_ = 0;
  uint32_t identity_bytes_ = 0;
  std::string_view framework_;  // empty: the API's
  int depth_ = 0;
};

// Writes the arguments of a call in the order of a schema, without those that have their default values: positional
// ones at the end, and keywords anywhere. The schema has less than 128 arguments, so their number, which is known only
// at the end, fits in one byte.
class SchemaArguments {
 public:
  // Begins `config`. The schema's first `positional` arguments are positional, all others keywords.
  SchemaArguments(std::string_view head, size_t positional, ConfigBuilder* config)
      : config_(config), positional_(positional) {
    config->Begin(head);
    BeginList();
    if (positional == 0) BeginKeywords();
  }

  // Adds the next argument, whose bytes `describe()` appends. `by_default`: the bytes of its default, empty
  // if it has none.
  template <typename Describe>
  void Add(std::string_view name, std::string_view by_default, Describe&& describe) {
    ByteBuffer* const bytes = config_->bytes();
    const bool keyword = ++described_ > positional_;
    const size_t start = bytes->size();
    if (keyword) config_->Keyword(name);
    const size_t value = bytes->size();
    describe();
    const bool is_default = bytes->view().substr(value) == by_default;
    if (!keyword) {
      if (!is_default) Keep(described_);
      if (described_ == positional_) BeginKeywords();
    } else if (is_default) {
      bytes->resize(start);
    } else {
      Keep(kept_ + 1);
    }
  }

 private:
  // Reserves the byte for the number of arguments, which Keep sets.
  void BeginList() {
    count_at_ = config_->bytes()->size();
    config_->bytes()->push_back(0);
    kept_end_ = config_->bytes()->size();
    kept_ = 0;
  }
  void Keep(size_t count) {
    kept_ = count;
    kept_end_ = config_->bytes()->size();
    (*config_->bytes())[count_at_] = static_cast<char>(count);
  }
  void BeginKeywords() {
    config_->bytes()->resize(kept_end_);
    BeginList();
  }

  ConfigBuilder* const config_;
  const size_t positional_;
  size_t described_ = 0;
  size_t count_at_ = 0;
  size_t kept_ = 0;
  size_t kept_end_ = 0;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_CONFIG_BUILDER_H_
