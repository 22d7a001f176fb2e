#include "serialize/report/page/report_page.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "serialize/base/text.h"
#include "zlib.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kPageText =
#include "serialize/report/page/report_html.inc"
    ;
constexpr std::string_view kDataMark = "<!--@DATA@-->";

constexpr size_t kMostTextBytes = 8192;
// Beyond so many rows, numbers have the three digits that the page shows.
constexpr size_t kManyRows = 50'000;
// Of a float's mantissa, what three digits don't need.
constexpr uint32_t kUnusedBits = 13;

// The lowest byte of each number, then the next byte of each.
template <typename Bits>
std::string Planes(const std::vector<Bits>& numbers) {
  std::string planes;
  planes.reserve(numbers.size() * sizeof(Bits));
  for (size_t plane = 0; plane < sizeof(Bits); ++plane) {
    for (const Bits number : numbers) planes.push_back(static_cast<char>((number >> (8 * plane)) & 0xff));
  }
  return planes;
}

template <typename Integer>
std::string IntegerPlanes(const std::vector<double>& numbers) {
  std::vector<Integer> integers;
  integers.reserve(numbers.size());
  for (const double number : numbers) integers.push_back(static_cast<Integer>(number));
  return Planes(integers);
}

std::string DoublePlanes(const std::vector<double>& numbers) {
  std::vector<uint64_t> bits;
  bits.reserve(numbers.size());
  for (const double number : numbers) bits.push_back(std::bit_cast<uint64_t>(number));
  return Planes(bits);
}

std::string FloatPlanes(const std::vector<double>& numbers) {
  std::vector<uint32_t> all;
  all.reserve(numbers.size());
  for (const double number : numbers) {
    auto bits = std::bit_cast<uint32_t>(static_cast<float>(number));
    constexpr uint32_t kHalf = 1U << (kUnusedBits - 1), kMask = (1U << kUnusedBits) - 1;
    if (std::isfinite(number)) bits = (bits + kHalf) & ~kMask;
    all.push_back(bits);
  }
  return Planes(all);
}

std::string Deflated(const std::string& bytes) {
  z_stream stream = {};
  // Raw: the page knows the length, and errors show in it.
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// No text ends the element that the JSON is in, and none has a line separator.
std::string EscapedJson(const ordered_json& json) {
  return absl::StrReplaceAll(
      json.dump(-1, ' ', false, ordered_json::error_handler_t::replace),
      {{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}, {"\u2028", "\\u2028"}, {"\u2029", "\\u2029"}});
}

}  // namespace

std::string PageText(std::string_view text) {
  const bool cut = text.size() > kMostTextBytes;
  if (cut) text = CutUtf8(text, kMostTextBytes);
  std::string page;
  page.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char character = DecodeUtf8(text);
    if (character.kind == Utf8Char::kScalar) {
      page.append(text.substr(0, character.bytes));
    } else {
      page.append("\ufffd");
    }
    text.remove_prefix(character.bytes);
  }
  if (cut) page.append("...");
  return page;
}

void PageBlock::AddColumn(const std::string& name, const char* type, size_t count) {
  columns_.push_back({{"name", name}, {"type", type}, {"count", count}});
}

void PageBlock::AddTexts(const std::string& name, const std::vector<std::string>& texts) {
  std::string own;
  std::vector<uint8_t> alike;
  std::vector<uint32_t> lengths;
  std::string_view before;
  for (const std::string& text : texts) {
    const size_t most = std::min({before.size(), text.size(), size_t{UINT8_MAX}});
    const auto differ = std::mismatch(text.begin(), text.begin() + static_cast<ptrdiff_t>(most), before.begin()).first;
    alike.push_back(static_cast<uint8_t>(differ - text.begin()));
    lengths.push_back(static_cast<uint32_t>(text.size() - alike.back()));
    own.append(text, alike.back());
    before = text;
  }
  AddColumn(name, "text", texts.size());
  columns_.back()["bytes"] = own.size();
  absl::StrAppend(&bytes_, Planes(alike), Planes(lengths), own);
}

