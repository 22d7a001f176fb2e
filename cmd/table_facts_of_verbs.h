// What `export` and `dedup` put into tables by the rules of the reports.

#ifndef TORCHTRACE_CMD_TABLE_FACTS_OF_VERBS_H_
#define TORCHTRACE_CMD_TABLE_FACTS_OF_VERBS_H_

#include <memory>

#include "serialize/export/table_facts.h"

namespace torchtrace {

std::unique_ptr<TableFacts> MakeTableFacts();

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_TABLE_FACTS_OF_VERBS_H_
