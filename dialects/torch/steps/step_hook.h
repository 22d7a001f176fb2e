// Sees where a program's steps end, at every level and at no cost between the ends: optimizers' `step`, outermost calls
// of modules, steps of gradient scalers, or an API of the user's choice. docs/STATS.md.

#ifndef TORCHTRACE_DIALECTS_TORCH_STEPS_STEP_HOOK_H_
#define TORCHTRACE_DIALECTS_TORCH_STEPS_STEP_HOOK_H_

#include <Python.h>

#include <memory>

#include "tracer/framework_dialect.h"
#include "tracer/record/recording_options.h"

namespace torchtrace::torch_dialect {

// One at a time in a process. Install it before the hook of module calls, which calls on to what it finds. `begins`, if
// not null, is called before each outermost call of a module, at least as long as no optimizer has stepped, and each
// step of an optimizer, with the module or optimizer. It must not run Python code.
std::unique_ptr<TracingHook> MakeStepHook(const RecordingOptions& options, void (*begins)(PyObject* object));

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_STEPS_STEP_HOOK_H_
