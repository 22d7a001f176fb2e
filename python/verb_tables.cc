#include "python/verb_tables.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/export/arrow_sharing.h"
#include "serialize/forms/forms.h"

namespace torchtrace {
namespace {

using Json = nlohmann::ordered_json;

enum class CellKind : uint8_t { kNone, kBool, kInt, kDouble, kText, kJson };

CellKind KindOf(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
    case Json::value_t::discarded:
      return CellKind::kNone;
    case Json::value_t::boolean:
      return CellKind::kBool;
    case Json::value_t::number_integer:
      return CellKind::kInt;
    case Json::value_t::number_unsigned:
      return value.get<uint64_t>() > INT64_MAX ? CellKind::kDouble : CellKind::kInt;
    case Json::value_t::number_float:
      return CellKind::kDouble;
    case Json::value_t::string:
      return CellKind::kText;
    default:
      return CellKind::kJson;
  }
}

// A column grows by a value a row. It is widened when a value doesn't fit.
struct ReportColumn {
  std::string name;
  CellKind kind = CellKind::kNone;
  std::vector<bool> valid;
  std::vector<int64_t> ints;  // kBool too
  std::vector<double> doubles;
  std::vector<int64_t> offsets = {0};
  std::string bytes;

  size_t size() const { return valid.size(); }

  void Add(const Json& value) {
    const CellKind of_value = KindOf(value);
    if (of_value == CellKind::kNone) return AddNull();
    if (of_value != kind) Widen(of_value);
    valid.push_back(true);
    switch (kind) {
      case CellKind::kBool:
        return ints.push_back(value.get<bool>() ? 1 : 0);
      case CellKind::kInt:
        return ints.push_back(value.get<int64_t>());
      case CellKind::kDouble:
        return doubles.push_back(value.get<double>());
      case CellKind::kText:
        return AddText(value.get_ref<const std::string&>());
      default:
        return AddText(DumpJson(value));
    }
  }

  void AddNull() {
    valid.push_back(false);
    if (kind == CellKind::kBool || kind == CellKind::kInt) ints.push_back(0);
    if (kind == CellKind::kDouble) doubles.push_back(0);
    if (kind == CellKind::kText || kind == CellKind::kJson) offsets.push_back(offsets.back());
  }

 private:
  void AddText(std::string_view text) {
    bytes += text;
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  }

  void Widen(CellKind to) {
    const bool numbers =
        (kind == CellKind::kInt && to == CellKind::kDouble) || (kind == CellKind::kDouble && to == CellKind::kInt);
    if (kind == CellKind::kNone) {
      kind = to;
      std::vector<bool> nulls = std::move(valid);
      valid.clear();
      for (size_t i = 0; i < nulls.size(); ++i) AddNull();
    } else if (numbers) {
      for (const int64_t number : std::exchange(ints, {})) doubles.push_back(static_cast<double>(number));
      kind = CellKind::kDouble;
    } else if (kind != CellKind::kJson) {
      ReportColumn json;
      json.kind = CellKind::kJson;
      for (size_t i = 0; i < size(); ++i) json.Add(ValueAt(i));
      json.name = std::move(name);
      *this = std::move(json);
    }
  }

  Json ValueAt(size_t row) const {
    if (!valid[row]) return nullptr;
    if (kind == CellKind::kBool) return ints[row] != 0;
    if (kind == CellKind::kInt) return ints[row];
    if (kind == CellKind::kDouble) return doubles[row];
    const auto begin = static_cast<size_t>(offsets[row]);
    return bytes.substr(begin, static_cast<size_t>(offsets[row + 1]) - begin);
  }
};

class ReportRows {
 public:
  void Add(const Json& row) {
    size_t expected = 0;  // rows mostly have the same keys in the same order
    for (const auto& [key, value] : row.items()) {
      if (expected >= columns_.size() || columns_[expected].name != key) expected = ColumnOf(key);
      ReportColumn& column = columns_[expected++];
      if (column.size() == rows_) column.Add(value);
    }
    ++rows_;
    for (ReportColumn& column : columns_) {
      if (column.size() < rows_) column.AddNull();
    }
  }

  std::shared_ptr<const VerbTable> Finish();

 private:
  size_t ColumnOf(const std::string& key) {
    const auto [at, fresh] = by_name_.emplace(key, columns_.size());
    if (fresh) {
      ReportColumn& column = columns_.emplace_back();
      column.name = key;
      for (size_t i = 0; i < rows_; ++i) column.AddNull();
    }
    return at->second;
  }

