/* chan_call.h: a channel of numbers, and calls on it that another thread makes. */
#ifndef CHAN_CALL_H_INCLUDED
#define CHAN_CALL_H_INCLUDED

#include "test.h"
#include "threads.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

FQ_CHAN(numbers, uint64_t);

enum kind { PUSH, PUSH_FRONT, PUSH_N, POP, POP_N };
enum { CALL_ITEMS = 16 };

struct call {
  numbers *chan;
  enum kind kind;
  int64_t timeout;
  size_t min, n;              /* of the bulk calls; n is max too */
  uint64_t items[CALL_ITEMS]; /* to push, or popped */
  size_t moved;
  fq_status status;
  int64_t took;
  atomic_bool over;
};

static inline void call_run(struct call *call) {
  int64_t start = now_ns();
  switch (call->kind) {
  case PUSH:
    call->status = numbers_push(call->chan, call->items[0], call->timeout);
    call->moved = call->status == FQ_OK ? 1 : 0;
    break;
  case PUSH_FRONT:
    call->status = numbers_push_front(call->chan, call->items[0], call->timeout);
    call->moved = call->status == FQ_OK ? 1 : 0;
    break;
  case PUSH_N:
    call->moved = numbers_push_n(call->chan, call->items, call->n, call->timeout, &call->status);
    break;
  case POP:
    call->status = numbers_pop(call->chan, call->items, call->timeout);
    call->moved = call->status == FQ_OK ? 1 : 0;
    break;
  case POP_N:
    call->moved =
        numbers_pop_n(call->chan, call->items, call->min, call->n, call->timeout, &call->status);
    break;
  }
  call->took = now_ns() - start;
  atomic_store(&call->over, true);
}

static inline void *call_main(void *arg) {
  call_run((struct call *)arg);
  return NULL;
}

static inline size_t waiting_in(numbers *c) {
  size_t producers, consumers;
  numbers_waiting(c, &producers, &consumers);
  return producers + consumers;
}

/* Starts the call on a thread and comes back when it waits; false when it ended instead. */
static inline bool call_waits(struct crew *crew, struct call *call) {
  size_t before = waiting_in(call->chan);
  crew_add(crew, call_main, call);
  UNTIL(waiting_in(call->chan) > before || atomic_load(&call->over));
  return waiting_in(call->chan) > before;
}

/* A channel of this limit that holds the items 0, 1, ... count - 1. */
static inline bool open_with(numbers *c, size_t limit, size_t count) {
  bool good = CHECK(numbers_init(c, limit) == FQ_OK);
  for (uint64_t i = 0; i < count; i++) {
    good &= CHECK(numbers_push(c, i, FQ_NOWAIT) == FQ_OK);
  }
  return good;
}

static inline bool waiting_is(numbers *c, size_t producers, size_t consumers) {
  size_t p = SIZE_MAX, q = SIZE_MAX;
  numbers_waiting(c, &p, &q);
  return p == producers && q == consumers;
}

/* Pops what is in there: it must be the items first, first + 1, ..., count of them. */
static inline bool holds(numbers *c, uint64_t first, size_t count) {
  bool good = CHECK(numbers_count(c) == count);
  for (size_t i = 0; i < count; i++) {
    uint64_t item = UINT64_MAX;
    good &= CHECK(numbers_pop(c, &item, FQ_NOWAIT) == FQ_OK) && CHECK(item == first + i);
  }
  return good;
}

#endif