void PageBlock::AddNumbers(const std::string& name, const std::vector<double>& numbers) {
  double most = 0;
  bool whole = true;
  for (const double number : numbers) {
    whole = whole && number >= 0 && number == std::floor(number);  // not if NaN
    most = std::max(most, number);
  }
  const bool is_time = absl::EndsWith(name, "_ns");
  const bool many = numbers.size() > kManyRows;
  const char* type = "f64";
  std::string planes;
  if (whole && most <= UINT8_MAX) {
    type = "u8";
    planes = IntegerPlanes<uint8_t>(numbers);
  } else if (whole && most <= UINT16_MAX) {
    type = "u16";
    planes = IntegerPlanes<uint16_t>(numbers);
  } else if (whole && most <= UINT32_MAX && !(many && is_time)) {
    type = "u32";
    planes = IntegerPlanes<uint32_t>(numbers);
  } else if (many) {
    type = "f32";
    planes = FloatPlanes(numbers);
  } else {
    planes = DoublePlanes(numbers);
  }
  AddColumn(name, type, numbers.size());
  // Calls with nothing inside have the same of both.
  if (absl::EndsWith(name, "self_ns") && std::strcmp(type, last_times_type_) == 0) {
    columns_.back()["xor"] = last_times_name_;
    for (size_t i = 0; i < planes.size(); ++i) planes[i] = static_cast<char>(planes[i] ^ last_times_[i]);
  } else if (absl::EndsWith(name, "time_ns")) {
    last_times_name_ = name;
    last_times_type_ = type;
    last_times_ = planes;
  }
  bytes_.append(planes);
}

void PageBlock::AddDeltas(const std::string& name, const std::vector<uint32_t>& numbers) {
  std::vector<uint32_t> deltas;
  deltas.reserve(numbers.size());
  uint32_t before = 0;
  for (const uint32_t number : numbers) deltas.push_back(number - std::exchange(before, number));
  AddColumn(name, "u32", numbers.size());
  columns_.back()["delta"] = true;
  bytes_.append(Planes(deltas));
}

ReportPage::ReportPage(std::string_view version)
    : head_({{"format", "torchtrace-report"},
             {"version", 1},
             {"torchtrace", version},
             {"traces", ordered_json::array()},
             {"facets", ordered_json::object()},
             {"tables", ordered_json::object()},
             {"left_out", ordered_json::array()},
             {"blocks", ordered_json::object()}}) {}

size_t ReportPage::SetBlock(const std::string& name, const PageBlock& block) {
  std::string& kept = blocks_[name];
  kept = absl::Base64Escape(Deflated(block.bytes_));
  head_["blocks"][name] = block.columns_;
  return kept.size();
}

uint32_t ReportPage::Label(std::string_view text, int level) {
  const auto [at, fresh] =
      label_numbers_.try_emplace({PageText(text), level}, static_cast<uint32_t>(label_numbers_.size()));
  if (fresh) {
    labels_.push_back(at->first.first);
    label_levels_.push_back(level < 0 ? 255 : level);
  }
  return at->second;
}

absl::Status ReportPage::Write(std::ostream* out) {
  if (!labels_.empty()) {
    PageBlock labels;
    labels.AddTexts("text", labels_);
    labels.AddNumbers("level", label_levels_);
    SetBlock("labels", labels);
  }
  const size_t mark = kPageText.find(kDataMark);
  *out << kPageText.substr(0, mark) << R"(<script type="application/json" id="head">)" << EscapedJson(head_)
       << "</script>\n";
  for (const auto& [name, base64] : blocks_) {
    *out << R"(<script type="text/plain" id="block-)" << name << R"(">)" << base64 << "</script>\n";
  }
  *out << kPageText.substr(mark + kDataMark.size());
  out->flush();
  return out->good() ? absl::OkStatus() : absl::AbortedError("cannot write the page");
}

}  // namespace torchtrace
