/* queue_model.h: a queue of fixed size beside a plain array that says what it must hold.
 *
 * model_step does one operation on both and checks what can be seen from outside: results, items,
 * count, capacity, the bytes around the memory and around what was read. model_walk does so from
 * every small state. The others ask of each face what they have in common where things go wrong. */
#ifndef QUEUE_MODEL_H_INCLUDED
#define QUEUE_MODEL_H_INCLUDED

#include "heap.h"
#include "items.h"
#include "queue_face.h"
#include "test.h"

#ifndef FQI_POSITIONS
#define FQI_POSITIONS (SIZE_MAX >> 2)
#endif

enum {
  MODEL_CAPACITY = 16,
  MODEL_BULK = MODEL_CAPACITY + 2, /* most items in one call */
  MODEL_NUMBERS = 61, /* items are numbered; so many in a row differ, in their first byte */
  MODEL_ITEM_SIZE = 4096,
  MODEL_GUARD = 64,
  MODEL_OPS = 256
};

/* Items of a size, and one whose alignment is above what malloc gives. */
struct item1 {
  unsigned char bytes[1];
};
struct item7 {
  unsigned char bytes[7];
};
struct item4096 {
  unsigned char bytes[MODEL_ITEM_SIZE];
};
struct item_line {
  _Alignas(64) unsigned char bytes[64];
};

enum op_kind {
  OP_PUSH,
  OP_POP,
  OP_PUSH_N,
  OP_POP_N,
  OP_PUSH_ALL,
  OP_POP_ALL,
  OP_WRITE_SPAN,
  OP_READ_SPAN
};

struct op {
  enum op_kind kind;
  size_t n;
  size_t used; /* of a span: how many are committed or released, at most; or OP_TOO_MANY */
};
#define OP_TOO_MANY SIZE_MAX

struct model {
  const struct face *face;
  bool fixed; /* it lies in model_memory */
  union queue queue;
  struct heap heap;
  size_t capacity;
  size_t count;
  unsigned char items[MODEL_CAPACITY]; /* their numbers, in order */
  size_t next;                         /* the number of the next new item */
};

/* Item number i at i * size, and one bulk more, so that a bulk is a piece of it. */
static _Alignas(64) unsigned char model_source[(MODEL_NUMBERS + MODEL_BULK) * MODEL_ITEM_SIZE];
static _Alignas(64) unsigned char model_memory[MODEL_CAPACITY * MODEL_ITEM_SIZE + 1024];
static _Alignas(64) unsigned char model_out[(MODEL_BULK + 1) * MODEL_ITEM_SIZE];

static inline void model_prepare(const struct face *f) {
  for (size_t i = 0; i < MODEL_NUMBERS + MODEL_BULK; i++) {
    item_make(model_source + i * f->size, f->size, i % MODEL_NUMBERS * UINT64_C(0x010305070B0D11));
  }
}

static inline const unsigned char *model_item(const struct model *m, size_t number) {
  return model_source + number % MODEL_NUMBERS * m->face->size;
}

/* Where a fixed queue lies: the FQ_MPMC family takes any address. */
static inline unsigned char *model_place(const struct face *f) {
  return model_memory + MODEL_GUARD + (f->shared ? 3 : 0);
}

/* Do n items at p carry the first n numbers of the array? */
static inline bool model_same(const struct model *m, const void *p, size_t n) {
  size_t size = m->face->size;
  for (size_t i = 0; i < n; i++) {
    if (memcmp((const unsigned char *)p + i * size, model_item(m, m->items[i]), size) != 0) {
      return false;
    }
  }
  return true;
}

static inline void model_append(struct model *m, size_t n) {
  for (size_t i = 0; i < n; i++) {
    m->items[m->count++] = (unsigned char)((m->next + i) % MODEL_NUMBERS);
  }
}

static inline void model_drop(struct model *m, size_t n) {
  m->count -= n;
  memmove(m->items, m->items + n, m->count);
}

static inline size_t model_least(size_t a, size_t b) { return a < b ? a : b; }

