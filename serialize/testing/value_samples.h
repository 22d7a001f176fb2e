// Sample values of every kind, and fuzzing corpora.

#ifndef TORCHTRACE_SERIALIZE_TESTING_VALUE_SAMPLES_H_
#define TORCHTRACE_SERIALIZE_TESTING_VALUE_SAMPLES_H_

#include <random>
#include <string>
#include <vector>

#include "serialize/model/config.h"

namespace torchtrace {

// A value and its text in each of the three formats. The samples have every kind of
// value and its corner cases; the tests of the formats share them.
struct ValueSample {
  std::string name;   // of the corner case; unique
  std::string bytes;  // from ValueWriter
  std::string text;
  std::string yaml;
  std::string json;
};

const std::vector<ValueSample>& ValueSamples();

// A call of `api` with the sample as its only argument.
Config SampleConfig(const ValueSample& sample, const std::string& api);

// The contents of the files of testdata/fuzz/NAME, by name. The test's BUILD rule needs them as data.
std::vector<std::string> ReadFuzzCorpus(const std::string& name);

// The input with up to eight random changes, cuts or duplications.
std::string MakeMutant(const std::string& input, std::mt19937* random);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TESTING_VALUE_SAMPLES_H_
