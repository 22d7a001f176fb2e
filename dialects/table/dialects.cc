#include "dialects/table/dialects.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "serialize/base/matching.h"
#include "serialize/model/levels.h"
#include "tracer/launch/find_python.h"

namespace torchtrace {
namespace {

constexpr char kTorchApis[] =
#include "dialects/torch/api_list/torch_api_list_yaml.inc"
    ;
constexpr char kTorchRules[] =
#include "dialects/torch/api_list/rules_yaml.inc"
    ;
constexpr char kTorchNames[] =
#include "dialects/torch/api_list/torch_names_txt.inc"
    ;
constexpr char kPaddleApis[] =
#include "dialects/paddle/api_list/paddle_api_list_yaml.inc"
    ;
constexpr char kPaddleRules[] =
#include "dialects/paddle/api_list/rules_yaml.inc"
    ;
constexpr char kPaddleNames[] =
#include "dialects/paddle/api_list/paddle_names_txt.inc"
    ;

}  // namespace

std::span<const DialectInfo> AllDialects() {
  static const auto* const dialects = new std::vector<DialectInfo>{
      {.name = "torch",
       .title = "PyTorch",
       .distributions = {"torch"},
       .default_levels = {kFunctionLevel},
       .variables = {"TORCH", "PYTORCH_", "ATEN_"},
       .api_list = kTorchApis,
       .api_rules = kTorchRules,
       .api_names = kTorchNames},
      {.name = "paddle",
       .title = "PaddlePaddle",
       .distributions = {"paddlepaddle", "paddlepaddle-gpu"},
       .default_levels = {kSetattrLevel},
       .variables = {"PADDLE_", "FLAGS_"},
       .api_list = kPaddleApis,
       .api_rules = kPaddleRules,
       .api_names = kPaddleNames},
  };
  return *dialects;
}

const DialectInfo* FindDialectInfo(std::string_view name) {
  for (const DialectInfo& dialect : AllDialects()) {
    if (dialect.name == name) return &dialect;
  }
  return nullptr;
}

const DialectInfo& DialectInfoOr(std::string_view name) {
  const DialectInfo* const found = FindDialectInfo(name);
  return found == nullptr ? AllDialects().front() : *found;
}

std::vector<std::string> DialectNames() {
  std::vector<std::string> names;
  for (const DialectInfo& dialect : AllDialects()) names.emplace_back(dialect.name);
  return names;
}

std::string DescribeDialects() { return absl::StrJoin(DialectNames(), ", "); }

absl::Status CheckDialectName(const std::string& name) {
  if (FindDialectInfo(name) != nullptr || name.find(':') != std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("unknown dialect '", name, "': this build knows ", DescribeDialects(),
                                                 DidYouMean(name, DialectNames())));
}

absl::StatusOr<ApiList> DefaultApiList(const DialectInfo& dialect, const std::string& version) {
  return ParseApiList(dialect.api_list, absl::StrCat(dialect.name, "_api_list.yaml"), version);
}

std::vector<std::string_view> ApiNameTables() {
  std::vector<std::string_view> tables;
  for (const DialectInfo& dialect : AllDialects()) tables.push_back(dialect.api_names);
  return tables;
}

const ApiNames& KnownApiNames() {
  static const auto* const names = new ApiNames(ApiNameTables());
  return *names;
}

std::string InstalledVersion(const DialectInfo& dialect, const std::vector<std::string>& folders) {
  for (const char* const distribution : dialect.distributions) {
    if (std::string version = PackageVersion(distribution, folders); !version.empty()) return version;
  }
  return "";
}

}  // namespace torchtrace
