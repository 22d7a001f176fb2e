#include "tracer/record/last_words.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "serialize/base/text.h"
#include "tracer/record/clock.h"

namespace torchtrace {

void AppendJson(std::string_view text, std::string* json) {
  json->push_back('"');
  while (!text.empty()) {
    const Utf8Char c = DecodeUtf8(text);
    if (c.kind != Utf8Char::kScalar) {
      json->append("\uFFFD");
    } else if (c.code_point < ' ' || c.code_point == '"' || c.code_point == '\\') {
      absl::StrAppend(json, "\\u", absl::Hex(c.code_point, absl::kZeroPad4));
    } else {
      json->append(text.substr(0, c.bytes));
    }
    text.remove_prefix(c.bytes);
  }
  json->push_back('"');
}

std::string NotSeenJson(const SessionNotes& notes) {
  std::string json;
  const auto add = [&json](const char* key, const std::set<std::string>& texts) {
    absl::StrAppend(&json, "\"", key, "\":[");
    const char* separator = "";
    for (const std::string& text : texts) {
      json += std::exchange(separator, ",");
      AppendJson(text, &json);
    }
    json += "]";
  };
  add("not_seen", notes.not_seen);
  if (!notes.steps_not_seen.empty()) {
    json += R"(,"steps_not_seen":)";
    AppendJson(notes.steps_not_seen, &json);
  }
  if (notes.not_imported.empty()) return json;
  json += ",";
  add("not_imported", notes.not_imported);
  return json;
}

std::string StartedJson(const std::map<std::string, StartedTotals>& programs) {
  std::string json;
  for (const auto& [program, started] : programs) {
    json += json.empty() ? R"("started_programs":[{"program":)" : R"(,{"program":)";
    AppendJson(program, &json);
    absl::StrAppend(&json, R"(,"python":)", started.python ? "true" : "false", R"(,"count":)", started.count, "}");
  }
  return json + "]";
}

std::string FormatLastWords(const LastWords& words, bool with_threads) {
  const ProgramEnd& end = words.end;
  std::string json = R"({"end":{)";
  if (end.program_goes_on) {
    json += R"("program_goes_on":true)";
  } else if (end.signal != 0) {
    absl::StrAppend(&json, R"("signal":)", end.signal);
  } else {
    absl::StrAppend(&json, R"("exit_code":)", end.exit_code);
  }
  const ClockReading now = ReadClock();
  absl::StrAppend(&json, R"(,"units":)", now.units, R"(,"monotonic_ns":)", now.monotonic_ns);

  with_threads = with_threads && !words.others.has_value();
  const char* separator = with_threads ? R"(,"threads":[)" : nullptr;
  for (const auto& [number, total] : words.threads) {
    if (!with_threads) break;
    absl::StrAppend(&json, std::exchange(separator, ","), R"({"number":)", number, R"(,"calls":)", total.calls,
                    R"(,"getters":)", total.getters, "}");
  }
  if (with_threads) absl::StrAppend(&json, words.threads.empty() ? separator : "", "]");
  const ThreadTotals all = words.AllThreads();
  absl::StrAppend(&json, R"(,"getters":)", all.getters);
  if (words.counted != 0) absl::StrAppend(&json, R"(,"counted":)", words.counted);
  if (all.left_out != 0) absl::StrAppend(&json, R"(,"left_out":)", all.left_out);

  absl::StrAppend(&json, ",", NotSeenJson(words.notes));
  separator = R"(,"cut":{)";
  for (const auto& [what, count] : words.notes.cut) {
    json += std::exchange(separator, ",");
    AppendJson(what, &json);
    absl::StrAppend(&json, ":", count);
  }
  if (!words.notes.cut.empty()) json += '}';
  if (words.intern_resets != 0) absl::StrAppend(&json, R"(,"intern_resets":)", words.intern_resets);
  if (!words.stop_reason.empty()) {
    json += R"(,"stopped":)";
    AppendJson(words.stop_reason, &json);
  }
  if (const std::string steps = WithStepMarks("", words.steps); !steps.empty())
    absl::StrAppend(&json, R"(,"steps":)", steps);
  if (!words.notes.started.empty()) absl::StrAppend(&json, ",", StartedJson(words.notes.started));
  return json + "}}";
}

size_t FormatShortLastWords(const ProgramEnd& end, std::string_view stop_reason, const StepMarks& steps, char* json,
                            size_t capacity) {
  const char* const how = end.program_goes_on ? "program_goes_on" : end.signal != 0 ? "signal" : "exit_code";
  char number[16] = "true";
  if (!end.program_goes_on) snprintf(number, sizeof number, "%d", end.signal != 0 ? end.signal : end.exit_code);
  const ClockReading now = ReadClock();
  char stopped[kMaxStopReason + 1];
  const size_t bytes = stop_reason.copy(stopped, kMaxStopReason);
  stopped[bytes] = '\0';
  // Escapes would take room and a JSON library.
  std::replace_if(stopped, stopped + bytes, [](char c) { return c < ' ' || c > '~' || c == '"' || c == '\\'; }, '?');
  char marks[256] = "";
  size_t marked = 0;
  for (const StepKind kind : {StepKind::kForward, StepKind::kStep}) {
    const StepMark& mark = steps.at(kind);
    if (mark.number == 0) continue;
    const char* const name = StepKindName(kind);
    marked += static_cast<size_t>(snprintf(
        marks + marked, sizeof marks - marked, R"(%s"@%s":%llu,"@%s_ns":%lld)", marked == 0 ? R"(,"steps":{)" : ",",
        name, static_cast<unsigned long long>(mark.number), name, static_cast<long long>(mark.begin_ns)));
  }
  const int length =
      snprintf(json, capacity, R"({"end":{"%s":%s,"short":true,"units":%llu,"monotonic_ns":%llu%s%s%s%s%s}})", how,
               number, static_cast<unsigned long long>(now.units), static_cast<unsigned long long>(now.monotonic_ns),
               marks, marked == 0 ? "" : "}", bytes == 0 ? "" : R"(,"stopped":")", stopped, bytes == 0 ? "" : "\"");
  return static_cast<size_t>(length);
}

}  // namespace torchtrace