static inline bool model_check(struct model *m) {
  const struct face *f = m->face;
  bool good = CHECK(f->capacity(&m->queue) == m->capacity);
  good &= CHECK(f->count(&m->queue) == m->count);
  if (f->peek != NULL) {
    const void *head = f->peek(&m->queue);
    good &=
        CHECK((head != NULL) == (m->count > 0)) && CHECK(head == NULL || model_same(m, head, 1));
  }
  if (m->fixed) {
    const unsigned char *end = model_place(f) + f->bytes(m->capacity);
    good &= CHECK(m->heap.calls == 0) &&
            CHECK(heap_is(model_place(f) - MODEL_GUARD, MODEL_GUARD, HEAP_GUARD_BYTE)) &&
            CHECK(heap_is(end, MODEL_GUARD, HEAP_GUARD_BYTE));
  }
  return good;
}

static inline bool model_push(struct model *m, struct op op) {
  const struct face *f = m->face;
  const void *items = model_item(m, m->next);
  size_t room = m->capacity - m->count;
  size_t taken = model_least(op.n, room);
  fq_status status;
  bool good;
  if (op.kind == OP_PUSH_N) {
    good = CHECK(f->push_n(&m->queue, items, op.n) == taken);
  } else {
    status = op.n <= room ? FQ_OK : op.n > m->capacity ? FQ_INVALID : FQ_FULL;
    taken = status == FQ_OK ? op.n : 0;
    good = op.kind == OP_PUSH ? CHECK(f->push(&m->queue, items) == status)
                              : CHECK(f->push_all(&m->queue, items, op.n) == status);
  }
  model_append(m, taken);
  m->next += op.n;
  return good;
}

static inline bool model_pop(struct model *m, struct op op) {
  const struct face *f = m->face;
  size_t taken = model_least(op.n, m->count);
  fq_status status;
  bool good;
  memset(model_out, HEAP_GUARD_BYTE, (op.n + 1) * f->size);
  if (op.kind == OP_POP_N) {
    good = CHECK(f->pop_n(&m->queue, model_out, op.n) == taken);
  } else {
    status = op.n <= m->count ? FQ_OK : op.n > m->capacity ? FQ_INVALID : FQ_EMPTY;
    taken = status == FQ_OK ? op.n : 0;
    good = op.kind == OP_POP ? CHECK(f->pop(&m->queue, model_out) == status)
                             : CHECK(f->pop_all(&m->queue, model_out, op.n) == status);
  }
  good &= CHECK(model_same(m, model_out, taken));
  good &=
      CHECK(heap_is(model_out + taken * f->size, (op.n + 1 - taken) * f->size, HEAP_GUARD_BYTE));
  model_drop(m, taken);
  return good;
}

/* A span is all that lies in one piece, of the wanted and the available. */
static inline bool model_is_span(const struct model *m, const void *p, size_t n, size_t wanted,
                                 size_t available) {
  const unsigned char *data = m->fixed ? model_place(m->face) : m->queue.spsc.data;
  size_t most = model_least(wanted, available);
  if (most == 0) {
    return CHECK(p == NULL) && CHECK(n == 0);
  }
  size_t offset = (size_t)((uintptr_t)p - (uintptr_t)data);
  return CHECK(offset % m->face->size == 0) && CHECK(offset / m->face->size < m->capacity) &&
         CHECK(n == model_least(most, m->capacity - offset / m->face->size));
}

/* A part of a span is committed or released, or too much of it: that must change nothing. */
static inline bool model_write(struct model *m, struct op op) {
  const struct face *f = m->face;
  size_t n = op.n, room = m->capacity - m->count;
  void *p = f->write_span(&m->queue, &n);
  if (!model_is_span(m, p, n, op.n, room)) {
    return false;
  }
  if (op.used == OP_TOO_MANY) {
    size_t all = SIZE_MAX; /* what lies in one piece */
    (void)f->write_span(&m->queue, &all);
    f->commit(&m->queue, all + 1);
    f->commit(&m->queue, SIZE_MAX);
    return true;
  }
  size_t used = model_least(op.used, n);
  if (n > 0) {
    memcpy(p, model_item(m, m->next), n * f->size);
  }
  f->commit(&m->queue, used);
  model_append(m, used);
  m->next += op.n;
  return true;
}

