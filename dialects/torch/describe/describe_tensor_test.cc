#include <c10/core/TensorImpl.h>

#include <string>
#include <vector>

#include "dialects/torch/describe/describe.h"
#include "dialects/torch/describe/tensor_notes.h"
#include "gtest/gtest.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"

namespace torchtrace::torch_dialect {
namespace {

std::string Describe(const at::Tensor& tensor) {
  ConfigBuilder config;
  config.Begin(ConfigBuilder::EncodeHead(2, "f"));
  config.Positional(1);
  if (!DescribeWrappedNumber(tensor, &config)) DescribeTensor(tensor, {}, &config);
  config.Keywords(0);
  const absl::StatusOr<Config> parsed = ParseConfig(config.bytes()->view());
  return parsed.ok() ? FormatValue(parsed->args[0]) : std::string(parsed.status().message());
}

at::Tensor Empty(caffe2::TypeMeta type) {
  return at::Tensor(
      c10::make_intrusive<c10::TensorImpl>(c10::DispatchKeySet(c10::DispatchKey::CPU), type, c10::Device(c10::kCPU)));
}

TEST(DescribeTensor, EveryDtypeHasAName) {
  EXPECT_EQ(Describe(Empty(caffe2::TypeMeta::Make<float>())), R"(Tensor([0], "float32"))");
  // A type without a torch.dtype, for which typeMetaToScalarType throws.
  EXPECT_EQ(Describe(Empty(caffe2::TypeMeta::Make<std::string>())), R"(Tensor([0], "unknown"))");
  at::Tensor wrapped = Empty(caffe2::TypeMeta::Make<std::string>());
  wrapped.unsafeGetTensorImpl()->set_sizes_contiguous({});
  wrapped.unsafeGetTensorImpl()->set_wrapped_number(true);
  EXPECT_EQ(Describe(wrapped), R"(Tensor([], "unknown"))");
}

std::string KeyOf(const at::Tensor& tensor) {
  CallKey key;
  key.Begin(1);
  if (!DescribeWrappedNumber(tensor, &key)) DescribeTensor(tensor, 0, &key);
  return key.valid() ? std::string(key.bytes()) : "";
}

TEST(DescribeTensor, KeysDifferAsDescriptionsDo) {
  std::vector<at::Tensor> tensors = {at::Tensor()};
  const auto add = [&](c10::DispatchKey key, caffe2::TypeMeta type, c10::Device device) -> c10::TensorImpl& {
    tensors.emplace_back(c10::make_intrusive<c10::TensorImpl>(c10::DispatchKeySet(key), type, device));
    return *tensors.back().unsafeGetTensorImpl();
  };
  const caffe2::TypeMeta kFloat = caffe2::TypeMeta::Make<float>();
  for (const auto type : {kFloat, caffe2::TypeMeta::Make<double>(), caffe2::TypeMeta::Make<std::string>()}) {
    for (const auto& sizes : std::vector<std::vector<int64_t>>{{}, {0}, {1}, {2, 3}, {3, 2}, {2, 3, 1}, {6}}) {
      add(c10::DispatchKey::CPU, type, c10::kCPU).set_sizes_contiguous(sizes);
    }
  }
  for (const auto& strides : std::vector<std::vector<int64_t>>{{3, 1}, {1, 2}, {6, 2}, {0, 0}}) {
    add(c10::DispatchKey::CPU, kFloat, c10::kCPU).set_sizes_and_strides({2, 3}, strides);
  }
  add(c10::DispatchKey::Meta, kFloat, c10::kMeta);
  add(c10::DispatchKey::CUDA, kFloat, c10::Device(c10::kCUDA, 0));
  add(c10::DispatchKey::CUDA, kFloat, c10::Device(c10::kCUDA, 1));
  add(c10::DispatchKey::CPU, kFloat, c10::Device(c10::kCPU, 0));
  for (const at::Tensor& a : tensors) {
    EXPECT_NE(KeyOf(a), "") << Describe(a);
    for (const at::Tensor& b : tensors) EXPECT_EQ(KeyOf(a) == KeyOf(b), Describe(a) == Describe(b)) << Describe(a);
  }
}

TEST(DescribeTensor, UnusualTensorsHaveNoKey) {
  for (const auto key : {c10::DispatchKey::SparseCPU, c10::DispatchKey::SparseCsrCPU, c10::DispatchKey::MkldnnCPU,
                         c10::DispatchKey::NestedTensorCPU, c10::DispatchKey::FuncTorchGradWrapper,
                         c10::DispatchKey::FuncTorchBatched}) {
    const at::Tensor tensor(c10::make_intrusive<c10::TensorImpl>(
        c10::DispatchKeySet(key), caffe2::TypeMeta::Make<float>(), c10::Device(c10::kCPU)));
    EXPECT_EQ(KeyOf(tensor), "") << key;
  }
  const at::Tensor overridden = Empty(caffe2::TypeMeta::Make<float>());
  overridden.unsafeGetTensorImpl()->set_python_dispatch(true);
  EXPECT_EQ(KeyOf(overridden), "");
  const at::Tensor noted = Empty(caffe2::TypeMeta::Make<float>());
  g_tensor_notes_wanted = true;
  EXPECT_EQ(KeyOf(noted), "");
  g_tensor_notes_wanted = false;
  EXPECT_NE(KeyOf(noted), "");
}

TEST(DescribeTensor, Undefined) { EXPECT_EQ(Describe(at::Tensor()), "Tensor(undefined)"); }

}  // namespace
}  // namespace torchtrace::torch_dialect
