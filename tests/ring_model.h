/* ring_model.h: a ring beside a plain array that says what it must hold.
 *
 * model_step does one operation on both and checks everything that can be seen from outside:
 * results, each item, the capacity, the bytes around the storage and around what was read. */
#ifndef RING_MODEL_H_INCLUDED
#define RING_MODEL_H_INCLUDED

#include "heap.h"
#include "test.h"

#include <stdint.h>

enum {
  MODEL_ITEMS = 256,   /* most items in a ring */
  MODEL_BULK = 32,     /* most items in one call */
  MODEL_NUMBERS = 251, /* items are numbered; so many in a row differ, in each of their bytes */
  MODEL_ITEM_SIZE = 200,
  MODEL_GUARD = 32
};

/* The calls of one FQ_RING, with the item type hidden. */
struct face {
  const char *name;
  size_t item_size;
  fq_status (*init_with)(void *r, size_t capacity, const fq_allocator *allocator);
  fq_status (*init_fixed)(void *r, void *storage, size_t capacity);
  void (*destroy)(void *r);
  void (*clear)(void *r);
  fq_status (*reserve)(void *r, size_t capacity);
  size_t (*count)(const void *r);
  size_t (*capacity)(const void *r);
  fq_status (*push)(void *r, const void *item);
  fq_status (*push_front)(void *r, const void *item);
  fq_status (*pop)(void *r, void *out);
  size_t (*push_n)(void *r, const void *items, size_t n);
  size_t (*push_front_n)(void *r, const void *items, size_t n);
  fq_status (*push_all)(void *r, const void *items, size_t n);
  size_t (*pop_n)(void *r, void *out, size_t n);
  void *(*peek)(const void *r, size_t i);
  void *(*write_span)(void *r, size_t *n);
  void (*commit)(void *r, size_t n);
  void *(*read_span)(void *r, size_t *n);
  void (*release)(void *r, size_t n);
};

#define FACE(ring, T)                                                                              \
  FQ_RING(ring, T);                                                                                \
  static fq_status ring##_v_init_with(void *r, size_t capacity, const fq_allocator *allocator) {   \
    return ring##_init_with((ring *)r, capacity, allocator);                                       \
  }                                                                                                \
  static fq_status ring##_v_init_fixed(void *r, void *storage, size_t capacity) {                  \
    return ring##_init_fixed((ring *)r, (T *)storage, capacity);                                   \
  }                                                                                                \
  static void ring##_v_destroy(void *r) { ring##_destroy((ring *)r); }                             \
  static void ring##_v_clear(void *r) { ring##_clear((ring *)r); }                                 \
  static fq_status ring##_v_reserve(void *r, size_t n) { return ring##_reserve((ring *)r, n); }    \
  static size_t ring##_v_count(const void *r) { return ring##_count((const ring *)r); }            \
  static size_t ring##_v_capacity(const void *r) { return ring##_capacity((const ring *)r); }      \
  static fq_status ring##_v_push(void *r, const void *item) {                                      \
    return ring##_push((ring *)r, *(const T *)item);                                               \
  }                                                                                                \
  static fq_status ring##_v_push_front(void *r, const void *item) {                                \
    return ring##_push_front((ring *)r, *(const T *)item);                                         \
  }                                                                                                \
  static fq_status ring##_v_pop(void *r, void *out) { return ring##_pop((ring *)r, (T *)out); }    \
  static size_t ring##_v_push_n(void *r, const void *items, size_t n) {                            \
    return ring##_push_n((ring *)r, (const T *)items, n);                                          \
  }                                                                                                \
  static size_t ring##_v_push_front_n(void *r, const void *items, size_t n) {                      \
    return ring##_push_front_n((ring *)r, (const T *)items, n);                                    \
  }                                                                                                \
  static fq_status ring##_v_push_all(void *r, const void *items, size_t n) {                       \
    return ring##_push_all((ring *)r, (const T *)items, n);                                        \
  }                                                                                                \
  static size_t ring##_v_pop_n(void *r, void *out, size_t n) {                                     \
    return ring##_pop_n((ring *)r, (T *)out, n);                                                   \
  }                                                                                                \
  static void *ring##_v_peek(const void *r, size_t i) { return ring##_peek((const ring *)r, i); }  \
  static void *ring##_v_write_span(void *r, size_t *n) { return ring##_write_span((ring *)r, n); } \
  static void ring##_v_commit(void *r, size_t n) { ring##_commit((ring *)r, n); }                  \
  static void *ring##_v_read_span(void *r, size_t *n) { return ring##_read_span((ring *)r, n); }   \
  static void ring##_v_release(void *r, size_t n) { ring##_release((ring *)r, n); }                \
  static const struct face ring##_face = {#T,                                                      \
                                          sizeof(T),                                               \
                                          ring##_v_init_with,                                      \
                                          ring##_v_init_fixed,                                     \
                                          ring##_v_destroy,                                        \
                                          ring##_v_clear,                                          \
                                          ring##_v_reserve,                                        \
                                          ring##_v_count,                                          \
                                          ring##_v_capacity,                                       \
                                          ring##_v_push,                                           \
                                          ring##_v_push_front,                                     \
                                          ring##_v_pop,                                            \
                                          ring##_v_push_n,                                         \
                                          ring##_v_push_front_n,                                   \
                                          ring##_v_push_all,                                       \
                                          ring##_v_pop_n,                                          \
                                          ring##_v_peek,                                           \
                                          ring##_v_write_span,                                     \
                                          ring##_v_commit,                                         \
                                          ring##_v_read_span,                                      \
                                          ring##_v_release}

