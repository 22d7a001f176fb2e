#include "serialize/import/json_stream.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace torchtrace {
namespace {

using nlohmann::json;

constexpr size_t kMaxErrorBytes = 200;

// The file's bytes one by one, and how many were consumed.
class Feed {
 public:
  explicit Feed(const JsonFile& file) : file_(file) {}

  bool AtEnd() { return at_ == end_ && !Fill(); }
  char Peek() { return AtEnd() ? '\0' : buffer_[at_]; }
  void Skip() { ++at_; }

  uint64_t consumed() const { return before_ + at_; }
  bool ended() const { return ended_; }  // the end was reached

  // The parser has processed everything up to here. It keeps what follows in memory, even white space, so that is
  // limited.
  void Mark() { mark_ = consumed(); }
  bool too_long() const { return too_long_; }
  uint64_t mark() const { return mark_; }

 private:
  bool Fill() {
    if (ended_) return false;
    before_ += end_;
    at_ = end_ = 0;
    too_long_ = ended_ = before_ - mark_ > kMaxJsonBytes;
    if (ended_) return false;
    end_ = file_.read(before_, buffer_.data(), buffer_.size());
    ended_ = end_ == 0;
    return !ended_;
  }

  const JsonFile& file_;
  std::array<char, 64 << 10> buffer_;
  size_t at_ = 0;
  size_t end_ = 0;
  uint64_t before_ = 0;  // bytes of the file before the buffer
  uint64_t mark_ = 0;
  bool too_long_ = false;
  bool ended_ = false;
};

// The input of nlohmann's parser.
class FeedIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  explicit FeedIterator(Feed* feed) : feed_(feed) {}  // null: the end
  char operator*() const { return feed_->Peek(); }
  FeedIterator& operator++() {
    feed_->Skip();
    return *this;
  }
  FeedIterator operator++(int) {
    const FeedIterator before = *this;
    feed_->Skip();
    return before;
  }
  bool operator==(const FeedIterator& other) const { return AtEnd() == other.AtEnd(); }
  bool operator!=(const FeedIterator& other) const { return !(*this == other); }

 private:
  bool AtEnd() const { return feed_ == nullptr || feed_->AtEnd(); }
  Feed* feed_;
};

// Receives the parser's events and builds documents from the requested parts.
class Splitter {
 public:
  Splitter(const std::string& name, const JsonStreamOptions& options, Feed* feed, JsonStreamVisitor* visitor)
      : name_(name), options_(options), feed_(*feed), visitor_(visitor) {}

