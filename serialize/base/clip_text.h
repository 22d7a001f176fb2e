// Lines that fit on a terminal.

#ifndef TORCHTRACE_SERIALIZE_BASE_CLIP_TEXT_H_
#define TORCHTRACE_SERIALIZE_BASE_CLIP_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace torchtrace {

// Characters, of text in UTF-8.
size_t CountCharacters(std::string_view text);

// `text` where it fits on a line of `width` characters beside so many others, else its beginning and `...`. A width of
// 0 is any; 20 characters are always kept.
std::string ClipText(std::string_view text, size_t width, size_t beside);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_CLIP_TEXT_H_
