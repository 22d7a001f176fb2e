#include "serialize/diff/rank_parameters.h"

#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/diff/one_trace_test.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kWeight = 1, kBias = 2;

// Two or more ranks, each with a weight and a bias.
class RankParametersTest : public OneTraceTest<WriteRankDiff> {
 protected:
  RankParametersTest() : OneTraceTest(nlohmann::json{{"numbers", "all"}}) {
    for (int64_t rank = 0; rank < 2; ++rank) {
      const uint32_t process = rank == 0 ? 0 : trace_.AddProcess(nlohmann::json{{"numbers", "all"}});
      trace_.process(process).known.ranked = {rank, 2};
      trace_.process(process).known.role = "child";
      trace_.process(process).known.levels = {1, 2};
    }
  }

  static std::string Note(uint64_t tensor, uint64_t fingerprint) {
    std::string bytes;
    TensorNote note = {.position = 0, .identity = TensorNote::Identity{tensor, tensor, 0}};
    note.numbers = TensorNote::Numbers{.fingerprint = fingerprint};
    AppendTensorNote(note, &bytes);
    return bytes;
  }
  static Config Scope(const std::string& name) {
    return MakeConfig(2, "profiler::_record_function_enter_new", {TextValue(name)});
  }
  void Reduce(std::vector<Dim> shape, const std::string& group = "0") {
    trace_.Call(MakeConfig(2, "_c10d_functional::all_reduce",
                           {TensorValue(std::move(shape)), TextValue("sum"), TextValue(group)}));
  }
  void Write(uint64_t tensor, uint64_t before, uint64_t after) {
    const Value value = tensor == kWeight ? TensorValue({4, 2}) : TensorValue({4});
    const std::string facets = {1, 0, 1};  // one, of the first tensor: requires_grad
    trace_.Enter(MakeConfig(2, "aten::add_.Tensor", {value}), facets, Note(tensor, before));
    trace_.Return({value}, Note(tensor, after));
  }
  // A step on a rank, from these fingerprints to the next ones.
  void Step(uint32_t rank, uint64_t weight, uint64_t bias) {
    trace_.In(rank, 0);
    trace_.Call(Scope("Optimizer.step#SGD.step"));
    Write(kWeight, weight, weight + 1);
    Write(kBias, bias, bias + 1);
    trace_.Call(MakeConfig(2, "profiler::_record_function_exit._RecordFunction"));
  }
  void ReducedStep(uint32_t rank, uint64_t weight, uint64_t bias) {
    trace_.In(rank, 0);
    Reduce({12});
    Step(rank, weight, bias);
  }
};

TEST_F(RankParametersTest, TheSame) {
  for (uint64_t step = 0; step < 2; ++step) {
    for (const uint32_t rank : {0, 1}) ReducedStep(rank, 10 + step, 20 + step);
  }
  EXPECT_EQ(Text(),
            "same\ndefault group, ranks 0, 1: 2 collectives, the same\n"
            "default group, ranks 0, 1: 2 parameters, 2 updates, the same\n");
}

TEST_F(RankParametersTest, TheFirstStepAfterWhichTheyDiffer) {
  for (const uint32_t rank : {0, 1}) ReducedStep(rank, 10, 20);
  for (const uint32_t rank : {0, 1}) {
    trace_.In(rank, 0);
    Reduce({12});
    trace_.Call(Scope("Optimizer.step#SGD.step"));
    Write(kWeight, 11, 12);
    Write(kBias, 21, 30 + rank);
    trace_.Call(MakeConfig(2, "profiler::_record_function_exit._RecordFunction"));
  }
  ReducedStep(0, 50, 60);
  ReducedStep(1, 51, 61);
  const std::string text = Text();
  EXPECT_THAT(text,
              HasSubstr("different\ndefault group, ranks 0, 1: parameters differ after optimizer step 2: 1 of 2"));
  EXPECT_THAT(text, HasSubstr("2. Tensor([4], \"float32\")"));
  EXPECT_THAT(text, HasSubstr("000000000000001e"));
  EXPECT_THAT(text, HasSubstr("000000000000001f"));
}

