#include "serialize/diff/recomputed_diff.h"

#include <functional>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/diff/one_trace_test.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using testing::HasSubstr;

Config Relu(std::vector<Dim> shape) { return MakeConfig(1, "torch.relu", {TensorValue(std::move(shape))}); }
Config Tanh() { return MakeConfig(1, "torch.tanh", {TensorValue({4})}); }
Config Grad(bool on) {
  return MakeConfig(1, "torch._C._set_grad_enabled", {NamedValue(on ? ValueTag::kTrue : ValueTag::kFalse)});
}
Config Module(const std::string& path) {
  return MakeConfig(3, "m.Block", {}, {{"path", TextValue(path)}, {"model", TextValue("Net_0")}});
}
Config Operator(const std::string& api, std::vector<Dim> shape) {
  return MakeConfig(2, api, {TensorValue(std::move(shape))});
}
std::string Fingerprint(uint64_t fingerprint) {
  TensorNote note;
  note.numbers = TensorNote::Numbers{.finite = 4, .norm = 2, .fingerprint = fingerprint};
  std::string bytes;
  AppendTensorNote(note, &bytes);
  return bytes;
}

class RecomputedDiffTest : public OneTraceTest<WriteRecomputedDiff> {
 protected:
  RecomputedDiffTest() { trace_.process(0).known.levels = {1, 2, 3}; }

  // A forward run and a backward pass that does `again`, without reentry: it stops with its last call.
  void Train(const std::function<void()>& forward, const std::function<void()>& again) {
    forward();
    trace_.Call(MakeConfig(1, "torch.Tensor.sum", {TensorValue({4})}));
    trace_.Enter(MakeConfig(1, "torch.Tensor.backward", {TensorValue({})}));
    trace_.Call(Operator("aten::ones_like", {}));
    trace_.Call(Grad(true));
    again();
    trace_.Call(Grad(false));
    trace_.Call(Operator("aten::threshold_backward", {4}));
    trace_.Leave();
  }
  // A call of a function with an operator in it.
  void CallBoth(const Config& function, const std::string& op, std::vector<Dim> shape) {
    trace_.Enter(function);
    trace_.Call(Operator(op, std::move(shape)));
    trace_.Leave();
  }
  // Of the only region.
  nlohmann::json Differences() {
    const nlohmann::json json = Json();
    EXPECT_EQ(json["regions"].size(), size_t{1}) << json;
    return json["regions"].empty() ? nlohmann::json() : json["regions"][0]["differences"];
  }
};

TEST_F(RecomputedDiffTest, TheSame) {
  const auto run = [&] {
    CallBoth(Relu({4}), "aten::relu", {4});
    CallBoth(Tanh(), "aten::tanh", {4});
  };
  Train(run, run);
  EXPECT_EQ(Text(), "same\n1 recomputed region, 4 calls compared with the forward run: all the same\n");
}

TEST_F(RecomputedDiffTest, TheFirstCallThatDiffers) {
  Train(
      [&] {
        trace_.Enter(Module("blocks.1"));
        trace_.Call(Tanh());
        trace_.Call(Relu({4}));
        trace_.Leave();
      },
      [&] {
        trace_.Enter(Module("blocks.1"));
        trace_.Call(Tanh());
        trace_.Call(Relu({5}));
        trace_.Leave();
      });
  const nlohmann::json differences = Differences();
  ASSERT_EQ(differences.size(), size_t{1});
  EXPECT_EQ(differences[0]["in"], nlohmann::json({"shape"}));
  EXPECT_EQ(differences[0]["forward"]["call"], 2);
  EXPECT_EQ(differences[0]["recomputed"]["call"], 9);
  EXPECT_EQ(differences[0]["recomputed"]["module"], "blocks.1 (Block)");
  EXPECT_THAT(Text(), HasSubstr("recomputed blocks.1 (Block): calls 8-9, forward 1-2\n"));
}

TEST_F(RecomputedDiffTest, MissingAndExtraCalls) {
  Train(
      [&] {
        trace_.Enter(Module("a"));
        for (const Config& config : {Tanh(), Relu({1}), Relu({2}), Relu({3})}) trace_.Call(config);
        trace_.Leave();
      },
      [&] {
        trace_.Enter(Module("a"));
        for (const Config& config : {Tanh(), Relu({2}), Relu({3}), Tanh()}) trace_.Call(config);
        trace_.Leave();
      });
  const nlohmann::json differences = Differences();
  ASSERT_EQ(differences.size(), size_t{2}) << differences;
  EXPECT_EQ(differences[0]["in"], nlohmann::json({"missing"}));
  EXPECT_EQ(differences[0]["recomputed"], nullptr);
  EXPECT_EQ(differences[1]["in"], nlohmann::json({"extra"}));
  EXPECT_EQ(differences[1]["forward"], nullptr);
}

