#include "serialize/log/log_trace.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "serialize/base/files.h"
#include "serialize/base/log_folder.h"
#include "serialize/base/text.h"
#include "serialize/log/call_reader.h"
#include "serialize/log/log_metadata.h"
#include "serialize/log/log_reader.h"
#include "serialize/log/log_survey.h"
#include "serialize/log/thread_calls.h"
#include "serialize/log/thread_reader.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;

// Limit for all windows together when many logs are read in parallel.
constexpr uint64_t kWindowsBytes = 64 << 20;
constexpr uint64_t kMinWindowBytes = 4 << 10;

// The observer is called once per this many records.
constexpr uint32_t kRecordsPerTelling = 1 << 16;

// The whole file in a log of one process, otherwise the frames of the process.
uint64_t BytesOf(const LogReader& log, size_t process) {
  if (!log.many_processes()) return log.file().bytes();
  uint64_t bytes = 0;
  for (const uint32_t frame : log.processes()[process].frames) bytes += log.frames()[frame].header.capacity_bytes;
  return bytes;
}

// One process of a log. Without a reader the file exists but isn't a log.
struct ProcessLog {
  ProcessLog(const LogReader* log_reader, uint32_t index, const nlohmann::json& metadata)
      : reader(log_reader),
        process(index),
        clock(metadata),
        end(ReadLogEnd(metadata)),
        source_damage(ReadSourceDamage(metadata)) {}

  const LogReader* reader;
  uint32_t process;  // index into its processes
  LogClock clock;
  LogEnd end;
  Damage source_damage;
  uint32_t group = 0;    // of ProcessOrder
  int64_t shift_ns = 0;  // added to make its times comparable with the others' of the group
  std::vector<LogThread> threads;
  std::vector<std::pair<VariantId, uint64_t>> counted;  // calls that are only counted
};

void AddDamage(const Damage& more, Damage* damage) {
  damage->sentences.insert(damage->sentences.end(), more.sentences.begin(), more.sentences.end());
  damage->lost_calls += more.lost_calls;
  damage->lost_bytes += more.lost_bytes;
  damage->lost_calls_exact = damage->lost_calls_exact && more.lost_calls_exact;
}

class LogTrace : public Trace {
 public:
  explicit LogTrace(ReadingObserver* observer) : observer_(observer) {}

  // Adds logs in the order given.
  void Add(const std::string& path, std::unique_ptr<LogReader> reader) {
    for (uint32_t i = 0; i < reader->processes().size(); ++i) {
      ProcessInfo info;
      info.path = path;
      info.file_bytes = BytesOf(*reader, i);
      info.SetMetadata(ReadMetadata(*reader, i, &info.damage));
      logs_.emplace_back(reader.get(), i, *info.metadata);
      info.closed = logs_.back().end.present;
      infos_.push_back(std::move(info));
    }
    reader->file().Rest();
    readers_.push_back(std::move(reader));
  }

  // Adds a file among logs that isn't a log.
  void AddUnreadable(const std::string& path, const absl::Status& status) {
    ProcessInfo info;
    info.path = path;
    struct stat file;
    if (stat(path.c_str(), &file) == 0) info.file_bytes = static_cast<uint64_t>(file.st_size);
    info.SetMetadata(std::make_shared<nlohmann::json>(nlohmann::json::object()));
    info.damage.sentences.emplace_back(status.message());
    info.damage.lost_bytes = info.file_bytes;
    info.damage.lost_calls_exact = false;
    logs_.emplace_back(nullptr, 0, *info.metadata);
    infos_.push_back(std::move(info));
  }

  // Of the run as a whole: the first process reports it. Call it after Arrange.
  void AddNotSeen(const std::vector<std::string>& sentences) {
    if (sentences.empty() || infos_.empty()) return;
    auto metadata = std::make_shared<nlohmann::json>(*infos_[0].metadata);
    nlohmann::json& list = (*metadata)["not_seen"];
    if (!list.is_array()) list = nlohmann::json::array();
    for (const std::string& sentence : sentences) list.push_back(sentence);
    infos_[0].SetMetadata(std::move(metadata));
  }

