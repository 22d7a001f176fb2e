// The plain form, which JSON and YAML are two notations of: a config as objects and lists, its writer, and its
// parser.

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

// Plain is a described value in the terms that YAML and JSON share: null, bool,
// int, float, string, list and map. What those terms cannot tell apart becomes
// a map with a `type`, such as {type: tuple, value: [1, 2]}; docs/TEXT.md lists
// them. One mapping for both formats, so that they cannot drift apart.

struct PlainField;

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

// Tensors get `requires_grad` and `subclass` where a facet says so.
PlainCall ToPlain(const Config& config, const std::vector<TensorFacet>& facets);

// A value that stands alone, without facets.
Plain ToPlain(const Value& value);

// A call as an item of a list tells it: what parsers of the forms give.

// More calls of one configuration than any program makes; sums of such counts don't overflow.
inline constexpr uint64_t kMaxCount = uint64_t{1} << 48;

struct ParsedCall {
  std::string identity;  // config.h
  std::string facets;
  uint64_t count = 1;
};

// The inverse of plain_form.h: what YAML and JSON hold, as configs. Takes the maps
// with a `type` that docs/TEXT.md lists, as we and as api_tracer write them.
// Callable from any thread.

// Deeper lists and maps than any value of ours needs are refused before they are built.
inline constexpr int kMaxPlainDepth = 3 * kMaxValueDepth;

// {api, args, kwargs}, and level and calls (or count) where they are there; other members are
// not looked at. Errors say where in it and what was expected: `args[2].shape: expected ...`.
absl::StatusOr<ParsedCall> ParsePlainCall(const Plain& item);

// The member of that name, or null.
const Plain* FindField(const Plain& map, const char* name);

// "a list", for errors.
std::string DescribePlain(const Plain& plain);

// PlainBuilder makes a Plain of the events that readers of YAML and JSON give.
// Bounded in depth, as what is built is walked by recursion.

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
    std::string key;  // under which it goes into the one around it
  };

  std::vector<Open> open_;
  std::string key_;
  Plain result_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_PLAIN_FORM_H_