static inline bool model_read(struct model *m, struct op op) {
  const struct face *f = m->face;
  size_t n = op.n;
  const void *p = f->read_span(&m->queue, &n);
  if (!model_is_span(m, p, n, op.n, m->count) || !CHECK(model_same(m, p, n))) {
    return false;
  }
  if (op.used == OP_TOO_MANY) {
    size_t all = SIZE_MAX;
    (void)f->read_span(&m->queue, &all);
    f->release(&m->queue, all + 1);
    f->release(&m->queue, SIZE_MAX);
    return true;
  }
  size_t used = model_least(op.used, n);
  f->release(&m->queue, used);
  model_drop(m, used);
  return true;
}

static inline bool model_step(struct model *m, struct op op) {
  bool good;
  switch (op.kind) {
  case OP_PUSH:
  case OP_PUSH_N:
  case OP_PUSH_ALL:
    good = model_push(m, op);
    break;
  case OP_WRITE_SPAN:
    good = model_write(m, op);
    break;
  case OP_READ_SPAN:
    good = model_read(m, op);
    break;
  default:
    good = model_pop(m, op);
    break;
  }
  return model_check(m) && good;
}

/* An empty queue. */
static inline bool model_init(struct model *m, const struct face *f, bool fixed, size_t asked) {
  fq_allocator allocator = {heap_alloc, heap_free, &m->heap};
  fq_status status;
  memset(m, 0, sizeof(*m));
  memset(&m->queue, 0xEE, sizeof(m->queue)); /* as memory that was in use before */
  m->face = f;
  m->fixed = fixed;
  m->capacity = face_capacity(f, asked);
  if (fixed) {
    memset(model_memory, HEAP_GUARD_BYTE, sizeof(model_memory));
    status = f->init_fixed(&m->queue, model_place(f), asked);
  } else {
    status = f->init_with(&m->queue, asked, &allocator);
  }
  return CHECK(status == FQ_OK) && model_check(m);
}

/* One with count items from the place head on. */
static inline bool model_open(struct model *m, const struct face *f, bool fixed, size_t asked,
                              size_t head, size_t count) {
  return model_init(m, f, fixed, asked) && model_step(m, (struct op){OP_PUSH_N, head, 0}) &&
         model_step(m, (struct op){OP_POP_N, head, 0}) &&
         model_step(m, (struct op){OP_PUSH_N, count, 0});
}

/* What is left comes out, exactly a capacity goes in, and nothing stays allocated. */
static inline bool model_close(struct model *m) {
  size_t full = m->capacity;
  bool good = model_step(m, (struct op){OP_POP_N, full, 0}) &&
              model_step(m, (struct op){OP_POP, 1, 0}) &&
              model_step(m, (struct op){OP_PUSH_N, full + 1, 0}) &&
              model_step(m, (struct op){OP_PUSH, 1, 0}) &&
              model_step(m, (struct op){OP_POP_N, full + 1, 0});
  m->face->destroy(&m->queue);
  m->face->destroy(&m->queue);
  return CHECK(m->heap.live == 0) && CHECK(!m->heap.damaged) &&
         CHECK(m->face->capacity(&m->queue) == 0) && good;
}

struct ops {
  struct op op[MODEL_OPS];
  size_t n;
};

static inline void ops_add(struct ops *ops, enum op_kind kind, size_t n, size_t used) {
  if (CHECK(ops->n < MODEL_OPS)) {
    ops->op[ops->n++] = (struct op){kind, n, used};
  }
}

/* Every operation that means something different to a queue of this capacity. */
static inline void ops_list(struct ops *ops, const struct face *f, size_t capacity) {
  const size_t used[] = {0, 1, SIZE_MAX - 1, OP_TOO_MANY};
  ops->n = 0;
  ops_add(ops, OP_PUSH, 1, 0);
  ops_add(ops, OP_POP, 1, 0);
  for (size_t n = 0; n <= capacity + 1; n++) {
    ops_add(ops, OP_PUSH_N, n, 0);
    ops_add(ops, OP_POP_N, n, 0);
    ops_add(ops, OP_PUSH_ALL, n, 0);
    if (f->pop_all != NULL) {
      ops_add(ops, OP_POP_ALL, n, 0);
    }
    for (size_t i = 0; f->write_span != NULL && i < sizeof(used) / sizeof(used[0]); i++) {
      ops_add(ops, OP_WRITE_SPAN, n, used[i]);
      ops_add(ops, OP_READ_SPAN, n, used[i]);
    }
  }
}

