// `torchtrace top`.

#include "serialize/reports/top.h"

#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/cli/screen.h"
#include "cmd/cli/terminal.h"
#include "cmd/reading/reading_options.h"
#include "cmd/reading/running_trace.h"
#include "nlohmann/json.hpp"
#include "serialize/base/clip_text.h"
#include "serialize/base/monotonic_clock.h"
#include "serialize/base/text.h"
#include "serialize/forms/forms.h"
#include "serialize/log/live_logs.h"
#include "serialize/trace/running.h"
#include "tracer/launch/run_control.h"

namespace torchtrace {
namespace {

constexpr int64_t kLeastIntervalNs = 100'000'000;

constexpr char kTopFooter[] =
    "Keys:\n"
    "  q       quit\n"
    "  space   pause, and go on\n"
    "  s       sort calls by self time, number or name\n"
    "  p       sort processes by rank, calls, age of the open call or log\n"
    "  m       modules in place of APIs, and back (level 3)\n"
    "  /       show only the processes, or else the calls, whose name contains a text; Escape ends it\n"
    "  ?       this list\n"
    "\n"
    "Examples:\n"
    "  torchtrace top out\n"
    "  torchtrace top --once \"$(pgrep -of torchrun)\"\n"
    "  torchtrace top -d 10s out >> top.log";

std::vector<std::string> HelpLines() {
  std::vector<std::string> lines;
  const std::string_view text = kTopFooter;
  for (size_t at = 0, end; (end = text.find('\n', at)) != at; at = end + 1)
    lines.emplace_back(text.substr(at, end - at));
  return lines;
}

const char* NameOf(TopCallSort sort) {
  switch (sort) {
    case TopCallSort::kSelf:
      return "self time";
    case TopCallSort::kCalls:
      return "calls";
    case TopCallSort::kName:
      break;
  }
  return "name";
}

const char* NameOf(TopProcessSort sort) {
  switch (sort) {
    case TopProcessSort::kRank:
      return "rank";
    case TopProcessSort::kCalls:
      return "calls";
    case TopProcessSort::kOpen:
      return "open call";
    case TopProcessSort::kLog:
      break;
  }
  return "log";
}

template <typename Sort>
void GoToNext(Sort last, Sort* sort) {
  *sort = *sort == last ? Sort() : static_cast<Sort>(static_cast<int>(*sort) + 1);
}

LiveReading Read(LiveLogs* logs, const std::string& folder) {
  LiveReading reading = logs->Read();
  const absl::StatusOr<RunControl> control = RunControl::Open(folder);
  if (control.ok() && control->order() != ControlPage::kNone) reading.order = control->Describe();
  return reading;
}

// The live view: a screen that is drawn at each reading and key.
class TopScreen {
 public:
  TopScreen(LiveLogs* logs, const LiveNames* names, TopOptions options, int64_t interval_ns)
      : logs_(logs), names_(names), options_(std::move(options)), interval_ns_(interval_ns) {}

  void Run() {
    for (int64_t next_ns = MonotonicNowNs();;) {
      if (!paused_ && MonotonicNowNs() >= next_ns) {
        reading_ = Read(logs_, options_.title);
        const int64_t now_ns = MonotonicNowNs();
        next_ns = next_ns + interval_ns_ > now_ns ? next_ns + interval_ns_ : now_ns + interval_ns_;
      }
      Draw();
      const int key = screen_.Wait(paused_ ? INT64_MAX : next_ns);
      if (key == Screen::kGone || !Take(key)) return;
    }
  }

 private:
  // False: quits.
  bool Take(int key) {
    if (key == Screen::kNothing || key == Screen::kDrawAgain || key == Screen::kOther) return true;
    if (types_filter_) {
      TakeFilter(key);
      return true;
    }
    if (std::exchange(shows_help_, false)) return true;
    switch (key) {
      case 'q':
        return false;
      case ' ':
        paused_ = !paused_;
        break;
      case 's':
        GoToNext(TopCallSort::kName, &options_.calls_by);
        break;
      case 'p':
        GoToNext(TopProcessSort::kLog, &options_.processes_by);
        break;
      case 'm':
        options_.modules = !options_.modules;
        break;
      case '/':
        types_filter_ = true;
        break;
      case Screen::kEscape:
        options_.filter.clear();
        break;
      case '?':
      case 'h':
        shows_help_ = true;
        break;
      default:
        break;
    }
    return true;
  }

