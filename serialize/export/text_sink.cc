// Text: the lines of api_configs.txt, docs/TEXT.md.

#include "absl/strings/str_format.h"
#include "serialize/export/exporter.h"
#include "serialize/forms/text_form.h"
#include "serialize/model/readable_config.h"

namespace torchtrace {
namespace {

class TextSink final : public ConfigSink {
 public:
  TextSink(std::ostream* out, bool counts) : out_(out), counts_(counts) {}

  absl::Status Add(const ConfigRow& row) override {
    if (counts_) *out_ << absl::StrFormat("%7d  ", row.calls);
    *out_ << FormatConfig(ReadableConfig(row.identity)) << '\n';
    return StreamStatus(*out_);
  }

  absl::Status Finish() override { return FinishStream(out_); }

 private:
  std::ostream* const out_;
  const bool counts_;
};

}  // namespace

extern const Exporter kTextExporter;
const Exporter kTextExporter = {
    .name = "text",
    .help = "the lines of api_configs.txt",
    .suffixes = {"txt"},
    .provenance = Provenance::kWhenAsked,
    .levels = false,
    .sorted = true,
    .make_sink = [](std::ostream* out, const ExportOptions& options) -> std::unique_ptr<ConfigSink> {
      return std::make_unique<TextSink>(out, options.counts);
    },
};

}  // namespace torchtrace
