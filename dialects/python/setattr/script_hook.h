// Level 0 of the program's own functions and classes: those that its main module defines, from their definitions on.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_SCRIPT_HOOK_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_SCRIPT_HOOK_H_

#include <memory>

#include "tracer/framework_dialect.h"

namespace torchtrace::python_dialect {

// A scan would run the program, so there is no list: a function or class gets its entry when it is bound to a name in
// the module, and with a class its methods. Names are `__main__.NAME`, also in processes that multiprocessing spawns,
// which run the script as `__mp_main__`. What the module imports is not its own. `everything`: also private names and
// properties. Use it with another hook of level 0 in place, whose observer and options hold for these entries too.
std::unique_ptr<TracingHook> MakeScriptHook(bool everything);

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_SCRIPT_HOOK_H_
