// The names that level 0 traces when the user gives no list.

#ifndef TORCHTRACE_DIALECTS_TORCH_DEFAULT_APIS_H_
#define TORCHTRACE_DIALECTS_TORCH_DEFAULT_APIS_H_

#include <string>
#include <vector>

namespace torchtrace::torch_dialect {

// Dotted names, sorted: torch's public functions, methods, properties and the
// classes that are made to be called.
std::vector<std::string> DefaultApis();

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DEFAULT_APIS_H_
