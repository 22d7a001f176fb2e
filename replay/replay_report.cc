#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "replay/replay.h"
#include "serialize/base/files.h"
#include "serialize/base/text.h"
#include "serialize/forms/forms.h"
#include "serialize/model/levels.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

// Of reasons for which configs were skipped that the text shows, and that are counted at all: a trace may name any
// number of them.
constexpr size_t kShownReasons = 30, kMostReasons = 10'000;

std::string Recorded(const ReplayResult& result) {
  return result.recorded.empty() ? "returned" : absl::StrCat("raised ", result.recorded);
}

// The outcome in words.
std::string Happened(const ReplayResult& result) {
  if (result.result == "ok") return result.reason.empty() ? "returned" : absl::StrCat("returned, ", result.reason);
  return result.reason.empty() ? result.result : absl::StrCat(result.result, ": ", result.reason);
}

class Writer {
 public:
  virtual ~Writer() = default;
  virtual void Begin(const ReplaySummary&) {}
  virtual void Add(const ReplayResult& result) = 0;
  virtual void End(const ReplaySummary&) {}
};

std::string Count(uint64_t count, const char* what) { return absl::StrCat(count, " ", what, count == 1 ? "" : "s"); }

// `120 configs: 3 differ`, and the counts of all results.
std::string SummaryLine(const ReplaySummary& summary, const char* what) {
  std::string line =
      absl::StrCat(Count(summary.configs, what), ": ", summary.differ, summary.differ == 1 ? " differs" : " differ");
  for (const char* const name : kReplayResults) {
    const auto at = summary.results.find(name);
    if (at == summary.results.end()) continue;
    absl::StrAppend(&line, ", ", at->second, " ", name);
    if (at->first == "raised" && summary.raised_as_recorded > 0) {
      absl::StrAppend(&line, " (", summary.raised_as_recorded, " as recorded)");
    }
  }
  return line;
}

class TextWriter final : public Writer {
 public:
  TextWriter(const ReplayReportOptions& options, std::ostream* out) : options_(options), out_(*out) {}
  void Add(const ReplayResult& result) override {
    if (result.result == "skipped" && !options_.all) {
      const bool counted = skipped_.size() < kMostReasons || skipped_.contains(result.reason);
      ++(counted ? skipped_[result.reason] : other_);
      return;
    }
    if (!result.differs && !options_.all) return;
    if (result.call != ReplayResult::kNoCall) out_ << result.call << "  ";
    out_ << result.config << "\n    " << (result.differs ? "differs: " : "") << PlainLine(Happened(result));
    if (result.differs) out_ << " (recorded: " << PlainLine(Recorded(result)) << ", level " << result.level << ")";
    out_ << "\n";
  }
  void End(const ReplaySummary& summary) override {
    std::vector<std::pair<std::string, uint64_t>> reasons(skipped_.begin(), skipped_.end());
    std::stable_sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    for (; reasons.size() > kShownReasons; reasons.pop_back()) other_ += reasons.back().second;
    if (!reasons.empty()) {
      out_ << "skipped:\n";
      for (const auto& [reason, count] : reasons) out_ << absl::StrFormat("%7d  %s\n", count, PlainLine(reason));
      if (other_ > 0) out_ << absl::StrFormat("%7d  for other reasons (--all shows them)\n", other_);
    }
    if (options_.sequence == nullptr) {
      out_ << SummaryLine(summary, "config") << "\n";
      return;
    }
    const SequenceFacts& facts = *options_.sequence;
    out_ << SummaryLine(summary, "call") << "\n" << Count(facts.made, "tensor") << " made";
    if (facts.filled > 0) out_ << ", " << facts.filled << " given recorded contents";
    out_ << ", " << facts.compared << " compared with recorded contents";
    if (facts.compared > 0) out_ << ": " << facts.equal << " the same bits";
    out_ << "\n";
  }

 private:
  const ReplayReportOptions& options_;
  std::ostream& out_;
  std::map<std::string, uint64_t> skipped_;
  uint64_t other_ = 0;
};

class JsonWriter final : public Writer {
 public:
  JsonWriter(const ReplayReportOptions& options, std::ostream* out) : options_(options), out_(*out) {}
  void Begin(const ReplaySummary& summary) override {
    const char* const what = options_.sequence == nullptr ? "configs" : "calls";
    ordered_json json = {{what, summary.configs}, {"differ", summary.differ}};
    for (const char* const name : kReplayResults) {
      const auto at = summary.results.find(name);
      json[name] = at == summary.results.end() ? 0 : at->second;
    }
    json["raised_as_recorded"] = summary.raised_as_recorded;
    json["device"] = options_.device.empty() ? ordered_json(nullptr) : ordered_json(options_.device);
    json["seed"] = options_.seed;
    if (const SequenceFacts* const facts = options_.sequence) {
      json["sequence"] = {{"level", facts->level},           {"tensors_made", facts->made},
                          {"tensors_filled", facts->filled}, {"tensors_compared", facts->compared},
                          {"tensors_equal", facts->equal},   {"restarts", facts->restarts()},
                          {"stopped", facts->stopped}};
    }
    out_ << "{\"summary\": " << DumpJson(json) << ",\n\"" << what << "\": [";
  }
  void Add(const ReplayResult& result) override {
    ordered_json row = ordered_json::object();
    if (result.call != ReplayResult::kNoCall) row["call"] = result.call;
    row["config"] = result.config;
    row["level"] = result.level;
    row["result"] = result.result;
    row["differs"] = result.differs;
    row["recorded"] = result.recorded.empty() ? ordered_json(nullptr) : ordered_json(result.recorded);
    row["reason"] = result.reason.empty() ? ordered_json(nullptr) : ordered_json(result.reason);
    row["seconds"] = result.seconds < 0 ? ordered_json(nullptr) : ordered_json(result.seconds);
    out_ << (first_ ? "\n" : ",\n") << DumpJson(row);
    first_ = false;
  }
  void End(const ReplaySummary&) override { out_ << "\n]}\n"; }

