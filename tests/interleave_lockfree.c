/* interleave_lockfree.c: short programs of threads that share a queue that never waits, under the
 * scheduler of sched.h. How they are run is in interleave.h.
 *
 * Each run leaves a history that must be explained by a queue that does one call at a time (linear.h).
 * Every load, store and compare-and-swap is a step, and so is each copy of items. Whoever runs from any
 * step on finds the others stopped anywhere, for as long as it wants to go on: so a call that waits for
 * another thread would never end. */
#undef _FORTIFY_SOURCE
#define _XOPEN_SOURCE 700 /* as interleave.h says: string.h comes first here */
#include <string.h>

static inline void copy_as_step(void *to, const void *from, size_t n);
#define memcpy(to, from, n) copy_as_step(to, from, n)
#define FQI_POSITIONS       ((size_t)127)
#include "interleave.h"
#ifndef UNFIT

#include "linear.h"

SPSC_FACE(spsc, uint64_t);
MPMC_FACE(mpmc, uint64_t);
MPSC_FACE(mpsc, uint64_t);
SPMC_FACE(spmc, uint64_t);

enum {
  PREEMPTIONS = 3, /* of the walks before the one through all schedules, which */
  EVERY = 14,      /* has as many as the scheduler can count, and that anew in each call */
  ALONE = 40       /* steps are enough for a call that nobody interrupts */
};

typedef struct settings {
  const struct face *face;
  size_t before; /* items that are there at the beginning */
  bool whole;    /* the last walk goes through all schedules */
} settings;

static struct {
  union queue queue;
  struct history history;
  bool whole;
  size_t inside; /* threads within a call */
  uint64_t numbers[SCHED_THREADS];
  size_t token; /* for what is not in the queue */
} world;
static _Alignas(FASTQ_CACHE_LINE) unsigned char memory[4 * FASTQ_CACHE_LINE];
static bool too_few;                 /* preemptions for a walk through all schedules */
static uint64_t split_in, split_out; /* runs in which a side took a part of a run of the other */

static const settings *asked(void) { return sched.program->settings; }

/* --- Steps --- */

static bool is_stored(const void *p) {
  return (uintptr_t)p >= (uintptr_t)memory && (uintptr_t)p < (uintptr_t)memory + sizeof(memory);
}

static inline void copy_as_step(void *to, const void *from, size_t n) {
  const void *place = is_stored(to) ? to : from;
  if (is_stored(place)) {
    sched_step(false);
    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
      sched_did("copy", sched_find((const unsigned char *)place + i, SCHED_WORD));
    }
  }
  memmove(to, from, n);
}

/* A walk through all schedules begins each call with all the preemptions that the scheduler can count,
 * and sees whether it ever ran out of them. */
static void refill(void) {
  if (world.whole) {
    too_few = too_few || sched.preemptions == 0;
    sched.preemptions = EVERY;
  }
}

/* What all the others have done. */
static uint64_t others(void) {
  uint64_t sum = 0;
  for (int i = 0; i < sched.thread_count; i++) {
    sum = i != sched.self ? sched_mix(sum, sched.threads[i].past) : sum;
  }
  return sum;
}

/* --- Calls --- */

static struct call *call(enum call_kind kind, size_t n) {
  struct call *c = &world.history.calls[world.history.count++];
  *c = (struct call){.kind = kind, .n = n};
  for (size_t i = 0; !call_pops(c) && i < n; i++) {
    c->items[i] = (uint64_t)sched.self * 100 + ++world.numbers[sched.self];
  }
  refill();
  sched_mark(&world.token);
  uint64_t theirs = others();
  int steps = sched.steps;
  world.inside++;
  call_do(c, asked()->face, &world.queue, &world.history.clock);
  world.inside--;
  refill();
  EXPECT(sched.steps - steps <= ALONE || theirs != others());
  sched_mark(&world.token);
  sched_note("moved %zu of %zu: %s", c->moved, n, fq_status_name(c->status));
  EXPECT(asked()->face->shared || c->status != FQ_BUSY);
  return c;
}

/* Exact when nobody is in a call, and never beyond the capacity. */
static void count(void) {
  uint64_t theirs = others();
  bool quiet = world.inside == 0;
  size_t items = 0;
  refill();
  sched_mark(&world.token);
  size_t n = asked()->face->count(&world.queue);
  sched_mark(&world.token);
  refill();
  sched_note("counted %zu", n);
  for (size_t i = 0; i < world.history.count; i++) {
    const struct call *c = &world.history.calls[i];
    items += call_pops(c) ? 0 - c->moved : c->moved;
  }
  EXPECT(n <= world.history.capacity);
  EXPECT(!quiet || theirs != others() || n == items);
}

static void push_1(void) { call(CALL_PUSH, 1); }

