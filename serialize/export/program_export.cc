#include "serialize/export/program_export.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "serialize/base/text.h"
#include "serialize/export/python_code.h"
#include "serialize/flow/flow.h"
#include "serialize/flow/target.h"
#include "serialize/forms/forms.h"
#include "serialize/model/levels.h"
#include "serialize/model/torch_names.h"

namespace torchtrace {
namespace {

constexpr std::string_view kParameter = "torch.nn.parameter.Parameter";
constexpr std::string_view kBuffer = "torch.nn.parameter.Buffer";
constexpr size_t kMostComment = 160;

// torch.fx writes arguments into its code by their repr.
bool FitsGraph(const Value& value) {
  return value.tag != ValueTag::kGenerator && value.tag != ValueTag::kSet && value.tag != ValueTag::kFrozenSet &&
         std::all_of(value.items.begin(), value.items.end(), FitsGraph);
}

bool FitsGraph(const Config& config) {
  return std::all_of(config.args.begin(), config.args.end(), [](const Value& value) { return FitsGraph(value); }) &&
         std::all_of(config.kwargs.begin(), config.kwargs.end(), [](const auto& one) { return FitsGraph(one.second); });
}

std::string Dims(const std::vector<Dim>& dims) {
  std::vector<std::string> items;
  for (const Dim& dim : dims) items.push_back(absl::StrCat(dim.value_or(0)));
  return PythonTuple(items);
}

class ProgramWriter {
 public:
  ProgramWriter(std::string_view label, bool fx) : label_(label), fx_(fx) {}

  absl::Status Write(Trace* trace, CallSelection selection, std::ostream* out, std::vector<std::string>* notes) {
    if (absl::Status s = ChooseLevel(trace, &selection); !s.ok()) return s;
    level_ = selection.levels[0];
    const absl::StatusOr<FlowSummary> summary =
        ReadFlow(trace, selection, [&](const FlowStep& step) { return Visit(*trace, step), absl::OkStatus(); },
                 {.surroundings = true});
    if (!summary.ok()) return summary.status();
    if (summary->steps == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(label_, " has no calls of level ", level_, " among those that were asked for"));
    }
    SetModes(true, {});
    Return(summary->outcome);
    *out << Text(*summary);
    Tell(*summary, notes);
    return FinishStream(out);
  }

 private:
  // A tensor's expression: a variable, and the subscripts that lead from its value to the tensor.
  struct Place {
    std::string variable;
    std::vector<std::string> path;
  };
  // A tensor that becomes an input or a view once a call takes it.
  struct Origin {
    absl::StatusOr<std::string> made = absl::UnknownError("");  // an expression
    FlowSource::Kind kind = FlowSource::kInput;
    bool parameter = false;
    bool gradient = false;
    FlowValue base = kNoFlowValue;
    bool same = false;
    bool other_dtype = false;
    int64_t shift = 0;
    std::string shape, stride, dtype, device;
    std::string unseen = {};  // if it appeared while the calls were made: the call that takes it
  };

  static absl::Status ChooseLevel(Trace* trace, CallSelection* selection) {
    std::vector<int>& levels = selection->levels;
    if (levels.size() > 1) return absl::InvalidArgumentError("a program is of one level: --level 1, or --level 2");
    if (levels.size() == 1) return absl::OkStatus();
    if (absl::Status s = trace->Count().status(); !s.ok()) return s;
    std::map<int, bool> has;
    for (ConfigId id = 0; id < trace->config_count(); ++id) has[ReadConfigHead(trace->identity(id)).level] = true;
    levels = {kFunctionLevel};
    for (const int level : {kRecordLevel, kDispatchLevel, kSetattrLevel, kFunctionLevel}) {
      if (has.contains(level)) levels = {level};
    }
    return absl::OkStatus();
  }

  bool of_operators() const { return level_ == kDispatchLevel || level_ == kRecordLevel; }

