#include "serialize/model/torch_names.h"

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

TEST(TorchNamesTest, Dtypes) {
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

}  // namespace
}  // namespace torchtrace
