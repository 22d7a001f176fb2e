// Named choices for users: one table that parses a name, lists all names in errors, and feeds shell completion.

#ifndef TORCHTRACE_SERIALIZE_BASE_CHOICES_H_
#define TORCHTRACE_SERIALIZE_BASE_CHOICES_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace torchtrace {

// `unknown format "jsn", did you mean json? (known: text, json)`, where `wrong` is "unknown format".
absl::Status UnknownChoice(std::string_view wrong, std::string_view name, const std::vector<std::string>& known);

template <typename Value>
class Choices {
 public:
  Choices(const char* wrong, std::vector<std::pair<std::string, Value>> all) : wrong_(wrong), all_(std::move(all)) {}

  absl::StatusOr<Value> Parse(std::string_view name) const {
    for (const auto& [known, value] : all_) {
      if (name == known) return value;
    }
    return UnknownChoice(wrong_, name, names());
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, value] : all_) names.push_back(name);
    return names;
  }

 private:
  const char* const wrong_;
  const std::vector<std::pair<std::string, Value>> all_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_CHOICES_H_
