#include "dialects/paddle/api_list/paddle_api_list.h"

namespace torchtrace {
namespace {

constexpr char kList[] =
#include "dialects/paddle/api_list/paddle_api_list_yaml.inc"
    ;

constexpr char kRules[] =
#include "dialects/paddle/api_list/rules_yaml.inc"
    ;

}  // namespace

std::string_view PaddleApiList() { return kList; }

std::string_view PaddleApiRules() { return kRules; }

}  // namespace torchtrace
