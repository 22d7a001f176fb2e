#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/base/text.h"
#include "serialize/diff/config_diff.h"
#include "serialize/diff/gates.h"
#include "serialize/diff/reports.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

struct ChangeWords {
  const char* name;  // in JSON and Markdown
  const char* past;  // after a number
  char mark;
  const char* color;
};
// In Change's order.
constexpr ChangeWords kChangeWords[kChanges] = {
    {"removed", "removed", '-', kRed},
    {"added", "added", '+', kGreen},
    {"changed", "changed", '~', kYellow},
    {"count", "changed in count", '~', kYellow},
};

const ChangeWords& WordsOf(Change change) { return kChangeWords[static_cast<size_t>(change)]; }

using ChangeCounts = std::array<uint64_t, kChanges>;

template <typename Row>
ChangeCounts CountChanges(const std::vector<Row>& rows) {
  ChangeCounts counts = {};
  for (const Row& row : rows) ++counts[static_cast<size_t>(row.change)];
  return counts;
}

// For keeping the top rows: the number of calls.
template <typename Row>
uint64_t Weight(const Row& row) {
  const uint64_t more = std::max(row.a_calls, row.b_calls);
  return row.change == Change::kCount ? more - std::min(row.a_calls, row.b_calls) : more;
}

// A difference, and whether the common changes explain all of it.
template <typename Difference>
struct ReportRow : Difference {
  bool explained = false;
};

// Unexplained rows come first.
template <typename Difference>
std::vector<ReportRow<Difference>> MakeRows(const std::vector<Difference>& differences,
                                            const std::vector<bool>& explained) {
  std::vector<ReportRow<Difference>> rows;
  rows.reserve(differences.size());
  for (size_t i = 0; i < differences.size(); ++i) rows.push_back({differences[i], explained[i]});
  std::stable_partition(rows.begin(), rows.end(), [](const auto& row) { return !row.explained; });
  return rows;
}

const char* NameOf(CommonChange::Kind kind) {
  // In Kind's order.
  static constexpr const char* kNames[] = {"batch", "size", "dtype", "device", "value", "calls"};
  return kNames[static_cast<size_t>(kind)];
}

// Keeps the `top` heaviest; returns how many it left out.
template <typename Row>
uint64_t KeepTop(uint64_t top, std::vector<Row>* rows) {
  if (top == 0) return 0;
  std::stable_sort(rows->begin(), rows->end(), [](const Row& x, const Row& y) { return Weight(x) > Weight(y); });
  if (rows->size() <= top) return 0;
  const uint64_t left_out = rows->size() - top;
  rows->erase(rows->begin() + static_cast<ptrdiff_t>(top), rows->end());
  return left_out;
}

template <typename Row>
std::string CallsOf(const Row& row) {
  if (row.change == Change::kRemoved) return std::to_string(row.a_calls);
  if (row.change == Change::kAdded) return std::to_string(row.b_calls);
  if (row.a_calls == row.b_calls) return std::to_string(row.a_calls);
  return absl::StrCat(row.a_calls, " -> ", row.b_calls);
}

class ConfigReport {
 public:
  ConfigReport(const ConfigDiff& diff, const CommonConfigs& configs, const DiffOptions& options,
               const GateResults& gates, std::ostream* out)
      : diff_(diff),
        configs_(configs),
        options_(options),
        gates_(gates),
        out_(*out),
        different_(diff_.different()),
        api_counts_(CountChanges(diff_.apis)),
        config_counts_(CountChanges(diff_.configs)) {
    ChangeSummary summary = SummarizeChanges(diff_, configs_);
    changes_ = std::move(summary.changes);
    apis_ = MakeRows(diff_.apis, summary.explains_api);
    config_rows_ = MakeRows(diff_.configs, summary.explains_config);
    apis_left_out_ = KeepTop(options.top, &apis_);
    configs_left_out_ = KeepTop(options.top, &config_rows_);
  }

