#include "tracer/launch/follow_task.h"

#include <sys/random.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "serialize/base/files.h"
#include "serialize/base/log_folder.h"
#include "serialize/base/proc_stat.h"
#include "tracer/launch/runtime_api.h"

namespace torchtrace {
namespace {

using Json = nlohmann::json;

constexpr char kTaskPrefix[] = ".follow-";
constexpr size_t kMostAncestors = 64;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

std::string FirstLine() { return absl::StrCat("torchtrace ", kVersion, " ", kRuntimeApiVersion, "\n"); }

absl::Status Damaged() { return absl::InvalidArgumentError("the task of following is damaged"); }

// Paths and globs may hold bytes that aren't UTF-8, which JSON can't.
std::string TextMember(const Json& json, const char* name) {
  const auto found = json.find(name);
  std::string text;
  if (found != json.end() && found->is_string()) absl::WebSafeBase64Unescape(found->get<std::string>(), &text);
  return text;
}

// The processes above this one, nearest first, as far as the nearest one that holds the lock of the folder `log`.
std::vector<pid_t> Ancestors(const std::string& log) {
  const std::vector<int> sharing = FolderLock::Sharing(log);
  std::vector<pid_t> ancestors;
  for (pid_t pid = getppid(); pid > 0 && ancestors.size() < kMostAncestors; pid = ParentOf(pid)) {
    ancestors.push_back(pid);
    if (absl::c_linear_search(sharing, pid)) break;
  }
  return ancestors;
}

}  // namespace

std::string FormatFollowTask(const FollowTask& task) {
  std::string text = FirstLine();
  for (const auto& [minor, library] : task.runtimes) absl::StrAppend(&text, "runtime ", minor, " ", library, "\n");
  for (const std::string& glob : task.only) absl::StrAppend(&text, "only ", glob, "\n");
  const Json json = {
      {"run", task.run},
      {"metadata", Json::parse(task.metadata_json, nullptr, /*allow_exceptions=*/false)},
      {"options", Json::parse(FormatRecordingOptions(task.ending.recording), nullptr, /*allow_exceptions=*/false)},
      {"variables", task.variables},
      {"folder", absl::WebSafeBase64Escape(task.ending.folder)},
      {"shown_name", absl::WebSafeBase64Escape(task.ending.shown_name)},
  };
  absl::StrAppend(&text, "\n", Dump(json), "\n");
  return text;
}

absl::StatusOr<FollowTask> ParseFollowTask(std::string_view text) {
  FollowTask task;
  if (!text.starts_with(FirstLine())) {
    return absl::InvalidArgumentError(
        "its runtime is of another build of torchtrace: tools/torchtrace builds it again");
  }
  const size_t lines = text.find("\n\n");
  if (lines == std::string_view::npos) return Damaged();
  const Json json = Json::parse(text.substr(lines), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("run") || !json["run"].is_string() || !json.contains("metadata") ||
      !json["metadata"].is_object() || !json.contains("options")) {
    return Damaged();
  }
  task.run = json["run"].get<std::string>();
  task.metadata_json = Dump(json["metadata"]);
  for (const Json& prefix : json.value("variables", Json::array())) {
    if (prefix.is_string()) task.variables.push_back(prefix.get<std::string>());
  }
  task.ending.folder = TextMember(json, "folder");
  task.ending.shown_name = TextMember(json, "shown_name");
  absl::StatusOr<RecordingOptions> options = ParseRecordingOptions(Dump(json["options"]));
  if (!options.ok()) return options.status();
  task.ending.recording = *std::move(options);
  if (task.run.empty() || task.ending.folder.empty()) return Damaged();
  return task;
}

std::string NewRunId() {
  unsigned char bytes[8] = {};
  // getrandom never returns fewer than so few bytes, once the machine has started.
  if (getrandom(bytes, sizeof bytes, 0) < 0) return "0";
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes), sizeof bytes});
}

std::string FollowTaskPath(const std::string& log, const std::string& run) {
  return absl::StrCat(log, "/", kTaskPrefix, run);
}

bool IsFollowFile(std::string_view name) { return name == kNotFollowedName || name.starts_with(kTaskPrefix); }

std::string FormatFollowedMetadata(const FollowTask& task, const std::vector<std::string>& command,
                                   const std::string& python_version) {
  Json json = Json::parse(task.metadata_json, nullptr, /*allow_exceptions=*/false);
  std::error_code error;
  json["command"] = command;
  json["program"] = std::vector<std::string>(command.begin() + (command.empty() ? 0 : 1), command.end());
  json["cwd"] = std::filesystem::current_path(error).string();
  json["python"] = {{"executable", command.empty() ? "" : command[0]}, {"version", python_version}};
  const std::vector<const char*> variables = [&] {
    std::vector<const char*> prefixes;
    for (const std::string& prefix : task.variables) prefixes.push_back(prefix.c_str());
    return prefixes;
  }();
  json["environment"] = Json::parse(FormatEnvironment(variables), nullptr, /*allow_exceptions=*/false);
  json["run"] = task.run;
  json["ancestors"] = Ancestors(task.ending.folder + "/log");
  // What the run's own process noted of itself.
  json.erase("not_seen");
  json.erase("self_test");
  return Dump(json);
}

}  // namespace torchtrace