  Origin OriginOf(const FlowSource& source, const Config& config) const {
    Origin origin;
    origin.kind = source.kind;
    origin.base = source.base;
    origin.same = source.same;
    origin.other_dtype = source.other_dtype;
    origin.shift = source.shift;
    const Value& tensor = source.tensor;
    const bool gradient = source.facet.requires_grad;
    const bool of_class = source.facet.subclass == kParameter;
    if (source.kind == FlowSource::kView) {
      // Fails if the dtype or sizes can't be written.
      origin.made = PythonTensor(tensor, nullptr, /*contents=*/false, config);
      origin.shape = Dims(tensor.shape);
      origin.stride = Dims(StridesOf(tensor));
      origin.dtype = absl::StrCat("torch.", tensor.text);
      origin.device = PythonString(tensor.device).value_or("\"cpu\"");
      origin.parameter = of_class && origin.same;
      origin.gradient = gradient;
      return origin;
    }
    origin.made = PythonTensor(tensor, &source.note, /*contents=*/true, config, source.memory);
    origin.parameter = of_class || source.facet.subclass == kBuffer || (of_operators() && gradient);
    if (!origin.made.ok() || source.facet.subclass == kBuffer) return origin;
    if (origin.parameter) {
      *origin.made = absl::StrCat("torch.nn.Parameter(", *origin.made, gradient ? ")" : ", requires_grad=False)");
    } else if (gradient) {
      *origin.made += ".requires_grad_()";
    }
    return origin;
  }

  void Visit(const Trace& trace, const FlowStep& step) {
    for (const FlowSource& source : step.sources) {
      Origin& origin = origins_[source.value] = OriginOf(source, *step.config);
      if (!source.unseen) continue;
      origin.unseen = absl::StrCat("call ", step.call, " of ", FormatApi(step.config->api), " takes");
      if (source.maker == kNoCall || source.maker_config == kLostId) continue;
      absl::StrAppend(&origin.unseen, ", made by call ", source.maker, " of ",
                      FormatApi(ReadConfigHead(trace.identity(source.maker_config)).api));
    }
    NoteGradients(step);
    if (IsMark(step.config->api)) return;
    const bool raised = step.outcome == CallOutcome::kRaised;
    // A graph can't continue after a call that raised.
    if (raised && fx_ && !step.last) return LeaveOut(step, absl::StrCat("it raised ", std::string(step.exception)));
    if (OnlyTells(step)) return;
    if (fx_ && !FitsGraph(*step.config)) return LeaveOut(step, "a graph can't hold a set or a torch.Generator");
    const CallTarget target = TargetOf(step.config->api, step.config->level);
    // Check that the call can be written before writing its arguments.
    std::string problem;
    const absl::StatusOr<PythonArguments> tried =
        WriteArguments(*step.config, [&](const Value&, uint64_t position) -> absl::StatusOr<std::string> {
          if (position >= step.arguments.size()) return absl::UnimplementedError("a tensor without a number");
          if (absl::Status s = CanMake(step.arguments[position]); !s.ok()) return s;
          return std::string("x");
        });
    absl::Status status = tried.status();
    if (status.ok()) status = fx_ ? WriteNode(target, *tried).status() : WriteCall(target, *tried).status();
    if (!status.ok()) return LeaveOut(step, std::string(status.message()));

    SetModes(step.gradients, step.autocast);
    const absl::StatusOr<PythonArguments> arguments =
        WriteArguments(*step.config, [&](const Value&, uint64_t position) -> absl::StatusOr<std::string> {
          return NameOf(step.arguments[position]);
        });
    const bool returns = !step.results.empty() || (raised && fx_);
    std::string line, variable;
    if (fx_) {
      line = *WriteNode(target, *arguments);
    } else {
      const PythonCall call = *WriteCall(target, *arguments);
      line = call.text;
    }
    if (returns) {
      variable = absl::StrCat("t", results_++);
      line = absl::StrCat(variable, " = ", line);
    }
    line += absl::StrCat("  # call ", step.call);
    if (raised) absl::StrAppend(&line, ": it raised ", QuotedInComment(step.exception));
    ++written_;
    if (raised && !step.last) return Try(line, step.exception);
    Line(line);
    if (raised) {
      raises_ = true;
      last_ = variable;
    }
    if (!returns) return;
    variables_[step.call] = variable;
    Bind(step, variable);
  }

  // Writes a call that raised, after which the program continued.
  void Try(const std::string& line, std::string_view exception) {
    static constexpr std::string_view kBuiltIn[] = {
        "ArithmeticError", "AssertionError", "AttributeError", "FloatingPointError",  "IndexError",
        "KeyError",        "LookupError",    "MemoryError",    "NotImplementedError", "OverflowError",
        "RuntimeError",    "TypeError",      "ValueError",     "ZeroDivisionError"};
    const bool known = std::find(std::begin(kBuiltIn), std::end(kBuiltIn), exception) != std::end(kBuiltIn);
    Line("try:");
    Line(absl::StrCat("    ", line));
    Line(absl::StrCat("except ", known ? std::string(exception) : "Exception", ":"));
    Line("    pass");
    ++tried_;
  }

