#include "serialize/diff/gates.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "serialize/base/choices.h"
#include "serialize/base/text.h"
#include "serialize/diff/time_text.h"
#include "serialize/forms/forms.h"
#include "serialize/reports/memory_report.h"
#include "serialize/reports/shapes.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

struct GateWords {
  GateKind kind;
  const char* name;
  const char* example;  // of a percentage; null: it has none
};
constexpr GateWords kGateWords[] = {
    {GateKind::kAddedApi, "added-api", nullptr},
    {GateKind::kAddedConfig, "added-config", nullptr},
    {GateKind::kRemovedApi, "removed-api", nullptr},
    {GateKind::kRemovedConfig, "removed-config", nullptr},
    {GateKind::kSlower, "slower", "10%"},
    {GateKind::kMemory, "memory", "5%"},
    {GateKind::kFlops, "flops", "1%"},
};

// A row that is so small a part of the whole is none of a gate's business.
constexpr double kLeastShare = 0.001;
// The other rows that a failure lists.
constexpr size_t kMostRows = 20;

absl::StatusOr<Gate> ParseGate(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const auto words = std::find_if(std::begin(kGateWords), std::end(kGateWords),
                                  [&name](const GateWords& each) { return name == each.name; });
  if (words == std::end(kGateWords)) {
    std::vector<std::string> names;
    for (const GateWords& each : kGateWords) names.emplace_back(each.name);
    return UnknownChoice("unknown gate", name, names);
  }
  Gate gate = {words->kind, 0, text};
  if (words->example == nullptr) {
    if (equals == std::string::npos) return gate;
    return absl::InvalidArgumentError(absl::StrCat("gate ", PlainLine(text), ": ", name, " has no percentage"));
  }
  std::string number = equals == std::string::npos ? "" : text.substr(equals + 1);
  const bool percent = number.ends_with('%');
  if (percent) number.pop_back();
  if (!percent || !absl::SimpleAtod(number, &gate.percent) || !std::isfinite(gate.percent) || gate.percent < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("gate ", PlainLine(text), " needs a percentage from 0%: ", name, "=", words->example));
  }
  return gate;
}

// `X and 3 more`
std::string AndMore(std::string_view text, size_t others, const char* one, const char* many) {
  return others == 0 ? std::string(text)
                     : absl::StrCat(std::string(text), "; and ", others, " more ", others == 1 ? one : many);
}

void AddConfigGate(const Gate& gate, const ConfigDiff& diff, const CommonConfigs& configs, GateResults* results) {
  const bool added = gate.kind == GateKind::kAddedApi || gate.kind == GateKind::kAddedConfig;
  const bool apis = gate.kind == GateKind::kAddedApi || gate.kind == GateKind::kRemovedApi;
  const Change change = added ? Change::kAdded : Change::kRemoved;
  GateResult result = {gate.text};
  size_t others = 0;
  const auto add = [&](const std::string& what, int level, uint64_t calls) {
    const std::string line = absl::StrCat(what, level == kAnyLevel ? "" : absl::StrCat(" (level ", level, ")"), ", ",
                                          Counted(calls, "call", "calls"));
    if (!result.fired) {
      result.fired = true;
      result.sentence = absl::StrCat(added ? "added" : "removed", "-", apis ? "api" : "config", ": only ",
                                     added ? "B" : "A", " calls ", line);
    } else if (++others <= kMostRows) {
      result.more.push_back(line);
    }
  };
  if (apis) {
    for (const ApiDifference& row : diff.apis) {
      if (row.change == change) add(FormatApi(row.api), row.level, added ? row.b_calls : row.a_calls);
    }
  } else {
    for (const ConfigDifference& row : diff.configs) {
      if (row.change != change && row.change != Change::kChanged) continue;
      const uint32_t config = added ? row.b : row.a;
      add(configs.Text(config), configs.head(config).level, added ? row.b_calls : row.a_calls);
    }
  }
  if (result.fired) {
    result.sentence = AndMore(result.sentence, others, apis ? "API" : "config", apis ? "APIs" : "configs");
  }
  if (others > kMostRows) result.more.push_back(absl::StrCat("... and ", others - kMostRows, " more"));
  results->gates.push_back(std::move(result));
}

