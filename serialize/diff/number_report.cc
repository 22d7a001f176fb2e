#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/base/text.h"
#include "serialize/diff/number_diff.h"
#include "serialize/diff/reports.h"
#include "serialize/forms/call_labels.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/model/config.h"
#include "serialize/trace/parsed_tags.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

// Rows of the table without --all.
constexpr size_t kFirstRows = 30;

// The name of a call's tensor, of that position: `args[0]`, `args[1][3]`, `weight`. Empty: there is none.
std::string NameTensor(const Value& value, const std::string& name, uint64_t* left) {
  if (value.tag == ValueTag::kTensor && (*left)-- == 0) return name;
  for (size_t i = 0; i < value.items.size(); ++i) {
    std::string found = NameTensor(value.items[i], absl::StrCat(name, "[", i, "]"), left);
    if (!found.empty()) return found;
  }
  return "";
}

std::string NameArgument(const Config& config, uint64_t position) {
  for (size_t i = 0; i < config.args.size(); ++i) {
    std::string found = NameTensor(config.args[i], absl::StrCat("args[", i, "]"), &position);
    if (!found.empty()) return found;
  }
  for (const auto& [name, value] : config.kwargs) {
    std::string found = NameTensor(value, FormatApi(name), &position);
    if (!found.empty()) return found;
  }
  return absl::StrCat("tensor ", position);
}

// Operators and functions that draw random numbers have names with these.
bool DrawsRandomNumbers(std::string_view api) {
  constexpr std::string_view kNames[] = {"rand",        "dropout",     "bernoulli", "normal",       "uniform",
                                         "multinomial", "poisson",     "cauchy",    "exponential_", "geometric_",
                                         "rrelu",       "log_normal_", "binomial",  "gumbel"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [api](std::string_view name) { return api.find(name) != std::string_view::npos; });
}

const char* LikenessName(Likeness likeness) {
  switch (likeness) {
    case Likeness::kUnknown:
      return "not compared";
    case Likeness::kEqual:
      return "same";
    case Likeness::kClose:
      return "close";
    case Likeness::kDifferent:
      return "different";
  }
  return "";
}

const char* OriginName(Origin origin) {
  switch (origin) {
    case Origin::kComputed:
      return "computed";
    case Origin::kOutside:
      return "outside";
    case Origin::kOverwritten:
      return "overwritten";
    case Origin::kCollective:
      return "collective";
    case Origin::kOnlyInOne:
      return "only in one";
    case Origin::kUncompared:
      return "not compared";
    case Origin::kUnknown:
      return "unknown";
  }
  return "";
}

class NumberReport {
 public:
  NumberReport(NumberDiff diff, Trace* a, Trace* b, const DiffOptions& options, bool all, std::ostream* out)
      : diff_(std::move(diff)),
        a_(*a),
        b_(*b),
        options_(options),
        all_(all),
        out_(*out),
        tags_(a),
        a_lines_(*a),
        b_lines_(*b),
        several_models_(SeveralModels::In(*a)) {}

  bool Write() {
    switch (options_.format) {
      case DiffFormat::kText:
        WriteText();
        break;
      case DiffFormat::kJson:
        out_ << DumpPrettyJson(Json());
        break;
      case DiffFormat::kMarkdown:
        WriteMarkdown();
        break;
      case DiffFormat::kJunit:  // of gates alone
        break;
    }
    out_.flush();
    return diff_.different();
  }

 private:
  const char* Color(const char* code) const { return options_.color ? code : ""; }

  // ---- words ----

  std::string NameOf(bool of_a) const { return PlainLine(of_a ? options_.a_name : options_.b_name); }

  std::string Calls(const CallInBoth& call) const {
    return absl::StrCat("call ", call.a_call, " of ", NameOf(true), ", call ", call.b_call, " of ", NameOf(false));
  }

  std::string Text(const CallInBoth& call, bool color) const {
    return FormatPieces(
        CompareTexts(ReadableConfig(a_.identity(call.a_config)), ReadableConfig(b_.identity(call.b_config))), color);
  }

  std::string ModuleText(const CallInBoth& call) const {
    if (call.module == kLostId) return "";
    const ModuleLabel label = ModuleLabelOf(a_.identity(call.module));
    return several_models_ ? label.WholeText() : label.Text();
  }

