// Quotes a word so that a shell takes it as it is: for commands that we show.

#ifndef TORCHTRACE_SERIALIZE_BASE_SHELL_QUOTE_H_
#define TORCHTRACE_SERIALIZE_BASE_SHELL_QUOTE_H_

#include <algorithm>
#include <string>
#include <string_view>

namespace torchtrace {

inline std::string ShellQuote(std::string_view word) {
  const auto is_safe = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./,:=+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_safe)) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_SHELL_QUOTE_H_