/* Each first operation alone is part of the pairs: the model is checked after every step. Without
 * pairs the second is always a push of nothing. */
static inline bool model_walk_from(const struct face *f, bool fixed, const struct ops *ops,
                                   bool pairs, size_t asked, size_t head, size_t count) {
  struct model m;
  for (size_t a = 0; a < ops->n; a++) {
    for (size_t b = 0; b < (pairs ? ops->n : 1); b++) {
      struct op second = pairs ? ops->op[b] : (struct op){OP_PUSH_N, 0, 0};
      bool good = model_open(&m, f, fixed, asked, head, count) && model_step(&m, ops->op[a]) &&
                  model_step(&m, second);
      if (!(model_close(&m) && good)) {
        printf("%s, %s: capacity %zu, head %zu, count %zu; operations %d (%zu, %zu), %d (%zu)\n",
               f->name, fixed ? "fixed" : "allocated", asked, head, count, (int)ops->op[a].kind,
               ops->op[a].n, ops->op[a].used, (int)second.kind, second.n);
        return false;
      }
    }
  }
  return true;
}

/* Every capacity, head and count, every operation; pairs of them as well. */
static inline void model_walk(const struct face *f, size_t most, bool pairs) {
  struct ops ops;
  model_prepare(f);
  for (size_t asked = 1; asked <= most; asked++) {
    size_t capacity = face_capacity(f, asked);
    ops_list(&ops, f, capacity);
    for (size_t head = 0; head < capacity; head++) {
      for (size_t count = 0; count <= capacity; count++) {
        if (!model_walk_from(f, true, &ops, pairs, asked, head, count) ||
            !model_walk_from(f, false, &ops, false, asked, head, count)) {
          return;
        }
      }
    }
  }
}

/* -- Where things go wrong ----------------------------------------------------------------------- */

/* Nothing was touched and nothing is left, and the queue may be destroyed, and used in vain. */
static inline void check_dead(const struct face *f, union queue *q) {
  _Alignas(64) unsigned char item[MODEL_ITEM_SIZE] = {0};
  size_t n = 1;
  for (int round = 0; round < 2; round++) {
    CHECK(f->capacity(q) == 0 && f->count(q) == 0);
    CHECK(f->push(q, item) == FQ_INVALID);
    CHECK(f->pop(q, item) == FQ_INVALID);
    CHECK(f->push_n(q, item, 1) == 0);
    CHECK(f->pop_n(q, item, 1) == 0);
    CHECK(f->push_all(q, item, 1) == FQ_INVALID);
    CHECK(f->pop_all == NULL || f->pop_all(q, item, 1) == FQ_INVALID);
    if (f->peek != NULL) {
      CHECK(f->peek(q) == NULL);
      CHECK(f->write_span(q, &n) == NULL && n == 0);
      n = 1;
      CHECK(f->read_span(q, &n) == NULL && n == 0);
      n = 1;
      f->commit(q, 1);
      f->release(q, 1);
    }
    f->destroy(q);
  }
}

static inline void check_null(const struct face *f) {
  _Alignas(64) unsigned char item[MODEL_ITEM_SIZE] = {0};
  size_t n = 1;
  CHECK(f->init(NULL, 1) == FQ_INVALID);
  CHECK(f->init_with(NULL, 1, NULL) == FQ_INVALID);
  CHECK(f->init_fixed(NULL, model_memory, 1) == FQ_INVALID);
  CHECK(f->capacity(NULL) == 0 && f->count(NULL) == 0);
  CHECK(f->push(NULL, item) == FQ_INVALID);
  CHECK(f->pop(NULL, item) == FQ_INVALID);
  CHECK(f->push_n(NULL, item, 1) == 0);
  CHECK(f->pop_n(NULL, item, 1) == 0);
  CHECK(f->push_all(NULL, item, 1) == FQ_INVALID);
  CHECK(f->push_all(NULL, item, 0) == FQ_INVALID);
  CHECK(f->pop_all == NULL || f->pop_all(NULL, item, 1) == FQ_INVALID);
  if (f->peek != NULL) {
    CHECK(f->peek(NULL) == NULL);
    CHECK(f->write_span(NULL, &n) == NULL && n == 0);
    n = 1;
    CHECK(f->read_span(NULL, &n) == NULL && n == 0);
    f->commit(NULL, 1);
    f->release(NULL, 1);
  }
  f->destroy(NULL);
}

