// Tensors that PyTorch takes for CUDA's, in the CPU's memory, for stand_in_cuda.py. The library also contains the
// stand-in for CUDA's driver (dialects/torch/device_numbers/testing/).

#include "dialects/torch/device_numbers/testing/stand_in_cuda.h"

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

at::Tensor Make(double value) {
  constexpr size_t kElements = 4;
  auto* const data = new float[kElements];
  std::fill(data, data + kElements, static_cast<float>(value));
  c10::DataPtr pointer(data, data, [](void* memory) { delete[] static_cast<float*>(memory); }, {c10::kCUDA, 0});
  c10::Storage storage(c10::Storage::use_byte_size_t(), kElements * sizeof(float), std::move(pointer), nullptr, false);
  auto impl = c10::make_intrusive<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                                   caffe2::TypeMeta::Make<float>());
  impl->set_sizes_contiguous({static_cast<int64_t>(kElements)});
  return at::Tensor(std::move(impl));
}
double First(const at::Tensor& tensor) { return *static_cast<const float*>(tensor.data_ptr()); }
at::Tensor Log(const at::Tensor& tensor) { return Make(std::log(First(tensor))); }

TORCH_LIBRARY(stand_in, library) {
  library.def("make(float value) -> Tensor", &Make);
  library.def("log(Tensor tensor) -> Tensor");
}
TORCH_LIBRARY_IMPL(stand_in, CUDA, library) { library.impl("log", &Log); }

int g_stream;
// How torchtrace asks PyTorch for a stream.
extern "C" int aoti_torch_get_current_cuda_stream(int, void** stream) {
  *stream = &g_stream;
  return 0;
}

extern "C" torchtrace::torch_dialect::StandInCuda* stand_in_cuda();
extern "C" void hold_work() { stand_in_cuda()->holds = true; }
extern "C" void release_work() {
  stand_in_cuda()->holds = false;
  stand_in_cuda()->release(&g_stream, SIZE_MAX);
}
