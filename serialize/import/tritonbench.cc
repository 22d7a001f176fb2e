#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/forms/forms.h"
#include "serialize/forms/plain_form.h"
#include "serialize/import/importer.h"
#include "serialize/import/named_sizes.h"
#include "serialize/model/config.h"
#include "serialize/model/torch_names.h"

namespace torchtrace {
namespace {

using nlohmann::json;

// Depths: 1 in the whole file, 2 in an operator's list, 3 in an item of it. Everything else is metadata.
class InputHandler : public nlohmann::json_sax<json> {
 public:
  InputHandler(std::string file, const CallSource::Visitor& visit) : file_(std::move(file)), visit_(visit) {}

  bool null() override { return Scalar(); }
  bool boolean(bool /*value*/) override { return Scalar(); }
  bool number_integer(number_integer_t value) override {
    if (!AtMember("count")) return Scalar();
    return Fail(absl::StrCat("expected a number of calls, found ", value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (!AtMember("count")) return Scalar();
    if (value > kMaxCount) return Fail(absl::StrCat("expected a number of calls, found ", value));
    count_ = value;
    return true;
  }
  bool number_float(number_float_t /*value*/, const string_t& digits) override {
    return AtMember("count") ? Fail("expected a number of calls, found " + digits) : Scalar();
  }
  bool string(string_t& value) override {
    if (AtMember("inputs")) {
      inputs_ = std::move(value);
      has_inputs_ = true;
      return true;
    }
    return Scalar();
  }
  bool binary(binary_t& /*value*/) override { return false; }

  bool start_object(std::size_t /*elements*/) override {
    ++depth_;
    if (depth_ == 2 && !in_metadata_) return ExpectedList("a map");
    if (depth_ != 3) return true;
    count_ = 1;
    has_inputs_ = false;
    ++item_;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) {
      operator_ = std::move(name);
      in_metadata_ = operator_ == "metadata";
      item_ = 0;
    } else if (depth_ == 3) {
      member_ = std::move(name);
    }
    return true;
  }
  bool end_object() override { return depth_-- != 3 || in_metadata_ || Visit(); }
  bool start_array(std::size_t /*elements*/) override {
    if (depth_ == 0) return Fail("expected an object of operators, found a list");
    if (++depth_ == 3 && !in_metadata_) return Fail("expected {count, inputs}, found a list");
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*last_token*/,
                   const nlohmann::detail::exception& error) override {
    status_ = absl::InvalidArgumentError(
        absl::StrCat(file_, " offset ", position, ": expected JSON: ", ShortMessage(error.what())));
    return false;
  }

  absl::Status status() const { return status_; }
  const OperatorInputGaps& gaps() const { return gaps_; }

 private:
  bool AtMember(std::string_view name) const { return depth_ == 3 && !in_metadata_ && member_ == name; }
  bool Scalar() {
    if (depth_ == 0) return Fail("expected an object of operators");
    if (depth_ == 1 && !in_metadata_) return ExpectedList("something else");
    if (depth_ == 2 && !in_metadata_) return Fail("expected {count, inputs}, found something else");
    if (AtMember("inputs")) return Fail("expected the inputs as a string");
    return true;
  }
  bool ExpectedList(const char* found) {
    return Fail(absl::StrCat("expected a list of {count, inputs}, found ", found));
  }

  bool Fail(const std::string& what) {
    const std::string where =
        operator_.empty() ? ""
                          : absl::StrCat(" ", QuoteText(operator_), item_ > 0 ? absl::StrCat(" item ", item_) : "");
    status_ = absl::InvalidArgumentError(absl::StrCat(file_, where, ": ", what));
    return false;
  }

  bool Visit() {
    if (!has_inputs_) return Fail("expected a member \"inputs\"");
    Config config;
    if (absl::Status s = ParseTorchBenchInputs(inputs_, &config); !s.ok()) {
      return Fail(absl::StrCat("inputs, ", std::string(s.message())));
    }
    config.api = OperatorName(operator_);
    config.level = GuessLevel(config.api);
    gaps_.numbers += ReadNamedSizes(&config) == NamedSizes::kNumbers;
    const std::string identity = EncodeConfig(config);
    if (count_ == 0) ++gaps_.synthetic;
    ImportedCall call;
    call.identity = identity;
    call.count = count_ == 0 ? 1 : count_;
    status_ = visit_(call);
    return status_.ok();
  }

  const std::string file_;
  const CallSource::Visitor& visit_;
  absl::Status status_;
  int depth_ = 0;
  std::string operator_;
  bool in_metadata_ = false;
  uint64_t item_ = 0;  // of the operator, from 1
  std::string member_;
  uint64_t count_ = 1;
  bool has_inputs_ = false;
  std::string inputs_;
  OperatorInputGaps gaps_;
};

class TritonBench : public CallSource {
 public:
  explicit TritonBench(std::unique_ptr<InputFile> file) : file_(std::move(file)) {}

  std::string format() const override { return "TritonBench operator inputs"; }
  const std::vector<ImportedProcess>& processes() const override { return processes_; }
  std::vector<std::string> notes() const override { return gaps_.Notes(file_->name(), "count 0"); }

  absl::Status Scan(const Visitor& visit) override {
    InputStream stream(file_.get());
    InputHandler handler(file_->name(), visit);
    const bool good = json::sax_parse(stream, &handler);
    if (!file_->status().ok()) return file_->status();
    gaps_ = handler.gaps();
    if (!good && handler.status().ok()) {
      return absl::InvalidArgumentError(absl::StrCat(file_->name(), ": expected an object of operators"));
    }
    if (handler.status().ok()) processes_[0].metadata["file_end"] = "whole";
    return handler.status();
  }

 private:
  const std::unique_ptr<InputFile> file_;
  std::vector<ImportedProcess> processes_ = std::vector<ImportedProcess>(1);
  OperatorInputGaps gaps_;
};

// Skips space and one character; false when another one comes.
bool Take(char c, std::string_view* text) {
  const size_t first = text->find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || (*text)[first] != c) return false;
  text->remove_prefix(first + 1);
  return true;
}

// {"NAME": [{"count" or {"NAME": [{"inputs"; metadata may come first.
bool SniffTritonBench(const FileHead& head) {
  std::string_view text = head.bytes;
  if (!Take('{', &text)) return false;
  const bool items =
      text.find("\"inputs\"") != std::string_view::npos && text.find("\"count\"") != std::string_view::npos;
  if (!Take('"', &text)) return false;
  const size_t quote = text.find('"');
  if (quote == std::string_view::npos) return false;
  if (text.substr(0, quote) == "metadata") return items;
  text.remove_prefix(quote + 1);
  if (!Take(':', &text) || !Take('[', &text)) return false;
  if (Take(']', &text)) return items;
  if (!Take('{', &text) || !Take('"', &text)) return false;
  return items || text.starts_with("count\"") || text.starts_with("inputs\"");
}

absl::StatusOr<std::unique_ptr<CallSource>> OpenTritonBench(std::unique_ptr<InputFile> file) {
  return std::make_unique<TritonBench>(std::move(file));
}

}  // namespace

const Importer kTritonBenchImporter = {"tritonbench", "TritonBench operator inputs (JSON)", SniffTritonBench,
                                       OpenTritonBench};

}  // namespace torchtrace