  // Call it after the last Add. Orders the processes, those of unreadable files last.
  void Arrange() {
    std::vector<uint32_t> indices;
    std::vector<ProcessClock> clocks;
    for (uint32_t i = 0; i < logs_.size(); ++i) {
      if (logs_[i].reader == nullptr) continue;
      indices.push_back(i);
      clocks.push_back(ReadProcessClock(*infos_[i].metadata));
    }
    const ProcessOrder order = OrderProcesses(clocks);
    std::vector<ProcessLog> logs;
    std::vector<ProcessInfo> infos;
    const auto take = [&](uint32_t i) {
      logs.push_back(std::move(logs_[i]));
      infos.push_back(std::move(infos_[i]));
    };
    for (uint32_t group = 0; group < order.groups.size(); ++group) {
      for (const uint32_t i : order.groups[group]) {
        logs_[indices[i]].group = group;
        logs_[indices[i]].shift_ns = order.shift_ns[i];
        take(indices[i]);
      }
    }
    for (uint32_t i = 0; i < logs_.size(); ++i) {
      if (logs_[i].reader == nullptr) take(i);
    }
    logs_ = std::move(logs);
    infos_ = std::move(infos);
  }

  LogSource log_source(size_t process) const override { return {logs_[process].reader, logs_[process].process}; }

  absl::StatusOr<std::vector<uint64_t>> Count() override {
    Survey();
    return counts_;
  }

  absl::Status Read(const Visitor& visitor) override;
  absl::Status ReadCounted(const Visitor& visitor) override;
  absl::Status ReadCounts(const Visitor& visitor) override;
  absl::Status ReadThreads(const ThreadsVisitor& visitor) override;
  CallOrder OrderOf(const CallRecord& call) const override {
    const ProcessLog& log = logs_[call.process];
    return {log.group, call.time_ns + log.shift_ns, uint64_t{call.process} << 32 | call.thread};
  }

  size_t config_count() const override { return configs_.config_count(); }
  size_t variant_count() const override { return configs_.variant_count(); }
  std::string_view identity(ConfigId config) const override { return configs_.identity(config); }
  std::string_view facets(VariantId variant) const override { return configs_.facets(variant); }
  ConfigId config_of(VariantId variant) const override { return configs_.config_of(variant); }
  std::string_view tags(uint32_t id) const override { return tags_.text(id); }
  std::string_view step_tag(uint32_t id) const override { return tags_.step_tag(id); }
  const StepMarks& steps(uint32_t id) const override { return tags_.steps(id); }
  const StackTable& stacks() const override { return stacks_; }
  const std::vector<ProcessInfo>& processes() const override { return infos_; }

 private:
  struct Stream {
    Stream(uint32_t process, const LogThread& thread, const ProcessLog& log, TagTable* tags,
           LogDefinitions* definitions, RecordsShown shown)
        : calls(process, static_cast<uint32_t>(thread.number), &log.clock, tags, shown),
          reader(&thread.segments, definitions, &calls),
          shift_ns(log.shift_ns) {}
    int64_t time_ns() const { return calls.time_ns() + shift_ns; }

    ThreadCalls calls;
    ThreadReader reader;
    const int64_t shift_ns;
  };
  struct Turn {
    int64_t time_ns;
    uint32_t stream;
    friend bool operator<(const Turn& a, const Turn& b) {
      return a.time_ns != b.time_ns ? a.time_ns < b.time_ns : a.stream < b.stream;
    }
    friend bool operator>(const Turn& a, const Turn& b) { return b < a; }
  };

  // `visitor`: of all calls, or null.
  void Survey(const ThreadsVisitor* visitor = nullptr);
  absl::Status ReadStreams(std::deque<Stream>& streams, uint64_t* calls, const Visitor& visitor);
  absl::Status ReadListed(uint64_t* calls, const Visitor& visitor);
  // The calls of a process that are only counted: an entry and an end of each configuration.
  absl::Status ReadCountsOf(uint32_t process, uint64_t* calls, const Visitor& visitor) const;

  ReadingObserver* const observer_;  // or null
  ConfigTable configs_;
  TagTable tags_;
  StackTable stacks_;
  std::vector<uint64_t> counts_;  // by variant
  std::vector<std::unique_ptr<LogReader>> readers_;
  std::vector<ProcessLog> logs_;    // in order, those of a group together
  std::vector<ProcessInfo> infos_;  // of each of them
  bool surveyed_ = false;
};

