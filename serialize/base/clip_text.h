// Lines that fit on a terminal.

#ifndef TORCHTRACE_SERIALIZE_BASE_CLIP_TEXT_H_
#define TORCHTRACE_SERIALIZE_BASE_CLIP_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace torchtrace {

// The number of characters of UTF-8 text.
size_t CountCharacters(std::string_view text);

// `text` if it fits on a line of `width` characters that has `beside` others, else its beginning and `...`. Width 0 is
// unlimited; keeps at least 20 characters.
std::string ClipText(std::string_view text, size_t width, size_t beside);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_CLIP_TEXT_H_
