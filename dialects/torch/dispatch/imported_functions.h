// Replaces functions that shared libraries import from one another, in each library's table of imported addresses.

#ifndef TORCHTRACE_DIALECTS_TORCH_DISPATCH_IMPORTED_FUNCTIONS_H_
#define TORCHTRACE_DIALECTS_TORCH_DISPATCH_IMPORTED_FUNCTIONS_H_

#include <atomic>
#include <span>

namespace torchtrace::torch_dialect {

struct ReplacedFunction {
  const char* name;  // as the linker knows it
  void* replacement;
  // An address in the only library whose import is replaced; null: in all libraries.
  const void* importer = nullptr;
  // For an importer: set to the function that it has been calling, unless it has called none yet.
  std::atomic<void*>* replaced = nullptr;
};

// Replaces them for ever in all libraries that are loaded now; other threads may call them meanwhile. Call it again for
// libraries that were loaded since. False: the table of a library can't be written.
bool ReplaceImported(std::span<const ReplacedFunction> functions);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DISPATCH_IMPORTED_FUNCTIONS_H_
