// Plain is a described value in the terms that YAML and JSON share: null, bool,
// int, float, string, list and map. What those terms cannot tell apart becomes
// a map with a `type`, such as {type: tuple, value: [1, 2]}; docs/TEXT.md lists
// them. One mapping for both formats, so that they cannot drift apart.

#ifndef TORCHTRACE_SERIALIZE_FORMS_PLAIN_FORM_H_
#define TORCHTRACE_SERIALIZE_FORMS_PLAIN_FORM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "serialize/model/config.h"
#include "serialize/model/value_tree.h"

namespace torchtrace {

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

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_PLAIN_FORM_H_
