#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/base/text.h"
#include "serialize/diff/reports.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/model/config.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

struct RunWords {
  const char* name;
  char mark;
  const char* color;
};
// In RunKind's order.
constexpr RunWords kRunWords[] = {
    {"same", ' ', kDim},
    {"changed", '~', kYellow},
    {"removed", '-', kRed},
    {"added", '+', kGreen},
};

const RunWords& WordsOf(RunKind kind) { return kRunWords[static_cast<size_t>(kind)]; }

// Where the sequences diverge: the first call from there on, of each.
struct Divergence {
  uint64_t a_call = kNoCall;
  uint64_t b_call = kNoCall;
};

Divergence DivergenceOf(const Hunk& hunk) {
  Divergence divergence;
  for (size_t i = hunk.lines.size(); i-- > hunk.first_change;) {
    const HunkLine& line = hunk.lines[i];
    if (line.kind != RunKind::kAdded) divergence.a_call = line.a_place.call;
    if (line.kind != RunKind::kRemoved) divergence.b_call = line.b_place.call;
  }
  return divergence;
}

class SequenceReport {
 public:
  SequenceReport(SequenceDiffs diffs, const CommonConfigs& configs, const Trace& a, const Trace& b,
                 const DiffOptions& options, uint64_t max_hunks, std::ostream* out)
      : diffs_(std::move(diffs)),
        configs_(configs),
        a_(a),
        b_(b),
        options_(options),
        hunks_shown_(max_hunks == 0 ? UINT64_MAX : max_hunks),
        out_(*out) {
    for (const SequenceDiff& diff : diffs_.sequences) {
      a_calls_ += diff.a_calls;
      b_calls_ += diff.b_calls;
      if (diff.different()) ++differing_;
    }
  }

  bool Write() {
    switch (options_.format) {
      case DiffFormat::kText:
        if (diffs_.different() || options_.summary) WriteText();
        break;
      case DiffFormat::kJson:
        WriteJson();
        break;
      case DiffFormat::kMarkdown:
        WriteMarkdown();
        break;
      case DiffFormat::kJunit:  // of gates alone
        break;
    }
    out_.flush();
    return diffs_.different();
  }

 private:
  const char* Color(const char* code) const { return options_.color ? code : ""; }

  static std::string Numbers(const RunCounts& counts) {
    std::vector<std::string> numbers;
    for (const RunKind kind : {RunKind::kRemoved, RunKind::kAdded, RunKind::kChanged, RunKind::kSame}) {
      const uint64_t count = counts[static_cast<size_t>(kind)];
      if (kind == RunKind::kSame) {
        numbers.push_back(absl::StrCat(count, " the same"));
      } else if (count > 0) {
        numbers.push_back(absl::StrCat(count, " ", WordsOf(kind).name));
      }
    }
    return absl::StrJoin(numbers, ", ");
  }

  std::string Total() const {
    return absl::StrCat(Numbers(diffs_.counts), ", ", Counted(diffs_.hunk_count, "hunk", "hunks"), "; ", differing_,
                        " of ", Counted(diffs_.sequences.size(), "sequence differs", "sequences differ"));
  }

  static std::string Level(const SequenceDiff& diff) {
    return diff.level == CallSequence::kAllLevels ? "" : absl::StrCat(", level ", diff.level);
  }

  // A single name if both threads have the same one.
  static std::string Title(const SequenceDiff& diff) {
    if (diff.a_thread.empty()) return absl::StrCat(diff.b_thread, Level(diff));
    if (diff.b_thread.empty() || diff.a_thread == diff.b_thread) return absl::StrCat(diff.a_thread, Level(diff));
    return absl::StrCat(diff.a_thread, " against ", diff.b_thread, Level(diff));
  }

  std::string OnlySide(const SequenceDiff& diff) const {
    return absl::StrCat("only in ", PlainLine(diff.b_thread.empty() ? options_.a_name : options_.b_name), ": ",
                        Counted(diff.a_calls + diff.b_calls, "call", "calls"));
  }

  std::string Place(const Hunk& hunk) const {
    const Divergence at = DivergenceOf(hunk);
    const auto side = [](uint64_t call, const std::string& name) {
      return call == kNoCall ? absl::StrCat("the end of ", PlainLine(name))
                             : absl::StrCat("call ", call, " of ", PlainLine(name));
    };
    return absl::StrCat(side(at.a_call, options_.a_name), ", ", side(at.b_call, options_.b_name));
  }

  std::string OuterText(const Hunk& hunk, const OuterCall& call) const {
    return ConfigText(hunk.outside_is_of_a ? a_ : b_, call.config);
  }

