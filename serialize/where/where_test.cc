#include "serialize/where/where.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

// A call of torch.cat at level 1, of a list of two tensors:
// float16 [2, 3, 4] on cuda:0, and float32 [5] with a stride, a gradient and a subclass.
struct Subject {
  Subject() {
    Value half = TensorValue({2, 3, 4});
    half.text = "float16";
    half.device = "cuda:0";
    Value strided = TensorValue({5});
    strided.tensor_bits = kTensorHasStride;
    strided.strides = {2};
    Value flag, none;
    flag.tag = ValueTag::kTrue;
    none.tag = ValueTag::kNone;
    config = MakeConfig(1, "torch.cat", {ItemsValue(ValueTag::kList, {half, strided}), IntValue(-1), TextValue("mean")},
                        {{"dim", IntValue(1)},
                         {"eps", FloatValue(1e-5)},
                         {"out", none},
                         {"keepdim", flag},
                         {"dtype", NamedValue(ValueTag::kDtype, "float16")},
                         {"sizes", ItemsValue(ValueTag::kList, {IntValue(2), IntValue(3)})},
                         {"not a name", IntValue(2)}});
    facets.push_back({1, true, "torch.nn.parameter.Parameter"});
    process.path = "out/log/main-12.ttlog";
    process.SetMetadata(std::make_shared<nlohmann::json>(
        nlohmann::json{{"pid", 12}, {"rank", 3}, {"label", "resnet"}, {"host", "node1"}}));
    process.threads.push_back({7, 77, "pt_autograd_0", 1});
    entry.call = 99;
    entry.thread = 7;
    entry.depth = 2;
    subject.config = &config;
    subject.facets = &facets;
    subject.entry = &entry;
    subject.process = &process;
    subject.tags = &tags;
    subject.ended = true;
    subject.raised = true;
    subject.exception = "ValueError";
    subject.duration_ns = 12'500;
  }

  Config config;
  std::vector<TensorFacet> facets;
  ProcessInfo process;
  CallRecord entry;
  nlohmann::json tags = {{"step", 3}, {"phase", "eval"}, {"lr", 0.5}, {"last", false}, {"7", "x y"}};
  WhereSubject subject;
};

