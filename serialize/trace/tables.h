// Tables of what calls of a trace refer to by number: configs and variants, stacks, tags.

#ifndef TORCHTRACE_SERIALIZE_TRACE_TABLES_H_
#define TORCHTRACE_SERIALIZE_TRACE_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "serialize/base/bytes.h"
#include "serialize/model/step_marks.h"

namespace torchtrace {

// Dense from 0. A variant is a config with particular facets.
using ConfigId = uint32_t;
using VariantId = uint32_t;

// Numbers configurations by content: equal identities have the same ConfigId, equal
// pairs of identity and facets the same VariantId, both in order of insertion. Owns
// copies of the bytes, which never move. Not thread-safe.
class ConfigTable {
 public:
  ConfigTable() = default;
  ConfigTable(const ConfigTable&) = delete;
  ConfigTable& operator=(const ConfigTable&) = delete;

  VariantId Intern(std::string_view identity, std::string_view facets) {
    return Intern(identity, HashOf(identity), facets);
  }
  // For many at once: `hash`, HashOf(identity), can be computed on another thread, and Expect brings what Intern reads
  // first into the processor's cache.
  VariantId Intern(std::string_view identity, uint64_t hash, std::string_view facets);
  void Expect(uint64_t hash) const { config_ids_.prefetch(Hashed{{}, hash}); }
  static uint64_t HashOf(std::string_view identity) { return Hash64(identity.data(), identity.size()); }

  size_t config_count() const { return configs_.size(); }
  size_t variant_count() const { return variants_.size(); }
  std::string_view identity(ConfigId config) const { return {configs_[config].identity, configs_[config].bytes}; }
  std::string_view facets(VariantId variant) const { return facets_[variants_[variant].facets]; }
  ConfigId config_of(VariantId variant) const { return variants_[variant].config; }

 private:
  using FacetsId = uint32_t;
  struct ConfigEntry {
    const char* identity;
    uint64_t hash;  // kept, because its bytes are rarely in the processor's cache
    uint32_t bytes;
    VariantId first_variant;
  };
  struct VariantEntry {
    ConfigId config;
    FacetsId facets;
  };
  struct Hashed {
    std::string_view identity;
    uint64_t hash;
  };
  // For a set that holds only the numbers of configs and compares their contents.
  struct ContentHash {
    using is_transparent = void;
    size_t operator()(const Hashed& config) const { return config.hash; }
    size_t operator()(ConfigId config) const { return table->configs_[config].hash; }
    const ConfigTable* table;
  };
  struct ContentEqual {
    using is_transparent = void;
    bool operator()(ConfigId a, ConfigId b) const { return a == b; }
    bool operator()(ConfigId a, const Hashed& b) const { return table->identity(a) == b.identity; }
    bool operator()(const Hashed& a, ConfigId b) const { return (*this)(b, a); }
    const ConfigTable* table;
  };

  std::string_view Keep(std::string_view bytes);
  VariantId AddVariant(ConfigId config, std::string_view facets);

  // Large traces have millions of both.
  std::vector<ConfigEntry> configs_;
  std::vector<VariantEntry> variants_;
  absl::flat_hash_set<ConfigId, ContentHash, ContentEqual> config_ids_{0, ContentHash{this}, ContentEqual{this}};
  std::vector<std::string_view> facets_;  // by FacetsId
  absl::flat_hash_map<std::string_view, FacetsId> facets_ids_;
  // Without each config's first variant, which is nearly always the only one.
  absl::flat_hash_map<std::pair<ConfigId, FacetsId>, VariantId> other_variants_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* block_at_ = nullptr;
  size_t block_left_ = 0;
};

using StackId = uint32_t;
using LineId = uint32_t;
inline constexpr StackId kNoStack = 0;

// The recorder keeps this many of the innermost frames. Stacks of logs from other writers may be
// deeper.
inline constexpr size_t kMaxStackFrames = 256;

// A Python code object: of a function, a module.
struct StackCode {
  std::string_view file;
  std::string_view function;  // its qualified name: `Net.forward`, `main.<locals>.<lambda>`, `<module>`
  std::string_view module;    // the __name__ of its globals; may be empty
  bool library = false;       // of the traced library or Python's own: not used as a calling line
};

struct StackPlace {
  StackId caller = kNoStack;
  uint32_t code = 0;
  uint32_t line = 0;  // from 1; 0: unknown
};

// The Python stacks of calls (docs/FORMAT.md), interned by content. A stack is its innermost
// place and the stack of its caller. Equal stacks have equal ids, in whichever frame or log they
// were defined. Not thread-safe.
class StackTable {
 public:
  StackTable() : places_(1), calling_lines_(1) {}
  StackTable(const StackTable&) = delete;
  StackTable& operator=(const StackTable&) = delete;

  uint32_t InternCode(const StackCode& code) {
    const auto known = code_ids_.find({code.file, code.function, code.module, code.library});
    if (known != code_ids_.end()) return known->second;
    const StackCode kept = {Keep(code.file), Keep(code.function), Keep(code.module), code.library};
    codes_.push_back(kept);
    const auto id = static_cast<uint32_t>(codes_.size() - 1);
    code_ids_.emplace(std::tuple(kept.file, kept.function, kept.module, kept.library), id);
    return id;
  }