  void TakeFilter(int key) {
    constexpr int kBackspace = 127, kOtherBackspace = 8;
    std::string& filter = options_.filter;
    if (key == '\n' || key == '\r') {
      types_filter_ = false;
    } else if (key == Screen::kEscape) {
      types_filter_ = false;
      filter.clear();
    } else if (key == kBackspace || key == kOtherBackspace) {
      // A whole character of UTF-8.
      while (!filter.empty() && (static_cast<unsigned char>(filter.back()) & 0xc0) == 0x80) filter.pop_back();
      if (!filter.empty()) filter.pop_back();
    } else if (key >= ' ' && key < 256) {
      filter += static_cast<char>(key);
    }
  }

  std::string LastLine() const {
    if (types_filter_) return absl::StrCat("/", PlainLine(options_.filter), "_   (Enter, or Escape for none)");
    std::string line = paused_ ? "PAUSED   " : "";
    if (!options_.filter.empty()) absl::StrAppend(&line, "/", PlainLine(options_.filter), "   ");
    absl::StrAppend(&line, "q quit  ? keys  s calls by ", NameOf(options_.calls_by), "  p processes by ",
                    NameOf(options_.processes_by));
    return absl::StrCat(line, names_->has_modules() ? (options_.modules ? "  m APIs" : "  m modules") : "",
                        "  / filter");
  }

  void Draw() {
    const Screen::Size size = screen_.size();
    options_.width = size.columns;
    std::vector<std::string> lines = shows_help_ ? HelpLines() : TopLines(reading_, *names_, options_, size.lines - 1);
    lines.resize(size.lines - 1);
    lines.push_back(ClipText(LastLine(), size.columns, 0));
    screen_.Draw(lines);
  }

  LiveLogs* const logs_;
  const LiveNames* const names_;
  TopOptions options_;
  const int64_t interval_ns_;
  Screen screen_;
  LiveReading reading_;
  bool paused_ = false;
  bool types_filter_ = false;
  bool shows_help_ = false;
};

// Prints a table, or a JSON object, after each interval, until no process is left; `once`: only the first.
int PrintReadings(LiveLogs* logs, const LiveNames& names, const TopOptions& options, int64_t interval_ns, bool once,
                  bool json) {
  StandardOutput out;
  LiveReading reading = Read(logs, options.title);
  for (bool first = true; out.good(); first = false) {
    const bool goes_on = MayGoOn(reading);
    if (goes_on) {
      absl::SleepFor(absl::Nanoseconds(interval_ns));
      reading = Read(logs, options.title);
    }
    if (json) {
      out << DumpJson(TopJson(reading, names)) << "\n";
    } else {
      const std::string time = absl::FormatTime("%H:%M:%S", absl::Now(), absl::LocalTimeZone());
      out << (first ? "" : "\n") << (once ? "" : time + " ") << TopText(reading, names, options);
    }
    out.flush();
    if (once || !goes_on) break;
  }
  return out.Finish(absl::OkStatus());
}

int RunTop(const std::vector<std::string>& args) {
  std::string what, interval = "1s", format = "text";
  bool once = false;
  const auto app = MakeApp(kTopCommand, "[OPTIONS] PID|DIR", kTopFooter);
  app->add_option("PID|DIR", what, kRunningTraceText)->required();
  app->add_option("-d,--interval", interval, "Read every TIME: 500ms, 2s, 1m; at least 100ms (default: 1s)")
      ->option_text("TIME")
      ->check(Checked([](const std::string& text) { return ParseNanoseconds(text, kLeastIntervalNs); }));
  app->add_flag("--once", once, "Print one table, of one interval");
  app->add_option("--format", format, "text or json, an object for each reading (default: text)")
      ->option_text("FORMAT")
      ->check(OneOf(TextOrJson()));
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;
  const int64_t interval_ns = *ParseNanoseconds(interval, kLeastIntervalNs);
  const bool json = *TextOrJson().Parse(format);

  const absl::StatusOr<std::string> trace = FindRunningTrace(what);
  if (!trace.ok()) return Fail(kExitTrouble, trace.status());
  LiveNames names;
  const absl::StatusOr<std::unique_ptr<LiveLogs>> logs =
      LiveLogs::Open(*trace, [&names](std::string_view identity) { return names.Of(identity); });
  if (!logs.ok()) return Fail(kExitTrouble, logs.status());
  const TopOptions options = {.title = *trace, .width = TerminalWidth(), .color = UseColor(When::kAuto)};
  if (once || json || !Screen::Exists()) return PrintReadings(logs->get(), names, options, interval_ns, once, json);
  TopScreen(logs->get(), &names, options, interval_ns).Run();
  return kExitOk;
}

}  // namespace

const Command kTopCommand = {"top", "Watch what a running program calls, and where it waits", "Read", RunTop};

}  // namespace torchtrace
