/* Equal keys weigh the same, so the output is the mean of the values. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tessera/tessera.h>
#include <tessera/version.h>

int main(void) {
  float q[2] = {3, -1}, k[4] = {1, 2, 1, 2}, v[4] = {1, 10, 3, 30}, out[2] = {0, 0};
  tessera_error error = tessera_error_default();
  tessera_context* context = NULL;
  tessera_attention_desc desc = tessera_attention_desc_default();
  desc.q = tessera_tensor_dense(q, TESSERA_FLOAT32, 1, 1, 1, 2);
  desc.k = tessera_tensor_dense(k, TESSERA_FLOAT32, 1, 2, 1, 2);
  desc.v = tessera_tensor_dense(v, TESSERA_FLOAT32, 1, 2, 1, 2);
  desc.out = tessera_tensor_dense(out, TESSERA_FLOAT32, 1, 1, 1, 2);

  if (tessera_context_create(NULL, &context, &error) != TESSERA_OK ||
      tessera_attention(context, &desc, &error) != TESSERA_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  tessera_context_destroy(context);
  if (strcmp(tessera_version(), TESSERA_VERSION_STRING) != 0) return 2;
  printf("tessera %s: [%g, %g]\n", tessera_version(), (double)out[0], (double)out[1]);
  return fabsf(out[0] - 2) < 1e-5f && fabsf(out[1] - 20) < 1e-4f ? 0 : 3;
}
