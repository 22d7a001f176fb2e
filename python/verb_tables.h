// Tables that verbs make, as C++ objects: those of `export parquet`, which pass as Arrow batches, and the rows of their
// JSON reports, which become columns here.

#ifndef TORCHTRACE_PYTHON_VERB_TABLES_H_
#define TORCHTRACE_PYTHON_VERB_TABLES_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/export/arrow_c_data.h"

namespace torchtrace {

// A schema, and rows of it. Owns both.
struct VerbTable {
  VerbTable() = default;
  ~VerbTable() {
    if (schema.release != nullptr) schema.release(&schema);
    if (rows.release != nullptr) rows.release(&rows);
  }
  VerbTable(const VerbTable&) = delete;
  VerbTable& operator=(const VerbTable&) = delete;

  ArrowSchema schema = {};
  ArrowArray rows = {};
};

struct VerbReport {
  // The lists of objects in it, by their keys; of a report that is a list "", which else is a table without rows.
  std::map<std::string, std::shared_ptr<const VerbTable>> tables;
  // All else, as JSON.
  std::string rest;
};

// Keys are columns, in the order in which they come first; a row without a key has null there. A column has numbers of
// 64 bits, booleans or texts; lists and objects are texts of JSON, as is a column with values of several kinds.
// DataLoss: it isn't JSON.
absl::StatusOr<VerbReport> ParseReport(std::string_view json, const std::vector<std::string>& not_tables);

}  // namespace torchtrace

#endif  // TORCHTRACE_PYTHON_VERB_TABLES_H_
