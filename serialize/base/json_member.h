// Members of untrusted JSON objects: metadata of logs, other tools' files.
// A member of another type than asked for counts as missing.

#ifndef TORCHTRACE_SERIALIZE_BASE_JSON_MEMBER_H_
#define TORCHTRACE_SERIALIZE_BASE_JSON_MEMBER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "nlohmann/json_fwd.hpp"

namespace torchtrace {

// The member of that name; null if `object` has none or is not an object.
const nlohmann::json* FindMember(const nlohmann::json& object, const char* name);

std::optional<int64_t> IntMember(const nlohmann::json& object, const char* name);

// A non-negative integer.
std::optional<uint64_t> UnsignedMember(const nlohmann::json& object, const char* name);

// Empty if it is missing.
std::string TextMember(const nlohmann::json& object, const char* name);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_JSON_MEMBER_H_