  static std::string Line(const Trace& trace, const StackText& lines, StackId stack) {
    return stack == kNoStack ? "" : lines.Line(trace.stacks().calling_line(stack));
  }

  // `step 3, module h.0.fc (Linear), train.py:12 in forward, main-42, thread 0 (MainThread)`
  std::string Where(const CallInBoth& call) {
    std::vector<std::string> parts;
    if (const std::string step = StepText(&tags_, a_, call.tags); !step.empty()) {
      parts.push_back(step.front() == '{' ? absl::StrCat("tags ", step) : absl::StrCat("step ", step));
    }
    if (const std::string module = ModuleText(call); !module.empty()) {
      parts.push_back(absl::StrCat("module ", module));
    }
    const std::string a_line = Line(a_, a_lines_, call.a_stack), b_line = Line(b_, b_lines_, call.b_stack);
    if (!a_line.empty()) parts.push_back(a_line);
    if (b_line != a_line && !b_line.empty()) {
      parts.push_back(absl::StrCat(b_line, a_line.empty() ? "" : absl::StrCat(" in ", NameOf(false))));
    }
    parts.push_back(absl::StrCat("level ", ReadConfigHead(a_.identity(call.a_config)).level));
    parts.push_back(DescribeThread(a_, call.a_thread));
    return absl::StrJoin(parts, ", ");
  }

  std::string TensorName(const CallInBoth& call, const TensorInBoth& tensor) const {
    return TensorName(call, tensor.place, tensor.position);
  }
  std::string TensorName(const CallInBoth& call, TensorPlace place, uint64_t position) const {
    if (place == TensorPlace::kResult) {
      return position == 0 ? std::string("result") : absl::StrCat("result ", position);
    }
    const std::string name = NameArgument(ReadableConfig(a_.identity(call.a_config)), position);
    return place == TensorPlace::kArgument ? absl::StrCat("argument ", name) : absl::StrCat("what it wrote to ", name);
  }

  // `relative difference 0.25: min 0.5 -> 0.25, max ...`
  static std::string HowMuch(const TensorInBoth& tensor) {
    std::string text;
    const TensorComparison& comparison = tensor.comparison;
    if (comparison.elements > 0) {
      absl::StrAppend(&text, comparison.elements_apart, " of ",
                      Counted(comparison.elements, "element differs", "elements differ"), ", ");
    }
    if (std::isinf(comparison.relative)) {
      text += "other elements are NaN or infinite";
    } else {
      absl::StrAppend(&text, "relative difference ", FormatNumber(comparison.relative), " (absolute ",
                      FormatNumber(comparison.absolute), ")");
    }
    const std::string numbers = NumbersText(tensor);
    return numbers.empty() ? text : absl::StrCat(text, ": ", numbers);
  }

  // Those that differ: `mean 0.1 -> 0.2, max 3 -> 4`.
  static std::string NumbersText(const TensorInBoth& tensor) {
    if (!tensor.a_numbers.has_value() || !tensor.b_numbers.has_value()) return "";
    const TensorNote::Numbers &a = *tensor.a_numbers, &b = *tensor.b_numbers;
    std::vector<std::string> parts;
    for (const auto& [name, x, y] :
         {std::tuple("nan", a.nans, b.nans), std::tuple("inf", a.positive_infinities, b.positive_infinities),
          std::tuple("-inf", a.negative_infinities, b.negative_infinities)}) {
      if (x != y) parts.push_back(absl::StrCat(name, " ", x, " -> ", y));
    }
    for (const auto& [name, x, y] : {std::tuple("min", a.least, b.least), std::tuple("max", a.most, b.most),
                                     std::tuple("mean", a.mean, b.mean), std::tuple("norm", a.norm, b.norm)}) {
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      const std::string before = a.finite == 0 ? "none" : FormatNumber(x),
                        after = b.finite == 0 ? "none" : FormatNumber(y);
      // What five digits don't show.
      const bool same = before == after;
      parts.push_back(absl::StrCat(name, " ", same ? absl::StrFormat("%.17g", x) : before, " -> ",
                                   same ? absl::StrFormat("%.17g", y) : after));
    }
    if (parts.empty()) return "other elements with the same least, greatest, mean and norm";
    return absl::StrJoin(parts, ", ");
  }

