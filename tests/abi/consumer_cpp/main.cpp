// The first query sees one key of two, the second sees both; then a refusal becomes an exception.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <tessera/tessera.hpp>

int main() {
  const float q[2] = {1, 0}, k[2] = {5, 5}, v[2] = {2, 4};
  float out[2] = {};
  const tessera::Context context;
  const tessera::Tensor result(out, {1, 2, 1, 1}), values(v, {1, 2, 1, 1});
  const tessera::Tensor queries(q, {1, 2, 1, 1}), keys(k, {1, 2, 1, 1});
  tessera::attention(context, result, queries, keys, values, {.mask = tessera::causal()});
  std::printf("tessera %s: [%g, %g]\n", tessera::version().c_str(), double{out[0]}, double{out[1]});
  if (out[0] != 2 || std::fabs(out[1] - 3) > 1e-6f) return 1;

  try {
    tessera::attention(context, result, queries, keys, values, {.softcap = -1});
  } catch (const tessera::Error& error) {
    std::printf("%s\n", error.what());
    const bool names_the_argument = std::strstr(error.what(), "softcap") != nullptr;
    return error.status() == TESSERA_INVALID_ARGUMENT && names_the_argument ? 0 : 2;
  }
  return 3;
}
