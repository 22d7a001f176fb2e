// Numbers of the text form (docs/TEXT.md). Values are new ones, and unspecified after an
// error; then the scanner stands where the number should have begun. Callable from any
// thread.

#ifndef TORCHTRACE_SERIALIZE_FORMS_TEXT_NUMBER_H_
#define TORCHTRACE_SERIALIZE_FORMS_TEXT_NUMBER_H_

#include "absl/status/status.h"
#include "serialize/forms/text_scanner.h"
#include "serialize/model/value_tree.h"

namespace torchtrace {

// Whether a digit, a sign or a point is next.
bool NumberComes(const TextScanner& scanner);

// An int, a float or, in Python's repr, a complex number: `1+2j`.
absl::Status ReadTextNumber(TextScanner* scanner, Value* value);

// Spaces, then an int or a float.
absl::Status ReadTextReal(TextScanner* scanner, double* real);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_TEXT_NUMBER_H_
