// What a field of --where is for one subject, or for one tensor among its arguments.
// A value points into its subject and owns nothing but sizes. Callable from any thread.

#ifndef TORCHTRACE_SERIALIZE_WHERE_WHERE_VALUE_H_
#define TORCHTRACE_SERIALIZE_WHERE_WHERE_VALUE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serialize/model/config.h"
#include "serialize/model/value_tree.h"
#include "serialize/where/where_fields.h"
#include "serialize/where/where_literal.h"
#include "serialize/where/where_subject.h"

namespace torchtrace {

// A field as a condition names it: size(0), arg(1), arg(dim), and all others without more.
struct WhereFieldUse {
  const WhereFieldInfo* info;                      // of FindWhereField
  int64_t number = 0;                              // of size() and arg()
  std::optional<std::string> name = std::nullopt;  // of arg(), instead of a number

  std::string ToString() const;
};

struct WhereValue {
  // kMissing: the subject has no such thing; kUnknown: it can't be said yet.
  enum Type : uint8_t { kMissing, kUnknown, kText, kNumber, kBool, kDims, kNone, kOther } type = kMissing;
  std::string_view text;
  WhereNumber number;
  bool boolean = false;
  std::vector<Dim> dims;

  static WhereValue Of(Type type) {
    WhereValue value;
    value.type = type;
    return value;
  }
  static WhereValue Text(std::string_view text) {
    WhereValue value = Of(kText);
    value.text = text;
    return value;
  }
  static WhereValue Number(WhereNumber number) {
    WhereValue value = Of(kNumber);
    value.number = number;
    return value;
  }
  static WhereValue Whole(int64_t number) { return Number(WhereNumber::Whole(number)); }
  static WhereValue Bool(bool boolean) {
    WhereValue value = Of(kBool);
    value.boolean = boolean;
    return value;
  }
  static WhereValue Dims(std::vector<Dim> dims) {
    WhereValue value = Of(kDims);
    value.dims = std::move(dims);
    return value;
  }
};

// One tensor among the arguments.
struct WhereTensor {
  const Value* value;
  const TensorFacet* facet;  // null: nothing beside its config
};

// Of a field of WhereScope::kTensor.
WhereValue ValueOfTensor(const WhereFieldUse& field, const WhereTensor& tensor, const WhereSubject& subject);

// Of a field of any other scope.
WhereValue ValueOfSubject(const WhereFieldUse& field, const WhereSubject& subject);

// Whether `ask` is true of any tensor, or (`all`) of every one and of one at least.
Truth AskTensors(const WhereSubject& subject, bool all, const std::function<Truth(const WhereTensor&)>& ask);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_WHERE_WHERE_VALUE_H_