void LogTrace::Survey(const ThreadsVisitor* visitor) {
  if (std::exchange(surveyed_, true)) return;
  uint64_t bytes = 0, all_bytes = 0, calls = 0;
  for (const ProcessInfo& info : infos_) all_bytes += info.file_bytes;
  const auto progress = [&](uint64_t more) {
    bytes += more;
    if (observer_ != nullptr) observer_->OnRead(ReadingObserver::kBytes, bytes, all_bytes);
  };
  const size_t threads = observer_ == nullptr ? 0 : observer_->threads();
  std::optional<FramesAhead> frames;  // of the processes of one log that follow each other
  for (size_t i = 0; i < logs_.size(); ++i) {
    ProcessLog& log = logs_[i];
    if (log.reader == nullptr) continue;
    if (visitor == nullptr && (i == 0 || logs_[i - 1].reader != log.reader)) {
      std::vector<size_t> processes;
      for (size_t j = i; j < logs_.size() && logs_[j].reader == log.reader; ++j) processes.push_back(logs_[j].process);
      frames.emplace(*log.reader, processes, threads);
    }
    const SurveyVisit visit = {
        static_cast<uint32_t>(i), &log.clock, &tags_, &stacks_, &calls, visitor, threads > 0, shown()};
    LogSurvey survey = SurveyLog(*log.reader, log.process, log.end, &configs_, &counts_, progress,
                                 visitor == nullptr ? &*frames : nullptr, visitor == nullptr ? nullptr : &visit);
    if (i + 1 == logs_.size() || logs_[i + 1].reader != log.reader) log.reader->file().Rest();
    ProcessInfo& info = infos_[i];
    info.calls = survey.calls;
    info.open_calls = survey.open_calls;
    info.event_bytes = survey.event_bytes;
    info.definition_bytes = survey.definition_bytes;
    info.dropped = std::move(survey.dropped);
    if (!survey.schemas.empty()) {
      auto metadata = std::make_shared<nlohmann::json>(*info.metadata);
      metadata->merge_patch({{"schemas", survey.schemas}});
      info.SetMetadata(std::move(metadata));
    }
    AddDamage(survey.damage, &info.damage);
    AddDamage(log.source_damage, &info.damage);
    for (const LogThread& thread : survey.threads) {
      info.threads.push_back({thread.number, thread.os_id, thread.name, thread.calls});
    }
    log.threads = std::move(survey.threads);
    log.counted = std::move(survey.counted);
    for (const auto& [variant, counted] : log.counted) info.counted += counted;
    if (visitor == nullptr) continue;
    ReadCountsOf(static_cast<uint32_t>(i), &calls, [visitor](const CallRecord& call) {
      (*visitor)(call);
      return absl::OkStatus();
    }).IgnoreError();
  }
}

absl::Status LogTrace::ReadThreads(const ThreadsVisitor& visitor) {
  if (surveyed_) return Trace::ReadThreads(visitor);
  Survey(&visitor);
  return absl::OkStatus();
}

absl::Status LogTrace::Read(const Visitor& visitor) {
  uint64_t calls = 0;
  return ReadListed(&calls, visitor);
}

absl::Status LogTrace::ReadCounted(const Visitor& visitor) {
  uint64_t calls = 0;
  if (absl::Status s = ReadListed(&calls, visitor); !s.ok()) return s;
  return ReadCounts(visitor);
}

