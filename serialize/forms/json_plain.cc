#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/forms/forms.h"
#include "serialize/forms/plain_form.h"

namespace torchtrace {
namespace {

using nlohmann::json;

// Receives nlohmann's events. Returning false ends the reading.
class Handler : public nlohmann::json_sax<json> {
 public:
  bool null() override { return Add(Plain()); }
  bool boolean(bool value) override {
    Plain plain;
    plain.kind = Plain::kBool;
    plain.boolean = value;
    return Add(std::move(plain));
  }
  bool number_integer(number_integer_t value) override {
    Plain plain;
    plain.kind = Plain::kInt;
    plain.integer = value;
    return Add(std::move(plain));
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= INT64_MAX) return number_integer(static_cast<int64_t>(value));
    Plain plain;
    plain.kind = Plain::kBigInt;
    plain.text = std::to_string(value);
    return Add(std::move(plain));
  }
  bool number_float(number_float_t value, const string_t& digits) override {
    Plain plain;
    plain.kind = Plain::kFloat;
    plain.real = value;
    // The reader reports an integer beyond 64 bits as a float.
    if (digits.find_first_not_of("-0123456789") == string_t::npos && !digits.empty()) {
      plain.kind = Plain::kBigInt;
      plain.text = digits;
    }
    return Add(std::move(plain));
  }
  bool string(string_t& value) override {
    Plain plain;
    plain.kind = Plain::kString;
    plain.text = std::move(value);
    return Add(std::move(plain));
  }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*elements*/) override { return Begin(Plain::kMap); }
  bool key(string_t& name) override {
    builder_.Key(std::move(name));
    return true;
  }
  bool end_object() override {
    builder_.End();
    return true;
  }
  bool start_array(std::size_t /*elements*/) override { return Begin(Plain::kList); }
  bool end_array() override {
    builder_.End();
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*last_token*/,
                   const nlohmann::detail::exception& error) override {
    error_ = absl::StrCat("offset ", position, ": expected JSON: ", ShortMessage(error.what()));
    return false;
  }

  const std::string& error() const { return error_; }
  Plain TakeResult() { return builder_.TakeResult(); }

 private:
  bool Add(Plain plain) {
    builder_.Add(std::move(plain));
    return true;
  }
  bool Begin(Plain::Kind kind) {
    if (builder_.Begin(kind)) return true;
    error_ = absl::StrCat("expected at most ", kMaxPlainDepth, " levels of nesting");
    return false;
  }

  PlainBuilder builder_;
  std::string error_;
};

}  // namespace

std::string ShortMessage(const std::string& what) {
  // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while ..."
  const size_t at = what.find(": ");
  std::string message = at == std::string::npos ? what : what.substr(at + 2);
  std::replace_if(message.begin(), message.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return message;
}

absl::StatusOr<Plain> ParseJsonText(std::string_view text) {
  Handler handler;
  if (!json::sax_parse(text.begin(), text.end(), &handler)) return absl::InvalidArgumentError(handler.error());
  return handler.TakeResult();
}

}  // namespace torchtrace
