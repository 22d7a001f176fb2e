// What calls are called in trees and flame graphs.

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

// Of a call of a module, at level 3.
struct ModuleLabel {
  std::string model;  // that it is a part of, `Gen_0`; empty: it is a model, or the trace doesn't tell
  std::string path;   // `encoder.layers.0`
  std::string type;   // `Linear`

  bool empty() const { return path.empty(); }
  // `encoder.layers.0 (Linear)`; a model has the class in its name already.
  std::string Text() const;
  // The same, of which there is one among several models: `Gen_0.encoder.layers.0 (Linear)`.
  std::string WholeText() const;
  std::string WholePath() const;
};

// Empty where the call is none of a module's.
ModuleLabel ModuleLabelOf(const Config& config);
ModuleLabel ModuleLabelOf(std::string_view identity);

// Whether modules are to be told with their models: those that were added are parts of more than one.
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

// What the calls of a tree are told apart by.
enum class LabelBy : uint8_t {
  kApi,     // `torch.add`; modules as kModule has them
  kModule,  // level 3's: `encoder.layers.0 (Linear)`, of several models `Gen_0.fc (Linear)`; others have none
  kLine,    // the calling line, where the trace has stacks; else of level 3's functions where they are defined
};
const Choices<LabelBy>& LabelKinds();

// FailedPrecondition: what has no such label (`the trace has`), and how it is recorded. Not of kApi.
absl::Status NothingLabelled(LabelBy by, std::string_view who_has);

// Numbers the labels of traces, one after the other; what has equal texts at one level, and is of one model, has one
// number.
class CallLabels {
 public:
  explicit CallLabels(LabelBy by) : by_(by) {}

  // `trace` must outlive the calls below, up to the next Begin.
  void Begin(const Trace& trace);
  // At a call's entry. None: it has no label.
  std::optional<uint32_t> Of(const CallRecord& record);
  // `(backward)` and the like, for what has none.
  uint32_t Other(std::string_view text) { return Number(kNoLevel, std::string(text)); }
  // `(no module)`, `(no stack)`.
  uint32_t Outside() { return Other(by_ == LabelBy::kLine ? "(no stack)" : "(no module)"); }
  // NothingLabelled where calls were asked for and none had a label: a tree of them would be empty.
  absl::Status Check() const;

  // When all traces were read.
  std::string_view text(uint32_t label) const {
    const Label& known = labels_[label];
    return several_models_ ? known.whole : std::string_view(known.whole).substr(known.model_bytes);
  }
  int level(uint32_t label) const { return labels_[label].level; }

 private:
  struct Label {
    std::string whole;
    int level;
    size_t model_bytes;  // at the beginning of it, which are left out where there is one model
  };
  static constexpr int kNoLevel = -1;
  static constexpr uint32_t kUnknown = UINT32_MAX;
  static constexpr uint32_t kNone = UINT32_MAX - 1;

  uint32_t Number(int level, std::string whole, size_t model_bytes = 0);
  uint32_t OfConfig(ConfigId config);

  const LabelBy by_;
  std::deque<Label> labels_;
  absl::flat_hash_map<std::pair<int, std::string_view>, uint32_t> numbers_;  // of labels_, which never moves
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
