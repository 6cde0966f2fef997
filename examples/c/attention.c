/* Attention in C over keys of two lengths, checked against a plain loop. */
#include <math.h>
#include <stdio.h>
#include <tessera/tessera.h>

enum { BATCH = 2, QUERIES = 5, KEYS = 9, HEADS = 3, DIM = 8 };

static float q[BATCH][QUERIES][HEADS][DIM], out[BATCH][QUERIES][HEADS][DIM];
static float k[BATCH][KEYS][HEADS][DIM], v[BATCH][KEYS][HEADS][DIM];
static const int32_t lengths[BATCH] = {9, 4};

/* Element d of out_i = sum_j exp(s_ij) v_j / sum_j exp(s_ij), in double. */
static double plain(int b, int i, int h, int d) {
  double sum = 0, weighted = 0;
  for (int j = 0; j < lengths[b]; ++j) {
    double score = 0;
    for (int c = 0; c < DIM; ++c) score += (double)q[b][i][h][c] * (double)k[b][j][h][c];
    const double weight = exp(score / sqrt((double)DIM));
    sum += weight;
    weighted += weight * (double)v[b][j][h][d];
  }
  return weighted / sum;
}

static void fill(float* x, int count, float frequency) {
  for (int i = 0; i < count; ++i) x[i] = sinf(frequency * (float)i);
}

int main(void) {
  fill(&q[0][0][0][0], sizeof q / sizeof(float), 0.7f);
  fill(&k[0][0][0][0], sizeof k / sizeof(float), 1.3f);
  fill(&v[0][0][0][0], sizeof v / sizeof(float), 2.1f);

  tessera_attention_desc desc = tessera_attention_desc_default();
  desc.q = tessera_tensor_dense(q, TESSERA_FLOAT32, BATCH, QUERIES, HEADS, DIM);
  desc.k = tessera_tensor_dense(k, TESSERA_FLOAT32, BATCH, KEYS, HEADS, DIM);
  desc.v = tessera_tensor_dense(v, TESSERA_FLOAT32, BATCH, KEYS, HEADS, DIM);
  desc.out = tessera_tensor_dense(out, TESSERA_FLOAT32, BATCH, QUERIES, HEADS, DIM);
  desc.kv_lengths = tessera_tensor_dense((void*)lengths, TESSERA_INT32, BATCH, 1, 1, 1);

  tessera_error error = tessera_error_default();
  tessera_context* context = NULL;
  if (tessera_context_create(NULL, &context, &error) != TESSERA_OK ||
      tessera_attention(context, &desc, &error) != TESSERA_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 2;
  }
  tessera_context_destroy(context);

  double worst = 0;
  for (int b = 0; b < BATCH; ++b)
    for (int i = 0; i < QUERIES; ++i)
      for (int h = 0; h < HEADS; ++h)
        for (int d = 0; d < DIM; ++d)
          worst = fmax(worst, fabs(plain(b, i, h, d) - (double)out[b][i][h][d]));
  printf("largest difference from a plain loop: %.1e\n", worst);
  return worst < 1e-6 ? 0 : 1;
}