struct item3 {
  unsigned char bytes[3];
};
struct item24 {
  uint64_t words[3];
};
struct item200 {
  unsigned char bytes[MODEL_ITEM_SIZE];
};
FACE(ring1, uint8_t);
FACE(ring3, struct item3);
FACE(ring8, uint64_t);
FACE(ring24, struct item24);
FACE(ring200, struct item200);

static const struct face *const faces[] = {&ring1_face, &ring3_face, &ring8_face, &ring24_face,
                                           &ring200_face};
enum { FACES = sizeof(faces) / sizeof(faces[0]) };

enum op_kind {
  OP_PUSH,
  OP_PUSH_FRONT,
  OP_POP,
  OP_PUSH_N,
  OP_PUSH_FRONT_N,
  OP_PUSH_ALL,
  OP_POP_N,
  OP_WRITE_SPAN,
  OP_READ_SPAN,
  OP_RESERVE,
  OP_CLEAR,
  OP_KINDS
};

/* Where the items of a push come from. */
enum op_from { FROM_OUTSIDE, FROM_HEAD, FROM_TAIL, FROMS };

struct op {
  enum op_kind kind;
  enum op_from from;
  size_t n;    /* items, or the capacity to reserve */
  size_t used; /* of a span: how many are committed or released, at most; or OP_TOO_MANY */
};
#define OP_TOO_MANY SIZE_MAX

/* fixed: the caller's storage. growing: memory from the heap. starved: that was growing, but gets
 * no more memory after init. */
enum model_kind { MODEL_FIXED, MODEL_GROWING, MODEL_STARVED, MODEL_KINDS };

struct model {
  const struct face *face;
  const unsigned char *source; /* its items */
  enum model_kind kind;
  union {
    ring1 r1;
    ring3 r3;
    ring8 r8;
    ring24 r24;
    ring200 r200;
  } ring;
  struct heap heap;
  size_t capacity; /* as the ring said last */
  size_t count;
  uint8_t items[MODEL_ITEMS]; /* the numbers of the items, in order */
  size_t next;                /* the number of the next new item */
};

/* For each face item number i at i * item_size, so that a bulk is a piece of it, and one bulk
 * more. */
static _Alignas(
    64) unsigned char model_source[FACES][(MODEL_NUMBERS + MODEL_BULK) * MODEL_ITEM_SIZE];
static _Alignas(64) unsigned char model_storage[MODEL_ITEMS * MODEL_ITEM_SIZE + 2 * MODEL_GUARD];
static _Alignas(64) unsigned char model_out[(MODEL_BULK + 1) * MODEL_ITEM_SIZE];

