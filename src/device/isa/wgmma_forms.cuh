// The forms of wgmma, one for each number of columns: a list of registers in a string, and the
// same list as operands. `T` says the type of the products, `a` and `b` which dimension of a shared
// operand is contiguous. PTX world (sm_90a).
#pragma once
#include <isa/thread.cuh>

namespace tessera::device::isa {

template <class T> struct NameOf;
template <> struct NameOf<Float16> {
  static constexpr char text[] = "f16";
};
template <> struct NameOf<Bfloat16> {
  static constexpr char text[] = "bf16";
};

// Eight registers from d[i] on, as operands; and n of them.
#define TS_SUMS_8(i)                                                                          \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define TS_SUMS_32(i) TS_SUMS_8(i), TS_SUMS_8(i + 8), TS_SUMS_8(i + 16), TS_SUMS_8(i + 24)

template <class T, int a, int b>
TS_DEVICE void wgmma_form(float (&d)[32], u64 x, u64 y, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.%37.%37 {%0, %1, %2, %3, %4, %5, %6, %7, %8, "
      "%9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
      "%26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, %35, %36;\n}"
      : TS_SUMS_32(0)
      : "l"(x), "l"(y), "r"(accumulate), "n"(a), "n"(b), "C"(NameOf<T>::text));
}
template <class T, int b>
TS_DEVICE void wgmma_form(float (&d)[32], const u32* x, u64 y, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.%39.%39 {%0, %1, %2, %3, %4, %5, %6, %7, %8, "
      "%9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
      "%26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}"
      : TS_SUMS_32(0)
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(y), "r"(accumulate), "n"(b),
        "C"(NameOf<T>::text));
}
template <class T, int a, int b>
TS_DEVICE void wgmma_form(float (&d)[40], u64 x, u64 y, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %42, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n80k16.f32.%45.%45 {%0, %1, %2, %3, %4, %5, %6, %7, %8, "
      "%9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
      "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39}, %40, %41, p, 1, "
      "1, %43, %44;\n}"
      : TS_SUMS_32(0), TS_SUMS_8(32)
      : "l"(x), "l"(y), "r"(accumulate), "n"(a), "n"(b), "C"(NameOf<T>::text));
}
template <class T, int b>
TS_DEVICE void wgmma_form(float (&d)[40], const u32* x, u64 y, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %45, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n80k16.f32.%47.%47 {%0, %1, %2, %3, %4, %5, %6, %7, %8, "
      "%9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
      "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39}, {%40, %41, %42, "
      "%43}, %44, p, 1, 1, %46;\n}"
      : TS_SUMS_32(0), TS_SUMS_8(32)
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(y), "r"(accumulate), "n"(b),
        "C"(NameOf<T>::text));
}
template <class T, int a, int b>
TS_DEVICE void wgmma_form(float (&d)[48], u64 x, u64 y, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %50, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n96k16.f32.%53.%53 {%0, %1, %2, %3, %4, %5, %6, %7, %8, "
      "%9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
      "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "
      "%43, %44, %45, %46, %47}, %48, %49, p, 1, 1, %51, %52;\n}"
      : TS_SUMS_32(0), TS_SUMS_8(32), TS_SUMS_8(40)
      : "l"(x), "l"(y), "r"(accumulate), "n"(a), "n"(b), "C"(NameOf<T>::text));
}
template <class T, int b>
TS_DEVICE void wgmma_form(float (&d)[48], const u32* x, u64 y, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %53, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n96k16.f32.%55.%55 {%0, %1, %2, %3, %4, %5, %6, %7, %8, "
      "%9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
      "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "
      "%43, %44, %45, %46, %47}, {%48, %49, %50, %51}, %52, p, 1, 1, %54;\n}"
      : TS_SUMS_32(0), TS_SUMS_8(32), TS_SUMS_8(40)
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(y), "r"(accumulate), "n"(b),
        "C"(NameOf<T>::text));
}
template <class T, int a, int b>
TS_DEVICE void wgmma_form(float (&d)[64], u64 x, u64 y, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.%69.%69 {%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
      "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "
      "%43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
      "%60, %61, %62, %63}, %64, %65, p, 1, 1, %67, %68;\n}"
      : TS_SUMS_32(0), TS_SUMS_32(32)
      : "l"(x), "l"(y), "r"(accumulate), "n"(a), "n"(b), "C"(NameOf<T>::text));
}
template <class T, int b>
TS_DEVICE void wgmma_form(float (&d)[64], const u32* x, u64 y, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.%71.%71 {%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
      "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "
      "%43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
      "%60, %61, %62, %63}, {%64, %65, %66, %67}, %68, p, 1, 1, %70;\n}"
      : TS_SUMS_32(0), TS_SUMS_32(32)
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(y), "r"(accumulate), "n"(b),
        "C"(NameOf<T>::text));
}
template <class T, int a, int b>
TS_DEVICE void wgmma_form(float (&d)[80], u64 x, u64 y, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %82, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n160k16.f32.%85.%85 {%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
      "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "
      "%43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
      "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "
      "%77, %78, %79}, %80, %81, p, 1, 1, %83, %84;\n}"
      : TS_SUMS_32(0), TS_SUMS_32(32), TS_SUMS_8(64), TS_SUMS_8(72)
      : "l"(x), "l"(y), "r"(accumulate), "n"(a), "n"(b), "C"(NameOf<T>::text));
}
template <class T, int b>
TS_DEVICE void wgmma_form(float (&d)[80], const u32* x, u64 y, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %85, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n160k16.f32.%87.%87 {%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
      "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "
      "%43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
      "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "
      "%77, %78, %79}, {%80, %81, %82, %83}, %84, p, 1, 1, %86;\n}"
      : TS_SUMS_32(0), TS_SUMS_32(32), TS_SUMS_8(64), TS_SUMS_8(72)
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(y), "r"(accumulate), "n"(b),
        "C"(NameOf<T>::text));
}
template <class T, int a, int b>
TS_DEVICE void wgmma_form(float (&d)[88], u64 x, u64 y, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %90, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n176k16.f32.%93.%93 {%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
      "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "
      "%43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
      "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "
      "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87}, %88, %89, p, 1, 1, %91, %92;\n}"
      : TS_SUMS_32(0), TS_SUMS_32(32), TS_SUMS_8(64), TS_SUMS_8(72), TS_SUMS_8(80)
      : "l"(x), "l"(y), "r"(accumulate), "n"(a), "n"(b), "C"(NameOf<T>::text));
}
template <class T, int b>
TS_DEVICE void wgmma_form(float (&d)[88], const u32* x, u64 y, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %93, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n176k16.f32.%95.%95 {%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
      "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "
      "%43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
      "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "
      "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87}, {%88, %89, %90, %91}, %92, p, "
      "1, 1, %94;\n}"
      : TS_SUMS_32(0), TS_SUMS_32(32), TS_SUMS_8(64), TS_SUMS_8(72), TS_SUMS_8(80)
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(y), "r"(accumulate), "n"(b),
        "C"(NameOf<T>::text));
}
template <class T, int a, int b>
TS_DEVICE void wgmma_form(float (&d)[96], u64 x, u64 y, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.%101.%101 {%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
      "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "
      "%43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
      "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "
      "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, "
      "%94, %95}, %96, %97, p, 1, 1, %99, %100;\n}"
      : TS_SUMS_32(0), TS_SUMS_32(32), TS_SUMS_32(64)
      : "l"(x), "l"(y), "r"(accumulate), "n"(a), "n"(b), "C"(NameOf<T>::text));
}
template <class T, int b>
TS_DEVICE void wgmma_form(float (&d)[96], const u32* x, u64 y, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %101, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.%103.%103 {%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
      "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "
      "%43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
      "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "
      "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, "
      "%94, %95}, {%96, %97, %98, %99}, %100, p, 1, 1, %102;\n}"
      : TS_SUMS_32(0), TS_SUMS_32(32), TS_SUMS_32(64)
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(y), "r"(accumulate), "n"(b),
        "C"(NameOf<T>::text));
}
template <class T, int a, int b>
TS_DEVICE void wgmma_form(float (&d)[128], u64 x, u64 y, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.%133.%133 {%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
      "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "
      "%43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
      "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "
      "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, "
      "%94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, "
      "%109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, "
      "%123, %124, %125, %126, %127}, %128, %129, p, 1, 1, %131, %132;\n}"
      : TS_SUMS_32(0), TS_SUMS_32(32), TS_SUMS_32(64), TS_SUMS_32(96)
      : "l"(x), "l"(y), "r"(accumulate), "n"(a), "n"(b), "C"(NameOf<T>::text));
}
template <class T, int b>
TS_DEVICE void wgmma_form(float (&d)[128], const u32* x, u64 y, int accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %133, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.%135.%135 {%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
      "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "
      "%43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
      "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "
      "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, "
      "%94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, "
      "%109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, "
      "%123, %124, %125, %126, %127}, {%128, %129, %130, %131}, %132, p, 1, 1, %134;\n}"
      : TS_SUMS_32(0), TS_SUMS_32(32), TS_SUMS_32(64), TS_SUMS_32(96)
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(y), "r"(accumulate), "n"(b),
        "C"(NameOf<T>::text));
}

#undef TS_SUMS_32
#undef TS_SUMS_8

}  // namespace tessera::device::isa