  std::string SourcesText(const FirstDifference& first) const {
    std::vector<std::string> calls;
    for (const SourceCall& source : first.sources) {
      calls.push_back(absl::StrCat("call ", source.call, " of ", NameOf(source.of_a), " (",
                                   ConfigText(source.of_a ? a_ : b_, source.config), ")"));
    }
    return absl::StrJoin(calls, " and ");
  }

  // What is the matter, in a line.
  std::string Title(const FirstDifference& first, bool in_bits) const {
    const char* const other = in_bits ? "other bits" : "another result";
    switch (first.origin) {
      case Origin::kComputed:
        return absl::StrCat("first call with the same arguments and ", other);
      case Origin::kOutside:
        return in_bits ? "first difference in bits, from outside of recorded calls"
                       : "first difference, from outside of recorded calls";
      default:
        return in_bits ? "first difference in bits, in an argument" : "first difference, in an argument";
    }
  }

  // Sentences on where it comes from.
  std::vector<std::string> Why(const FirstDifference& first) const {
    std::vector<std::string> lines;
    std::string name = TensorName(first.call, first.tensor);
    if (first.suspect.has_value()) {
      name = absl::StrCat(TensorName(first.call, TensorPlace::kArgument, *first.suspect),
                          ", whose numbers are not recorded,");
    }
    if (first.inside != kNoCall) {
      lines.push_back(
          absl::StrCat("inside call ", first.inside, " of ", NameOf(true), ": ", ConfigText(a_, first.inside_config)));
    }
    switch (first.origin) {
      case Origin::kComputed: {
        if (first.call.other_numbers) {
          lines.push_back("it was called with other numbers or sizes, shown as BEFORE -> AFTER");
        }
        const std::string api(ReadConfigHead(a_.identity(first.call.a_config)).api);
        if (DrawsRandomNumbers(api)) {
          lines.push_back("it draws random numbers: was the same seed set in both runs, and as many drawn before?");
        } else if (first.arguments == Likeness::kEqual && !first.call.other_numbers &&
                   !first.tensor.comparison.other_devices) {
          lines.push_back(
              "its arguments are the same bit for bit: other kernels, libraries or numbers of threads, an operator "
              "that is "
              "not deterministic, or an argument that NumPy or Triton wrote to, which --numbers doesn't see");
        }
        std::vector<std::string> names;
        for (const uint64_t position : first.unknown_arguments) {
          names.push_back(NameArgument(ReadableConfig(a_.identity(first.call.a_config)), position));
        }
        if (!names.empty()) {
          lines.push_back(
              absl::StrCat("not compared, so the difference may be there before: ", absl::StrJoin(names, ", ")));
        }
        break;
      }
      case Origin::kOutside:
        lines.push_back(
            first.from_object
                ? absl::StrCat(name, " is made of an object whose contents are not recorded (NumPy, a file)")
                : absl::StrCat(name, " came from outside of recorded calls: data, a parameter, NumPy"));
        break;
      case Origin::kOverwritten:
        lines.push_back(
            absl::StrCat(name, " was the same, within the tolerances, in ", SourcesText(first),
                         ": since then it was written outside of recorded calls (NumPy, Triton), or this is "
                         "another part of its memory"));
        break;
      case Origin::kCollective:
        lines.push_back(absl::StrCat(name, " is what a collective brought, after its end: ", SourcesText(first)));
        break;
      case Origin::kOnlyInOne:
        lines.push_back(absl::StrCat(
            name, " was last returned or written by what the other trace has no call for: ", SourcesText(first)));
        break;
      case Origin::kUncompared:
        lines.push_back(absl::StrCat(name, " was last returned or written by ", SourcesText(first),
                                     ", of which there are no numbers to compare"));
        break;
      case Origin::kUnknown:
        lines.push_back(
            absl::StrCat("which call made ", name, " is unknown: record with --numbers, or with --ids --outputs"));
        break;
    }
    if (first.taken.has_value()) {
      const auto& [call, tensor] = *first.taken;
      lines.push_back(
          absl::StrCat("first taken by ", Calls(call), ": ", Text(call, false), ", as ", TensorName(call, tensor)));
    }
    return lines;
  }

  std::string Verdict() const {
    const std::string calls = Counted(diff_.compared_calls, "call", "calls");
    if (diff_.different()) {
      std::string text = absl::StrCat("different: ", diff_.different_calls, " of ", calls, " that could be compared");
      if (diff_.computed_calls > 0) {
        absl::StrAppend(&text, ", ", diff_.computed_calls, " of these though their arguments are the same");
      }
      return text;
    }
    if (diff_.close_calls == 0) return absl::StrCat("the same, bit for bit: all ", calls, " that could be compared");
    return absl::StrCat("the same within the tolerances: all ", calls, " that could be compared, ", diff_.close_calls,
                        " of them not bit for bit");
  }

