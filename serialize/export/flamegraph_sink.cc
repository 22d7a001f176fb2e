// Calls as flame graphs: collapsed stacks, which flamegraph.pl, speedscope and inferno read, or a page that a browser
// shows (docs/EXPORT.md).

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "serialize/base/files.h"
#include "serialize/base/saturating.h"
#include "serialize/base/text.h"
#include "serialize/export/exporter.h"
#include "serialize/export/exports.h"
#include "serialize/forms/call_labels.h"
#include "serialize/forms/forms.h"
#include "serialize/trace/call_tree.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

constexpr char kPage[] =
#include "serialize/export/flamegraph_page.inc"
    ;
constexpr char kDataMark[] = "@DATA@";
// A browser gets slow with more boxes.
constexpr size_t kMostBoxes = 200'000;

// Builds the tree of each trace and passes it to Take at the end.
class TreeSink : public CallSink {
 public:
  TreeSink(std::ostream* out, const ExportOptions& options) : out_(out), options_(options), labels_(options.by) {}

  absl::Status Begin(Trace* trace, std::string_view label) override {
    if (absl::Status s = CheckWeight(*trace, options_.weight, label); !s.ok()) return s;
    trace_ = trace;
    trace_label_ = label;
    labels_.Begin(*trace);
    tree_.emplace(CallTreeOptions{
        .label = [this](const CallRecord& record) { return other_ ? std::nullopt : labels_.Of(record); },
        .outside = [this](const CallRecord&) { return Outside(); },
        .fold_equal = options_.by == LabelBy::kLine,
        .weights = {options_.weight},
        .cost = [this](ConfigId config) { return options_.cost(*trace_, config); }});
    return absl::OkStatus();
  }
  RecordsShown reads(const Trace&) const override { return ShownFor({options_.weight}); }
  absl::Status Add(const CallRecord& record) override {
    tree_->Add(record);
    return absl::OkStatus();
  }
  // What calls that are left out launch, allocate and compute is of the call around them.
  absl::Status AddOther(const CallRecord& record) override {
    if (by_time()) return absl::OkStatus();
    other_ = true;
    tree_->Add(record);
    other_ = false;
    return absl::OkStatus();
  }
  absl::Status End() override {
    tree_->End();
    const bool timed = tree_->has_times();
    if (timed_.has_value() && *timed_ != timed) {
      return absl::FailedPreconditionError("some of these traces have times and some don't: export them separately");
    }
    timed_ = timed;
    // When nothing has a label, Finish fails and nothing must be written.
    const absl::Status status = labels_.Check().ok() ? Take(*tree_) : absl::OkStatus();
    tree_.reset();
    return status;
  }

 protected:
  virtual absl::Status Take(const CallTree& tree) = 0;

  // Without the frames in it.
  uint64_t Own(const CallTree& tree, const CallNode& node) const {
    if (!by_time()) return WholeAmount(node.self_amounts.Of(options_.weight));
    return tree.has_times() ? static_cast<uint64_t>(std::max<int64_t>(node.self_ns, 0)) : node.calls;
  }

  // "main-1234 thread 0", after the trace's name when there are several traces.
  std::string ThreadName(const std::pair<uint32_t, uint32_t>& thread) const {
    const std::string several = options_.traces.size() > 1 ? trace_label_ + " " : "";
    return absl::StrCat(several, ProcessName(trace_->processes()[thread.first]), " thread ", thread.second);
  }
  bool by_time() const { return options_.weight == TreeWeight::kTime; }
  uint64_t Weight(const CallTree& tree, const CallNode& node) const {
    if (!by_time()) return WholeAmount(node.total_amounts.Of(options_.weight));
    return tree.has_times() ? static_cast<uint64_t>(std::max<int64_t>(node.total_ns, 0)) : node.calls;
  }

  std::ostream* const out_;
  const ExportOptions options_;
  CallLabels labels_;
  std::optional<bool> timed_;

 private:
  // The label of calls without one, so that no time is lost.
  std::optional<uint32_t> Outside() {
    if (options_.by == LabelBy::kApi || other_) return std::nullopt;
    return labels_.Outside();
  }

  const Trace* trace_ = nullptr;
  std::string trace_label_;
  std::optional<CallTree> tree_;
  bool other_ = false;  // the record is of a call that is left out
};

// `thread;outer;inner 1234`: the self time of the innermost in nanoseconds or, without times, its calls; or what else
// it weighs.
class FoldedSink final : public TreeSink {
 public:
  using TreeSink::TreeSink;
  absl::Status Finish() override {
    if (absl::Status s = labels_.Check(); !s.ok()) return s;
    return FinishStream(out_);
  }

 private:
  absl::Status Take(const CallTree& tree) override {
    std::vector<std::string> paths(tree.nodes().size());
    for (const auto& [thread, root] : tree.threads()) paths[root] = Frame(ThreadName(thread));
    const std::vector<CallNode>& nodes = tree.nodes();
    for (size_t i = 0; i < nodes.size(); ++i) {
      const CallNode& node = nodes[i];
      if (node.parent == CallNode::kNone) continue;
      paths[i] = absl::StrCat(paths[node.parent], ";", Frame(labels_.text(node.label)));
      const uint64_t own = Own(tree, node);
      if (own > 0) *out_ << paths[i] << ' ' << own << '\n';
      if (!out_->good()) break;
    }
    return StreamStatus(*out_);
  }

