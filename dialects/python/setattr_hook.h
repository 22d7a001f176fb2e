// Level 0: sees the calls of the functions, classes, properties and operators of
// a list of names, of any library.
//
// The technique is not setattr: nothing in any namespace is replaced. A native
// entry is put where the object itself keeps the pointer to what is called, so
// that the object stays what it is (identity, type, signature, pickling, what
// Dynamo, torch.jit and torch.fx make of it), and every alias of it is seen,
// however early it was made. docs/SETATTR.md says how each kind is entered.
//
// A hook that is uninstalled leaves nothing but its entries, which lead past it and are
// taken again by the next one. All of it is guarded by the GIL.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_HOOK_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_HOOK_H_

#include <Python.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dialects/python/patch_list.h"
#include "dialects/python/traced_api.h"
#include "tracer/export.h"
#include "tracer/tracing_hook.h"

namespace torchtrace::python_dialect {

// What a dialect adds. Lives for ever.
class SetattrDialect : public CallObserver {
 public:
  // The name under which other levels know the callable; empty: by the shortest
  // of the listed ones.
  virtual absl::StatusOr<std::string> PublicName(PyObject* callable) = 0;
  // For run.json.
  virtual void NoteNotSeen(const std::string& text) = 0;
};

struct SetattrOptions {
  std::vector<std::string> names;
  bool outermost = false;  // only calls that no other call of this level caused
  bool include_getters = false;
};

class TORCHTRACE_EXPORT SetattrHook : public TracingHook {
 public:
  SetattrHook(SetattrDialect* dialect, SetattrOptions options);

  int level() const override { return 0; }
  std::string name() const override { return "setattr"; }

  // Names of modules that aren't imported yet are seen from their import on.
  absl::Status Install() override;
  void Uninstall() override;

 private:
  struct Target;

  static bool MakeTarget(PyObject* object, const std::string& accessor, Target* target);
  absl::Status Add(const std::vector<std::string>& names, const std::string& imported = {});
  absl::Status Enter(const Target& target);
  bool Patch(const Target& target, const TracedApi* api, const TracedApi* set_api);
  void Await(const std::string& module);
  void Tell(const char* what, const std::vector<std::string>& names);

  SetattrDialect* const dialect_;
  SetattrOptions options_;
  PatchList patches_;
  std::set<const void*> entered_;                            // keys of targets
  std::map<std::string, std::vector<std::string>> awaited_;  // names by module
  std::vector<std::string> missing_;
  std::vector<std::string> closed_;  // there, but no entry can be made
  bool installed_ = false;
};

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_HOOK_H_
