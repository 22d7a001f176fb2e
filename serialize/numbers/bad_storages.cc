#include "serialize/numbers/bad_storages.h"

#include <algorithm>

#include "serialize/model/torch_names.h"
#include "serialize/model/torch_types.h"

namespace torchtrace {
namespace {

// False: beyond 64 bits.
bool AddProduct(uint64_t a, uint64_t b, uint64_t* sum) {
  uint64_t product;
  return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(*sum, product, sum);
}

}  // namespace

StorageBytes BytesOfTensor(const Value* tensor, const TensorNote::Identity& identity) {
  if (tensor == nullptr || tensor->tag != ValueTag::kTensor || (tensor->tensor_bits & kTensorShapeUnknown) != 0 ||
      (tensor->tensor_bits & kTensorHasLayout) != 0) {
    return {};
  }
  const std::vector<Dim> strides = StridesOf(*tensor);
  if (strides.size() != tensor->shape.size()) return {};
  uint64_t last = 0, elements = 1;
  for (size_t i = 0; i < strides.size(); ++i) {
    const Dim size = tensor->shape[i], stride = strides[i];
    if (!size.has_value() || *size < 0 || !stride.has_value() || *stride < 0) return {};
    if (*size == 0) return {0, 0, true};
    if (!AddProduct(static_cast<uint64_t>(*size) - 1, static_cast<uint64_t>(*stride), &last)) return {};
    if (__builtin_mul_overflow(elements, static_cast<uint64_t>(*size), &elements)) return {};
  }
  const uint64_t element_bytes = BytesOfDtype(tensor->text);
  uint64_t begin = 0, end = 0;
  if (!AddProduct(identity.offset, element_bytes, &begin) || __builtin_add_overflow(last, identity.offset + 1, &last) ||
      !AddProduct(last, element_bytes, &end)) {
    return {};
  }
  return {begin, end, elements == last - identity.offset};
}

uint8_t BadStorages::Held(uint64_t storage, const StorageBytes& bytes) {
  uint8_t held = 0;
  if (const Parts* const parts = Find(storage)) {
    for (const Part& part : *parts) {
      if (part.bytes.begin < bytes.end && bytes.begin < part.bytes.end) held |= part.held;
    }
  }
  return held;
}

void BadStorages::Set(uint64_t storage, const StorageBytes& bytes, uint8_t held) {
  Parts* parts = Find(storage);
  if (parts == nullptr) {
    if (held == 0) return;
    if (last_.size() >= most_) {
      forgot_ = forgot_ || !before_.empty();
      before_ = std::move(last_);
      last_.clear();
    }
    parts = &last_[storage];
  }
  Clear(bytes, parts);
  if (held != 0) parts->push_back({bytes, held});
  if (parts->empty()) {
    last_.erase(storage);
  } else if (parts->size() > kMostParts) {
    Part all = parts->front();
    for (const Part& part : *parts) {
      all.bytes.begin = std::min(all.bytes.begin, part.bytes.begin);
      all.bytes.end = std::max(all.bytes.end, part.bytes.end);
      all.held |= part.held;
    }
    all.bytes.dense = false;
    *parts = {all};
  }
}

BadStorages::Parts* BadStorages::Find(uint64_t storage) {
  if (const auto at = last_.find(storage); at != last_.end()) return &at->second;
  const auto at = before_.find(storage);
  if (at == before_.end()) return nullptr;
  // May exceed `most_` by as many: the next Set then ends the generation.
  Parts parts = std::move(at->second);
  before_.erase(at);
  return &(last_[storage] = std::move(parts));
}

void BadStorages::Clear(const StorageBytes& bytes, Parts* parts) {
  Parts kept;
  for (const Part& part : *parts) {
    const StorageBytes& old = part.bytes;
    const bool same = old.begin == bytes.begin && old.end == bytes.end;
    if (same || (bytes.dense && bytes.begin <= old.begin && old.end <= bytes.end)) continue;
    if (!bytes.dense || bytes.end <= old.begin || old.end <= bytes.begin) {
      kept.push_back(part);
      continue;
    }
    // What is before and behind the bytes may still hold it.
    if (old.begin < bytes.begin) kept.push_back({{old.begin, bytes.begin, old.dense}, part.held});
    if (bytes.end < old.end) kept.push_back({{bytes.end, old.end, old.dense}, part.held});
  }
  *parts = std::move(kept);
}

}  // namespace torchtrace