  uint64_t WithoutNumbers() const {
    const uint64_t rest = diff_.compared_calls + diff_.in_backward;
    return diff_.aligned - std::min(diff_.aligned, rest);
  }

  // What was compared, and how; what not.
  std::vector<std::string> Coverage() const {
    std::vector<std::string> lines;
    const auto& tensors = diff_.tensors;
    std::string text = absl::StrCat("compared: ", Counted(diff_.compared_tensors(), "tensor", "tensors"), ": ",
                                    tensors[static_cast<size_t>(Likeness::kEqual)], " the same bit for bit, ",
                                    tensors[static_cast<size_t>(Likeness::kClose)], " within the tolerances, ",
                                    tensors[static_cast<size_t>(Likeness::kDifferent)], " different");
    lines.push_back(std::move(text));
    const auto others = [](const auto& counts) {
      std::vector<std::string> parts;
      for (const auto& [names, count] : counts) {
        parts.push_back(absl::StrCat(names.first, " against ", names.second, " (", count, ")"));
      }
      return absl::StrJoin(parts, ", ");
    };
    for (const auto* const counts : {&diff_.other_dtypes, &diff_.other_devices}) {
      if (!counts->empty()) lines.push_back(absl::StrCat("by numbers alone, not bit for bit: ", others(*counts)));
    }
    if (!diff_.tolerances.empty()) {
      std::vector<std::string> parts;
      for (const auto& [dtypes, tolerances] : diff_.tolerances) {
        parts.push_back(tolerances == Tolerances() ? absl::StrCat(dtypes, " exact")
                                                   : absl::StrCat(dtypes, " rtol ", FormatNumber(tolerances.relative),
                                                                  " atol ", FormatNumber(tolerances.absolute)));
      }
      lines.push_back(absl::StrCat("tolerances: ", absl::StrJoin(parts, "; ")));
    }
    std::vector<std::string> not_compared;
    const auto add = [&](uint64_t count, const char* one, const char* many, const std::string& rest) {
      if (count > 0) not_compared.push_back(absl::StrCat(Counted(count, one, many), rest));
    };
    add(diff_.only_in_a, "call", "calls", absl::StrCat(" only in ", NameOf(true)));
    add(diff_.only_in_b, "call", "calls", absl::StrCat(" only in ", NameOf(false)));
    add(WithoutNumbers(), "call", "calls", " in both without numbers");
    add(diff_.in_backward, "call", "calls", " in the backward passes, which compilation reorders");
    add(diff_.without_numbers_in_a, "tensor", "tensors", absl::StrCat(" without numbers in ", NameOf(true)));
    add(diff_.without_numbers_in_one - diff_.without_numbers_in_a, "tensor", "tensors",
        absl::StrCat(" without numbers in ", NameOf(false)));
    add(diff_.other_shapes, "tensor", "tensors", " of other shapes");
    add(diff_.tensors[0] - diff_.without_numbers_in_one - diff_.other_shapes, "tensor", "tensors",
        " without numbers in both");
    lines.push_back(
        absl::StrCat("not compared: ", not_compared.empty() ? "nothing" : absl::StrJoin(not_compared, ", ")));
    if (diff_.too_late > 0) {
      lines.push_back(absl::StrCat("Of ", Counted(diff_.too_late, "tensor", "tensors"),
                                   " the numbers came too long after their calls to be read."));
    }
    if (diff_.compiled) {
      lines.emplace_back(
          "One program is compiled: both have modules (level 3), and parameters and gradients where its optimizer runs "
          "(levels 1 and 2).");
    }
    if (!diff_.shortest) {
      lines.emplace_back("The traces differ so much that more of their calls may belong together.");
    }
    return lines;
  }

  // ---- text ----

  void WriteFirst(const FirstDifference& first, bool in_bits) {
    out_ << "\n"
         << Color(kBold) << Title(first, in_bits) << Color(kReset) << ": " << Calls(first.call) << "\n"
         << "  " << Text(first.call, options_.color) << "\n"
         << "  " << Where(first.call) << "\n"
         << "  " << TensorName(first.call, first.tensor) << ": " << HowMuch(first.tensor) << "\n";
    for (const std::string& line : Why(first)) out_ << "  " << line << "\n";
  }

