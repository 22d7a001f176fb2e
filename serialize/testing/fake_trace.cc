#include "serialize/testing/fake_trace.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"

namespace torchtrace {
FakeTrace::FakeTrace(const nlohmann::json& metadata) { AddProcess(metadata); }

uint32_t FakeTrace::AddProcess(const nlohmann::json& metadata) {
  ProcessInfo process;
  process.path = "out/log/main-" + std::to_string(processes_.size()) + ".ttlog";
  process.SetMetadata(std::make_shared<const nlohmann::json>(metadata));
  process.closed = true;
  processes_.push_back(std::move(process));
  return static_cast<uint32_t>(processes_.size() - 1);
}

void FakeTrace::In(uint32_t process, uint32_t thread) {
  process_ = process;
  thread_ = thread;
}

CallRecord& FakeTrace::Add(CallRecord::Kind kind) {
  std::vector<ThreadInfo>& threads = processes_[process_].threads;
  while (threads.size() <= thread_) {
    ThreadInfo& info = threads.emplace_back();
    info.number = threads.size() - 1;
    info.name = "thread" + std::to_string(info.number);
  }
  CallRecord record;
  record.kind = kind;
  record.process = process_;
  record.thread = thread_;
  record.time_ns = now_ns_ += 10;
  texts_.emplace_back();
  return records_.emplace_back(record);
}

VariantId FakeTrace::Define(const Config& config, std::string_view facets) {
  const std::string identity = EncodeConfig(config);
  const auto at = std::find(identities_.begin(), identities_.end(), identity);
  const ConfigId id = static_cast<ConfigId>(at - identities_.begin());
  if (at == identities_.end()) identities_.push_back(identity);
  const std::pair<ConfigId, std::string> variant(id, facets);
  const auto seen = std::find(variants_.begin(), variants_.end(), variant);
  const VariantId variant_id = static_cast<VariantId>(seen - variants_.begin());
  if (seen == variants_.end()) variants_.push_back(variant);
  return variant_id;
}

void FakeTrace::Enter(const Config& config, std::string_view facets, std::string notes) {
  const VariantId variant = Define(config, facets);
  CallRecord& record = Add(CallRecord::kEnter);
  record.level = static_cast<uint8_t>(config.level);
  record.config = config_of(variant);
  record.variant = variant;
  record.depth = static_cast<uint32_t>(Open().size());
  record.call = calls_++;
  record.tags = tags_now_;
  texts_.back().notes = std::move(notes);
  if (!Open().empty()) record.parent = Open().back().call;
  Open().push_back(record);
  ++processes_[process_].calls;
  ++processes_[process_].open_calls;
  ++processes_[process_].threads[thread_].calls;
}

void FakeTrace::End(CallRecord::Kind kind, std::string_view exception) {
  const CallRecord entry = Open().back();
  Open().pop_back();
  CallRecord& record = Add(kind);
  const int64_t time_ns = record.time_ns;
  record = entry;
  record.kind = kind;
  record.time_ns = time_ns;
  record.duration_ns = time_ns - entry.time_ns;
  texts_.back().exception = exception;
  --processes_[process_].open_calls;
}

void FakeTrace::SetFacts(const RecordFacts& facts) { records_.back().facts = facts; }

void FakeTrace::Leave() { End(CallRecord::kLeave, ""); }

void FakeTrace::Return(const std::vector<Value>& values, std::string notes) {
  Leave();
  AppendVarint(values.size(), &texts_.back().values);
  for (const Value& value : values) EncodeValue(value, &texts_.back().values);
  texts_.back().result_notes = std::move(notes);
}

void FakeTrace::SetWritten(std::string notes) { texts_.back().written = std::move(notes); }

void FakeTrace::Raise(std::string_view exception) { End(CallRecord::kRaise, exception); }

void FakeTrace::Later(uint64_t call, LaterOf of, std::string notes) {
  const auto entry =
      std::find_if(records_.begin(), records_.end(), [call](const CallRecord& record) { return record.call == call; });
  CallRecord later = *entry;
  later.kind = CallRecord::kLater;
  later.time_ns = now_ns_ += 10;
  later.parent = kNoCall;
  records_.push_back(later);
  Texts& texts = texts_.emplace_back();
  (of == LaterOf::kArguments ? texts.notes
   : of == LaterOf::kResult  ? texts.result_notes
   : of == LaterOf::kWritten ? texts.written
                             : texts.device_work) = std::move(notes);
}

void FakeTrace::Memory(const MemoryEvent& event) {
  CallRecord& record = Add(CallRecord::kMemory);
  record.memory = event;
  record.depth = static_cast<uint32_t>(Open().size());
  record.tags = tags_now_;
  record.call = Open().empty() ? kNoCall : Open().back().call;
  record.config = Open().empty() ? kLostId : Open().back().config;
  record.variant = Open().empty() ? kLostId : Open().back().variant;
}

absl::Status FakeTrace::Read(const Visitor& visitor) {
  for (size_t i = 0; i < records_.size(); ++i) {
    CallRecord record = records_[i];
    if (record.kind == CallRecord::kLater && !shown().later) continue;
    if (record.kind == CallRecord::kMemory && !shown().memory) continue;
    const Texts& texts = texts_[i];
    record.exception = texts.exception;
    record.notes = texts.notes;
    record.result = {texts.values, texts.result_notes, texts.written};
    record.device_work = texts.device_work;
    if (absl::Status s = visitor(record); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint64_t>> FakeTrace::Count() {
  std::vector<uint64_t> counts(variants_.size());
  for (const CallRecord& record : records_) {
    if (record.kind == CallRecord::kEnter && record.variant != kLostId) ++counts[record.variant];
  }
  return counts;
}

std::unique_ptr<FakeTrace> WithLaterNumbers(Trace* from, uint32_t seed, size_t most_records) {
  auto to = std::make_unique<FakeTrace>();
  for (uint32_t i = 0; i < from->processes().size(); ++i) {
    if (i > 0) to->AddProcess({});
    ProcessInfo& process = to->process(i) = from->processes()[i];
    process.calls = process.open_calls = 0;
    for (ThreadInfo& thread : process.threads) thread.calls = 0;
  }
  struct Later {
    size_t at;
    uint64_t call;
    LaterOf of;
    std::string notes;
  };
  std::vector<Later> waiting;
  std::minstd_rand random(seed);
  size_t records = 0;
  const auto without_numbers = [&](const CallRecord& record, LaterOf of, std::string_view notes) {
    std::string rest;
    for (TensorNote note : ReadTensorNotes(notes)) {
      if (note.numbers) {
        Later& later = waiting.emplace_back(Later{records + random() % most_records, record.call, of, ""});
        AppendTensorNote({.position = note.position, .numbers = std::exchange(note.numbers, std::nullopt)},
                         &later.notes);
      }
      AppendTensorNote(note, &rest);
    }
    return rest;
  };
  const auto add_later = [&](bool all) {
    std::shuffle(waiting.begin(), waiting.end(), random);
    std::erase_if(waiting, [&](const Later& later) {
      if (!all && later.at > records) return false;
      to->Later(later.call, later.of, later.notes);
      return true;
    });
  };
  const absl::Status read = from->Read([&](const CallRecord& record) {
    ++records;
    to->In(record.process, record.thread);
    to->Tag(WithStepMarks(from->tags(record.tags), from->steps(record.tags)));
    if (record.kind == CallRecord::kEnter) {
      to->Enter(ReadableConfig(from->identity(record.config)), from->facets(record.variant),
                without_numbers(record, LaterOf::kArguments, record.notes));
      to->SetFacts(record.facts);
    } else if (record.kind == CallRecord::kRaise) {
      to->Raise(record.exception);
    } else if (record.result.known()) {
      to->Return(ReadableResult(record.result.values), without_numbers(record, LaterOf::kResult, record.result.notes));
    } else {
      to->Leave();
    }
    if (!record.result.written.empty()) {
      to->SetWritten(without_numbers(record, LaterOf::kWritten, record.result.written));
    }
    add_later(/*all=*/false);
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
  add_later(/*all=*/true);
  return to;
}

std::string ReportOf(Trace* trace, const WriteReport& write) {
  const auto report = [&write](Trace* of) {
    std::ostringstream out;
    const absl::StatusOr<bool> different = write(of, &out);
    return different.ok() ? absl::StrCat(*different ? "different\n" : "same\n", out.str())
                          : absl::StrCat("error: ", std::string(different.status().message()));
  };
  const std::string own = report(trace);
  for (const uint32_t seed : {1, 2, 3, 4, 5}) EXPECT_EQ(report(WithLaterNumbers(trace, seed).get()), own) << seed;
  return own;
}

Value IntValue(int64_t value) {
  Value result;
  result.tag = ValueTag::kInt;
  result.integer = value;
  return result;
}

Value FloatValue(double real) {
  Value result;
  result.tag = ValueTag::kFloat;
  result.real = real;
  return result;
}

Value TextValue(const std::string& text) {
  Value result;
  result.tag = ValueTag::kString;
  result.text = text;
  result.whole = text.size();
  return result;
}

Value TensorValue(std::vector<Dim> shape) {
  Value result;
  result.tag = ValueTag::kTensor;
  result.text = "float32";
  result.device = "cpu";
  result.shape = std::move(shape);
  return result;
}

Value NamedValue(ValueTag tag, const std::string& name) {
  Value result;
  result.tag = tag;
  result.text = name;
  return result;
}

Value ItemsValue(ValueTag tag, std::vector<Value> items) {
  Value result;
  result.tag = tag;
  result.whole = tag == ValueTag::kDict ? items.size() / 2 : items.size();
  result.items = std::move(items);
  return result;
}

Config MakeConfig(int level, std::string api, std::vector<Value> args,
                  std::vector<std::pair<std::string, Value>> kwargs) {
  Config config;
  config.level = level;
  config.api = std::move(api);
  config.args = std::move(args);
  config.kwargs = std::move(kwargs);
  return config;
}

std::string Identities(const std::vector<TensorNote::Identity>& identities) {
  std::string notes;
  for (size_t i = 0; i < identities.size(); ++i) {
    AppendTensorNote({.position = i, .identity = identities[i]}, &notes);
  }
  return notes;
}

void AddExampleCalls(FakeTrace* trace) {
  const Value tensor = TensorValue({2, 3});
  trace->Call(MakeConfig(1, "torch.randn", {IntValue(2), IntValue(3)}, {{"device", TextValue("cpu")}}));
  trace->Call(MakeConfig(1, "torch.ones", {IntValue(2), IntValue(3)}));
  trace->Call(MakeConfig(1, "torch.add", {tensor, tensor}, {{"alpha", IntValue(10)}}));
  trace->Call(MakeConfig(1, "torch.Tensor.sum", {tensor}));
}

namespace {

std::string ScanOnce(CallSource* source) {
  std::string lines;
  std::vector<std::vector<uint32_t>> depths;
  const absl::Status status = source->Scan([&](const ImportedCall& call) {
    const absl::StatusOr<Config> config = ParseConfig(call.identity);
    EXPECT_TRUE(config.ok()) << config.status();
    if (!config.ok()) return config.status();
    EXPECT_EQ(EncodeConfig(*config), call.identity);
    EXPECT_EQ(config->level, 2);
    EXPECT_LE(call.start_ns, call.end_ns);
    absl::StrAppend(&lines, std::string(2 * call.depth, ' '), FormatConfig(*config));
    if (call.process != 0 || call.thread != 0) absl::StrAppend(&lines, " @", call.process, ".", call.thread);
    if (call.start_ns != kUnknownTime) absl::StrAppend(&lines, " [", call.start_ns, ", ", call.end_ns, "]");
    absl::StrAppend(&lines, "\n");
    return absl::OkStatus();
  });
  if (!status.ok()) absl::StrAppend(&lines, "error: ", std::string(status.message()), "\n");
  EXPECT_FALSE(source->processes().empty());
  return lines;
}

}  // namespace

std::string CallLines(CallSource* source) {
  const std::string lines = ScanOnce(source);
  EXPECT_EQ(ScanOnce(source), lines);
  return lines;
}

std::string AllLines(CallSource* source) {
  std::string lines = CallLines(source);
  for (const ImportedProcess& process : source->processes()) {
    absl::StrAppend(&lines, "process ", process.metadata.dump());
    for (const std::string& name : process.thread_names) absl::StrAppend(&lines, " \"", name, "\"");
    absl::StrAppend(&lines, "\n");
  }
  for (const std::string& note : source->notes()) absl::StrAppend(&lines, "note: ", note, "\n");
  return lines;
}

JsonFile MemoryFile(std::string_view bytes) {
  const auto copy = std::make_shared<const std::string>(bytes);
  return {"file.json", [copy](uint64_t offset, void* to, size_t size) -> size_t {
            if (offset >= copy->size()) return 0;
            const size_t count = std::min<size_t>(size, copy->size() - offset);
            std::memcpy(to, copy->data() + offset, count);
            return count;
          }};
}

std::string ReadTestFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void ExpectGolden(const std::string& lines, const std::string& path) {
  if (const char* const workspace = std::getenv("TORCHTRACE_BLESS")) {
    std::ofstream(std::string(workspace) + "/" + path, std::ios::binary) << lines;
  } else {
    EXPECT_EQ(lines, ReadTestFile(path)) << path;
  }
}

}  // namespace torchtrace
