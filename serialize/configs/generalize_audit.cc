#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/base/packed_name.h"
#include "serialize/configs/family.h"
#include "serialize/configs/generalize.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

std::string FamilyText(const DedupConfig& config) {
  const absl::StatusOr<Config> parsed = ParseConfig(config.identity);
  return parsed.ok() ? FormatFamily(*parsed) : config.line;
}

std::string CsvCell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

absl::StatusOr<AuditFormat> AuditFormatOf(std::string_view file_name) {
  const std::string name = absl::AsciiStrToLower(std::string(UnpackedName(file_name)));
  if (name.ends_with(".json")) return AuditFormat::kJson;
  if (name.ends_with(".jsonl")) return AuditFormat::kJsonl;
  if (name.ends_with(".csv")) return AuditFormat::kCsv;
  return absl::InvalidArgumentError(absl::StrCat("'", std::string(file_name),
                                                 "' has no known suffix: expected .json, .jsonl, "
                                                 ".csv"));
}

AuditWriter::AuditWriter(AuditFormat format, const std::vector<DedupConfig>* configs, std::ostream* out)
    : format_(format), configs_(configs), out_(out) {
  if (format_ == AuditFormat::kCsv) {
    *out_ << "config,level,calls,family,kept,because,covers,covered_by,shares,covered_in,uncovered\n";
  }
}

absl::Status AuditWriter::Add(const GeneralizeEntry& entry) {
  if (format_ == AuditFormat::kCsv) {
    AddCsv(entry);
  } else {
    if (format_ == AuditFormat::kJson) *out_ << (entries_ == 0 ? "{\"configs\": [\n" : ",\n");
    AddJson(entry);
    if (format_ == AuditFormat::kJsonl) *out_ << '\n';
  }
  ++entries_;
  return StreamStatus();
}

void AuditWriter::AddJson(const GeneralizeEntry& entry) {
  const DedupConfig& config = (*configs_)[entry.config];
  const int level = ReadConfigHead(config.identity).level;
  ordered_json json = {{"config", config.line}};
  if (level != kAnyLevel) json["level"] = level;
  json["calls"] = config.calls;
  json["family"] = FamilyText(config);
  json["kept"] = entry.kept;
  if (entry.kept) {
    json["because"] = entry.because;
    ordered_json covers = ordered_json::array();
    for (const size_t covered : entry.covers) covers.push_back(Line(covered));
    json["covers"] = std::move(covers);
  } else {
    json["covered_by"] = Line(entry.covered_by);
    json["shares"] = entry.shares;
    ordered_json covered_in = ordered_json::object();
    for (const auto& [feature, by] : entry.covered_in) covered_in[feature] = Line(by);
    json["covered_in"] = std::move(covered_in);
    if (!entry.uncovered.empty()) json["uncovered"] = entry.uncovered;
  }
  *out_ << DumpJson(json);
}

void AuditWriter::AddCsv(const GeneralizeEntry& entry) {
  const DedupConfig& config = (*configs_)[entry.config];
  const int level = ReadConfigHead(config.identity).level;
  const auto joined = [](const std::vector<std::string>& features) { return absl::StrJoin(features, "; "); };
  const std::string covered_in =
      absl::StrJoin(entry.covered_in, "; ", [this](std::string* out, const std::pair<std::string, size_t>& feature) {
        absl::StrAppend(out, feature.first, " in ", Line(feature.second));
      });
  const std::vector<std::string> cells = {
      config.line,
      level == kAnyLevel ? "" : std::to_string(level),
      std::to_string(config.calls),
      FamilyText(config),
      entry.kept ? "true" : "false",
      joined(entry.because),
      entry.kept ? std::to_string(entry.covers.size()) : "",
      entry.kept ? "" : Line(entry.covered_by),
      joined(entry.shares),
      covered_in,
      joined(entry.uncovered),
  };
  *out_ << absl::StrJoin(cells, ",", [](std::string* out, const std::string& cell) { out->append(CsvCell(cell)); })
        << '\n';
}

absl::Status AuditWriter::Finish(const GeneralizeOptions& options, const GeneralizeResult& result) {
  if (format_ == AuditFormat::kJson) {
    if (entries_ == 0) *out_ << "{\"configs\": [";
    const auto kept = static_cast<uint64_t>(std::count(result.kept.begin(), result.kept.end(), true));
    *out_ << "\n],\n\"seed\": " << options.seed << ",\n\"budget\": " << options.budget
          << ",\n\"families\": " << result.families << ",\n\"kept\": " << kept
          << ",\n\"dropped\": " << result.kept.size() - kept << ",\n\"families_cut\": " << result.families_cut
          << ",\n\"features_lost\": " << result.features_lost << "\n}\n";
  }
  out_->flush();
  return StreamStatus();
}

absl::Status AuditWriter::StreamStatus() const {
  return out_->good() ? absl::OkStatus() : absl::AbortedError("cannot write the audit");
}

}  // namespace torchtrace
