#include "serialize/base/json_member.h"

#include "nlohmann/json.hpp"

namespace torchtrace {

using nlohmann::json;

const json* FindMember(const json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto at = object.find(name);
  return at == object.end() ? nullptr : &*at;
}

std::optional<int64_t> IntMember(const json& object, const char* name) {
  const json* const member = FindMember(object, name);
  if (member == nullptr || !member->is_number_integer()) return std::nullopt;
  return member->get<int64_t>();
}

std::optional<uint64_t> UnsignedMember(const json& object, const char* name) {
  const json* const member = FindMember(object, name);
  if (member == nullptr || !member->is_number_integer()) return std::nullopt;
  if (!member->is_number_unsigned() && member->get<int64_t>() < 0) return std::nullopt;
  return member->get<uint64_t>();
}

std::string TextMember(const json& object, const char* name) {
  const json* const member = FindMember(object, name);
  return member != nullptr && member->is_string() ? member->get<std::string>() : "";
}

}  // namespace torchtrace
