#include "serialize/trace.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/log_metadata.h"
#include "serialize/log_reader.h"
#include "serialize/log_survey.h"
#include "serialize/thread_reader.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;

constexpr char kLogSuffix[] = ".ttlog";

// One log of the trace. Without a reader the file is there and is no log.
struct ProcessLog {
  ProcessLog(std::unique_ptr<LogReader> log_reader, const nlohmann::json& metadata)
      : reader(std::move(log_reader)), clock(metadata), end(ReadLogEnd(metadata)) {}

  std::unique_ptr<LogReader> reader;
  LogClock clock;
  LogEnd end;
  int64_t shift_ns = 0;  // what makes its times comparable with the others'
  std::vector<LogThread> threads;
};

std::string HostOf(const nlohmann::json& metadata) {
  const auto host = metadata.find("host");
  return host != metadata.end() && host->is_string() ? host->get<std::string>() : "";
}

class LogTrace : public Trace {
 public:
  // Takes logs in any order.
  void Add(const std::string& path, std::unique_ptr<LogReader> reader) {
    ProcessInfo info;
    info.path = path;
    info.file_bytes = reader->file().bytes();
    info.metadata = ReadMetadata(*reader, &info.damage);
    reader->file().Rest();
    logs_.emplace_back(std::move(reader), *info.metadata);
    info.closed = logs_.back().end.present;
    infos_.push_back(std::move(info));
  }

  // A file among logs that is none.
  void AddUnreadable(const std::string& path, const absl::Status& status) {
    ProcessInfo info;
    info.path = path;
    struct stat file;
    if (stat(path.c_str(), &file) == 0) info.file_bytes = static_cast<uint64_t>(file.st_size);
    info.metadata = std::make_shared<nlohmann::json>(nlohmann::json::object());
    info.damage.sentences.emplace_back(status.message());
    info.damage.lost_bytes = info.file_bytes;
    info.damage.lost_calls_exact = false;
    logs_.emplace_back(nullptr, *info.metadata);
    infos_.push_back(std::move(info));
  }

  // After the last Add: brings the processes into order.
  void Arrange() {
    std::set<std::string> hosts;
    for (size_t i = 0; i < logs_.size(); ++i) {
      if (logs_[i].reader != nullptr) hosts.insert(HostOf(*infos_[i].metadata));
    }
    std::vector<size_t> order(logs_.size());
    for (size_t i = 0; i < order.size(); ++i) {
      order[i] = i;
      // CLOCK_MONOTONIC says nothing from one machine to another.
      if (hosts.size() > 1) logs_[i].shift_ns = logs_[i].clock.realtime_offset_ns();
    }
    const auto key = [this](size_t i) {
      return std::tuple(logs_[i].reader == nullptr, logs_[i].clock.origin_ns() + logs_[i].shift_ns,
                        std::string_view(infos_[i].path));
    };
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
    std::vector<ProcessLog> logs;
    std::vector<ProcessInfo> infos;
    for (const size_t i : order) {
      logs.push_back(std::move(logs_[i]));
      infos.push_back(std::move(infos_[i]));
    }
    logs_ = std::move(logs);
    infos_ = std::move(infos);
  }

  absl::StatusOr<std::vector<uint64_t>> Count() override {
    Survey();
    return counts_;
  }

  absl::Status Read(const Visitor& visitor) override;

  size_t config_count() const override { return configs_.config_count(); }
  size_t variant_count() const override { return configs_.variant_count(); }
  std::string_view identity(ConfigId config) const override { return configs_.identity(config); }
  std::string_view facets(VariantId variant) const override { return configs_.facets(variant); }
  ConfigId config_of(VariantId variant) const override { return configs_.config_of(variant); }
  const std::vector<ProcessInfo>& processes() const override { return infos_; }

 private:
  struct Stream {
    ThreadReader reader;
    uint32_t process;
    uint32_t thread;
    int64_t shift_ns;
  };
  struct Turn {
    int64_t time_ns;
    uint32_t stream;
    friend bool operator<(const Turn& a, const Turn& b) {
      return a.time_ns != b.time_ns ? a.time_ns < b.time_ns : a.stream < b.stream;
    }
    friend bool operator>(const Turn& a, const Turn& b) { return b < a; }
  };

  void Survey();
  uint8_t LevelOf(ConfigId config) const {
    const std::string_view identity = configs_.identity(config);
    return identity.empty() ? 0 : static_cast<uint8_t>(identity[0]);
  }

  ConfigTable configs_;
  std::vector<uint64_t> counts_;  // by variant
  std::vector<ProcessLog> logs_;
  std::vector<ProcessInfo> infos_;  // of each log
  bool surveyed_ = false;
};

void LogTrace::Survey() {
  if (std::exchange(surveyed_, true)) return;
  for (size_t i = 0; i < logs_.size(); ++i) {
    ProcessLog& log = logs_[i];
    if (log.reader == nullptr) continue;
    LogSurvey survey = SurveyLog(*log.reader, log.end, &configs_, &counts_);
    log.reader->file().Rest();
    ProcessInfo& info = infos_[i];
    info.calls = survey.calls;
    info.open_calls = survey.open_calls;
    info.event_bytes = survey.event_bytes;
    info.definition_bytes = survey.definition_bytes;
    info.dropped = std::move(survey.dropped);
    info.damage.lost_calls = survey.damage.lost_calls;
    info.damage.lost_calls_exact = survey.damage.lost_calls_exact;
    info.damage.lost_bytes += survey.damage.lost_bytes;
    info.damage.sentences.insert(info.damage.sentences.end(), survey.damage.sentences.begin(),
                                 survey.damage.sentences.end());
    for (const LogThread& thread : survey.threads) {
      info.threads.push_back({thread.number, thread.os_id, thread.name, thread.calls});
    }
    log.threads = std::move(survey.threads);
  }
}

