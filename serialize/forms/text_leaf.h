// Values of the text form (docs/TEXT.md) that hold no others: strings, numbers, names, and
// calls such as torch.device("cuda"). Values are new ones, and unspecified after an error.
// Callable from any thread.

#ifndef TORCHTRACE_SERIALIZE_FORMS_TEXT_LEAF_H_
#define TORCHTRACE_SERIALIZE_FORMS_TEXT_LEAF_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "serialize/forms/text_scanner.h"
#include "serialize/model/value_tree.h"

namespace torchtrace {

// Any of them.
absl::Status ReadTextLeaf(TextScanner* scanner, Value* value);

// The same in three parts, for who knows other names as well. What isn't named, when
// NameComes is false:
bool NameComes(const TextScanner& scanner);
absl::Status ReadNamelessLeaf(TextScanner* scanner, Value* value);
// `torch.float32`; empty when none is next.
std::string_view TakeDottedName(TextScanner* scanner);
// Behind that name: what it is alone, or what its parentheses, which come next, make of it.
absl::Status ReadBareName(TextScanner* scanner, std::string_view name, Value* value);
absl::Status ReadLeafCall(TextScanner* scanner, std::string_view name, Value* value);

// A string in quotes, or a `*` for one that was forgotten; in Python's repr also the
// device(type='cuda', index=0) that str() gives, from `type=` on.
absl::Status ReadTextString(TextScanner* scanner, const char* what, std::string* text);

// As far as the parenthesis that closes: Place(gpu:0).
absl::Status ReadUnquoted(TextScanner* scanner, std::string* text);

// What was left out behind `shown`: `...+997`.
inline bool CutComes(const TextScanner& scanner) { return scanner.WordComes("...+"); }
absl::Status ReadCut(TextScanner* scanner, uint64_t* cut);
// value->whole
absl::Status SetWhole(const TextScanner& scanner, uint64_t shown, uint64_t cut, Value* value);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_TEXT_LEAF_H_