  // nlohmann's SAX interface: false stops the parser.
  bool null() { return Scalar(nullptr); }
  bool boolean(bool value) { return Scalar(value); }
  bool number_integer(int64_t value) { return Scalar(value); }
  bool number_unsigned(uint64_t value) { return Scalar(value); }
  bool number_float(double value, const std::string&) { return Scalar(value); }
  bool string(std::string& value) { return Scalar(std::move(value)); }
  bool binary(json::binary_t&) { return false; }
  bool start_object(size_t) { return Open(json::value_t::object); }
  bool start_array(size_t) { return Open(json::value_t::array); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool key(std::string& name) {
    feed_.Mark();
    if (where_ == Where::kObject) {
      key_ = std::move(name);
    } else if (where_ == Where::kValue) {
      slot_ = &(*open_.back())[std::move(name)];
    }
    return true;
  }
  bool TooLong(uint64_t offset) {
    return Fail(offset, absl::StrCat("a value of more than ", kMaxJsonBytes >> 20, " MiB"));
  }
  bool parse_error(size_t position, const std::string&, const json::exception& error) {
    if (feed_.too_long()) return TooLong(feed_.mark());
    cut_ = feed_.ended();
    return Fail(position > 0 ? position - 1 : 0, absl::StrCat("not JSON: ", Plain(error.what())));
  }

  bool cut() const { return cut_; }
  const absl::Status& status() const { return status_; }
  JsonStreamEnd end() const { return {cut_, found_array_, elements_, feed_.consumed()}; }

 private:
  enum class Where : uint8_t {
    kFile,    // outside the top-level value
    kObject,  // in the top-level object
    kArray,   // in the array whose elements are visited
    kValue,   // in a container that is being built: an element or a member
    kSkipped  // in a member that is skipped
  };

  // "[json.exception.parse_error.101] parse error at line 1, column 3: syntax error while parsing value - invalid
  // literal; last read: 'abc'; expected ..." without the code, the place and the text that was read, which
  // may have any length.
  static std::string Plain(std::string_view what) {
    if (const size_t start = what.find("] "); start != what.npos) what.remove_prefix(start + 2);
    if (const size_t start = what.find(": "); what.starts_with("parse error") && start != what.npos) {
      what.remove_prefix(start + 2);
    }
    const size_t read = what.find("; last read: '");
    if (read == what.npos) return std::string(what.substr(0, kMaxErrorBytes));
    const size_t expected = what.rfind("'; expected ");
    return absl::StrCat(std::string(what.substr(0, read)),
                        std::string(expected != what.npos && expected > read ? what.substr(expected + 1) : ""));
  }

  // The byte just read.
  uint64_t offset() const { return feed_.consumed() > 0 ? feed_.consumed() - 1 : 0; }

  bool Fail(uint64_t offset, const std::string& text) {
    status_ = absl::InvalidArgumentError(absl::StrCat(name_, ": offset ", offset, ": ", text));
    return false;
  }
  bool Ok(absl::Status status) {
    status_ = std::move(status);
    return status_.ok();
  }

  bool IsWanted() const {
    return std::find(options_.members.begin(), options_.members.end(), key_) != options_.members.end();
  }

  bool Scalar(json value) {
    feed_.Mark();
    switch (where_) {
      case Where::kFile:
        return Fail(offset(), absl::StrCat("expected a JSON object with \"", options_.array, "\""));
      case Where::kObject:
        if (key_ == options_.array) return Fail(offset(), absl::StrCat("\"", key_, "\" must be an array"));
        return !IsWanted() || Ok(visitor_->Member(key_, value));
      case Where::kArray:
        ++elements_;
        return Ok(visitor_->Element(value, offset()));
      case Where::kValue:
        if (offset() - value_offset_ > kMaxJsonBytes) return TooLong(value_offset_);
        Append(std::move(value));
        return true;
      case Where::kSkipped:
        return true;
    }
    return false;
  }

  bool Open(json::value_t type) {
    feed_.Mark();
    switch (where_) {
      case Where::kFile:
        if (type == json::value_t::object) {
          where_ = Where::kObject;
          return true;
        }
        if (!options_.bare_array) {
          return Fail(offset(), absl::StrCat("expected a JSON object with \"", options_.array, "\""));
        }
        found_array_ = bare_ = true;
        where_ = Where::kArray;
        return true;
      case Where::kObject:
        if (key_ == options_.array) {
          if (type != json::value_t::array) {
            return Fail(offset(), absl::StrCat("\"", key_, "\" must be an array"));
          }
          found_array_ = true;
          where_ = Where::kArray;
          return true;
        }
        if (!IsWanted()) {
          where_ = Where::kSkipped;
          skipped_ = 1;
          return true;
        }
        return Begin(type);
      case Where::kArray:
        return Begin(type);
      case Where::kValue:
        if (open_.size() >= kMaxJsonDepth) {
          return Fail(offset(), absl::StrCat("containers nested more than ", kMaxJsonDepth, " deep"));
        }
        open_.push_back(Append(json(type)));
        return true;
      case Where::kSkipped:
        ++skipped_;
        return true;
    }
    return false;
  }

  bool Begin(json::value_t type) {
    outer_ = where_;
    where_ = Where::kValue;
    value_offset_ = offset();
    value_ = json(type);
    open_.assign(1, &value_);
    return true;
  }

  json* Append(json value) {
    json* const container = open_.back();
    if (container->is_array()) {
      container->push_back(std::move(value));
      return &container->back();
    }
    *slot_ = std::move(value);
    return slot_;
  }

  bool Close() {
    feed_.Mark();
    switch (where_) {
      case Where::kFile:
        return true;
      case Where::kObject:
        where_ = Where::kFile;
        return true;
      case Where::kArray:
        where_ = bare_ ? Where::kFile : Where::kObject;
        return true;
      case Where::kValue:
        open_.pop_back();
        if (!open_.empty()) return true;
        where_ = outer_;
        if (where_ == Where::kObject) return Ok(visitor_->Member(key_, value_));
        ++elements_;
        return Ok(visitor_->Element(value_, value_offset_));
      case Where::kSkipped:
        if (--skipped_ == 0) where_ = Where::kObject;
        return true;
    }
    return false;
  }

  const std::string& name_;
  const JsonStreamOptions& options_;
  Feed& feed_;
  JsonStreamVisitor* const visitor_;
  Where where_ = Where::kFile;
  Where outer_ = Where::kFile;  // what contains value_
  bool bare_ = false;
  std::string key_;  // kObject: of the member that comes next or is being read
  json value_;
  uint64_t value_offset_ = 0;
  std::vector<json*> open_;  // containers of value_ from the outermost in; the innermost is the only one that grows
  json* slot_ = nullptr;     // in the innermost object: where the next value goes
  uint64_t skipped_ = 0;     // containers open
  bool cut_ = false;
  bool found_array_ = false;
  uint64_t elements_ = 0;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<JsonStreamEnd> ReadJsonStream(const JsonFile& file, const JsonStreamOptions& options,
                                             JsonStreamVisitor* visitor) {
  Feed feed(file);
  Splitter splitter(file.name, options, &feed, visitor);
  try {
    const bool whole = json::sax_parse(FeedIterator(&feed), FeedIterator(nullptr), &splitter);
    if (!whole && !splitter.cut()) return splitter.status();
    if (absl::Status s = file.status == nullptr ? absl::OkStatus() : file.status(); !s.ok()) return s;
  } catch (const std::exception& error) {  // not expected
    return absl::InternalError(absl::StrCat(file.name, ": offset ", feed.consumed(), ": ", error.what()));
  }
  return splitter.end();
}

}  // namespace torchtrace
