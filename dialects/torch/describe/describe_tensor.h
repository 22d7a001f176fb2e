// Describes a tensor by its metadata, passively: nothing here is virtual in a
// way that could reach Python, adds a guard, throws or needs the GIL.

#ifndef TORCHTRACE_DIALECTS_TORCH_DESCRIBE_DESCRIBE_TENSOR_H_
#define TORCHTRACE_DIALECTS_TORCH_DESCRIBE_DESCRIBE_TENSOR_H_

#include <ATen/core/Tensor.h>

#include <string_view>

#include "serialize/model/config_builder.h"

namespace torchtrace::torch_dialect {

// `device` overrides the tensor's own when not empty (fake tensors).
void DescribeTensor(const at::Tensor& tensor, std::string_view subclass, ConfigBuilder* config,
                    std::string_view device = {});

// The value behind a number that PyTorch wrapped into a 0-d tensor (`x + 1e-12`),
// as a number. False, and nothing appended, for any other tensor.
bool DescribeWrappedNumber(const at::Tensor& tensor, ConfigBuilder* config);

// "float32", "cuda:0", "strided", "channels_last"; "unknown" for what
// this version of torch does not name.
std::string_view DtypeName(c10::ScalarType type);
std::string DeviceName(c10::Device device);
std::string_view LayoutName(c10::Layout layout);
std::string_view MemoryFormatName(c10::MemoryFormat format);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DESCRIBE_DESCRIBE_TENSOR_H_
