// Kernels on level 2's dispatch key for the operators that programs call most. They take their arguments as C++ passes
// them; the key's fallback takes boxed ones, and boxing costs as much as describing them. Both record the same.

#ifndef TORCHTRACE_DIALECTS_TORCH_DISPATCH_UNBOXED_OPERATORS_H_
#define TORCHTRACE_DIALECTS_TORCH_DISPATCH_UNBOXED_OPERATORS_H_

#include <ATen/ops/_local_scalar_dense_ops.h>
#include <ATen/ops/_log_softmax_backward_data_ops.h>
#include <ATen/ops/_log_softmax_ops.h>
#include <ATen/ops/_reshape_alias_ops.h>
#include <ATen/ops/_softmax_backward_data_ops.h>
#include <ATen/ops/_softmax_ops.h>
#include <ATen/ops/_to_copy_ops.h>
#include <ATen/ops/_unsafe_view_ops.h>
#include <ATen/ops/abs_ops.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/addcdiv_ops.h>
#include <ATen/ops/addcmul_ops.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/alias_ops.h>
#include <ATen/ops/arange_ops.h>
#include <ATen/ops/as_strided_ops.h>
#include <ATen/ops/baddbmm_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/clone_ops.h>
#include <ATen/ops/convolution_backward_ops.h>
#include <ATen/ops/convolution_ops.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/detach_ops.h>
#include <ATen/ops/div_ops.h>
#include <ATen/ops/embedding_dense_backward_ops.h>
#include <ATen/ops/embedding_ops.h>
#include <ATen/ops/empty_like_ops.h>
#include <ATen/ops/empty_ops.h>
#include <ATen/ops/empty_strided_ops.h>
#include <ATen/ops/eq_ops.h>
#include <ATen/ops/exp_ops.h>
#include <ATen/ops/expand_ops.h>
#include <ATen/ops/fill_ops.h>
#include <ATen/ops/gelu_backward_ops.h>
#include <ATen/ops/gelu_ops.h>
#include <ATen/ops/gt_ops.h>
#include <ATen/ops/lerp_ops.h>
#include <ATen/ops/log_ops.h>
#include <ATen/ops/masked_fill_ops.h>
#include <ATen/ops/max_pool2d_with_indices_ops.h>
#include <ATen/ops/mean_ops.h>
#include <ATen/ops/mm_ops.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/native_layer_norm_backward_ops.h>
#include <ATen/ops/native_layer_norm_ops.h>
#include <ATen/ops/neg_ops.h>
#include <ATen/ops/new_zeros_ops.h>
#include <ATen/ops/nll_loss_backward_ops.h>
#include <ATen/ops/nll_loss_forward_ops.h>
#include <ATen/ops/ones_like_ops.h>
#include <ATen/ops/permute_ops.h>
#include <ATen/ops/pow_ops.h>
#include <ATen/ops/relu_ops.h>
#include <ATen/ops/rsqrt_ops.h>
#include <ATen/ops/select_ops.h>
#include <ATen/ops/sigmoid_backward_ops.h>
#include <ATen/ops/sigmoid_ops.h>
#include <ATen/ops/silu_backward_ops.h>
#include <ATen/ops/silu_ops.h>
#include <ATen/ops/slice_ops.h>
#include <ATen/ops/split_ops.h>
#include <ATen/ops/sqrt_ops.h>
#include <ATen/ops/squeeze_ops.h>
#include <ATen/ops/sub_ops.h>
#include <ATen/ops/sum_ops.h>
#include <ATen/ops/t_ops.h>
#include <ATen/ops/tanh_backward_ops.h>
#include <ATen/ops/tanh_ops.h>
#include <ATen/ops/threshold_backward_ops.h>
#include <ATen/ops/transpose_ops.h>
#include <ATen/ops/unsqueeze_ops.h>
#include <ATen/ops/view_ops.h>
#include <ATen/ops/where_ops.h>
#include <ATen/ops/zero_ops.h>
#include <ATen/ops/zeros_like_ops.h>
#include <torch/library.h>

