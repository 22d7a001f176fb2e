#include <algorithm>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "serialize/base/clip_text.h"
#include "serialize/base/text.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"
#include "serialize/model/levels.h"
#include "serialize/reports/reports.h"
#include "serialize/reports/shapes.h"
#include "serialize/trace/call_tree.h"
#include "serialize/trace/run_facts.h"
#include "serialize/where/call_selection.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

constexpr int kTimeWidth = 8;
constexpr uint32_t kMostIndent = 100;

class TreeReport {
 public:
  TreeReport(Trace* trace, const TreeOptions& options, std::ostream* out)
      : trace_(trace),
        options_(options),
        out_(out),
        selector_(trace, options.calls),
        labels_(options.by),
        tree_({.label = [this](const CallRecord& record) { return Label(record); },
               .backward_at_forward = options.backward_at_forward,
               .backward = [this](const CallRecord& record) { return BackwardLabel(record); },
               .closed = [this](uint32_t label) { return imports_.contains(label); },
               .fold_equal = options.by == LabelBy::kLine,
               .weights = {options.weight},
               .cost = [this](ConfigId config) { return Cost(config); }}) {}

  absl::Status Run() {
    if (absl::Status s = CheckWeight(*trace_, options_.weight, "the trace"); !s.ok()) return s;
    if (options_.weight == TreeWeight::kFlops) rules_ = ShapeRules::BuiltIn();
    if (absl::Status s = selector_.Prepare(); !s.ok()) return s;
    labels_.Begin(*trace_);
    if (absl::Status s = tree_.Read(trace_); !s.ok()) return s;
    if (absl::Status s = labels_.Check(); !s.ok()) return s;
    if (options_.backward_at_forward && backward_ == 0 && calls_ > 0) {
      return absl::FailedPreconditionError(
          "no call of the trace is a backward one: torchtrace run --levels 2,3 or --levels 4 records them");
    }
    if (options_.backward_at_forward && tree_.moved() == 0 && calls_ > 0) {
      return absl::FailedPreconditionError(
          "no backward call of the trace has its forward call in it, or in what the filters leave");
    }
    children_ = tree_.Children();
    for (std::vector<uint32_t>& of_node : children_) Sort(&of_node);
    if (options_.max_nodes > 0 && !options_.json) ChooseHeaviest();
    options_.json ? WriteJson() : WriteText();
    out_->flush();
    return out_->good() ? absl::OkStatus() : absl::AbortedError("cannot write the tree");
  }

 private:
  std::optional<uint32_t> Label(const CallRecord& record) {
    if (record.config == kLostId || !selector_.Accepts(record)) return std::nullopt;
    ++calls_;
    backward_ += record.facts.forward_thread != 0;
    if (!options_.imports && options_.by == LabelBy::kApi && IsImport(record)) {
      return *imports_.insert(labels_.Other(ImportText(record))).first;
    }
    return labels_.Of(record);
  }

  std::optional<uint32_t> BackwardLabel(const CallRecord& record) {
    if (record.config == kLostId || !selector_.Accepts(record)) return std::nullopt;
    return labels_.Other("(backward)");
  }

  // Calls of module bodies, except that of the program itself.
  bool IsImport(const CallRecord& record) const {
    if (record.level != kFrameLevel) return false;
    const ConfigHead head = ReadConfigHead(trace_->identity(record.config));
    return head.api.ends_with(".<module>") && head.api != "__main__.<module>";
  }

  // `(import torch)`: the imports of a library are one node.
  std::string ImportText(const CallRecord& record) const {
    const std::string module(ReadConfigHead(trace_->identity(record.config)).api);
    return absl::StrCat("(import ", module.substr(0, module.find('.')), ")");
  }

  ConfigCost Cost(ConfigId config) { return rules_.Find(ReadableConfig(trace_->identity(config))).config_cost(); }

  bool by_time() const { return options_.weight == TreeWeight::kTime; }

  std::string FormatWeight(double amount) const {
    return options_.weight == TreeWeight::kDevice ? FormatDuration(static_cast<int64_t>(WholeAmount(amount)))
                                                  : FormatAmount(amount);
  }

  // FLOPs of real programs are more than integers hold.
  double Weight(uint32_t i) const {
    const CallNode& node = tree_.nodes()[i];
    if (!by_time()) return node.total_amounts.Of(options_.weight) > 0 ? node.total_amounts.Of(options_.weight) : 0;
    return tree_.has_times() ? static_cast<double>(node.total_ns) : static_cast<double>(node.calls);
  }

