#include "serialize/report/trace_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/text.h"
#include "serialize/forms/call_labels.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/model/config.h"
#include "serialize/model/value.h"
#include "serialize/reports/shapes.h"
#include "serialize/reports/stats_places.h"
#include "serialize/reports/stats_rows.h"
#include "serialize/trace/step_times.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

// A table of the page and the rows of stats that it shows.
struct Listing {
  const char* table;
  StatsBy by;
};
constexpr Listing kListings[] = {{"apis", StatsBy::kApi},      {"configs", StatsBy::kConfig},
                                 {"shapes", StatsBy::kShapes}, {"modules", StatsBy::kModule},
                                 {"lines", StatsBy::kLine},    {"steps", StatsBy::kStep}};

struct ConfigKinds {
  std::vector<uint32_t> dtypes, dims, devices;
};

class TablesReader {
 public:
  explicit TablesReader(const std::vector<StatsTrace>& traces) : traces_(traces) {
    for (const Listing& listing : kListings) {
      Rows& rows = rows_.emplace_back();
      rows.table.name = listing.table;
      rows.table.in_order = listing.by == StatsBy::kStep;
      if (listing.by == StatsBy::kStep) rows.table.weight = "wall_ns";
    }
  }

  absl::StatusOr<TraceTables> Read() {
    result_.totals.resize(traces_.size());
    rows_of_config_.resize(traces_.size());
    for (size_t i = 0; i < std::size(kListings); ++i) {
      for (size_t trace = 0; trace < traces_.size(); ++trace) {
        if (absl::Status s = ReadRows(kListings[i], trace, &rows_[i]); !s.ok()) return s;
      }
      if (kListings[i].by == StatsBy::kLine && traces_.size() > 1) MatchLines(&rows_[i]);
      if (kListings[i].by == StatsBy::kStep) SortSteps(&rows_[i].table);
    }
    for (size_t trace = 0; trace < traces_.size(); ++trace) {
      if (absl::Status s = GatherFacets(trace); !s.ok()) return s;
    }
    AddFacets();
    for (Rows& rows : rows_) {
      if (traces_.size() > 1) rows.table.MakeBoth();
      if (rows.table.rows() > 0) result_.tables.push_back(std::move(rows.table));
    }
    return std::move(result_);
  }

 private:
  static constexpr size_t kApis = 0, kConfigs = 1, kShapes = 2, kModules = 3, kLines = 4, kSteps = 5;
  static constexpr size_t kSetFacets = 7;  // those of PageFacets that are sets come first

  // What the calls of a row have.
  using RowFacets = std::array<std::vector<uint32_t>, kSetFacets>;

  struct Rows {
    PageTable table;
    std::map<std::pair<int, std::string>, uint32_t> numbers;  // by level and text
    std::vector<RowFacets> facets;
    std::vector<std::string> of_row;                    // api, or file of a line
    std::vector<std::pair<std::string, double>> place;  // of a line: file and function, and number
    std::vector<uint8_t> in_traces;                     // bits
    std::vector<double> order;                          // of a step
    std::vector<uint32_t> moved, moved_into;            // rows that became another's, and these
  };

