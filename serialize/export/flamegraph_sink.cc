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
#include "serialize/base/text.h"
#include "serialize/export/exporter.h"
#include "serialize/export/exports.h"
#include "serialize/forms/call_labels.h"
#include "serialize/report/page/page_tree.h"
#include "serialize/report/page/report_page.h"
#include "serialize/trace/call_tree.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

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

// The page of `torchtrace report` with nothing but a call tree.
class PageSink final : public TreeSink {
 public:
  PageSink(std::ostream* out, const ExportOptions& options)
      : TreeSink(out, options), page_tree_(options.by, options.weight) {}

  absl::Status Finish() override {
    if (absl::Status s = labels_.Check(); !s.ok()) return s;
    ReportPage page(options_.version);
    page.head()["traces"].push_back({{"name", PageText(absl::StrJoin(options_.traces, " "))}});
    page.head()["trees"] = nlohmann::ordered_json::array();
    page_tree_.WriteTo(kMostBoxes, &page, &left_out_);
    return page.Write(out_);
  }

  std::vector<std::string> notes() const override {
    if (left_out_ == 0) return {};
    return {absl::StrCat("flamegraph sums up ", left_out_, " of the smallest paths: a page shows ", kMostBoxes)};
  }

 private:
  absl::Status Take(const CallTree& tree) override {
    page_tree_.Add(0, tree, labels_, {options_.weight},
                   [this](uint32_t process, uint32_t thread) { return ThreadName({process, thread}); });
    return absl::OkStatus();
  }

  PageTree page_tree_;
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
