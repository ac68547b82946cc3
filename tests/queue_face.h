/* queue_face.h: the calls of FQ_SPSC, FQ_MPMC, FQ_MPSC and FQ_SPMC in one table, with the item type
 * hidden; include it after fastq.h. */
#ifndef QUEUE_FACE_H_INCLUDED
#define QUEUE_FACE_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What FQ_SPSC has alone is NULL for the others, and pop_all is NULL for FQ_SPSC. */
struct face {
  const char *name;
  size_t size, align;
  bool shared; /* of the FQ_MPMC family: the capacity is a power of two, and FQ_BUSY is an answer */
  bool one_push; /* one thread pushes */
  bool one_pop;
  fq_status (*init_with)(void *q, size_t capacity, const fq_allocator *allocator);
  fq_status (*init)(void *q, size_t capacity);
  fq_status (*init_fixed)(void *q, void *memory, size_t capacity);
  size_t (*bytes)(size_t capacity);
  void (*destroy)(void *q);
  size_t (*count)(const void *q);
  size_t (*capacity)(const void *q);
  fq_status (*push)(void *q, const void *item);
  fq_status (*pop)(void *q, void *out);
  size_t (*push_n)(void *q, const void *items, size_t n);
  size_t (*pop_n)(void *q, void *out, size_t n);
  fq_status (*push_all)(void *q, const void *items, size_t n);
  fq_status (*pop_all)(void *q, void *out, size_t n);
  void *(*peek)(void *q);
  void *(*write_span)(void *q, size_t *n);
  void (*commit)(void *q, size_t n);
  void *(*read_span)(void *q, size_t *n);
  void (*release)(void *q, size_t n);
};

union queue {
  fq_spsc spsc;
  fq_mpmc mpmc;
};

#define FACE_CALLS(q, T)                                                                           \
  static fq_status q##_v_init_with(void *p, size_t capacity, const fq_allocator *allocator) {      \
    return q##_init_with((q *)p, capacity, allocator);                                             \
  }                                                                                                \
  static fq_status q##_v_init(void *p, size_t capacity) { return q##_init((q *)p, capacity); }     \
  static fq_status q##_v_init_fixed(void *p, void *memory, size_t capacity) {                      \
    return q##_init_fixed((q *)p, memory, capacity);                                               \
  }                                                                                                \
  static void q##_v_destroy(void *p) { q##_destroy((q *)p); }                                      \
  static size_t q##_v_count(const void *p) { return q##_count((const q *)p); }                     \
  static size_t q##_v_capacity(const void *p) { return q##_capacity((const q *)p); }               \
  static fq_status q##_v_push(void *p, const void *item) {                                         \
    return q##_push((q *)p, *(const T *)item);                                                     \
  }                                                                                                \
  static fq_status q##_v_pop(void *p, void *out) { return q##_pop((q *)p, (T *)out); }             \
  static size_t q##_v_push_n(void *p, const void *items, size_t n) {                               \
    return q##_push_n((q *)p, (const T *)items, n);                                                \
  }                                                                                                \
  static size_t q##_v_pop_n(void *p, void *out, size_t n) {                                        \
    return q##_pop_n((q *)p, (T *)out, n);                                                         \
  }                                                                                                \
  static fq_status q##_v_push_all(void *p, const void *items, size_t n) {                          \
    return q##_push_all((q *)p, (const T *)items, n);                                              \
  }

#define FACE_MEMBERS(q, T)                                                                         \
  .size = sizeof(T), .align = _Alignof(T), .init_with = q##_v_init_with, .init = q##_v_init,       \
  .init_fixed = q##_v_init_fixed, .bytes = q##_v_bytes, .destroy = q##_v_destroy,                  \
  .count = q##_v_count, .capacity = q##_v_capacity, .push = q##_v_push, .pop = q##_v_pop,          \
  .push_n = q##_v_push_n, .pop_n = q##_v_pop_n, .push_all = q##_v_push_all

/* SPSC_FACE(q, T): the type q, and q_face. */
#define SPSC_FACE(q, T)                                                                            \
  FQ_SPSC(q, T);                                                                                   \
  FACE_CALLS(q, T)                                                                                 \
  static size_t q##_v_bytes(size_t capacity) { return capacity * sizeof(T); }                      \
  static void *q##_v_peek(void *p) { return q##_peek((q *)p); }                                    \
  static void *q##_v_write_span(void *p, size_t *n) { return q##_write_span((q *)p, n); }          \
  static void q##_v_commit(void *p, size_t n) { q##_commit((q *)p, n); }                           \
  static void *q##_v_read_span(void *p, size_t *n) { return q##_read_span((q *)p, n); }            \
  static void q##_v_release(void *p, size_t n) { q##_release((q *)p, n); }                         \
  static const struct face q##_face = {.name = "FQ_SPSC of " #T,                                   \
                                       .one_push = true,                                           \
                                       .one_pop = true,                                            \
                                       .peek = q##_v_peek,                                         \
                                       .write_span = q##_v_write_span,                             \
                                       .commit = q##_v_commit,                                     \
                                       .read_span = q##_v_read_span,                               \
                                       .release = q##_v_release,                                   \
                                       FACE_MEMBERS(q, T)}

/* MPMC_FACE(q, T) and its sisters: likewise. */
#define MPMC_FACE(q, T) SHARED_FACE(FQ_MPMC, q, T, false, false)
#define MPSC_FACE(q, T) SHARED_FACE(FQ_MPSC, q, T, false, true)
#define SPMC_FACE(q, T) SHARED_FACE(FQ_SPMC, q, T, true, false)

#define SHARED_FACE(KIND, q, T, one_in, one_out)                                                   \
  KIND(q, T);                                                                                      \
  FACE_CALLS(q, T)                                                                                 \
  static size_t q##_v_bytes(size_t capacity) { return q##_bytes(capacity); }                       \
  static fq_status q##_v_pop_all(void *p, void *out, size_t n) {                                   \
    return q##_pop_all((q *)p, (T *)out, n);                                                       \
  }                                                                                                \
  static const struct face q##_face = {.name = #KIND " of " #T,                                    \
                                       .shared = true,                                             \
                                       .one_push = (one_in),                                       \
                                       .one_pop = (one_out),                                       \
                                       .pop_all = q##_v_pop_all,                                   \
                                       FACE_MEMBERS(q, T)}

/* How many items fit when a capacity is asked for. */
static inline size_t face_capacity(const struct face *f, size_t asked) {
  size_t fits = 1;
  while (fits < asked) {
    fits *= 2;
  }
  return f->shared ? fits : asked;
}

#endif
