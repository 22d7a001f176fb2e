// PyTorch's dtypes, layouts, memory formats and types of devices: their names, numbers and other names.

#ifndef TORCHTRACE_SERIALIZE_MODEL_TORCH_TYPES_H_
#define TORCHTRACE_SERIALIZE_MODEL_TORCH_TYPES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "serialize/model/value.h"

namespace torchtrace {

// Of the c10::ScalarType, c10::Layout or c10::MemoryFormat of that number: "float32", "strided". Empty for others.
std::string_view DtypeOfNumber(int64_t number);
std::string_view LayoutOfNumber(int64_t number);
std::string_view MemoryFormatOfNumber(int64_t number);

// All of them, by number; newer versions of PyTorch may have more.
std::vector<std::string_view> DtypeNames();
std::vector<std::string_view> LayoutNames();
// "cpu", "cuda", ...
std::vector<std::string_view> DeviceTypes();

// `cuda:0` and the like, of Paddle too. Any string that names a device counts as a device: nothing else has such a
// name.
bool IsDeviceName(std::string_view text);

// PyTorch has several names for some dtypes: float16 for half. Other names stay the same.
std::string_view CanonicalDtype(std::string_view name);
// The same with what people write: float16 for fp16.
std::string_view DtypeMeantBy(std::string_view name);

// The dtype of TorchBench's abbreviation, which OperatorInputsMode writes: f32, b8. Empty if it is unknown.
std::string_view DtypeOfAbbreviation(std::string_view abbreviation);
// The abbreviation for exports; empty for a dtype that TorchBench's loader does not know: it reads fewer than are
// written.
std::string_view LoaderAbbreviation(std::string_view dtype);

// "long int" for "int64": the name of the dtype in PyTorch's C++ and its profiler; the same name if they have no other.
std::string_view CppNameOfDtype(std::string_view dtype);

// The size of one element; 1 if several are packed into a byte.
uint64_t BytesOfDtype(std::string_view dtype);

// Whether torch may have a dtype of that name, such as float8_e4m3fn; nothing else in torch has such a name.
bool IsDtypeName(std::string_view name);

// What `torch.NAME` means in the text form, where dtypes, layouts and memory formats are all written like this, and
// differ only by their names: kLayout and kMemoryFormat for the known names, kType for names that begin with a capital
// letter (torch.Tensor), else kDtype. A value of another kind is written in a long form: torch.dtype("strided"). So a
// name that is missing here costs a few characters, and no name may ever be removed. Shared by the writer
// (text_form.cc) and the parser. Callable from any thread.
ValueTag KindOfTorchName(std::string_view name);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_TORCH_TYPES_H_
