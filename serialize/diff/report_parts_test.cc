#include <gtest/gtest.h>

#include <string>

#include "absl/status/statusor.h"
#include "serialize/diff/reports.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

TEST(ChangedText, WholeTokens) {
  const struct {
    const char *before, *after, *line;
  } cases[] = {
      {"f()", "f()", "f()"},
      {"torch.add(Tensor([8, 128], \"float32\"), 1)", "torch.add(Tensor([16, 128], \"float32\"), 1)",
       "torch.add(Tensor([8 -> 16, 128], \"float32\"), 1)"},
      {"f(-1, 1e-05, a=2)", "f(1, 1e-06, a=-2)", "f(-1 -> 1, 1e-05 -> 1e-06, a=2 -> -2)"},
      {"f(\"a, b\")", "f(\"a, c\")", "f(\"a, b\" -> \"a, c\")"},
      {"f(\"a\\\"1\", 2)", "f(\"a\\\"1\", 3)", "f(\"a\\\"1\", 2 -> 3)"},
      {"f(b\"x\", inf)", "f(b\"y\", nan)", "f(b\"x\" -> b\"y\", inf -> nan)"},
      {"f(\"abc\"...+997)", "f(\"abc\"...+998)", "f(\"abc\"...+997 -> ...+998)"},
      {"f(dict{1: 2, \"a\": 3})", "f(dict{5: 2, \"a\": 4})", "f(dict{1 -> 5: 2, \"a\": 3 -> 4})"},
      {"f(Tensor([SymInt, 1], \"float32\"))", "f(Tensor([4, 1], \"float32\"))",
       "f(Tensor([SymInt -> 4, 1], \"float32\"))"},
      // Equal and different numbers of tokens.
      {"f(1)", "f(1, a=2)", "f(1 -> , a=2)"},
      {"f(\"\\", "f(\"\\", "f(\"\\"},
  };
  for (const auto& c : cases) EXPECT_EQ(FormatPieces(CompareLines(c.before, c.after), false), c.line);
}

// A default that the text of one tensor leaves out is shown if the other tensor's differs.
TEST(ChangedText, PartsOfTensors) {
  const auto parsed = [](const std::string& line) {
    const absl::StatusOr<Config> config = ParseConfigText(line);
    EXPECT_TRUE(config.ok()) << line << ": " << config.status();
    return config.value_or(Config());
  };
  const struct {
    const char *before, *after, *line, *back;
  } cases[] = {
      {R"(f(Tensor([2], "float32")))", R"(f(Tensor([2], "float32", device="cuda:0")))",
       R"(f(Tensor([2], "float32", device="cpu -> cuda:0")))", R"(f(Tensor([2], "float32", device="cuda:0 -> cpu")))"},
      {R"(f(Tensor([2], "float32", device="cuda:1")))", R"(f(Tensor([2], "float32", device="cuda:0")))",
       R"(f(Tensor([2], "float32", device="cuda:1 -> cuda:0")))",
       R"(f(Tensor([2], "float32", device="cuda:0 -> cuda:1")))"},
      {R"(f(Tensor([2], "float32")))", R"(f(Tensor([2], "float16", device="meta")))",
       R"(f(Tensor([2], "float32 -> float16", device="cpu -> meta")))",
       R"(f(Tensor([2], "float16 -> float32", device="meta -> cpu")))"},
      {R"(f(Tensor([2, 3], "float32")))", R"(f(Tensor([2, 3], "float32", stride=[1, 2])))",
       R"(f(Tensor([2, 3], "float32", stride=[3 -> 1, 1 -> 2])))",
       R"(f(Tensor([2, 3], "float32", stride=[1 -> 3, 2 -> 1])))"},
      {R"(f(Tensor([2], "float32")))", R"(f(Tensor([2], "float32", layout="sparse_coo")))",
       R"(f(Tensor([2], "float32", layout="strided -> sparse_coo")))",
       R"(f(Tensor([2], "float32", layout="sparse_coo -> strided")))"},
      {R"(f(list[Tensor([2], "float32")], a=Tensor([3], "float32")))",
       R"(f(list[Tensor([2], "float32", device="cuda:0")], a=Tensor([3], "float32")))",
       R"(f(list[Tensor([2], "float32", device="cpu -> cuda:0")], a=Tensor([3], "float32")))",
       R"(f(list[Tensor([2], "float32", device="cuda:0 -> cpu")], a=Tensor([3], "float32")))"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(FormatPieces(CompareTexts(parsed(c.before), parsed(c.after)), false), c.line);
    EXPECT_EQ(FormatPieces(CompareTexts(parsed(c.after), parsed(c.before)), false), c.back);
  }
}

TEST(ChangedText, Colors) {
  EXPECT_EQ(FormatPieces(CompareLines("f(1)", "f(2)"), true), "f(\x1b[31m1\x1b[0m -> \x1b[32m2\x1b[0m)");
}

// Nothing is lost: the pieces contain both lines.
TEST(ChangedText, PiecesMakeBothLines) {
  const std::string lines[] = {"f(1, \"x\", a=2)", "f(1, a=2)", "g(list[1, 2, ...+5])", "\"", "b\"", "f(\"\\"};
  for (const std::string& before : lines) {
    for (const std::string& after : lines) {
      std::string a, b;
      for (const TextPiece& piece : CompareLines(before, after)) {
        a += piece.before;
        b += piece.same ? piece.before : piece.after;
      }
      EXPECT_EQ(a, before);
      EXPECT_EQ(b, after);
    }
  }
}

}  // namespace

}  // namespace torchtrace