  bool Write() {
    switch (options_.format) {
      case DiffFormat::kText:
        if (different_ || options_.summary) WriteText();
        WriteGatesText(gates_, options_.color, &out_);
        break;
      case DiffFormat::kJson:
        WriteJson();
        break;
      case DiffFormat::kMarkdown:
        WriteMarkdown();
        break;
      case DiffFormat::kJunit:
        WriteGatesJunit(gates_, options_.a_name, options_.b_name, &out_);
        break;
    }
    out_.flush();
    return different_;
  }

 private:
  const char* Color(const char* code) const { return options_.color ? code : ""; }

  int LevelOf(const ConfigDifference& row) const {
    return configs_.head(row.a != CommonConfigs::kLeftOut ? row.a : row.b).level;
  }
  static int LevelOf(const ApiDifference& row) { return row.level; }
  // kAnyLevel: levels are ignored.
  static std::string LevelText(int level) { return level == kAnyLevel ? "*" : std::to_string(level); }
  static ordered_json LevelJson(int level) { return level == kAnyLevel ? ordered_json() : ordered_json(level); }

  // `1 removed, 2 added, 3 the same`
  static std::string Numbers(const ChangeCounts& counts, uint64_t same) {
    std::string numbers;
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > 0) absl::StrAppend(&numbers, counts[i], " ", kChangeWords[i].past, ", ");
    }
    return absl::StrCat(numbers, same, " the same");
  }

  static std::string Totals(const SideTotals& side) {
    return absl::StrCat(Counted(side.calls, "call", "calls"), " of ", Counted(side.apis, "API", "APIs"), " in ",
                        Counted(side.configs, "config", "configs"));
  }

  std::string Line(const ConfigDifference& row, bool color) const {
    if (row.change != Change::kChanged) {
      return configs_.Text(row.a != CommonConfigs::kLeftOut ? row.a : row.b);
    }
    return FormatPieces(
        CompareTexts(ReadableConfig(configs_.identity(row.a)), ReadableConfig(configs_.identity(row.b))), color);
  }
  static std::string Line(const ApiDifference& row, bool /*color*/) { return FormatApi(row.api); }

  // `batch 2 -> 4 in 312 configs of 45 APIs (256 -> 512 in 40)`
  std::string ChangeText(const CommonChange& change) const {
    std::string text;
    if (change.kind == CommonChange::kCalls) {
      text = absl::StrCat("calls x", change.b, change.a == "1" ? "" : absl::StrCat("/", change.a));
    } else {
      text = absl::StrCat(NameOf(change.kind), " ", PlainLine(change.a), " -> ", PlainLine(change.b));
    }
    absl::StrAppend(&text, " in ", Counted(change.configs, "config", "configs"), " of ",
                    Counted(change.apis, "API", "APIs"));
    constexpr size_t kShownMultiples = 3;
    std::string multiples;
    for (size_t i = 0; i < std::min(change.multiples.size(), kShownMultiples); ++i) {
      const CommonChange::Multiple& multiple = change.multiples[i];
      absl::StrAppend(&multiples, i == 0 ? "" : ", ", multiple.a, " -> ", multiple.b, " in ", multiple.configs);
    }
    if (change.multiples.size() > kShownMultiples) multiples += ", ...";
    return multiples.empty() ? text : absl::StrCat(text, " (", multiples, ")");
  }

  // How many rows of each kind fit: all, or else only unexplained ones; APIs get a third of the room, or what the
  // configs leave.
  struct Room {
    size_t apis;
    size_t configs;
  };
  Room FindRoom() const {
    const uint64_t room = options_.max_rows;
    if (room == 0 || apis_.size() + config_rows_.size() <= room) return {apis_.size(), config_rows_.size()};
    const auto unexplained = [](const auto& rows) {
      return static_cast<size_t>(
          std::count_if(rows.begin(), rows.end(), [](const auto& row) { return !row.explained; }));
    };
    const size_t apis = unexplained(apis_), configs = unexplained(config_rows_);
    const size_t shown = std::min<size_t>(apis, std::max(room / 3, room - std::min<uint64_t>(room, configs)));
    return {shown, std::min<size_t>(configs, room - shown)};
  }

  // Writes the first `shown` rows.
  template <typename Row>
  void WriteRows(const std::vector<Row>& all, size_t shown, uint64_t left_out) {
    const std::vector<Row> rows(all.begin(), all.begin() + static_cast<ptrdiff_t>(shown));
    size_t width = 0;
    bool levels = false;
    for (const Row& row : rows) {
      width = std::max(width, CallsOf(row).size());
      levels = levels || LevelOf(row) != LevelOf(rows.front());
    }
    for (const Row& row : rows) {
      const std::string calls = CallsOf(row);
      const ChangeWords& words = WordsOf(row.change);
      out_ << Color(words.color) << words.mark << "  " << std::string(width - calls.size(), ' ') << calls;
      if (levels) out_ << "  level " << LevelText(LevelOf(row));
      // The line of a changed config has its own colours.
      const bool own = row.change == Change::kChanged || row.change == Change::kCount;
      out_ << "  " << (own ? Color(kReset) : "") << Line(row, options_.color) << (own ? "" : Color(kReset)) << "\n";
    }
    if (left_out > 0) out_ << "... and " << left_out << " more\n";
    if (shown == all.size()) return;
    const auto explained = static_cast<size_t>(std::count_if(all.begin() + static_cast<ptrdiff_t>(shown), all.end(),
                                                             [](const Row& row) { return row.explained; }));
    const size_t more = all.size() - shown - explained;
    out_ << "... and ";
    if (more > 0) out_ << more << " more" << (explained > 0 ? ", and " : "");
    if (explained > 0)
      out_ << explained << " that " << (changes_.size() == 1 ? "this change explains" : "these changes explain");
    out_ << "; --all shows them\n";
  }

  void WriteText() {
    const std::string a_name = PlainLine(options_.a_name), b_name = PlainLine(options_.b_name);
    const size_t width = std::max(a_name.size(), b_name.size());
    const auto side = [&](const char* mark, const char* color, const std::string& name, const SideTotals& totals) {
      out_ << Color(color) << mark << " " << name << Color(kReset) << std::string(width - name.size(), ' ') << "  "
           << Totals(totals) << "\n";
    };
    side("---", kRed, a_name, diff_.a);
    side("+++", kGreen, b_name, diff_.b);
    if (!options_.ignored.empty()) out_ << "ignored: " << absl::StrJoin(options_.ignored, ", ") << "\n";
    if (!changes_.empty()) out_ << "\n";
    for (const CommonChange& change : changes_) out_ << Color(kYellow) << ChangeText(change) << Color(kReset) << "\n";
    const Room room = FindRoom();
    out_ << "\n" << Color(kBold) << "APIs" << Color(kReset) << ": " << Numbers(api_counts_, diff_.same_apis) << "\n";
    if (!options_.summary) {
      WriteRows(apis_, room.apis, apis_left_out_);
      out_ << "\n";
    }
    out_ << Color(kBold) << "configs" << Color(kReset) << ": " << Numbers(config_counts_, diff_.same_configs) << "\n";
    if (!options_.summary) WriteRows(config_rows_, room.configs, configs_left_out_);
  }

  static ordered_json SideJson(const std::string& name, const SideTotals& totals) {
    return {{"trace", name}, {"calls", totals.calls}, {"apis", totals.apis}, {"configs", totals.configs}};
  }

  static ordered_json ChangeJson(const CommonChange& change) {
    ordered_json json = {{"what", NameOf(change.kind)},
                         {"a", change.a},
                         {"b", change.b},
                         {"configs", change.configs},
                         {"apis", change.apis}};
    if (change.multiples.empty()) return json;
    json["multiples"] = ordered_json::array();
    for (const CommonChange::Multiple& multiple : change.multiples) {
      json["multiples"].push_back({{"a", multiple.a}, {"b", multiple.b}, {"configs", multiple.configs}});
    }
    return json;
  }

  ordered_json RowJson(const ReportRow<ApiDifference>& row) const {
    ordered_json json = {{"change", WordsOf(row.change).name},
                         {"level", LevelJson(row.level)},
                         {"api", row.api},
                         {"a_calls", row.a_calls},
                         {"b_calls", row.b_calls}};
    if (row.explained) json["explained"] = true;
    return json;
  }

  ordered_json RowJson(const ReportRow<ConfigDifference>& row) const {
    const uint32_t symbol = row.a != CommonConfigs::kLeftOut ? row.a : row.b;
    const ConfigHead head = configs_.head(symbol);
    ordered_json json = {{"change", WordsOf(row.change).name},
                         {"level", LevelJson(head.level)},
                         {"api", std::string(head.api)},
                         {"a_calls", row.a_calls},
                         {"b_calls", row.b_calls}};
    if (row.explained) json["explained"] = true;
    const std::string a = row.a != CommonConfigs::kLeftOut ? configs_.Text(row.a) : "";
    const std::string b = row.b != CommonConfigs::kLeftOut ? configs_.Text(row.b) : "";
    if (!a.empty()) json["a"] = a;
    if (!b.empty()) json["b"] = b;
    if (row.change == Change::kChanged) {
      json["differences"] = ordered_json::array();
      for (const TextPiece& piece :
           CompareTexts(ReadableConfig(configs_.identity(row.a)), ReadableConfig(configs_.identity(row.b)))) {
        if (!piece.same) json["differences"].push_back({{"a", piece.before}, {"b", piece.after}});
      }
    }
    return json;
  }

  template <typename Row>
  void WriteJsonRows(const char* name, const std::vector<Row>& rows) {
    out_ << ",\n  \"" << name << "\": [";
    const char* separator = "\n    ";
    for (const Row& row : rows) {
      out_ << separator << DumpJson(RowJson(row));
      separator = ",\n    ";
    }
    out_ << (rows.empty() ? "]" : "\n  ]");
  }

  static ordered_json CountsJson(const ChangeCounts& counts, uint64_t same, bool configs) {
    ordered_json json = ordered_json::object();
    for (size_t i = 0; i < counts.size(); ++i) {
      if (configs || static_cast<Change>(i) != Change::kChanged) json[kChangeWords[i].name] = counts[i];
    }
    json["same"] = same;
    return json;
  }

  void WriteJson() {
    const ordered_json summary = {{"apis", CountsJson(api_counts_, diff_.same_apis, false)},
                                  {"configs", CountsJson(config_counts_, diff_.same_configs, true)}};
    out_ << "{\n  \"different\": " << (different_ ? "true" : "false")
         << ",\n  \"ignored\": " << DumpJson(ordered_json(options_.ignored))
         << ",\n  \"a\": " << DumpJson(SideJson(options_.a_name, diff_.a))
         << ",\n  \"b\": " << DumpJson(SideJson(options_.b_name, diff_.b)) << ",\n  \"summary\": " << DumpJson(summary)
         << ",\n  \"changes\": [";
    const char* separator = "\n    ";
    for (const CommonChange& change : changes_) {
      out_ << std::exchange(separator, ",\n    ") << DumpJson(ChangeJson(change));
    }
    out_ << (changes_.empty() ? "]" : "\n  ]");
    if (!options_.summary) {
      WriteJsonRows("apis", apis_);
      WriteJsonRows("configs", config_rows_);
      out_ << ",\n  \"left_out\": {\"apis\": " << apis_left_out_ << ", \"configs\": " << configs_left_out_ << "}";
    }
    if (!gates_.gates.empty()) {
      out_ << ",\n  \"gates\": " << DumpJson(GatesJson(gates_))
           << ",\n  \"incomplete\": " << DumpJson(IncompleteJson(gates_));
    }
    out_ << "\n}\n";
  }

  template <typename Row>
  void WriteMarkdownRows(const char* what, const std::vector<Row>& rows, uint64_t left_out) {
    if (rows.empty()) return;
    out_ << "\n| | level | calls in A | calls in B | " << what << " |\n|---|---:|---:|---:|---|\n";
    for (const Row& row : rows) {
      out_ << "| " << WordsOf(row.change).name << " | " << LevelText(LevelOf(row)) << " | " << row.a_calls << " | "
           << row.b_calls << " | " << MarkdownCode(Line(row, false)) << " |\n";
    }
    if (left_out > 0) out_ << "\n... and " << left_out << " more\n";
  }

  void WriteMarkdown() {
    out_ << "# torchtrace diff\n";
    WriteGatesMarkdown(gates_, &out_);
    out_ << "\n| | A | B |\n|---|---|---|\n| trace | " << MarkdownCode(options_.a_name) << " | "
         << MarkdownCode(options_.b_name) << " |\n| calls | " << diff_.a.calls << " | " << diff_.b.calls
         << " |\n| APIs | " << diff_.a.apis << " | " << diff_.b.apis << " |\n| configs | " << diff_.a.configs << " | "
         << diff_.b.configs << " |\n";
    if (!options_.ignored.empty()) out_ << "\nIgnored: " << absl::StrJoin(options_.ignored, ", ") << ".\n";
    if (!changes_.empty()) out_ << "\n";
    for (const CommonChange& change : changes_) out_ << "- " << MarkdownCode(ChangeText(change)) << "\n";
    out_ << "\n## APIs\n\n" << Numbers(api_counts_, diff_.same_apis) << "\n";
    if (!options_.summary) WriteMarkdownRows("API", apis_, apis_left_out_);
    out_ << "\n## Configs\n\n" << Numbers(config_counts_, diff_.same_configs) << "\n";
    if (!options_.summary) WriteMarkdownRows("config", config_rows_, configs_left_out_);
  }

  const ConfigDiff& diff_;
  const CommonConfigs& configs_;
  const DiffOptions& options_;
  const GateResults& gates_;
  std::ostream& out_;
  const bool different_;
  const ChangeCounts api_counts_;
  const ChangeCounts config_counts_;
  std::vector<CommonChange> changes_;
  std::vector<ReportRow<ApiDifference>> apis_;
  std::vector<ReportRow<ConfigDifference>> config_rows_;
  uint64_t apis_left_out_ = 0;
  uint64_t configs_left_out_ = 0;
};

