#include "serialize/report/page/page_table.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace torchtrace {

using nlohmann::ordered_json;

const std::vector<PageFacets::Kind>& PageFacets::Kinds() {
  static const std::vector<Kind> kinds = {{"level", "Level", true},         {"dtype", "dtype", true},
                                          {"dims", "Dimensions", true},     {"device", "Device", true},
                                          {"rank", "Rank", true},           {"module", "Module", true},
                                          {"line", "Line", true},           {"api", "API", false},
                                          {"file", "File", false},          {"status", "Called", false},
                                          {"namespace", "Namespace", false}};
  return kinds;
}

size_t PageFacets::KindOf(std::string_view name) {
  size_t kind = 0;
  while (Kinds()[kind].name != name) ++kind;
  return kind;
}

PageFacets::Facet& PageFacets::At(size_t kind) {
  if (kind >= facets_.size()) facets_.resize(kind + 1);
  return facets_[kind];
}

uint32_t PageFacets::Value(size_t kind, std::string_view text) {
  Facet& facet = At(kind);
  const auto [at, fresh] = facet.numbers.try_emplace(PageText(text), static_cast<uint32_t>(facet.values.size()));
  if (fresh) facet.values.push_back(at->first);
  return at->second;
}

uint32_t PageFacets::Set(size_t kind, std::vector<uint32_t> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (values.size() > kMostValues) {
    values.resize(kMostValues);
    ++cut_sets_;
  }
  Facet& facet = At(kind);
  const auto [at, fresh] = facet.set_numbers.try_emplace(std::move(values), static_cast<uint32_t>(facet.sets.size()));
  if (fresh) facet.sets.push_back(at->first);
  return at->second;
}

uint32_t UsedFacets::ValueIn(Used* used, uint32_t value) const {
  const auto [at, fresh] = used->values.try_emplace(value, static_cast<uint32_t>(used->in_order.size()));
  if (fresh) used->in_order.push_back(value);
  return at->second;
}

double UsedFacets::Number(size_t kind, uint32_t number) {
  Used& used = used_[kind];
  if (!PageFacets::Kinds()[kind].sets) return ValueIn(&used, number);
  const auto [at, fresh] = used.sets.try_emplace(number, static_cast<uint32_t>(used.sets_in_order.size()));
  if (fresh) {
    used.sets_in_order.push_back(number);
    for (const uint32_t value : all_.facets_[kind].sets[number]) ValueIn(&used, value);
  }
  return at->second;
}

ordered_json UsedFacets::Json() const {
  ordered_json facets = ordered_json::object();
  for (const auto& [kind, used] : used_) {
    const PageFacets::Kind& known = PageFacets::Kinds()[kind];
    ordered_json facet = {{"title", known.title}, {"values", ordered_json::array()}};
    for (const uint32_t value : used.in_order) facet["values"].push_back(all_.facets_[kind].values[value]);
    if (known.sets) {
      ordered_json& sets = facet["sets"] = ordered_json::array();
      for (const uint32_t set : used.sets_in_order) {
        ordered_json& values = sets.emplace_back(ordered_json::array());
        for (const uint32_t value : all_.facets_[kind].sets[set]) values.push_back(used.values.at(value));
      }
    }
    facets[known.name] = std::move(facet);
  }
  return facets;
}

uint32_t PageTable::AddRow(std::string text) {
  texts.push_back(std::move(text));
  return static_cast<uint32_t>(texts.size()) - 1;
}

std::vector<double>& PageTable::ColumnOf(const std::string& measure, double otherwise) {
  for (auto& [known, column] : measures) {
    if (known == measure) {
      column.resize(texts.size(), otherwise);
      return column;
    }
  }
  return measures.emplace_back(measure, std::vector<double>(texts.size(), otherwise)).second;
}

void PageTable::SetKnown(const std::string& measure, uint32_t row, double value) {
  ColumnOf(measure, NAN)[row] = value;
}

