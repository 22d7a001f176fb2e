#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/text.h"
#include "serialize/forms/plain_form.h"
#include "serialize/import/call_rows.h"
#include "serialize/import/imported_trace.h"
#include "serialize/import/importer.h"

namespace torchtrace {
namespace {

// The columns that are read: numbers and texts.
constexpr std::string_view kNumbers[] = {"call",        "depth",  "level", "calls", "start_ns",
                                         "duration_ns", "thread", "pid",   "rank"};
constexpr std::string_view kTexts[] = {"api", "config", "outcome", "exception", "process", "trace", "host"};

struct Cell {
  std::string text;
  bool quoted = false;
};

// Splits a record by RFC 4180. False: a quote is still open at its end.
bool SplitRecord(std::string_view record, std::vector<Cell>* cells) {
  cells->assign(1, {});
  bool open = false;
  for (size_t i = 0; i < record.size(); ++i) {
    Cell& cell = cells->back();
    if (open && record[i] == '"' && i + 1 < record.size() && record[i + 1] == '"') {
      cell.text += record[i++];
    } else if (record[i] == '"' && (open || cell.text.empty())) {
      open = !open;
      cell.quoted = true;
    } else if (record[i] == ',' && !open) {
      cells->emplace_back();
    } else {
      cell.text += record[i];
    }
  }
  return !open;
}

Plain MakePlain(const std::string& column, Cell* cell) {
  Plain plain;
  plain.kind = Plain::kString;
  if (IsOneOf(column, kNumbers) && absl::SimpleAtoi(cell->text, &plain.integer)) {
    plain.kind = Plain::kInt;
  } else {
    plain.text = std::move(cell->text);
  }
  return plain;
}

class CallTable final : public RowSource {
 public:
  using RowSource::RowSource;

  std::string format() const override { return "CSV of torchtrace export"; }

  absl::Status Scan(const Visitor& visit) override {
    LineReader lines(file());
    IdentityCache cache;
    std::vector<Cell> cells;
    std::vector<std::string> columns;
    while (true) {
      const absl::StatusOr<bool> more = NextRecord(&lines, &cells);
      if (!more.ok()) return more.status();
      if (!*more) return absl::OkStatus();
      if (columns.empty()) {
        for (Cell& cell : cells) columns.push_back(std::move(cell.text));
        continue;
      }
      CallFacts facts;
      const absl::StatusOr<const ParsedCall*> call = ParseRow(columns, &cells, &cache, &facts);
      if (!call.ok()) return At(lines, call.status());
      if (absl::Status s = Visit(visit, **call, facts); !s.ok()) return s;
    }
  }

 private:
  // False at the end. A cell in quotes may continue on the next line; empty lines between records are skipped.
  absl::StatusOr<bool> NextRecord(LineReader* lines, std::vector<Cell>* cells) const {
    std::string record;
    std::string_view line;
    while (true) {
      const absl::StatusOr<bool> more = lines->Next(&line);
      if (!more.ok()) return more.status();
      if (!*more) {
        if (record.empty()) return false;
        return At(*lines, absl::InvalidArgumentError("expected the closing quote of a cell"));
      }
      if (lines->number() == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
      if (record.empty() && line.empty()) continue;
      if (!record.empty()) record += '\n';
      if (record.size() + line.size() > LineReader::kMaxLineBytes) {
        return At(*lines, absl::InvalidArgumentError("expected the end of a row, which is too long"));
      }
      record += line;
      if (SplitRecord(record, cells)) return true;
    }
  }

  static absl::StatusOr<const ParsedCall*> ParseRow(const std::vector<std::string>& columns, std::vector<Cell>* cells,
                                                    IdentityCache* cache, CallFacts* facts) {
    if (cells->size() != columns.size()) {
      return absl::InvalidArgumentError(absl::StrCat("expected ", columns.size(), " cells, found ", cells->size()));
    }
    Plain row;
    row.kind = Plain::kMap;
    for (size_t i = 0; i < columns.size(); ++i) {
      Cell& cell = (*cells)[i];
      const bool known = IsOneOf(columns[i], kNumbers) || IsOneOf(columns[i], kTexts);
      if (known && (cell.quoted || !cell.text.empty()))
        row.fields.push_back({columns[i], MakePlain(columns[i], &cell)});
    }
    if (absl::Status s = ReadCallFacts(row, facts); !s.ok()) return s;
    const Plain* const config = FindField(row, "config");
    if (config == nullptr) return absl::InvalidArgumentError("config: expected a call, found nothing");
    return ParseCallWithText(row, config->text, cache);
  }
};

// Recognizes the header that `torchtrace export` and `dedup` write, with more columns or fewer.
bool SniffCallTable(const FileHead& head) {
  std::string_view header = head.bytes.substr(0, head.bytes.find('\n'));
  if (header.starts_with("\xef\xbb\xbf")) header.remove_prefix(3);
  if (header.ends_with('\r')) header.remove_suffix(1);
  std::vector<Cell> cells;
  if (header.find(',') == std::string_view::npos || !SplitRecord(header, &cells)) return false;
  const auto has = [&cells](const char* name) {
    return std::any_of(cells.begin(), cells.end(), [name](const Cell& cell) { return cell.text == name; });
  };
  return has("api") && has("config");
}

absl::StatusOr<std::unique_ptr<CallSource>> OpenCallTable(std::unique_ptr<InputFile> file) {
  return std::make_unique<CallTable>(std::move(file));
}

}  // namespace

const Importer kCallTableImporter = {"csv", "CSV (from torchtrace export)", SniffCallTable, OpenCallTable};

}  // namespace torchtrace
