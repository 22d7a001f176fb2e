#include "serialize/diff/thread_match.h"

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "serialize/base/plain_text.h"
#include "serialize/forms/text_form.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

struct Process {
  uint32_t index = 0;
  std::optional<int64_t> rank;
  std::string role;   // empty: not known
  std::string label;  // of a run that was merged
  std::vector<ThreadId> threads;
};

std::vector<Process> ProcessesOf(const Trace& trace, const std::vector<ThreadId>& threads) {
  std::vector<Process> processes;
  for (const ThreadId& thread : threads) {
    if (processes.empty() || processes.back().index != thread.process) {
      const ProcessInfo& info = trace.processes()[thread.process];
      Process& process = processes.emplace_back();
      process.index = thread.process;
      process.rank = info.known.rank;
      process.role = info.known.role;
      process.label = info.known.label;
    }
    processes.back().threads.push_back(thread);
  }
  return processes;
}

// Pairs of what `alike` accepts, in order, of what has no partner yet.
template <typename T, typename Alike>
void Pair(const std::vector<T>& a, const std::vector<T>& b, std::vector<bool>* a_paired, std::vector<bool>* b_paired,
          const Alike& alike, std::vector<std::pair<size_t, size_t>>* pairs) {
  for (size_t i = 0; i < a.size(); ++i) {
    if ((*a_paired)[i]) continue;
    for (size_t j = 0; j < b.size(); ++j) {
      if ((*b_paired)[j] || !alike(a[i], b[j])) continue;
      (*a_paired)[i] = (*b_paired)[j] = true;
      pairs->emplace_back(i, j);
      break;
    }
  }
}

// The same for what has equal keys. There may be many threads.
template <typename AKey, typename BKey>
void PairEqual(const std::vector<ThreadId>& a, const std::vector<ThreadId>& b, std::vector<bool>* a_paired,
               std::vector<bool>* b_paired, const AKey& a_key, const BKey& b_key,
               std::vector<std::pair<size_t, size_t>>* pairs) {
  std::map<decltype(b_key(b[0])), std::vector<size_t>> waiting;  // of b, the first one last
  for (size_t j = b.size(); j-- > 0;) {
    if (!(*b_paired)[j]) waiting[b_key(b[j])].push_back(j);
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if ((*a_paired)[i]) continue;
    const auto found = waiting.find(a_key(a[i]));
    if (found == waiting.end() || found->second.empty()) continue;
    const size_t j = found->second.back();
    found->second.pop_back();
    (*a_paired)[i] = (*b_paired)[j] = true;
    pairs->emplace_back(i, j);
  }
}

const ThreadInfo* InfoOf(const Trace& trace, ThreadId thread) {
  return FindThread(trace.processes()[thread.process], thread.thread);
}

}  // namespace

std::vector<std::pair<ThreadId, ThreadId>> MatchThreads(const Trace& a, const std::vector<ThreadId>& a_threads,
                                                        const Trace& b, const std::vector<ThreadId>& b_threads) {
  const std::vector<Process> a_processes = ProcessesOf(a, a_threads), b_processes = ProcessesOf(b, b_threads);
  std::vector<bool> a_paired(a_processes.size()), b_paired(b_processes.size());
  std::vector<std::pair<size_t, size_t>> processes;
  Pair(
      a_processes, b_processes, &a_paired, &b_paired,
      [](const Process& x, const Process& y) { return x.rank == y.rank && x.role == y.role; }, &processes);
  // What one side doesn't know can't tell them apart.
  Pair(
      a_processes, b_processes, &a_paired, &b_paired,
      [](const Process& x, const Process& y) {
        return (!x.rank.has_value() || !y.rank.has_value() || x.rank == y.rank) &&
               (x.role.empty() || y.role.empty() || x.role == y.role);
      },
      &processes);
  // One rank against another: there is no other choice.
  if (a_processes.size() == 1 && b_processes.size() == 1 && processes.empty()) processes.emplace_back(0, 0);

  std::vector<std::pair<ThreadId, ThreadId>> matched;
  for (const auto& [i, j] : processes) {
    const std::vector<ThreadId>&x = a_processes[i].threads, &y = b_processes[j].threads;
    std::vector<bool> x_paired(x.size()), y_paired(y.size());
    std::vector<std::pair<size_t, size_t>> threads;
    const auto pair = [&](const auto& key) {
      PairEqual(
          x, y, &x_paired, &y_paired, [&](ThreadId thread) { return key(a, thread); },
          [&](ThreadId thread) { return key(b, thread); }, &threads);
    };
    const auto name = [](const Trace& trace, ThreadId thread) {
      const ThreadInfo* const info = InfoOf(trace, thread);
      return info == nullptr ? std::string() : info->name;
    };
    pair([&](const Trace& trace, ThreadId thread) { return std::pair(thread.thread, name(trace, thread)); });
    pair(name);
    pair([](const Trace&, ThreadId thread) { return thread.thread; });
    for (const auto& [p, q] : threads) matched.emplace_back(x[p], y[q]);
  }
  return matched;
}

std::string DescribeThread(const Trace& trace, ThreadId thread) {
  const ProcessInfo& process = trace.processes()[thread.process];
  std::string text;
  if (const std::string& label = process.known.label; !label.empty()) {
    absl::StrAppend(&text, FormatApi(label), ", ");
  }
  if (const std::optional<int64_t>& rank = process.known.rank; rank.has_value()) {
    absl::StrAppend(&text, "rank ", *rank, ", ");
  }
  // A log of many processes says where it has each from.
  const std::string& source = process.known.source;
  const std::string name = source.empty() ? ProcessName(process) : std::filesystem::path(source).stem().string();
  absl::StrAppend(&text, PlainLine(name), ", thread ", thread.thread);
  const ThreadInfo* const info = InfoOf(trace, thread);
  if (info != nullptr && !info->name.empty()) absl::StrAppend(&text, " (", FormatApi(info->name), ")");
  return text;
}

}  // namespace torchtrace
