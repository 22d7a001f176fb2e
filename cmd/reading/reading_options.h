// Options of the verbs that read traces or write files of them, and the progress of reading.

#ifndef TORCHTRACE_CMD_READING_READING_OPTIONS_H_
#define TORCHTRACE_CMD_READING_READING_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cmd/cli/terminal.h"
#include "serialize/apis/apis.h"
#include "serialize/base/matching.h"
#include "serialize/render/render.h"
#include "serialize/trace/trace.h"
#include "serialize/where/call_selection.h"
#include "tracer/record/recording_options.h"

namespace torchtrace {

class App;
struct Check;

// Opens traces for a verb, and shows the progress of reading them (terminal.h). Must outlive the traces.
//
//   ReadingProgress progress(quiet, paths.size());
//   absl::StatusOr<std::unique_ptr<Trace>> trace = progress.Open(path);
class ReadingProgress {
 public:
  // `traces`: how many will be opened. `what`: the work that the progress line names.
  explicit ReadingProgress(bool quiet, size_t traces = 1, std::string what = "reading");
  ~ReadingProgress();

  // OpenTrace; standard input can be opened only once.
  absl::StatusOr<std::unique_ptr<Trace>> Open(const std::string& path);
  // Passes the trace to `look` before Open. With several traces, all except standard input are opened twice.
  absl::Status Look(const std::string& path, const std::function<absl::Status(Trace*)>& look);
  // For a trace that is opened in another way.
  ReadingObserver* NextObserver();

 private:
  class Observer;

  Progress progress_;
  const size_t traces_;
  const std::string what_;
  bool standard_input_was_read_ = false;
  std::map<std::string, std::unique_ptr<Trace>> looked_at_;
  std::vector<std::unique_ptr<Observer>> observers_;
};

// The options of all verbs that write a new trace, `run` too, with the same spelling and help everywhere: --formats,
// --render-limit, --merge-output, --readable and --quiet.
struct RenderingOptions {
  std::string formats = "all";
  uint64_t render_limit = kDefaultRenderLimit;
  bool merge_output = true;
  bool readable = false;
  bool quiet = false;

  // Must outlive the parsing.
  void AddTo(App* app);
  // After parsing.
  void Apply(RenderOptions* options) const;
};

// For `run`: the same without --quiet, with variables (TORCHTRACE_FORMATS), in this group of the help.
void AddRenderingOptions(App* app, RecordingOptions* options, const std::string& group);

// The check of --formats.
Check RenderFormatsCheck();

// Completions of --include and --exclude: the built-in groups, such as "%nn".
std::vector<std::string> GroupPatterns();

class Trace;

inline constexpr char kTraceText[] =
    "The output folder of a run, a log, or another tool's file (see docs/IMPORT.md); - is standard input";

// The help of --all, which StandardOutput's rest_option names.
inline constexpr char kAllLinesText[] = "All lines; otherwise a terminal gets one screen";

// --format of verbs that write text or JSON: whether it is JSON.
const Choices<bool>& TextOrJson();

// How verbs show a long text: --color and --no-pager.
struct TextOptions {
  std::string color = "auto";
  bool no_pager = false;

  void AddTo(App* app);
  bool UsesColor() const;
};

// The option -q of verbs that write only what the user asked for.
void AddQuiet(App* app, bool* quiet);

// Options of all verbs that read traces, with the same spelling and help everywhere: --include, --exclude, --groups and
// --level.
struct CallFilterOptions {
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  std::string groups;
  std::vector<std::string> levels;

  // Must outlive the parsing.
  void AddTo(App* app);
  // --include and --exclude, checked during parsing.
  const GlobFilter& Globs() const { return globs_; }
  // --level, checked during parsing.
  std::vector<int> Levels() const;

  virtual ~CallFilterOptions() = default;

  // InvalidArgument for a name or glob that is neither known nor matches a call in these traces; errors of opening
  // them. Opens them only when a name is unknown.
  virtual absl::Status CheckNames(const std::vector<std::string>& paths, ReadingProgress* progress) const;

  // Whether a call of the trace, which was read, passes; true for a trace without calls.
  virtual bool LeavesSome(const Trace& trace) const;
  // "no call matches --include torch.add", with all filters as typed.
  virtual std::string NoCallMatches() const;

 protected:
  // `more`: names and globs from elsewhere, such as --where.
  absl::Status CheckAll(const std::vector<std::string>& more, const std::vector<std::string>& paths,
                        ReadingProgress* progress) const;

 private:
  GlobFilter globs_;
  std::vector<WrittenName> unknown_;  // matched by no known name
};

// Remarks on a verb's traces, printed when it has succeeded: an error is printed alone. Prints each sentence once.
class Remarks {
 public:
  // `filter` may be null. Reports when no call of any trace passes it.
  explicit Remarks(const CallFilterOptions* filter = nullptr) : filter_(filter) {}

  // What is lost in a trace that was read (`path` as the user named it), and what its format does not record.
  void Add(const std::string& path, const Trace& trace);
  void Add(const std::vector<std::string>& sentences);
  // How many calls of a trace that was read never returned, and the command that lists them.
  void AddOpenCalls(const std::string& path, const Trace& trace);
  // How many calls of a trace that was read are counted, but not listed.
  void AddCounted(const std::string& path, const Trace& trace);
  // An error if a trace was so damaged that none of its calls could be read: the output is worthless.
  absl::Status Check() const { return nothing_left_; }
  void Tell(bool quiet) const;

 private:
  const CallFilterOptions* const filter_;
  bool read_ = false;  // a trace was read to its end
  bool leaves_some_ = false;
  absl::Status nothing_left_;
  std::vector<std::string> sentences_;
};

// CallFilterOptions, and --calls, --thread, --rank, --skip-steps and --where.
struct CallSelectionOptions : CallFilterOptions {
  std::string numbers, ranks, where;
  std::vector<std::string> threads;
  uint64_t skip_steps = 0;

  // Must outlive the parsing. `with_numbers`: false if the verb adds --calls itself.
  void AddTo(App* app, bool with_numbers = true);
  // After parsing. Must outlive the selection, which notes here whether a call passed.
  void Apply(CallSelection* selection);
  // Whether a filter needs more than the config of a call.
  bool ChoosesCalls() const {
    return !numbers.empty() || !threads.empty() || !ranks.empty() || !where.empty() || skip_steps > 0;
  }
  // Checks names and values of --where, too.
  absl::Status CheckNames(const std::vector<std::string>& paths, ReadingProgress* progress) const override;
  bool LeavesSome(const Trace& trace) const override;
  std::string NoCallMatches() const override;
  // Opens the trace; with a filter on more than configs, only with the calls that pass (selected_trace.h).
  absl::StatusOr<std::unique_ptr<Trace>> Open(const std::string& path, ReadingProgress* progress);

 private:
  Where Condition() const;

  bool found_ = false;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_READING_READING_OPTIONS_H_
