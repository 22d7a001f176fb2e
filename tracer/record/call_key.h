// A call as words: what a hook can tell of it in less time than its description takes. Equal keys mean equal
// descriptions, so a thread describes each key once (ThreadRecorder::EnterAgain).
//
// It has the methods by which hooks describe a call to a ConfigBuilder, for the same code to make both. The words keep
// what a description keeps, without encoding it: an operator's number instead of its name, a tensor's fields as they
// are. The first word of each item says its kind and how many words follow, so that different items have different
// words. A call with values of other kinds has no key, nor has one with more than fits.

#ifndef TORCHTRACE_TRACER_RECORD_CALL_KEY_H_
#define TORCHTRACE_TRACER_RECORD_CALL_KEY_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "serialize/model/value.h"
#include "tracer/record/export.h"

namespace torchtrace {

class CallKey {
 public:
  CallKey() = default;
  CallKey(const CallKey&) = delete;
  CallKey& operator=(const CallKey&) = delete;

  // `number`: the function's, from NewFunctionNumber.
  void Begin(uint64_t number) {
    valid_ = true;
    words_[0] = number;
    at_ = words_.data() + 1;
  }
  // The same by level and name, as ConfigBuilder::Begin takes them.
  void Begin(std::string_view head) {
    Begin(uint64_t{0});
    String(head);
  }
  // No other function of any level ever gets it.
  TORCHTRACE_EXPORT static uint64_t NewFunctionNumber();

  void Positional(size_t count) { Item(kCount, count); }
  void Keywords(size_t count) { Item(kCount, count); }
  void Keyword(std::string_view name) { String(name); }

  // Values, by the names of ConfigBuilder's writer.
  CallKey& values() { return *this; }
  void None() { Named(ValueTag::kNone, 0); }
  void Bool(bool value) { Named(value ? ValueTag::kTrue : ValueTag::kFalse, 0); }
  void Int(int64_t value) { Number(ValueTag::kInt, static_cast<uint64_t>(value)); }
  void Float(double value) { Number(ValueTag::kFloat, std::bit_cast<uint64_t>(value)); }
  void Complex(double real, double imaginary) {
    uint64_t* const words = Item(TagByte(ValueTag::kComplex), 0, 2);
    if (words == nullptr) return;
    words[0] = std::bit_cast<uint64_t>(real);
    words[1] = std::bit_cast<uint64_t>(imaginary);
  }
  void String(std::string_view text) {
    const size_t count = (text.size() + sizeof words_[0] - 1) / sizeof words_[0];
    uint64_t* const words = Item(TagByte(ValueTag::kString), text.size(), count);
    if (words == nullptr || count == 0) return;
    words[count - 1] = 0;
    std::memcpy(words, text.data(), text.size());
  }
  // The value `which` of this kind.
  void Named(ValueTag tag, uint64_t which) { Item(TagByte(tag), which); }
  template <typename AddItem>
  void Container(ValueTag tag, size_t whole, AddItem&& add_item) {
    if (whole > words_.size()) return Fail();
    Item(TagByte(tag), whole);
    for (size_t i = 0; i < whole && valid_; ++i) add_item(i);
  }
  // `fields`: 56 bits. Returns the `count` words that follow, to be filled; null if the call has no key.
  uint64_t* Tensor(uint64_t fields, size_t count) { return Item(TagByte(ValueTag::kTensor), fields, count); }

  // The call has no key.
  void Fail() { valid_ = false; }
  bool valid() const { return valid_; }

  std::string_view bytes() const {
    return {reinterpret_cast<const char*>(words_.data()), static_cast<size_t>(at_ - words_.data()) * sizeof words_[0]};
  }

 private:
  static constexpr uint8_t kCount = kLastValueTag + 1;
  static constexpr uint8_t TagByte(ValueTag tag) { return static_cast<uint8_t>(tag); }

  uint64_t* Item(uint8_t kind, uint64_t fields, size_t count = 0) {
    if (static_cast<size_t>(words_.data() + words_.size() - at_) <= count) {
      Fail();
      return nullptr;
    }
    *at_ = fields << 8 | kind;
    uint64_t* const words = at_ + 1;
    at_ = words + count;
    return words;
  }
  void Number(ValueTag tag, uint64_t word) {
    if (uint64_t* const words = Item(TagByte(tag), 0, 1)) *words = word;
  }

  uint64_t* at_ = words_.data();
  bool valid_ = false;
  std::array<uint64_t, 64> words_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_CALL_KEY_H_
