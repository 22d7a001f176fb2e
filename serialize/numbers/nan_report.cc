#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/base/clip_text.h"
#include "serialize/base/text.h"
#include "serialize/forms/call_labels.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/log/log_metadata.h"
#include "serialize/model/config.h"
#include "serialize/model/levels.h"
#include "serialize/numbers/first_nan.h"
#include "serialize/numbers/tensor_numbers.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

// Of a call's tensors, in text.
constexpr size_t kMostTensors = 8;
constexpr size_t kMostApisShown = 3;

std::string KindsText(uint8_t kinds) {
  return kinds == kHoldsNan ? "NaN" : kinds == kHoldsInfinity ? "infinity" : "NaN and infinity";
}

ordered_json KindsJson(uint8_t kinds) {
  ordered_json list = ordered_json::array();
  if ((kinds & kHoldsNan) != 0) list.push_back("nan");
  if ((kinds & kHoldsInfinity) != 0) list.push_back("inf");
  return list;
}

const char* PartName(StepPart part) {
  switch (part) {
    case StepPart::kForward:
      return "forward";
    case StepPart::kBackward:
      return "backward";
    case StepPart::kRecomputed:
      return "forward, run again in backward";
    case StepPart::kOptimizer:
      return "the optimizer's step";
    case StepPart::kUnknown:
      break;
  }
  return "";
}

ordered_json PartJson(StepPart part) {
  switch (part) {
    case StepPart::kForward:
      return "forward";
    case StepPart::kBackward:
      return "backward";
    case StepPart::kRecomputed:
      return "recomputed";
    case StepPart::kOptimizer:
      return "optimizer";
    case StepPart::kUnknown:
      break;
  }
  return nullptr;
}

const char* HowName(NanFinding::How how) {
  return how == NanFinding::kMade ? "made" : how == NanFinding::kCameIn ? "came in" : "returned";
}

// The text and JSON of one trace's findings.
class NanReport {
 public:
  NanReport(const NanTrace& trace, std::vector<ProcessNans> processes, const NanOptions& options)
      : trace_(*trace.trace),
        name_(trace.name),
        nans_(std::move(processes)),
        options_(options),
        stack_text_(trace_),
        several_models_(SeveralModels::In(trace_)) {}

  const Trace& trace() const { return trace_; }
  // Null: none.
  const NanFinding* First(uint32_t process) const {
    return nans_[process].findings.empty() ? nullptr : &nans_[process].findings.front();
  }

  // Of a process with findings. `several`: traces.
  std::string ProcessText(uint32_t process, bool several) const {
    std::string text;
    if (several || nans_.size() > 1) AddHeading(process, several, &text);
    AddProcess(process, &text);
    return text;
  }

  // The same of its findings, as data.
  std::vector<NanDescription> Describe(uint32_t process) const {
    std::vector<NanDescription> all;
    for (const NanFinding& finding : nans_[process].findings) {
      all.push_back({Headline(finding), LinesOf(process, finding)});
      if (nans_.size() > 1)
        all.back().lines.insert(all.back().lines.begin(), {"process", ProcessName(Process(process))});
    }
    return all;
  }

  // Of the others.
  std::string CleanText(bool several) const {
    std::string text;
    for (uint32_t i = 0; i < nans_.size(); ++i) {
      if (nans_[i].findings.empty()) AddClean(i, several, &text);
    }
    return text;
  }

  ordered_json Json(const std::vector<uint32_t>& processes) const {
    ordered_json json = {{"trace", name_}};
    ordered_json& list = json["processes"] = ordered_json::array();
    for (const uint32_t i : processes) list.push_back(ProcessJson(i));
    return json;
  }

 private:
  const ProcessInfo& Process(uint32_t process) const { return trace_.processes()[process]; }
  const char* Color(const char* code) const { return options_.color ? code : ""; }
  std::string What() const { return options_.nan_only ? "NaN" : "NaN or infinity"; }

  std::string ApiOf(ConfigId config) const { return PlainLine(FormatApi(ReadConfigHead(trace_.identity(config)).api)); }
  // `call 7 aten::log`
  std::string CallText(const NanCall& call) const { return absl::StrCat("call ", call.call, " ", ApiOf(call.config)); }
  // `call 7 aten::log in blocks.1 (Block)`
  std::string CallInModule(const NanCall& call) const {
    const bool in_other = call.module != kLostId && call.module != call.config;
    return absl::StrCat(CallText(call), in_other ? absl::StrCat(" in ", ModuleText(call.module)) : "");
  }

