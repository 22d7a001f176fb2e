#include "dialects/python/describe/python_text.h"

#include "serialize/base/utf8.h"

namespace torchtrace {
namespace {

// False also for a str that deprecated functions of C have not filled yet.
bool IsText(PyObject* text) { return text != nullptr && PyUnicode_Check(text) && PyUnicode_IS_READY(text); }

std::string_view AsciiText(PyObject* text) {
  return {static_cast<const char*>(PyUnicode_DATA(text)), static_cast<size_t>(PyUnicode_GET_LENGTH(text))};
}

template <typename Char>
uint64_t Utf8Bytes(const Char* text, size_t length) {
  uint64_t bytes = length;
  for (size_t i = 0; i < length; ++i) {
    bytes += text[i] >= 0x80;
    if constexpr (sizeof(Char) > 1) bytes += text[i] >= 0x800;
    if constexpr (sizeof(Char) > 2) bytes += text[i] >= 0x10000;
  }
  return bytes;
}

template <typename Char>
uint64_t Encode(PyObject* text, size_t most_bytes, std::string* out) {
  const auto* const data = static_cast<const Char*>(PyUnicode_DATA(text));
  const auto length = static_cast<size_t>(PyUnicode_GET_LENGTH(text));
  for (size_t i = 0; i < length; ++i) {
    const size_t before = out->size();
    AppendUtf8(data[i], out);
    if (out->size() <= most_bytes) continue;
    out->resize(before);
    break;
  }
  return Utf8Bytes(data, length);
}

}  // namespace

PythonText::PythonText(PyObject* text, size_t most_bytes) {
  if (!IsText(text)) return;
  if (PyUnicode_IS_ASCII(text)) {
    kept_ = AsciiText(text).substr(0, most_bytes);
    whole_bytes_ = AsciiText(text).size();
    return;
  }
  switch (PyUnicode_KIND(text)) {
    case PyUnicode_1BYTE_KIND:
      whole_bytes_ = Encode<Py_UCS1>(text, most_bytes, &encoded_);
      break;
    case PyUnicode_2BYTE_KIND:
      whole_bytes_ = Encode<Py_UCS2>(text, most_bytes, &encoded_);
      break;
    default:
      whole_bytes_ = Encode<Py_UCS4>(text, most_bytes, &encoded_);
  }
  kept_ = encoded_;
}

bool TextIs(PyObject* text, std::string_view ascii) {
  return IsText(text) && PyUnicode_IS_ASCII(text) && AsciiText(text) == ascii;
}

}  // namespace torchtrace
