#include <errno.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "replay/replay.h"
#include "serialize/base/files.h"
#include "serialize/forms/forms.h"

namespace torchtrace {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr char kConditions[] = "torchtrace_replay";
constexpr int kMostLevel = 4;

// Reads a line without the line break. False: there is no complete line.
bool ReadLine(std::FILE* file, std::string* line) {
  line->clear();
  char block[4096];
  while (std::fgets(block, sizeof block, file) != nullptr) {
    line->append(block);
    if (line->ends_with('\n')) {
      line->pop_back();
      return true;
    }
  }
  return false;
}

std::string ToLine(const ReplayResult& result) {
  ordered_json line = {{"key", result.key},         {"config", result.config},     {"level", result.level},
                       {"result", result.result},   {"recorded", result.recorded}, {"reason", result.reason},
                       {"seconds", result.seconds}, {"differs", result.differs}};
  if (result.call != ReplayResult::kNoCall) line["call"] = result.call;
  return DumpJson(line) + "\n";
}

// False: the line is not a result.
bool FromLine(const std::string& line, ReplayResult* result) {
  const json said = json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto text = [&said](const char* name, std::string* to) {
    const auto at = said.find(name);
    if (at == said.end() || !at->is_string()) return false;
    *to = at->get<std::string>();
    return true;
  };
  if (!said.is_object() || !text("key", &result->key) || !text("config", &result->config) ||
      !text("result", &result->result) || !text("recorded", &result->recorded) || !text("reason", &result->reason)) {
    return false;
  }
  if (std::ranges::find(kReplayResults, result->result) == std::end(kReplayResults)) return false;
  const auto level = said.find("level"), seconds = said.find("seconds"), differs = said.find("differs");
  if (level == said.end() || !level->is_number_unsigned() || *level > kMostLevel || seconds == said.end() ||
      !seconds->is_number() || differs == said.end() || !differs->is_boolean()) {
    return false;
  }
  result->level = level->get<int>();
  result->seconds = seconds->get<double>();
  result->differs = differs->get<bool>();
  const auto call = said.find("call");
  result->call = call != said.end() && call->is_number_unsigned() ? call->get<uint64_t>() : ReplayResult::kNoCall;
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ResultStore>> ResultStore::Open(const std::string& path, const std::string& conditions) {
  std::FILE* file = path.empty() ? OpenNamelessFile() : std::fopen(path.c_str(), "r+e");
  if (file == nullptr && errno == ENOENT && !path.empty()) file = std::fopen(path.c_str(), "w+e");
  const std::string name = path.empty() ? "a temporary file" : path;
  if (file == nullptr) return FileError(absl::StrCat("cannot open ", name), errno);
  std::unique_ptr<ResultStore> store(new ResultStore(file));
  struct stat status;
  if (fstat(fileno(file), &status) != 0) return FileError(absl::StrCat("cannot read ", name), errno);
  if (!S_ISREG(status.st_mode)) return absl::InvalidArgumentError(absl::StrCat(name, " is not a regular file"));
  if (!path.empty() && flock(fileno(file), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return absl::AlreadyExistsError(absl::StrCat(name, " is in use by another replay"));
  }
  const std::string opening = DumpJson(ordered_json{{kConditions, conditions}});
  std::string line;
  long end = 0;
  if (ReadLine(file, &line)) {
    const json first = json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto made = first.is_object() ? first.find(kConditions) : first.end();
    if (made == first.end() || !made->is_string()) {
      return absl::InvalidArgumentError(absl::StrCat(name, " holds no results of a replay"));
    }
    if (made->get<std::string>() != conditions) {
      return absl::InvalidArgumentError(absl::StrCat(name, " holds results of another replay: of ",
                                                     made->get<std::string>(), "; this one is of ", conditions));
    }
    end = std::ftell(file);
    ReplayResult result;
    while (ReadLine(file, &line)) {
      if (FromLine(line, &result)) {
        store->earlier_[FingerprintOf(result.key)] = end;
      } else {
        ++store->damaged_;
      }
      end = std::ftell(file);
    }
  } else if (!opening.starts_with(line)) {
    return absl::InvalidArgumentError(absl::StrCat(name, " holds no results of a replay"));
  }
  if (ftruncate(fileno(file), end) != 0 || std::fseek(file, end, SEEK_SET) != 0) {
    return FileError(absl::StrCat("cannot write to ", name), errno);
  }
  if (end == 0) {
    if (std::fputs((opening + "\n").c_str(), file) < 0 || std::fflush(file) != 0) {
      return FileError(absl::StrCat("cannot write to ", name), errno);
    }
  }
  return store;
}

ResultStore::~ResultStore() { std::fclose(file_); }

bool ResultStore::Reuse(const std::string& key) {
  const auto at = earlier_.find(FingerprintOf(key));
  if (at == earlier_.end()) return false;
  offsets_.push_back(at->second);
  ++reused_;
  return true;
}

uint64_t ResultStore::Reserve() {
  offsets_.push_back(kNothing);
  return offsets_.size() - 1;
}

absl::Status ResultStore::Add(const ReplayResult& result, uint64_t place) {
  offsets_[place] = std::ftell(file_);
  if (std::fputs(ToLine(result).c_str(), file_) < 0 || std::fflush(file_) != 0) {
    return FileError("cannot keep a result", errno);
  }
  return absl::OkStatus();
}

absl::Status ResultStore::ForEach(const std::function<absl::Status(const ReplayResult&)>& visit) const {
  std::string line;
  ReplayResult result;
  for (const long offset : offsets_) {
    if (offset == kNothing) continue;
    if (std::fseek(file_, offset, SEEK_SET) != 0 || !ReadLine(file_, &line) || !FromLine(line, &result)) {
      return absl::DataLossError("a result that was kept can't be read back");
    }
    if (absl::Status s = visit(result); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace torchtrace