  // Chooses the return value: the first result of `outcome` that the program can make.
  void Return(const FlowOutcome& outcome) {
    for (size_t i = 0; i < outcome.results.size() && last_.empty(); ++i) {
      const FlowOutcome::Result& result = outcome.results[i];
      const auto variable = variables_.find(result.call);
      if (result.whole && variable != variables_.end()) {
        last_ = variable->second;
      } else if (places_.contains(result.value)) {
        last_ = NameOf(result.value);
      } else {
        continue;  // the call that made it is left out
      }
      if (i != 0) continue;
      if (outcome.asked) {
        told_.push_back(absl::StrCat("all that the calls made was used, if only by a test: what call ", result.call,
                                     " made is returned"));
      } else if (!outcome.others.empty()) {
        told_.push_back(absl::StrCat("what call ", result.call, " made is returned; no call used that of ",
                                     Few(outcome.others), " either"));
      }
    }
  }

  template <typename Item>
  static std::string Few(const std::vector<Item>& items) {
    constexpr size_t kMost = 3;
    const size_t count = std::min(items.size(), kMost);
    std::string text = absl::StrJoin(items.begin(), items.begin() + count, ", ");
    if (items.size() > count) absl::StrAppend(&text, " and ", items.size() - count, " more");
    return text;
  }

  // Operators were recorded below autograd and autocast, where these modes have no effect.
  void SetModes(bool gradients, const CallAutocast& autocast) {
    if (of_operators()) return;
    const bool others = std::exchange(gradients_, gradients) != gradients;
    const CallAutocast before = std::exchange(autocast_, autocast);
    if (fx_) {
      if (others) {
        Line(absl::StrCat("graph.call_function(torch._C._set_grad_enabled, (", gradients ? "True" : "False", ",))"));
      }
      if (before == autocast) return;
      if (!before.device.empty()) {
        Line("graph.call_function(torch.amp.autocast_mode._exit_autocast, (autocast,))");
      }
      if (!autocast.device.empty()) {
        Line(absl::StrCat("autocast = graph.call_function(torch.amp.autocast_mode._enter_autocast, (",
                          PythonString(autocast.device).value_or("\"cpu\""), ", torch.", autocast.dtype,
                          ", True, None))"));
      }
      return;
    }
    if (!others && before == autocast) return;
    std::vector<std::string> modes;
    if (!gradients) modes.emplace_back("torch.no_grad()");
    if (!autocast.device.empty()) modes.push_back(PythonAutocast(autocast));
    if (!modes.empty()) absl::StrAppend(&body_, "    with ", absl::StrJoin(modes, ", "), ":\n");
  }

  void Bind(const FlowStep& step, const std::string& variable) {
    size_t position = 0;
    std::vector<std::string> path;
    for (size_t i = 0; i < step.result.size(); ++i) {
      if (step.result.size() > 1) path.push_back(absl::StrCat(i));
      BindValue(step, step.result[i], variable, &path, &position);
      if (step.result.size() > 1) path.pop_back();
    }
  }

  void BindValue(const FlowStep& step, const Value& value, const std::string& variable, std::vector<std::string>* path,
                 size_t* position) {
    if (value.tag == ValueTag::kTensor) {
      if (*position < step.results.size()) places_[step.results[*position]] = {variable, *path};
      ++*position;
      return;
    }
    const bool dict = value.tag == ValueTag::kDict;
    for (size_t i = 0; i < value.items.size(); i += dict ? 2 : 1) {
      std::string key = absl::StrCat(i);
      if (dict) key = PythonString(value.items[i].text).value_or("\"\"");
      path->push_back(key);
      BindValue(step, value.items[dict ? i + 1 : i], variable, path, position);
      path->pop_back();
    }
  }

  // The results of the call become inputs if a later call takes them.
  void LeaveOut(const FlowStep& step, const std::string& why) {
    std::string text = FormatFoldedConfig(*step.config);
    if (text.size() > kMostComment) text = std::string(CutUtf8(text, kMostComment)) + "...";
    Line(absl::StrCat("# left out: call ", step.call, ", ", text, ": ", QuotedInComment(why)));
    ++left_out_[step.outcome == CallOutcome::kRaised ? "they raised" : why];
    size_t position = 0;
    for (const Value& value : step.result) Remake(step, value, &position);
  }