  // A frame's text, without semicolons and line breaks.
  static std::string Frame(std::string_view text) { return absl::StrReplaceAll(PlainLine(text), {{";", ","}}); }
};

class PageSink final : public TreeSink {
 public:
  PageSink(std::ostream* out, const ExportOptions& options) : TreeSink(out, options) {
    labels_json_.push_back("all");
    levels_.push_back(-1);
    AddBox(-1, 0, 0, 0, 0, 0);
  }

  absl::Status Finish() override {
    if (absl::Status s = labels_.Check(); !s.ok()) return s;
    const auto column = [this](const auto& member) {
      ordered_json list = ordered_json::array();
      for (const Box& box : boxes_) list.push_back(member(box));
      return list;
    };
    std::string title = absl::StrJoin(options_.traces, " ");
    if (!options_.version.empty()) absl::StrAppend(&title, " (torchtrace ", options_.version, ")");
    ordered_json data = {{"title", title}, {"unit", Unit()}, {"names", labels_json_}, {"levels", levels_}};
    data["parents"] = column([](const Box& box) { return box.parent; });
    data["labels"] = column([](const Box& box) { return box.label; });
    data["calls"] = column([](const Box& box) { return box.calls; });
    data["failed"] = column([](const Box& box) { return box.failed; });
    data["totals"] = column([](const Box& box) { return box.total; });
    data["selves"] = column([](const Box& box) { return box.self; });
    if (left_out_ > 0) data["left_out"] = absl::StrCat(left_out_, " of the smallest paths are left out");
    // No text of a trace must close the surrounding HTML element.
    const std::string json = absl::StrReplaceAll(DumpJson(data), {{"<", "\\u003c"}, {">", "\\u003e"}});
    const std::string_view page = kPage;
    const size_t mark = page.find(kDataMark);
    *out_ << page.substr(0, mark) << json << page.substr(mark + sizeof kDataMark - 1);
    return FinishStream(out_);
  }

  std::vector<std::string> notes() const override {
    if (left_out_ == 0) return {};
    return {absl::StrCat("flamegraph leaves out ", left_out_, " of the smallest paths: a page shows ", kMostBoxes)};
  }

 private:
  struct Box {
    int64_t parent;
    size_t label;
    uint64_t calls;
    uint64_t failed;
    uint64_t total;
    uint64_t self;
  };

  const char* Unit() const {
    if (options_.weight == TreeWeight::kMemory) return "B";
    if (options_.weight == TreeWeight::kFlops) return "FLOP";
    return options_.weight == TreeWeight::kDevice || timed_.value_or(true) ? "ns" : "calls";
  }

  int64_t AddBox(int64_t parent, size_t label, uint64_t calls, uint64_t failed, uint64_t total, uint64_t self) {
    boxes_.push_back({parent, label, calls, failed, total, self});
    return static_cast<int64_t>(boxes_.size()) - 1;
  }

  size_t AddLabel(std::string text, int level) {
    labels_json_.push_back(std::move(text));
    levels_.push_back(level);
    return levels_.size() - 1;
  }

  size_t LabelOf(uint32_t label) {
    if (label >= numbers_.size()) numbers_.resize(label + size_t{1});
    if (!numbers_[label].has_value()) {
      numbers_[label] = AddLabel(PlainLine(labels_.text(label)), labels_.level(label));
    }
    return *numbers_[label];
  }

  absl::Status Take(const CallTree& tree) override {
    const std::vector<CallNode>& nodes = tree.nodes();
    uint64_t least = 1;
    const auto shown = [&](const CallNode& node) { return Weight(tree, node) >= least; };
    while (static_cast<size_t>(std::count_if(nodes.begin(), nodes.end(), shown)) > kMostBoxes) least *= 2;
    std::vector<int64_t> boxes(nodes.size(), -1);
    for (const auto& [thread, root] : tree.threads()) {
      uint64_t total = 0;  // call counts need their own sum
      for (const CallNode& node : nodes) {
        if (node.parent == root) AddSaturating(Weight(tree, node), &total);
      }
      boxes[root] = AddBox(0, AddLabel(PlainLine(ThreadName(thread)), -1), 0, 0, total, 0);
      AddSaturating(total, &boxes_[0].total);
    }
    for (size_t i = 0; i < nodes.size(); ++i) {
      const CallNode& node = nodes[i];
      if (node.parent == CallNode::kNone) continue;
      if (!shown(node) || boxes[node.parent] < 0) {
        ++left_out_;
        continue;
      }
      boxes[i] = AddBox(boxes[node.parent], LabelOf(node.label), node.calls, node.raised + node.never_returned,
                        Weight(tree, node), Own(tree, node));
    }
    return absl::OkStatus();
  }

  std::vector<Box> boxes_;  // each after its parent
  std::vector<std::string> labels_json_;
  std::vector<int> levels_;
  std::vector<std::optional<size_t>> numbers_;  // by label of CallLabels
  uint64_t left_out_ = 0;
};

}  // namespace

extern const Exporter kFlamegraphExporter;
const Exporter kFlamegraphExporter = {
    .name = "flamegraph",
    .help = "collapsed stacks; with -o NAME.html a page that shows them",
    .suffixes = {"html", "folded"},
    .write = WritesCalls{[](std::ostream* out, const ExportOptions& options) -> std::unique_ptr<CallSink> {
      if (absl::EndsWith(options.output, ".html")) return std::make_unique<PageSink>(out, options);
      return std::make_unique<FoldedSink>(out, options);
    }},
};

}  // namespace torchtrace
