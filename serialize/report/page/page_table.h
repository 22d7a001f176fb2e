// A table of a report page: rows with a text, measures and facets, and what is left out of it for the page's size.

#ifndef TORCHTRACE_SERIALIZE_REPORT_PAGE_PAGE_TABLE_H_
#define TORCHTRACE_SERIALIZE_REPORT_PAGE_PAGE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "serialize/report/page/report_page.h"

namespace torchtrace {

// What rows of tables are chosen by: values, and sets of them. All tables share them.
class PageFacets {
 public:
  struct Kind {
    const char* name;
    const char* title;
    bool sets;  // a row may have several values
  };
  // In the order in which pages show them.
  static const std::vector<Kind>& Kinds();
  static size_t KindOf(std::string_view name);

  static constexpr size_t kMostValues = 64;

  uint32_t Value(size_t kind, std::string_view text);
  // Of values, in any order and repeated: of more than kMostValues, the first ones.
  uint32_t Set(size_t kind, std::vector<uint32_t> values);

  // How many sets lack values.
  uint64_t cut_sets() const { return cut_sets_; }

 private:
  friend class UsedFacets;

  struct Facet {
    std::vector<std::string> values;
    absl::flat_hash_map<std::string, uint32_t> numbers;
    std::vector<std::vector<uint32_t>> sets;
    std::map<std::vector<uint32_t>, uint32_t> set_numbers;
  };
  Facet& At(size_t kind);

  std::vector<Facet> facets_;
  uint64_t cut_sets_ = 0;
};

// Those of PageFacets that rows of a page have, numbered anew.
class UsedFacets {
 public:
  explicit UsedFacets(const PageFacets& all) : all_(all) {}

  // `number`: of a set, or of a value where rows have one.
  double Number(size_t kind, uint32_t number);
  nlohmann::ordered_json Json() const;

 private:
  struct Used {
    absl::flat_hash_map<uint32_t, uint32_t> values, sets;  // old to new
    std::vector<uint32_t> in_order, sets_in_order;         // old ones
  };
  uint32_t ValueIn(Used* used, uint32_t value) const;

  const PageFacets& all_;
  std::map<size_t, Used> used_;
};

struct PageTable {
  std::string name;
  std::string about;                // a line below the table
  std::optional<std::string> sort;  // the measure; nothing: the page's choice
  bool in_order = false;            // rows are shown as they are, not in the order of their texts
  const char* weight = "self_ns";   // the measure by which rows are left out, or calls

  std::vector<std::string> texts;
  // In the order in which they were first set. Rows without a value have 0, or NaN where it is not known.
  std::vector<std::pair<std::string, std::vector<double>>> measures;
  std::map<size_t, std::vector<uint32_t>> facets;  // by PageFacets kind; each row's

  size_t rows() const { return texts.size(); }
  uint32_t AddRow(std::string text);
  void Set(const std::string& measure, uint32_t row, double value);
  // The same of a measure that is not known in other rows.
  void SetKnown(const std::string& measure, uint32_t row, double value);
  void AddTo(const std::string& measure, uint32_t row, double value);
  const std::vector<double>* Measure(std::string_view measure) const;

  // Of two traces: for each measure of one that of the other, not known but for calls. Call it after the last row.
  void MakeBoth();

  // Writes the `most` rows that weigh most, and what is left out. Returns how many bytes they take.
  size_t WriteTo(size_t most, UsedFacets* used, ReportPage* page) const;

 private:
  std::vector<double>& ColumnOf(const std::string& measure, double otherwise = 0);
  double WeightOf(size_t row) const;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORT_PAGE_PAGE_TABLE_H_
