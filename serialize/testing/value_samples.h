// One described value of every kind, and the corners of each, with the form
// that each of the three formats gives it: the table that their tests share.

#ifndef TORCHTRACE_SERIALIZE_TESTING_VALUE_SAMPLES_H_
#define TORCHTRACE_SERIALIZE_TESTING_VALUE_SAMPLES_H_

#include <string>
#include <vector>

#include "serialize/model/config.h"

namespace torchtrace {

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

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TESTING_VALUE_SAMPLES_H_
