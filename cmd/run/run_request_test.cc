#include "cmd/run/run_request.h"

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace torchtrace {
namespace {

const OptionsWithValue kWithValue = {"-l", "--levels", "-o", "--output", "--python"};

// The result in words, `options | program`; or `error: ...`.
std::string Split(const std::string& args) {
  std::vector<std::string> words;
  if (!args.empty()) words = absl::StrSplit(args, ' ');
  const absl::StatusOr<RunArguments> split = SplitRunArguments(words, kWithValue);
  if (!split.ok()) return "error: " + std::string(split.status().message());
  return absl::StrJoin(split->options, " ") + " | " + absl::StrJoin(split->program, " ");
}

TEST(SplitRunArgumentsTest, CutsWhereTheProgramBegins) {
  struct {
    const char *args, *split;
  } const kCases[] = {
      {"", " | "},
      {"train.py", " | train.py"},
      {"train.py --lr 1 -o b --help", " | train.py --lr 1 -o b --help"},
      {"-l 1,2 -o a train.py -o b", "-l 1,2 -o a | train.py -o b"},
      {"--levels=1,2 --output a train.py", "--levels=1,2 --output a | train.py"},
      {"-l1,2 -oa train.py", "-l1,2 -oa | train.py"},
      {"-qfl 1 train.py", "-qfl 1 | train.py"},
      {"-qfl1 train.py", "-qfl1 | train.py"},
      {"-o -m x.py", "-o -m | x.py"},  // an option's value may look like an option
      {"-o a -- train.py -o b", "-o a | train.py -o b"},
      {"-- train.py -- x", " | train.py -- x"},
      {"train.py -- x", " | train.py -- x"},
      {"-m pkg.mod -o x", " | -m pkg.mod -o x"},
      {"-mpkg.mod -o x", " | -mpkg.mod -o x"},
      {"-q -m pkg.mod -q", "-q | -m pkg.mod -q"},
      {"-qm pkg.mod -q", "-q | -m pkg.mod -q"},
      {"-qmpkg.mod -q", "-q | -mpkg.mod -q"},
      {"-c print(1) -l 2", " | -c print(1) -l 2"},
      {"-cprint(1) -l 2", " | -cprint(1) -l 2"},
      {"-- -m pkg -m x", " | -m pkg -m x"},
      {"-- -c pass", " | -c pass"},
      {"-- -", " | -"},
      {"-", " | -"},
      {"- -o x", " | - -o x"},
      {"--bogus train.py", "--bogus | train.py"},  // CLI11 refuses --bogus
      {"-o", "-o | "},                             // and an option without its value
      {"--", " | "},
      {"-m", "error: -m needs the name of a module"},
      {"-q -c", "error: -c needs the code to run"},
      {"-- -m", "error: -m needs the name of a module"},
      {"-- -O x.py",
       "error: '-O' after -- is not a script, -m MODULE or -c CODE (python's own options: --python-arg=-O)"},
  };
  for (const auto& c : kCases) EXPECT_EQ(Split(c.args), c.split) << c.args;
}

TEST(SplitRunArgumentsTest, TakesAWordThatIsOneOfTheChoices) {
  const OptionsWithChoice choice = {{"--stacks", {"first", "all"}}};
  const auto split = SplitRunArguments({"--stacks", "all", "-q", "all", "--stacks", "all"}, kWithValue, choice);
  ASSERT_TRUE(split.ok());
  EXPECT_EQ(split->options, (std::vector<std::string>{"--stacks=all", "-q"}));
  EXPECT_EQ(split->program, (std::vector<std::string>{"all", "--stacks", "all"}));
  EXPECT_EQ(SplitRunArguments({"--stacks", "train.py"}, kWithValue, choice)->program,
            (std::vector<std::string>{"train.py"}));
}

TEST(SplitRunArgumentsTest, KeepsEmptyArguments) {
  const auto split = SplitRunArguments({"-q", "", "x"}, kWithValue);
  ASSERT_TRUE(split.ok());
  EXPECT_EQ(split->program, (std::vector<std::string>{"", "x"}));
}

TEST(ProgramStemTest, NamesTheProgram) {
  struct {
    const char *program, *stem;
  } const kCases[] = {
      {"train.py x", "train"},
      {"a/b.c/train.v2.py", "train.v2"},
      {"folder/", "folder"},
      {"/", "program"},
      {".", "program"},
      {"..", "program"},
      {"-m a.b.c", "c"},
      {"-ma.b", "b"},
      {"-m pkg.__main__", "pkg"},
      {"-c pass", "c"},
      {"-cpass", "c"},
      {"-", "stdin"},
      {".hidden", ".hidden"},
      {"noext", "noext"},
  };
  for (const auto& c : kCases) EXPECT_EQ(ProgramStem(absl::StrSplit(c.program, ' ')), c.stem) << c.program;
}

TEST(RuntimeKeyTest, IsOfTheMinorVersion) {
  EXPECT_EQ(RuntimeKey("3.11.7"), "py3.11");
  EXPECT_EQ(RuntimeKey("3.9.0"), "py3.9");
}

}  // namespace

}  // namespace torchtrace
