#include "serialize/report/page/page_tree.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

constexpr const char* kPrefixes[] = {"", "b_"};

// A column.
const char* NameOf(TreeWeight weight) {
  return weight == TreeWeight::kDevice   ? "device_ns"
         : weight == TreeWeight::kMemory ? "allocated_bytes"
         : weight == TreeWeight::kFlops  ? "flops"
                                         : "self_ns";
}

const char* NameOf(LabelBy by) { return by == LabelBy::kApi ? "api" : by == LabelBy::kModule ? "module" : "line"; }

}  // namespace

uint32_t PageTree::LabelOf(std::string_view text, int level) {
  const auto [at, fresh] =
      label_numbers_.try_emplace({std::string(text), level}, static_cast<uint32_t>(labels_.size()));
  if (fresh) labels_.push_back({at->first.first, level});
  return at->second;
}

uint32_t PageTree::NodeOf(uint32_t parent, uint32_t label) {
  const auto [at, fresh] = index_.try_emplace({parent, label}, static_cast<uint32_t>(nodes_.size()));
  if (fresh) nodes_.push_back({parent, label});
  return at->second;
}

void PageTree::Add(size_t number, const CallTree& tree, const CallLabels& labels,
                   const std::vector<TreeWeight>& weights,
                   const std::function<std::string(uint32_t process, uint32_t thread)>& thread) {
  traces_ = std::max(traces_, number + 1);
  timed_ = timed_ || tree.has_times();
  std::vector<uint32_t> ours(tree.nodes().size());
  for (const auto& [key, root] : tree.threads()) {
    ours[root] = NodeOf(0, LabelOf(thread(key.first, key.second), -1));
  }
  std::vector<uint32_t> label_numbers;  // of tree's labels; UINT32_MAX: not yet known
  for (size_t i = 0; i < tree.nodes().size(); ++i) {
    const CallNode& from = tree.nodes()[i];
    if (from.parent == CallNode::kNone) continue;
    if (from.label >= label_numbers.size()) label_numbers.resize(from.label + size_t{1}, UINT32_MAX);
    uint32_t& label = label_numbers[from.label];
    if (label == UINT32_MAX) label = LabelOf(labels.text(from.label), labels.level(from.label));
    ours[i] = NodeOf(ours[from.parent], label);
    Amounts amounts;
    amounts.calls = static_cast<double>(from.calls);
    amounts.failed = static_cast<double>(from.raised + from.never_returned);
    amounts.self_ns = static_cast<double>(std::max<int64_t>(from.self_ns, 0));
    for (const TreeWeight weight : weights) {
      const double amount = std::max(from.self_amounts.Of(weight), 0.0);
      if (weight == TreeWeight::kDevice) amounts.device_ns = amount;
      if (weight == TreeWeight::kMemory) amounts.allocated_bytes = amount;
      if (weight == TreeWeight::kFlops) amounts.flops = amount;
    }
    nodes_[ours[i]].own[number].Add(amounts);
  }
}

double PageTree::WeightOf(const AmountsOfTraces& amounts) const {
  double most = 0;
  for (const Amounts& each : amounts) {
    most = std::max(most, weight_ == TreeWeight::kDevice   ? each.device_ns
                          : weight_ == TreeWeight::kMemory ? each.allocated_bytes
                          : weight_ == TreeWeight::kFlops  ? each.flops
                          : timed_                         ? each.self_ns
                                                           : each.calls);
  }
  return most;
}