// What a gate compares of each row.
struct GatedNumber {
  Measured MeasuredRow::* measured = nullptr;
  const char* verb = "";  // before the amount
  const char* after = "";
  std::string (*format)(double amount) = nullptr;
};

std::string FormatNs(double ns) { return FormatDuration(static_cast<int64_t>(std::llround(ns))); }
std::string FormatBytes(double bytes) { return absl::StrCat(FormatAmount(bytes), "B"); }
std::string FormatFlops(double flops) { return absl::StrCat(FormatAmount(flops), "FLOP"); }

std::vector<GatedNumber> NumbersOf(GateKind kind, const ComparedNumbers& compared) {
  if (kind == GateKind::kMemory) return {{&MeasuredRow::allocated, "allocated ", "", FormatBytes}};
  if (kind == GateKind::kFlops) return {{&MeasuredRow::flops, "cost ", "", FormatFlops}};
  std::vector<GatedNumber> numbers = {{&MeasuredRow::self_time_ns, "took ", "", FormatNs}};
  if (compared.device) numbers.push_back({&MeasuredRow::device_ns, "took ", " of devices", FormatNs});
  return numbers;
}

class TimeGate {
 public:
  TimeGate(const Gate& gate, const RepeatedStats& stats, const TimeDiff& diff)
      : gate_(gate), stats_(stats), diff_(diff) {}

  GateResult Check() {
    for (const GatedNumber& number : NumbersOf(gate_.kind, diff_.numbers)) {
      const double least = kLeastShare * (diff_.a.whole.*number.measured).value;
      Compare("all calls", number, diff_.a.whole, diff_.b.whole, least);
      for (const RowDifference& row : diff_.rows) {
        if (row.a.called && row.b.called) Compare(row, number, least);
      }
    }
    if (gate_.kind == GateKind::kMemory) ComparePeaks();
    GateResult result = {gate_.text};
    if (found_.empty()) return result;
    // All calls first, then what grew most.
    std::stable_sort(found_.begin(), found_.end(), [](const Found& a, const Found& b) {
      return a.row.has_value() != b.row.has_value() ? !a.row.has_value() : a.by > b.by;
    });
    result.fired = true;
    result.sentence = absl::StrCat(Sentence(found_[0]));
    const size_t others = found_.size() - 1;
    result.sentence = AndMore(absl::StrCat(NameOfKind(), ": ", result.sentence), others, "row", "rows");
    for (size_t i = 1; i < found_.size() && i <= kMostRows; ++i) result.more.push_back(Sentence(found_[i]));
    if (others > kMostRows) result.more.push_back(absl::StrCat("... and ", others - kMostRows, " more"));
    return result;
  }

 private:
  struct Found {
    std::optional<uint32_t> row;  // nothing: all calls, whose sentence this is
    std::string name;
    double by = 0;  // of what both took
    GatedNumber number = {};
    Measured a = {}, b = {};
    const char* per = "";
  };

  const char* NameOfKind() const {
    return std::find_if(std::begin(kGateWords), std::end(kGateWords),
                        [this](const GateWords& each) { return each.kind == gate_.kind; })
        ->name;
  }