  std::string LineText(const HunkLine& line, bool color) const {
    if (line.kind != RunKind::kChanged) {
      return configs_.Text(line.a != CommonConfigs::kLeftOut ? line.a : line.b);
    }
    return FormatPieces(
        CompareTexts(ReadableConfig(configs_.identity(line.a)), ReadableConfig(configs_.identity(line.b))), color);
  }

  static uint32_t DepthOf(const HunkLine& line) {
    return line.kind == RunKind::kAdded ? line.b_place.depth : line.a_place.depth;
  }

  // As in a unified diff, with numbers of calls instead of lines.
  static std::string Head(const Hunk& hunk) {
    const auto first = [&](bool of_a) {
      for (const HunkLine& line : hunk.lines) {
        const uint64_t call = of_a ? line.a_place.call : line.b_place.call;
        if (call != kNoCall) return std::to_string(call);
      }
      return std::string("0");
    };
    return absl::StrCat("@@ -", first(true), ",", hunk.a_count, " +", first(false), ",", hunk.b_count, " @@");
  }

  void WriteHunk(const Hunk& hunk, bool color) {
    const auto paint = [color](const char* code) { return color ? code : ""; };
    out_ << paint(kCyan) << Head(hunk) << paint(kReset);
    if (!hunk.outside.empty()) {
      out_ << " inside " << hunk.outside.back().call << " " << OuterText(hunk, hunk.outside.back());
    }
    out_ << "\n";
    size_t a_width = 1, b_width = 1;
    uint32_t least_depth = UINT32_MAX;
    for (const HunkLine& line : hunk.lines) {
      if (line.kind != RunKind::kAdded) a_width = std::max(a_width, std::to_string(line.a_place.call).size());
      if (line.kind != RunKind::kRemoved) b_width = std::max(b_width, std::to_string(line.b_place.call).size());
      least_depth = std::min(least_depth, DepthOf(line));
    }
    for (const HunkLine& line : hunk.lines) {
      const auto number = [](bool has, uint64_t call, size_t width) {
        const std::string text = has ? std::to_string(call) : "";
        return std::string(width - text.size(), ' ') + text;
      };
      const RunWords& words = WordsOf(line.kind);
      const bool whole = line.kind == RunKind::kRemoved || line.kind == RunKind::kAdded;
      out_ << paint(words.color) << words.mark << " "
           << number(line.kind != RunKind::kAdded, line.a_place.call, a_width) << " "
           << number(line.kind != RunKind::kRemoved, line.b_place.call, b_width) << (whole ? "" : paint(kReset)) << "  "
           << std::string(2 * size_t{std::min(DepthOf(line) - least_depth, 100u)}, ' ') << LineText(line, color)
           << (whole ? paint(kReset) : "") << "\n";
    }
    if (hunk.lines_left_out > 0) {
      out_ << "... and " << Counted(hunk.lines_left_out, "line", "lines") << " more in this hunk\n";
    }
  }

  // Writes every call around the first divergence, outermost first.
  void WriteOutside(const Hunk& hunk) {
    for (size_t i = 0; i < hunk.outside.size(); ++i) {
      out_ << std::string(2 * (i + 1), ' ') << "inside " << hunk.outside[i].call << " "
           << OuterText(hunk, hunk.outside[i]) << "\n";
    }
  }

  // How many of a sequence's hunks to show. It may have a first hunk beyond the limit, which is always kept.
  size_t HunksShown(const SequenceDiff& diff, uint64_t* left) const {
    const auto shown = static_cast<size_t>(std::min<uint64_t>(diff.hunks.size(), *left));
    *left -= shown;
    return shown;
  }