static void model_prepare(void) {
  for (size_t f = 0; f < FACES; f++) {
    for (size_t i = 0; i < MODEL_NUMBERS + MODEL_BULK; i++) {
      for (size_t j = 0; j < faces[f]->item_size; j++) {
        model_source[f][i * faces[f]->item_size + j] = (unsigned char)(i % MODEL_NUMBERS + 7 * j);
      }
    }
  }
}

static inline const unsigned char *model_item(const struct model *m, size_t number) {
  return m->source + number * m->face->item_size;
}

/* Do n items at p carry these numbers? */
static bool model_same(const struct model *m, const void *p, const uint8_t *numbers, size_t n) {
  size_t size = m->face->item_size;
  for (size_t i = 0; i < n; i++) {
    if (memcmp((const unsigned char *)p + i * size, model_item(m, numbers[i]), size) != 0) {
      return false;
    }
  }
  return true;
}

/* -- What the array says ------------------------------------------------------------------------ */

static void model_append(struct model *m, const uint8_t *numbers, size_t n) {
  memcpy(m->items + m->count, numbers, n);
  m->count += n;
}

static void model_prepend(struct model *m, const uint8_t *numbers, size_t n) {
  memmove(m->items + n, m->items, m->count);
  memcpy(m->items, numbers, n);
  m->count += n;
}

static void model_drop(struct model *m, size_t n) {
  m->count -= n;
  memmove(m->items, m->items + n, m->count);
}

/* How many of n more items a ring takes, and what it says when that is not all. */
static size_t model_room(const struct model *m, size_t n) {
  size_t places = m->capacity - m->count;
  return m->kind == MODEL_GROWING || n < places ? n : places;
}

static fq_status model_answer(const struct model *m, size_t n) {
  if (model_room(m, n) == n) {
    return FQ_OK;
  }
  return m->kind == MODEL_FIXED ? FQ_FULL : FQ_NOMEM;
}

/* -- What the ring shows ------------------------------------------------------------------------ */

/* Where the capacity places lie. */
static unsigned char *model_places(const struct model *m) {
  return m->kind == MODEL_FIXED ? model_storage + MODEL_GUARD : m->heap.last;
}

/* The places from p to the end of the storage; 0 when p is none of them. */
static size_t model_run(const struct model *m, const void *p) {
  uintptr_t offset = (uintptr_t)p - (uintptr_t)model_places(m);
  size_t size = m->face->item_size;
  return offset % size == 0 && offset / size < m->capacity ? m->capacity - offset / size : 0;
}

static bool model_memory_holds(const struct model *m) {
  if (m->kind == MODEL_FIXED) {
    const unsigned char *end = model_places(m) + m->capacity * m->face->item_size;
    return m->heap.calls == 0 && heap_is(model_storage, MODEL_GUARD, HEAP_GUARD_BYTE) &&
           heap_is(end, MODEL_GUARD, HEAP_GUARD_BYTE);
  }
  return !m->heap.damaged && m->heap.live == (m->capacity > 0 ? 1 : 0);
}

/* needed: the places that the last operation called for. */
static bool model_check(struct model *m, size_t needed) {
  const struct face *f = m->face;
  const void *r = &m->ring;
  size_t capacity = f->capacity(r);
  bool good = CHECK(needed > m->capacity ? capacity >= needed : capacity == m->capacity);
  m->capacity = capacity;
  good &= CHECK(f->count(r) == m->count);
  for (size_t i = 0; i < m->count; i++) {
    const void *p = f->peek(r, i);
    good &= CHECK(model_run(m, p) > 0) && CHECK(model_same(m, p, m->items + i, 1));
  }
  good &= CHECK(f->peek(r, m->count) == NULL);
  good &= CHECK(f->peek(r, SIZE_MAX) == NULL);
  return CHECK(model_memory_holds(m)) && good;
}

/* -- One operation ------------------------------------------------------------------------------ */

struct input {
  const void *items;
  uint8_t numbers[MODEL_BULK];
  size_t n;
};