  // Without a number: exact ones.
  bool IsTooMuch(const Measured& a, const Measured& b, Measured MeasuredRow::* number, double least) const {
    const Difference difference(a, b);
    return difference.value > 0 && (number == nullptr || diff_.IsReal(difference, number)) &&
           difference.value >= least && difference.value > a.value * gate_.percent / 100;
  }
  void Compare(const std::string& name, const GatedNumber& number, const MeasuredRow& a, const MeasuredRow& b,
               double least) {
    const Measured &from = a.*number.measured, &to = b.*number.measured;
    if (IsTooMuch(from, to, number.measured, least))
      found_.push_back({{}, name, to.value - from.value, number, from, to, Per()});
  }
  void Compare(const RowDifference& row, const GatedNumber& number, double least) {
    const Measured &from = row.a.*number.measured, &to = row.b.*number.measured;
    if (IsTooMuch(from, to, number.measured, least))
      found_.push_back({row.row, "", to.value - from.value, number, from, to, Per()});
  }
  void ComparePeaks() {
    for (const auto& [device, bytes] : diff_.a.peaks) {
      const auto other = std::find_if(diff_.b.peaks.begin(), diff_.b.peaks.end(),
                                      [&](const auto& peak) { return peak.first == device; });
      if (other == diff_.b.peaks.end()) continue;
      const Measured a = {static_cast<double>(bytes)}, b = {static_cast<double>(other->second)};
      const GatedNumber number = {nullptr, "was ", "", FormatBytes};
      if (IsTooMuch(a, b, nullptr, 0)) {
        found_.push_back({{}, absl::StrCat("the peak on ", DeviceName(device)), HUGE_VAL, number, a, b, ""});
      }
    }
  }

  const char* Per() const { return diff_.per_step ? " per step" : ""; }

  // `aten::mm took 1.34 ms per step in A, 1.61 ms in B (+20.1%, noise 3.2%)`
  std::string Sentence(const Found& found) const {
    const Difference difference(found.a, found.b);
    const auto amount = [&found](double value) { return found.number.format(value); };
    const bool exact = difference.noise == 0.0;
    return absl::StrCat(found.row.has_value() ? PlainLine(stats_.names->Text(*found.row)) : found.name, " ",
                        found.number.verb, amount(found.a.value), found.number.after, found.per, " in A, ",
                        amount(found.b.value), " in B (", FormatChange(found.a.value, found.b.value),
                        exact ? "" : absl::StrCat(", noise ", FormatNoise(difference, found.a.value)), ")");
  }

  const Gate& gate_;
  const RepeatedStats& stats_;
  const TimeDiff& diff_;
  std::vector<Found> found_;
};

// Why a gate can't be checked; empty: it can.
std::string LacksFor(const Gate& gate, const RepeatedTrace& repeated, const TimeSide& side, const GatedTrace& trace) {
  if (!side.whole.called) return absl::StrCat(trace.name, " has no calls to compare");
  if (gate.kind == GateKind::kSlower && !repeated.has_times) {
    return absl::StrCat(trace.name, " has no times: compare traces that torchtrace run records");
  }
  if (gate.kind == GateKind::kMemory && !repeated.has_memory) {
    return absl::StrCat(trace.name, " has no memory: record it with torchtrace run --memory");
  }
  if (gate.kind == GateKind::kFlops && side.whole.flops.value == 0) {
    return absl::StrCat(trace.name, " has no call whose FLOPs are known: record level 2 (torchtrace run --levels 2)");
  }
  return "";
}

}  // namespace

bool GateResults::fired() const {
  return std::any_of(gates.begin(), gates.end(), [](const GateResult& result) { return result.fired; });
}

absl::StatusOr<std::vector<Gate>> ParseGates(const std::vector<std::string>& lists) {
  std::vector<Gate> gates;
  for (const std::string& list : lists) {
    for (const absl::string_view text : absl::StrSplit(list, ',')) {
      absl::StatusOr<Gate> gate = ParseGate(std::string(text));
      if (!gate.ok()) return gate.status();
      for (const Gate& known : gates) {
        if (known.kind == gate->kind) {
          return absl::InvalidArgumentError(
              absl::StrCat("gate ", PlainLine(gate->text), ": ", known.text, " was given before"));
        }
      }
      gates.push_back(*std::move(gate));
    }
  }
  return gates;
}

