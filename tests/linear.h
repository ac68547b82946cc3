/* linear.h: histories of short runs, and whether a queue that does one call at a time could have
 * given the same answers.
 *
 * Each call is noted with what it answered, and with two tickets, drawn before and after it from one
 * counter. linear_search looks for an order of the calls, in which those that did not overlap keep
 * their order, that a first-in-first-out queue of the capacity explains. Two answers need no queue
 * but a reason: FQ_BUSY, and a bulk call that moved fewer than it could, are good when a call of the
 * other side that moved something overlaps. */
#ifndef LINEAR_H_INCLUDED
#define LINEAR_H_INCLUDED

#include "queue_face.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { LINEAR_CALLS = 20, LINEAR_ITEMS = 4 }; /* in a history; in a call, and in the queue */

enum call_kind {
  CALL_PUSH,
  CALL_PUSH_N,
  CALL_PUSH_ALL,
  CALL_WRITE_SPAN,
  CALL_POP, /* from here on they pop */
  CALL_POP_N,
  CALL_POP_ALL,
  CALL_READ_SPAN
};

struct call {
  enum call_kind kind;
  size_t n; /* asked for */
  size_t moved;
  fq_status status; /* of calls that answer one */
  uint64_t items[LINEAR_ITEMS];
  size_t begin, end; /* tickets */
};

struct history {
  size_t capacity;
  struct call calls[LINEAR_CALLS];
  size_t count;
  atomic_size_t clock;
};

static inline bool call_pops(const struct call *c) { return c->kind >= CALL_POP; }

/* Does a call, and notes it. Its kind and n are set, and for a push its items. */
static inline void call_do(struct call *c, const struct face *f, void *q, atomic_size_t *clock) {
  size_t n = c->n;
  const void *from;
  void *to;
  c->begin = atomic_fetch_add(clock, 1);
  switch (c->kind) {
  case CALL_PUSH:
    c->status = f->push(q, c->items);
    break;
  case CALL_PUSH_ALL:
    c->status = f->push_all(q, c->items, c->n);
    break;
  case CALL_POP:
    c->status = f->pop(q, c->items);
    break;
  case CALL_POP_ALL:
    c->status = f->pop_all(q, c->items, c->n);
    break;
  case CALL_PUSH_N:
    c->moved = f->push_n(q, c->items, c->n);
    break;
  case CALL_POP_N:
    c->moved = f->pop_n(q, c->items, c->n);
    break;
  case CALL_WRITE_SPAN:
    to = f->write_span(q, &n);
    if (n > 0) {
      memcpy(to, c->items, n * sizeof(*c->items));
    }
    f->commit(q, n);
    c->moved = n;
    break;
  default:
    from = f->read_span(q, &n);
    if (n > 0) {
      memcpy(c->items, from, n * sizeof(*c->items));
    }
    f->release(q, n);
    c->moved = n;
    break;
  }
  c->end = atomic_fetch_add(clock, 1);
  if (c->kind == CALL_PUSH || c->kind == CALL_PUSH_ALL || c->kind == CALL_POP ||
      c->kind == CALL_POP_ALL) {
    c->moved = c->status == FQ_OK ? c->n : 0;
  } else {
    c->status = FQ_OK;
  }
}

static inline bool call_has_reason(const struct history *h, const struct call *c) {
  for (size_t i = 0; i < h->count; i++) {
    const struct call *o = &h->calls[i];
    if (call_pops(o) != call_pops(c) && o->moved > 0 && o->begin < c->end && c->begin < o->end) {
      return true;
    }
  }
  return false;
}

struct linear_queue {
  uint64_t items[LINEAR_ITEMS];
  size_t count;
};

/* Does the call on the queue: false when the queue would have answered otherwise. */
static inline bool linear_step(const struct history *h, const struct call *c,
                               struct linear_queue *q) {
  bool pops = call_pops(c);
  size_t could = pops ? q->count : h->capacity - q->count;
  size_t should =
      0; /* without a reason; a span may end before its items do, where the ring wraps */
  if (c->kind == CALL_PUSH_N || c->kind == CALL_POP_N) {
    should = c->n < could ? c->n : could;
  } else if (c->kind == CALL_WRITE_SPAN || c->kind == CALL_READ_SPAN) {
    should = could > 0 ? 1 : 0;
  }
  if (c->status == FQ_BUSY) {
    return call_has_reason(h, c);
  }
  if (c->status != FQ_OK) {
    return c->status == (pops ? FQ_EMPTY : FQ_FULL) && could < c->n;
  }
  if (c->moved > could || (c->moved < should && !call_has_reason(h, c))) {
    return false;
  }
  if (pops) {
    if (memcmp(q->items, c->items, c->moved * sizeof(*q->items)) != 0) {
      return false;
    }
    q->count -= c->moved;
    memmove(q->items, q->items + c->moved, q->count * sizeof(*q->items));
  } else {
    memcpy(q->items + q->count, c->items, c->moved * sizeof(*q->items));
    q->count += c->moved;
  }
  return true;
}

