// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "dialects/python/setattr/recorded_calls.h"

#include <Python.h>

#include <utility>

#include "absl/strings/str_split.h"
#include "dialects/python/describe/value_describer.h"
#include "dialects/python/setattr/native_entries.h"
#include "dialects/python/setattr/script_hook.h"
#include "serialize/model/levels.h"

namespace torchtrace::python_dialect {
namespace {

void DescribeValue(PyObject* value, ConfigBuilder* config) { ValueDescriber<NoFramework>(config).Value(value); }

EntryOptions LevelZeroEntries(std::vector<std::string> names, const RecordingOptions& options) {
  return {.level = kSetattrLevel,
          .names = std::move(names),
          .outermost = options.outermost,
          .include_getters = options.include_getters,
          .constructors = true};
}

}  // namespace

std::unique_ptr<TracingHook> MakeLibraryHook(std::vector<std::string> names, const RecordingOptions& options) {
  // Never destroyed: calls may be running when the hook is uninstalled.
  static auto* const calls = new RecordedCalls<DescribeValue>;
  return std::make_unique<SetattrHook>(calls, LevelZeroEntries(std::move(names), options));
}

std::vector<std::unique_ptr<TracingHook>> MakeOtherLibrariesHooks(std::string_view package,
                                                                  const RecordingOptions& options) {
  std::vector<std::unique_ptr<TracingHook>> hooks;
  std::vector<std::string> names;
  for (const std::string& api : options.apis) {
    if (!IsOf(package, api)) names.push_back(api);
  }
  const bool script = options.traces_script();
  if (script || !names.empty()) hooks.push_back(MakeLibraryHook(std::move(names), options));
  if (script) hooks.push_back(MakeScriptHook(options.disable_torch_api_list));
  return hooks;
}

EntryOptions FrameworkEntries(std::string_view package, std::string_view default_names,
                              const RecordingOptions& options) {
  std::vector<std::string> names;
  for (const std::string& api : options.apis) {
    if (IsOf(package, api)) names.push_back(api);
  }
  if (options.default_apis) {
    for (const auto name : absl::StrSplit(std::string(default_names), '\n', absl::SkipEmpty())) {
      names.emplace_back(name);
    }
  }
  return LevelZeroEntries(std::move(names), options);
}

}  // namespace torchtrace::python_dialect
