// `torchtrace apis scan`.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cmd/apis.h"
#include "cmd/cli/installation.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "dialects/scan/scan.h"
#include "dialects/table/dialects.h"
#include "serialize/apis/apis.h"
#include "tracer/launch/find_python.h"

namespace torchtrace {
namespace {

constexpr char kApisScanFooter[] =
    "Imports every module of the library, in separate processes. Modules that can't be imported\n"
    "are listed with the reason. PyTorch takes about a minute.\n"
    "\n"
    "Examples:\n"
    "  torchtrace apis scan -o torch_api_list_full.yaml\n"
    "  torchtrace apis scan --library numpy --python ~/venvs/mine -o numpy.yaml\n"
    "  torchtrace apis scan --default --import torchvision -o mine.yaml";

std::string Comment(const ScanOptions& scan, bool is_default) {
  std::string made = "torchtrace apis scan";
  if (is_default) absl::StrAppend(&made, " --default");
  if (scan.library != AllDialects().front().name) absl::StrAppend(&made, " --library ", scan.library);
  if (!scan.imports.empty()) absl::StrAppend(&made, " --import ", absl::StrJoin(scan.imports, ","));
  return absl::StrCat("# Made by `", made, "`: edit nothing here, it would be lost (see docs/APIS.md).\n");
}

int RunApisScan(const std::vector<std::string>& args) {
  ScanOptions scan;
  std::string dialect = AllDialects().front().name, library, python, output;
  std::vector<std::string> imports;
  bool is_default = false, force = false, quiet = false;
  const auto app = MakeApp(kApisScanCommand, "[OPTIONS] [-o FILE]", kApisScanFooter);
  const auto module_name = [](const std::string& text) { return std::string(CheckModuleName(text).message()); };
  app->add_option(
         "--dialect", dialect,
         absl::StrCat("The framework whose library to scan: ", DescribeDialects(), " (default: ", dialect, ")"))
      ->option_text("NAME")
      ->check(Completed(
          [](const std::string& name) {
            if (FindDialectInfo(name) != nullptr) return std::string();
            const absl::Status status = CheckDialectName(name);
            return status.ok() ? "a dialect in Python has no library to scan" : std::string(status.message());
          },
          DialectNames));
  app->add_option("--library", library, "Any Python library instead: numpy, mypackage.ops")
      ->option_text("NAME")
      ->check(module_name);
  app->add_option("--import", imports, "Import MODULE too, for the operators that it adds; may be repeated")
      ->option_text("MODULE")
      ->allow_extra_args(false);
  app->add_flag("--default", is_default,
                "Write the default list: public APIs without noise, by the rules in docs/APIS.md");
  app->add_option("--timeout", scan.timeout_s, "Give up importing a module after this many seconds (default: 120)")
      ->option_text("SECONDS")
      ->check(IsSeconds(0.1, 86400));
  app->add_option("--python", python, "The Python whose library to scan (default: as `run` finds one)")
      ->option_text("PYTHON");
  app->add_option("-o,--output", output, "File to write (default: standard output)")->option_text("FILE");
  app->add_flag("-f,--force", force, "Replace a file that exists");
  app->add_flag("-q,--quiet", quiet, "Print only errors");
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;
  scan.library = library.empty() ? dialect : library;
  scan.imports = SplitLists(imports);
  for (const std::string& name : scan.imports) {
    if (absl::Status s = CheckModuleName(name); !s.ok()) return Fail(kExitTrouble, s);
  }

  const absl::StatusOr<std::unique_ptr<Output>> out = Output::Open(output, {.force = force});
  if (!out.ok()) return Fail(kExitTrouble, out.status());
  const absl::StatusOr<PythonInfo> info = FindAndAskPython(python, EnvironmentOfWheel());
  if (!info.ok()) return Fail(kExitTrouble, info.status());
  scan.python = info->executable;
  if (!quiet) Say(absl::StrCat("importing all modules of ", scan.library, " in ", scan.python, " ..."));
  absl::StatusOr<ApiList> list = ScanLibrary(scan);
  if (!list.ok()) return (*out)->Finish(list.status());
  const size_t not_imported = list->not_imported.size();
  if (is_default) list = BuiltInApiRules().Default(*list);
  (*out)->stream() << FormatApiList(*list, Comment(scan, is_default));
  const int exit_code = (*out)->Finish(absl::OkStatus());
  if (exit_code == kExitOk && !quiet) {
    Say(absl::StrCat((*out)->is_file() ? absl::StrCat("wrote ", output, ": ") : "", list->apis.size(), " APIs of ",
                     list->library, list->version.empty() ? "" : " ", list->version,
                     not_imported == 0 ? ""
                                       : absl::StrCat("; ", not_imported, not_imported == 1 ? " module" : " modules",
                                                      " could not be imported",
                                                      is_default ? "" : ": the end of the list has the reasons")));
  }
  return exit_code;
}

}  // namespace

const Command kApisScanCommand = {"apis scan", "Write the list of a Python library's APIs", "Read", RunApisScan};

}  // namespace torchtrace