  ModuleLabel Module(ConfigId module) const {
    return module == kLostId ? ModuleLabel() : ModuleLabelOf(trace_.identity(module));
  }
  std::string ModuleText(ConfigId module) const {
    const ModuleLabel label = Module(module);
    return PlainLine(several_models_ ? label.WholeText() : label.Text());
  }
  std::string LineOf(StackId stack) const {
    return stack == kNoStack ? "" : PlainLine(stack_text_.Line(trace_.stacks().calling_line(stack)));
  }

  // `step=3, phase="eval"`
  std::string TagsText(uint32_t tags) const {
    const std::string_view text = trace_.tags(tags);
    if (text.empty()) return "";
    const ordered_json object = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) return DumpJson(std::string(text));
    std::string shown;
    for (const auto& [name, value] : object.items()) {
      absl::StrAppend(&shown, shown.empty() ? "" : ", ", FormatApi(name), "=", DumpJson(value));
    }
    return shown;
  }

  // `step=3, backward`
  std::string When(const NanCall& call) const {
    std::vector<std::string> parts;
    if (std::string tags = TagsText(call.tags); !tags.empty()) parts.push_back(std::move(tags));
    if (*PartName(call.part) != '\0') parts.emplace_back(PartName(call.part));
    return absl::StrJoin(parts, ", ");
  }

  void AddLine(std::string_view label, const std::string& what, std::string* text) const {
    const std::string lead =
        absl::StrCat("  ", std::string(label), std::string(label.size() < 12 ? 12 - label.size() : 1, ' '));
    absl::StrAppend(text, Color(kDim), lead, Color(kReset), ClipText(what, options_.width, lead.size()), "\n");
  }

  void AddHeading(uint32_t process, bool several, std::string* text) const {
    absl::StrAppend(text, Color(kBold), PlainLine(ProcessName(Process(process))), Color(kReset),
                    several ? absl::StrCat(" of ", PlainLine(name_)) : "", "\n");
  }

  void AddProcess(uint32_t process, std::string* text) const {
    const ProcessNans& nans = nans_[process];
    for (size_t i = 0; i < nans.findings.size(); ++i) {
      if (i > 0) *text += "\n";
      AddFinding(process, nans.findings[i], text);
    }
    *text += "\n";
    AddSpread(nans, text);
    AddMore(nans, text);
    AddMeant(nans, text);
    absl::StrAppend(text, "Looked at ", LookedAt(process), "\n");
  }

  bool IsLift(const NanCall& call) const {
    return ReadConfigHead(trace_.identity(call.config)).api.starts_with("aten::lift");
  }

  // The answer.
  std::string Headline(const NanFinding& finding) const {
    const std::string what = absl::StrCat("the first ", KindsText(finding.kinds));
    const std::string call = CallInModule(finding.call);
    std::string text;
    switch (finding.how) {
      case NanFinding::kMade:
        text = absl::StrCat(call, " made ", what, finding.literal ? ", which the program's text gave it" : "");
        if (finding.last_touched) {
          absl::StrAppend(&text, ", or took it from ", CallInModule(*finding.last_touched),
                          ", whose numbers were not recorded");
        } else if (!finding.outside.empty()) {
          absl::StrAppend(&text, ", unless it came in by argument ", absl::StrJoin(finding.outside, " or "),
                          ", which no recorded call made");
        }
        break;
      case NanFinding::kReturned:
        text = absl::StrCat(
            "call ", finding.call.call, ", of module ", ModuleText(finding.call.module), ", returned ", what,
            "; what it took isn't known: record operators too (-l 2,3), which compiled code has none of");
        break;
      case NanFinding::kCameIn:
        if (finding.came_in_by.empty()) {
          text = absl::StrCat(call, " brought in ", what, ": no recorded call made it");
        } else {
          text = absl::StrCat(what, " came in by argument ", finding.came_in_by, " of ", call, ": ");
          if (finding.last_touched && IsLift(*finding.last_touched) && !finding.literal) {
            absl::StrAppend(&text, "from the program's data or text, by ", CallInModule(*finding.last_touched));
          } else if (finding.literal && finding.last_touched) {
            absl::StrAppend(&text, "the program's text gave it to ", CallInModule(*finding.last_touched));
          } else if (finding.last_touched) {
            absl::StrAppend(&text, "from ", CallInModule(*finding.last_touched), ", whose numbers were not recorded");
          } else if (finding.literal) {
            absl::StrAppend(&text, "the program's text gave it");
          } else {
            absl::StrAppend(&text, "no recorded call made it");
          }
          text[0] = 'T';
        }
        break;
    }
    if (text[0] == 'c') text[0] = 'C';
    return text;
  }

  void AddFinding(uint32_t process, const NanFinding& finding, std::string* text) const {
    absl::StrAppend(text, Color(kRed), Headline(finding), Color(kReset), "\n");
    for (const auto& [label, what] : LinesOf(process, finding)) AddLine(label, what, text);
  }

  using Lines = std::vector<std::pair<std::string, std::string>>;

  Lines LinesOf(uint32_t process, const NanFinding& finding) const {
    Lines lines;
    std::string when = When(finding.call);
    if (finding.call.part == StepPart::kUnknown) {
      absl::StrAppend(&when, when.empty() ? "" : ", ", "forward or backward isn't known (levels 1 and 4 tell)");
    }
    lines.emplace_back("when", when);
    if (const std::string line = LineOf(finding.call.stack); !line.empty()) lines.emplace_back("line", line);
    if (const std::string around = AroundText(finding); !around.empty()) lines.emplace_back("called by", around);
    if (finding.call.part == StepPart::kBackward) lines.emplace_back("backward of", ForwardText(process, finding));
    lines.emplace_back("call", FoldedConfigText(trace_, finding.call.config));
    AddTensors(finding.arguments, "argument ", &lines);
    AddTensors(finding.result, finding.result.size() == 1 ? "returned" : "returned ", &lines);
    AddTensors(finding.written, "wrote ", &lines);
    return lines;
  }

  // `call 7 torch.log`: functions and operators around it, the innermost first, without modules and repeated names.
  std::string AroundText(const NanFinding& finding) const {
    std::vector<std::string> shown;
    std::string last = ApiOf(finding.call.config);
    for (size_t i = finding.around.size(); i-- > 0;) {
      const NanFinding::Around& around = finding.around[i];
      const std::string api = ApiOf(around.config);
      if (around.level == kFrameLevel || api == last) continue;
      shown.push_back(absl::StrCat(api, " (call ", around.call, ")"));
      last = api;
    }
    return absl::StrJoin(shown, ", ");
  }

  std::string ForwardText(uint32_t process, const NanFinding& finding) const {
    if (!finding.forward) {
      const std::vector<int>& levels = Process(process).known.levels;
      const bool level_4 = std::find(levels.begin(), levels.end(), kRecordLevel) != levels.end();
      return level_4 ? "not known" : "not known: level 4 tells (torchtrace run -l 1,2,3,4)";
    }
    std::string text = CallInModule(*finding.forward);
    if (const std::string line = LineOf(finding.forward->stack); !line.empty()) absl::StrAppend(&text, ", ", line);
    return text;
  }

  void AddTensors(const std::vector<NanTensor>& tensors, const std::string& label, Lines* lines) const {
    std::vector<const NanTensor*> shown;
    for (const NanTensor& tensor : tensors) shown.push_back(&tensor);
    if (shown.size() > kMostTensors) {
      std::stable_sort(shown.begin(), shown.end(),
                       [](const NanTensor* a, const NanTensor* b) { return a->held != 0 && b->held == 0; });
    }
    for (size_t i = 0; i < shown.size() && i < kMostTensors; ++i) {
      const NanTensor& tensor = *shown[i];
      lines->emplace_back(label.ends_with(' ') ? absl::StrCat(label, tensor.name) : label,
                          absl::StrCat(FormatValue(tensor.tensor), "  ", TensorNumbers(tensor)));
    }
    if (shown.size() > kMostTensors) {
      lines->emplace_back("", absl::StrCat(shown.size() - kMostTensors, " more: --format json"));
    }
  }

  static std::string TensorNumbers(const NanTensor& tensor) {
    if (tensor.note.numbers) {
      // `{nan 2, mean 0.1, min -3, max 3.2}`
      const std::string text = NumbersText(*tensor.note.numbers);
      return absl::StrCat("{", text.empty() ? "no elements" : text, "}");
    }
    if (tensor.held != 0) return absl::StrCat("holds ", KindsText(tensor.held), ", as an earlier call returned it");
    return "not recorded; no NaN or infinity by the calls before";
  }

  std::string CallLine(const NanCall& call) const {
    const std::string when = When(call);
    return absl::StrCat(CallInModule(call), when.empty() ? "" : ", ", when);
  }

  void AddSpread(const ProcessNans& nans, std::string* text) const {
    const NanSpread& spread = nans.spread;
    if (spread.reached == 0) {
      absl::StrAppend(text, "It reached no later call", spread.later == 0 ? "" : absl::StrCat(" of ", spread.later),
                      "\n");
      return;
    }
    absl::StrAppend(text, "It reached ", spread.reached, " of ", Counted(spread.later, "later call", "later calls"),
                    " of level ", spread.level,
                    spread.in_backward == 0 ? "" : absl::StrCat(", ", spread.in_backward, " of them in backward"),
                    "\n");
    for (size_t i = 0; i < spread.next.size(); ++i) AddLine(i == 0 ? "next" : "", CallLine(spread.next[i]), text);
    if (spread.first_gradient) AddLine("gradient", CallLine(*spread.first_gradient), text);
    if (spread.first_parameter) {
      const std::string module = ModuleText(spread.parameter_module);
      AddLine("parameter",
              absl::StrCat(CallLine(*spread.first_parameter), module.empty() ? "" : ", a parameter of ", module), text);
    }
    if (spread.last && spread.reached > spread.next.size()) AddLine("last", CallLine(*spread.last), text);
  }

  void AddMore(const ProcessNans& nans, std::string* text) const {
    if (nans.more == 0) return;
    absl::StrAppend(text, Counted(nans.more, "more call begins one:", "more calls begin one:"), "\n");
    for (size_t i = 0; i < nans.more_first.size(); ++i) {
      const ProcessNans::Light& light = nans.more_first[i];
      AddLine(HowName(light.how), absl::StrCat(CallLine(light.call), ": ", KindsText(light.kinds)), text);
    }
    if (nans.more > nans.more_first.size()) AddLine("", "...", text);
  }

  void AddMeant(const ProcessNans& nans, std::string* text) const {
    if (nans.meant == 0) return;
    absl::StrAppend(text, "Passed over ", Counted(nans.meant, "call that makes", "calls that make"),
                    " infinities as the program says: ", nans.meant == 1 ? "" : "the first is ",
                    CallInModule(*nans.meant_first), "\n");
  }

  // `115 calls with 118 tensors ...`: what was looked at, and what wasn't.
  std::string LookedAt(uint32_t process) const {
    const ProcessNans& nans = nans_[process];
    std::string text =
        absl::StrCat("what ", Counted(nans.counts.calls, "call", "calls"), " of ", Process(process).calls,
                     " returned or wrote: ", Counted(nans.counts.tensors, "tensor", "tensors"));
    if (nans.counts.arguments != 0) {
      absl::StrAppend(&text, ", and at ", Counted(nans.counts.arguments, "argument", "arguments"));
    } else if (nans.counts.arguments_without != 0) {
      absl::StrAppend(&text, "; arguments by what made them");
    }
    for (const std::string& missing : Missing(process)) absl::StrAppend(&text, "\nNot looked at: ", missing);
    return text;
  }

  // What was not looked at; empty: nothing.
  std::vector<std::string> Missing(uint32_t process) const {
    std::vector<std::string> missing;
    const ProcessNans& nans = nans_[process];
    const ProcessInfo& info = Process(process);
    if (info.calls != 0 && !nans.has_numbers) missing.emplace_back("any call, as no numbers of tensors were recorded");
    if (nans.has_numbers && nans.counts.without != 0) {
      std::vector<std::pair<std::string, uint64_t>> apis(nans.counts.without_by_api.begin(),
                                                         nans.counts.without_by_api.end());
      std::stable_sort(apis.begin(), apis.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
      std::vector<std::string> shown;
      for (size_t i = 0; i < apis.size() && i < kMostApisShown; ++i) {
        shown.push_back(absl::StrCat(PlainLine(FormatApi(apis[i].first)), " ", apis[i].second));
      }
      missing.push_back(absl::StrCat(Counted(nans.counts.without, "tensor", "tensors"), " without numbers, of ",
                                     absl::StrJoin(shown, ", "), apis.size() > kMostApisShown ? ", ..." : ""));
    }
    const std::vector<int>& levels = info.known.levels;
    if (nans.has_numbers && !levels.empty() &&
        std::all_of(levels.begin(), levels.end(), [](int level) { return level == kFrameLevel; })) {
      missing.emplace_back("what is in modules and between them: levels 1, 2 and 4 record it");
    }
    if (nans.counts.too_late != 0) {
      missing.push_back(absl::StrCat(Counted(nans.counts.too_late, "tensor", "tensors"),
                                     " whose numbers came too long after their calls"));
    }
    if (info.counted != 0) missing.push_back(CountedCalls(info.counted));
    if (info.damage.lost_calls != 0 || !info.damage.lost_calls_exact) {
      missing.push_back(CountLostCalls(info.damage.lost_calls, info.damage.lost_calls_exact) +
                        ", lost in a damaged log");
    }
    uint64_t dropped = 0;
    for (const auto& [reason, calls] : info.dropped) dropped += calls;
    if (dropped != 0) missing.push_back(absl::StrCat(Counted(dropped, "call", "calls"), " that could not be recorded"));
    if (!info.known.stopped.empty())
      missing.push_back(absl::StrCat("what came after recording stopped: ", PlainLine(info.known.stopped)));
    if (info.known.left_out != 0)
      missing.push_back(absl::StrCat(Counted(info.known.left_out, "call", "calls"),
                                     " that the program or an option of run left out"));
    if (nans.forgot) missing.emplace_back("whether older tensors held one: they are too many to remember");
    if (nans.left_out != 0) {
      missing.push_back(absl::StrCat(Counted(nans.left_out, "call that begins one", "calls that begin one"),
                                     ", which the options leave out"));
    }
    return missing;
  }

  void AddClean(uint32_t process, bool several, std::string* text) const {
    if (nans_.size() > 1 && Process(process).calls == 0) return;
    const bool all = Missing(process).empty();
    const std::string who =
        several || nans_.size() > 1 ? absl::StrCat(" in ", PlainLine(ProcessName(Process(process)))) : "";
    const std::string of = several ? absl::StrCat(" of ", PlainLine(name_)) : "";
    absl::StrAppend(text, "No ", What(), who, of, all ? "" : " in what was looked at", "\n");
    AddMeant(nans_[process], text);
    absl::StrAppend(text, "Looked at ", LookedAt(process), "\n");
  }

  ordered_json CallJson(const NanCall& call) const {
    ordered_json json = {{"call", call.call}, {"thread", call.thread}, {"level", call.level}};
    json["api"] = std::string(ReadConfigHead(trace_.identity(call.config)).api);
    if (const std::string_view tags = trace_.tags(call.tags); !tags.empty()) {
      ordered_json object = ordered_json::parse(tags, nullptr, /*allow_exceptions=*/false);
      json["tags"] = object.is_object() ? std::move(object) : ordered_json(std::string(tags));
    }
    if (const ModuleLabel module = Module(call.module); !module.empty()) {
      json["module"] = module.path;
      if (!module.model.empty()) json["model"] = module.model;
    }
    json["part"] = PartJson(call.part);
    if (call.stack != kNoStack) {
      const StackTable& stacks = trace_.stacks();
      const StackPlace& line = stacks.line(stacks.calling_line(call.stack));
      const StackCode& code = stacks.code(line.code);
      json["file"] = std::string(code.file);
      json["line"] = line.line;
      json["function"] = std::string(code.function);
    }
    return json;
  }
  ordered_json CallJson(const std::optional<NanCall>& call) const { return call ? CallJson(*call) : ordered_json(); }

  static ordered_json TensorsJson(const std::vector<NanTensor>& tensors) {
    ordered_json list = ordered_json::array();
    for (const NanTensor& tensor : tensors) {
      ordered_json& json = list.emplace_back(ordered_json{{"name", tensor.name}});
      json["value"] = ValueToJson(tensor.tensor);
      AddNote(tensor.note, &json);
      json["holds"] = tensor.known ? KindsJson(tensor.held) : ordered_json();
    }
    return list;
  }

  ordered_json FindingJson(const NanFinding& finding) const {
    ordered_json json = {{"how", HowName(finding.how)}, {"kinds", KindsJson(finding.kinds)}};
    json.update(CallJson(finding.call));
    const ordered_json config = VariantJson(trace_, finding.call.variant);
    for (const char* member : {"args", "kwargs"}) {
      if (config.contains(member)) json[member] = config[member];
    }
    json["argument"] = finding.came_in_by.empty() ? ordered_json() : ordered_json(finding.came_in_by);
    json["from"] = CallJson(finding.last_touched);
    json["outside_arguments"] = finding.outside;
    json["literal"] = finding.literal;
    json["forward"] = CallJson(finding.forward);
    ordered_json& around = json["around"] = ordered_json::array();
    for (const NanFinding::Around& call : finding.around) {
      around.push_back({{"call", call.call},
                        {"level", call.level},
                        {"api", std::string(ReadConfigHead(trace_.identity(call.config)).api)}});
    }
    json["arguments"] = TensorsJson(finding.arguments);
    json["result"] = TensorsJson(finding.result);
    json["written"] = TensorsJson(finding.written);
    return json;
  }

  ordered_json SpreadJson(const NanSpread& spread) const {
    ordered_json json = {{"level", spread.level},
                         {"later_calls", spread.later},
                         {"reached", spread.reached},
                         {"in_backward", spread.in_backward}};
    ordered_json& next = json["next"] = ordered_json::array();
    for (const NanCall& call : spread.next) next.push_back(CallJson(call));
    json["first_gradient"] = CallJson(spread.first_gradient);
    json["first_parameter"] = CallJson(spread.first_parameter);
    if (const ModuleLabel module = Module(spread.parameter_module); !module.empty()) {
      json["first_parameter"]["parameter_of"] = module.path;
    }
    json["last"] = CallJson(spread.last);
    return json;
  }

  ordered_json ProcessJson(uint32_t process) const {
    const ProcessNans& nans = nans_[process];
    const ProcessInfo& info = Process(process);
    ordered_json json = {{"process", ProcessName(info)}};
    if (info.known.pid.has_value()) json["pid"] = *info.known.pid;
    if (info.known.ranked.rank.has_value()) json["rank"] = *info.known.ranked.rank;
    ordered_json& findings = json["findings"] = ordered_json::array();
    for (const NanFinding& finding : nans.findings) findings.push_back(FindingJson(finding));
    json["spread"] = nans.findings.empty() ? ordered_json() : SpreadJson(nans.spread);
    json["more"] = nans.more;
    ordered_json& more = json["more_first"] = ordered_json::array();
    for (const ProcessNans::Light& light : nans.more_first) {
      ordered_json one = {{"how", HowName(light.how)}, {"kinds", KindsJson(light.kinds)}};
      one.update(CallJson(light.call));
      more.push_back(std::move(one));
    }
    json["meant_infinities"] = nans.meant;
    json["meant_first"] = CallJson(nans.meant_first);
    ordered_json& looked = json["looked_at"] = {{"calls", info.calls},
                                                {"calls_with_numbers", nans.counts.calls},
                                                {"tensors", nans.counts.tensors},
                                                {"tensors_without_numbers", nans.counts.without},
                                                {"arguments", nans.counts.arguments},
                                                {"arguments_without_numbers", nans.counts.arguments_without},
                                                {"tensors_too_late", nans.counts.too_late}};
    looked["without_numbers_by_api"] = ordered_json::object();
    for (const auto& [api, tensors] : nans.counts.without_by_api) looked["without_numbers_by_api"][api] = tensors;
    looked["missing"] = Missing(process);
    return json;
  }

  const Trace& trace_;
  const std::string name_;
  const std::vector<ProcessNans> nans_;  // by process
  const NanOptions& options_;
  StackText stack_text_;
  const bool several_models_;
};

