#include "dialects/torch/describe/object_numbers.h"

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/typeid.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace torchtrace::torch_dialect {
namespace {

at::Tensor Make() {
  return at::Tensor(c10::make_intrusive<c10::TensorImpl>(c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                         caffe2::TypeMeta::Make<float>(), c10::Device(c10::kCPU)));
}

uint64_t Number(const at::Tensor& tensor) { return NumberOf(*tensor.unsafeGetTensorImpl()); }

class ObjectNumbers : public testing::Test {
 protected:
  void SetUp() override { BeginObjectNumbers(); }
  void TearDown() override { EndObjectNumbers(); }
};

TEST_F(ObjectNumbers, AreOfOneObjectEach) {
  const at::Tensor a = Make(), b = Make(), again = a;
  EXPECT_EQ(Number(a), 1U);
  EXPECT_EQ(Number(b), 2U);
  EXPECT_EQ(Number(again), 1U);
  std::set<const void*> places;
  std::set<uint64_t> numbers;
  for (int i = 0; i < 100; ++i) {
    const at::Tensor tensor = Make();
    places.insert(tensor.unsafeGetTensorImpl());
    numbers.insert(Number(tensor));
  }
  EXPECT_LT(places.size(), 100U) << "no memory was used again: nothing is tested";
  EXPECT_EQ(numbers.size(), 100U);
  EXPECT_EQ(Number(a), 1U);
}

// Another class, with its own virtual table.
struct OtherTensor : c10::TensorImpl {
  using c10::TensorImpl::TensorImpl;
  explicit OtherTensor(bool* ended)
      : TensorImpl(c10::DispatchKeySet(c10::DispatchKey::CPU), caffe2::TypeMeta::Make<int>(), c10::Device(c10::kCPU)),
        ended_(ended) {}
  ~OtherTensor() override { *ended_ = true; }
  bool* ended_ = nullptr;
};

TEST_F(ObjectNumbers, LetObjectsEndAsEver) {
  bool ended = false;
  {
    const at::Tensor other(c10::make_intrusive<OtherTensor>(&ended));
    EXPECT_NE(Number(other), 0U);
    EXPECT_EQ(other.weak_use_count(), 1U);
    EXPECT_EQ(other.use_count(), 1U);
  }
  EXPECT_TRUE(ended);
}

TEST_F(ObjectNumbers, BeginAnew) {
  const at::Tensor kept = Make();
  {
    const at::Tensor gone = Make();
    EXPECT_EQ(Number(gone), 1U);
    EXPECT_EQ(Number(kept), 2U);
    EndObjectNumbers();
    EXPECT_EQ(Number(kept), 0U);
  }
  BeginObjectNumbers();
  const at::Tensor in_its_place = Make();
  EXPECT_EQ(Number(kept), 1U);
  EXPECT_EQ(Number(in_its_place), 2U);
}

TEST_F(ObjectNumbers, FromManyThreads) {
  constexpr int kThreads = 4, kEach = 20000;
  std::vector<std::vector<uint64_t>> numbers(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&numbers, i] {
      for (int j = 0; j < kEach; ++j) {
        const at::Tensor tensor = Make();
        const c10::intrusive_ptr<c10::StorageImpl> storage = c10::make_intrusive<c10::StorageImpl>(
            c10::StorageImpl::use_byte_size_t(), 0, c10::DataPtr(), nullptr, /*resizable=*/false);
        numbers[i].push_back(Number(tensor));
        numbers[i].push_back(NumberOf(*storage));
      }
    });
  }
  std::set<uint64_t> all;
  for (int i = 0; i < kThreads; ++i) {
    threads[i].join();
    all.insert(numbers[i].begin(), numbers[i].end());
  }
  EXPECT_EQ(all.size(), 2U * kThreads * kEach);
  EXPECT_EQ(*all.rbegin(), 2U * kThreads * kEach);
}

}  // namespace
}  // namespace torchtrace::torch_dialect
