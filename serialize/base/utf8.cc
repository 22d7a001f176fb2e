#include "serialize/base/utf8.h"

namespace torchtrace {

Utf8Char DecodeUtf8(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {Utf8Char::kScalar, 1, lead};
  const Utf8Char invalid{Utf8Char::kInvalid, 1, lead};

  uint8_t bytes;
  uint32_t code_point;
  uint32_t least;  // below it the encoding is longer than it has to be
  if ((lead & 0xe0) == 0xc0) {
    bytes = 2, code_point = lead & 0x1f, least = 0x80;
  } else if ((lead & 0xf0) == 0xe0) {
    bytes = 3, code_point = lead & 0x0f, least = 0x800;
  } else if ((lead & 0xf8) == 0xf0) {
    bytes = 4, code_point = lead & 0x07, least = 0x10000;
  } else {
    return invalid;
  }
  if (text.size() < bytes) return invalid;
  for (uint8_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return invalid;
    code_point = code_point << 6 | (byte(i) & 0x3f);
  }
  if (code_point < least || code_point > 0x10ffff) return invalid;
  const bool surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
  return {surrogate ? Utf8Char::kSurrogate : Utf8Char::kScalar, bytes, code_point};
}

void AppendUtf8(uint32_t code_point, std::string* out) {
  if (code_point < 0x80) {
    out->push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out->push_back(static_cast<char>(0xc0 | code_point >> 6));
    out->push_back(static_cast<char>(0x80 | (code_point & 0x3f)));
  } else if (code_point < 0x10000) {
    out->push_back(static_cast<char>(0xe0 | code_point >> 12));
    out->push_back(static_cast<char>(0x80 | (code_point >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (code_point & 0x3f)));
  } else {
    out->push_back(static_cast<char>(0xf0 | code_point >> 18));
    out->push_back(static_cast<char>(0x80 | (code_point >> 12 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (code_point >> 6 & 0x3f)));
    out->push_back(static_cast<char>(0x80 | (code_point & 0x3f)));
  }
}

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Char c = DecodeUtf8(text);
    if (c.kind != Utf8Char::kScalar) return false;
    text.remove_prefix(c.bytes);
  }
  return true;
}

bool NeedsEscape(uint32_t code_point) {
  if (code_point < 0x7f) return code_point < 0x20;
  const auto in = [code_point](uint32_t first, uint32_t last) { return code_point >= first && code_point <= last; };
  return in(0x7f, 0x9f) || in(0x2028, 0x2029) || code_point == 0xfeff || (code_point & 0xfffe) == 0xfffe ||
         code_point == 0x61c || in(0x200e, 0x200f) || in(0x202a, 0x202e) || in(0x2066, 0x2069) || in(0xe0000, 0xe007f);
}

void AppendUtf16Escape(uint32_t code_point, std::string* out) {
  if (code_point >= 0x10000) {
    AppendUtf16Escape(0xd7c0 + (code_point >> 10), out);
    AppendUtf16Escape(0xdc00 + (code_point & 0x3ff), out);
    return;
  }
  out->append("\\u");
  for (int shift = 12; shift >= 0; shift -= 4) out->push_back("0123456789abcdef"[code_point >> shift & 15]);
}

}  // namespace torchtrace