  TextTable Rows(size_t* shown) {
    const bool steps =
        std::any_of(diff_.rows.begin(), diff_.rows.end(), [](const auto& row) { return !row.first.first.empty(); });
    std::vector<TextTable::Column> columns;
    if (steps) columns.push_back({"step"});
    for (const char* const title : {"calls", "different", "close", "largest relative difference", "call"}) {
      columns.push_back({title});
    }
    columns.push_back({"API", TextTable::kLeft});
    if (diff_.by_module) columns.push_back({"module", TextTable::kLeft});
    TextTable table(std::move(columns));
    *shown = all_ ? diff_.rows.size() : std::min(diff_.rows.size(), kFirstRows);
    for (size_t i = 0; i < *shown; ++i) {
      const auto& [key, row] = diff_.rows[i];
      std::vector<std::string> cells;
      if (steps) cells.push_back(key.first.empty() ? "-" : key.first);
      cells.push_back(absl::StrCat(row.calls));
      cells.push_back(absl::StrCat(row.different));
      cells.push_back(absl::StrCat(row.close));
      cells.push_back(FormatNumber(std::max(row.relative, 0.0)));
      cells.push_back(absl::StrCat(row.call.a_call));
      cells.push_back(FormatApi(ReadConfigHead(a_.identity(row.call.a_config)).api));
      if (diff_.by_module) cells.push_back(key.second.empty() ? "(no module)" : key.second);
      table.AddRow(std::move(cells));
    }
    return table;
  }

  TextTable ListedCalls() {
    TextTable table({{NameOf(true)},
                     {NameOf(false)},
                     {"arguments", TextTable::kLeft},
                     {"results", TextTable::kLeft},
                     {"relative difference"},
                     {"of", TextTable::kLeft},
                     {"call", TextTable::kLeft}});
    for (const DifferingCall& call : diff_.calls) {
      table.AddRow({absl::StrCat(call.call.a_call), absl::StrCat(call.call.b_call), LikenessName(call.arguments),
                    LikenessName(call.results), FormatNumber(call.relative),
                    TensorName(call.call, call.place, call.position), Text(call.call, false)});
    }
    return table;
  }

  void WriteText() {
    const std::string a_name = NameOf(true), b_name = NameOf(false);
    const size_t width = std::max(a_name.size(), b_name.size());
    const auto side = [&](const char* mark, const char* color, const std::string& name, uint64_t calls) {
      out_ << Color(color) << mark << " " << name << Color(kReset) << std::string(width - name.size(), ' ') << "  "
           << Counted(calls, "call", "calls") << "\n";
    };
    side("---", kRed, a_name, diff_.a_calls);
    side("+++", kGreen, b_name, diff_.b_calls);
    if (!options_.ignored.empty()) out_ << "ignored: " << absl::StrJoin(options_.ignored, ", ") << "\n";
    out_ << Verdict() << "\n";
    if (diff_.first.has_value()) WriteFirst(*diff_.first, false);
    if (diff_.first_in_bits.has_value()) WriteFirst(*diff_.first_in_bits, true);
    if (!options_.summary && !diff_.rows.empty()) {
      size_t shown = 0;
      out_ << "\n" << Rows(&shown).Format();
      if (shown < diff_.rows.size()) out_ << "... and " << diff_.rows.size() - shown << " more (--all)\n";
    }
    if (!options_.summary && !diff_.calls.empty()) out_ << "\n" << ListedCalls().Format();
    out_ << "\n";
    for (const std::string& line : Coverage()) out_ << line << "\n";
  }

  // ---- JSON ----

  ordered_json CallJson(const CallInBoth& call) {
    ordered_json json = {{"a_call", call.a_call},
                         {"b_call", call.b_call},
                         {"level", ReadConfigHead(a_.identity(call.a_config)).level},
                         {"api", std::string(ReadConfigHead(a_.identity(call.a_config)).api)},
                         {"a", ConfigText(a_, call.a_config)},
                         {"b", ConfigText(b_, call.b_config)},
                         {"a_thread", DescribeThread(a_, call.a_thread)},
                         {"b_thread", DescribeThread(b_, call.b_thread)}};
    const nlohmann::json* const tags = tags_.Get(call.tags);
    json["tags"] = tags == nullptr ? ordered_json() : ordered_json(*tags);
    const auto text = [](std::string value) { return value.empty() ? ordered_json() : ordered_json(std::move(value)); };
    json["module"] = text(ModuleText(call));
    json["a_line"] = text(Line(a_, a_lines_, call.a_stack));
    json["b_line"] = text(Line(b_, b_lines_, call.b_stack));
    return json;
  }