TEST_F(RecomputedDiffTest, AnEarlyStopIsNoDifference) {
  Train(
      [&] {
        trace_.Enter(Module("a"));
        for (const Config& config : {Tanh(), Relu({1}), Relu({2})}) trace_.Call(config);
        trace_.Leave();
      },
      [&] {
        trace_.Enter(Module("a"));
        trace_.Call(Tanh());
        trace_.Enter(Relu({1}));
        trace_.Raise("torch.utils.checkpoint._StopRecomputationError");
        trace_.Raise("torch.utils.checkpoint._StopRecomputationError");
      });
  EXPECT_EQ(Text(), "same\n1 recomputed region, 2 calls compared with the forward run: all the same\n");
}

TEST_F(RecomputedDiffTest, CallsThatAreLeftOutAtTheEndAreMissing) {
  Train(
      [&] {
        trace_.Enter(Module("a"));
        for (const Config& config : {Tanh(), Relu({1}), Relu({2})}) trace_.Call(config);
        trace_.Leave();
      },
      [&] {
        trace_.Enter(Module("a"));
        for (const Config& config : {Tanh(), Relu({1})}) trace_.Call(config);
        trace_.Leave();
      });
  EXPECT_EQ(Differences()[0]["in"], nlohmann::json({"missing"}));
}

TEST_F(RecomputedDiffTest, WhatCheckpointDetachesIsNotCompared) {
  const auto run = [&](bool again) {
    trace_.Enter(Relu({4}));
    trace_.Call(Operator("aten::relu", {4}));
    if (again) trace_.Call(Operator("aten::detach", {4}));
    trace_.Leave();
  };
  Train([&] { run(false); }, [&] { run(true); });
  EXPECT_THAT(Text(), HasSubstr("same\n"));
}

TEST_F(RecomputedDiffTest, SelectiveCheckpointsKeepResults) {
  Train([&] { CallBoth(Relu({4}), "aten::relu", {4}), CallBoth(Tanh(), "aten::tanh", {4}); },
        [&] { trace_.Call(Relu({4})), CallBoth(Tanh(), "aten::tanh", {4}); });
  EXPECT_THAT(Text(), HasSubstr("; 1 operator wasn't called again: selective checkpoints keep their results"));
}

TEST_F(RecomputedDiffTest, AnotherOperatorInTheSameFunctionIsADifference) {
  Train([&] { CallBoth(Relu({4}), "aten::relu", {4}), CallBoth(Tanh(), "aten::tanh", {4}); },
        [&] { CallBoth(Relu({4}), "aten::clamp", {4}), CallBoth(Tanh(), "aten::tanh", {4}); });
  EXPECT_EQ(Differences()[0]["in"], nlohmann::json({"missing"}));
}

TEST_F(RecomputedDiffTest, ALaterRegionIsTheEarlierForwardRun) {
  // Three alike, recomputed the last one first; the second is another one the second time.
  for (int i = 0; i < 3; ++i) trace_.Call(Relu({4})), trace_.Call(Tanh());
  trace_.Enter(MakeConfig(1, "torch.Tensor.backward", {TensorValue({})}));
  for (int i = 0; i < 3; ++i) {
    trace_.Call(Grad(true));
    trace_.Call(i == 1 ? Relu({5}) : Relu({4}));
    trace_.Call(Tanh());
    trace_.Call(Grad(false));
    trace_.Call(Operator("aten::mm", {4}));
  }
  trace_.Leave();
  const nlohmann::json json = Json();
  EXPECT_EQ(json["recomputed"], 3);
  EXPECT_EQ(json["differing"], 1);
  EXPECT_EQ(json["regions"][0]["forward"], nlohmann::json({2, 3}));
}

TEST_F(RecomputedDiffTest, APartWithoutGradientsIsNoEnd) {
  const auto run = [&] {
    trace_.Call(Relu({4}));
    trace_.Call(Grad(false));
    trace_.Call(Tanh());
    trace_.Call(Grad(true));
    trace_.Call(Relu({6}));
  };
  Train(run, run);
  EXPECT_EQ(Json()["calls"], 3);
  EXPECT_EQ(Json()["recomputed"], 1);
}