/* A queue that is fine, and items that are not. */
static inline void check_null_items(const struct face *f) {
  struct model m;
  model_prepare(f);
  if (!model_open(&m, f, true, 4, 3, 2)) {
    return;
  }
  CHECK(f->pop(&m.queue, NULL) == FQ_INVALID);
  CHECK(f->push_n(&m.queue, NULL, 1) == 0);
  CHECK(f->pop_n(&m.queue, NULL, 1) == 0);
  CHECK(f->push_all(&m.queue, NULL, 1) == FQ_INVALID);
  CHECK(f->push_all(&m.queue, NULL, 0) == FQ_OK); /* nothing of nowhere is fine */
  CHECK(f->push_n(&m.queue, NULL, 0) == 0);
  CHECK(f->pop_n(&m.queue, NULL, 0) == 0);
  CHECK(f->pop_all == NULL || f->pop_all(&m.queue, NULL, 1) == FQ_INVALID);
  CHECK(f->pop_all == NULL || f->pop_all(&m.queue, NULL, 0) == FQ_OK);
  if (f->peek != NULL) {
    CHECK(f->write_span(&m.queue, NULL) == NULL);
    CHECK(f->read_span(&m.queue, NULL) == NULL);
  }
  CHECK(f->push_all(&m.queue, model_source, SIZE_MAX) == FQ_INVALID);
  CHECK(model_check(&m));
  model_close(&m);
}

/* More than an object can have, or a size_t holds. */
static inline void check_too_large(const struct face *f) {
  const size_t half = SIZE_MAX / 2 / f->size, whole = SIZE_MAX / f->size;
  const size_t too_many[] = {SIZE_MAX,  SIZE_MAX - 1, SIZE_MAX - 63, SIZE_MAX / 2 + 1,
                             whole + 1, whole,        whole - 1,     half + 1};
  struct heap heap = {0};
  const fq_allocator on_heap = {heap_alloc, heap_free, &heap};
  union queue q;
  for (size_t i = 0; i < sizeof(too_many) / sizeof(too_many[0]); i++) {
    size_t n = too_many[i] > half ? too_many[i] : SIZE_MAX; /* whole + 1 may be 0 */
    CHECK(f->init_with(&q, n, &on_heap) == FQ_INVALID);
    check_dead(f, &q);
    CHECK(f->init(&q, n) == FQ_INVALID);
    CHECK(f->init_fixed(&q, model_memory, n) == FQ_INVALID);
    check_dead(f, &q);
    CHECK(!f->shared || f->bytes(n) == 0);
  }
  CHECK(heap.calls == 0);
  fq_status status = f->init_with(&q, half, &on_heap); /* nobody has so much */
  CHECK(status == FQ_NOMEM || (f->shared && status == FQ_INVALID));
  check_dead(f, &q);
  CHECK(heap.live == 0 && !heap.damaged);
}

static inline void check_bad_init(const struct face *f) {
  struct heap heap = {0};
  const fq_allocator no_free = {heap_alloc, NULL, &heap};
  const fq_allocator no_alloc = {NULL, heap_free, &heap};
  const fq_allocator on_heap = {heap_alloc, heap_free, &heap};
  union queue q;
  CHECK(f->init(&q, 0) == FQ_INVALID);
  check_dead(f, &q);
  CHECK(f->init_with(&q, 0, &on_heap) == FQ_INVALID);
  check_dead(f, &q);
  CHECK(f->init_with(&q, 1, &no_free) == FQ_INVALID);
  check_dead(f, &q);
  CHECK(f->init_with(&q, 1, &no_alloc) == FQ_INVALID);
  check_dead(f, &q);
  CHECK(f->init_fixed(&q, NULL, 1) == FQ_INVALID);
  check_dead(f, &q);
  CHECK(f->init_fixed(&q, model_memory, 0) == FQ_INVALID);
  check_dead(f, &q);
  CHECK(heap.calls == 0 && !heap.damaged);
}