  // Whether a trace has none of what rows are by.
  static bool HasNone(const absl::Status& status, StatsBy by) {
    return (by == StatsBy::kModule || by == StatsBy::kLine || by == StatsBy::kStep || by == StatsBy::kShapes) &&
           (absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status));
  }

  static uint32_t RowOf(int level, const std::string& text, Rows* rows) {
    const auto [at, fresh] = rows->numbers.try_emplace({level, text}, static_cast<uint32_t>(rows->table.rows()));
    if (fresh) {
      rows->table.AddRow(PageText(text));
      rows->facets.emplace_back();
      rows->of_row.emplace_back();
      rows->place.emplace_back();
      rows->in_traces.push_back(0);
      rows->order.push_back(HUGE_VAL);
    }
    return at->second;
  }

  // In place of the level of places. Lines of B are matched later (MatchLines).
  static int PlacesLevel(StatsBy by, size_t trace) { return by == StatsBy::kLine ? -1 - static_cast<int>(trace) : -1; }

  bool HasNumbers(size_t trace) const {
    const std::vector<ProcessInfo>& processes = traces_[trace].trace->processes();
    return std::any_of(processes.begin(), processes.end(), [](const ProcessInfo& each) { return each.known.numbers; });
  }

  // Whether the trace may have such rows, as far as that shows without reading it.
  static bool MayHave(StatsBy by, Trace* trace) {
    if (by == StatsBy::kLine) return HasStacks(*trace);
    if (by == StatsBy::kStep) {
      const std::vector<ProcessInfo>& processes = trace->processes();
      return std::any_of(processes.begin(), processes.end(),
                         [](const ProcessInfo& each) { return !each.closed || TellsOfSteps(each.known); });
    }
    if (by != StatsBy::kModule) return true;
    for (ConfigId id = 0; id < trace->config_count(); ++id) {
      if (!ModuleLabelOf(trace->identity(id)).empty()) return true;
    }
    return false;
  }

  absl::Status ReadRows(const Listing& listing, size_t number, Rows* rows) {
    if (!MayHave(listing.by, traces_[number].trace)) return absl::OkStatus();
    const std::vector<StatsTrace> traces = {traces_[number]};
    StatsOptions options;
    options.grouping.by = listing.by;
    options.format = StatsFormat::kJson;
    options.sort = StatsSort::kName;
    options.top = 0;
    options.shape_rules = &rules_;
    options.numbers = listing.by == StatsBy::kApi && HasNumbers(number);
    const absl::StatusOr<std::unique_ptr<const StatsTable>> read = ReadStats(traces, options);
    if (!read.ok()) return HasNone(read.status(), listing.by) ? absl::OkStatus() : read.status();
    const StatsTable& stats = **read;
    if (listing.by == StatsBy::kApi) AddTotals(stats, &result_.totals[number]);
    for (const std::string& note : stats.notes) AddNote(note);
    const StackText stack_text(*traces_[number].trace);
    std::set<std::string_view> long_steps;
    for (const StatsTable::LongStep& step : stats.long_steps) long_steps.insert(step.name);
    const std::string prefix = number == 0 ? "" : "b_";
    for (const StatsRow& row : stats.rows) {
      const int level = stats.grouping->by_level ? row.level : PlacesLevel(listing.by, number);
      const uint32_t at = RowOf(level, row.text_label, rows);
      if (!row.identity.empty()) rows_of_config_[number][row.identity] = at;
      rows->in_traces[at] |= 1 << number;
      SetMeasures(stats, row.all, prefix, at, options.numbers, &rows->table);
      Describe(listing.by, row, stack_text, at, rows);
      if (listing.by == StatsBy::kStep && long_steps.contains(row.text_label)) rows->table.Set("odd", at, 1);
    }
    if (listing.by == StatsBy::kStep) {
      const std::string line = StepsLine(stats);
      if (!line.empty()) {
        absl::StrAppend(&rows->table.about, rows->table.about.empty() ? "" : "; ",
                        traces_.size() == 1 ? ""
                        : number == 0       ? "A: "
                                            : "B: ",
                        line);
      }
    }
    return absl::OkStatus();
  }

  void AddNote(const std::string& note) {
    std::vector<std::string>& notes = result_.notes;
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  }

  static ordered_json Known(bool known, double amount) { return known ? AmountJson(amount) : ordered_json(); }

  static void AddTotals(const StatsTable& stats, ordered_json* totals) {
    const StatsTotals& all = stats.totals.all;
    *totals = {{"calls", all.calls}, {"apis", all.apis}, {"configs", all.configs}};
    const bool timed = stats.has_times && all.timed;
    if (timed) (*totals)["self_ns"] = std::max<int64_t>(all.self_time_ns, 0);
    if (stats.has_device) (*totals)["device_ns"] = all.device_ns;
    if (all.cost.sum.cost.flops.has_value()) (*totals)["flops"] = AmountJson(*all.cost.sum.cost.flops);
    if (all.cost.sum.cost.bytes.has_value()) (*totals)["bytes"] = AmountJson(*all.cost.sum.cost.bytes);
    ordered_json& levels = (*totals)["by_level"] = ordered_json::array();
    for (const auto& [level, of_level] : stats.levels) {
      const auto& flops = of_level.all.of_level.sum.cost.flops;
      levels.push_back({{"level", level},
                        {"calls", of_level.all.calls},
                        {"apis", of_level.all.apis},
                        {"configs", of_level.all.configs},
                        {"self_ns", Known(timed, static_cast<double>(std::max<int64_t>(of_level.all.self_time_ns, 0)))},
                        {"flops", Known(flops.has_value(), flops.value_or(0))}});
    }
  }

  static void SetMeasures(const StatsTable& stats, const StatsCells& cells, const std::string& prefix, uint32_t row,
                          bool numbers, PageTable* table) {
    const CallTotal& total = cells.total;
    const auto add = [&](const char* measure, bool known, double value) {
      if (known) {
        table->AddTo(prefix + measure, row, std::max(value, 0.0));
      } else {
        table->Set(prefix + measure, row, NAN);
      }
    };
    const auto time = [](int64_t ns) { return static_cast<double>(ns); };
    add("calls", true, static_cast<double>(total.calls));
    if (stats.grouping->configs) add("configs", true, static_cast<double>(cells.configs));
    if (stats.grouping->apis) add("apis", true, static_cast<double>(cells.apis));
    const StatsBy by = stats.grouping->by;
    if (by == StatsBy::kStep) add("wall_ns", cells.wall_ns.has_value(), time(cells.wall_ns.value_or(0)));
    if (stats.has_times) {
      add("time_ns", total.timed, time(total.time_ns));
      add("self_ns", total.timed, time(total.self_time_ns));
      if (by == StatsBy::kModule) {
        const bool divided = total.timed && cells.divided;
        add("forward_ns", divided, time(total.self_time_ns - total.backward_ns));
        add("backward_ns", divided, time(total.backward_ns));
      }
    }
    if (stats.has_device) add("device_ns", total.has_device, time(total.device_ns));
    if (stats.costs) {
      add("flops", cells.cost.flops.has_value(), cells.cost.flops.value_or(0));
      add("bytes", cells.cost.bytes.has_value(), cells.cost.bytes.value_or(0));
    }
    if (stats.memory) {
      const MemoryTotal memory = total.memory.All();
      add("allocated_bytes", total.has_memory, static_cast<double>(memory.allocated));
      add("peak_bytes", total.has_memory, static_cast<double>(memory.peak));
      add("held_bytes", total.has_memory, static_cast<double>(memory.held));
    }
    if (total.raised > 0) add("raised", true, static_cast<double>(total.raised));
    if (numbers && total.numbers.calls > 0) {
      const NumberExtremes& extremes = total.numbers;
      table->SetKnown(prefix + "calls_with_nan", row, static_cast<double>(extremes.calls_with_nan));
      table->SetKnown(prefix + "calls_with_inf", row, static_cast<double>(extremes.calls_with_inf));
      const auto set = [&](const char* measure, double value) {
        table->SetKnown(prefix + measure, row, extremes.finite() ? value : NAN);
      };
      set("least", extremes.least);
      set("most", extremes.most);
      set("largest_norm", extremes.norm);
    }
  }

  // What a row's labels say that its text doesn't.
  void Describe(StatsBy by, const StatsRow& row, const StackText& stack_text, uint32_t at, Rows* rows) {
    const auto text = [&row](size_t label) {
      const ordered_json& value = row.labels[label].value;
      return value.is_string() ? value.get<std::string>() : std::string();
    };
    switch (by) {
      case StatsBy::kConfig:
        rows->of_row[at] = FormatApi(text(1));
        break;
      case StatsBy::kShapes:
        rows->of_row[at] = FormatApi(text(0));
        AddValue(kShapes, at, "dtype", text(2));
        break;
      case StatsBy::kLine: {
        const ordered_json& number = row.labels[1].value;
        const double line = number.is_number() ? number.get<double>() : 0;
        rows->of_row[at] = text(0).empty() ? "" : stack_text.File(text(0));
        rows->place[at] = {absl::StrCat(rows->of_row[at], "\n", text(2)), line};
        rows->table.Set("number", at, line);
        break;
      }
      case StatsBy::kStep:
        rows->order[at] = std::min(rows->order[at], row.number.value_or(HUGE_VAL));
        break;
      default:
        break;
    }
    if (row.level >= 0 && by != StatsBy::kLine && by != StatsBy::kModule && by != StatsBy::kStep) {
      AddValue(static_cast<size_t>(rows - rows_.data()), at, "level", std::to_string(row.level));
    }
  }

  void AddValue(size_t table, uint32_t row, const char* facet, const std::string& text) {
    if (text.empty()) return;
    const size_t kind = PageFacets::KindOf(facet);
    rows_[table].facets[row][kind].push_back(result_.facets.Value(kind, text));
  }

  // The lines of a function in both traces. Also if the file is in another folder.
  void MatchLines(Rows* rows) {
    MatchLines(rows, [](const std::string& place) { return place; });
    MatchLines(rows, [](const std::string& place) {
      const size_t folder = place.substr(0, place.find('\n')).rfind('/');
      return folder == std::string::npos ? place : place.substr(folder + 1);
    });
    DropMoved(rows);
  }

  // `key`: of a file and function, what is equal in both.
  static void MatchLines(Rows* rows, const std::function<std::string(const std::string&)>& key) {
    const std::set<uint32_t> moved(rows->moved.begin(), rows->moved.end());
    std::map<std::string, std::array<std::vector<uint32_t>, 2>> alone;
    for (uint32_t row = 0; row < rows->table.rows(); ++row) {
      if (rows->in_traces[row] != 3 && !moved.contains(row)) {
        alone[key(rows->place[row].first)][rows->in_traces[row] - 1].push_back(row);
      }
    }
    for (auto& [place, of_traces] : alone) {
      auto& [a, b] = of_traces;
      const auto by_number = [rows](uint32_t left, uint32_t right) {
        return rows->place[left].second < rows->place[right].second;
      };
      std::sort(a.begin(), a.end(), by_number);
      std::sort(b.begin(), b.end(), by_number);
      for (const auto& [line_a, line_b] : Pairs(a, b, *rows)) Merge(line_b, line_a, rows);
    }
  }

  // Of the lines of a function, by number: if the numbers are the same, these; else as many as possible that call as
  // often, as many APIs in as many configs, in the same order. If these have not moved, others of one number, too.
  static std::vector<std::pair<uint32_t, uint32_t>> Pairs(const std::vector<uint32_t>& a,
                                                          const std::vector<uint32_t>& b, const Rows& rows) {
    const auto number = [&rows](uint32_t row) { return rows.place[row].second; };
    std::vector<std::pair<uint32_t, uint32_t>> pairs;
    if (!std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](uint32_t left, uint32_t right) { return number(left) == number(right); })) {
      pairs = AlikePairs(a, b, rows.table);
    }
    if (!std::all_of(pairs.begin(), pairs.end(),
                     [&](const auto& pair) { return number(pair.first) == number(pair.second); })) {
      return pairs;
    }
    pairs.clear();
    for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
      if (number(a[i]) == number(b[k])) {
        pairs.emplace_back(a[i++], b[k++]);
      } else {
        number(a[i]) < number(b[k]) ? ++i : ++k;
      }
    }
    return pairs;
  }

  // Longest common subsequence.
  static std::vector<std::pair<uint32_t, uint32_t>> AlikePairs(const std::vector<uint32_t>& a,
                                                               const std::vector<uint32_t>& b, const PageTable& table) {
    std::vector<std::pair<uint32_t, uint32_t>> pairs;
    constexpr size_t kMostCells = 4'000'000;
    if (a.size() * b.size() > kMostCells) return pairs;
    const auto alike = [&table](uint32_t row_a, uint32_t row_b) {
      for (const char* const measure : {"calls", "configs", "apis"}) {
        const std::vector<double>* const of_a = table.Measure(measure);
        const std::vector<double>* const of_b = table.Measure(absl::StrCat("b_", measure));
        if (of_a == nullptr || of_b == nullptr || row_a >= of_a->size() || row_b >= of_b->size()) return false;
        if ((*of_a)[row_a] != (*of_b)[row_b]) return false;
      }
      return true;
    };
    const size_t width = b.size() + 1;
    std::vector<uint32_t> longest((a.size() + 1) * width);  // of what follows in both
    for (size_t i = a.size(); i-- > 0;) {
      for (size_t k = b.size(); k-- > 0;) {
        longest[i * width + k] = alike(a[i], b[k]) ? longest[(i + 1) * width + k + 1] + 1
                                                   : std::max(longest[(i + 1) * width + k], longest[i * width + k + 1]);
      }
    }
    for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
      if (alike(a[i], b[k])) {
        pairs.emplace_back(a[i++], b[k++]);
      } else if (longest[(i + 1) * width + k] >= longest[i * width + k + 1]) {
        ++i;
      } else {
        ++k;
      }
    }
    return pairs;
  }

  static void Merge(uint32_t from, uint32_t into, Rows* rows) {
    for (auto& [measure, column] : rows->table.measures) {
      if (measure.starts_with("b_") && from < column.size()) {
        column.resize(std::max<size_t>(column.size(), into + size_t{1}));
        column[into] = column[from];
      }
    }
    std::string& text = rows->table.texts[into];
    if (rows->place[from].second != rows->place[into].second) {
      const size_t in = std::min(text.find(" in "), text.size());
      text.insert(in, absl::StrCat(" (B: ", static_cast<uint64_t>(rows->place[from].second), ")"));
    }
    rows->in_traces[into] = 3;
    rows->moved.push_back(from);
    rows->moved_into.push_back(into);
  }

  static void DropMoved(Rows* rows) {
    if (rows->moved.empty()) return;
    const std::set<uint32_t> gone(rows->moved.begin(), rows->moved.end());
    std::vector<uint32_t> kept;
    for (uint32_t row = 0; row < rows->table.rows(); ++row) {
      if (!gone.contains(row)) kept.push_back(row);
    }
    std::map<uint32_t, uint32_t> now;
    for (uint32_t i = 0; i < kept.size(); ++i) now[kept[i]] = i;
    const auto keep = [&kept](auto* list) {
      auto all = std::move(*list);
      list->clear();
      for (const uint32_t row : kept)
        list->push_back(row < all.size() ? std::move(all[row]) : decltype(all[0] + all[0])());
    };
    for (auto& [measure, column] : rows->table.measures) keep(&column);
    keep(&rows->table.texts);
    keep(&rows->of_row);
    rows->facets.resize(kept.size());
    std::map<uint32_t, uint32_t> into;
    for (size_t i = 0; i < rows->moved.size(); ++i) into[rows->moved[i]] = rows->moved_into[i];
    for (auto& [key, number] : rows->numbers) {
      const auto at = into.find(number);
      number = now.at(at == into.end() ? number : at->second);
    }
  }

  // Of two traces: by their numbers.
  void SortSteps(PageTable* table) {
    const std::vector<double>& order = rows_[kSteps].order;
    std::vector<uint32_t> sorted(table->rows());
    for (uint32_t row = 0; row < sorted.size(); ++row) sorted[row] = row;
    std::stable_sort(sorted.begin(), sorted.end(), [&order](uint32_t a, uint32_t b) { return order[a] < order[b]; });
    std::vector<std::string> texts;
    for (const uint32_t row : sorted) texts.push_back(std::move(table->texts[row]));
    table->texts = std::move(texts);
    for (auto& [measure, column] : table->measures) {
      column.resize(sorted.size());
      std::vector<double> values;
      for (const uint32_t row : sorted) values.push_back(column[row]);
      column = std::move(values);
    }
  }

  const ConfigKinds& KindsOf(std::string_view identity) {
    const auto [at, fresh] = kinds_.try_emplace(identity);
    if (!fresh) return at->second;
    const Config config = ReadableConfig(identity);
    ConfigKinds& kinds = at->second;
    for (const Value& value : config.args) AddKinds(value, &kinds);
    for (const auto& [name, value] : config.kwargs) AddKinds(value, &kinds);
    return kinds;
  }

  void AddKinds(const Value& value, ConfigKinds* kinds) {
    if (value.tag == ValueTag::kTensor) {
      kinds->dtypes.push_back(result_.facets.Value(PageFacets::KindOf("dtype"), value.text));
      kinds->dims.push_back(result_.facets.Value(PageFacets::KindOf("dims"), std::to_string(value.shape.size())));
      kinds->devices.push_back(result_.facets.Value(PageFacets::KindOf("device"), value.device));
    }
    for (const Value& item : value.items) AddKinds(item, kinds);
  }

  // Where calls were: numbers of StatsPlaces, and of their process's rank.
  struct Where {
    PlaceId module = kNoPlace;
    PlaceId line = kNoPlace;
    uint32_t rank = 0;

    friend bool operator==(const Where&, const Where&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Where& where) {
      return H::combine(std::move(h), where.module, where.line, where.rank);
    }
  };

  absl::Status GatherFacets(size_t number) {
    Trace* const trace = traces_[number].trace;
    const std::vector<StatsTrace> traces = {traces_[number]};
    const StatsGrouping by_module = {StatsBy::kModule}, by_line = {StatsBy::kLine};
    StatsPlaces modules(by_module, traces), lines(by_line, traces);
    const bool has_modules = rows_[kModules].table.rows() > 0, has_lines = rows_[kLines].table.rows() > 0;
    const auto module_of = has_modules ? modules.Of(0) : nullptr;
    const auto line_of = has_lines ? lines.Of(0) : nullptr;
    const size_t rank_kind = PageFacets::KindOf("rank");
    std::vector<uint32_t> ranks;  // by process
    for (const ProcessInfo& process : trace->processes()) {
      const std::optional<int64_t> rank = process.known.ranked.rank;
      ranks.push_back(rank.has_value() ? result_.facets.Value(rank_kind, std::to_string(*rank)) : UINT32_MAX);
    }
    std::vector<Where> places;
    absl::flat_hash_map<Where, PlaceId> place_numbers;
    SumOptions sums;
    sums.row = [](ConfigId) { return 0; };
    sums.in_order = has_modules;
    sums.place = [&](const CallRecord& entry, PlaceId) -> PlacedCall {
      Where where;
      if (module_of) where.module = module_of(entry, kNoPlace).place;
      if (line_of) where.line = line_of(entry, kNoPlace).place;
      where.rank = ranks[entry.process];
      const auto [at, fresh] = place_numbers.try_emplace(where, static_cast<PlaceId>(places.size()));
      if (fresh) places.push_back(where);
      return at->second;
    };
    const absl::StatusOr<TraceTotals> totals = SumCalls(trace, sums);
    if (!totals.ok()) return totals.status();
    // Without modules or lines there is one row less.
    if (has_modules && !modules.Finish().ok() && modules.all().empty()) return absl::OkStatus();
    if (has_lines) lines.Finish().IgnoreError();
    for (PlaceId place = 0; place < totals->places.size(); ++place) {
      const Where& where = places[place];
      const StatsPlace* const module = where.module == kNoPlace ? nullptr : &modules.all()[where.module];
      const StatsPlace* const line = where.line == kNoPlace ? nullptr : &lines.all()[where.line];
      AddPlace(number, where.rank, module, line, totals->places[place].configs);
    }
    return absl::OkStatus();
  }

  static bool IsSomewhere(const StatsPlace* place) {
    return place != nullptr && !place->labels.empty() && !place->labels[0].value.is_null();
  }

  // `train.py:12`
  std::string PlaceText(size_t trace, const StatsPlace& line) const {
    const ordered_json& number = line.labels[1].value;
    return absl::StrCat(StackText(*traces_[trace].trace).File(line.labels[0].value.get<std::string>()), ":",
                        number.is_number() ? number.get<uint64_t>() : 0);
  }

  void AddPlace(size_t trace, uint32_t rank, const StatsPlace* module, const StatsPlace* line,
                const absl::flat_hash_set<ConfigId>& configs) {
    const size_t module_kind = PageFacets::KindOf("module"), line_kind = PageFacets::KindOf("line");
    std::vector<std::pair<size_t, uint32_t>> of_place;  // facets' values
    if (rank != UINT32_MAX) of_place.emplace_back(PageFacets::KindOf("rank"), rank);
    if (module != nullptr) {
      of_place.emplace_back(module_kind, result_.facets.Value(module_kind, IsSomewhere(module) ? module->text : ""));
    }
    if (line != nullptr) {
      of_place.emplace_back(line_kind,
                            result_.facets.Value(line_kind, IsSomewhere(line) ? PlaceText(trace, *line) : ""));
    }
    const auto row_of = [trace](const StatsPlace* place, StatsBy by, const Rows& rows) {
      const auto at = place == nullptr ? rows.numbers.end() : rows.numbers.find({PlacesLevel(by, trace), place->text});
      return at == rows.numbers.end() ? UINT32_MAX : at->second;
    };
    const std::pair<size_t, uint32_t> rows_of_place[] = {{kModules, row_of(module, StatsBy::kModule, rows_[kModules])},
                                                         {kLines, row_of(line, StatsBy::kLine, rows_[kLines])}};
    for (const auto& [table, row] : rows_of_place) {
      if (row == UINT32_MAX) continue;
      for (const auto& [kind, value] : of_place) Add(value, &rows_[table].facets[row][kind]);
    }
    for (const ConfigId config : configs) {
      const std::string_view identity = traces_[trace].trace->identity(config);
      const ConfigHead head = ReadConfigHead(identity);
      const ConfigKinds& kinds = KindsOf(identity);
      const size_t level_kind = PageFacets::KindOf("level");
      const uint32_t level = result_.facets.Value(level_kind, std::to_string(head.level));
      const auto add_config = [&](RowFacets* facets) {
        Add(level, &(*facets)[level_kind]);
        for (const uint32_t value : kinds.dtypes) Add(value, &(*facets)[PageFacets::KindOf("dtype")]);
        for (const uint32_t value : kinds.dims) Add(value, &(*facets)[PageFacets::KindOf("dims")]);
        for (const uint32_t value : kinds.devices) Add(value, &(*facets)[PageFacets::KindOf("device")]);
      };
      for (const auto& [table, row] : rows_of_place) {
        if (row != UINT32_MAX) add_config(&rows_[table].facets[row]);
      }
      const auto api = rows_[kApis].numbers.find({head.level, FormatApi(head.api)});
      const auto own = rows_of_config_[trace].find(identity);
      for (const auto& [table, row] :
           {std::pair<size_t, uint32_t>(kApis, api == rows_[kApis].numbers.end() ? UINT32_MAX : api->second),
            std::pair<size_t, uint32_t>(kConfigs, own == rows_of_config_[trace].end() ? UINT32_MAX : own->second)}) {
        if (row == UINT32_MAX) continue;
        RowFacets& facets = rows_[table].facets[row];
        add_config(&facets);
        for (const auto& [kind, value] : of_place) Add(value, &facets[kind]);
      }
    }
  }

  // Most rows have few values; more than a set holds are not needed.
  static void Add(uint32_t value, std::vector<uint32_t>* values) {
    if (std::find(values->begin(), values->end(), value) != values->end()) return;
    if (values->size() <= PageFacets::kMostValues) values->push_back(value);
  }

  void AddFacets() {
    const auto add_single = [this](size_t table, const char* facet) {
      Rows& rows = rows_[table];
      const size_t kind = PageFacets::KindOf(facet);
      std::vector<uint32_t>& column = rows.table.facets[kind];
      for (const std::string& text : rows.of_row) column.push_back(result_.facets.Value(kind, text));
    };
    for (size_t table = 0; table < rows_.size(); ++table) {
      Rows& rows = rows_[table];
      if (table == kSteps) continue;
      for (size_t kind = 0; kind < kSetFacets; ++kind) {
        const bool any = std::any_of(rows.facets.begin(), rows.facets.end(),
                                     [kind](const RowFacets& facets) { return !facets[kind].empty(); });
        // A row is its own value.
        const bool itself = (table == kModules && kind == PageFacets::KindOf("module")) ||
                            (table == kLines && kind == PageFacets::KindOf("line"));
        if (!any || itself) continue;
        std::vector<uint32_t>& column = rows.table.facets[kind];
        for (const RowFacets& facets : rows.facets) column.push_back(result_.facets.Set(kind, facets[kind]));
      }
      rows.facets = {};
    }
    add_single(kConfigs, "api");
    add_single(kShapes, "api");
    if (rows_[kLines].table.rows() > 0) add_single(kLines, "file");
  }

  const std::vector<StatsTrace>& traces_;
  const ShapeRules rules_ = ShapeRules::BuiltIn();
  std::vector<Rows> rows_;  // by kListings
  // Of each trace, its configs' rows by their identities.
  std::vector<absl::flat_hash_map<std::string_view, uint32_t>> rows_of_config_;
  absl::flat_hash_map<std::string_view, ConfigKinds> kinds_;
  TraceTables result_;
};

}  // namespace

absl::StatusOr<TraceTables> ReadTraceTables(const std::vector<StatsTrace>& traces) {
  return TablesReader(traces).Read();
}

}  // namespace torchtrace
