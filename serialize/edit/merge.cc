#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/edit/edit.h"
#include "serialize/edit/later_notes.h"
#include "serialize/import/open_trace.h"
#include "serialize/log/log_metadata.h"
#include "serialize/log/log_reader.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// The metadata of a process, with its origin.
Json WithOrigin(const ProcessInfo& info, const std::string& label) {
  Json metadata = info.metadata != nullptr && info.metadata->is_object() ? *info.metadata : Json::object();
  if (!metadata.contains("source")) metadata["source"] = info.path;
  if (!label.empty() && !metadata.contains("label")) metadata["label"] = label;
  const auto& [rank, world_size] = info.known.ranked;
  if (rank && !metadata.contains("rank")) metadata["rank"] = *rank;
  if (world_size && !metadata.contains("world_size")) metadata["world_size"] = *world_size;
  return metadata;
}

// The trace's processes in the original order: by log, and in a log of many processes by number.
std::vector<size_t> OrderGiven(const Trace& trace) {
  absl::flat_hash_map<const LogReader*, size_t> logs;  // by first appearance
  std::vector<std::pair<size_t, size_t>> keys;
  for (size_t i = 0; i < trace.processes().size(); ++i) {
    const LogSource source = trace.log_source(i);
    keys.emplace_back(source.log == nullptr ? SIZE_MAX : logs.try_emplace(source.log, logs.size()).first->second,
                      source.process);
  }
  std::vector<size_t> order(keys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  return order;
}

absl::Status CopyLogs(const Trace& trace, const std::string& label, TraceWriter* writer,
                      const TraceWriter::Progress& progress) {
  for (const size_t i : OrderGiven(trace)) {
    const ProcessInfo& info = trace.processes()[i];
    Json metadata = WithOrigin(info, label);
    const LogSource source = trace.log_source(i);
    // A file in the folder that is not a log.
    if (source.log == nullptr) metadata["damage"] = FormatSourceDamage(info.damage);
    const absl::StatusOr<uint32_t> process = writer->AddProcess(metadata);
    if (!process.ok()) return process.status();
    if (source.log == nullptr) continue;
    if (absl::Status s = writer->CopyCalls(*source.log, source.process, *process, progress); !s.ok()) return s;
    source.log->file().Rest();
  }
  return absl::OkStatus();
}

absl::Status WriteCalls(Trace* trace, const std::string& label, TraceWriter* writer) {
  // Metadata and threads are only complete after a first pass.
  if (absl::Status s = trace->Count().status(); !s.ok()) return s;
  std::vector<uint32_t> processes;
  for (const ProcessInfo& info : trace->processes()) {
    Json metadata = InNanoseconds(WithOrigin(info, label));
    // Files of other formats can't have this key, which says that the process ended.
    if (info.closed && !metadata.contains("end")) metadata["end"] = Json::object();
    if (!info.damage.sentences.empty()) metadata["damage"] = FormatSourceDamage(info.damage);
    const absl::StatusOr<uint32_t> process = writer->AddProcess(metadata);
    if (!process.ok()) return process.status();
    for (const ThreadInfo& thread : info.threads) {
      writer->NameThread(*process, thread.number, thread.os_id, thread.name);
    }
    processes.push_back(*process);
  }
  LaterNotesWriter later(writer);
  const LaterNotesShown shown(trace);
  const MemoryShown shown_too(trace);
  return trace->Read([&](const CallRecord& record) -> absl::Status {
    const uint32_t process = processes[record.process];
    const auto time = static_cast<uint64_t>(std::max<int64_t>(0, record.time_ns));
    switch (record.kind) {
      case CallRecord::kEnter:
        writer->Tag(process, record.thread, trace->tags(record.tags), trace->steps(record.tags));
        writer->Stack(process, record.thread, trace->stacks(), record.stack);
        writer->Facts(process, record.thread, record.facts);
        writer->Notes(process, record.thread, record.notes);
        later.AddCall(process, record.thread, record.call, kNoCall);
        later.Written(process, record.thread, record.call);
        return writer->Enter(process, record.thread, time, trace->identity(record.config),
                             trace->facets(record.variant));
      case CallRecord::kLeave:
        return writer->Leave(process, record.thread, time, record.result);
      case CallRecord::kRaise:
        return writer->Raise(process, record.thread, time, record.exception, record.result.written);
      case CallRecord::kLater:
        return later.Write(process, record.thread, time, record);
      case CallRecord::kMemory:
        return writer->Memory(process, record.thread, time, record.memory);
    }
    return absl::OkStatus();
  });
}

bool IsFolder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// The names in a folder, sorted.
absl::StatusOr<std::vector<std::string>> List(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) return absl::PermissionDeniedError(absl::StrCat("cannot read ", folder, ": ", error.message()));
  std::sort(names.begin(), names.end());
  return names;
}