absl::Status LogTrace::Read(const Visitor& visitor) {
  Survey();
  struct VariantHead {
    ConfigId config;
    uint8_t level;
  };
  std::vector<VariantHead> heads;
  const auto add_heads = [&] {
    for (auto i = static_cast<VariantId>(heads.size()); i < configs_.variant_count(); ++i) {
      heads.push_back({configs_.config_of(i), LevelOf(configs_.config_of(i))});
    }
  };
  add_heads();

  std::vector<std::unique_ptr<FrameDefinitions>> definitions;
  std::vector<Stream> streams;
  for (uint32_t i = 0; i < logs_.size(); ++i) {
    const ProcessLog& log = logs_[i];
    definitions.push_back(nullptr);
    if (log.reader == nullptr) continue;
    definitions.back() = std::make_unique<FrameDefinitions>(log.reader.get(), log.threads, &configs_);
    for (const LogThread& thread : log.threads) {
      streams.push_back({ThreadReader(&thread, &log.clock, definitions.back().get()), i,
                         static_cast<uint32_t>(thread.number), log.shift_ns});
    }
  }
  // A heap of the threads' turns, earliest on top. A thread is opened when its
  // time comes, so that only those which ran at the same time are open at once.
  std::vector<Turn> turns;
  for (uint32_t i = 0; i < streams.size(); ++i) {
    const Stream& stream = streams[i];
    if (stream.reader.state() != ThreadReader::kDone) turns.push_back({stream.reader.time_ns() + stream.shift_ns, i});
  }
  std::make_heap(turns.begin(), turns.end(), std::greater<>());

  uint64_t calls = 0;
  CallRecord record;
  while (!turns.empty()) {
    std::pop_heap(turns.begin(), turns.end(), std::greater<>());
    Turn turn = turns.back();
    turns.pop_back();
    Stream& stream = streams[turn.stream];
    ThreadReader& reader = stream.reader;
    record.process = stream.process;
    record.thread = stream.thread;
    // Mostly one thread works: it goes on until another one's turn has come.
    do {
      const ThreadReader::State state = reader.state();
      record.time_ns = reader.time_ns();
      if (state == ThreadReader::kEnter) {
        const ThreadReader::OpenCall* const parent = reader.innermost();
        record.kind = CallRecord::kEnter;
        record.variant = reader.variant();
        if (record.variant >= heads.size()) add_heads();  // the file has changed
        record.call = calls++;
        record.parent = parent == nullptr ? kNoCall : parent->call;
        record.depth = static_cast<uint32_t>(std::min<uint64_t>(reader.depth(), UINT32_MAX));
        record.duration_ns = 0;
        record.exception = {};
      } else if (state != ThreadReader::kSegment) {
        const ThreadReader::OpenCall& call = *reader.innermost();
        record.kind = state == ThreadReader::kLeave ? CallRecord::kLeave : CallRecord::kRaise;
        record.variant = call.variant;
        record.call = call.call;
        record.parent = reader.outer_call();
        record.depth = static_cast<uint32_t>(std::min<uint64_t>(reader.depth() - 1, UINT32_MAX));
        record.duration_ns = record.time_ns - call.time_ns;
        record.exception = state == ThreadReader::kRaise ? reader.exception() : std::string_view();
      }
      if (state != ThreadReader::kSegment) {
        record.config = heads[record.variant].config;
        record.level = heads[record.variant].level;
        if (absl::Status status = visitor(record); !status.ok()) return status;
      }
      reader.Advance(record.call);
      turn.time_ns = reader.time_ns() + stream.shift_ns;
    } while (reader.state() != ThreadReader::kDone && (turns.empty() || turn < turns.front()));
    if (reader.state() == ThreadReader::kDone) continue;
    turns.push_back(turn);
    std::push_heap(turns.begin(), turns.end(), std::greater<>());
  }
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

}  // namespace

absl::StatusOr<std::unique_ptr<Trace>> Trace::Open(const std::string& path) {
  auto trace = std::make_unique<LogTrace>();
  struct stat file;
  if (stat(path.c_str(), &file) != 0 || !S_ISDIR(file.st_mode)) {
    absl::StatusOr<std::unique_ptr<LogReader>> reader = LogReader::Open(path);
    if (!reader.ok()) return reader.status();
    trace->Add(path, *std::move(reader));
    trace->Arrange();
    return trace;
  }
  const std::string folder = (fs::path(path) / "log").string();
  absl::StatusOr<std::vector<std::string>> logs = ListLogs(folder);
  if (logs.ok() && logs->empty()) logs = ListLogs(path);  // the log folder itself
  if (!logs.ok()) return logs.status();
  if (logs->empty()) {
    return absl::NotFoundError(absl::StrCat(path, " holds no trace: expected logs named ", folder, "/*", kLogSuffix));
  }
  absl::Status first_error;
  bool readable = false;
  for (const std::string& log : *logs) {
    absl::StatusOr<std::unique_ptr<LogReader>> reader = LogReader::Open(log);
    if (reader.ok()) {
      readable = true;
      trace->Add(log, *std::move(reader));
      continue;
    }
    // Counting without what a newer version recorded would be wrong in silence.
    if (absl::IsUnimplemented(reader.status())) return reader.status();
    if (first_error.ok()) first_error = reader.status();
    trace->AddUnreadable(log, reader.status());
  }
  if (!readable) return first_error;
  trace->Arrange();
  return trace;
}

}  // namespace torchtrace
