// Level 0: the calls of a list of names of any library, by native entries. docs/SETATTR.md.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_SETATTR_HOOK_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_SETATTR_HOOK_H_

#include <memory>
#include <string>
#include <utility>

#include "dialects/python/setattr/native_entries.h"
#include "tracer/tracing_hook.h"

namespace torchtrace::python_dialect {

class SetattrHook : public TracingHook {
 public:
  SetattrHook(EntryDialect* dialect, EntryOptions options)
      : entries_(std::make_shared<NativeEntries>(dialect, std::move(options))) {}

  int level() const override { return 0; }
  std::string name() const override { return "setattr"; }
  absl::Status Install() override { return entries_->Install(); }
  void Uninstall() override { entries_->Uninstall(); }

 private:
  const std::shared_ptr<NativeEntries> entries_;
};

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_SETATTR_HOOK_H_
