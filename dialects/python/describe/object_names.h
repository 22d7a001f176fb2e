// Names, strings and long numbers of Python objects, read without running Python code.

#ifndef TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_OBJECT_NAMES_H_
#define TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_OBJECT_NAMES_H_

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

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

// A type as it was at some time: another type is never taken for it, nor the same one after a change.
class TypeState {
 public:
  // False also for a type whose changes can't be noticed.
  bool IsOf(PyTypeObject* type) const { return version_ != 0 && version_ == TypeVersion(type) && name_ == Name(type); }
  // Takes the type as it is now. False: its changes can't be noticed.
  bool Take(PyTypeObject* type) {
    version_ = TypeVersion(type);
    PyObject* const before = std::exchange(name_, version_ == 0 ? nullptr : Py_XNewRef(Name(type)));
    Py_XDECREF(before);
    return version_ != 0;
  }
  void Forget() {
    Py_CLEAR(name_);
    version_ = 0;
  }

 private:
  // The object that a program can replace without a new version. We own a reference, so that no other one takes its
  // place in memory.
  static PyObject* Name(PyTypeObject* type) {
    return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 ? reinterpret_cast<PyHeapTypeObject*>(type)->ht_qualname
                                                       : nullptr;
  }

  unsigned int version_ = 0;  // no two types have the same
  PyObject* name_ = nullptr;
};

// What is known of a type, looked up once until it changes.
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
