// libtorchtrace_verbs.so: the verbs for a process that is a Python. The Python calls them to export
// (export_in_python.h) or to read traces (verb_calls.h), or they replace its main() to run a program
// (cmd/run/preload.h).

#include <cstddef>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/cli/verb_host.h"
#include "cmd/run/preload.h"
#include "serialize/export/parquet_table.h"
#include "serialize/export/verb_calls.h"

namespace torchtrace {
namespace {

class CallingHost final : public VerbHost {
 public:
  explicit CallingHost(const torchtrace_verb_host& host) : host_(host), outer_(Current()) {
    Current() = this;
    SetParquetRowsFunction(TakeRows);
  }
  ~CallingHost() override { Current() = outer_; }

  void Write(std::string_view bytes) override { host_.write(host_.context, bytes.data(), bytes.size()); }
  void Say(const std::string& text) override { host_.say(host_.context, text.data(), text.size()); }
  void Fail(absl::StatusCode code, const std::string& text) override {
    host_.fail(host_.context, static_cast<int>(code), text.data(), text.size());
  }
  void Check() override {
    if (host_.stops(host_.context) != 0) throw VerbStopped();
  }

 private:
  static int TakeRows(ArrowArrayStream* rows, const char* /*counters*/) {
    if (rows == nullptr) return 0;
    const torchtrace_verb_host& host = static_cast<const CallingHost*>(Current())->host_;
    if (host.take_rows(host.context, rows) != 0) throw VerbStopped();
    return 0;
  }

  const torchtrace_verb_host host_;
  VerbHost* const outer_;  // a handler of signals may call a verb within another
};

int CallVerb(const std::vector<std::string>& words) {
  const Command* const command = words.empty() ? nullptr : FindCommand(words.front());
  if (command == nullptr) return Fail(kExitTrouble, absl::StrCat("no verb ", words.empty() ? "" : words.front()));
  return command->run(std::vector<std::string>(words.begin() + 1, words.end()));
}

}  // namespace
}  // namespace torchtrace

extern "C" {

// torchtrace_call_verb_function
int torchtrace_call_verb(const char* const* words, size_t count, const torchtrace_verb_host* host) {
  try {
    const torchtrace::CallingHost calling(*host);
    return torchtrace::CallVerb(std::vector<std::string>(words, words + count));
  } catch (const torchtrace::VerbStopped&) {
    return TORCHTRACE_VERB_STOPPED;
  } catch (const std::bad_alloc&) {
    return TORCHTRACE_VERB_WITHOUT_MEMORY;
  } catch (const std::exception& error) {
    const std::string_view text = error.what();
    host->fail(host->context, static_cast<int>(absl::StatusCode::kInternal), text.data(), text.size());
    return torchtrace::kExitTrouble;
  }
}

int torchtrace_main(int argc, char** argv) {
  return torchtrace::RunCommandLine(std::vector<std::string>(argv + (argc > 0), argv + argc));
}

// Runs the verb `words[0]` with the others as its arguments, and returns its exit code.
int torchtrace_export(const char* const* words, size_t count, torchtrace::ParquetRowsFunction write_rows) {
  torchtrace::CleanUpOnSignals();  // HoldEndingSignals blocked them
  torchtrace::SetParquetRowsFunction(write_rows);
  return torchtrace::RunCommandLine(std::vector<std::string>(words, words + count));
}

}  // extern "C"