// Keeps the rows of these parts. A pair of similar configs is a removed and an added one where changed ones aren't
// shown.
void KeepParts(const DiffParts& parts, ConfigDiff* diff) {
  if (parts.all()) return;
  std::vector<ConfigDifference> configs;
  for (const ConfigDifference& row : diff->configs) {
    if (row.change == Change::kChanged && !parts.changed) {
      if (parts.removed) configs.push_back({Change::kRemoved, row.a, CommonConfigs::kLeftOut, row.a_calls, 0});
      if (parts.added) configs.push_back({Change::kAdded, CommonConfigs::kLeftOut, row.b, 0, row.b_calls});
    } else if (parts.Shows(row.change == Change::kRemoved, row.change == Change::kAdded)) {
      configs.push_back(row);
    }
  }
  diff->configs = std::move(configs);
  std::erase_if(diff->apis, [&parts](const ApiDifference& row) {
    return !parts.Shows(row.change == Change::kRemoved, row.change == Change::kAdded);
  });
}

}  // namespace

absl::StatusOr<bool> WriteConfigDiff(Trace* a, Trace* b, const DiffOptions& options, std::ostream* out) {
  CommonConfigs configs;
  absl::StatusOr<ConfigDiff> diff = CompareConfigs(a, b, options.scope, options.compare_counts, &configs);
  if (!diff.ok()) return diff.status();
  GateResults gates;
  if (absl::Status s = CheckConfigGates(options.gates, *diff, configs, &gates); !s.ok()) return s;
  FindIncomplete({a, options.a_name}, {b, options.b_name}, &gates);
  KeepParts(options.only, &*diff);
  const bool different = ConfigReport(*diff, configs, options, gates, out).Write();
  return gates.gates.empty() ? different : gates.fired();
}

}  // namespace torchtrace