static void push_2(void) {
  push_1();
  push_1();
}

static void push_3(void) {
  push_2();
  push_1();
}

static void push_pair(void) { call(CALL_PUSH_N, 2); }

static void push_pairs(void) {
  push_pair();
  push_pair();
}

static void push_1_and_pair(void) {
  push_1();
  push_pair();
}

static void push_triple(void) { call(CALL_PUSH_N, 3); }

static void push_1_and_triple(void) {
  push_1();
  push_triple();
}

static void push_4(void) { call(CALL_PUSH_N, 4); }

static void push_both(void) { call(CALL_PUSH_ALL, 2); }

static void push_both_twice(void) {
  push_both();
  push_both();
}

static void push_1_and_both(void) {
  push_1();
  push_both();
}

static void push_spans(void) {
  call(CALL_WRITE_SPAN, 2);
  call(CALL_WRITE_SPAN, 3);
}

static void pop_1(void) { call(CALL_POP, 1); }

static void pop_2(void) {
  pop_1();
  pop_1();
}

static void pop_3(void) {
  pop_2();
  pop_1();
}

static void pop_pair(void) { call(CALL_POP_N, 2); }

static void pop_pairs(void) {
  pop_pair();
  pop_pair();
}

static void pop_1_and_pair(void) {
  pop_1();
  pop_pair();
}

static void pop_triple(void) { call(CALL_POP_N, 3); }

static void pop_1_and_triple(void) {
  pop_1();
  pop_triple();
}

static void pop_4(void) { call(CALL_POP_N, 4); }

static void pop_both(void) { call(CALL_POP_ALL, 2); }

static void pop_1_and_both(void) {
  pop_1();
  pop_both();
}

static void pop_spans(void) {
  call(CALL_READ_SPAN, 2);
  call(CALL_READ_SPAN, 3);
}

static void push_and_pop(void) {
  push_1();
  pop_1();
}

static void pop_and_push(void) {
  pop_1();
  push_1();
}

static void once_round(void) {
  push_1();
  pop_2();
  push_and_pop();
}

static void once_round_full(void) {
  pop_1();
  push_2();
  pop_and_push();
}

static void peek_and_pop(void) {
  for (int i = 0; i < 2; i++) {
    refill();
    const uint64_t *front = asked()->face->peek(&world.queue);
    uint64_t item = front != NULL ? *front : 0;
    const struct call *c = call(CALL_POP, 1);
    EXPECT(item == 0 || (c->moved == 1 && c->items[0] == item));
  }
}

static void count_2(void) {
  count();
  count();
}

/* --- Before and after --- */

static void set_up(void) {
  const settings *s = asked();
  memset(&world, 0, sizeof(world));
  world.whole = s->whole && sched.walking && sched.preemptions == sched.program->preemptions;
  sched_calm(true);
  EXPECT(s->face->init_fixed(&world.queue, memory, sched.program->limit) == FQ_OK);
  EXPECT(s->face->bytes(sched.program->limit) <= sizeof(memory));
  history_begin(&world.history, s->face, &world.queue, sched.program->limit, 0, s->before);
  sched_calm(false);
}

/* Once round all positions, with an empty queue and with a full one, by singles and by pairs: no mark of
 * the run before, nor of the lap before, is taken for a new one. */
static void check_laps(void) {
  const struct face *f = asked()->face;
  size_t capacity = sched.program->limit, pair = capacity < 2 ? 1 : 2;
  uint64_t items[LINEAR_ITEMS] = {0};
  for (size_t i = 0; i <= FQI_POSITIONS; i++) {
    sched.steps = 0;
    EXPECT(f->pop(&world.queue, items) == FQ_EMPTY);
    EXPECT(f->push(&world.queue, items) == FQ_OK && f->pop(&world.queue, items) == FQ_OK);
  }
  for (size_t i = 0; i <= FQI_POSITIONS; i += pair) {
    sched.steps = 0;
    EXPECT(f->push_n(&world.queue, items, pair) == pair);
    EXPECT(f->pop_n(&world.queue, items, pair) == pair);
  }
  for (size_t i = 0; i <= FQI_POSITIONS; i++) {
    sched.steps = 0;
    EXPECT(f->pop(&world.queue, items) == FQ_EMPTY);
    EXPECT(f->push_n(&world.queue, items, capacity) == capacity);
    EXPECT(f->push(&world.queue, items) == FQ_FULL);
    EXPECT(f->pop_n(&world.queue, items, capacity) == capacity);
    EXPECT(f->push(&world.queue, items) == FQ_OK && f->pop(&world.queue, items) == FQ_OK);
  }
}

