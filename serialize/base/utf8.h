// Text that claims to be UTF-8 and may not be: Python strings hold lone
// surrogates, and a cut string may end inside a character. Owns nothing;
// callable from any thread.

#ifndef TORCHTRACE_SERIALIZE_BASE_UTF8_H_
#define TORCHTRACE_SERIALIZE_BASE_UTF8_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace torchtrace {

struct Utf8Char {
  enum Kind : uint8_t {
    kScalar,     // code_point is a character
    kSurrogate,  // three bytes that encode a lone surrogate
    kInvalid,    // one byte that is no part of a character; code_point is that byte
  };
  Kind kind = kInvalid;
  uint8_t bytes = 1;
  uint32_t code_point = 0;
};

// The character that `text`, which is not empty, begins with.
Utf8Char DecodeUtf8(std::string_view text);

// The inverse: also of surrogates. `code_point` is at most 0x10ffff.
void AppendUtf8(uint32_t code_point, std::string* out);

bool IsValidUtf8(std::string_view text);

// Characters that would break a line or mislead its reader, or that a terminal or a YAML reader
// does not take as they are: controls, line separators, marks that turn the direction of
// writing, tags that nobody sees, byte order mark, noncharacters.
bool NeedsEscape(uint32_t code_point);

// `\u1234` of UTF-16: two of them for a character that takes two units there, one for a surrogate.
void AppendUtf16Escape(uint32_t code_point, std::string* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_UTF8_H_
