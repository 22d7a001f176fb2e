#include <c10/core/TensorImpl.h>

#include <string>

#include "dialects/torch/describe/describe.h"
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

TEST(DescribeTensor, Undefined) { EXPECT_EQ(Describe(at::Tensor()), "Tensor(undefined)"); }

}  // namespace
}  // namespace torchtrace::torch_dialect