 private:
  const ReplayReportOptions& options_;
  std::ostream& out_;
  bool first_ = true;
};

std::string Seconds(const ReplayResult& result) {
  return result.seconds < 0 ? std::string() : absl::StrFormat("%.6f", result.seconds);
}

class CsvWriter final : public Writer {
 public:
  CsvWriter(const ReplayReportOptions& options, std::ostream* out) : options_(options), out_(*out) {}
  void Begin(const ReplaySummary&) override {
    out_ << (options_.sequence == nullptr ? "" : "call,") << "config,level,result,differs,recorded,reason,seconds\n";
  }
  void Add(const ReplayResult& result) override {
    if (options_.sequence != nullptr) out_ << result.call << ',';
    out_ << CsvCell(result.config) << ',' << result.level << ',' << result.result << ','
         << (result.differs ? "true" : "false") << ',' << CsvCell(result.recorded) << ',' << CsvCell(result.reason)
         << ',' << Seconds(result) << '\n';
  }

 private:
  const ReplayReportOptions& options_;
  std::ostream& out_;
};

// Text for an XML 1.0 attribute.
std::string Xml(std::string_view text) {
  return absl::StrReplaceAll(PlainLine(text),
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&apos;"}});
}

class JunitWriter final : public Writer {
 public:
  explicit JunitWriter(std::ostream* out) : out_(*out) {}
  void Begin(const ReplaySummary& summary) override {
    const auto count = [&summary](const char* name) {
      const auto at = summary.results.find(name);
      return at == summary.results.end() ? uint64_t{0} : at->second;
    };
    const uint64_t errors = count("crashed") + count("timeout");
    out_ << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
         << absl::StrFormat(
                "<testsuite name=\"torchtrace replay\" tests=\"%d\" failures=\"%d\" errors=\"%d\" skipped=\"%d\">\n",
                summary.configs, summary.differ - std::min(errors, summary.differ), errors, count("skipped"));
  }
  void Add(const ReplayResult& result) override {
    const std::string api = result.config.substr(0, result.config.find('('));
    const std::string number = result.call == ReplayResult::kNoCall ? "" : absl::StrCat(result.call, " ");
    out_ << "<testcase classname=\"level" << result.level << "." << Xml(api) << "\" name=\"" << number
         << Xml(result.config) << "\" time=\"" << (result.seconds < 0 ? "0" : Seconds(result)) << "\"";
    const char* const element = result.result == "skipped"                                 ? "skipped"
                                : !result.differs                                          ? nullptr
                                : result.result == "crashed" || result.result == "timeout" ? "error"
                                                                                           : "failure";
    if (element == nullptr) {
      out_ << "/>\n";
    } else {
      out_ << "><" << element << " message=\"" << Xml(Happened(result)) << "\"/></testcase>\n";
    }
  }
  void End(const ReplaySummary&) override { out_ << "</testsuite>\n</testsuites>\n"; }

 private:
  std::ostream& out_;
};

std::unique_ptr<Writer> MakeWriter(const ReplayReportOptions& options, std::ostream* out) {
  switch (options.format) {
    case ReplayFormat::kText:
      return std::make_unique<TextWriter>(options, out);
    case ReplayFormat::kJson:
      return std::make_unique<JsonWriter>(options, out);
    case ReplayFormat::kCsv:
      return std::make_unique<CsvWriter>(options, out);
    case ReplayFormat::kJunit:
      break;
  }
  return std::make_unique<JunitWriter>(out);
}

}  // namespace

const Choices<ReplayFormat>& ReplayFormats() {
  static const Choices<ReplayFormat> formats("unknown format", {{"text", ReplayFormat::kText},
                                                                {"json", ReplayFormat::kJson},
                                                                {"csv", ReplayFormat::kCsv},
                                                                {"junit", ReplayFormat::kJunit}});
  return formats;
}

absl::Status WriteReplayReport(const ResultStore& results, const ReplayReportOptions& options, std::ostream* out,
                               ReplaySummary* summary) {
  *summary = {};
  const absl::Status counted = results.ForEach([summary](const ReplayResult& result) {
    ++summary->results[result.result];
    ++summary->configs;
    summary->differ += result.differs ? 1 : 0;
    summary->raised_as_recorded += result.result == "raised" && !result.differs ? 1 : 0;
    return absl::OkStatus();
  });
  if (!counted.ok()) return counted;
  const std::unique_ptr<Writer> writer = MakeWriter(options, out);
  writer->Begin(*summary);
  const absl::Status written = results.ForEach([&](const ReplayResult& result) {
    writer->Add(result);
    return StreamStatus(*out);
  });
  if (!written.ok()) return written;
  writer->End(*summary);
  out->flush();
  return StreamStatus(*out);
}

}  // namespace torchtrace