  void Remake(const FlowStep& step, const Value& value, size_t* position) {
    if (value.tag == ValueTag::kTensor) {
      if (*position < step.results.size()) {
        FlowSource source;
        source.tensor = value;
        if (const TensorNote* const note = FindNote(*step.result_notes, *position)) source.note = *note;
        places_.erase(step.results[*position]);
        origins_[step.results[*position]] = OriginOf(source, *step.config);
      }
      ++*position;
    }
    for (const Value& item : value.items) Remake(step, item, position);
  }

  // Contains no line break.
  static std::string QuotedInComment(std::string_view text) {
    const std::string quoted = QuoteText(text);
    return quoted.substr(1, quoted.size() - 2);
  }

  absl::Status CanMake(FlowValue value) const {
    if (places_.contains(value)) return absl::OkStatus();
    const auto origin = origins_.find(value);
    if (origin == origins_.end()) return absl::UnimplementedError("a tensor that nobody made");
    if (absl::Status s = origin->second.made.status(); !s.ok() || origin->second.kind != FlowSource::kView) return s;
    return CanMake(origin->second.base);
  }

  // The variable of a value, or an expression for it.
  std::string NameOf(FlowValue value) {
    const auto known = places_.find(value);
    if (known == places_.end()) {
      const Origin origin = origins_.at(value);
      std::string name = origin.kind == FlowSource::kView ? View(origin) : Input(origin);
      places_[value] = {name, {}};
      return name;
    }
    const Place place = known->second;
    if (place.path.empty()) return place.variable;
    if (!fx_) return absl::StrCat(place.variable, "[", absl::StrJoin(place.path, "]["), "]");
    std::string name = place.variable;
    for (const std::string& key : place.path) {
      const std::string item = absl::StrCat("t", results_++);
      Line(absl::StrCat(item, " = graph.call_function(operator.getitem, (", name, ", ", key, "))"));
      name = item;
    }
    places_[value] = {name, {}};
    return name;
  }

  std::string Input(const Origin& origin) {
    std::vector<std::pair<std::string, std::string>>& inputs = origin.parameter ? parameters_ : inputs_;
    std::string name = absl::StrCat(origin.parameter ? "p" : "x", inputs.size());
    inputs.emplace_back(name, *origin.made);
    if (!origin.unseen.empty() && !origin.parameter) unseen_.push_back(absl::StrCat(name, ", which ", origin.unseen));
    return name;
  }

  std::string View(const Origin& origin) {
    std::string base = NameOf(origin.base);
    const bool same = origin.same && !origin.parameter;
    // Detached by x.data or the like, which isn't recorded as a call.
    const bool floating =
        origin.dtype.find("float") != std::string::npos || origin.dtype.find("complex") != std::string::npos;
    const bool detached =
        floating && !origin.gradient && !origin.other_dtype && !origin.parameter && HasGradient(origin.base);
    if (same && !detached) return base;
    std::string name = absl::StrCat("v", views_++);
    if (detached) {
      Line(fx_ ? absl::StrCat(name, " = graph.call_function(getattr, (", base, ", \"data\"))")
               : absl::StrCat(name, " = ", base, ".data"));
      if (same) return name;
      base = name;
    }
    if (origin.parameter) {
      // A parameter made from the result of a call, as in a module that the program builds.
      const char* const gradient = origin.gradient ? "True" : "False";
      Line(fx_ ? absl::StrCat(name, " = graph.call_function(torch.nn.Parameter, (", base, ", ", gradient, "))")
               : absl::StrCat(name, " = torch.nn.Parameter(", base, ", requires_grad=", gradient, ")"));
      return name;
    }
    const std::string shift = absl::StrCat(origin.shift);
    if (origin.other_dtype) {
      if (fx_) {
        Line(absl::StrCat(name, " = graph.call_method(\"untyped_storage\", (", base, ",))"));
        Line(absl::StrCat(name,
                          " = graph.call_method(\"set_\", (graph.call_function(torch.empty, ((0,),), {\"dtype\": ",
                          origin.dtype, ", \"device\": torch.device(", origin.device, ")}), ", name, ", ", shift, ", ",
                          origin.shape, ", ", origin.stride, "))"));
      } else {
        Line(absl::StrCat(name, " = torch.empty((0,), dtype=", origin.dtype, ", device=", origin.device, ").set_(",
                          base, ".untyped_storage(), ", shift, ", ", origin.shape, ", ", origin.stride, ")"));
      }
      return name;
    }
    if (fx_) {
      std::string offset;
      if (origin.shift != 0) {
        Line(absl::StrCat(name, " = graph.call_method(\"storage_offset\", (", base, ",))"));
        offset = absl::StrCat(", graph.call_function(operator.add, (", name, ", ", shift, "))");
      }
      Line(absl::StrCat(name, " = graph.call_function(torch.as_strided, (", base, ", ", origin.shape, ", ",
                        origin.stride, offset, "))"));
    } else {
      const std::string offset = origin.shift == 0 ? "" : absl::StrCat(", ", base, ".storage_offset() + ", shift);
      Line(absl::StrCat(name, " = ", base, ".as_strided(", origin.shape, ", ", origin.stride, offset, ")"));
    }
    return name;
  }

