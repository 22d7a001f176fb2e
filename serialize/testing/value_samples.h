// One value of every kind, and the files that fuzzers start from.

#ifndef TORCHTRACE_SERIALIZE_TESTING_VALUE_SAMPLES_H_
#define TORCHTRACE_SERIALIZE_TESTING_VALUE_SAMPLES_H_

#include <random>
#include <string>
#include <vector>

#include "serialize/model/config.h"

namespace torchtrace {

// One described value of every kind, and the corners of each, with the form
// that each of the three formats gives it: the table that their tests share.

struct ValueSample {
  std::string name;   // says which corner; no two are equal
  std::string bytes;  // as ValueWriter makes them
  std::string text;
  std::string yaml;
  std::string json;
};

const std::vector<ValueSample>& ValueSamples();

// A call of `api` with the sample as its only argument.
Config SampleConfig(const ValueSample& sample, const std::string& api);

// What the tests share that replay a fuzzer's corpus, and some inputs made from it by chance.

// The files of testdata/fuzz/NAME, by name. The test needs them as data.
std::vector<std::string> ReadFuzzCorpus(const std::string& name);

// The input with up to eight places changed, cut or doubled.
std::string MakeMutant(const std::string& input, std::mt19937* random);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TESTING_VALUE_SAMPLES_H_