// The processes of all traces: those with findings by time, as far as clocks can be compared, then the others.
struct NanOrder {
  struct Place {
    size_t report = 0;
    uint32_t process = 0;
    const NanFinding* first = nullptr;
    CallOrder order;
  };
  std::vector<Place> places;
  std::string remark;  // on what the order of the findings doesn't tell; empty: nothing

  explicit NanOrder(const std::vector<std::unique_ptr<NanReport>>& reports) {
    std::vector<ProcessClock> clocks;
    for (size_t i = 0; i < reports.size(); ++i) {
      const std::vector<ProcessInfo>& processes = reports[i]->trace().processes();
      for (uint32_t process = 0; process < processes.size(); ++process) {
        const nlohmann::json* const metadata = processes[process].metadata.get();
        clocks.push_back(ReadProcessClock(metadata == nullptr ? nlohmann::json() : *metadata));
        places.push_back({i, process, reports[i]->First(process), {}});
      }
    }
    const ProcessOrder order = OrderProcesses(clocks);
    std::set<uint32_t> groups;  // with findings
    size_t findings = 0;
    for (uint32_t group = 0; group < order.groups.size(); ++group) {
      for (const uint32_t i : order.groups[group]) {
        const NanFinding* const first = places[i].first;
        places[i].order = {group, first == nullptr ? 0 : first->call.time_ns + order.shift_ns[i], 0};
        if (first == nullptr) continue;
        groups.insert(group);
        ++findings;
      }
    }
    std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
      return std::tuple(a.first == nullptr, a.order) < std::tuple(b.first == nullptr, b.order);
    });
    if (groups.size() > 1) {
      remark = "Which of them came first isn't known: without comparable clocks, processes are in the order given";
    } else if (findings > 1 && order.clock == ProcessOrder::kTimeOfDay) {
      remark = "Which of them came first is by the machines' time of day";
    }
  }
};

}  // namespace

