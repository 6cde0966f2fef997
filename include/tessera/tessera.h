/* Tessera: exact attention. The C interface, and the only symbols that the library exports.
 *
 *   out_i = sum_j P_ij v_j,   P = softmax over visible j of  scale <q_i, k_j> + ...
 *
 * Rules that hold everywhere
 *   - Tensors lie in memory of the caller. Strides are counted in elements; 0 and negative are
 *     fine, but each element of an output has a place of its own.
 *   - A tensor of fewer than four dimensions fills the first entries of shape; the others are 1.
 *   - A tensor with data == NULL is absent, or empty if one of its sizes is 0.
 *   - All checks pass before anything is written. A refusal is a status and, if asked, a sentence.
 *   - Every struct begins with its size, so that older and newer callers and libraries fit.
 */
#ifndef TESSERA_H
#define TESSERA_H

#include <stdint.h>

#ifndef TESSERA_API
#if defined(_WIN32)
#define TESSERA_API __declspec(dllimport)
#else
#define TESSERA_API __attribute__((visibility("default")))
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Values ---------------------------------------------------------------------------------- */

typedef enum tessera_status {
  TESSERA_OK = 0,
  TESSERA_INVALID_ARGUMENT = 1, /* the call makes no sense: the sentence says what does */
  TESSERA_UNSUPPORTED = 2,      /* it makes sense, but not for this backend or version */
  TESSERA_OUT_OF_MEMORY = 3,    /* outputs hold what they held, or NaN throughout */
  TESSERA_INTERNAL = 4          /* a defect of the library: please report it */
} tessera_status;

/* DLPack's numbers: code | bits << 8. */
typedef enum tessera_dtype {
  TESSERA_INT32 = 0x2000,
  TESSERA_INT64 = 0x4000,
  TESSERA_UINT8 = 0x0801, /* as a mask: anything but 0 is true */
  TESSERA_BOOL = 0x0806,  /* one byte */
  TESSERA_FLOAT16 = 0x1002,
  TESSERA_FLOAT32 = 0x2002,
  TESSERA_FLOAT64 = 0x4002, /* the reference backend alone */
  TESSERA_BFLOAT16 = 0x1004
} tessera_dtype;

/* DLPack's numbers. */
typedef enum tessera_device { TESSERA_CPU = 1, TESSERA_CUDA = 2 } tessera_device;

typedef enum tessera_tensor_flags { TESSERA_READ_ONLY = 1 } tessera_tensor_flags;

typedef enum tessera_backward_flags {
  TESSERA_ACCUMULATE = 1 /* add the gradients to what is there */
} tessera_backward_flags;

typedef enum tessera_backend {
  TESSERA_BACKEND_AUTO = 0,      /* the fastest that can do the call; never another answer */
  TESSERA_BACKEND_CPU = 1,       /* tiled, in the vector instructions of the processor */
  TESSERA_BACKEND_REFERENCE = 2, /* the definition in double precision: slow, complete */
  TESSERA_BACKEND_STANDARD = 3,  /* for comparison: the same kernels, the N x N matrix stored */
  TESSERA_BACKEND_CUDA = 4,      /* an NVIDIA GPU: what AUTO takes where the tensors lie on one */
  TESSERA_BACKEND_EMULATOR = 5   /* its kernels in software: very slow, for tests */
} tessera_backend;

/* Which key lies on the diagonal of query 0: the offset of the band and of ALiBi. */
typedef enum tessera_align {
  TESSERA_ALIGN_UNSET = 0,        /* without a band, or with as many keys as queries */
  TESSERA_ALIGN_TOP_LEFT = 1,     /* offset 0 */
  TESSERA_ALIGN_BOTTOM_RIGHT = 2, /* keys of that sequence - queries of that sequence */
  TESSERA_ALIGN_OFFSET = 3,       /* desc.offset */
  TESSERA_ALIGN_OFFSETS = 4       /* desc.offsets, one for each sequence */
} tessera_align;

#define TESSERA_UNBOUNDED INT64_MAX

/* ---- Errors ---------------------------------------------------------------------------------- */

/* Owned by the caller and filled by the callee: no allocation, no lifetime. May be NULL. */
typedef struct tessera_error {
  uint32_t size;     /* sizeof(tessera_error), set by the caller */
  int32_t status;    /* a tessera_status */
  char message[504]; /* a sentence: what was given, what is accepted, what to do */
} tessera_error;

