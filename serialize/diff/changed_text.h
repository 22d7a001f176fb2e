// Two configs of one shape as one line: what both have in common once, and
// where they differ `before -> after`.
//
//   torch.add(Tensor([8 -> 16, 128], "float32"), alpha=10)

#ifndef TORCHTRACE_SERIALIZE_DIFF_CHANGED_TEXT_H_
#define TORCHTRACE_SERIALIZE_DIFF_CHANGED_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

namespace torchtrace {

// Either common text, or what stands in its place before and after.
struct TextPiece {
  bool same = true;
  std::string before;  // same: the common text
  std::string after;   // same: empty
};

// Of two lines of the text form. Pieces are whole tokens: numbers, strings, names.
std::vector<TextPiece> CompareLines(std::string_view before, std::string_view after);

// The pieces as one line. With colour, what goes is red and what comes green.
std::string FormatPieces(const std::vector<TextPiece>& pieces, bool color);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_CHANGED_TEXT_H_
