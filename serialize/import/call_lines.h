// Calls as JSON lines: what `torchtrace dump --format jsonl` writes, with nesting,
// times, threads and outcomes; or any lines with {api, args, kwargs}.

#ifndef TORCHTRACE_SERIALIZE_IMPORT_CALL_LINES_H_
#define TORCHTRACE_SERIALIZE_IMPORT_CALL_LINES_H_

#include "serialize/import/importer.h"

namespace torchtrace {

extern const Importer kCallLinesImporter;

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_CALL_LINES_H_