  static ordered_json RelativeJson(double relative) {
    return std::isfinite(relative) ? ordered_json(relative) : ordered_json("inf");
  }

  ordered_json TensorJson(const CallInBoth& call, const TensorInBoth& tensor) const {
    ordered_json json = {{"name", TensorName(call, tensor)},
                         {"position", tensor.position},
                         {"a_dtype", tensor.a.text},
                         {"b_dtype", tensor.b.text},
                         {"relative", RelativeJson(tensor.comparison.relative)},
                         {"absolute", tensor.comparison.absolute}};
    if (tensor.comparison.elements > 0) {
      json["elements"] = tensor.comparison.elements;
      json["elements_apart"] = tensor.comparison.elements_apart;
    }
    for (const auto& [name, numbers] : {std::pair("a", &tensor.a_numbers), std::pair("b", &tensor.b_numbers)}) {
      if (!numbers->has_value()) continue;
      TensorNote note;
      note.numbers = *numbers;
      ordered_json of = ordered_json::object();
      AddNote(note, &of);
      json[name] = std::move(of["numbers"]);
    }
    return json;
  }

  ordered_json FirstJson(const std::optional<FirstDifference>& first) {
    if (!first.has_value()) return nullptr;
    ordered_json json = {{"origin", OriginName(first->origin)}};
    json.update(CallJson(first->call));
    json["tensor"] = TensorJson(first->call, first->tensor);
    json["why"] = Why(*first);
    if (first->inside != kNoCall) {
      json["inside"] = {{"a_call", first->inside}, {"a", ConfigText(a_, first->inside_config)}};
    }
    for (const SourceCall& source : first->sources) {
      json["sources"].push_back({{"of", source.of_a ? "a" : "b"},
                                 {"call", source.call},
                                 {"config", ConfigText(source.of_a ? a_ : b_, source.config)}});
    }
    if (first->taken.has_value()) {
      json["taken"] = CallJson(first->taken->first);
      json["taken"]["tensor"] = TensorJson(first->taken->first, first->taken->second);
    }
    return json;
  }

  ordered_json Json() {
    const auto tensors = [this](Likeness likeness) { return diff_.tensors[static_cast<size_t>(likeness)]; };
    ordered_json tolerances = ordered_json::object();
    for (const auto& [dtypes, of] : diff_.tolerances) {
      tolerances[dtypes] = {{"rtol", of.relative}, {"atol", of.absolute}};
    }
    const auto others = [](const auto& counts) {
      ordered_json list = ordered_json::array();
      for (const auto& [names, count] : counts) {
        list.push_back({{"a", names.first}, {"b", names.second}, {"tensors", count}});
      }
      return list;
    };
    ordered_json json = {
        {"different", diff_.different()},
        {"ignored", options_.ignored},
        {"shortest", diff_.shortest},
        {"compiled", diff_.compiled},
        {"a", {{"trace", options_.a_name}, {"calls", diff_.a_calls}}},
        {"b", {{"trace", options_.b_name}, {"calls", diff_.b_calls}}},
        {"compared",
         {{"calls", diff_.compared_calls},
          {"different", diff_.different_calls},
          {"different_with_same_arguments", diff_.computed_calls},
          {"close", diff_.close_calls},
          {"tensors", diff_.compared_tensors()},
          {"tensors_same", tensors(Likeness::kEqual)},
          {"tensors_close", tensors(Likeness::kClose)},
          {"tensors_different", tensors(Likeness::kDifferent)},
          {"other_dtypes", others(diff_.other_dtypes)},
          {"other_devices", others(diff_.other_devices)},
          {"tolerances", std::move(tolerances)}}},
        {"not_compared",
         {{"calls_only_in_a", diff_.only_in_a},
          {"calls_only_in_b", diff_.only_in_b},
          {"calls_without_numbers", WithoutNumbers()},
          {"calls_in_backward", diff_.in_backward},
          {"tensors_without_numbers_in_a", diff_.without_numbers_in_a},
          {"tensors_without_numbers_in_b", diff_.without_numbers_in_one - diff_.without_numbers_in_a},
          {"tensors_without_numbers", diff_.tensors[0] - diff_.without_numbers_in_one - diff_.other_shapes},
          {"tensors_of_other_shapes", diff_.other_shapes},
          {"tensors_too_late", diff_.too_late}}},
        {"first", FirstJson(diff_.first)},
        {"first_in_bits", FirstJson(diff_.first_in_bits)},
        {"rows", ordered_json::array()}};
    if (options_.summary) return json;
    for (const auto& [key, row] : diff_.rows) {
      ordered_json one = {
          {"step", key.first.empty() ? ordered_json() : ordered_json(key.first)},
          {diff_.by_module ? "module" : "api", key.second.empty() ? ordered_json() : ordered_json(key.second)},
          {"calls", row.calls},
          {"different", row.different},
          {"close", row.close},
          {"relative", RelativeJson(std::max(row.relative, 0.0))},
          {"largest", CallJson(row.call)}};
      json["rows"].push_back(std::move(one));
    }
    if (!all_) return json;
    json["calls"] = ordered_json::array();
    for (const DifferingCall& call : diff_.calls) {
      ordered_json one = CallJson(call.call);
      one["arguments"] = LikenessName(call.arguments);
      one["results"] = LikenessName(call.results);
      one["relative"] = RelativeJson(call.relative);
      one["of"] = TensorName(call.call, call.place, call.position);
      json["calls"].push_back(std::move(one));
    }
    return json;
  }