absl::StatusOr<std::vector<NanDescription>> DescribeNans(const NanTrace& trace, const NanOptions& options) {
  absl::StatusOr<std::vector<ProcessNans>> nans = FindNans(trace.trace, options);
  if (!nans.ok()) return nans.status();
  std::vector<std::unique_ptr<NanReport>> reports;
  reports.push_back(std::make_unique<NanReport>(trace, *std::move(nans), options));
  std::vector<NanDescription> all;
  for (const NanOrder::Place& place : NanOrder(reports).places) {
    for (NanDescription& each : reports[0]->Describe(place.process)) all.push_back(std::move(each));
  }
  return all;
}

absl::StatusOr<bool> WriteNans(const std::vector<NanTrace>& traces, const NanOptions& options, std::ostream* out) {
  std::vector<std::unique_ptr<NanReport>> reports;
  for (const NanTrace& trace : traces) {
    absl::StatusOr<std::vector<ProcessNans>> nans = FindNans(trace.trace, options);
    if (!nans.ok()) {
      return absl::Status(nans.status().code(), absl::StrCat(trace.name, ": ", std::string(nans.status().message())));
    }
    reports.push_back(std::make_unique<NanReport>(trace, *std::move(nans), options));
  }
  const NanOrder order(reports);
  const bool found = !order.places.empty() && order.places.front().first != nullptr;
  if (options.json) {
    std::vector<std::vector<uint32_t>> processes(reports.size());
    for (const NanOrder::Place& place : order.places) processes[place.report].push_back(place.process);
    ordered_json json = {{"found", found}, {"traces", ordered_json::array()}};
    for (size_t i = 0; i < reports.size(); ++i) json["traces"].push_back(reports[i]->Json(processes[i]));
    if (!order.remark.empty()) json["order"] = order.remark;
    *out << DumpPrettyJson(json);
  } else {
    // The answers first.
    std::vector<std::string> texts;
    for (const NanOrder::Place& place : order.places) {
      if (place.first != nullptr)
        texts.push_back(reports[place.report]->ProcessText(place.process, reports.size() > 1));
    }
    if (!order.remark.empty()) texts.push_back(order.remark + "\n");
    for (const std::unique_ptr<NanReport>& report : reports) {
      if (std::string text = report->CleanText(reports.size() > 1); !text.empty()) texts.push_back(std::move(text));
    }
    *out << absl::StrJoin(texts, "\n");
  }
  out->flush();
  if (!out->good()) return absl::AbortedError("cannot write the report");
  return found;
}

}  // namespace torchtrace