  size_t rows_ = 0;
  std::vector<ReportColumn> columns_;
  absl::flat_hash_map<std::string, size_t> by_name_;
};

// What the shared arrays point at.
struct ReportBuffers {
  struct Buffers {
    std::vector<uint8_t> valid;
    std::vector<uint8_t> bits;
    const void* pointers[3] = {};
    ArrowArray array = {};
  };
  std::vector<ReportColumn> columns;
  std::vector<Buffers> buffers;
  std::vector<ArrowArray*> children;
};

template <typename Bit>
std::vector<uint8_t> PackBits(size_t count, const Bit& bit) {
  std::vector<uint8_t> packed((count + 7) / 8);
  for (size_t i = 0; i < count; ++i) packed[i / 8] |= static_cast<uint8_t>((bit(i) ? 1u : 0u) << i % 8);
  return packed;
}

const char* FormatOf(CellKind kind) {
  switch (kind) {
    case CellKind::kBool:
      return "b";
    case CellKind::kInt:
      return "l";
    case CellKind::kDouble:
      return "g";
    case CellKind::kNone:  // no row has a value
    case CellKind::kText:
    case CellKind::kJson:
      break;
  }
  return "U";
}

// {"torchtrace.text": "json"} (column_batch.h)
constexpr char kJsonMetadata[] =
    "\1\0\0\0"
    "\17\0\0\0torchtrace.text"
    "\4\0\0\0json";

std::shared_ptr<const VerbTable> ReportRows::Finish() {
  const auto owner = std::make_shared<ReportBuffers>();
  for (ReportColumn& column : columns_) {
    if (column.kind == CellKind::kNone) column.offsets.assign(rows_ + 1, 0);
  }
  owner->columns = std::move(columns_);
  owner->buffers.resize(owner->columns.size());
  std::vector<ArrowSchema> fields(owner->columns.size());
  std::vector<ArrowSchema*> field_pointers;
  for (size_t i = 0; i < fields.size(); ++i) {
    const ReportColumn& column = owner->columns[i];
    ReportBuffers::Buffers& buffers = owner->buffers[i];
    buffers.array.length = static_cast<int64_t>(rows_);
    buffers.array.null_count = std::count(column.valid.begin(), column.valid.end(), false);
    if (buffers.array.null_count > 0) {
      buffers.valid = PackBits(rows_, [&column](size_t row) { return column.valid[row]; });
      buffers.pointers[0] = buffers.valid.data();
    }
    buffers.array.n_buffers = 2;
    buffers.array.buffers = buffers.pointers;
    if (column.kind == CellKind::kBool) {
      buffers.bits = PackBits(rows_, [&column](size_t row) { return column.ints[row] != 0; });
      buffers.pointers[1] = buffers.bits.data();
    } else if (column.kind == CellKind::kInt) {
      buffers.pointers[1] = column.ints.data();
    } else if (column.kind == CellKind::kDouble) {
      buffers.pointers[1] = column.doubles.data();
    } else {
      buffers.array.n_buffers = 3;
      buffers.pointers[1] = column.offsets.data();
      buffers.pointers[2] = column.bytes.data();
    }
    owner->children.push_back(&buffers.array);
    fields[i].format = FormatOf(column.kind);
    fields[i].name = column.name.c_str();
    fields[i].flags = ARROW_FLAG_NULLABLE;
    fields[i].metadata = column.kind == CellKind::kJson ? kJsonMetadata : nullptr;
    field_pointers.push_back(&fields[i]);
  }
  const void* const no_buffers[1] = {};
  ArrowArray root = {};
  root.length = static_cast<int64_t>(rows_);
  root.n_buffers = 1;
  root.buffers = const_cast<const void**>(no_buffers);
  root.n_children = static_cast<int64_t>(owner->children.size());
  root.children = owner->children.data();
  ArrowSchema schema = {};
  schema.format = "+s";
  schema.name = "";
  schema.n_children = static_cast<int64_t>(fields.size());
  schema.children = field_pointers.data();
  auto table = std::make_shared<VerbTable>();
  CopySchema(schema, &table->schema);
  ShareArray(root, owner, &table->rows);
  return table;
}

}  // namespace

absl::StatusOr<VerbReport> ParseReport(std::string_view json, const std::vector<std::string>& not_tables) {
  std::map<std::string, ReportRows> lists;
  std::vector<bool> in_list;  // of the containers around the current value
  std::string key;            // of the outermost object
  const auto is_row = [&] {
    if (in_list.empty() || !in_list.back()) return false;
    if (in_list.size() == 1) return true;
    return in_list.size() == 2 && std::find(not_tables.begin(), not_tables.end(), key) == not_tables.end();
  };
  // Rows become cells when they are complete, so that there is never more than one.
  const auto keep = [&](int /*depth*/, Json::parse_event_t event, Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        in_list.push_back(event == Json::parse_event_t::array_start);
        break;
      case Json::parse_event_t::key:
        if (in_list.size() == 1) key = parsed.get<std::string>();
        break;
      case Json::parse_event_t::object_end:
        in_list.pop_back();
        if (!is_row()) break;
        lists[in_list.size() == 1 ? "" : key].Add(parsed);
        return false;
      case Json::parse_event_t::array_end:
        in_list.pop_back();
        break;
      case Json::parse_event_t::value:
        break;
    }
    return true;
  };
  Json rest = Json::parse(json.begin(), json.end(), keep, /*allow_exceptions=*/false);
  if (rest.is_discarded()) return absl::DataLossError("what the verb wrote is not JSON");
  VerbReport report;
  for (auto& [name, rows] : lists) {
    report.tables[name] = rows.Finish();
    if (rest.is_object()) rest.erase(name);
  }
  report.rest = DumpJson(rest);
  if (report.tables.count("") == 0) report.tables[""] = ReportRows().Finish();
  return report;
}

}  // namespace torchtrace