  // ---- Markdown ----

  void WriteMarkdown() {
    out_ << "# torchtrace diff --numbers\n\n| | A | B |\n|---|---|---|\n| trace | " << MarkdownCode(options_.a_name)
         << " | " << MarkdownCode(options_.b_name) << " |\n| calls | " << diff_.a_calls << " | " << diff_.b_calls
         << " |\n\n";
    if (!options_.ignored.empty()) out_ << "Ignored: " << absl::StrJoin(options_.ignored, ", ") << ".\n\n";
    out_ << Verdict() << ".\n";
    for (const auto& [first, in_bits] : {std::pair(&diff_.first, false), std::pair(&diff_.first_in_bits, true)}) {
      if (!first->has_value()) continue;
      std::string title = Title(**first, in_bits);
      title.front() = static_cast<char>(title.front() - 'a' + 'A');
      out_ << "\n## " << title << "\n\n- " << MarkdownCode(Calls((*first)->call)) << "\n- "
           << MarkdownCode(Text((*first)->call, false)) << "\n- " << MarkdownCode(Where((*first)->call)) << "\n- "
           << MarkdownCode(absl::StrCat(TensorName((*first)->call, (*first)->tensor), ": ", HowMuch((*first)->tensor)))
           << "\n";
      for (const std::string& line : Why(**first)) out_ << "- " << MarkdownCode(line) << "\n";
    }
    size_t shown = 0;
    if (!options_.summary && !diff_.rows.empty()) {
      out_ << "\n## Rows\n\n" << Rows(&shown).FormatMarkdown();
      if (shown < diff_.rows.size()) out_ << "\n... and " << diff_.rows.size() - shown << " more\n";
    }
    if (!options_.summary && !diff_.calls.empty()) out_ << "\n## Calls\n\n" << ListedCalls().FormatMarkdown();
    out_ << "\n";
    for (const std::string& line : Coverage()) out_ << "- " << MarkdownCode(line) << "\n";
  }

  const NumberDiff diff_;
  const Trace& a_;
  const Trace& b_;
  const DiffOptions& options_;
  const bool all_;
  std::ostream& out_;
  ParsedTags tags_;
  const StackText a_lines_;
  const StackText b_lines_;
  const bool several_models_;
};

}  // namespace

absl::StatusOr<bool> WriteNumberDiff(Trace* a, Trace* b, const DiffOptions& options,
                                     const NumberDiffOptions& number_options, std::ostream* out) {
  CommonConfigs configs;
  absl::StatusOr<NumberDiff> diff = CompareNumbers(a, b, options.scope, number_options, &configs);
  if (!diff.ok()) return diff.status();
  return NumberReport(*std::move(diff), a, b, options, number_options.all, out).Write();
}

}  // namespace torchtrace