static void see_splits(void) {
  const fq_mpmc *q = &world.queue.mpmc;
  size_t origin = (size_t)FASTQ_INDEX_ORIGIN & FQI_POSITIONS;
  if (asked()->face->shared) {
    split_in += q->in.seen != fqi_step(origin, q->capacity);
    split_out += q->out.seen != origin;
  }
}

/* When all is quiet what was accepted is there. */
static void check(void) {
  struct history *h = &world.history;
  EXPECT(!too_few);
  world.whole = false;
  see_splits();
  sched_calm(true);
  history_end(h, asked()->face, &world.queue);
  EXPECT(h->calls[h->count - 1].status == FQ_EMPTY);
  EXPECT(asked()->face->count(&world.queue) == 0);
  if (!sched.walking) { /* it takes long */
    check_laps();
  }
  sched_calm(false);
  if (sched.tracing) {
    history_print(h);
  }
  EXPECT(linear_search(h, 0, &(struct linear_queue){{0}, 0}));
}

/* --- The programs --- */

/* The queue, the items in it, and how far the walk goes. */
#define WHOLE(face_, before_)                                                                      \
  .settings = &(const settings){&face_##_face, before_, true}, .preemptions = PREEMPTIONS
#define UP_TO(n_, face_, before_)                                                                  \
  .settings = &(const settings){&face_##_face, before_, false}, .preemptions = (n_)
#define RUNS(name_, ...) PROGRAM(name_, set_up, check, __VA_ARGS__)

static const sched_program programs[] = {
    /* one to one: all schedules */
    RUNS("spsc-1", .limit = 1, WHOLE(spsc, 0), .threads = {T(push_3), T(pop_3)}),
    RUNS("spsc-2", .limit = 2, WHOLE(spsc, 0), .threads = {T(push_3), T(pop_3)}),
    RUNS("spsc-3", .limit = 3, WHOLE(spsc, 2), .threads = {T(push_3), T(pop_3)}),
    RUNS("spsc-4", .limit = 4, WHOLE(spsc, 3), .threads = {T(push_3), T(pop_3)}),
    RUNS("spsc-batches-2", .limit = 2, WHOLE(spsc, 1), .threads = {T(push_pairs), T(pop_pairs)}),
    RUNS("spsc-batches-3", .limit = 3, WHOLE(spsc, 1),
         .threads = {T(push_1_and_pair), T(pop_1_and_pair)}),
    RUNS("spsc-all", .limit = 3, WHOLE(spsc, 0), .threads = {T(push_both_twice), T(pop_pairs)}),
    RUNS("spsc-spans-2", .limit = 2, WHOLE(spsc, 0), .threads = {T(push_spans), T(pop_spans)}),
    RUNS("spsc-spans-3", .limit = 3, WHOLE(spsc, 1), .threads = {T(push_spans), T(pop_spans)}),
    RUNS("spsc-spans-4", .limit = 4, WHOLE(spsc, 2), .threads = {T(push_spans), T(pop_spans)}),
    RUNS("spsc-peek", .limit = 1, WHOLE(spsc, 0), .threads = {T(push_2), T(peek_and_pop)}),
    RUNS("spsc-count", .limit = 2, WHOLE(spsc, 1), .threads = {T(push_2), T(pop_2), T(count_2)}),

    RUNS("mpmc-1", .limit = 1, WHOLE(mpmc, 0), .threads = {T(push_2), T(pop_2)}),
    RUNS("mpmc-2", .limit = 2, WHOLE(mpmc, 1), .threads = {T(push_2), T(pop_2)}),
    RUNS("mpmc-batches-4", .limit = 4, WHOLE(mpmc, 2), .threads = {T(push_4), T(pop_1_and_pair)}),

    /* two against one, two against two */
    RUNS("producers-1", .limit = 1, WHOLE(mpmc, 0), .threads = {T(push_1), T(push_1), T(pop_1)}),
    RUNS("producers-2", .limit = 2, UP_TO(4, mpmc, 0), .threads = {T(push_2), T(push_1), T(pop_2)}),
    RUNS("consumers-1", .limit = 1, WHOLE(mpmc, 1), .threads = {T(push_1), T(pop_1), T(pop_1)}),
    RUNS("consumers-2", .limit = 2, UP_TO(4, mpmc, 2), .threads = {T(push_2), T(pop_2), T(pop_1)}),
    RUNS("two-two-1", .limit = 1, UP_TO(4, mpmc, 0),
         .threads = {T(push_1), T(push_1), T(pop_1), T(pop_1)}),
    RUNS("two-two-2", .limit = 2, UP_TO(3, mpmc, 1),
         .threads = {T(push_2), T(push_1), T(pop_2), T(pop_1)}),
    RUNS("early-in", .limit = 2, WHOLE(mpmc, 0), .threads = {T(push_1), T(push_1), T(pop_pair)}),
    RUNS("early-in-4", .limit = 4, WHOLE(mpmc, 1), .threads = {T(push_pair), T(push_1), T(pop_2)}),
    RUNS("early-out", .limit = 2, WHOLE(mpmc, 2), .threads = {T(pop_1), T(pop_1), T(push_pair)}),
    RUNS("early-out-4", .limit = 4, WHOLE(mpmc, 4), .threads = {T(pop_pair), T(pop_1), T(push_2)}),
    RUNS("early-in-row", .limit = 4, UP_TO(3, mpmc, 0),
         .threads = {T(push_1), T(push_2), T(pop_1_and_both)}),
    RUNS("early-out-row", .limit = 4, UP_TO(3, mpmc, 4),
         .threads = {T(pop_1), T(pop_2), T(push_1_and_both)}),
    RUNS("crossing-in", .limit = 2, UP_TO(5, mpmc, 0),
         .threads = {T(push_and_pop), T(push_and_pop), T(pop_1)}),
    RUNS("crossing-out", .limit = 2, UP_TO(5, mpmc, 2),
         .threads = {T(pop_and_push), T(pop_and_push), T(push_1)}),
    RUNS("round-in", .limit = 2, UP_TO(3, mpmc, 0),
         .threads = {T(once_round), T(push_1), T(pop_1)}),
    RUNS("round-out", .limit = 2, UP_TO(3, mpmc, 2),
         .threads = {T(once_round_full), T(pop_1), T(push_1)}),
    RUNS("parts-in", .limit = 4, WHOLE(mpmc, 0), .threads = {T(push_4), T(pop_1), T(pop_pair)}),
    RUNS("parts-out", .limit = 4, WHOLE(mpmc, 4), .threads = {T(pop_4), T(push_1), T(push_pair)}),
    RUNS("seen-in", .limit = 4, UP_TO(3, mpmc, 2),
         .threads = {T(push_pair), T(pop_triple), T(pop_1_and_triple)}),
    RUNS("seen-out", .limit = 4, UP_TO(3, mpmc, 4),
         .threads = {T(pop_pair), T(push_triple), T(push_1_and_triple)}),
    RUNS("both-sides", .limit = 2, UP_TO(5, mpmc, 0),
         .threads = {T(push_2), T(push_and_pop), T(pop_1)}),
    RUNS("both-sides-full", .limit = 2, UP_TO(5, mpmc, 2),
         .threads = {T(pop_2), T(pop_and_push), T(push_1)}),
    RUNS("batches-2", .limit = 2, WHOLE(mpmc, 0),
         .threads = {T(push_pair), T(push_1), T(pop_pair)}),
    RUNS("batches-4", .limit = 4, WHOLE(mpmc, 1),
         .threads = {T(push_pair), T(push_pair), T(pop_1_and_pair)}),
    RUNS("batches-out", .limit = 4, WHOLE(mpmc, 4),
         .threads = {T(push_pairs), T(pop_pair), T(pop_1)}),
    RUNS("all-2", .limit = 2, WHOLE(mpmc, 0), .threads = {T(push_both), T(push_1), T(pop_both)}),
    RUNS("all-4", .limit = 4, WHOLE(mpmc, 2), .threads = {T(push_both), T(push_both), T(pop_both)}),
    RUNS("count-2", .limit = 2, WHOLE(mpmc, 1), .threads = {T(push_2), T(pop_2), T(count_2)}),

    RUNS("mpsc-1", .limit = 1, WHOLE(mpsc, 0), .threads = {T(push_1), T(push_1), T(pop_1)}),
    RUNS("mpsc-2", .limit = 2, UP_TO(4, mpsc, 1), .threads = {T(push_2), T(push_1), T(pop_2)}),
    RUNS("mpsc-batches", .limit = 4, WHOLE(mpsc, 2),
         .threads = {T(push_pair), T(push_1), T(pop_both)}),
    RUNS("spmc-1", .limit = 1, WHOLE(spmc, 1), .threads = {T(push_1), T(pop_1), T(pop_1)}),
    RUNS("spmc-2", .limit = 2, UP_TO(4, spmc, 2), .threads = {T(push_2), T(pop_2), T(pop_1)}),
    RUNS("spmc-batches", .limit = 4, WHOLE(spmc, 3),
         .threads = {T(push_both), T(pop_pair), T(pop_1)}),
};

/* With all programs each side must have taken a part of a run, or that code has not been run. */
int main(int argc, char **argv) {
  int failed = run_programs(argc, argv, programs, sizeof(programs) / sizeof(programs[0]));
  if (argc == 1 && (split_in == 0 || split_out == 0)) {
    printf("no run was taken in parts\n");
    failed = 1;
  }
  return failed;
}

#endif
