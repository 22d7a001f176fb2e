#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/forms/forms.h"

namespace torchtrace {

using nlohmann::ordered_json;

namespace {

// Null for what JSON can't represent.
ordered_json NumberJson(double number) { return std::isfinite(number) ? ordered_json(number) : ordered_json(nullptr); }

ordered_json NumbersToJson(const TensorNote::Numbers& numbers) {
  ordered_json json = {{"nan", numbers.nans},
                       {"inf", numbers.positive_infinities},
                       {"-inf", numbers.negative_infinities},
                       {"zeros", numbers.zeros}};
  for (const auto& [name, number] : {std::pair("min", numbers.least), std::pair("max", numbers.most),
                                     std::pair("mean", numbers.mean), std::pair("norm", numbers.norm)}) {
    json[name] = numbers.finite == 0 ? ordered_json(nullptr) : NumberJson(number);
  }
  json["fingerprint"] = absl::StrFormat("%016x", numbers.fingerprint);
  return json;
}

}  // namespace

std::string FormatNumber(double number) { return absl::StrFormat("%.5g", number); }

std::string NumbersText(const TensorNote::Numbers& numbers, bool with_mean) {
  std::vector<std::string> parts;
  const auto add_count = [&parts](const char* what, uint64_t count) {
    if (count != 0) parts.push_back(absl::StrCat(what, " ", count));
  };
  add_count("nan", numbers.nans);
  add_count("inf", numbers.positive_infinities);
  add_count("-inf", numbers.negative_infinities);
  if (numbers.finite != 0) {
    if (with_mean) parts.push_back(absl::StrCat("mean ", FormatNumber(numbers.mean)));
    parts.push_back(absl::StrCat("min ", FormatNumber(numbers.least)));
    parts.push_back(absl::StrCat("max ", FormatNumber(numbers.most)));
  }
  return absl::StrJoin(parts, ", ");
}

void AddNote(const TensorNote& note, ordered_json* json, std::vector<std::string_view>* contents) {
  if (note.identity) {
    (*json)["tensor"] = note.identity->tensor;
    if (note.identity->storage != 0) {
      (*json)["storage"] = note.identity->storage;
      (*json)["offset"] = note.identity->offset;
    }
  }
  if (note.range) {
    (*json)["min"] = note.range->least;
    (*json)["max"] = note.range->most;
  }
  if (note.contents && contents != nullptr) {
    contents->push_back(*note.contents);
    (*json)["contents"] = note.contents->size();
  } else if (note.contents) {
    (*json)["contents"] = absl::Base64Escape(absl::string_view(note.contents->data(), note.contents->size()));
  }
  if (note.numbers) (*json)["numbers"] = NumbersToJson(*note.numbers);
}

ordered_json NotesToJson(const std::vector<TensorNote>& notes, std::vector<std::string_view>* contents) {
  ordered_json list = ordered_json::array();
  for (const TensorNote& note : notes) {
    AddNote(note, &list.emplace_back(ordered_json{{"position", note.position}}), contents);
  }
  return list;
}

}  // namespace torchtrace
