// For tests of importers: what a CallSource gives, as lines that a person reads.

#ifndef TORCHTRACE_SERIALIZE_TESTING_IMPORT_TESTING_H_
#define TORCHTRACE_SERIALIZE_TESTING_IMPORT_TESTING_H_

#include <string>
#include <string_view>

#include "serialize/import/call_source.h"
#include "serialize/import/json_stream.h"

namespace torchtrace {

// A line per call, indented by its depth: the text form, behind it "@process.thread" where that isn't 0.0, and
// its times if there are any. Scans twice and expects the same. An error is a line "error: ...".
std::string CallLines(CallSource* source);

// The same, then the processes and the notes.
std::string AllLines(CallSource* source);

// `bytes` as a file named "file.json"; keeps a copy of them.
JsonFile MemoryFile(std::string_view bytes);

std::string ReadTestFile(const std::string& path);

// Expects `lines` to be what stands in the file. With TORCHTRACE_BLESS, a workspace's folder, writes it there.
void ExpectGolden(const std::string& lines, const std::string& path);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TESTING_IMPORT_TESTING_H_
