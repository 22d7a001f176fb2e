// Describes Paddle's tensors and other objects as bytes.

#ifndef TORCHTRACE_DIALECTS_PADDLE_DESCRIBE_PADDLE_H_
#define TORCHTRACE_DIALECTS_PADDLE_DESCRIBE_PADDLE_H_

#include <Python.h>

#include "serialize/model/config_builder.h"

namespace torchtrace::paddle_dialect {

inline constexpr char kCore[] = "paddle.base.libpaddle";  // Paddle's C++

// Looks up the types and C functions of Paddle that the description uses. Call once, after paddle was imported and
// before anything in it is patched. False when Paddle lacks one.
bool InitDescribePaddle();

// Describes any Python object, as dialects/python/describe/value_describer.h says. Paddle has no C++ headers that hold
// for more than one of its versions, so a tensor's metadata comes from the C functions behind its properties. They make
// lists and numbers, so the garbage collector, which could run the program's finalizers, is off meanwhile. Needs the
// GIL; keeps a Python error that is set.
void DescribePaddle(PyObject* value, ConfigBuilder* config);

}  // namespace torchtrace::paddle_dialect

#endif  // TORCHTRACE_DIALECTS_PADDLE_DESCRIBE_PADDLE_H_
