// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "dialects/python/setattr/recorded_calls.h"

#include <Python.h>

#include <utility>

#include "dialects/python/describe/value_describer.h"
#include "dialects/python/setattr/native_entries.h"

namespace torchtrace::python_dialect {
namespace {

void DescribeValue(PyObject* value, ConfigBuilder* config) { ValueDescriber<NoFramework>(config).Value(value); }

}  // namespace

std::unique_ptr<TracingHook> MakeLibraryHook(std::vector<std::string> names, const RecordingOptions& options) {
  // Never destroyed: calls may be under way when the hook is uninstalled.
  static auto* const calls = new RecordedCalls<DescribeValue>;
  return std::make_unique<SetattrHook>(calls, EntryOptions{.level = 0,
                                                           .names = std::move(names),
                                                           .outermost = options.outermost,
                                                           .include_getters = options.include_getters,
                                                           .constructors = true});
}

}  // namespace torchtrace::python_dialect
