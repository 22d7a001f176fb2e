// The sinks of config_sink.h, one file each; MakeConfigSink chooses among them.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_SINKS_H_
#define TORCHTRACE_SERIALIZE_EXPORT_SINKS_H_

#include <memory>
#include <ostream>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/export/config_sink.h"
#include "serialize/export/table_writer.h"

namespace torchtrace {

std::unique_ptr<ConfigSink> MakeTextSink(std::ostream* out, const SinkOptions& options);
std::unique_ptr<ConfigSink> MakeYamlSink(std::ostream* out);
std::unique_ptr<ConfigSink> MakeJsonSink(std::ostream* out);
std::unique_ptr<ConfigSink> MakeJsonlSink(std::ostream* out);
std::unique_ptr<ConfigSink> MakeTorchBenchSink(std::ostream* out);
std::unique_ptr<ConfigSink> MakeTritonBenchSink(std::ostream* out, const SinkOptions& options);
std::unique_ptr<ConfigSink> MakePaddleSink(std::ostream* out);

// For CSV and Parquet: the columns of a config's row, and the sink that fills them.
std::vector<Column> ConfigColumns();
std::unique_ptr<ConfigSink> MakeTableSink(std::unique_ptr<TableWriter> table);

// What Add and Finish return: Aborted when the stream failed.
inline absl::Status StreamStatus(const std::ostream& out) {
  return out.good() ? absl::OkStatus() : absl::AbortedError("cannot write the output");
}
inline absl::Status FinishStream(std::ostream* out) {
  out->flush();
  return StreamStatus(*out);
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_SINKS_H_