static inline tessera_error tessera_error_default(void) {
  tessera_error e;
  e.size = sizeof e;
  e.status = TESSERA_OK;
  e.message[0] = 0;
  return e;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* Lies inside descriptors, so its size never changes. */
typedef struct tessera_tensor {
  void* data; /* element [0, 0, 0, 0]; aligned to its element */
  int64_t shape[4];
  int64_t stride[4];   /* in elements */
  uint32_t dtype;      /* a tessera_dtype */
  int32_t device_type; /* a tessera_device */
  int32_t device_id;
  uint32_t flags;       /* tessera_tensor_flags */
  uint64_t reserved[2]; /* 0 */
} tessera_tensor;

/* An absent tensor. */
static inline tessera_tensor tessera_tensor_default(void) {
  tessera_tensor t = {0, {1, 1, 1, 1}, {1, 1, 1, 1}, TESSERA_FLOAT32, TESSERA_CPU, 0, 0, {0, 0}};
  return t;
}

/* Dense, row-major, on the CPU. Strides of sizes beyond reason wrap; calls refuse such sizes. */
static inline tessera_tensor tessera_tensor_dense(void* data, uint32_t dtype, int64_t d0,
                                                  int64_t d1, int64_t d2, int64_t d3) {
  tessera_tensor t = tessera_tensor_default();
  t.data = data;
  t.dtype = dtype;
  t.shape[0] = d0, t.shape[1] = d1, t.shape[2] = d2, t.shape[3] = d3;
  for (int i = 3; i > 0; --i)
    t.stride[i - 1] = (int64_t)((uint64_t)t.stride[i] * (uint64_t)t.shape[i]);
  return t;
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* A named array or scalar of a score or mask expression. */
typedef struct tessera_binding {
  const char* name;
  tessera_tensor value;
} tessera_binding;

/* Of tessera_attention_desc. */
typedef enum tessera_attention_flags {
  /* The bits of a row depend on its own query, keys and options alone: not on the batch, on rows
   * beside it, or on whether it is decoded alone. */
  TESSERA_BATCH_INVARIANT = 2
} tessera_attention_flags;

/* One call. Shapes are [batch, sequence, heads, dim]; B batches, Lq queries, Lk keys, H query
 * heads, Hk key heads with H % Hk == 0 (query head h reads key head h / (H / Hk)), dims D and
 * Dv >= 1.
 *
 * For query i and key j of one (batch, head), in this order:
 *   s = scale <q_i, k_j>;  s = softcap tanh(s / softcap);  s -= alibi |i + offset - j|;  s += bias
 *   key j is visible iff  i + offset - left <= j <= i + offset + right,  mask, start <= j < length
 *   P = softmax of s over visible j, with exp(sink) added to the denominator once
 *   out_i = sum_j dropout(P_ij) v_j;   lse_i = log(sum_j exp(s_ij) + exp(sink))
 * A row that sees no key gives 0 and lse = -inf (the sink, if there is one).
 * Source: Dao, "FlashAttention-2", 2023, for the forward pass without the matrix.
 */
typedef struct tessera_attention_desc {
  uint32_t size;    /* set by tessera_attention_desc_default() */
  uint32_t flags;   /* tessera_attention_flags, or 0 */
  uint32_t backend; /* a tessera_backend */
  uint32_t align;   /* a tessera_align */

  tessera_tensor q;   /* [B, Lq, H, D]   float32, float16, bfloat16 (float64: reference) */
  tessera_tensor k;   /* [B, Lk, Hk, D]  of q's dtype */
  tessera_tensor v;   /* [B, Lk, Hk, Dv] of q's dtype */
  tessera_tensor out; /* [B, Lq, H, Dv]  of q's dtype or float32; overlaps no input, nor itself */
  tessera_tensor lse; /* [B, H, Lq]      float32 (with float64: float64 too), or absent */

  float scale;    /* >= 0 and finite; NaN (the default): 1 / sqrt(D) */
  float softcap;  /* > 0 and finite; 0 (the default): none */
  int64_t left;   /* keys visible before the diagonal, inclusive, >= 0; TESSERA_UNBOUNDED */
  int64_t right;  /* keys visible after the diagonal; causal is 0 */
  int64_t offset; /* with TESSERA_ALIGN_OFFSET */

  tessera_tensor offsets; /* [B] int32 or int64, with TESSERA_ALIGN_OFFSETS */
  tessera_tensor mask;    /* [B|1, H|1, Lq|1, Lk|1] bool or uint8; true means "attend" */
  tessera_tensor bias;    /* [B|1, H|1, Lq|1, Lk|1] float32, float16, bfloat16; -inf hides a key */
  tessera_tensor alibi;   /* [H] or [B, H] float32 slopes */
  tessera_tensor sink;    /* [H] float32 logits */

  tessera_tensor kv_lengths;      /* [B] int32 or int64: keys j < length exist */
  tessera_tensor kv_starts;       /* [B] int32 or int64: keys j >= start exist (left padding) */
  tessera_tensor cache_batch_idx; /* [B] int32: the batch row of k and v that sequence b reads */

  /* Packed sequences: q is [1, total, H, D], lse [1, H, total], and sequence b has the rows
   * cu_seqlens[b] to cu_seqlens[b + 1]. B above is then the number of sequences; i and j are
   * counted within a sequence; Lq and Lk of a mask or bias are at least those of the longest. */
  tessera_tensor cu_seqlens_q; /* [B + 1] int32 or int64 */
  tessera_tensor cu_seqlens_k; /* [B + 1] int32 or int64 */
  tessera_tensor seqused_q;    /* [B] rows of each that are used; the others of out are 0 */
  tessera_tensor seqused_k;    /* [B] keys of each that are used */

  /* Pages: k is [pages, page_size, Hk, D], v alike; key j of sequence b lies in the page
   * block_table[b][j / page_size]. kv_lengths is then required. */
  tessera_tensor block_table; /* [B, max_pages] int32 */

  float dropout_p;         /* in [0, 1); 0: none */
  uint32_t dropout_offset; /* the last word of the Philox counter */
  uint64_t dropout_seed;   /* the Philox key */

  /* A state is (O normalised, lse) in float32 for a set of keys; it can start and end a call: with
   * an out of float32, (out, lse) is the state of all keys so far. Both infinities of lse mean that
   * no key was seen, whatever O holds. */
  tessera_tensor state_out; /* [B, Lq, H, Dv] float32: start from this */
  tessera_tensor state_lse; /* [B, H, Lq] float32 */

  const char* mask_expr;  /* over q, kv, head, batch; NULL: none */
  const char* score_expr; /* over score as well; NULL: none */
  const tessera_binding* bindings;
  uint64_t binding_count;

  void* workspace; /* scratch on a multiple of 64 bytes; NULL: the context keeps its own */
  uint64_t workspace_bytes;
  void* stream;      /* a CUstream of the GPU of q, NULL: its default one; NULL on the CPU */
  double* score_max; /* reference backend: receives the largest |s| over visible pairs; or NULL */
} tessera_attention_desc;

static inline tessera_attention_desc tessera_attention_desc_default(void) {
  const tessera_tensor absent = tessera_tensor_default();
  tessera_attention_desc d;
  d.size = sizeof d;
  d.flags = 0;
  d.backend = TESSERA_BACKEND_AUTO;
  d.align = TESSERA_ALIGN_UNSET;
  d.q = d.k = d.v = d.out = d.lse = absent;
  d.scale = __builtin_nanf("");
  d.softcap = d.dropout_p = 0;
  d.left = d.right = TESSERA_UNBOUNDED;
  d.offset = 0;
  d.offsets = d.mask = d.bias = d.alibi = d.sink = absent;
  d.kv_lengths = d.kv_starts = d.cache_batch_idx = absent;
  d.cu_seqlens_q = d.cu_seqlens_k = d.seqused_q = d.seqused_k = absent;
  d.block_table = absent;
  d.dropout_seed = d.dropout_offset = 0;
  d.state_out = d.state_lse = absent;
  d.mask_expr = d.score_expr = 0;
  d.bindings = 0;
  d.binding_count = d.workspace_bytes = 0;
  d.workspace = d.stream = 0;
  d.score_max = 0;
  return d;
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* The gradients of one call, on the CPU. With P, out and lse as above, Z_ij the weight that dropout
 * gives a pair, t_ij the slope of the soft cap (1 without), D_i = <d_out_i, out_i> - d_lse_i:
 *
 *   dP_ij = Z_ij <d_out_i, v_j>;         dS_ij = P_ij (dP_ij - D_i);   d_bias_ij = dS_ij
 *   dq_i = scale sum_j dS_ij t_ij k_j;   dk_j = scale sum_i dS_ij t_ij q_i
 *   dv_j = sum_i P_ij Z_ij d_out_i;      d_sink = - sum_i exp(sink - lse_i) D_i
 *
 * Key heads sum over the query heads that share them, d_bias over what the bias is broadcast to.
 * A row that sees no key, and a key or bias that no row sees, has a gradient of exactly 0. Sums are
 * formed in float32 or better and rounded once, also where they are added to what is there.
 * The gradients may be asked for in any company; those that are absent are not computed. They may
 * not overlap each other, or anything that is read. Not for pages or calls that start from a state.
 * Source: Dao, "FlashAttention-2", 2023, for the backward pass without the matrix.
 */
typedef struct tessera_attention_backward_desc {
  uint32_t size;  /* set by tessera_attention_backward_desc_default() */
  uint32_t flags; /* tessera_backward_flags */

  /* The call, required. Its out and lse, both required, are read here, as the call wrote them; its
   * backend is the one that computes the gradients; its workspace and score_max are left alone. */
  const tessera_attention_desc* forward;

  tessera_tensor d_out; /* [B, Lq, H, Dv] float32, or as q; any strides, 0 as well */
  tessera_tensor d_lse; /* [B, H, Lq] float32 (with float64: float64 too), or absent: 0 */

  /* What is wanted. Of the shape of q, k, v, bias and sink, in float32 or the type of those (with
   * float64: float64 too). In dimensions where the bias has stride 0, d_bias may have size 1. */
  tessera_tensor dq;     /* [B, Lq, H, D] */
  tessera_tensor dk;     /* [B, Lk, Hk, D] */
  tessera_tensor dv;     /* [B, Lk, Hk, Dv] */
  tessera_tensor d_bias; /* [B|1, H|1, Lq|1, Lk|1] */
  tessera_tensor d_sink; /* [H] */

  void* workspace; /* scratch on a multiple of 64 bytes; NULL: the context keeps its own */
  uint64_t workspace_bytes;

  /* Reference backend: receives, for each of dq, dk, dv, d_bias and d_sink, the norm of the terms
   * that it is summed from and of those of them that read out: [5][2]; or NULL. The error of a
   * gradient whose terms cancel is relative to them. */
  double* term_norms;
} tessera_attention_backward_desc;

static inline tessera_attention_backward_desc tessera_attention_backward_desc_default(void) {
  const tessera_tensor absent = tessera_tensor_default();
  tessera_attention_backward_desc d;
  d.size = sizeof d;
  d.flags = 0;
  d.forward = 0;
  d.d_out = d.d_lse = absent;
  d.dq = d.dk = d.dv = d.d_bias = d.d_sink = absent;
  d.workspace = 0;
  d.workspace_bytes = 0;
  d.term_norms = 0;
  return d;
}

/* ---- Contexts -------------------------------------------------------------------------------- */

/* Threads lent by the host application. parallel_for calls body(argument, w) exactly once for each
 * w in [0, workers), on any threads and in any order, and returns when all calls have returned. */
typedef struct tessera_executor {
  void (*parallel_for)(void* user, int32_t workers, void (*body)(void* argument, int32_t worker),
                       void* argument);
  void* user;
} tessera_executor;

/* The OpenMP run time on whose threads the rest of the process works, PyTorch's for instance. They
 * spin after each piece of work and hold their cores, so that another pool beside them waits. */
typedef struct tessera_openmp {
  uint32_t size;   /* set by tessera_openmp_default() */
  int32_t threads; /* of a team, as many as config.threads; best as many as the process uses */
  void (*parallel)(void (*body)(void* argument), void* argument, unsigned threads,
                   unsigned flags); /* GOMP_parallel */
  int (*thread_num)(void);          /* omp_get_thread_num */
  int (*num_threads)(void);         /* omp_get_num_threads */
} tessera_openmp;

static inline tessera_openmp tessera_openmp_default(void) {
  tessera_openmp o = {sizeof o, 0, 0, 0, 0};
  return o;
}

/* parallel_for of an executor whose user is a tessera_openmp, which must outlive the context. The
 * team may come smaller than asked for, down to the caller alone within a parallel region. Such a
 * context must not be used in a child of fork(), where most run times have lost their threads. */
TESSERA_API void tessera_openmp_parallel_for(void* user, int32_t workers,
                                             void (*body)(void* argument, int32_t worker),
                                             void* argument);

/* Memory lent by the host application. Called from the thread that calls the library. */
typedef struct tessera_allocator {
  void* (*allocate)(void* user, uint64_t bytes, uint64_t alignment); /* NULL: out of memory */
  void (*release)(void* user, void* memory, uint64_t bytes);
  void* user;
} tessera_allocator;

typedef struct tessera_context_config {
  uint32_t size;          /* set by tessera_context_config_default() */
  uint32_t flags;         /* 0 */
  int32_t threads;        /* workers of a call; 0: TESSERA_THREADS, else the processors there are */
  uint32_t reserved;      /* 0 */
  const char* cpu_target; /* "avx512", "avx2", ...; NULL: TESSERA_CPU, else the best there is */
  tessera_executor executor;   /* parallel_for == NULL: a pool of the context's own */
  tessera_allocator allocator; /* allocate == NULL: the C++ library's */
} tessera_context_config;

static inline tessera_context_config tessera_context_config_default(void) {
  tessera_context_config c = {sizeof c, 0, 0, 0, 0, {0, 0}, {0, 0, 0}};
  return c;
}

/* Threads, scratch and the choice of instructions. May be used from several threads at once: a
 * second caller works on its own thread rather than wait for the first. After fork() the child gets
 * new threads. Results are the same bits whatever the number of threads. */
typedef struct tessera_context tessera_context;

/* Makes a context; *context is NULL on failure. config may be NULL. */
TESSERA_API tessera_status tessera_context_create(const tessera_context_config* config,
                                                  tessera_context** context, tessera_error* error);

/* Ends a context that no call uses any more. NULL is fine. */
TESSERA_API void tessera_context_destroy(tessera_context* context);

/* Computes one call. */
TESSERA_API tessera_status tessera_attention(tessera_context* context,
                                             const tessera_attention_desc* desc,
                                             tessera_error* error);

/* Computes the gradients of one call. */
TESSERA_API tessera_status tessera_attention_backward(tessera_context* context,
                                                      const tessera_attention_backward_desc* desc,
                                                      tessera_error* error);

/* Writes text into buffer, ended by 0 and cut off at capacity bytes; *needed (may be NULL) receives
 * the bytes that the whole text takes, with the 0. Each text is one JSON object. */

/* What tessera_attention would run for desc, and why: backend, target, tiles, workspace. No data is
 * read but arrays of lengths on the CPU; q, k, v and out need none. */
TESSERA_API tessera_status tessera_plan_describe(tessera_context* context,
                                                 const tessera_attention_desc* desc, char* buffer,
                                                 uint64_t capacity, uint64_t* needed,
                                                 tessera_error* error);

/* The same of tessera_attention_backward. Gradients that are wanted need a shape and any address;
 * the tensors that are read need no data. */
TESSERA_API tessera_status tessera_backward_plan_describe(
    tessera_context* context, const tessera_attention_backward_desc* desc, char* buffer,
    uint64_t capacity, uint64_t* needed, tessera_error* error);

/* The context: version, targets there are and which was chosen why, threads, build. */
TESSERA_API tessera_status tessera_context_describe(tessera_context* context, char* buffer,
                                                    uint64_t capacity, uint64_t* needed,
                                                    tessera_error* error);

/* The driver and its GPUs, NVRTC and the cache of compiled kernels, or why there are none. */
TESSERA_API tessera_status tessera_gpus_describe(char* buffer, uint64_t capacity, uint64_t* needed,
                                                 tessera_error* error);

/* "major.minor.patch" of the library that runs. */
TESSERA_API const char* tessera_version(void);

/* The name of a status, as in "INVALID_ARGUMENT". */
TESSERA_API const char* tessera_status_name(tessera_status status);

/* ---- States, rotary positions, caches -------------------------------------------------------- */

/* What a row knows of some keys. lse -inf or +inf: it saw none. */
typedef struct tessera_state {
  tessera_tensor out; /* [B, Lq, H, Dv] float32, normalised as a call leaves it */
  tessera_tensor lse; /* [B, H, Lq] float32 */
} tessera_state;

/* The state of all keys from states of some of them, which share no key:
 *   lse = log sum_n exp(lse_n);   out = sum_n exp(lse_n - lse) out_n
 * Empty states merge to an empty one: out 0, lse -inf. In double precision, in the order given.
 * Source: Dao, "FlashAttention-2", 2023, section 3.1. */
typedef struct tessera_merge_desc {
  uint32_t size;  /* set by tessera_merge_desc_default() */
  uint32_t flags; /* 0 */
  const tessera_state* states;
  uint64_t count;     /* of them, 0 or more */
  tessera_tensor out; /* [B, Lq, H, Dv] float32, float16, bfloat16; a state's own out, or apart */
  tessera_tensor lse; /* [B, H, Lq] float32, or absent; a state's own lse, or apart */
} tessera_merge_desc;

static inline tessera_merge_desc tessera_merge_desc_default(void) {
  const tessera_tensor absent = tessera_tensor_default();
  tessera_merge_desc d = {sizeof d, 0, 0, 0, absent, absent};
  return d;
}

TESSERA_API tessera_status tessera_merge(tessera_context* context, const tessera_merge_desc* desc,
                                         tessera_error* error);

/* Which elements turn together, of the first R of a head. */
typedef enum tessera_rotary_layout {
  TESSERA_ROTARY_HALVES = 0,     /* c and c + R/2 */
  TESSERA_ROTARY_INTERLEAVED = 1 /* 2c and 2c + 1 */
} tessera_rotary_layout;

/* Rotary position embedding: with (a, b) the pair c of a row at position p,
 *   a' = a cos[p, c] - b sin[p, c];   b' = a sin[p, c] + b cos[p, c]
 * in float32; elements from R on are copied. Row i of sequence b is at positions[b, i], or at
 * offsets[b] + i, or at i. Source: Su et al., "RoFormer", 2021, section 3.2. */
typedef struct tessera_rotate_desc {
  uint32_t size;            /* set by tessera_rotate_desc_default() */
  uint32_t flags;           /* 0 */
  uint32_t layout;          /* a tessera_rotary_layout */
  uint32_t reserved;        /* 0 */
  tessera_tensor x;         /* [B, L, H, D] float32, float16, bfloat16 */
  tessera_tensor out;       /* the same; x itself, or apart from it */
  tessera_tensor cos, sin;  /* [positions, R / 2], 2 <= R <= D, float32 or of x's dtype */
  tessera_tensor offsets;   /* [B] int32 or int64, or absent */
  tessera_tensor positions; /* [B, L] int32 or int64, or absent */
} tessera_rotate_desc;

static inline tessera_rotate_desc tessera_rotate_desc_default(void) {
  const tessera_tensor absent = tessera_tensor_default();
  tessera_rotate_desc d = {sizeof d, 0, 0, 0, absent, absent, absent, absent, absent, absent};
  return d;
}

TESSERA_API tessera_status tessera_rotate(tessera_context* context, const tessera_rotate_desc* desc,
                                          tessera_error* error);

/* Puts new keys and values behind those of a cache: row i of sequence b becomes its key
 * kv_lengths[b] + i, k rotated to that position where cos and sin are given. kv_lengths is read,
 * not changed. Every sequence must have room before anything is written. */
typedef struct tessera_append_desc {
  uint32_t size;                   /* set by tessera_append_desc_default() */
  uint32_t flags;                  /* 0 */
  uint32_t layout;                 /* a tessera_rotary_layout */
  uint32_t reserved;               /* 0 */
  tessera_tensor k, v;             /* new: [B, Lnew, Hk, D], [B, Lnew, Hk, Dv] */
  tessera_tensor k_cache, v_cache; /* of k's dtype: [B or rows, capacity, Hk, D or Dv], or pages */
  tessera_tensor kv_lengths;       /* [B] int32 or int64: keys before the call */
  tessera_tensor cache_batch_idx;  /* [B] int32: the row of the cache of each, or absent */
  tessera_tensor block_table;      /* [B, max_pages] int32, or absent; as in an attention call */
  tessera_tensor cos, sin;         /* [positions, R / 2] as in tessera_rotate_desc, or absent */
} tessera_append_desc;

static inline tessera_append_desc tessera_append_desc_default(void) {
  const tessera_tensor absent = tessera_tensor_default();
  tessera_append_desc d = {sizeof d, 0,      0,      0,      absent, absent, absent,
                           absent,   absent, absent, absent, absent, absent};
  return d;
}

TESSERA_API tessera_status tessera_append(tessera_context* context, const tessera_append_desc* desc,
                                          tessera_error* error);

#ifdef __cplusplus
}
#endif
#endif
