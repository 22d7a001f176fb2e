// The function that import_fuzzer.cc fuzzes, for the test that replays the corpora.

#ifndef TORCHTRACE_SERIALIZE_IMPORT_IMPORT_FUZZER_H_
#define TORCHTRACE_SERIALIZE_IMPORT_IMPORT_FUZZER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace torchtrace {

// `name`: an importer's, or `text_parser`. Aborts on a fault.
void FuzzOne(std::string_view name, const uint8_t* data, size_t size);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_IMPORT_FUZZER_H_