  // `place.code` and `place.caller` must be from this table.
  StackId InternPlace(const StackPlace& place) {
    const auto [at, fresh] =
        place_ids_.try_emplace({place.caller, place.code, place.line}, static_cast<StackId>(places_.size()));
    if (!fresh) return at->second;
    places_.push_back(place);
    calling_lines_.push_back(FindCallingLine(at->second));
    return at->second;
  }

  // `stack` must not be kNoStack.
  const StackPlace& place(StackId stack) const { return places_[stack]; }
  const StackCode& code(uint32_t code) const { return codes_[code]; }

  // The calling line of a stack: that of the innermost place outside of the traced
  // library; if all are inside, the innermost. `stack` must not be kNoStack.
  LineId calling_line(StackId stack) const { return calling_lines_[stack].line; }
  // Lines are numbered from 0. A line is a place without its caller.
  size_t line_count() const { return lines_.size(); }
  const StackPlace& line(LineId line) const { return lines_[line]; }

 private:
  struct CallingLine {
    LineId line = 0;
    bool outside = false;
  };

  std::string_view Keep(std::string_view text) {
    if (const auto known = texts_index_.find(text); known != texts_index_.end()) return *known;
    texts_.emplace_back(text);
    texts_index_.insert(texts_.back());
    return texts_.back();
  }

  CallingLine FindCallingLine(StackId stack) {
    const StackPlace& place = places_[stack];
    if (codes_[place.code].library && place.caller != kNoStack && calling_lines_[place.caller].outside) {
      return calling_lines_[place.caller];
    }
    const auto [at, fresh] = line_ids_.try_emplace({place.code, place.line}, static_cast<LineId>(lines_.size()));
    if (fresh) lines_.push_back({kNoStack, place.code, place.line});
    return {at->second, !codes_[place.code].library};
  }

  std::deque<std::string> texts_;  // never move
  absl::flat_hash_set<std::string_view> texts_index_;
  std::vector<StackCode> codes_;
  absl::flat_hash_map<std::tuple<std::string_view, std::string_view, std::string_view, bool>, uint32_t> code_ids_;
  std::vector<StackPlace> places_;  // by StackId; the first one is unused: kNoStack
  absl::flat_hash_map<std::tuple<StackId, uint32_t, uint32_t>, StackId> place_ids_;
  std::vector<CallingLine> calling_lines_;  // by StackId
  std::vector<StackPlace> lines_;           // by LineId
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, LineId> line_ids_;
};

inline constexpr uint32_t kNoTags = 0;

// The tags of calls (docs/FORMAT.md), as JSON texts with small numbers. Not thread-safe.
class TagTable {
 public:
  TagTable() { Number({Keep({}), {}}); }
  TagTable(const TagTable&) = delete;
  TagTable& operator=(const TagTable&) = delete;

  // Equal texts get equal numbers, an empty one kNoTags.
  uint32_t Intern(std::string_view text) {
    if (text.empty()) return kNoTags;
    std::string program;
    const StepMarks steps = TakeStepMarks(text, &program);
    return Number({Keep(program), steps});
  }
  // The program's tags of that number with other marks. A log has many for one text, so they share it.
  uint32_t WithSteps(uint32_t id, const StepMarks& steps) { return Number({At(id).program, PossibleMarks(steps)}); }

  // These are empty for unknown numbers, and valid as long as the table.
  // The program's own tags; equal ones are at the same place.
  std::string_view text(uint32_t id) const { return At(id).program->text; }
  std::string_view step_tag(uint32_t id) const { return At(id).program->step; }
  const StepMarks& steps(uint32_t id) const { return At(id).steps; }

 private:
  struct Text {
    explicit Text(std::string_view of) : text(of), step(StepTagOf(text)) {}
    Text(const Text&) = delete;

    const std::string text;
    const std::string_view step;  // of it
  };
  struct Entry {
    const Text* program;
    StepMarks steps;
  };
  const Entry& At(uint32_t id) const { return entries_[id < entries_.size() ? id : kNoTags]; }

  const Text* Keep(std::string_view text) {
    if (const auto known = texts_index_.find(text); known != texts_index_.end()) return known->second;
    const Text& kept = texts_.emplace_back(text);
    texts_index_.emplace(kept.text, &kept);
    return &kept;
  }
  uint32_t Number(const Entry& entry) {
    const auto [at, fresh] = ids_.try_emplace({entry.program, entry.steps}, static_cast<uint32_t>(entries_.size()));
    if (fresh) entries_.push_back(entry);
    return at->second;
  }

  std::deque<Text> texts_;  // never move
  absl::flat_hash_map<std::string_view, const Text*> texts_index_;
  std::deque<Entry> entries_;  // by number; never move
  absl::flat_hash_map<std::pair<const Text*, StepMarks>, uint32_t> ids_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_TABLES_H_