size_t PageTree::WriteTo(size_t most, ReportPage* page, uint64_t* left_out) const {
  std::vector<AmountsOfTraces> totals;
  totals.reserve(nodes_.size());
  for (const Node& node : nodes_) totals.push_back(node.own);
  for (size_t i = nodes_.size() - 1; i > 0; --i) {
    for (size_t trace = 0; trace < 2; ++trace) totals[nodes_[i].parent][trace].Add(totals[i][trace]);
  }
  std::vector<double> weights;
  weights.reserve(nodes_.size());
  for (const AmountsOfTraces& total : totals) weights.push_back(WeightOf(total));
  // A parent weighs at least as much as its children, and comes before them.
  std::vector<bool> kept(nodes_.size(), true);
  if (nodes_.size() > most) {
    std::vector<uint32_t> order(nodes_.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin() + 1, order.end(), [&](uint32_t a, uint32_t b) { return weights[a] > weights[b]; });
    for (size_t i = most; i < order.size(); ++i) kept[order[i]] = false;
    for (size_t i = 1; i < nodes_.size(); ++i) kept[i] = kept[i] && kept[nodes_[i].parent];
  }
  std::vector<std::vector<uint32_t>> children(nodes_.size());
  std::map<uint32_t, AmountsOfTraces> smaller;  // by parent: what is left out below it
  *left_out = 0;
  for (uint32_t i = 1; i < nodes_.size(); ++i) {
    if (kept[i]) {
      children[nodes_[i].parent].push_back(i);
      continue;
    }
    ++*left_out;
    if (!kept[nodes_[i].parent]) continue;
    for (size_t trace = 0; trace < 2; ++trace) smaller[nodes_[i].parent][trace].Add(totals[i][trace]);
  }
  // The largest first, each after its parent.
  std::vector<double> parents, labels;
  std::vector<const AmountsOfTraces*> amounts;
  std::vector<std::pair<uint32_t, uint32_t>> rows = {{0, 0}};  // nodes, and their parents' rows plus 1
  std::vector<uint32_t> page_labels(labels_.size(), UINT32_MAX);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto [node, parent] = rows[i];
    uint32_t& label = page_labels[nodes_[node].label];
    if (label == UINT32_MAX) label = page->Label(labels_[nodes_[node].label].text, labels_[nodes_[node].label].level);
    parents.push_back(parent);
    labels.push_back(label);
    amounts.push_back(&nodes_[node].own);
    std::stable_sort(children[node].begin(), children[node].end(),
                     [&](uint32_t a, uint32_t b) { return weights[a] > weights[b]; });
    for (const uint32_t child : children[node]) rows.emplace_back(child, static_cast<uint32_t>(i) + 1);
  }
  std::vector<uint32_t> row_of(nodes_.size());
  for (uint32_t i = 0; i < rows.size(); ++i) row_of[rows[i].first] = i;
  for (const auto& [parent, sum] : smaller) {
    parents.push_back(row_of[parent] + 1);
    labels.push_back(page->Label("(smaller ones)", -1));
    amounts.push_back(&sum);
  }
  PageBlock block;
  block.AddNumbers("parent", parents);
  block.AddNumbers("label", labels);
  const std::pair<const char*, double Amounts::*> columns[] = {{"calls", &Amounts::calls},
                                                               {"failed", &Amounts::failed},
                                                               {"self_ns", &Amounts::self_ns},
                                                               {"device_ns", &Amounts::device_ns},
                                                               {"allocated_bytes", &Amounts::allocated_bytes},
                                                               {"flops", &Amounts::flops}};
  for (const auto& [name, member] : columns) {
    const auto any = [&, member = member](size_t trace) { return totals[0][trace].*member > 0; };
    const bool always = member == &Amounts::calls || (member == &Amounts::self_ns && timed_) ||
                        (weight_ != TreeWeight::kTime && std::string_view(name) == NameOf(weight_));
    if (!always && !any(0) && !any(1)) continue;
    for (size_t trace = 0; trace < traces_; ++trace) {
      std::vector<double> values;
      values.reserve(amounts.size());
      for (const AmountsOfTraces* each : amounts) values.push_back((*each)[trace].*member);
      block.AddNumbers(absl::StrCat(kPrefixes[trace], name), values);
    }
  }
  ordered_json& trees = page->head()["trees"];
  const std::string name = absl::StrCat("tree_", trees.size());
  ordered_json tree = {{"by", NameOf(by_)}, {"block", name}};
  if (weight_ != TreeWeight::kTime) tree["weight"] = NameOf(weight_);
  if (*left_out > 0) tree["left_out"] = {{"nodes", *left_out}};
  trees.push_back(std::move(tree));
  return page->SetBlock(name, block);
}

}  // namespace torchtrace
