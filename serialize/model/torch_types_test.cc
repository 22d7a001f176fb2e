#include "serialize/model/torch_types.h"

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

TEST(TorchTypesTest, NamesOfDtypes) {
  for (const char* const name : {"float32", "bfloat16", "bool", "uint1", "quint4x2", "bits1x8", "complex128",
                                 "float8_e4m3fn", "float4_e2m1fn_x2"}) {
    EXPECT_TRUE(IsDtypeName(name)) << name;
  }
  for (const char* const name :
       {"",       "save",  "load", "os",    "strided", "int",    "float", "int_repr", "float_power", "i64",
        "int8.x", "int8 ", "Int8", "bool1", "8",       "conv2d", "exp2",  "log10",    "atan2",       "i0"}) {
    EXPECT_FALSE(IsDtypeName(name)) << name;
  }
}

TEST(TorchTypesTest, Numbers) {
  EXPECT_EQ(DtypeOfNumber(0), "uint8");
  EXPECT_EQ(DtypeOfNumber(15), "bfloat16");
  EXPECT_EQ(DtypeOfNumber(44), "float8_e8m0fnu");
  EXPECT_EQ(DtypeOfNumber(46), "");
  EXPECT_EQ(DtypeOfNumber(-1), "");
  EXPECT_EQ(LayoutOfNumber(7), "jagged");
  EXPECT_EQ(MemoryFormatOfNumber(3), "channels_last_3d");
  EXPECT_EQ(MemoryFormatOfNumber(4), "");
}

TEST(TorchTypesTest, OtherNames) {
  EXPECT_EQ(CanonicalDtype("half"), "float16");
  EXPECT_EQ(CanonicalDtype("fp16"), "fp16");
  EXPECT_EQ(DtypeMeantBy("fp16"), "float16");
  EXPECT_EQ(DtypeMeantBy("half"), "float16");
  EXPECT_EQ(DtypeMeantBy("float32"), "float32");
  EXPECT_EQ(CppNameOfDtype("int64"), "long int");
  EXPECT_EQ(CppNameOfDtype("quint8"), "quint8");
  EXPECT_EQ(LoaderAbbreviation("uint16"), "");
  EXPECT_EQ(DtypeOfAbbreviation("u16"), "uint16");
  EXPECT_EQ(DtypeOfAbbreviation(""), "");
}

TEST(TorchTypesTest, Devices) {
  for (const char* const name : {"cpu", "cuda:0", "npu:12", "gpu_pinned"}) EXPECT_TRUE(IsDeviceName(name)) << name;
  for (const char* const name : {"", "cuda:", "cuda:x", "CPU", "tpu"}) EXPECT_FALSE(IsDeviceName(name)) << name;
}

}  // namespace
}  // namespace torchtrace
