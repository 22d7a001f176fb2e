// Traces for tests: one that a test writes call by call, and the calls that an importer reads as text.

#ifndef TORCHTRACE_SERIALIZE_TESTING_FAKE_TRACE_H_
#define TORCHTRACE_SERIALIZE_TESTING_FAKE_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "serialize/import/imported_trace.h"
#include "serialize/import/json_stream.h"
#include "serialize/model/config.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// A trace in memory that a test writes call by call. Configs and variants are
// numbered, counted and nested as Trace promises.
class FakeTrace : public Trace {
 public:
  // Calls are in process 0 until another one is added.
  explicit FakeTrace(const nlohmann::json& metadata = nlohmann::json::object());

  // Adds a process that ended in order; change it through process().
  uint32_t AddProcess(const nlohmann::json& metadata);
  ProcessInfo& process(uint32_t index) { return processes_[index]; }

  // The process and thread of all further calls.
  void In(uint32_t process, uint32_t thread);
  // Advances the time; every record takes another 10 ns.
  void Wait(int64_t ns) { now_ns_ += ns; }

  // The tags of all calls that are entered from now on; empty: none.
  void Tag(std::string_view json) { tags_now_ = tags_.Intern(json); }
  // `notes` on its tensors: TensorNotes.
  void Enter(const Config& config, std::string_view facets = "", std::string notes = "");
  // Of the call that was entered last.
  void SetFacts(const RecordFacts& facts);
  void Leave();
  // Leaves with a result, and notes on the tensors in it.
  void Return(const std::vector<Value>& values, std::string notes = "");
  // Of the call that was left last: notes on tensors that it wrote.
  void SetWritten(std::string notes);
  void Raise(std::string_view exception);
  // Notes on a call that was entered earlier, by its number in the trace.
  void Later(uint64_t call, LaterOf of, std::string notes);
  // Within the innermost open call of the thread.
  void Memory(const MemoryEvent& event);
  void Call(const Config& config, std::string_view facets = "") {
    Enter(config, facets);
    Leave();
  }
  // Gives the config its ids before any call of it.
  VariantId Define(const Config& config, std::string_view facets = "");

  absl::Status Read(const Visitor& visitor) override;
  absl::Status ReadCounted(const Visitor& visitor) override { return Read(visitor); }
  absl::StatusOr<std::vector<uint64_t>> Count() override;
  size_t config_count() const override { return identities_.size(); }
  size_t variant_count() const override { return variants_.size(); }
  std::string_view identity(ConfigId config) const override { return identities_[config]; }
  std::string_view facets(VariantId variant) const override { return variants_[variant].second; }
  ConfigId config_of(VariantId variant) const override { return variants_[variant].first; }
  std::string_view tags(uint32_t id) const override { return tags_.text(id); }
  std::string_view step_tag(uint32_t id) const override { return tags_.step_tag(id); }
  const StepMarks& steps(uint32_t id) const override { return tags_.steps(id); }
  const StackTable& stacks() const override { return no_stacks_; }
  LogSource log_source(size_t) const override { return {}; }
  const std::vector<ProcessInfo>& processes() const override { return processes_; }

 private:
  CallRecord& Add(CallRecord::Kind kind);
  void End(CallRecord::Kind kind, std::string_view exception);
  std::vector<CallRecord>& Open() { return open_[{process_, thread_}]; }

  std::vector<ProcessInfo> processes_;
  const StackTable no_stacks_;
  TagTable tags_;
  std::vector<std::string> identities_;
  std::vector<std::pair<ConfigId, std::string>> variants_;
  std::vector<CallRecord> records_;
  struct Texts {
    std::string exception, notes, values, result_notes, written, device_work;
  };
  std::vector<Texts> texts_;  // by record
  std::map<std::pair<uint32_t, uint32_t>, std::vector<CallRecord>> open_;
  uint32_t process_ = 0;
  uint32_t thread_ = 0;
  uint32_t tags_now_ = kNoTags;
  uint64_t calls_ = 0;
  int64_t now_ns_ = 0;
};

// The same trace; the numbers of its tensors come later, at random times within `most_records` records.
std::unique_ptr<FakeTrace> WithLaterNumbers(Trace* from, uint32_t seed, size_t most_records = 8);

// What `write` writes of a trace, after a line `different`, `same` or `error: ...`, by what it returns. Expects the
// same of the trace whose numbers come later.
using WriteReport = std::function<absl::StatusOr<bool>(Trace* trace, std::ostream* out)>;
std::string ReportOf(Trace* trace, const WriteReport& write);

// Short spellings for tests.
Value IntValue(int64_t value);
Value FloatValue(double real);
Value TextValue(const std::string& text);
Value TensorValue(std::vector<Dim> shape);
Value NamedValue(ValueTag tag, const std::string& name = "");
Value ItemsValue(ValueTag tag, std::vector<Value> items);
Config MakeConfig(int level, std::string api, std::vector<Value> args = {},
                  std::vector<std::pair<std::string, Value>> kwargs = {});

// Encodes an identity note for each tensor, by position.
std::string Identities(const std::vector<TensorNote::Identity>& identities);

// The four calls of the project's first example, at level 1.
void AddExampleCalls(FakeTrace* trace);

// A line per call of an importer's CallSource, indented by its depth: the text form, then "@process.thread" unless that
// is 0.0, and its times if there are any. Scans twice and expects the same. An error is a line "error: ...".
std::string CallLines(CallSource* source);

// The same, then the processes and the notes.
std::string AllLines(CallSource* source);

// `bytes` as a file named "file.json"; copies them.
JsonFile MemoryFile(std::string_view bytes);

std::string ReadTestFile(const std::string& path);

// Expects the file to contain `lines`. If TORCHTRACE_BLESS is set to a workspace's folder, writes the file there.
void ExpectGolden(const std::string& lines, const std::string& path);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TESTING_FAKE_TRACE_H_
