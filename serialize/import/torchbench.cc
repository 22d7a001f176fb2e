#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/plain_form.h"
#include "serialize/import/importer.h"
#include "serialize/import/named_sizes.h"
#include "serialize/model/config.h"
#include "serialize/model/torch_names.h"

namespace torchtrace {
namespace {

constexpr std::string_view kHeader = "Operator: ";
constexpr std::string_view kCount = "cnt: ";

class OperatorInputs : public CallSource {
 public:
  explicit OperatorInputs(std::unique_ptr<InputFile> file) : file_(std::move(file)) {}

  std::string format() const override { return "TorchBench operator inputs"; }
  const std::vector<ImportedProcess>& processes() const override { return processes_; }
  std::vector<std::string> notes() const override { return gaps_.Notes(file_->name(), "cnt: 0"); }

  absl::Status Scan(const Visitor& visit) override {
    LineReader lines(file_.get());
    std::string_view line;
    std::string api;
    gaps_ = {};
    while (true) {
      const absl::StatusOr<bool> more = lines.Next(&line);
      if (!more.ok()) return more.status();
      if (!*more) return absl::OkStatus();
      const absl::Status status = ScanLine(line, &api, visit);
      if (absl::IsInvalidArgument(status) && std::string(status.message()).starts_with("column ")) {
        return absl::InvalidArgumentError(
            absl::StrCat(file_->name(), " line ", lines.number(), ", ", std::string(status.message())));
      }
      if (!status.ok()) return status;
    }
  }

 private:
  static absl::Status Expected(size_t at, const char* what) {
    return absl::InvalidArgumentError(absl::StrCat("column ", at + 1, ": expected ", what));
  }

  absl::Status ScanLine(std::string_view line, std::string* api, const Visitor& visit) {
    while (line.ends_with(' ')) line.remove_suffix(1);
    if (line.empty()) return absl::OkStatus();
    if (line.starts_with(kHeader)) {
      *api = OperatorName(line.substr(kHeader.size()));
      return api->empty() ? Expected(kHeader.size(), "an operator's name") : absl::OkStatus();
    }
    if (!line.starts_with(kCount)) return Expected(0, "\"Operator: \" or \"cnt: \"");
    if (api->empty()) return Expected(0, "\"Operator: \" before the first \"cnt: \"");
    uint64_t count = 0;
    const char* const begin = line.data() + kCount.size();
    const auto [end, error] = std::from_chars(begin, line.data() + line.size(), count);
    const size_t behind = static_cast<size_t>(end - line.data());
    if (error != std::errc() || count > kMaxCount) return Expected(kCount.size(), "a number of calls");
    if (!line.substr(behind).starts_with(',')) return Expected(behind, "\",\" after the number of calls");
    Config config;
    // Padded, so that errors have the columns of the whole line.
    const std::string inputs = std::string(behind + 1, ' ').append(line.substr(behind + 1));
    if (absl::Status s = ParseTorchBenchInputs(inputs, &config); !s.ok()) return s;
    config.api = *api;
    config.level = GuessLevel(config.api);
    gaps_.numbers += ReadNamedSizes(&config) == NamedSizes::kNumbers;
    const std::string identity = EncodeConfig(config);
    if (count == 0) ++gaps_.synthetic;
    ImportedCall call;
    call.identity = identity;
    call.count = count == 0 ? 1 : count;
    return visit(call);
  }

  const std::unique_ptr<InputFile> file_;
  const std::vector<ImportedProcess> processes_{1};
  OperatorInputGaps gaps_;
};

bool SniffTorchBench(const FileHead& head) {
  std::string_view text = head.bytes;
  const size_t first = text.find_first_not_of("\r\n");
  return first != std::string_view::npos && text.substr(first).starts_with(kHeader);
}

absl::StatusOr<std::unique_ptr<CallSource>> OpenTorchBench(std::unique_ptr<InputFile> file) {
  return std::make_unique<OperatorInputs>(std::move(file));
}

}  // namespace

const Importer kTorchBenchImporter = {"torchbench", "TorchBench operator inputs (Operator: ...)", SniffTorchBench,
                                      OpenTorchBench};

}  // namespace torchtrace