TEST(Where, Table) {
  const struct {
    const char* text;
    bool holds;
  } kRows[] = {
      {"dtype = float16", true},
      {"dtype=float16 and ndim>=3", true},
      {"dtype == torch.float16", true},
      {"dtype = half", true},
      {"dtype = 'float16'", true},
      {"dtype = bfloat16", false},
      {"dtype ~ float*", true},
      {"dtype !~ float*", false},
      {"dtype in (int64, float32)", true},
      {"dtype not in (int64, bool)", true},
      {"dtype not in (float16, float32)", false},
      // Some tensor is not float16, and some tensor is.
      {"dtype != float16", true},
      {"not dtype = float16", false},
      {"all(dtype = float16)", false},
      {"all(dtype ~ float*)", true},
      {"any(dtype = float16 and ndim = 1)", false},
      {"dtype = float16 and ndim = 1", true},
      {"any(dtype = float16 and ndim = 3)", true},
      {"all(any(dtype = float16))", true},
      {"all(dtype = float16 or contiguous = false)", true},
      {"all(level = 1)", true},
      {"device = cuda", true},
      {"device = cuda:0", true},
      {"device = cuda:1", false},
      {"device = cud", false},
      {"numel = 24", true},
      {"numel > 24", false},
      {"numel < 6 and numel >= 5", true},
      {"numel = 24.0", true},
      {"shape = [2, 3, 4]", true},
      {"shape = [2, *, 4]", true},
      {"shape = [2, *]", false},
      {"shape = []", false},
      {"shape in ([1], [*])", true},
      {"shape != [5]", true},
      {"size(0) = 2", true},
      {"size(-1) = 4", true},
      {"size(7) != 4", false},
      {"size(1) != 4", true},
      {"stride = [12, 4, 1]", true},
      {"stride = [2]", true},
      {"stride = [1]", false},
      {"contiguous", true},
      {"not contiguous", false},
      {"all(contiguous)", false},
      {"contiguous = false", true},
      {"contiguous != true", true},
      {"layout = strided", true},
      {"layout = torch.strided", true},
      {"layout = sparse_coo", false},
      {"requires_grad", true},
      {"all(requires_grad)", false},
      {"any(requires_grad and dtype = float16)", false},
      {"subclass ~ *.Parameter", true},
      {"subclass = Parameter", false},
      {"nargs = 10", true},
      {"api = torch.cat", true},
      {"api ~ \"torch.*\"", true},
      {"api ~ aten::*", false},
      {"level in (0, 1)", true},
      {"level = 2", false},
      {"arg(dim) = 1", true},
      {"arg(dim) = 1.0", true},
      {"arg(dim) = '1'", false},
      {"arg(dim)", true},
      {"arg(dims)", false},
      {"arg(dims) != 1", false},
      {"arg(0)", true},
      {"arg(0) = 1", false},
      {"arg(1) < 0", true},
      {"arg(1) in (-1, 1)", true},
      {"arg(10)", false},
      {"arg(2) = mean", true},
      {"arg(2) ~ m*n", true},
      {"arg(2) > 1", false},
      {"arg(eps) < 1e-4", true},
      {"arg(eps) = 1e-5", true},
      {"arg(out) = none", true},
      {"arg(out) = 0", false},
      {"arg(keepdim) = true", true},
      {"arg(keepdim) = 1", false},
      {"arg(dtype) = torch.float16", true},
      {"arg(dtype) = float16", true},
      {"arg(sizes) = [2, *]", true},
      {"arg(sizes) = [2]", false},
      {"arg('not a name') = 2", true},
      {"call = 99", true},
      {"thread = 7", true},
      {"thread_name ~ pt_autograd*", true},
      {"process = 'rank 3 (12)'", true},
      {"pid = 12", true},
      {"host = node1", true},
      {"rank = 3", true},
      {"rank != 3", false},
      {"label = resnet", true},
      {"depth > 1", true},
      {"tag(step) = 3", true},
      {"tag('step') > 2 and tag(step) < 3.5", true},
      {"tag(step) = '3'", false},
      {"tag(step) in (1, 2)", false},
      {"tag(phase) = eval", true},
      {"tag(phase) ~ ev*", true},
      {"tag(phase) != train", true},
      {"tag(lr) = 0.5", true},
      {"tag(last)", true},
      {"tag(last) = false", true},
      {"tag(epoch)", false},
      {"tag(epoch) != 3", false},
      {"tag(7) = 'x y'", true},
      {"raised", true},
      {"returned", false},
      {"exception = ValueError", true},
      {"duration > 10us", true},
      {"duration > 12.5us", false},
      {"duration = 12500", true},
      {"duration < 1ms and duration >= 12500ns and duration<1s", true},
      {"level = 2 or level = 1", true},
      {"level = 2 or level = 1 and dtype = bool", false},
      {"(level = 2 or level = 1) and dtype = float32", true},
      {"not not level = 1", true},
      {"not level = 2 and level = 1", true},
      {"  level=1  ", true},
  };
  const Subject of;
  for (const auto& row : kRows) {
    const absl::StatusOr<Where> where = Where::Parse(row.text);
    ASSERT_TRUE(where.ok()) << row.text << ": " << where.status();
    EXPECT_EQ(where->Ask(of.subject), row.holds ? Truth::kTrue : Truth::kFalse) << row.text;
    // ToString() parses to the same condition.
    const absl::StatusOr<Where> again = Where::Parse(where->ToString());
    ASSERT_TRUE(again.ok()) << where->ToString() << ": " << again.status();
    EXPECT_EQ(again->ToString(), where->ToString());
    EXPECT_EQ(again->Ask(of.subject), where->Ask(of.subject)) << row.text;
  }
}

TEST(Where, AnswersAsSoonAsItCan) {
  const Subject of;
  WhereSubject config_only;
  config_only.config = &of.config;
  config_only.facets = &of.facets;
  WhereSubject entered = of.subject;
  entered.ended = false;
  const struct {
    const char* text;
    Truth with_config;
    Truth with_entry;
  } kRows[] = {
      {"level = 1", Truth::kTrue, Truth::kTrue},
      {"thread = 7", Truth::kUnknown, Truth::kTrue},
      {"tag(step) = 3", Truth::kUnknown, Truth::kTrue},
      {"level = 2 and thread = 7", Truth::kFalse, Truth::kFalse},
      {"thread = 7 and level = 2", Truth::kFalse, Truth::kFalse},
      {"level = 1 or raised", Truth::kTrue, Truth::kTrue},
      {"not raised", Truth::kUnknown, Truth::kUnknown},
      {"all(raised or dtype ~ float*)", Truth::kTrue, Truth::kTrue},
      {"all(raised or dtype = float16)", Truth::kUnknown, Truth::kUnknown},
      {"any(raised and dtype = int64)", Truth::kFalse, Truth::kFalse},
  };
  for (const auto& row : kRows) {
    const Where where = Where::Parse(row.text).value();
    EXPECT_EQ(where.Ask(config_only), row.with_config) << row.text;
    EXPECT_EQ(where.Ask(entered), row.with_entry) << row.text;
  }
  EXPECT_FALSE(Where::Parse("level = 1")->needs_call());
  EXPECT_TRUE(Where::Parse("rank = 1")->needs_call());
  EXPECT_FALSE(Where::Parse("rank = 1")->needs_end());
  EXPECT_TRUE(Where::Parse("raised")->needs_end());
}