absl::Status LogTrace::ReadCounts(const Visitor& visitor) {
  Survey();
  uint64_t calls = 0;
  for (const ProcessInfo& info : infos_) calls += info.calls - info.counted;
  for (uint32_t i = 0; i < logs_.size(); ++i) {
    if (absl::Status s = ReadCountsOf(i, &calls, visitor); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status LogTrace::ReadCountsOf(uint32_t process, uint64_t* calls, const Visitor& visitor) const {
  for (const auto& [variant, counted] : logs_[process].counted) {
    CallRecord record;
    record.process = process;
    record.thread = kNoThread;
    record.config = configs_.config_of(variant);
    record.variant = variant;
    record.level = static_cast<uint8_t>(ReadConfigHead(configs_.identity(record.config)).level);
    record.call = (*calls)++;
    record.count = counted;
    for (const CallRecord::Kind kind : {CallRecord::kEnter, CallRecord::kLeave}) {
      record.kind = kind;
      if (absl::Status s = visitor(record); !s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

absl::Status LogTrace::ReadListed(uint64_t* calls, const Visitor& visitor) {
  Survey();
  size_t threads = 1;
  for (const ProcessLog& log : logs_) threads += log.threads.size();
  const uint64_t window_bytes = std::clamp(kWindowsBytes / threads, kMinWindowBytes, CallReader::kWindowBytes);
  absl::flat_hash_map<const LogReader*, std::unique_ptr<LogDefinitions>> definitions;
  for (const ProcessLog& log : logs_) {
    if (log.reader == nullptr) continue;
    std::unique_ptr<LogDefinitions>& of_log = definitions[log.reader];
    if (of_log == nullptr) {
      of_log = std::make_unique<LogDefinitions>(log.reader, &configs_, &stacks_, window_bytes);
    }
    for (const LogThread& thread : log.threads) {
      for (const LogSegment& segment : thread.segments) of_log->Expect(segment);
    }
  }
  for (uint32_t i = 0; i < logs_.size();) {
    std::deque<Stream> streams;
    const uint32_t group = logs_[i].group;
    for (; i < logs_.size() && logs_[i].group == group; ++i) {
      for (const LogThread& thread : logs_[i].threads) {
        streams.emplace_back(i, thread, logs_[i], &tags_, definitions[logs_[i].reader].get(), shown());
      }
    }
    if (absl::Status status = ReadStreams(streams, calls, visitor); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status LogTrace::ReadStreams(std::deque<Stream>& streams, uint64_t* calls, const Visitor& visitor) {
  // A heap of the threads' turns, earliest on top. A thread is opened when its
  // time comes, so that only threads that ran at the same time are open together.
  std::vector<Turn> turns;
  for (uint32_t i = 0; i < streams.size(); ++i) {
    if (streams[i].reader.state() != ThreadReader::kDone) turns.push_back({streams[i].time_ns(), i});
  }
  std::make_heap(turns.begin(), turns.end(), std::greater<>());

  uint64_t call_number = *calls;
  uint64_t all_calls = 0;
  for (const ProcessInfo& info : infos_) all_calls += info.calls - info.counted;
  uint32_t until_told = kRecordsPerTelling;
  while (!turns.empty()) {
    std::pop_heap(turns.begin(), turns.end(), std::greater<>());
    Turn turn = turns.back();
    turns.pop_back();
    Stream& stream = streams[turn.stream];
    ThreadReader& reader = stream.reader;
    CallRecord& record = stream.calls.record();
    // Usually one thread works: continue with it until another one's turn.
    do {
      if (reader.state() == ThreadReader::kRecord) {
        if (record.kind == CallRecord::kEnter) record.call = call_number++;
        if (absl::Status status = visitor(record); !status.ok()) return status;
        if (--until_told == 0) {
          until_told = kRecordsPerTelling;
          if (observer_ != nullptr) observer_->OnRead(ReadingObserver::kCalls, call_number, all_calls);
        }
      }
      reader.Advance();
      turn.time_ns = stream.time_ns();
    } while (reader.state() != ThreadReader::kDone && (turns.empty() || turn < turns.front()));
    if (reader.state() == ThreadReader::kDone) continue;
    turns.push_back(turn);
    std::push_heap(turns.begin(), turns.end(), std::greater<>());
  }
  *calls = call_number;
  return absl::OkStatus();
}

// The logs in `folder`, sorted; empty when there are none.
absl::StatusOr<std::vector<std::string>> ListLogs(const std::string& folder) {
  std::vector<std::string> logs;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string path = entry->path().string();
    if (absl::EndsWith(path, kLogSuffix)) logs.push_back(path);
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return absl::PermissionDeniedError(absl::StrCat("cannot read ", folder, ": ", error.message()));
  }
  std::sort(logs.begin(), logs.end());
  return logs;
}

// What the run's processes could not follow, a sentence for each program and reason.
std::vector<std::string> ListNotFollowed(const fs::path& folder) {
  constexpr size_t kMaxBytes = 128 << 10, kMaxNamed = 20;
  const fs::path path = folder / kNotFollowedName;
  std::error_code error;
  std::vector<std::string> sentences;
  if (!fs::is_regular_file(fs::symlink_status(path, error))) return sentences;
  std::string text(kMaxBytes, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) return {absl::StrCat("the processes that can't be followed: cannot read ", path.string())};
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  std::map<std::string, uint64_t> counts;  // by line
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) ++counts[std::string(line)];
  uint64_t others = 0;
  for (const auto& [line, count] : counts) {
    const size_t tab = line.find('\t');
    if (tab == std::string::npos || sentences.size() >= kMaxNamed) {
      others += count;
      continue;
    }
    sentences.push_back(
        absl::StrCat(Counted(count, "process", "processes"), " of ", line.substr(tab + 1), ": ", line.substr(0, tab)));
  }
  if (others != 0)
    sentences.push_back(absl::StrCat(Counted(others, "more process", "more processes"), " that can't be followed"));
  return sentences;
}

// The processes of the run that still run and have recorded nothing, in a sentence; empty: there are none.
std::vector<std::string> ListRunning(const fs::path& folder, const std::vector<ProcessInfo>& infos) {
  std::vector<int> running = FolderLock::Sharing(folder.string());
  std::erase_if(running, [&](int pid) {
    return pid == getpid() ||
           std::any_of(infos.begin(), infos.end(), [pid](const ProcessInfo& info) { return info.known.pid == pid; });
  });
  if (running.empty()) return {};
  return {absl::StrCat("what the run's ", running.size() == 1 ? "process " : "processes ", absl::StrJoin(running, ", "),
                       " will record: still running")};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trace>> OpenLogs(std::unique_ptr<LogFile> file, ReadingObserver* observer) {
  const std::string path = file->path();
  absl::StatusOr<std::unique_ptr<LogReader>> reader = LogReader::Open(std::move(file));
  if (!reader.ok()) return reader.status();
  auto trace = std::make_unique<LogTrace>(observer);
  trace->Add(path, *std::move(reader));
  trace->Arrange();
  return trace;
}

absl::StatusOr<std::vector<std::string>> FindLogs(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return FileError(absl::StrCat("cannot read ", path), errno);
  if (!S_ISDIR(status.st_mode)) return std::vector<std::string>{path};
  absl::StatusOr<std::vector<std::string>> logs = ListLogs((fs::path(path) / "log").string());
  return logs.ok() && logs->empty() ? ListLogs(path) : logs;
}

absl::StatusOr<std::unique_ptr<Trace>> OpenLogs(const std::string& path, ReadingObserver* observer) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    absl::StatusOr<std::unique_ptr<LogFile>> file = LogFile::Open(path);
    return file.ok() ? OpenLogs(*std::move(file), observer) : file.status();
  }
  auto trace = std::make_unique<LogTrace>(observer);
  const auto pool = std::make_shared<LogFilePool>();
  const std::string folder = (fs::path(path) / "log").string();
  absl::StatusOr<std::vector<std::string>> logs = FindLogs(path);
  if (!logs.ok()) return logs.status();
  if (logs->empty()) {
    return absl::NotFoundError(absl::StrCat(path, " holds no trace: expected logs named ", folder, "/*", kLogSuffix));
  }
  absl::Status first_error;
  bool readable = false;
  for (const std::string& log : *logs) {
    absl::StatusOr<std::unique_ptr<LogReader>> reader = LogReader::Open(log, pool);
    if (reader.ok()) {
      readable = true;
      trace->Add(log, *std::move(reader));
      continue;
    }
    // Counts without the calls of a newer version's log would be silently wrong.
    if (absl::IsUnimplemented(reader.status())) return reader.status();
    if (first_error.ok()) first_error = reader.status();
    trace->AddUnreadable(log, reader.status());
  }
  if (!readable) return first_error;
  trace->Arrange();
  const fs::path log_folder = fs::path(logs->front()).parent_path();
  trace->AddNotSeen(ListNotFollowed(log_folder));
  trace->AddNotSeen(ListRunning(log_folder, trace->processes()));
  return trace;
}

}  // namespace torchtrace