  void NoteGradients(const FlowStep& step) {
    for (size_t i = 0; i < step.arguments.size(); ++i) {
      const TensorFacet* const facet = FindFacet(*step.facets, i);
      const bool has = facet != nullptr && facet->requires_grad;
      gradient_[step.arguments[i]] |= has;
      any_gradient_ |= has;
    }
  }

  // Whether views of the value would require a gradient. A result that no call has taken yet may.
  bool HasGradient(FlowValue value) const {
    if (!any_gradient_ || !gradients_ || of_operators()) return false;
    const auto known = gradient_.find(value);
    return known != gradient_.end() ? known->second : !origins_.contains(value);
  }

  void Line(std::string_view line) {
    body_ += fx_ || (gradients_ && autocast_.device.empty()) ? "    " : "        ";
    body_ += line;
    body_ += '\n';
  }

  std::string Text(const FlowSummary& summary) const {
    std::string text = absl::StrCat("# ", written_, written_ == 1 ? " call" : " calls", " of level ", level_, " of ",
                                    QuoteText(label_), ", of ", summary.steps, ", written by torchtrace.\n");
    if (fx_) {
      text +=
          "#\n#   module = graph_module()         a torch.fx.GraphModule, with parameters as they were recorded\n"
          "#   module(*example_inputs())\n\nimport operator\n";
    }
    absl::StrAppend(&text, std::string(CodePrelude()), "\n\n");
    text += fx_ ? Fx() : Script();
    return text;
  }

  static std::string Names(const std::vector<std::pair<std::string, std::string>>& inputs) {
    return absl::StrJoin(inputs, ", ", [](std::string* out, const auto& input) { *out += input.first; });
  }

  std::string Script() const {
    std::vector<std::pair<std::string, std::string>> inputs = inputs_;
    inputs.insert(inputs.end(), parameters_.begin(), parameters_.end());
    std::string text = "def inputs():\n    \"\"\"What the program takes: tensors, and parameters behind them.\"\"\"\n";
    for (const auto& [name, made] : inputs) absl::StrAppend(&text, "    ", name, " = ", made, "\n");
    absl::StrAppend(&text, "    return (", Names(inputs), inputs.empty() ? ")" : ",)", "\n\n\ndef program(",
                    Names(inputs), "):\n", body_, "    return ", last_.empty() ? "None" : last_,
                    "\n\n\nif __name__ == \"__main__\":\n    torch.manual_seed(0)\n");
    // Operators were recorded below autograd, where writing to parameters is allowed.
    text += of_operators() ? "    with torch.no_grad():\n        print(program(*inputs()))\n"
                           : "    print(program(*inputs()))\n";
    return text;
  }

  std::string Fx() const {
    std::string text = "def example_inputs():\n    \"\"\"What the module takes.\"\"\"\n";
    for (const auto& [name, made] : inputs_) absl::StrAppend(&text, "    ", name, " = ", made, "\n");
    absl::StrAppend(&text, "    return (", Names(inputs_), inputs_.empty() ? ")" : ",)",
                    "\n\n\ndef state():\n    \"\"\"The module's parameters and buffers.\"\"\"\n    return {\n");
    for (const auto& [name, made] : parameters_) absl::StrAppend(&text, "        \"", name, "\": ", made, ",\n");
    text +=
        "    }\n\n\ndef graph_module(attributes=None):\n"
        "    \"\"\"The calls as a module; `attributes` in place of state().\"\"\"\n"
        "    graph = torch.fx.Graph()\n";
    for (const auto& [name, made] : inputs_)
      absl::StrAppend(&text, "    ", name, " = graph.placeholder(\"", name, "\")\n");
    for (const auto& [name, made] : parameters_)
      absl::StrAppend(&text, "    ", name, " = graph.get_attr(\"", name, "\")\n");
    absl::StrAppend(
        &text, body_, "    graph.output(", last_.empty() ? "None" : last_,
        ")\n    graph.lint()\n    return torch.fx.GraphModule(state() if attributes is None else attributes, "
        "graph)\n");
    return text;
  }

