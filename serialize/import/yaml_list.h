// Lists of calls in YAML: our api_trace.yaml and api_configs.yaml (one list), and
// api_tracer's api_trace.yaml (one document a call). Each item is parsed once
// by yaml-cpp and then known by its text; memory goes with configurations.

#ifndef TORCHTRACE_SERIALIZE_IMPORT_YAML_LIST_H_
#define TORCHTRACE_SERIALIZE_IMPORT_YAML_LIST_H_

#include "serialize/import/importer.h"

namespace torchtrace {

extern const Importer kYamlImporter;

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_YAML_LIST_H_
