#include "dialects/torch/api_list/torch_api_list.h"

namespace torchtrace {
namespace {

constexpr char kList[] =
#include "dialects/torch/api_list/torch_api_list_yaml.inc"
    ;

constexpr char kRules[] =
#include "dialects/torch/api_list/rules_yaml.inc"
    ;

}  // namespace

std::string_view TorchApiList() { return kList; }

std::string_view TorchApiRules() { return kRules; }

}  // namespace torchtrace