std::vector<std::string> GateExamples() {
  std::vector<std::string> examples;
  for (const GateWords& each : kGateWords) {
    examples.push_back(each.example == nullptr ? each.name : absl::StrCat(each.name, "=", each.example));
  }
  return examples;
}

absl::Status CheckConfigGates(const std::vector<Gate>& gates, const ConfigDiff& diff, const CommonConfigs& configs,
                              GateResults* results) {
  for (const Gate& gate : gates) {
    if (gate.of_times()) continue;
    if (diff.a.calls == 0 || diff.b.calls == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot check ", gate.text, ": ",
                       diff.a.calls + diff.b.calls == 0 ? "neither trace"
                       : diff.a.calls == 0              ? "the first trace"
                                                        : "the second trace",
                       diff.a.calls + diff.b.calls == 0 ? " has calls to compare" : " has no calls to compare"));
    }
    AddConfigGate(gate, diff, configs, results);
  }
  return absl::OkStatus();
}

absl::Status CheckTimeGates(const std::vector<Gate>& gates, const RepeatedStats& stats, const TimeDiff& diff,
                            const GatedTrace& a, const GatedTrace& b, GateResults* results) {
  for (const Gate& gate : gates) {
    if (!gate.of_times()) continue;
    std::string lacks = LacksFor(gate, stats.traces[0], diff.a, a);
    if (lacks.empty()) lacks = LacksFor(gate, stats.traces[1], diff.b, b);
    if (!lacks.empty()) {
      return absl::FailedPreconditionError(absl::StrCat("cannot check ", gate.text, ": ", lacks));
    }
    results->gates.push_back(TimeGate(gate, stats, diff).Check());
    if (gate.kind == GateKind::kSlower && !diff.numbers.device && stats.traces[0].has_device &&
        stats.traces[1].has_device) {
      results->incomplete.push_back("device times of whole runs are not compared, as nothing tells their noise");
    }
    if (gate.kind == GateKind::kSlower && diff.unrepeated > 0) {
      results->incomplete.push_back(
          absl::StrCat(Counted(diff.unrepeated, "row repeats", "rows repeat"), " too seldom to tell if slower"));
    }
    for (size_t i = 0; i < 2; ++i) {
      const RepeatedTrace& repeated = stats.traces[i];
      const std::string& name = i == 0 ? a.name : b.name;
      if (gate.kind == GateKind::kSlower && repeated.untimed > 0) {
        results->incomplete.push_back(
            absl::StrCat(name, ": ", Counted(repeated.untimed, "call has", "calls have"), " no times"));
      }
      if (gate.kind == GateKind::kFlops && repeated.without_formula > 0) {
        results->incomplete.push_back(absl::StrCat(name, ": the FLOPs of ",
                                                   Counted(repeated.without_formula, "call are", "calls are"),
                                                   " not known (torchtrace stats --sort flops names them)"));
      }
    }
  }
  return absl::OkStatus();
}

void FindIncomplete(const GatedTrace& a, const GatedTrace& b, GateResults* results) {
  if (results->gates.empty()) return;
  for (const GatedTrace& each : {a, b}) {
    const RunFacts facts = GatherFacts(*each.trace);
    const Gaps gaps = FindGaps(facts, {}, RankSentences(FindRankGaps(each.trace->processes())));
    std::vector<std::string> lacks;
    for (const std::vector<std::string>* const of : {&gaps.lost, &gaps.not_seen, &gaps.cut, &gaps.left_out}) {
      for (const std::string& sentence : *of) {
        // Those are left out of every trace.
        if (sentence.find("property getters, left out by default") == std::string::npos) lacks.push_back(sentence);
      }
    }
    if (!lacks.empty()) {
      results->incomplete.push_back(absl::StrCat(each.name, " is incomplete: ", absl::StrJoin(lacks, "; ")));
    }
  }
}

}  // namespace torchtrace
