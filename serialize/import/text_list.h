// Lists of calls in text, one a line: our api_trace.txt and api_configs.txt, those
// of api_tracer, and PaddleAPITest's files of configurations.

#ifndef TORCHTRACE_SERIALIZE_IMPORT_TEXT_LIST_H_
#define TORCHTRACE_SERIALIZE_IMPORT_TEXT_LIST_H_

#include "serialize/import/importer.h"

namespace torchtrace {

extern const Importer kTextImporter;

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_TEXT_LIST_H_