bool IsLogName(const std::string& name) { return fs::path(name).extension() == ".ttlog"; }

bool HoldsLogs(const std::vector<std::string>& names) { return std::any_of(names.begin(), names.end(), IsLogName); }

// The folder of the trace's logs; empty if `path` has none.
absl::StatusOr<std::string> LogFolder(const std::string& path) {
  const std::string log = (fs::path(path) / "log").string();
  for (const std::string& folder : {log, path}) {
    if (!IsFolder(folder)) continue;
    const absl::StatusOr<std::vector<std::string>> names = List(folder);
    if (!names.ok()) return names.status();
    if (HoldsLogs(*names)) return folder;
  }
  return std::string();
}

}  // namespace

absl::StatusOr<std::vector<MergeInput>> ExpandMergeInput(const MergeInput& input) {
  if (!IsFolder(input.path)) return std::vector<MergeInput>{input};
  const absl::StatusOr<std::string> logs = LogFolder(input.path);
  if (!logs.ok()) return logs.status();
  if (!logs->empty()) return std::vector<MergeInput>{input};
  const absl::StatusOr<std::vector<std::string>> names = List(input.path);
  if (!names.ok()) return names.status();
  std::vector<MergeInput> inputs;
  for (const std::string& name : *names) {
    const std::string path = (fs::path(input.path) / name).string();
    if (!IsFolder(path)) continue;
    const absl::StatusOr<std::string> of_child = LogFolder(path);
    if (!of_child.ok()) return of_child.status();
    if (!of_child->empty()) inputs.push_back({path, input.label});
  }
  // Opening it will report the error.
  if (inputs.empty()) inputs.push_back(input);
  return inputs;
}

absl::Status CheckMergeInputs(const std::vector<MergeInput>& inputs) {
  int standard_inputs = 0;
  for (const MergeInput& input : inputs) {
    // Standard input can be read only once: don't open it here.
    if (input.path == "-") {
      if (++standard_inputs > 1) return absl::InvalidArgumentError("standard input can be merged only once");
      continue;
    }
    if (absl::Status s = OpenTrace(input.path).status(); !s.ok()) return s;
  }
  return absl::OkStatus();
}

uint64_t MergeInputBytes(const std::string& path) {
  struct stat file;
  if (!IsFolder(path)) return stat(path.c_str(), &file) == 0 ? static_cast<uint64_t>(file.st_size) : 0;
  const absl::StatusOr<std::string> folder = LogFolder(path);
  if (!folder.ok() || folder->empty()) return 0;
  const absl::StatusOr<std::vector<std::string>> names = List(*folder);
  if (!names.ok()) return 0;
  uint64_t bytes = 0;
  for (const std::string& name : *names) {
    if (IsLogName(name) && stat((fs::path(*folder) / name).c_str(), &file) == 0) {
      bytes += static_cast<uint64_t>(file.st_size);
    }
  }
  return bytes;
}

absl::Status MergeTrace(Trace* trace, const std::string& label, TraceWriter* writer,
                        const TraceWriter::Progress& progress) {
  bool from_logs = false;
  for (size_t i = 0; i < trace->processes().size(); ++i) {
    from_logs = from_logs || trace->log_source(i).log != nullptr;
  }
  return from_logs ? CopyLogs(*trace, label, writer, progress) : WriteCalls(trace, label, writer);
}

absl::Status MergeInputs(const std::vector<MergeInput>& inputs, const std::string& path,
                         const TraceWriter::Progress& progress, std::vector<std::string>* notes,
                         ReadingObserver* observer) {
  const absl::StatusOr<std::unique_ptr<TraceWriter>> writer = TraceWriter::Create(path);
  if (!writer.ok()) return writer.status();
  for (const MergeInput& input : inputs) {
    const absl::StatusOr<std::unique_ptr<Trace>> trace = OpenTrace(input.path, observer);
    if (!trace.ok()) return trace.status();
    if (absl::Status s = MergeTrace(trace->get(), input.label, writer->get(), progress); !s.ok()) return s;
    if (notes == nullptr) continue;
    for (const std::string& note : TraceNotes(**trace)) {
      if (std::find(notes->begin(), notes->end(), note) == notes->end()) notes->push_back(note);
    }
  }
  return (*writer)->Finish();
}

}  // namespace torchtrace