void PageTable::MakeBoth() {
  if (rows() == 0) return;
  std::vector<std::string> names;
  for (const auto& [name, column] : measures) names.push_back(name);
  for (const std::string& name : names) {
    if (name == "number" || name == "odd") continue;
    const std::string other = name.starts_with("b_") ? name.substr(2) : absl::StrCat("b_", name);
    ColumnOf(other, other == "calls" || other == "b_calls" ? 0 : NAN);
  }
}

void PageTable::Set(const std::string& measure, uint32_t row, double value) { ColumnOf(measure)[row] = value; }
void PageTable::AddTo(const std::string& measure, uint32_t row, double value) { ColumnOf(measure)[row] += value; }

const std::vector<double>* PageTable::Measure(std::string_view measure) const {
  for (const auto& [known, column] : measures) {
    if (known == measure) return &column;
  }
  return nullptr;
}

double PageTable::WeightOf(size_t row) const {
  double most = 0;
  bool known = false;
  for (const std::string& measure : {std::string(weight), absl::StrCat("b_", weight)}) {
    const std::vector<double>* const column = Measure(measure);
    if (column == nullptr || row >= column->size()) continue;
    known = true;
    most = std::max(most, (*column)[row]);
  }
  if (known) return most;
  for (const char* const measure : {"calls", "b_calls"}) {
    const std::vector<double>* const column = Measure(measure);
    if (column != nullptr && row < column->size()) most = std::max(most, (*column)[row]);
  }
  return most;
}

size_t PageTable::WriteTo(size_t most, UsedFacets* used, ReportPage* page) const {
  std::vector<uint32_t> kept(rows());
  std::iota(kept.begin(), kept.end(), 0);
  ordered_json left_out;
  if (kept.size() > most) {
    std::vector<double> weights;
    weights.reserve(rows());
    for (size_t row = 0; row < rows(); ++row) weights.push_back(WeightOf(row));
    std::stable_sort(kept.begin(), kept.end(), [&](uint32_t a, uint32_t b) { return weights[a] > weights[b]; });
    const auto sum = [&](const char* measure) {
      double all = 0;
      for (const std::string& name : {std::string(measure), absl::StrCat("b_", measure)}) {
        const std::vector<double>* const column = Measure(name);
        if (column == nullptr) continue;
        for (size_t i = most; i < kept.size(); ++i) {
          const double value = kept[i] < column->size() ? (*column)[kept[i]] : 0;
          if (!std::isnan(value)) all += value;
        }
      }
      return all;
    };
    left_out = {{"rows", kept.size() - most},
                {"calls", sum("calls")},
                {"self_ns", sum("self_ns")},
                {"why", "a page has room for so many; these take least"}};
    kept.resize(most);
    std::sort(kept.begin(), kept.end());
  }
  if (!in_order) {
    std::sort(kept.begin(), kept.end(), [this](uint32_t a, uint32_t b) { return texts[a] < texts[b]; });
  }
  PageBlock block;
  std::vector<std::string> kept_texts;
  kept_texts.reserve(kept.size());
  for (const uint32_t row : kept) kept_texts.push_back(texts[row]);
  block.AddTexts("text", kept_texts);
  ordered_json facet_names = ordered_json::array();
  std::vector<double> column;
  for (const auto& [kind, numbers] : facets) {
    column.clear();
    for (const uint32_t row : kept) column.push_back(used->Number(kind, numbers[row]));
    facet_names.push_back(PageFacets::Kinds()[kind].name);
    block.AddNumbers(PageFacets::Kinds()[kind].name, column);
  }
  for (const auto& [measure, values] : measures) {
    column.clear();
    for (const uint32_t row : kept) column.push_back(row < values.size() ? values[row] : 0);
    block.AddNumbers(measure, column);
  }
  ordered_json table = {{"block", name}, {"rows", kept.size()}, {"facets", facet_names}, {"left_out", left_out}};
  if (sort.has_value()) table["sort"] = sort->empty() ? ordered_json() : ordered_json(*sort);
  if (!about.empty()) table["about"] = about;
  page->head()["tables"][name] = std::move(table);
  return page->SetBlock(name, block);
}

}  // namespace torchtrace