  void Sort(std::vector<uint32_t>* nodes) const {
    if (options_.first_called_first) return;  // as they are
    std::stable_sort(nodes->begin(), nodes->end(), [&](uint32_t a, uint32_t b) { return Weight(a) > Weight(b); });
  }

  // Chooses the nodes that weigh most; a node only with its parent.
  void ChooseHeaviest() {
    chosen_.emplace(tree_.nodes().size());
    std::priority_queue<std::pair<double, uint32_t>> next;
    const auto push = [&](uint32_t parent) {
      for (const uint32_t child : children_[parent]) next.emplace(Weight(child), child);
    };
    for (const auto& [key, root] : tree_.threads()) push(root);
    for (uint64_t left = options_.max_nodes; left > 0 && !next.empty(); --left) {
      const uint32_t node = next.top().second;
      next.pop();
      (*chosen_)[node] = true;
      push(node);
    }
  }

  // Visits a thread and the nodes below it, each after its parent. `visit` returns whether to continue below a node.
  template <typename Visit>
  void Walk(uint32_t root, Visit&& visit) const {
    std::vector<std::pair<uint32_t, uint32_t>> open;  // nodes with their depths
    const auto push = [&](uint32_t node, uint32_t depth) {
      const std::vector<uint32_t>& children = children_[node];
      for (auto child = children.rbegin(); child != children.rend(); ++child) open.emplace_back(*child, depth);
    };
    push(root, 0);
    while (!open.empty()) {
      const auto [node, depth] = open.back();
      open.pop_back();
      if (visit(node, depth)) push(node, depth + 1);
    }
  }

  bool IsShown(uint32_t node, uint32_t depth) const {
    if (!by_time() && tree_.nodes()[node].total_amounts.Of(options_.weight) == 0) return false;
    if (chosen_.has_value() && !(*chosen_)[node]) return false;
    return depth < options_.depth && tree_.nodes()[node].total_ns >= options_.min_time_ns;
  }

  const char* Color(const char* code) const { return options_.color ? code : ""; }

  void WriteText() {
    const bool timed = tree_.has_times();
    *out_ << Color(kDim)
          << (timed || !by_time() ? absl::StrFormat("%*s  %*s  ", kTimeWidth, Title(), kTimeWidth, "self")
                                  : std::string())
          << absl::StrFormat("%9s", "calls") << Color(kReset) << "\n";
    const auto has_nodes = [this](const auto& thread) { return !children_[thread.second].empty(); };
    const bool several = std::count_if(tree_.threads().begin(), tree_.threads().end(), has_nodes) > 1;
    for (const auto& [key, root] : tree_.threads()) {
      const std::vector<uint32_t>& outermost = children_[root];
      if (outermost.empty()) continue;
      if (chosen_.has_value() &&
          std::none_of(outermost.begin(), outermost.end(), [&](uint32_t i) { return (*chosen_)[i]; })) {
        left_out_ += outermost.size();
        continue;
      }
      if (several) {
        *out_ << Color(kBold) << Columns(tree_.nodes()[root], /*of_thread=*/true) << "  " << ThreadName(key)
              << Color(kReset) << "\n";
      }
      Walk(root, [&](uint32_t i, uint32_t depth) {
        if (!IsShown(i, depth)) {
          left_out_ += by_time() || tree_.nodes()[i].total_amounts.Of(options_.weight) != 0;
          return false;
        }
        const CallNode& node = tree_.nodes()[i];
        const std::string columns = Columns(node, /*of_thread=*/false);
        const std::string indent(2 + 2 * size_t{std::min(depth, kMostIndent)}, ' ');
        const std::string outcome = Outcome(node);
        *out_ << Color(kDim) << columns << Color(kReset) << indent
              << ClipText(PlainLine(labels_.text(node.label)), options_.width,
                          columns.size() + indent.size() + CountCharacters(outcome))
              << (outcome.empty() ? "" : Color(kRed)) << outcome << (outcome.empty() ? "" : Color(kReset)) << "\n";
        return true;
      });
    }
    if (left_out_ > 0) {
      *out_ << Color(kDim) << Counted(left_out_, "branch is", "branches are")
            << (chosen_.has_value() ? " left out; --all shows them" : " left out (--depth, --min-time)")
            << Color(kReset) << "\n";
    }
  }

