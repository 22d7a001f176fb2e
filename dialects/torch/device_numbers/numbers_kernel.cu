// The numbers of a tensor on a CUDA device. Compiled by NVRTC, which has no headers; the tests compile it as C++, too
// (kernel_on_cpu.h). Numbers, elements and words are those of dialects/torch/numbers.
//
// An element belongs to a unit of 16 bytes, two words of the fingerprint, and unit i to thread i modulo the number of
// threads. Each thread adds up its units, a block its threads, and the last block that ends all blocks, each in a fixed
// order: for equal tensors the sums are the same on every device.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

// CRITICAL: device_numbers.cc has the same structures.
constexpr int kMostDimensions = 25;
constexpr u32 kMostThreads = 256;  // of a block; a power of two

struct Partial {
  u64 nans, positive_infinities, negative_infinities, zeros, words;
  double least, most;
  double sum, sum_rest;  // what additions rounded off
  double squares, squares_rest;
  u64 ticket;  // of the launch, in the result
};

struct Arguments {
  const u8* data;
  Partial* partials;  // one for each block
  Partial* result;
  u32* blocks_done;  // 0 before and after
  u64 elements;      // not 0
  u64 ticket;
  u32 type;        // ElementType
  u32 dimensions;  // 0: the elements are contiguous
  u32 aligned;     // 16: `data` and contiguous units are; 1: elements aren't; else they and their parts are
  u32 flipped;     // 1, 2: the signs of real, imaginary parts; then not aligned to 16
  i64 sizes[kMostDimensions];
  i64 strides[kMostDimensions];  // in bytes
};

