// Labels of calls in trees and flame graphs.

#ifndef TORCHTRACE_SERIALIZE_FORMS_CALL_LABELS_H_
#define TORCHTRACE_SERIALIZE_FORMS_CALL_LABELS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/base/choices.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/model/config.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// The label of a module call, at level 3.
struct ModuleLabel {
  std::string model;  // that contains it, `Gen_0`; empty: it is itself a model, or unknown
  std::string path;   // `encoder.layers.0`
  std::string type;   // `Linear`

  bool empty() const { return path.empty(); }
  // `encoder.layers.0 (Linear)`; a model's name already contains the class.
  std::string Text() const;
  // The same with the model, which is unique among several models: `Gen_0.encoder.layers.0 (Linear)`.
  std::string WholeText() const;
  std::string WholePath() const;
};

// Empty if the call isn't a module's.
ModuleLabel ModuleLabelOf(const Config& config);
ModuleLabel ModuleLabelOf(std::string_view identity);

// Whether labels of modules need their models: the added modules belong to more than one model.
class SeveralModels {
 public:
  // `trace` was counted, or is being read.
  static bool In(const Trace& trace);
  void Add(const std::string& model) {
    if (model.empty() || model == first_) return;
    several_ = !first_.empty();
    if (!several_) first_ = model;
  }
  explicit operator bool() const { return several_; }

 private:
  std::string first_;
  bool several_ = false;
};

// What distinguishes the calls of a tree.
enum class LabelBy : uint8_t {
  kApi,     // `torch.add`; modules as with kModule
  kModule,  // level 3: `encoder.layers.0 (Linear)`, with several models `Gen_0.fc (Linear)`; other calls have none
  kLine,    // the calling line if the trace has stacks; otherwise the definition of level-3 functions
};
const Choices<LabelBy>& LabelKinds();

// FailedPrecondition: what has no such label (`the trace has`), and how to record it. Not for kApi.
absl::Status NothingLabelled(LabelBy by, std::string_view who_has);

// Numbers the labels of traces, one trace after the other. Labels with the same text, level and model share a number.
class CallLabels {
 public:
  explicit CallLabels(LabelBy by) : by_(by) {}

  // `trace` must outlive the calls below, up to the next Begin.
  void Begin(const Trace& trace);
  // Call it at a call's entry. None: the call has no label.
  std::optional<uint32_t> Of(const CallRecord& record);
  // `(backward)` and the like, for calls without a label.
  uint32_t Other(std::string_view text) { return Number(kNoLevel, std::string(text)); }
  // `(no module)`, `(no stack)`.
  uint32_t Outside() { return Other(by_ == LabelBy::kLine ? "(no stack)" : "(no module)"); }
  // NothingLabelled if Of was called and no call had a label: the tree would be empty.
  absl::Status Check() const;

  // Call it after all traces were read.
  std::string_view text(uint32_t label) const {
    const Label& known = labels_[label];
    return several_models_ ? known.whole : std::string_view(known.whole).substr(known.model_bytes);
  }
  int level(uint32_t label) const { return labels_[label].level; }

 private:
  struct Label {
    std::string whole;
    int level;
    size_t model_bytes;  // its prefix, which is left out if there is only one model
  };
  static constexpr int kNoLevel = -1;
  static constexpr uint32_t kUnknown = UINT32_MAX;
  static constexpr uint32_t kNone = UINT32_MAX - 1;

  uint32_t Number(int level, std::string whole, size_t model_bytes = 0);
  uint32_t OfConfig(ConfigId config);

  const LabelBy by_;
  std::deque<Label> labels_;
  absl::flat_hash_map<std::pair<int, std::string_view>, uint32_t>
      numbers_;  // views into labels_, whose elements never move
  const Trace* trace_ = nullptr;
  size_t traces_ = 0;
  bool asked_ = false;
  bool found_ = false;
  SeveralModels several_models_;
  std::optional<StackText> stack_text_;
  std::vector<uint32_t> of_config_;  // of trace_
  absl::flat_hash_map<LineId, uint32_t> of_line_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_CALL_LABELS_H_
