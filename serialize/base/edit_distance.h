// For "did you mean": how far two words are apart, and the nearest of several.

#ifndef TORCHTRACE_SERIALIZE_BASE_EDIT_DISTANCE_H_
#define TORCHTRACE_SERIALIZE_BASE_EDIT_DISTANCE_H_

#include <string>
#include <string_view>
#include <vector>

namespace torchtrace {

// Characters to insert, delete, replace or swap with their neighbour to turn
// one word into the other.
int EditDistance(std::string_view a, std::string_view b);

// The first of the nearest candidates, or empty when none is near enough to be
// what was meant.
std::string Nearest(std::string_view word, const std::vector<std::string>& candidates);

// ", did you mean X?" or nothing.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_EDIT_DISTANCE_H_
