/* chan_face.h: channels of several item sizes behind one table. */
#ifndef CHAN_FACE_H_INCLUDED
#define CHAN_FACE_H_INCLUDED

#include "items.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The calls of one FQ_CHAN, with the item type hidden. */
struct face {
  size_t size;
  fq_status (*init)(void *c, size_t limit);
  fq_status (*init_with)(void *c, size_t limit, const fq_allocator *allocator);
  void (*destroy)(void *c);
  fq_status (*push)(void *c, const void *item, int64_t timeout);
  fq_status (*push_front)(void *c, const void *item, int64_t timeout);
  fq_status (*pop)(void *c, void *out, int64_t timeout);
  size_t (*push_n)(void *c, const void *items, size_t n, int64_t timeout, fq_status *why);
  size_t (*pop_n)(void *c, void *out, size_t min, size_t max, int64_t timeout, fq_status *why);
  void (*close)(void *c);
  void (*fail)(void *c, int error);
  bool (*closed)(void *c);
  size_t (*count)(void *c);
  size_t (*limit)(void *c);
  fq_status (*set_limit)(void *c, size_t limit);
};

#define FACE(name, T)                                                                              \
  FQ_CHAN(name, T);                                                                                \
  static fq_status name##_v_init(void *c, size_t limit) { return name##_init((name *)c, limit); }  \
  static fq_status name##_v_init_with(void *c, size_t limit, const fq_allocator *allocator) {      \
    return name##_init_with((name *)c, limit, allocator);                                          \
  }                                                                                                \
  static void name##_v_destroy(void *c) { name##_destroy((name *)c); }                             \
  static fq_status name##_v_push(void *c, const void *item, int64_t timeout) {                     \
    return name##_push((name *)c, *(const T *)item, timeout);                                      \
  }                                                                                                \
  static fq_status name##_v_push_front(void *c, const void *item, int64_t timeout) {               \
    return name##_push_front((name *)c, *(const T *)item, timeout);                                \
  }                                                                                                \
  static fq_status name##_v_pop(void *c, void *out, int64_t timeout) {                             \
    return name##_pop((name *)c, (T *)out, timeout);                                               \
  }                                                                                                \
  static size_t name##_v_push_n(void *c, const void *items, size_t n, int64_t timeout,             \
                                fq_status *why) {                                                  \
    return name##_push_n((name *)c, (const T *)items, n, timeout, why);                            \
  }                                                                                                \
  static size_t name##_v_pop_n(void *c, void *out, size_t min, size_t max, int64_t timeout,        \
                               fq_status *why) {                                                   \
    return name##_pop_n((name *)c, (T *)out, min, max, timeout, why);                              \
  }                                                                                                \
  static void name##_v_close(void *c) { name##_close((name *)c); }                                 \
  static void name##_v_fail(void *c, int error) { name##_fail((name *)c, error); }                 \
  static bool name##_v_closed(void *c) { return name##_closed((name *)c); }                        \
  static size_t name##_v_count(void *c) { return name##_count((name *)c); }                        \
  static size_t name##_v_limit(void *c) { return name##_limit((name *)c); }                        \
  static fq_status name##_v_set_limit(void *c, size_t limit) {                                     \
    return name##_set_limit((name *)c, limit);                                                     \
  }                                                                                                \
  static const struct face name##_face = {sizeof(T),        name##_v_init,   name##_v_init_with,   \
                                          name##_v_destroy, name##_v_push,   name##_v_push_front,  \
                                          name##_v_pop,     name##_v_push_n, name##_v_pop_n,       \
                                          name##_v_close,   name##_v_fail,   name##_v_closed,      \
                                          name##_v_count,   name##_v_limit,  name##_v_set_limit}

FACE(chan1, uint8_t);
FACE(chan3, struct item3);
FACE(chan8, uint64_t);
FACE(chan24, struct item24);
FACE(chan200, struct item200);

static const struct face *const faces[] = {&chan1_face, &chan3_face, &chan8_face, &chan24_face,
                                           &chan200_face};
enum { FACES = sizeof(faces) / sizeof(faces[0]) };

union any_chan {
  chan1 c1;
  chan3 c3;
  chan8 c8;
  chan24 c24;
  chan200 c200;
};

#endif
