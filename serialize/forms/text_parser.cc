#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/text_parts.h"
#include "serialize/model/levels.h"
#include "serialize/model/unknown_arguments.h"

namespace torchtrace {
namespace {

bool IsApiChar(char c) {
  return c > ' ' && c < 0x7f && std::string_view("()[]{}\"',=").find(c) == std::string_view::npos;
}

// If `name =` comes next, skips it and returns true.
absl::StatusOr<bool> TakeName(TextScanner* scanner, std::string* name) {
  scanner->SkipSpaces();
  const size_t begin = scanner->at();
  const bool quoted = scanner->Peek() == '"';
  if (quoted) {
    if (absl::Status s = scanner->QuotedString(name); !s.ok()) return s;
  } else {
    while (TextScanner::IsNameChar(scanner->Peek())) scanner->Skip(1);
  }
  const std::string_view word = scanner->From(begin);
  if (word.empty() || !scanner->Take('=')) {
    scanner->MoveTo(begin);
    return false;
  }
  if (!quoted) *name = word;
  return true;
}

// The arguments after the opening parenthesis.
absl::Status Arguments(TextScanner* scanner, Config* config) {
  // api_tracer writes `f(, alpha=1)` if there are no positional ones.
  const size_t begin = scanner->at();
  if (scanner->Take(',') && scanner->Take(')')) scanner->MoveTo(begin);
  scanner->SkipSpaces();
  const size_t first = scanner->at();
  if (scanner->TakeWord("...") && scanner->Take(')')) {
    config->args.push_back(UnknownArguments());
    return absl::OkStatus();
  }
  scanner->MoveTo(first);
  while (!scanner->Take(')')) {
    std::string name;
    Value value;
    absl::StatusOr<bool> named = TakeName(scanner, &name);
    if (!named.ok()) return named.status();
    const size_t value_at = scanner->at();
    if (absl::Status s = ReadTextValue(scanner, &value); !s.ok()) return s;
    if (*named) {
      config->kwargs.emplace_back(std::move(name), std::move(value));
    } else if (config->kwargs.empty()) {
      config->args.push_back(std::move(value));
    } else {
      return scanner->ExpectedAt(value_at, "a keyword argument, as all after the first one are");
    }
    if (scanner->Take(',')) continue;
    if (scanner->Take(')')) break;
    return scanner->ExpectedCommaOr(')');
  }
  return absl::OkStatus();
}

absl::Status Call(TextScanner* scanner, Config* config) {
  scanner->SkipSpaces();
  if (scanner->Peek() == '"') {
    if (absl::Status s = scanner->QuotedString(&config->api); !s.ok()) return s;
  } else {
    const size_t begin = scanner->at();
    while (IsApiChar(scanner->Peek())) scanner->Skip(1);
    config->api = scanner->From(begin);
    if (config->api.empty()) return scanner->Expected("the name of an API");
  }
  if (absl::Status s = scanner->Require('(', "\"(\" after the API's name"); !s.ok()) return s;
  if (absl::Status s = Arguments(scanner, config); !s.ok()) return s;
  config->level = GuessLevel(config->api);
  if (absl::Status s = scanner->RequireEnd(); !s.ok()) return s;
  return scanner->OtherFramework(config->api, &config->other_framework);
}

bool HasNamesAlone(const Value& dict) {
  if (dict.tag != ValueTag::kDict) return false;
  for (size_t i = 0; i < dict.items.size(); i += 2) {
    if (dict.items[i].tag != ValueTag::kString) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<Config> ParseConfigText(std::string_view line) {
  TextScanner scanner(line, TextDialect::kText);
  Config config;
  if (absl::Status s = Call(&scanner, &config); !s.ok()) return s;
  return config;
}

absl::StatusOr<Value> ParseValueText(std::string_view text) {
  TextScanner scanner(text, TextDialect::kText);
  Value value;
  if (absl::Status s = ReadTextValue(&scanner, &value); !s.ok()) return s;
  if (absl::Status s = scanner.RequireEnd(); !s.ok()) return s;
  return value;
}

absl::Status ParseTorchBenchInputs(std::string_view text, Config* config) {
  TextScanner scanner(text, TextDialect::kPython);
  if (absl::Status s = scanner.Require('(', "\"((\", the arguments as Python writes (args, kwargs)"); !s.ok()) return s;
  Value args;
  scanner.SkipSpaces();
  const size_t args_at = scanner.at();
  if (absl::Status s = ReadTextValue(&scanner, &args); !s.ok()) return s;
  if (args.tag != ValueTag::kTuple && args.tag != ValueTag::kList) {
    return scanner.ExpectedAt(args_at, "a tuple of arguments");
  }
  if (absl::Status s = scanner.Require(',', "\",\" between args and kwargs"); !s.ok()) return s;
  Value kwargs;
  scanner.SkipSpaces();
  const size_t kwargs_at = scanner.at();
  if (absl::Status s = ReadTextValue(&scanner, &kwargs); !s.ok()) return s;
  if (!HasNamesAlone(kwargs)) return scanner.ExpectedAt(kwargs_at, "a dict of keyword arguments");
  scanner.Take(',');
  if (absl::Status s = scanner.Require(')', "\")\""); !s.ok()) return s;
  config->args = std::move(args.items);
  for (size_t i = 0; i + 1 < kwargs.items.size(); i += 2) {
    config->kwargs.emplace_back(std::move(kwargs.items[i].text), std::move(kwargs.items[i + 1]));
  }
  return scanner.RequireEnd();
}

int GuessLevel(std::string_view api) {
  if (api.find("::") != std::string_view::npos) return kDispatchLevel;
  return FrameworkOfApi(api) == kFrameworks[0] ? kFunctionLevel : kSetattrLevel;
}

}  // namespace torchtrace
