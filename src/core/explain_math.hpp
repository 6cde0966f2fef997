// exp and log of our own: the same bits natively and in WebAssembly, which libm does not promise.
#pragma once

namespace tessera::core {

// Within 1 unit in the last place over the whole range; exp(0) is exactly 1. NaN stays NaN.
double exact_exp(double x);

// Within 2 units in the last place for x > 0; log(0) is -inf, and NaN for x < 0.
double exact_log(double x);

}  // namespace tessera::core
