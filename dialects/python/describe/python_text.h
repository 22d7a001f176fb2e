// The text of Python's strings, read from their own storage: PyUnicode_AsUTF8 would keep the
// encoded form in the string, and raise where one has lone surrogates. Needs the GIL.

#ifndef TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_PYTHON_TEXT_H_
#define TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_PYTHON_TEXT_H_

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace torchtrace {

// A str in UTF-8, lone surrogates encoded as other characters are. Views the str's bytes where
// these are ASCII: it must not outlive the str. Empty for other types.
class PythonText {
 public:
  // Keeps at most so many bytes, and no part of a character.
  explicit PythonText(PyObject* text, size_t most_bytes = SIZE_MAX);
  PythonText(const PythonText&) = delete;
  PythonText& operator=(const PythonText&) = delete;

  std::string_view kept() const { return kept_; }
  uint64_t whole_bytes() const { return whole_bytes_; }

 private:
  std::string encoded_;
  std::string_view kept_;
  uint64_t whole_bytes_ = 0;
};

inline std::string TextOf(PyObject* text) { return std::string(PythonText(text).kept()); }

// Compares without the str's own __eq__. `ascii` is.
bool TextIs(PyObject* text, std::string_view ascii);

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_PYTHON_TEXT_H_