  void WriteText() {
    const std::string a_name = PlainLine(options_.a_name), b_name = PlainLine(options_.b_name);
    const size_t width = std::max(a_name.size(), b_name.size());
    const auto side = [&](const char* mark, const char* color, const std::string& name, uint64_t calls) {
      out_ << Color(color) << mark << " " << name << Color(kReset) << std::string(width - name.size(), ' ') << "  "
           << Counted(calls, "call", "calls") << "\n";
    };
    side("---", kRed, a_name, a_calls_);
    side("+++", kGreen, b_name, b_calls_);
    if (!options_.ignored.empty()) out_ << "ignored: " << absl::StrJoin(options_.ignored, ", ") << "\n";
    out_ << Total() << "\n";
    if (!diffs_.shortest) out_ << "The traces differ so much that a shorter list of differences may exist.\n";
    if (diffs_.first.has_value()) {
      const SequenceDiff& diff = diffs_.sequences[*diffs_.first];
      out_ << "\n"
           << Color(kBold) << "first divergence" << Color(kReset) << ": " << Place(diff.hunks.front()) << ", "
           << Title(diff) << "\n";
      WriteOutside(diff.hunks.front());
    }
    if (options_.summary) {
      if (differing_ > 0) out_ << "\n";
      for (const SequenceDiff& diff : diffs_.sequences) {
        if (!diff.different()) continue;
        out_ << Title(diff) << ": " << (IsLone(diff) ? OnlySide(diff) : Numbers(diff.counts)) << "\n";
      }
      return;
    }
    uint64_t left = hunks_shown_;
    for (const SequenceDiff& diff : diffs_.sequences) {
      if (!diff.different()) continue;
      out_ << "\n" << Color(kBold) << Title(diff) << Color(kReset) << ": ";
      if (IsLone(diff)) {
        out_ << OnlySide(diff) << "\n";
        continue;
      }
      out_ << Numbers(diff.counts) << "\n";
      const size_t shown = HunksShown(diff, &left);
      for (size_t i = 0; i < shown; ++i) WriteHunk(diff.hunks[i], options_.color);
      if (shown < diff.hunk_count) {
        out_ << "... and " << Counted(diff.hunk_count - shown, "hunk", "hunks") << " more (--max-hunks)\n";
      }
    }
  }

  static bool IsLone(const SequenceDiff& diff) { return diff.a_thread.empty() || diff.b_thread.empty(); }

  ordered_json OutsideJson(const Hunk& hunk) const {
    ordered_json json = ordered_json::array();
    for (const OuterCall& call : hunk.outside) {
      json.push_back(ordered_json{{"call", call.call}, {"config", OuterText(hunk, call)}});
    }
    return json;
  }

  static ordered_json CallJson(uint64_t call) { return call == kNoCall ? ordered_json() : ordered_json(call); }

  ordered_json FirstJson() const {
    if (!diffs_.first.has_value()) return nullptr;
    const Hunk& hunk = diffs_.sequences[*diffs_.first].hunks.front();
    const Divergence at = DivergenceOf(hunk);
    return {{"sequence", *diffs_.first},
            {"a_call", CallJson(at.a_call)},
            {"b_call", CallJson(at.b_call)},
            {"inside", OutsideJson(hunk)},
            {"inside_of", hunk.outside_is_of_a ? "a" : "b"}};
  }

  ordered_json LineJson(const HunkLine& line) const {
    ordered_json json = {{"change", WordsOf(line.kind).name}, {"depth", DepthOf(line)}};
    if (line.kind != RunKind::kAdded) json["a_call"] = line.a_place.call;
    if (line.kind != RunKind::kRemoved) json["b_call"] = line.b_place.call;
    if (line.kind == RunKind::kChanged) {
      json["a"] = configs_.Text(line.a);
      json["b"] = configs_.Text(line.b);
    } else {
      json["config"] = LineText(line, false);
    }
    return json;
  }

  ordered_json HunkJson(const Hunk& hunk) const {
    ordered_json lines = ordered_json::array();
    for (const HunkLine& line : hunk.lines) lines.push_back(LineJson(line));
    return {{"a_first", hunk.a_first},     {"a_count", hunk.a_count},
            {"b_first", hunk.b_first},     {"b_count", hunk.b_count},
            {"inside", OutsideJson(hunk)}, {"inside_of", hunk.outside_is_of_a ? "a" : "b"},
            {"lines", std::move(lines)},   {"lines_left_out", hunk.lines_left_out}};
  }

  static void AddCounts(const RunCounts& counts, ordered_json* json) {
    for (size_t i = 0; i < counts.size(); ++i) (*json)[kRunWords[i].name] = counts[i];
  }

  ordered_json SequenceJson(const SequenceDiff& diff) const {
    const auto thread = [](const std::string& name) { return name.empty() ? ordered_json() : ordered_json(name); };
    ordered_json json = {{"a_thread", thread(diff.a_thread)}, {"b_thread", thread(diff.b_thread)}};
    json["level"] = diff.level == CallSequence::kAllLevels ? ordered_json() : ordered_json(diff.level);
    json["a_calls"] = diff.a_calls;
    json["b_calls"] = diff.b_calls;
    AddCounts(diff.counts, &json);
    json["hunks_found"] = diff.hunk_count;
    return json;
  }