/* done: the calls that have their place in the order, a bit for each. */
static inline bool linear_search(const struct history *h, uint32_t done,
                                 const struct linear_queue *q) {
  size_t first_end = SIZE_MAX;
  for (size_t i = 0; i < h->count; i++) {
    if ((done >> i & 1) == 0 && h->calls[i].end < first_end) {
      first_end = h->calls[i].end;
    }
  }
  for (size_t i = 0; i < h->count; i++) {
    struct linear_queue next = *q;
    if ((done >> i & 1) == 0 && h->calls[i].begin < first_end &&
        linear_step(h, &h->calls[i], &next) && linear_search(h, done | UINT32_C(1) << i, &next)) {
      return true;
    }
  }
  return first_end == SIZE_MAX;
}

static inline void history_print(const struct history *h) {
  static const char *const names[] = {"push", "push_n", "push_all", "write_span",
                                      "pop",  "pop_n",  "pop_all",  "read_span"};
  printf("capacity %zu\n", h->capacity);
  for (size_t i = 0; i < h->count; i++) {
    const struct call *c = &h->calls[i];
    printf("%3zu..%-3zu %s(%zu): %s, %zu:", c->begin, c->end, names[c->kind], c->n,
           fq_status_name(c->status), c->moved);
    for (size_t j = 0; j < c->moved; j++) {
      printf(" %d", (int)c->items[j]);
    }
    printf("\n");
  }
}

/* Can the history be explained? Prints it when it cannot. */
static inline bool history_holds(const struct history *h) {
  struct linear_queue empty = {{0}, 0};
  bool good = linear_search(h, 0, &empty);
  if (!good) {
    history_print(h);
  }
  return good;
}

/* -- Making one ----------------------------------------------------------------------------------- */

/* A random call of a side: singles, batches, and too large ones. */
static inline struct call call_random(uint64_t *seed, const struct face *f, bool pops,
                                      size_t capacity, uint64_t *number) {
  struct call c = {0};
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  size_t random = (size_t)(*seed >> 40);
  size_t kind = random % 8 < 4 ? 0 : random % 8 < 6 ? 1 : random % 8 < 7 ? 2 : 3;
  if (kind == 3 && f->write_span == NULL) {
    kind = 1;
  }
  if (kind == 2 && pops && f->pop_all == NULL) {
    kind = 1;
  }
  c.kind = (enum call_kind)((pops ? CALL_POP : CALL_PUSH) + kind);
  c.n = kind == 0 ? 1 : random / 8 % LINEAR_ITEMS + 1;
  if (kind == 2 && c.n > capacity) {
    c.n = capacity;
  }
  for (size_t i = 0; !pops && i < c.n; i++) {
    c.items[i] = ++*number;
  }
  return c;
}

/* Before the threads start: a queue with some items, which start at any place of it. */
static inline void history_begin(struct history *h, const struct face *f, void *q, size_t capacity,
                                 size_t head, size_t count) {
  uint64_t old[LINEAR_ITEMS];
  h->capacity = capacity;
  h->count = 0;
  atomic_store(&h->clock, 0);
  for (size_t i = 0; i < head; i++) {
    (void)f->push(q, old);
    (void)f->pop(q, old);
  }
  if (count > 0) {
    struct call *c = &h->calls[h->count++];
    *c = (struct call){.kind = CALL_PUSH_N, .n = count, .items = {1001, 1002, 1003, 1004}};
    call_do(c, f, q, &h->clock);
  }
}

/* When they have ended: what is left comes out, and then it is empty, exactly. */
static inline void history_end(struct history *h, const struct face *f, void *q) {
  struct call *c;
  do {
    c = &h->calls[h->count++];
    *c = (struct call){.kind = CALL_POP, .n = 1};
    call_do(c, f, q, &h->clock);
  } while (c->status == FQ_OK && h->count < LINEAR_CALLS);
}

#endif
