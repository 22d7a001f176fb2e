// Names, strings and long numbers of Python objects, read without running Python code.

#ifndef TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_OBJECT_NAMES_H_
#define TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_OBJECT_NAMES_H_

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tracer/cpython/objects.h"

namespace torchtrace {

// A str in UTF-8, with lone surrogates encoded like other characters. Reads the str's own storage: PyUnicode_AsUTF8
// would keep the encoded form in the str, and raise for lone surrogates. If the str is ASCII, this is a view of its
// bytes and must not outlive it. Empty for other types. Needs the GIL.
class PythonText {
 public:
  // Keeps at most `most_bytes`, and only whole characters.
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

// Decimal digits take quadratic time. Of longer ints we only give the length.
inline constexpr size_t kMaxIntBits = 4096;

// An int beyond 64 bits as text, made without a Python object: "-18446744073709551616", or "-10000000 bits". Calls no
// method of a subclass. Needs the GIL.
std::string IntDigits(PyObject* number);

// The functions below read the fields of known C types: they call no Python code, raise nothing and keep nothing alive.
// They need the GIL.

// What a property, staticmethod or classmethod holds: an object in its C struct, found by its type's member table.
// Borrowed; null if it is None or missing.
PyObject* StructMember(PyObject* object, std::string_view name);

// "torch.nn.parameter.Parameter", "int", "collections.OrderedDict"; read from the type's own dictionary, never through
// its metaclass.
std::string TypeName(PyTypeObject* type);

// No two types have the same version, and a changed type gets a new one. 0: it has none now.
inline unsigned int TypeVersion(const PyTypeObject* type) {
  return (type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) != 0 ? static_cast<unsigned int>(type->tp_version_tag) : 0;
}

// What is known of a type, looked up once for each version of it.
struct TypeFacts {
  std::string name;             // TypeName
  bool python_enum = false;     // its members know their names
  PyObject* entries = nullptr;  // borrowed: {name: (member, documentation)} of a pybind11 enumeration
};
// Valid until the next call.
const TypeFacts& FactsOf(PyTypeObject* type);

// The name of any object's type, followed by the member if the object is one of a Python or pybind11 enumeration:
// "pkg.Color.RED", or "pkg.Flag(5)" if the value has no name.
std::string ObjectName(PyObject* object);

// "module.qualname" of a function, builtin, method descriptor or bound method; the type's name for any other object. If
// a function can't be found under its name, the name under which it was defined.
std::string CallableName(PyObject* callable);

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_OBJECT_NAMES_H_
