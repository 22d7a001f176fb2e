#include "serialize/base/clip_text.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace torchtrace {

size_t CountCharacters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

std::string ClipText(std::string_view text, size_t width, size_t beside) {
  constexpr size_t kLeast = 20;
  const size_t room = width > beside + kLeast ? width - beside : kLeast;
  if (width == 0 || CountCharacters(text) <= room) return std::string(text);
  size_t end = 0;
  for (size_t left = room - 3; end < text.size(); ++end) {
    if ((static_cast<uint8_t>(text[end]) & 0xc0) != 0x80 && left-- == 0) break;
  }
  return absl::StrCat(std::string(text.substr(0, end)), "...");
}

}  // namespace torchtrace
