// Which calls of a trace are the steps of a flow: the outermost ones of a selection that can be called again.

#ifndef TORCHTRACE_SERIALIZE_FLOW_STEP_READER_H_
#define TORCHTRACE_SERIALIZE_FLOW_STEP_READER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "serialize/flow/flow.h"
#include "serialize/trace/trace.h"
#include "serialize/where/call_selection.h"

namespace torchtrace {

// An outermost call of the selection at its end.
struct EndedCall {
  const CallRecord* end = nullptr;
  std::string_view notes;  // from its entry
  bool gradients = true;
  const std::vector<FlowModule>* modules = nullptr;
};

// Reads the trace and finds the steps.
class StepReader {
 public:
  StepReader(Trace* trace, const CallSelection& selection, const FlowOptions& options)
      : trace_(trace), selector_(trace, selection), options_(options) {}

  absl::Status Prepare() { return selector_.Prepare(); }

  // `other` gets the records that are neither a step nor in one.
  using OtherVisitor = std::function<void(const CallRecord& record)>;

  absl::Status Read(const std::function<absl::Status(const EndedCall&)>& visit, const OtherVisitor& other = nullptr);

  const FlowSummary& summary() const { return summary_; }

 private:
  struct OpenCall {
    uint64_t call = 0;
    uint32_t depth = 0;
    bool step = false;
    bool refused = false;  // can't be called; a step only if it contains none
    bool module = false;
    // Of these two:
    std::string notes;
    std::vector<FlowModule> modules;
    bool gradients = true;
  };
  // What kind of call a config is.
  struct Kind {
    bool known = false;
    bool is_call = false;   // of a function or an operator
    bool can_call = false;  // can be repeated
    bool module = false;
    std::optional<bool> sets_gradients = {};
  };
  struct Thread {
    std::vector<OpenCall> open;  // outermost first
    std::vector<FlowModule> modules;
    bool in_step = false;
    bool gradients = true;
  };

  template <typename Lost>
  void Close(Thread* thread, Lost lost);
  static OpenCall Pop(Thread* thread);
  void Enter(const CallRecord& record);
  bool IsSelected(const Kind& kind, const CallRecord& record);
  absl::Status End(const CallRecord& record, const std::function<absl::Status(const EndedCall&)>& visit);
  const Kind& KindOf(ConfigId id);
  bool MayCall(const std::string& api);

  Trace* const trace_;
  CallSelector selector_;
  const FlowOptions& options_;
  OtherVisitor other_;
  FlowSummary summary_;
  std::optional<uint32_t> process_;
  std::map<std::pair<uint32_t, uint32_t>, Thread> threads_;
  std::vector<Kind> kinds_;  // by ConfigId
  absl::flat_hash_map<std::string, bool> may_call_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FLOW_STEP_READER_H_
