// Any value of the text form (docs/TEXT.md): containers, which hold others, and through
// text_leaf.h and text_tensor.h all the rest. Callable from any thread.

#ifndef TORCHTRACE_SERIALIZE_FORMS_TEXT_VALUE_H_
#define TORCHTRACE_SERIALIZE_FORMS_TEXT_VALUE_H_

#include "absl/status/status.h"
#include "serialize/forms/text_scanner.h"
#include "serialize/model/value_tree.h"

namespace torchtrace {

// Spaces, then one value, into a new one; it is unspecified after an error. Deeper nesting
// than kMaxValueDepth is an error.
absl::Status ReadTextValue(TextScanner* scanner, Value* value);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_TEXT_VALUE_H_