  void Tell(const FlowSummary& summary, std::vector<std::string>* notes) const {
    const char* const format = fx_ ? "fx" : "python";
    const auto tell = [&](uint64_t count, std::string_view what) {
      if (count != 0)
        notes->push_back(absl::StrCat(format, ": ", Counted(count, "call", "calls"), " ", std::string(what)));
    };
    for (const auto& [why, count] : left_out_) tell(count, absl::StrCat("left out: ", why));
    tell(tried_, "raised, and the program went on: so does the script");
    if (raises_) notes->push_back(absl::StrCat(format, ": the last call raised: so does what is written"));
    for (const std::string& text : told_) notes->push_back(absl::StrCat(format, ": ", text));
    if (!unseen_.empty()) {
      notes->push_back(absl::StrCat(format, ": ", Few(unseen_),
                                    ": made while the calls were, by nothing that was recorded at this level (a "
                                    "ScriptFunction, an operator of an extension, another library); inputs"));
    }
    tell(summary.other_processes, "left out: of other processes than the first, and a program is of one");
    tell(summary.never_returned, "left out: they never returned");
    tell(summary.opened, "can't be made again: what was called in them stands in their place");
    if (summary.steps > 1 && summary.without_result == summary.steps) {
      notes->push_back(absl::StrCat(format,
                                    ": what calls returned is not in the trace (run --outputs --ids): each is "
                                    "called with tensors of its own"));
    } else if (summary.steps > 1 && summary.without_id > 0) {
      notes->push_back(absl::StrCat(format, ": which tensor is which is not in the trace for ", summary.without_id,
                                    " of them (run --ids): each is one of its own"));
    }
  }

  const std::string label_;
  const bool fx_;
  int level_ = kFunctionLevel;
  std::string body_;
  std::string last_;       // what is returned
  bool gradients_ = true;  // the modes in `body_`
  CallAutocast autocast_;
  std::vector<std::pair<std::string, std::string>> inputs_, parameters_;  // names and their expressions
  absl::flat_hash_map<FlowValue, Place> places_;
  absl::flat_hash_map<FlowValue, Origin> origins_;
  absl::flat_hash_map<FlowValue, bool> gradient_;  // by argument: whether it was seen to require a gradient
  bool any_gradient_ = false;
  std::map<std::string, uint64_t> left_out_;              // calls by reason
  absl::flat_hash_map<uint64_t, std::string> variables_;  // of results, by calls
  std::vector<std::string> told_;
  std::vector<std::string> unseen_;  // inputs that appeared while the calls were made
  bool raises_ = false;
  uint64_t tried_ = 0;
  uint64_t written_ = 0;
  uint64_t results_ = 0;
  uint64_t views_ = 0;
};

}  // namespace

absl::Status WritePythonProgram(Trace* trace, std::string_view label, CallSelection selection, std::ostream* out,
                                std::vector<std::string>* notes) {
  return ProgramWriter(label, /*fx=*/false).Write(trace, std::move(selection), out, notes);
}

absl::Status WriteFxProgram(Trace* trace, std::string_view label, CallSelection selection, std::ostream* out,
                            std::vector<std::string>* notes) {
  return ProgramWriter(label, /*fx=*/true).Write(trace, std::move(selection), out, notes);
}

extern const Exporter kPythonExporter;
const Exporter kPythonExporter = {
    .name = "python",
    .help = "a script that makes the same calls, with their data flow",
    .suffixes = {"py"},
    .write_program = WritePythonProgram,
};

extern const Exporter kFxExporter;
const Exporter kFxExporter = {
    .name = "fx",
    .help = "a Python file that makes a torch.fx.GraphModule of the calls",
    .write_program = WriteFxProgram,
};

}  // namespace torchtrace
