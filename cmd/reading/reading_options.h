// Options of the verbs that read traces or write files of them, and how far reading has come.

#ifndef TORCHTRACE_CMD_READING_READING_OPTIONS_H_
#define TORCHTRACE_CMD_READING_READING_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "cmd/cli/terminal.h"
#include "serialize/apis/apis.h"
#include "serialize/base/matching.h"
#include "serialize/render/render.h"
#include "serialize/trace/trace.h"
#include "serialize/where/call_selection.h"
#include "tracer/record/recording_options.h"

namespace torchtrace {

// Opens traces for a verb, and shows how far reading them has come (terminal.h).
//
//   ReadingProgress progress(quiet, paths.size());
//   absl::StatusOr<std::unique_ptr<Trace>> trace = progress.Open(path);

// Outlives the traces.
class ReadingProgress {
 public:
  // `traces`: how many there will be. `what` is done with them.
  explicit ReadingProgress(bool quiet, size_t traces = 1, std::string what = "reading");
  ~ReadingProgress();

  // OpenTrace; standard input once.
  absl::StatusOr<std::unique_ptr<Trace>> Open(const std::string& path);
  // Before that, what stands in it. Where there are several, all but standard input are opened twice.
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

// The options that verbs which write a new trace have in common, `run` too: its files, and
// how much is said. Spelled and told the same everywhere.

// --formats, --render-limit, --merge-output, --readable and --quiet.
struct RenderingOptions {
  std::string formats = "all";
  uint64_t render_limit = kDefaultRenderLimit;
  bool merge_output = true;
  bool readable = false;
  bool quiet = false;

  // It must outlive the parsing.
  void AddTo(CLI::App* app);
  // Once the options were parsed.
  void Apply(RenderOptions* options) const;
};

// The same without --quiet, of `run`; with TORCHTRACE_FORMATS and so on, under a heading of the help.
void AddRenderingOptions(CLI::App* app, RecordingOptions* options, const std::string& group);

// The check of --formats, wherever it stands.
CLI::Validator RenderFormatsCheck();

// What --include and --exclude are completed with: the built-in groups, "%nn".
std::vector<std::string> GroupPatterns();

// The options that verbs which read traces have in common, spelled and told the
// same everywhere.

class Trace;

inline constexpr char kTraceText[] =
    "The output folder of a run, a log, or another tool's file (see docs/IMPORT.md); - is standard input";

// Of --all, for StandardOutput's rest_option.
inline constexpr char kAllLinesText[] = "All lines; a terminal else gets a screen of them";

// --format of verbs that write one of these two: whether it is JSON.
const Choices<bool>& TextOrJson();

// The option -q of verbs that write nothing else than what they were asked for.
void AddQuiet(CLI::App* app, bool* quiet);

// --include, --exclude, --groups and --level.
struct CallFilterOptions {
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  std::string groups;
  std::vector<std::string> levels;

  // It must outlive the parsing.
  void AddTo(CLI::App* app);
  // What --include and --exclude name; checked when the options were parsed.
  const GlobFilter& Globs() const { return globs_; }
  // What --level names; checked when the options were parsed.
  std::vector<int> Levels() const;

  virtual ~CallFilterOptions() = default;

  // InvalidArgument for a name or glob that is neither known nor of a call in these traces; errors of opening
  // them. Looks at them only where a name isn't known.
  virtual absl::Status CheckNames(const std::vector<std::string>& paths, ReadingProgress* progress) const;

  // Whether a call of the trace, which was read, passes; true for a trace without calls.
  virtual bool LeavesSome(const Trace& trace) const;
  // "no call matches --include torch.add", with all that was typed.
  virtual std::string NoCallMatches() const;

 protected:
  // `more`: names and globs that were given in another way.
  absl::Status CheckAll(const std::vector<std::string>& more, const std::vector<std::string>& paths,
                        ReadingProgress* progress) const;

 private:
  GlobFilter globs_;
  std::vector<WrittenName> unknown_;  // that no known name matches
};

// What is to be told of a verb's traces when it has succeeded: an error stands alone. Sentences, each said once.
class Remarks {
 public:
  // `filter`, which may be null: that it leaves nothing of all of them.
  explicit Remarks(const CallFilterOptions* filter = nullptr) : filter_(filter) {}

  // What a trace that was read lost (`path` is how it was named), and what its format can't say.
  void Add(const std::string& path, const Trace& trace);
  void Add(const std::vector<std::string>& sentences);
  // How many calls of a trace that was read never returned, and what shows them.
  void AddOpenCalls(const std::string& path, const Trace& trace);
  // An error where a trace was damaged so that no call of it could be read: what was made of it is nothing.
  absl::Status Check() const { return nothing_left_; }
  void Tell(bool quiet) const;

 private:
  const CallFilterOptions* const filter_;
  bool read_ = false;  // a trace, to its end
  bool leaves_some_ = false;
  absl::Status nothing_left_;
  std::vector<std::string> sentences_;
};

// The same, and --calls, --thread, --rank and --where.
struct CallSelectionOptions : CallFilterOptions {
  std::string numbers, ranks, where;
  std::vector<std::string> threads;

  // It must outlive the parsing. Without --calls where it is the verb's own affair.
  void AddTo(CLI::App* app, bool with_numbers = true);
  // Once the options were parsed. They outlive the selection, and learn from it whether a call passed.
  void Apply(CallSelection* selection);
  // Whether more is asked for than configs can tell.
  bool ChoosesCalls() const { return !numbers.empty() || !threads.empty() || !ranks.empty() || !where.empty(); }
  // Names and values of --where, too.
  absl::Status CheckNames(const std::vector<std::string>& paths, ReadingProgress* progress) const override;
  bool LeavesSome(const Trace& trace) const override;
  std::string NoCallMatches() const override;
  // A trace; where more than names and levels is asked for, with the calls that are meant alone (selected_trace.h).
  absl::StatusOr<std::unique_ptr<Trace>> Open(const std::string& path, ReadingProgress* progress);

 private:
  Where Condition() const;

  bool found_ = false;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_READING_READING_OPTIONS_H_
