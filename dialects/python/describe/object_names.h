// Names, texts and long numbers of Python objects, read without running Python code.

#ifndef TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_OBJECT_NAMES_H_
#define TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_OBJECT_NAMES_H_

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tracer/cpython/objects.h"

namespace torchtrace {

// The text of Python's strings, read from their own storage: PyUnicode_AsUTF8 would keep the
// encoded form in the string, and raise where one has lone surrogates. Needs the GIL.

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

// Ints beyond 64 bits as text, made without a Python object. Needs the GIL.

// Decimal digits take quadratic time. Longer ints are told by their length.
inline constexpr size_t kMaxIntBits = 4096;

// "-18446744073709551616", or "-10000000 bits". A subclass is not asked.
std::string IntDigits(PyObject* number);

// Names of Python objects, read from the fields of known C types: no Python code is called,
// and nothing raised or kept alive. Needs the GIL.

// What a property, staticmethod or classmethod holds: an object in its C struct, by the table of its own type.
// Borrowed; null where it is None or there is none.
PyObject* StructMember(PyObject* object, std::string_view name);

// "torch.nn.parameter.Parameter", "int", "collections.OrderedDict"; from the
// type's own dictionary, never through its metaclass.
std::string TypeName(PyTypeObject* type);

// Of any object: its type's, and behind it which member of an enumeration it is, of Python's or one that pybind11 made:
// "pkg.Color.RED", "pkg.Flag(5)" where no name stands for the value.
std::string ObjectName(PyObject* object);

// {name: (member, documentation)} of pybind11's enumerations; borrowed, null for other types.
PyObject* PybindEntries(PyTypeObject* type);

// "module.qualname" of a function, builtin, method descriptor or bound method, a function's where it
// was defined if it doesn't stand there; the type's name for any other object.
std::string CallableName(PyObject* callable);

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_OBJECT_NAMES_H_