TEST_F(RecomputedDiffTest, Numbers) {
  const auto run = [&](uint64_t fingerprint) {
    trace_.Enter(Relu({4}));
    trace_.Return({TensorValue({4})}, Fingerprint(fingerprint));
  };
  Train([&] { run(1); }, [&] { run(2); });
  EXPECT_EQ(Differences()[0]["in"], nlohmann::json({"numbers"}));
  EXPECT_THAT(Text(), HasSubstr("norm 2\n"));
}

TEST_F(RecomputedDiffTest, EqualNumbers) {
  const auto run = [&] {
    trace_.Enter(Relu({4}));
    trace_.Return({TensorValue({4})}, Fingerprint(3));
  };
  Train(run, run);
  EXPECT_THAT(Text(), HasSubstr("1 call compared with the forward run, 1 with numbers: all the same"));
}

// Blocks whose first call comes again in their middle, without storages.
TEST_F(RecomputedDiffTest, ARunBeginsAtItsFirstCall) {
  const auto block = [&] {
    const auto call = [&](const std::string& api, std::vector<Dim> shape) {
      trace_.Call(MakeConfig(1, api, {TensorValue(std::move(shape))}));
    };
    for (const char* api : {"norm", "linear", "view", "transpose", "chunk", "attend", "reshape"}) call(api, {4});
    for (const char* api : {"add", "norm", "linear", "gelu", "linear", "add"}) call(api, {16});
  };
  Train(
      [&] {
        block();
        block();
      },
      [&] {
        block();
        trace_.Call(Grad(false));
        trace_.Call(Operator("aten::threshold_backward", {4}));
        trace_.Call(Grad(true));
        block();
      });
  const nlohmann::json json = Json();
  EXPECT_EQ(json["recomputed"], 2);
  EXPECT_EQ(json["calls"], 26);
  EXPECT_FALSE(json["different"]) << json;
}

// Of what isn't written, contents are recorded too (run --values).
TEST_F(RecomputedDiffTest, ContentsOfMemoryThatNothingHasWritten) {
  const auto contents = [](const std::string& bytes, uint64_t storage, uint64_t tensor) {
    TensorNote note;
    note.identity = TensorNote::Identity{.tensor = tensor, .storage = storage};
    note.contents = bytes;
    std::string text;
    AppendTensorNote(note, &text);
    return text;
  };
  const auto run = [&](const std::string& bytes, uint64_t storage) {
    const std::string id = Identities({{.tensor = storage, .storage = storage}});
    trace_.Enter(Operator("aten::empty_like", {1}));
    trace_.Return({TensorValue({1})}, contents(bytes, storage, storage));
    trace_.Enter(Operator("aten::view", {1}), "", id);
    trace_.Return({TensorValue({1})}, contents(bytes, storage, storage + 1));
    trace_.Enter(Operator("aten::fill_.Scalar", {1}), "", id);
    trace_.Return({TensorValue({1})}, contents("same", storage, storage));
  };
  Train([&] { run("abcd", 10); }, [&] { run("efgh", 20); });
  const nlohmann::json json = Json();
  EXPECT_EQ(json["calls"], 3);
  EXPECT_EQ(json["calls_with_numbers"], 1);
  EXPECT_FALSE(json["different"]);
}

TEST_F(RecomputedDiffTest, ModulesAloneTell) {
  trace_.process(0).known.levels = {2, 3};
  const auto block = [&](std::vector<Dim> shape) {
    trace_.Enter(Module("blocks.0"));
    trace_.Call(Operator("aten::relu", std::move(shape)));
    trace_.Leave();
  };
  trace_.Enter(Module("Net_0"));
  block({4});
  trace_.Leave();
  trace_.Call(Operator("aten::mm", {4}));
  block({5});
  EXPECT_EQ(Json()["known_by"], "modules");
  EXPECT_EQ(Differences()[0]["in"], nlohmann::json({"shape"}));
}

TEST_F(RecomputedDiffTest, WhatIsNotCompared) {
  EXPECT_THAT(Text(), HasSubstr("error: nothing was recomputed"));
  Train([&] {}, [&] { trace_.Call(Tanh()); });
  EXPECT_THAT(Text(), HasSubstr("error: of 1 recomputed region the trace has no forward run"));
  trace_.process(0).known.levels = {2};
  EXPECT_THAT(Text(), HasSubstr("error: the trace doesn't tell what was recomputed: record levels 1, 2 and 3"));
}

}  // namespace
}  // namespace torchtrace
