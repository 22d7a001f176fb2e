// What torch's headers for CUDA use of CUDA's, for stand_in_c10_cuda.cpp.

#pragma once
#include <cstddef>
using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;
enum cudaError_t { cudaSuccess = 0, cudaErrorNotReady = 600, cudaErrorUnknown = 999 };
using cudaError = cudaError_t;
enum cudaMemcpyKind { cudaMemcpyHostToDevice };
enum cudaStreamCaptureMode { cudaStreamCaptureModeRelaxed, cudaStreamCaptureModeGlobal };
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone,
  cudaStreamCaptureStatusActive,
  cudaStreamCaptureStatusInvalidated
};
struct cudaDeviceProp {};
cudaError_t cudaMemcpyAsync(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus*);
cudaError_t cudaStreamGetPriority(cudaStream_t, int*);
cudaError_t cudaStreamQuery(cudaStream_t);
cudaError_t cudaDeviceGetStreamPriorityRange(int*, int*);
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*);
cudaError_t cudaMemGetInfo(size_t*, size_t*);
cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t);
template <typename... Any>
cudaError_t cudaStreamGetCaptureInfo(Any...);
