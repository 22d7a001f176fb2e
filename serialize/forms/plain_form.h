// The plain form, of which JSON and YAML are two notations: a config as objects and lists, its writer and its parser.

#ifndef TORCHTRACE_SERIALIZE_FORMS_PLAIN_FORM_H_
#define TORCHTRACE_SERIALIZE_FORMS_PLAIN_FORM_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/model/config.h"
#include "serialize/model/value.h"

namespace torchtrace {

struct PlainField;

// Plain is a described value in the terms that YAML and JSON share: null, bool,
// int, float, string, list and map. Values that these can't distinguish become
// a map with a `type`, such as {type: tuple, value: [1, 2]}; docs/TEXT.md lists
// them. Both formats share this mapping, so they can't drift apart.
struct Plain {
  enum Kind : uint8_t { kNull, kBool, kInt, kBigInt, kFloat, kString, kList, kMap };

  Kind kind = kNull;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0;
  std::string text;                // kString: valid UTF-8; kBigInt: decimal digits
  std::vector<Plain> items;        // kList
  std::vector<PlainField> fields;  // kMap, in order
};

struct PlainField {
  std::string name;
  Plain value;
};

// The arguments of a config, which has args and kwargs.
struct PlainCall {
  std::vector<Plain> args;
  std::vector<PlainField> kwargs;
};

// Tensors with a facet get `requires_grad` and `subclass`.
PlainCall ToPlain(const Config& config, const std::vector<TensorFacet>& facets);

// A value by itself, without facets.
Plain ToPlain(const Value& value);

// More calls of one configuration than any program makes; sums of such counts don't overflow.
inline constexpr uint64_t kMaxCount = uint64_t{1} << 48;

// A call as an item of a list, which parsers of the forms return.
struct ParsedCall {
  std::string identity;  // config.h
  std::string facets;
  uint64_t count = 1;
};

// The depth that our values need at most; deeper lists and maps are rejected before they are built.
inline constexpr int kMaxPlainDepth = 3 * kMaxValueDepth;

// The inverse of ToPlain: {api, args, kwargs}, and optionally level and calls (or count); other
// members are ignored. Accepts the maps with a `type` that docs/TEXT.md lists, as written by us and
// by api_tracer. Errors have the place and what was expected: `args[2].shape: expected ...`.
// Callable from any thread.
absl::StatusOr<ParsedCall> ParsePlainCall(const Plain& item);

// The member of that name, or null.
const Plain* FindField(const Plain& map, const char* name);

// "a list", for errors.
std::string DescribePlain(const Plain& plain);

// PlainBuilder makes a Plain from the events of YAML and JSON readers.
// Its depth is bounded, because code that walks the result recurses.
class PlainBuilder {
 public:
  // False when it is nested too deeply.
  bool Begin(Plain::Kind kind) {  // kList or kMap
    if (open_.size() >= static_cast<size_t>(kMaxPlainDepth)) return false;
    Plain plain;
    plain.kind = kind;
    open_.push_back({std::move(plain), std::move(key_)});
    key_.clear();
    return true;
  }
  void End() {
    Open top = std::move(open_.back());
    open_.pop_back();
    key_ = std::move(top.key);
    Add(std::move(top.plain));
  }
  // In a map, the name of the next value.
  void Key(std::string key) { key_ = std::move(key); }
  void Add(Plain value) {
    if (open_.empty()) {
      result_ = std::move(value);
    } else if (Plain& into = open_.back().plain; into.kind == Plain::kList) {
      into.items.push_back(std::move(value));
    } else {
      into.fields.push_back({std::move(key_), std::move(value)});
      key_.clear();
    }
  }

  bool InMap() const { return !open_.empty() && open_.back().plain.kind == Plain::kMap; }
  size_t depth() const { return open_.size(); }
  Plain TakeResult() { return std::move(result_); }

 private:
  struct Open {
    Plain plain;
    std::string key;  // its name in the enclosing map
  };

  std::vector<Open> open_;
  std::string key_;
  Plain result_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_PLAIN_FORM_H_
