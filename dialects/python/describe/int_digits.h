// Ints beyond 64 bits as text, made without a Python object. Needs the GIL.

#ifndef TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_INT_DIGITS_H_
#define TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_INT_DIGITS_H_

#include <Python.h>

#include <string>

namespace torchtrace {

// Decimal digits take quadratic time. Longer ints are told by their length.
inline constexpr size_t kMaxIntBits = 4096;

// "-18446744073709551616", or "-10000000 bits". A subclass is not asked.
std::string IntDigits(PyObject* number);

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_PYTHON_DESCRIBE_INT_DIGITS_H_
