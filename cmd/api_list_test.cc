#include "cmd/api_list.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace torchtrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ApiListTest, OneNameALine) {
  const auto names = ParseApiList("# mine\ntorch.add\n\n  torch.nn.Linear  # a class\ntorch.Tensor.shape.__get__", "f");
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_THAT(*names, ElementsAre("torch.add", "torch.nn.Linear", "torch.Tensor.shape.__get__"));
}

TEST(ApiListTest, YamlUnderTheKey) {
  const auto names = ParseApiList(
      "---\nversion:\n- not read: at all\napis:\n- torch.add\n  - 'torch.sub'\nexcluded:\n- torch.mul\n", "f");
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_THAT(*names, ElementsAre("torch.add", "torch.sub"));
}

TEST(ApiListTest, ErrorsNameTheLine) {
  for (const char* wrong : {"add", "torch..add", "torch.add(", ".add", "torch.", "torch.nn.*", "torch.1x", "a b.c"}) {
    const auto names = ParseApiList(std::string("torch.add\n") + wrong, "list.txt");
    ASSERT_FALSE(names.ok()) << wrong;
    EXPECT_THAT(std::string(names.status().message()),
                HasSubstr(std::string("list.txt:2: '") + wrong + "' is no dotted name"));
  }
}

TEST(ApiListTest, EmptyIsAnError) {
  EXPECT_THAT(std::string(ParseApiList("# nothing\n", "f").status().message()), HasSubstr("f: no names in it"));
}

TEST(ApiListTest, MissingFile) {
  EXPECT_THAT(std::string(ReadApiList("/no/such/file").status().message()),
              HasSubstr("/no/such/file: No such file or directory"));
}

}  // namespace
}  // namespace torchtrace
