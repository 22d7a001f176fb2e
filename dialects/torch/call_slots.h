// The short way into level 1, for PyTorch's functions that are written in C.
//
// PyTorch's own way to a function mode costs most of what a small operator
// costs: it parses the arguments, looks up the function by name, makes tuples,
// calls the mode, and the mode calls the function again, which parses the
// arguments again. A call slot stands before all that: it replaces the C
// pointer behind a builtin (PyMethodDef::ml_meth) or a property
// (PyGetSetDef::get) and keeps the Python object, its identity, its hash and its name.
//
// A slot does exactly what the mode would: it acts only while the mode is the
// one on top, and takes the mode off while the function runs. What the mode
// would have been told, which function and with which arguments, is learned
// from the mode itself at the slot's first call; a function for which that
// differs, or that never asks the mode, keeps PyTorch's way.
//
// The pointers are process-wide and guarded by the GIL.

#ifndef TORCHTRACE_DIALECTS_TORCH_CALL_SLOTS_H_
#define TORCHTRACE_DIALECTS_TORCH_CALL_SLOTS_H_

#include <Python.h>

#include "dialects/torch/api_names.h"
#include "dialects/torch/function_mode.h"

namespace torchtrace::torch_dialect {

struct CallSlotOptions {
  FunctionMode* mode = nullptr;
  ApiNames* names = nullptr;
  bool include_getters = false;
};

// Puts slots before the methods and properties of torch.Tensor and before the
// functions of torch and its C modules. Python errors are cleared; what cannot
// be found keeps PyTorch's way. Without a mode they only arm threads that were there
// before (thread_state.h). Where they are in place, only the options change.
void InstallCallSlots(const CallSlotOptions& options);

// Puts every pointer back. Idempotent.
void UninstallCallSlots();

// The mode was told of a call: the slot that is being learned on this thread,
// if this is its call, takes the short way from now on.
void LearnCall(PyObject* function, PyObject* args, PyObject* kwargs);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_CALL_SLOTS_H_