TEST_F(RankParametersTest, TheyDifferFromTheBeginning) {
  ReducedStep(0, 10, 20);
  ReducedStep(1, 11, 20);
  EXPECT_THAT(Text(), HasSubstr("parameters differ before optimizer step 1: 1 of 2"));
}

TEST_F(RankParametersTest, ASkippedStep) {
  for (uint64_t step = 0; step < 3; ++step) ReducedStep(0, 10 + step, 20 + step);
  trace_.In(1, 0);
  ReducedStep(1, 10, 20);
  Reduce({12});
  ReducedStep(1, 11 + 5, 21 + 5);
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("parameters differ before optimizer step 2: 2 of 2"));
  EXPECT_THAT(text, HasSubstr("rank 1 updates it 2 times in all, rank 0 3 times\n"));
}

TEST_F(RankParametersTest, ParametersThatNothingShares) {
  for (const uint32_t rank : {0, 1}) {
    trace_.In(rank, 0);
    Reduce({1});
    Step(rank, 10 * rank, 20);
  }
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("same\n"));
  EXPECT_THAT(text,
              HasSubstr("note: default group, ranks 0, 1: 1 parameter that differs is not compared: nothing shows"));
  EXPECT_THAT(text, Not(HasSubstr("differ after")));
}

TEST_F(RankParametersTest, OfDistributedDataParallelThoseThatBeginAlike) {
  for (const uint32_t rank : {0, 1}) {
    trace_.In(rank, 0);
    trace_.Call(Scope("DistributedDataParallel.forward"));
    trace_.Call(MakeConfig(2, "profiler::_record_function_exit._RecordFunction"));
    Reduce({3});
    Step(rank, 10 + rank, 20);
    Step(rank, 11 + rank, 21 + rank);
  }
  // The weight may be a shard.
  EXPECT_THAT(Text(), HasSubstr("parameters differ before optimizer step 2: 1 of 1"));
}

TEST_F(RankParametersTest, OnlyRanksOfTheGroupThatReduces) {
  for (const uint32_t rank : {0, 1}) {
    trace_.In(rank, 0);
    Reduce({12}, absl::StrCat("alone ", rank));
    Step(rank, 10 + rank, 20);
  }
  EXPECT_THAT(Text(), HasSubstr("same\n"));
}

TEST_F(RankParametersTest, APartUpdatedBySomeRanks) {
  for (const uint32_t rank : {0, 1}) {
    trace_.In(rank, 0);
    Reduce({12});
    trace_.Call(Scope("Optimizer.step#SGD.step"));
    if (rank == 0) Write(kWeight, 1, 2);
    Write(kBias, 3, 4);
    trace_.Call(MakeConfig(2, "profiler::_record_function_exit._RecordFunction"));
  }
  EXPECT_THAT(Text(), HasSubstr("1 parameter is not compared: not all ranks update one of that shape"));
}

TEST_F(RankParametersTest, WithoutNumbers) {
  nlohmann::json none = nlohmann::json::object();
  FakeTrace trace(none);
  const uint32_t other = trace.AddProcess(none);
  for (const uint32_t process : {uint32_t{0}, other}) {
    trace.process(process).known.ranked = {process, 2};
    trace.In(process, 0);
    trace.Call(MakeConfig(2, "_c10d_functional::all_reduce", {TensorValue({4}), TextValue("sum"), TextValue("0")}));
    trace.Call(Scope("Optimizer.step#SGD.step"));
    trace.Call(MakeConfig(2, "profiler::_record_function_exit._RecordFunction"));
  }
  std::ostringstream out;
  EXPECT_FALSE(*WriteRankDiff(&trace, {}, &out));
  EXPECT_THAT(out.str(),
              HasSubstr("note: parameters are not compared: their numbers weren't recorded (torchtrace run"));
}

}  // namespace
}  // namespace torchtrace
