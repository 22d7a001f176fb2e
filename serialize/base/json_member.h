// Members of JSON objects that anybody may have written: metadata of logs, other tools' files.
// What is missing or of another type than asked for counts as missing.

#ifndef TORCHTRACE_SERIALIZE_BASE_JSON_MEMBER_H_
#define TORCHTRACE_SERIALIZE_BASE_JSON_MEMBER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "nlohmann/json_fwd.hpp"

namespace torchtrace {

// The member of that name; null when `object` has none or is no object.
const nlohmann::json* FindMember(const nlohmann::json& object, const char* name);

std::optional<int64_t> IntMember(const nlohmann::json& object, const char* name);

// A whole number that is not negative.
std::optional<uint64_t> UnsignedMember(const nlohmann::json& object, const char* name);

// Empty where there is none.
std::string TextMember(const nlohmann::json& object, const char* name);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_JSON_MEMBER_H_