  const char* Title() const {
    switch (options_.weight) {
      case TreeWeight::kDevice:
        return "device";
      case TreeWeight::kMemory:
        return "memory";
      case TreeWeight::kFlops:
        return "FLOP";
      default:
        return "total";
    }
  }

  std::string Columns(const CallNode& node, bool of_thread) const {
    std::string columns;
    if (!by_time()) {
      columns = absl::StrFormat("%*s  %*s  ", kTimeWidth, FormatWeight(node.total_amounts.Of(options_.weight)),
                                kTimeWidth, of_thread ? "" : FormatWeight(node.self_amounts.Of(options_.weight)));
    } else if (tree_.has_times()) {
      const auto shown = [&node](int64_t ns) { return node.timed ? FormatDuration(ns) : "-"; };
      columns = absl::StrFormat("%*s  %*s  ", kTimeWidth, shown(node.total_ns), kTimeWidth,
                                of_thread ? "" : shown(node.self_ns));
    }
    return absl::StrCat(columns, of_thread ? std::string(9, ' ') : absl::StrFormat("%9d", node.calls));
  }

  static std::string Outcome(const CallNode& node) {
    std::string text;
    if (node.raised > 0) absl::StrAppend(&text, "  ", node.raised, " raised");
    if (node.never_returned > 0) absl::StrAppend(&text, "  ", node.never_returned, " never returned");
    return text;
  }

  std::string ThreadName(const std::pair<uint32_t, uint32_t>& key) const {
    const ProcessInfo& process = trace_->processes()[key.first];
    const ThreadInfo* const thread = FindThread(process, key.second);
    const std::string name = thread == nullptr || thread->name.empty() ? "" : absl::StrCat(" (", thread->name, ")");
    return PlainLine(absl::StrCat(ProcessName(process), " thread ", key.second, name));
  }

  // Writes a flat list: trees are deeper than JSON readers allow.
  void WriteJson() {
    const char* separator = "[\n";
    for (const auto& [key, root] : tree_.threads()) {
      Walk(root, [&, thread = key](uint32_t i, uint32_t depth) {
        if (!IsShown(i, depth)) return false;
        const CallNode& node = tree_.nodes()[i];
        ordered_json json = {{"node", i}};
        if (depth > 0) json["parent"] = node.parent;
        json["depth"] = depth;
        json["process"] = ProcessName(trace_->processes()[thread.first]);
        json["thread"] = thread.second;
        json["name"] = labels_.text(node.label);
        json["level"] = labels_.level(node.label);
        json["calls"] = node.calls;
        if (node.raised > 0) json["raised"] = node.raised;
        if (node.never_returned > 0) json["never_returned"] = node.never_returned;
        if (node.timed) {
          json["total_ns"] = node.total_ns;
          json["self_ns"] = node.self_ns;
        }
        if (!by_time()) {
          const std::string unit = options_.weight == TreeWeight::kDevice   ? "device_ns"
                                   : options_.weight == TreeWeight::kMemory ? "allocated_bytes"
                                                                            : "flops";
          json[unit] = AmountJson(node.total_amounts.Of(options_.weight));
          json["self_" + unit] = AmountJson(node.self_amounts.Of(options_.weight));
        }
        *out_ << std::exchange(separator, ",\n") << DumpJson(json);
        return true;
      });
    }
    *out_ << (*separator == '[' ? "[" : "\n") << "]\n";
  }

  Trace* const trace_;
  const TreeOptions& options_;
  std::ostream* const out_;
  CallSelector selector_;
  CallLabels labels_;
  absl::flat_hash_set<uint32_t> imports_;  // labels
  ShapeRules rules_;                       // for FLOPs
  CallTree tree_;
  std::vector<std::vector<uint32_t>> children_;  // by node, in the order shown
  std::optional<std::vector<bool>> chosen_;      // by node: whether it is shown; nullopt: all are
  uint64_t calls_ = 0;                           // accepted
  uint64_t backward_ = 0;                        // of these calls
  uint64_t left_out_ = 0;                        // branches
};

}  // namespace

absl::Status WriteTree(Trace* trace, const TreeOptions& options, std::ostream* out) {
  return TreeReport(trace, options, out).Run();
}

}  // namespace torchtrace
