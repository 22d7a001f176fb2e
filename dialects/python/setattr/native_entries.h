// The hook of level 0, and the native entries that it installs; level 1 installs them too.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_NATIVE_ENTRIES_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_NATIVE_ENTRIES_H_

#include <Python.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "dialects/python/describe/describe_call.h"
#include "dialects/python/setattr/patch_list.h"
#include "serialize/model/levels.h"
#include "tracer/framework_dialect.h"
#include "tracer/record/export.h"

namespace torchtrace::python_dialect {

// The dialect's part in native entries. Never freed.
class EntryDialect : public CallObserver {
 public:
  // The API as which calls of `object` are reported; null: they are not. `name` is the best listed one (public, few
  // parts, short), ending with "__get__" or "__set__" for half of a property. It may run Python code.
  virtual absl::StatusOr<const TracedApi*> Api(PyObject* object, const std::string& name) = 0;
  // For run.json.
  virtual void NoteNotSeen(const std::string& text) = 0;
  virtual void NoteNotImported(const std::string& text) { NoteNotSeen(text); }
};

// Always returns the same one for the same arguments, and never frees it: there are only as many as there are names.
TORCHTRACE_EXPORT TracedApi* MakeTracedApi(int level, const std::string& name, PyObject* object);

struct EntryOptions {
  int level = 0;  // 0 or 1: the entries' layer
  std::vector<std::string> names;
  bool outermost = false;  // only calls that no other call of this level caused
  bool include_getters = false;
  bool constructors = false;  // also constructors of instances of subclasses of a listed class
};

// Sees the calls of the functions, classes, properties and operators in a list of dotted names, of any library.
//
// Nothing in any namespace is replaced. A native entry is put where the object itself keeps the pointer to the called
// code. So the object stays what it is (identity, type, signature, pickling, what Dynamo, torch.jit and torch.fx make
// of it), and calls through every alias of it are seen, however early it was made. docs/SETATTR.md describes the entry
// of each kind of object.
//
// Removed entries only leave their slots in tables, which the next ones reuse. Guarded by the GIL.
class TORCHTRACE_EXPORT NativeEntries : public std::enable_shared_from_this<NativeEntries> {
 public:
  NativeEntries(EntryDialect* dialect, EntryOptions options);

  // Names in modules that aren't imported yet are seen from their import on. If it fails, no entry is left.
  absl::Status Install();
  void Uninstall();

 private:
  struct Target;

  static bool MakeTarget(PyObject* object, const std::string& accessor, Target* target);
  absl::Status Add(const std::vector<std::string>& names, const std::string& imported = {});
  absl::Status Enter(const Target& target);
  bool Patch(const Target& target, const TracedApi* api, const TracedApi* set_api);
  void Await(const std::string& module);
  void Tell(const char* what, const std::vector<std::string>& names);

  EntryDialect* const dialect_;
  EntryOptions options_;
  PatchList patches_;
  std::set<const void*> entered_;                            // keys of targets
  std::map<std::string, std::vector<std::string>> awaited_;  // names by module
  std::vector<std::string> missing_;
  std::vector<std::string> closed_;  // found, but no entry can be made
  bool installed_ = false;
  bool needs_frames_ = false;  // uses frame evaluation: some entries are in Python functions
};

// Level 0: the calls of a list of names of any library, by native entries. docs/SETATTR.md.
class SetattrHook : public TracingHook {
 public:
  SetattrHook(EntryDialect* dialect, EntryOptions options)
      : entries_(std::make_shared<NativeEntries>(dialect, std::move(options))) {}

  int level() const override { return kSetattrLevel; }
  std::string name() const override { return "setattr"; }
  absl::Status Install() override { return entries_->Install(); }
  void Uninstall() override { entries_->Uninstall(); }

 private:
  const std::shared_ptr<NativeEntries> entries_;
};

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_NATIVE_ENTRIES_H_