namespace torchtrace::torch_dialect {

// Calls `add(Operator())` for each, an at::_ops struct. None of them is composite: a composite operator reaches the key
// only in inference mode.
template <typename Add>
void ForEachUnboxedOperator(Add&& add) {
  add(at::_ops::add_Tensor());
  add(at::_ops::add__Tensor());
  add(at::_ops::sub_Tensor());
  add(at::_ops::sub__Tensor());
  add(at::_ops::mul_Tensor());
  add(at::_ops::mul_Scalar());
  add(at::_ops::mul__Tensor());
  add(at::_ops::mul__Scalar());
  add(at::_ops::div_Tensor());
  add(at::_ops::div_Scalar());
  add(at::_ops::div__Tensor());
  add(at::_ops::div__Scalar());
  add(at::_ops::addmm());
  add(at::_ops::mm());
  add(at::_ops::bmm());
  add(at::_ops::baddbmm());
  add(at::_ops::addcmul());
  add(at::_ops::addcmul_());
  add(at::_ops::addcdiv());
  add(at::_ops::addcdiv_());
  add(at::_ops::lerp__Scalar());
  add(at::_ops::t());
  add(at::_ops::transpose_int());
  add(at::_ops::view());
  add(at::_ops::_unsafe_view());
  add(at::_ops::_reshape_alias());
  add(at::_ops::expand());
  add(at::_ops::permute());
  add(at::_ops::unsqueeze());
  add(at::_ops::squeeze_dim());
  add(at::_ops::slice_Tensor());
  add(at::_ops::select_int());
  add(at::_ops::as_strided());
  add(at::_ops::alias());
  add(at::_ops::detach());
  add(at::_ops::split_Tensor());
  add(at::_ops::clone());
  add(at::_ops::copy_());
  add(at::_ops::_to_copy());
  add(at::_ops::empty_memory_format());
  add(at::_ops::empty_strided());
  add(at::_ops::empty_like());
  add(at::_ops::zeros_like());
  add(at::_ops::ones_like());
  add(at::_ops::new_zeros());
  add(at::_ops::fill__Scalar());
  add(at::_ops::zero_());
  add(at::_ops::relu());
  add(at::_ops::relu_());
  add(at::_ops::threshold_backward());
  add(at::_ops::gelu());
  add(at::_ops::gelu_backward());
  add(at::_ops::silu());
  add(at::_ops::silu_backward());
  add(at::_ops::sigmoid());
  add(at::_ops::tanh());
  add(at::_ops::tanh_backward());
  add(at::_ops::sigmoid_backward());
  add(at::_ops::_softmax());
  add(at::_ops::_softmax_backward_data());
  add(at::_ops::_log_softmax());
  add(at::_ops::_log_softmax_backward_data());
  add(at::_ops::nll_loss_forward());
  add(at::_ops::nll_loss_backward());
  add(at::_ops::native_layer_norm());
  add(at::_ops::native_layer_norm_backward());
  add(at::_ops::sum());
  add(at::_ops::sum_dim_IntList());
  add(at::_ops::mean());
  add(at::_ops::mean_dim());
  add(at::_ops::pow_Tensor_Scalar());
  add(at::_ops::sqrt());
  add(at::_ops::sqrt_());
  add(at::_ops::rsqrt());
  add(at::_ops::neg());
  add(at::_ops::exp());
  add(at::_ops::log());
  add(at::_ops::abs());
  add(at::_ops::embedding());
  add(at::_ops::embedding_dense_backward());
  add(at::_ops::convolution());
  add(at::_ops::convolution_backward());
  add(at::_ops::max_pool2d_with_indices());
  add(at::_ops::eq_Tensor());
  add(at::_ops::eq_Scalar());
  add(at::_ops::gt_Scalar());
  add(at::_ops::where_self());
  add(at::_ops::masked_fill_Scalar());
  add(at::_ops::_local_scalar_dense());
  add(at::_ops::arange_start_step());
}

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DISPATCH_UNBOXED_OPERATORS_H_