namespace {  // NOLINT(google-build-namespaces): a source file, also for the tests

__device__ double Infinity() { return __longlong_as_double(0x7ff0000000000000); }
__device__ double NotANumber() { return __longlong_as_double(0x7ff8000000000000); }
__device__ bool IsNan(double value) { return value != value; }
__device__ bool IsInfinite(double value) { return value == Infinity() || value == -Infinity(); }

__device__ u64 XorHigh(u64 x) { return x ^ (x >> 32); }
__device__ u64 MixWord(u64 word, u64 index) {
  const u64 key = (2 * index + 1) * 0x9e3779b97f4a7c15ull;
  return XorHigh(XorHigh(XorHigh(word + key) * key) * 0xd6e8feb86659fd93ull);
}

// Neumaier's sum.
__device__ void AddTo(double value, double* sum, double* rest) {
  const double larger = fabs(*sum) >= fabs(value) ? *sum : value;
  const double smaller = fabs(*sum) >= fabs(value) ? value : *sum;
  const double total = *sum + value;
  *rest += (larger - total) + smaller;
  *sum = total;
}

__device__ Partial Nothing() { return {0, 0, 0, 0, 0, Infinity(), -Infinity(), 0, 0, 0, 0, 0}; }

__device__ void AddTo(const Partial& more, Partial* partial) {
  partial->nans += more.nans;
  partial->positive_infinities += more.positive_infinities;
  partial->negative_infinities += more.negative_infinities;
  partial->zeros += more.zeros;
  partial->words += more.words;
  partial->least = fmin(partial->least, more.least);
  partial->most = fmax(partial->most, more.most);
  AddTo(more.sum, &partial->sum, &partial->sum_rest);
  partial->sum_rest += more.sum_rest;
  AddTo(more.squares, &partial->squares, &partial->squares_rest);
  partial->squares_rest += more.squares_rest;
}

struct Value {
  double value;
  double square;
};

__device__ Value Real(double value) { return {value, value * value}; }

__device__ Value Complex(double real, double imaginary) {
  const double square = real * real + imaginary * imaginary;
  return {sqrt(square), square};
}

// The parts' squares may leave double's range where the magnitude doesn't.
__device__ Value WideComplex(double real, double imaginary) {
  const Value plain = Complex(real, imaginary);
  const double little = 0x1p-900, much = 0x1p900;
  if (plain.square >= little && plain.square <= much) return plain;
  if (IsNan(real) || IsNan(imaginary)) return Real(NotANumber());
  if (IsInfinite(real) || IsInfinite(imaginary)) return Real(Infinity());
  const double scale = plain.square > 1 ? 0x1p-600 : 0x1p600;
  return {Complex(real * scale, imaginary * scale).value / scale, plain.square};
}

// The formats of float8 with a sign. `fn`: without infinities. `uz`: without negative zero, whose bits are the NaN.
template <u32 kMantissaBits, u32 kBias, bool fn, bool uz>
__device__ double Float8(u32 bits) {
  constexpr u32 kExponentMask = (1u << (7 - kMantissaBits)) - 1;
  constexpr u32 kMantissaMask = (1u << kMantissaBits) - 1;
  const u32 exponent = (bits >> kMantissaBits) & kExponentMask;
  const u32 mantissa = bits & kMantissaMask;
  if (uz ? bits == 0x80 : exponent == kExponentMask && (fn ? mantissa == kMantissaMask : mantissa != 0)) {
    return NotANumber();
  }
  double value = 0;
  if (!uz && !fn && exponent == kExponentMask) {
    value = Infinity();
  } else if (exponent == 0) {
    value = mantissa * __uint_as_float((128 - kBias - kMantissaBits) << 23);
  } else {
    value = __uint_as_float((exponent + 127 - kBias) << 23 | mantissa << (23 - kMantissaBits));
  }
  return bits & 0x80 ? -value : value;
}

__device__ double Float16(u32 bits) {
  const u32 exponent = (bits >> 10) & 0x1f;
  const u32 mantissa = bits & 0x3ff;
  const float value = exponent == 0
                          ? mantissa * 0x1p-24f
                          : __uint_as_float((exponent == 31 ? 0xffu : exponent + 127 - 15) << 23 | mantissa << 13);
  return bits & 0x8000 ? -value : value;
}

__device__ double Float32(u64 bits) { return __uint_as_float(static_cast<u32>(bits)); }
__device__ double Float64(u64 bits) { return __longlong_as_double(static_cast<i64>(bits)); }

__device__ double Exponent(u32 bits) {
  return bits == 255 ? NotANumber() : __uint_as_float(bits == 0 ? 1u << 22 : bits << 23);
}

// By the number of its ElementType: bytes of an element and of its parts, whether all elements are finite, and the
// value of the one whose bytes are the lowest of `bits`; the second 8 of complex128 are `more`.
template <u32 kType>
struct Element;

#define TORCHTRACE_ELEMENT(number, size, part, finite, expression) \
  template <>                                                      \
  struct Element<number> {                                         \
    static constexpr u32 kBytes = size;                            \
    static constexpr u32 kPartBytes = part;                        \
    static constexpr bool kFinite = finite;                        \
    __device__ static Value Get(u64 bits, u64 more) {              \
      (void)more;                                                  \
      return expression;                                           \
    }                                                              \
  }

TORCHTRACE_ELEMENT(0, 1, 1, true, Real(static_cast<u8>(bits)));
TORCHTRACE_ELEMENT(1, 1, 1, true, Real(static_cast<signed char>(bits)));
TORCHTRACE_ELEMENT(2, 2, 2, true, Real(static_cast<short>(bits)));
TORCHTRACE_ELEMENT(3, 4, 4, true, Real(static_cast<int>(bits)));
TORCHTRACE_ELEMENT(4, 8, 8, true, Real(static_cast<double>(static_cast<i64>(bits))));
TORCHTRACE_ELEMENT(5, 2, 2, false, Real(Float16(static_cast<u32>(bits))));
TORCHTRACE_ELEMENT(6, 4, 4, false, Real(Float32(bits)));
TORCHTRACE_ELEMENT(7, 8, 8, false, Real(Float64(bits)));
TORCHTRACE_ELEMENT(8, 4, 2, false, Complex(Float16(bits & 0xffff), Float16(static_cast<u32>(bits >> 16))));
TORCHTRACE_ELEMENT(9, 8, 4, false, Complex(Float32(bits), Float32(bits >> 32)));
TORCHTRACE_ELEMENT(10, 16, 8, false, WideComplex(Float64(bits), Float64(more)));
TORCHTRACE_ELEMENT(11, 1, 1, true, Real((bits & 0xff) != 0));
TORCHTRACE_ELEMENT(15, 2, 2, false, Real(Float32(bits << 16)));
TORCHTRACE_ELEMENT(23, 1, 1, false, Real(Float8<2, 15, false, false>(bits & 0xff)));
TORCHTRACE_ELEMENT(24, 1, 1, false, Real(Float8<3, 7, true, false>(bits & 0xff)));
TORCHTRACE_ELEMENT(25, 1, 1, false, Real(Float8<2, 16, true, true>(bits & 0xff)));
TORCHTRACE_ELEMENT(26, 1, 1, false, Real(Float8<3, 8, true, true>(bits & 0xff)));
TORCHTRACE_ELEMENT(27, 2, 2, true, Real(static_cast<u16>(bits)));
TORCHTRACE_ELEMENT(28, 4, 4, true, Real(static_cast<u32>(bits)));
TORCHTRACE_ELEMENT(29, 8, 8, true, Real(static_cast<double>(bits)));
TORCHTRACE_ELEMENT(44, 1, 1, false, Real(Exponent(bits & 0xff)));

struct alignas(16) Unit {
  u64 words[2];
};

__device__ u64 LoadPart(const u8* from, u32 bytes, bool aligned) {
  if (aligned) {
    if (bytes == 1) return *from;
    if (bytes == 2) return *reinterpret_cast<const u16*>(from);
    if (bytes == 4) return *reinterpret_cast<const u32*>(from);
    return *reinterpret_cast<const u64*>(from);
  }
  u64 bits = 0;
  for (u32 i = 0; i < bytes; ++i) bits |= static_cast<u64>(from[i]) << (8 * i);
  return bits;
}

// `count` elements from number `first` on, wherever they are. Not in line: one copy is enough for all types.
__device__ __noinline__ Unit Gather(const Arguments& arguments, u64 first, u32 count, u32 bytes, u32 part_bytes) {
  Unit unit = {{0, 0}};
  const int inner = static_cast<int>(arguments.dimensions) - 1;
  const u8* from = arguments.data + first * bytes;
  i64 stride = bytes;
  u64 left = ~0ull;  // elements up to the end of the innermost dimension
  u32 at = 0;
#pragma unroll 1
  for (u32 i = 0; i < count; ++i) {
    if (inner >= 0 && (i == 0 || left == 0)) {
      u64 rest = first + i;
      stride = arguments.strides[inner];
      from = arguments.data;
#pragma unroll 1
      for (int d = inner; d >= 0; --d) {
        const u64 size = static_cast<u64>(arguments.sizes[d]);
        // Divisions of 64 bits are slow.
        const u64 quotient = (rest | size) >> 32 == 0 ? static_cast<u32>(rest) / static_cast<u32>(size) : rest / size;
        const u64 index = rest - quotient * size;
        if (d == inner) left = size - index;
        from += static_cast<i64>(index) * arguments.strides[d];
        rest = quotient;
      }
    }
#pragma unroll 1
    for (u32 part = 0; part < bytes; part += part_bytes, at += part_bytes) {
      const u64 flips = part == 0 ? arguments.flipped & 1 : arguments.flipped >> 1;
      const u64 bits = LoadPart(from + part, part_bytes, arguments.aligned != 1) ^ flips << (8 * part_bytes - 1);
      (at < 8 ? unit.words[0] : unit.words[1]) |= bits << (8 * (at % 8));
    }
    from += stride;
    --left;
  }
  return unit;
}

// The first `count` elements. Loops that are not unrolled keep the kernel small, and NVRTC quick.
template <typename T>
__device__ void AddUnit(const Unit& unit, u64 number, u32 count, Partial* partial) {
  double sum = 0, squares = 0;
  u64 bits = unit.words[0];
#pragma unroll 1
  for (u32 i = 0; i < count; ++i) {
    const Value element = T::Get(bits, unit.words[1]);
    if (!T::kFinite && IsNan(element.value)) {
      ++partial->nans;
    } else if (!T::kFinite && IsInfinite(element.value)) {
      ++(element.value > 0 ? partial->positive_infinities : partial->negative_infinities);
    } else {
      partial->zeros += element.value == 0;
      partial->least = fmin(partial->least, element.value);
      partial->most = fmax(partial->most, element.value);
      sum += element.value;
      squares += element.square;
    }
    if (T::kBytes < 8) bits >>= 8 * (T::kBytes % 8);
    if ((i + 1) * T::kBytes == 8) bits = unit.words[1];
  }
  AddTo(sum, &partial->sum, &partial->sum_rest);
  AddTo(squares, &partial->squares, &partial->squares_rest);
  partial->words += MixWord(unit.words[0], 2 * number);
  if (count * T::kBytes > 8) partial->words += MixWord(unit.words[1], 2 * number + 1);
}

template <typename T>
__device__ void AddUnits(const Arguments& arguments, Partial* partial) {
  constexpr u32 kElements = 16 / T::kBytes;
  const u64 whole = arguments.elements / kElements;
  const u64 units = (arguments.elements + (kElements - 1)) / kElements;
  const u64 step = static_cast<u64>(gridDim.x) * blockDim.x;
  const u64 first = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
  const auto load = [&arguments, whole](u64 number) -> Unit {
    if (arguments.aligned == 16 && number < whole) return reinterpret_cast<const Unit*>(arguments.data)[number];
    const u32 count = number < whole ? kElements : static_cast<u32>(arguments.elements % kElements);
    return Gather(arguments, number * kElements, count, T::kBytes, T::kPartBytes);
  };
  if (first >= units) return;
  Unit next = load(first);
#pragma unroll 1
  for (u64 number = first; number < units; number += step) {
    const Unit unit = next;
    // The next one is on its way meanwhile.
    if (units - number > step) next = load(number + step);
    const u32 count = number < whole ? kElements : static_cast<u32>(arguments.elements % kElements);
    AddUnit<T>(unit, number, count, partial);
  }
}

__device__ void AddElements(const Arguments& arguments, Partial* partial) {
#define TORCHTRACE_CASE(number) \
  case number:                  \
    return AddUnits<Element<number>>(arguments, partial)
  switch (arguments.type) {
    TORCHTRACE_CASE(0);
    TORCHTRACE_CASE(1);
    TORCHTRACE_CASE(2);
    TORCHTRACE_CASE(3);
    TORCHTRACE_CASE(4);
    TORCHTRACE_CASE(5);
    TORCHTRACE_CASE(6);
    TORCHTRACE_CASE(7);
    TORCHTRACE_CASE(8);
    TORCHTRACE_CASE(9);
    TORCHTRACE_CASE(10);
    TORCHTRACE_CASE(11);
    TORCHTRACE_CASE(15);
    TORCHTRACE_CASE(23);
    TORCHTRACE_CASE(24);
    TORCHTRACE_CASE(25);
    TORCHTRACE_CASE(26);
    TORCHTRACE_CASE(27);
    TORCHTRACE_CASE(28);
    TORCHTRACE_CASE(29);
    TORCHTRACE_CASE(44);
  }
}

// Other blocks wrote it, so no copy in this one's cache counts.
__device__ Partial LoadPartial(const volatile Partial* from) {
  return {from->nans,    from->positive_infinities, from->negative_infinities,
          from->zeros,   from->words,               from->least,
          from->most,    from->sum,                 from->sum_rest,
          from->squares, from->squares_rest,        0};
}

// Into the first one. All threads of the block call it, and wait in it for the others.
__device__ void AddThreads(Partial* threads) {
  __syncthreads();
  for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) AddTo(threads[threadIdx.x + half], &threads[threadIdx.x]);
    __syncthreads();
  }
}

}  // namespace

// Where there are grid constants, functions that are not in line read the arguments where they are.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
#define TORCHTRACE_GRID_CONSTANT __grid_constant__
#else
#define TORCHTRACE_GRID_CONSTANT
#endif

extern "C" __global__ void __launch_bounds__(kMostThreads)
    torchtrace_numbers(const TORCHTRACE_GRID_CONSTANT Arguments arguments) {
  __shared__ Partial threads[kMostThreads];
  __shared__ bool is_last;
  Partial partial = Nothing();
  AddElements(arguments, &partial);
  threads[threadIdx.x] = partial;
  AddThreads(threads);
  if (gridDim.x > 1) {
    if (threadIdx.x == 0) {
      arguments.partials[blockIdx.x] = threads[0];
      __threadfence();
      is_last = atomicAdd(arguments.blocks_done, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    partial = Nothing();
    for (u32 block = threadIdx.x; block < gridDim.x; block += blockDim.x) {
      AddTo(LoadPartial(&arguments.partials[block]), &partial);
    }
    threads[threadIdx.x] = partial;
    AddThreads(threads);
  }
  if (threadIdx.x != 0) return;
  threads[0].ticket = arguments.ticket;
  *arguments.result = threads[0];
  *arguments.blocks_done = 0;
}
