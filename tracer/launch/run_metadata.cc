#include "tracer/launch/run_metadata.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "nlohmann/json.hpp"
#include "serialize/model/levels.h"

extern char** environ;
namespace torchtrace {
namespace {

using Json = nlohmann::json;

bool IsOfInterest(std::string_view name, const std::vector<const char*>& prefixes) {
  for (std::string_view prefix : prefixes) {
    if (name.substr(0, prefix.size()) == prefix) return true;
  }
  for (std::string_view prefix :
       {"TORCHTRACE_", "CUDA_", "CUBLAS_", "CUDNN_", "NCCL_", "GLOO_", "OMP_", "MKL_", "KMP_", "HIP_", "ROCR_", "XPU_",
        "TRITON_", "PYTHON", "LOCAL_", "SLURM_PROCID", "SLURM_JOB_ID", "OMPI_COMM_WORLD_"}) {
    if (name.substr(0, prefix.size()) == prefix) return true;
  }
  for (std::string_view whole : {"RANK", "WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT", "VIRTUAL_ENV",
                                 "CONDA_PREFIX", "LD_PRELOAD", "LD_LIBRARY_PATH"}) {
    if (name == whole) return true;
  }
  return false;
}

Json Environment(const std::vector<const char*>& prefixes) {
  Json environment = Json::object();
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || !IsOfInterest(text.substr(0, equals), prefixes)) continue;
    environment[std::string(text.substr(0, equals))] = std::string(text.substr(equals + 1));
  }
  return environment;
}

// Variables in which launchers pass a process its rank and the number of processes.
constexpr const char* kRankVariables[] = {
    "RANK",       "WORLD_SIZE",           "LOCAL_RANK",           "LOCAL_WORLD_SIZE",
    "GROUP_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK",
    "PMI_SIZE",   "SLURM_PROCID",         "SLURM_NTASKS",         "TORCHELASTIC_RESTART_COUNT"};

// A new one each time the machine boots; empty if the system doesn't provide it.
std::string BootId() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

}  // namespace

std::string FormatEnvironment(const std::vector<const char*>& variables) {
  return Environment(variables).dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

std::string FormatRunMetadata(const RunMetadata& metadata, const RecordingOptions& options) {
  std::error_code error;
  Json json = {
      {"torchtrace", kVersion},
      {"command", metadata.command},
      {"program", metadata.program},
      {"cwd", std::filesystem::current_path(error).string()},
      {"host", HostName()},
      {"python", {{"executable", metadata.python_executable}, {"version", metadata.python_version}}},
      {"dialect", options.dialect},
      {"levels", options.levels},
      {"include", options.include},
      {"exclude", options.exclude},
      {"include_getters", options.include_getters},
      {"outermost", options.outermost},
      {"recorded_by", metadata.recorded_by},
      {"environment", Environment(metadata.variables)},
  };
  if (!metadata.run.empty()) json["run"] = metadata.run;
  if (!metadata.follow_only.empty()) json["follow_only"] = metadata.follow_only;
  if (!metadata.api_list.empty())
    json["api_list"] = Json::parse(metadata.api_list, nullptr, /*allow_exceptions=*/false);
  if (std::string boot = BootId(); !boot.empty()) json["boot_id"] = std::move(boot);
  if (std::find(options.levels.begin(), options.levels.end(), kFrameLevel) != options.levels.end()) {
    json["frames"] = options.frames;
    if (!options.frame_include.empty()) json["frame_include"] = options.frame_include;
    if (!options.frame_exclude.empty()) json["frame_exclude"] = options.frame_exclude;
    if (options.frame_depth != 0) json["frame_depth"] = options.frame_depth;
  }
  if (options.skip != 0) json["skip"] = options.skip;
  if (options.duration_ns != 0) json["duration_ns"] = options.duration_ns;
  if (options.first != 0) json["first"] = options.first;
  if (options.sample < 1) json["sample"] = options.sample;
  if (options.max_calls != 0) json["max_calls"] = options.max_calls;
  if (!options.steps.empty()) json["steps"] = options.steps;
  if (options.max_steps != 0) json["max_steps"] = options.max_steps;
  if (options.max_size != 0) json["max_size"] = options.max_size;
  if (options.stacks != WhichCalls::kNone) {
    json["stacks"] = WhichCallsName(options.stacks);
    json["stack_format"] = options.stack_format;
  }
  if (options.outputs) json["outputs"] = true;
  if (options.ids) json["ids"] = true;
  if (options.memory) json["memory"] = true;
  if (options.int_ranges != WhichCalls::kNone) json["int_ranges"] = WhichCallsName(options.int_ranges);
  if (options.values != 0) json["values"] = options.values;
  if (options.numbers != WhichNumbers::kNone) json["numbers"] = WhichNumbersName(options.numbers);
  if (options.device_times) json["device_times"] = true;
  if (metadata.switched_off.has_value()) {
    json["self_test"] = {{"failed", *metadata.switched_off}};
    if (!metadata.switched_off->empty()) json["not_seen"] = *metadata.switched_off;
  }
  json["packages"] = Json::object();
  if (!metadata.package_version.empty()) json["packages"][options.dialect] = metadata.package_version;
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

std::string FormatRankVariables() {
  Json environment = Json::object();
  for (const char* name : kRankVariables) {
    if (const char* const value = getenv(name)) environment[name] = value;
  }
  return Json{{"environment", std::move(environment)}}.dump(-1, ' ', /*ensure_ascii=*/false,
                                                            Json::error_handler_t::replace);
}

}  // namespace torchtrace