TEST(Where, WhatIsNotKnownHoldsNothing) {
  const Config config = MakeConfig(2, "aten::add", {});
  const std::vector<TensorFacet> facets;
  ProcessInfo process;
  CallRecord entry;
  WhereSubject subject;
  subject.config = &config;
  subject.facets = &facets;
  subject.entry = &entry;
  subject.process = &process;
  subject.ended = true;
  for (const char* const text : {"dtype = float16", "dtype != float16", "all(dtype = float16)", "all(level = 2)",
                                 "rank != 1", "label ~ *", "exception != X", "duration >= 0", "raised", "returned",
                                 "thread_name ~ *", "pid > 0", "arg(0) != 1", "tag(step) != 1"}) {
    EXPECT_EQ(Where::Parse(text)->Ask(subject), Truth::kFalse) << text;
  }
}

TEST(Where, ErrorsNameTheColumn) {
  const struct {
    const char* text;
    const char* message;
  } kRows[] = {
      {"",
       "column 1: expected a field (api, level, nargs, arg, dtype, device, ndim, numel, shape, size, stride, "
       "contiguous, layout, requires_grad, subclass, call, thread, thread_name, process, pid, host, rank, label, "
       "depth, tag, returned, raised, exception, duration), found the end"},
      {"dtpye = float16", "column 1: expected a field (did you mean dtype?), found \"dtpye\""},
      {"dtype", "column 6: expected one of = != ~ !~ in behind dtype, found the end"},
      {"dtype float16", "column 7: expected one of = != ~ !~ in behind dtype, found \"float16\""},
      {"dtype < float16", "column 7: expected one of = != ~ !~ in behind dtype, found \"<\""},
      {"dtype =", "column 8: expected a text, found the end"},
      {"dtype = [2]", "column 9: expected a text, found \"[\""},
      {"ndim ~ 3", "column 6: expected one of = != < <= > >= in behind ndim, found \"~\""},
      {"ndim = three", "column 8: expected a number, found \"three\""},
      {"ndim = '3'", "column 8: expected a number, found \"'\""},
      {"contiguous = yes", "column 14: expected true or false, found \"yes\""},
      {"contiguous < 3", "column 12: expected one of = != behind contiguous, found \"<\""},
      {"shape = 3", "column 9: expected sizes, as [2, *], found \"3\""},
      {"shape = [3", "column 11: expected , or ], found the end"},
      {"shape = [x]", "column 10: expected a size or *, found \"x\""},
      {"size = 3", "column 6: expected ( and a dimension, as in size(0), found \"=\""},
      {"size(x) = 3", "column 6: expected a dimension, as in size(0), found \"x\""},
      {"arg(-1) = 3", "column 5: expected a name or a position, as in arg(dim) or arg(0), found \"-1\""},
      {"arg(dim = 3", "column 9: expected ), found \"=\""},
      {"arg(dim) < x", "column 12: expected a number, found \"x\""},
      {"tag = 3", "column 5: expected ( and a name, as in tag(step), found \"=\""},
      {"tag([1]) = 3", "column 5: expected a name, as in tag(step), found \"[\""},
      {"duration > 3h", "column 12: expected a duration, as 10us, found \"3h\""},
      {"level in 1", "column 10: expected ( and a list of values, found \"1\""},
      {"level in (1", "column 12: expected , or ), found the end"},
      {"level not 1", "column 11: expected in, found \"1\""},
      {"(level = 1", "column 11: expected and, or, or ), found the end"},
      {"level = 1)", "column 10: expected and, or, or the end, found \")\""},
      {"level = 1 level = 2", "column 11: expected and, or, or the end, found \"level\""},
      {"any level = 1", "column 5: expected ( behind any, found \"level\""},
      {"dtype = 'x", "column 11: expected a closing ', found the end"},
      {"level = 1 and", "column 14: expected a field"},
  };
  for (const auto& row : kRows) {
    const absl::StatusOr<Where> where = Where::Parse(row.text);
    ASSERT_FALSE(where.ok()) << row.text;
    EXPECT_THAT(std::string(where.status().message()), testing::StartsWith(row.message)) << row.text;
  }
  EXPECT_THAT(std::string(Where::Parse(std::string(100'000, '(')).status().message()),
              testing::StartsWith("column 202: expected less nesting"));
}

}  // namespace
}  // namespace torchtrace