/* Every allocation is refused in its turn, until init needs no more. */
static inline void check_no_memory(const struct face *f) {
  struct heap heap = {0};
  const fq_allocator on_heap = {heap_alloc, heap_free, &heap};
  union queue q;
  fq_status status = FQ_NOMEM;
  size_t k;
  for (k = 1; k < 9 && status != FQ_OK; k++) {
    heap = (struct heap){.fail_at = k};
    status = f->init_with(&q, 5, &on_heap);
    if (status != FQ_OK) {
      CHECK(status == FQ_NOMEM);
      CHECK(heap.live == 0);
      check_dead(f, &q);
    }
  }
  CHECK(status == FQ_OK && k > 2);
  CHECK(heap.live > 0);
  f->destroy(&q);
  CHECK(heap.live == 0 && !heap.damaged);
  check_dead(f, &q);
}

/* Without an allocator it lives on malloc; what is left over there, the sanitizer tells. */
static inline void check_default_memory(const struct face *f) {
  union queue q;
  model_prepare(f);
  if (!CHECK(f->init(&q, 7) == FQ_OK)) {
    return;
  }
  CHECK(f->capacity(&q) == face_capacity(f, 7));
  CHECK(f->push_n(&q, model_source, 6) == 6);
  CHECK(f->pop_n(&q, model_out, 7) == 6);
  CHECK(memcmp(model_out, model_source, 6 * f->size) == 0);
  CHECK(f->push(&q, model_source) == FQ_OK); /* destroyed with an item in it */
  f->destroy(&q);
  check_dead(f, &q);
}

/* In each memory of exactly the bytes that it asks for, as far as its alignment allows. The sanitizer
 * sees each byte behind it, and the guard what lies before. */
static inline void check_exact_memory(const struct face *f) {
  size_t most = f->shared && FQI_POSITIONS / 16 < 16 ? 8 : 9;
  size_t step = f->shared ? 1 : f->align;
  model_prepare(f);
  for (size_t asked = 1; asked <= most; asked++) {
    size_t capacity = face_capacity(f, asked), bytes = f->bytes(asked);
    CHECK(bytes >= capacity * f->size);
    for (size_t offset = 0; offset < 128; offset += step) {
      size_t size = offset + bytes;
      unsigned char *block =
          (unsigned char *)(step > 16 ? aligned_alloc(step, size) : malloc(size));
      union queue q;
      if (!CHECK(block != NULL)) {
        return;
      }
      memset(block, HEAP_GUARD_BYTE, offset);
      CHECK(f->init_fixed(&q, block + offset, asked) == FQ_OK);
      for (size_t round = 0; round < 3; round++) {
        CHECK(f->push_n(&q, model_source, MODEL_BULK) == capacity);
        CHECK(f->pop_n(&q, model_out, MODEL_BULK) == capacity);
        CHECK(memcmp(model_out, model_source, capacity * f->size) == 0);
      }
      f->destroy(&q);
      CHECK(heap_is(block, offset, HEAP_GUARD_BYTE));
      free(block);
    }
  }
}

/* Singles and batches of every size through many more places than there are positions: nothing is
 * lost, and the count is right all the while. */
static inline void check_laps(const struct face *f, size_t asked, uint64_t total) {
  enum { MOST = 16 };
  uint64_t in = 0, out = 0, items[MOST];
  uint64_t seed = asked;
  struct model m;
  if (!CHECK(f->size == sizeof(uint64_t)) || !model_init(&m, f, true, asked)) {
    return;
  }
  while (out < total) {
    seed = seed * UINT64_C(6364136223846793005) + 1;
    size_t push = (size_t)(seed >> 60), pop = (size_t)(seed >> 56) & (MOST - 1);
    for (size_t i = 0; i < push; i++) {
      items[i] = in + i;
    }
    size_t room = m.capacity - (size_t)(in - out);
    size_t n = f->push_n(&m.queue, items, push);
    if (!CHECK(n == model_least(push, room))) {
      break;
    }
    in += n;
    n = f->pop_n(&m.queue, items, pop);
    if (!CHECK(n == model_least(pop, (size_t)(in - out)))) {
      break;
    }
    uint64_t wrong = 0;
    for (size_t i = 0; i < n; i++) {
      wrong |= items[i] ^ (out + i);
    }
    out += n;
    if (!CHECK(wrong == 0) || !CHECK(f->count(&m.queue) == in - out)) {
      break;
    }
  }
  f->destroy(&m.queue);
}

#endif
