// Functions that shared libraries import from one another, replaced where they are imported: each library has a table
// of their addresses.

#ifndef TORCHTRACE_DIALECTS_TORCH_DISPATCH_IMPORTED_FUNCTIONS_H_
#define TORCHTRACE_DIALECTS_TORCH_DISPATCH_IMPORTED_FUNCTIONS_H_

#include <span>

namespace torchtrace::torch_dialect {

struct ReplacedFunction {
  const char* name;  // as the linker knows it
  void* replacement;
};

// In all libraries that are loaded now, for ever. They may be called meanwhile. May be asked again, for libraries that
// came since. False: a library imports one in a way that is not known, or it can't be replaced there.
bool ReplaceImported(std::span<const ReplacedFunction> functions);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DISPATCH_IMPORTED_FUNCTIONS_H_
