// Whether a trace has all calls of its program, as `info` tells people.

#ifndef TORCHTRACE_SERIALIZE_TRACE_COMPLETENESS_H_
#define TORCHTRACE_SERIALIZE_TRACE_COMPLETENESS_H_

#include <string>
#include <vector>

#include "serialize/trace/run_facts.h"

namespace torchtrace {

// One sentence for all that is missing, the gravest first, or one that begins with `yes`. What torchtrace
// leaves out unless told otherwise, or was told to by the program, comes last, and doesn't make a trace incomplete.
// `ranks`: RankSentences of the processes (serialize/trace/ranks.h).
std::vector<std::string> DescribeCompleteness(const RunFacts& facts, const CappedCounts& capped,
                                              const std::vector<std::string>& ranks);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_COMPLETENESS_H_
