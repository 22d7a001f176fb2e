// Call trees of a report page: the calls of one trace, or of two in one tree.

#ifndef TORCHTRACE_SERIALIZE_REPORT_PAGE_PAGE_TREE_H_
#define TORCHTRACE_SERIALIZE_REPORT_PAGE_PAGE_TREE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "serialize/forms/call_labels.h"
#include "serialize/report/page/report_page.h"
#include "serialize/trace/call_tree.h"

namespace torchtrace {

class PageTree {
 public:
  // `weight`: what a page shows first.
  explicit PageTree(LabelBy by, TreeWeight weight = TreeWeight::kTime) : by_(by), weight_(weight) {
    nodes_.emplace_back();
  }

  // Of the trace `number`, 0 or 1. `thread`: the text of a thread; those with equal texts are one. `weights`: which
  // amounts the tree has, beside calls and, if it has_times, times.
  void Add(size_t number, const CallTree& tree, const CallLabels& labels, const std::vector<TreeWeight>& weights,
           const std::function<std::string(uint32_t process, uint32_t thread)>& thread);

  // Writes the block `tree_N` with the `most` nodes that weigh most, and its entry in head.trees. What is left out is a
  // node of its parent, and counted. Returns how many bytes it takes; `left_out` gets how many nodes it lacks.
  size_t WriteTo(size_t most, ReportPage* page, uint64_t* left_out) const;

  size_t nodes() const { return nodes_.size(); }

 private:
  struct Amounts {
    double calls = 0, failed = 0, self_ns = 0, device_ns = 0, allocated_bytes = 0, flops = 0;

    void Add(const Amounts& other) {
      calls += other.calls;
      failed += other.failed;
      self_ns += other.self_ns;
      device_ns += other.device_ns;
      allocated_bytes += other.allocated_bytes;
      flops += other.flops;
    }
  };
  using AmountsOfTraces = std::array<Amounts, 2>;
  struct Node {
    uint32_t parent = UINT32_MAX;  // the first node has none
    uint32_t label = 0;            // into labels_
    AmountsOfTraces own = {};
  };
  struct Label {
    std::string text;
    int level;
  };

  uint32_t NodeOf(uint32_t parent, uint32_t label);
  uint32_t LabelOf(std::string_view text, int level);
  double WeightOf(const AmountsOfTraces& amounts) const;

  const LabelBy by_;
  const TreeWeight weight_;
  size_t traces_ = 0;
  bool timed_ = false;
  std::vector<Node> nodes_;                                             // each after its parent
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> index_;  // by parent and label
  std::vector<Label> labels_ = {{"all", -1}};
  absl::flat_hash_map<std::pair<std::string, int>, uint32_t> label_numbers_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORT_PAGE_PAGE_TREE_H_