/* The n items of a push: new ones, or as many of the ring's own as lie in one piece there. */
static void model_input(struct model *m, struct op op, struct input *in) {
  size_t at = op.from == FROM_TAIL && m->count > 0 ? m->count - 1 : 0;
  in->n = op.n;
  if (op.from == FROM_OUTSIDE || m->count == 0) {
    for (size_t i = 0; i < op.n; i++) {
      in->numbers[i] = (uint8_t)((m->next + i) % MODEL_NUMBERS);
    }
    in->items = model_item(m, m->next);
    m->next = (m->next + op.n) % MODEL_NUMBERS;
    return;
  }
  in->items = m->face->peek(&m->ring, at);
  size_t run = model_run(m, in->items);
  in->n = in->n < run ? in->n : run;
  in->n = in->n < m->count - at ? in->n : m->count - at;
  memcpy(in->numbers, m->items + at, in->n);
}

static bool model_push_n(struct model *m, struct op op, size_t *needed) {
  const struct face *f = m->face;
  struct input in;
  model_input(m, op, &in);
  size_t room = model_room(m, in.n);
  fq_status answer = model_answer(m, in.n);
  bool good = true;
  switch (op.kind) {
  case OP_PUSH:
    room = answer == FQ_OK ? 1 : 0;
    good = CHECK(f->push(&m->ring, in.items) == answer);
    break;
  case OP_PUSH_FRONT:
    room = answer == FQ_OK ? 1 : 0;
    good = CHECK(f->push_front(&m->ring, in.items) == answer);
    break;
  case OP_PUSH_ALL:
    room = answer == FQ_OK ? in.n : 0;
    good = CHECK(f->push_all(&m->ring, in.items, in.n) == answer);
    break;
  case OP_PUSH_N:
    good = CHECK(f->push_n(&m->ring, in.items, in.n) == room);
    break;
  default:
    good = CHECK(f->push_front_n(&m->ring, in.items, in.n) == room);
    break;
  }
  if (op.kind == OP_PUSH_FRONT || op.kind == OP_PUSH_FRONT_N) {
    model_prepend(m, in.numbers, room);
  } else {
    model_append(m, in.numbers, room);
  }
  *needed = m->count;
  return good;
}

static bool model_pop_n(struct model *m, struct op op) {
  const struct face *f = m->face;
  size_t size = f->item_size;
  size_t n = op.kind == OP_POP ? 1 : op.n;
  size_t taken = n < m->count ? n : m->count;
  bool good = true;
  memset(model_out, HEAP_GUARD_BYTE, (n + 1) * size);
  if (op.kind == OP_POP) {
    good = CHECK(f->pop(&m->ring, model_out) == (taken == 1 ? FQ_OK : FQ_EMPTY));
  } else {
    good = CHECK(f->pop_n(&m->ring, model_out, n) == taken);
  }
  good &= CHECK(model_same(m, model_out, m->items, taken));
  good &= CHECK(heap_is(model_out + taken * size, (n + 1 - taken) * size, HEAP_GUARD_BYTE));
  model_drop(m, taken);
  return good;
}

/* Is p, with n places or items, all that lies in one piece of the wanted and the available? */
static bool model_is_span(const struct model *m, const void *p, size_t n, size_t wanted,
                          size_t available) {
  size_t most = wanted < available ? wanted : available;
  if (most == 0) {
    return CHECK(p == NULL) && CHECK(n == 0);
  }
  size_t run = model_run(m, p);
  return CHECK(n == (most < run ? most : run)) && CHECK(n > 0);
}

/* How many of a span's n are committed or released; more than n must change nothing. */
static size_t model_used(struct op op, size_t n) {
  if (op.used == OP_TOO_MANY) {
    return n < op.n ? n + 1 : SIZE_MAX;
  }
  return op.used < n ? op.used : n;
}