  void WriteJson() {
    ordered_json summary = ordered_json::object();
    AddCounts(diffs_.counts, &summary);
    summary["hunks"] = diffs_.hunk_count;
    summary["sequences"] = diffs_.sequences.size();
    summary["sequences_that_differ"] = differing_;
    const auto side = [](const std::string& name, uint64_t calls) {
      return DumpJson(ordered_json{{"trace", name}, {"calls", calls}});
    };
    out_ << "{\n  \"different\": " << (diffs_.different() ? "true" : "false")
         << ",\n  \"ignored\": " << DumpJson(ordered_json(options_.ignored))
         << ",\n  \"shortest\": " << (diffs_.shortest ? "true" : "false")
         << ",\n  \"a\": " << side(options_.a_name, a_calls_) << ",\n  \"b\": " << side(options_.b_name, b_calls_)
         << ",\n  \"summary\": " << DumpJson(summary) << ",\n  \"first_divergence\": " << DumpJson(FirstJson())
         << ",\n  \"sequences\": [";
    uint64_t left = hunks_shown_;
    const char* separator = "\n    ";
    for (const SequenceDiff& diff : diffs_.sequences) {
      std::string json = DumpJson(SequenceJson(diff));
      json.pop_back();
      out_ << separator << json;
      separator = ",\n    ";
      if (diff.different() && !options_.summary) {
        out_ << ", \"hunks\": [";
        const size_t shown = HunksShown(diff, &left);
        for (size_t i = 0; i < shown; ++i)
          out_ << (i == 0 ? "\n      " : ",\n      ") << DumpJson(HunkJson(diff.hunks[i]));
        out_ << "]";
      }
      out_ << "}";
    }
    out_ << (diffs_.sequences.empty() ? "]\n}\n" : "\n  ]\n}\n");
  }

  void WriteMarkdown() {
    out_ << "# torchtrace diff --sequence\n\n| | A | B |\n|---|---|---|\n| trace | " << MarkdownCode(options_.a_name)
         << " | " << MarkdownCode(options_.b_name) << " |\n| calls | " << a_calls_ << " | " << b_calls_ << " |\n";
    if (!options_.ignored.empty()) out_ << "\nIgnored: " << absl::StrJoin(options_.ignored, ", ") << ".\n";
    out_ << "\n" << Total() << ".\n";
    if (diffs_.first.has_value()) {
      const SequenceDiff& diff = diffs_.sequences[*diffs_.first];
      out_ << "\n## First divergence\n\n" << Place(diff.hunks.front()) << ", " << Title(diff) << "\n";
      for (const OuterCall& call : diff.hunks.front().outside) {
        out_ << "- inside " << call.call << " " << MarkdownCode(OuterText(diff.hunks.front(), call)) << "\n";
      }
    }
    uint64_t left = hunks_shown_;
    for (const SequenceDiff& diff : diffs_.sequences) {
      if (!diff.different()) continue;
      out_ << "\n## " << Title(diff) << "\n\n" << (IsLone(diff) ? OnlySide(diff) : Numbers(diff.counts)) << "\n";
      if (options_.summary || IsLone(diff)) continue;
      const size_t shown = HunksShown(diff, &left);
      if (shown > 0) {
        // No line can end the code block: each starts with its mark.
        out_ << "\n```diff\n";
        for (size_t i = 0; i < shown; ++i) WriteHunk(diff.hunks[i], /*color=*/false);
        out_ << "```\n";
      }
      if (shown < diff.hunk_count) {
        out_ << "\n... and " << Counted(diff.hunk_count - shown, "hunk", "hunks") << " more\n";
      }
    }
  }

  const SequenceDiffs diffs_;
  const CommonConfigs& configs_;
  const Trace& a_;
  const Trace& b_;
  const DiffOptions& options_;
  const uint64_t hunks_shown_;  // of all sequences together
  std::ostream& out_;
  uint64_t a_calls_ = 0;
  uint64_t b_calls_ = 0;
  uint64_t differing_ = 0;
};

}  // namespace

absl::StatusOr<bool> WriteSequenceDiff(Trace* a, Trace* b, const DiffOptions& options,
                                       const SequenceOptions& sequence_options, std::ostream* out) {
  CommonConfigs configs;
  absl::StatusOr<SequenceDiffs> diffs = CompareSequences(a, b, options.scope, sequence_options, &configs);
  if (!diffs.ok()) return diffs.status();
  for (const auto& [trace, name] : {std::pair(a, &options.a_name), std::pair(b, &options.b_name)}) {
    if (const uint64_t counted = CountOnlyCounted(*trace); counted > 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          *name, ": ", CountedCalls(counted), "; without --sequence, diff compares their configs and counts"));
    }
  }
  return SequenceReport(*std::move(diffs), configs, *a, *b, options, sequence_options.max_hunks, out).Write();
}

}  // namespace torchtrace
