// What the tests share that replay a fuzzer's corpus, and some inputs made from it by chance.

#ifndef TORCHTRACE_SERIALIZE_TESTING_FUZZ_CORPUS_H_
#define TORCHTRACE_SERIALIZE_TESTING_FUZZ_CORPUS_H_

#include <random>
#include <string>
#include <vector>

namespace torchtrace {

// The files of testdata/fuzz/NAME, by name. The test needs them as data.
std::vector<std::string> ReadFuzzCorpus(const std::string& name);

// The input with up to eight places changed, cut or doubled.
std::string MakeMutant(const std::string& input, std::mt19937* random);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TESTING_FUZZ_CORPUS_H_
