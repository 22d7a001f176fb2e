// JSON text as Plain (plain_form.h): members stay in their order, integers beyond
// 64 bits keep their digits where JSON's reader has them. Callable from any thread.

#ifndef TORCHTRACE_SERIALIZE_FORMS_JSON_PLAIN_H_
#define TORCHTRACE_SERIALIZE_FORMS_JSON_PLAIN_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "serialize/forms/plain_form.h"

namespace torchtrace {

// Errors name the offset in `text` and what was expected there.
absl::StatusOr<Plain> ParseJsonText(std::string_view text);

// What an error of nlohmann's or yaml-cpp's says behind its code and position, on one line.
std::string ShortMessage(const std::string& what);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_JSON_PLAIN_H_
