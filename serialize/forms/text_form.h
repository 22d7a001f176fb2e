// The text form: a config as one line that a person reads, that tools compare
// and that a parser can take back without loss. docs/TEXT.md is its grammar.
//
//   torch.add(Tensor([2, 3], "float32"), Tensor([2, 3], "float32"), alpha=10)
//
// Whatever the values hold, the result has no line break and no control
// character. Facets are not part of it. Functions may be called from any thread.

#ifndef TORCHTRACE_SERIALIZE_FORMS_TEXT_FORM_H_
#define TORCHTRACE_SERIALIZE_FORMS_TEXT_FORM_H_

#include <string>
#include <string_view>

#include "serialize/model/config.h"
#include "serialize/model/value_tree.h"

namespace torchtrace {

std::string FormatConfig(const Config& config);
std::string FormatValue(const Value& value);

// The name before the parenthesis: bare, or quoted where that would not be read
// back or break the line. For every place that shows an API's name.
std::string FormatApi(std::string_view api);

// As Python's repr: the shortest digits that read back as the same double,
// always with a point, an exponent, inf or nan.
std::string FormatFloat(double value);

// `text` in double quotes, with JSON's escapes; bytes that are no UTF-8 as \xNN.
std::string QuoteText(std::string_view text);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_TEXT_FORM_H_
