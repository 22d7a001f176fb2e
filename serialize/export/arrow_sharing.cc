#include "serialize/export/arrow_sharing.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace torchtrace {
namespace {

struct SharedArray {
  std::shared_ptr<const void> owner;
  std::vector<const void*> buffers;
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> child_pointers;
  ArrowArray dictionary = {};
};

void ReleaseSharedArray(ArrowArray* array) {
  auto* const shared = static_cast<SharedArray*>(array->private_data);
  // Those that were moved out are released by who has them.
  for (ArrowArray& child : shared->children) {
    if (child.release != nullptr) child.release(&child);
  }
  if (shared->dictionary.release != nullptr) shared->dictionary.release(&shared->dictionary);
  delete shared;
  array->release = nullptr;
}

struct CopiedSchema {
  std::string format, name, metadata;
  std::vector<ArrowSchema> children;
  std::vector<ArrowSchema*> child_pointers;
  ArrowSchema dictionary = {};
};

void ReleaseCopiedSchema(ArrowSchema* schema) {
  auto* const copied = static_cast<CopiedSchema*>(schema->private_data);
  for (ArrowSchema& child : copied->children) {
    if (child.release != nullptr) child.release(&child);
  }
  if (copied->dictionary.release != nullptr) copied->dictionary.release(&copied->dictionary);
  delete copied;
  schema->release = nullptr;
}

// The bytes of a schema's metadata: a number of pairs, and the sizes and bytes of their texts.
std::string MetadataBytes(const char* metadata) {
  if (metadata == nullptr) return {};
  const auto number_at = [metadata](size_t at) {
    int32_t number;
    std::memcpy(&number, metadata + at, sizeof number);
    return number;
  };
  size_t size = sizeof(int32_t);
  for (int32_t texts = 2 * number_at(0); texts > 0; --texts) {
    size += sizeof(int32_t) + static_cast<size_t>(number_at(size));
  }
  return std::string(metadata, size);
}

}  // namespace

void ShareArray(const ArrowArray& array, const std::shared_ptr<const void>& owner, ArrowArray* out) {
  auto* const shared = new SharedArray;
  shared->owner = owner;
  shared->buffers.assign(array.buffers, array.buffers + array.n_buffers);
  shared->children.resize(static_cast<size_t>(array.n_children));
  for (size_t i = 0; i < shared->children.size(); ++i) {
    ShareArray(*array.children[i], owner, &shared->children[i]);
    shared->child_pointers.push_back(&shared->children[i]);
  }
  if (array.dictionary != nullptr) ShareArray(*array.dictionary, owner, &shared->dictionary);
  *out = array;
  out->buffers = shared->buffers.data();
  out->children = shared->child_pointers.data();
  out->dictionary = array.dictionary == nullptr ? nullptr : &shared->dictionary;
  out->release = ReleaseSharedArray;
  out->private_data = shared;
}

void CopySchema(const ArrowSchema& schema, ArrowSchema* out) {
  auto* const copied = new CopiedSchema;
  copied->format = schema.format;
  copied->name = schema.name == nullptr ? "" : schema.name;
  copied->metadata = MetadataBytes(schema.metadata);
  copied->children.resize(static_cast<size_t>(schema.n_children));
  for (size_t i = 0; i < copied->children.size(); ++i) {
    CopySchema(*schema.children[i], &copied->children[i]);
    copied->child_pointers.push_back(&copied->children[i]);
  }
  if (schema.dictionary != nullptr) CopySchema(*schema.dictionary, &copied->dictionary);
  *out = schema;
  out->format = copied->format.c_str();
  out->name = copied->name.c_str();
  out->metadata = schema.metadata == nullptr ? nullptr : copied->metadata.data();
  out->children = copied->child_pointers.data();
  out->dictionary = schema.dictionary == nullptr ? nullptr : &copied->dictionary;
  out->release = ReleaseCopiedSchema;
  out->private_data = copied;
}

}  // namespace torchtrace