static bool model_write_span(struct model *m, struct op op, size_t *needed) {
  const struct face *f = m->face;
  size_t n = op.n;
  bool grows = m->kind == MODEL_GROWING && m->count == m->capacity && n > 0;
  unsigned char *p = (unsigned char *)f->write_span(&m->ring, &n);
  if (grows) {
    *needed = m->count + op.n;
    m->capacity = f->capacity(&m->ring);
  }
  if (!model_is_span(m, p, n, op.n, m->capacity - m->count)) {
    return false;
  }
  size_t used = model_used(op, n);
  if (n > 0) {
    struct input in;
    model_input(m, (struct op){.n = n}, &in);
    memcpy(p, in.items, n * f->item_size);
    model_append(m, in.numbers, used <= n ? used : 0);
  }
  f->commit(&m->ring, used);
  return n == 0 || used == 0 || used > n || CHECK(f->peek(&m->ring, m->count - used) == p);
}

static bool model_read_span(struct model *m, struct op op) {
  const struct face *f = m->face;
  size_t n = op.n;
  const void *p = f->read_span(&m->ring, &n);
  if (!model_is_span(m, p, n, op.n, m->count) || !CHECK(model_same(m, p, m->items, n))) {
    return false;
  }
  size_t used = model_used(op, n);
  f->release(&m->ring, used);
  model_drop(m, used <= n ? used : 0);
  return true;
}

static bool model_reserve(struct model *m, size_t n, size_t *needed) {
  fq_status answer = n <= m->capacity ? FQ_OK : model_answer(m, n - m->count);
  bool good = CHECK(m->face->reserve(&m->ring, n) == answer);
  if (answer == FQ_OK && n > m->capacity) {
    *needed = n;
    m->capacity = n; /* exactly what was asked for */
  }
  return good;
}

static bool model_step(struct model *m, struct op op) {
  size_t capacity = m->capacity, calls = m->heap.calls;
  size_t needed = 0;
  bool good = true;
  switch (op.kind) {
  case OP_POP:
  case OP_POP_N:
    good = model_pop_n(m, op);
    break;
  case OP_WRITE_SPAN:
    good = model_write_span(m, op, &needed);
    break;
  case OP_READ_SPAN:
    good = model_read_span(m, op);
    break;
  case OP_RESERVE:
    good = model_reserve(m, op.n, &needed);
    break;
  case OP_CLEAR:
    m->face->clear(&m->ring);
    m->count = 0;
    break;
  default:
    good = model_push_n(m, op, &needed);
    break;
  }
  good &= CHECK(m->heap.calls == calls || needed > capacity);
  return model_check(m, needed) && good;
}

/* -- The life of a ring -------------------------------------------------------------------------- */

/* A ring of faces[f] with capacity places, and count items from the place head on. */
static bool model_open(struct model *m, size_t f, enum model_kind kind, size_t capacity,
                       size_t head, size_t count) {
  const struct face *face = faces[f];
  fq_allocator allocator = {heap_alloc, heap_free, &m->heap};
  fq_status status;
  memset(m, 0, sizeof(*m));
  m->face = face;
  m->source = model_source[f];
  m->kind = kind;
  m->capacity = capacity;
  m->count = count;
  m->next = head + count;
  if (kind == MODEL_FIXED) {
    memset(model_storage, HEAP_GUARD_BYTE, capacity * face->item_size + 2 * MODEL_GUARD);
    status = face->init_fixed(&m->ring, model_storage + MODEL_GUARD, capacity);
  } else {
    status = face->init_with(&m->ring, capacity, &allocator);
  }
  m->heap.refuse = kind == MODEL_STARVED;
  for (size_t i = 0; i < count; i++) {
    m->items[i] = (uint8_t)(head + i);
  }
  return CHECK(status == FQ_OK) &&
         CHECK(head == 0 || face->push_n(&m->ring, m->source, head) == head) &&
         CHECK(head == 0 || face->pop_n(&m->ring, model_out, head) == head) &&
         CHECK(face->push_n(&m->ring, model_item(m, head), count) == count) && model_check(m, 0);
}

static bool model_close(struct model *m) {
  m->face->destroy(&m->ring);
  return CHECK(m->heap.live == 0) && CHECK(!m->heap.damaged);
}

#endif
