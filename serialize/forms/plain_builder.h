// PlainBuilder makes a Plain of the events that readers of YAML and JSON give.
// Bounded in depth, as what is built is walked by recursion.

#ifndef TORCHTRACE_SERIALIZE_FORMS_PLAIN_BUILDER_H_
#define TORCHTRACE_SERIALIZE_FORMS_PLAIN_BUILDER_H_

#include <string>
#include <utility>
#include <vector>

#include "serialize/forms/plain_form.h"
#include "serialize/forms/plain_parser.h"

namespace torchtrace {

class PlainBuilder {
 public:
  // False when it is nested too deeply.
  bool Begin(Plain::Kind kind) {  // kList or kMap
    if (open_.size() >= static_cast<size_t>(kMaxPlainDepth)) return false;
    Plain plain;
    plain.kind = kind;
    open_.push_back({std::move(plain), std::move(key_)});
    key_.clear();
    return true;
  }
  void End() {
    Open top = std::move(open_.back());
    open_.pop_back();
    key_ = std::move(top.key);
    Add(std::move(top.plain));
  }
  // In a map, the name of the next value.
  void Key(std::string key) { key_ = std::move(key); }
  void Add(Plain value) {
    if (open_.empty()) {
      result_ = std::move(value);
    } else if (Plain& into = open_.back().plain; into.kind == Plain::kList) {
      into.items.push_back(std::move(value));
    } else {
      into.fields.push_back({std::move(key_), std::move(value)});
      key_.clear();
    }
  }

  bool InMap() const { return !open_.empty() && open_.back().plain.kind == Plain::kMap; }
  size_t depth() const { return open_.size(); }
  Plain TakeResult() { return std::move(result_); }

 private:
  struct Open {
    Plain plain;
    std::string key;  // under which it goes into the one around it
  };

  std::vector<Open> open_;
  std::string key_;
  Plain result_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_PLAIN_BUILDER_H_
