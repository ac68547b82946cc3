/* chan.c: the channel's two locks under weak memory.
 *
 * Small programs for a model checker, which runs each in every way that a memory model allows; run.sh
 * does that, and weakens each order of the header in turn. Without PROGRAM it is an ordinary test,
 * which runs all of them many times. */
#define FASTQ_IMPLEMENTATION
#define FASTQ_INDEX_ORIGIN  ((size_t)-2) /* the counts wrap in every program, as the ring does */
#define FQI_PATIENCE        0
#define FQI_PLATFORM_HEADER "tests/model/platform.h"
#include "../../fastq.h"

#ifdef PROGRAM
#include <assert.h>
#define EXPECT(cond) assert(cond)
#else
#include "../test.h"
#define EXPECT(cond) ((void)CHECK(cond))
#endif

FQ_CHAN(chan, size_t);

enum { THREADS = 3, ITEMS = 4, ROUNDS = 200 };

typedef struct program {
  const char *name;
  size_t limit;
  void (*threads[THREADS])(size_t self);
} program;

static const program *running;
static struct {
  chan c;
  size_t payload[THREADS * ITEMS]; /* of each item, written before it is pushed */
  size_t pushed[THREADS];          /* how many items of each thread went in */
  size_t next[THREADS][THREADS];   /* the least item of each thread that each may get next */
  size_t popped[THREADS * ITEMS];  /* how often each item came out */
  bool drained[THREADS];           /* was told that nothing more comes */
  bool listens;                    /* answer_bell has gone to sleep */
  atomic_size_t sent, received;
  atomic_bool bell;
} world;

/* --- What threads do --- */

/* The self-th thread's next item. */
static size_t make(size_t self, size_t i) {
  size_t item = self * ITEMS + world.pushed[self] + i;
  world.payload[item] = ~item;
  return item;
}

static fq_status push(size_t self, int64_t timeout) {
  size_t item = make(self, 0);
  fq_status status = chan_push(&world.c, item, timeout);
  world.pushed[self] += status == FQ_OK;
  return status;
}

static void push_two(size_t self) {
  size_t items[2] = {make(self, 0), make(self, 1)};
  world.pushed[self] += chan_push_n(&world.c, items, 2, FQ_NOWAIT, NULL);
}

/* Each item once, in its thread's order, and with what was written before the push. */
static void got(size_t self, size_t item) {
  size_t from = item / ITEMS;
  EXPECT(from < THREADS && world.payload[item] == ~item);
  EXPECT(item % ITEMS >= world.next[self][from]);
  world.next[self][from] = item % ITEMS + 1;
  EXPECT(world.popped[item] == 0);
  world.popped[item] = 1;
}

static fq_status pop(size_t self, int64_t timeout) {
  size_t item;
  fq_status status = chan_pop(&world.c, &item, timeout);
  if (status == FQ_OK) {
    got(self, item);
  }
  return status;
}

static void pop_two(size_t self) {
  size_t items[2];
  size_t n = chan_pop_n(&world.c, items, 1, 2, FQ_NOWAIT, NULL);
  for (size_t i = 0; i < n; i++) {
    got(self, items[i]);
  }
}

static void push_3(size_t self) {
  for (int i = 0; i < 3; i++) {
    push(self, FQ_NOWAIT);
  }
}

static void push_1(size_t self) { push(self, FQ_NOWAIT); }

static void push_2(size_t self) {
  push(self, FQ_NOWAIT);
  push(self, FQ_NOWAIT);
}

static void push_2_and_1(size_t self) {
  push_two(self);
  push(self, FQ_NOWAIT);
}

static void push_1_and_2(size_t self) {
  push(self, FQ_NOWAIT);
  push_two(self);
}

static void pop_3(size_t self) {
  for (int i = 0; i < 3; i++) {
    pop(self, FQ_NOWAIT);
  }
}

static void pop_1(size_t self) { pop(self, FQ_NOWAIT); }

static void pop_2(size_t self) {
  pop(self, FQ_NOWAIT);
  pop(self, FQ_NOWAIT);
}

static void pop_1_and_2(size_t self) {
  pop(self, FQ_NOWAIT);
  pop_two(self);
}

/* Full and empty are the truth at some moment of the call. */
static void push_told(size_t self) {
  size_t out = atomic_load_explicit(&world.received, memory_order_relaxed);
  fq_status status = push(self, FQ_NOWAIT);
  EXPECT(status == FQ_OK || (status == FQ_FULL && world.pushed[self] - out >= running->limit));
  atomic_store_explicit(&world.sent, world.pushed[self], memory_order_relaxed);
}

static void push_2_told(size_t self) {
  push_told(self);
  push_told(self);
}

static void push_3_told(size_t self) {
  push_2_told(self);
  push_told(self);
}

static void pop_2_told(size_t self) {
  size_t n = 0;
  for (int i = 0; i < 2; i++) {
    size_t in = atomic_load_explicit(&world.sent, memory_order_relaxed);
    fq_status status = pop(self, FQ_NOWAIT);
    EXPECT(status == FQ_OK || (status == FQ_EMPTY && in <= n));
    n += status == FQ_OK;
    atomic_store_explicit(&world.received, n, memory_order_relaxed);
  }
}

static void count(size_t self) {
  (void)self;
  EXPECT(chan_count(&world.c) <= running->limit);
}

static void close_it(size_t self) {
  (void)self;
  chan_close(&world.c);
  EXPECT(chan_closed(&world.c));
}

static void push_2_closed(size_t self) {
  bool closed = false;
  for (int i = 0; i < 2; i++) {
    fq_status status = push(self, FQ_NOWAIT);
    EXPECT(status == FQ_CLOSED || !closed);
    closed = status == FQ_CLOSED;
  }
}

static void pop_2_closed(size_t self) {
  for (int i = 0; i < 2; i++) {
    fq_status status = pop(self, FQ_NOWAIT);
    EXPECT(status == FQ_CLOSED || !world.drained[self]);
    world.drained[self] = status == FQ_CLOSED;
  }
}

static void raise(size_t self) {
  (void)self;
  EXPECT(chan_set_limit(&world.c, running->limit + 1) == FQ_OK);
}

static void ring_bell(void *ctx) {
  (void)ctx;
  atomic_store_explicit(&world.bell, true, memory_order_relaxed);
}

/* An event loop after the bell: it may go to sleep again when the channel is empty. */
static void answer_bell(size_t self) {
  chan_notify(&world.c, ring_bell, NULL);
  atomic_store_explicit(&world.bell, false, memory_order_relaxed);
  while (pop(self, FQ_NOWAIT) == FQ_OK) {
  }
  world.listens = true;
}

static void push_2_waiting(size_t self) {
  EXPECT(push(self, FQ_FOREVER) == FQ_OK);
  EXPECT(push(self, FQ_FOREVER) == FQ_OK);
}

static void pop_2_waiting(size_t self) {
  EXPECT(pop(self, FQ_FOREVER) == FQ_OK);
  EXPECT(pop(self, FQ_FOREVER) == FQ_OK);
}

static void push_2_to_the_end(size_t self) {
  fq_status status = push(self, FQ_FOREVER);
  EXPECT(status == FQ_OK || status == FQ_CLOSED);
  EXPECT(push(self, FQ_FOREVER) == FQ_CLOSED || status == FQ_OK);
}

static void pop_to_the_end(size_t self) {
  while (pop(self, FQ_FOREVER) == FQ_OK) {
  }
  world.drained[self] = true;
}

/* --- Programs: name, limit, threads. run.sh reads this. --- */

#define PROGRAMS(P)                                                                                \
  P(singles_1, 1, {push_3, pop_3})                                                                 \
  P(singles_2, 2, {push_3, pop_3})                                                                 \
  P(batch_push, 2, {push_2_and_1, pop_3})                                                          \
  P(batch_push_wraps, 2, {push_1_and_2, pop_3})                                                    \
  P(batch_pop, 2, {push_3, pop_1_and_2})                                                           \
  P(producers_1, 1, {push_2, push_1, pop_2})                                                       \
  P(producers_2, 2, {push_2, push_2, pop_2})                                                       \
  P(consumers_1, 1, {push_2, pop_2, pop_1})                                                        \
  P(consumers_2, 2, {push_3, pop_2, pop_1})                                                        \
  P(told_1, 1, {push_2_told, pop_2_told})                                                          \
  P(told_2, 2, {push_3_told, pop_2_told})                                                          \
  P(count, 1, {push_2, pop_2, count})                                                              \
  P(close, 1, {push_2_closed, pop_2_closed, close_it})                                             \
  P(raise, 1, {push_3, pop_2, raise})                                                              \
  P(bell, 1, {push_2, answer_bell})                                                                \
  P(bell_producers, 2, {push_1, push_1, answer_bell})                                              \
  P(waits, 1, {push_2_waiting, pop_2_waiting})                                                     \
  P(waits_close, 1, {push_2_to_the_end, pop_to_the_end, close_it})

#define DEFINE(name_, ...) static const program run_##name_ = {#name_, __VA_ARGS__};
PROGRAMS(DEFINE)

static void *thread_main(void *arg) {
  size_t self = *(const size_t *)arg;
  running->threads[self](self);
  return NULL;
}

/* What is left comes after all that came out, and then every item has come out once. */
static void check_rest(void) {
  bool drained = world.drained[0] || world.drained[1] || world.drained[2];
  size_t left = chan_count(&world.c);
  EXPECT(left == 0 || !drained);
  EXPECT(left == 0 || !world.listens || atomic_load(&world.bell));
  for (size_t i = 1; i < THREADS; i++) {
    for (size_t from = 0; from < THREADS; from++) {
      if (world.next[0][from] < world.next[i][from]) {
        world.next[0][from] = world.next[i][from];
      }
    }
  }
  while (pop(0, FQ_NOWAIT) == FQ_OK) {
    left--;
  }
  EXPECT(left == 0);
  for (size_t from = 0; from < THREADS; from++) {
    for (size_t i = 0; i < ITEMS; i++) {
      EXPECT(world.popped[from * ITEMS + i] == (i < world.pushed[from] ? 1 : 0));
    }
  }
}

static void run_program(const program *p) {
  static const size_t numbers[THREADS] = {0, 1, 2};
  pthread_t threads[THREADS];
  running = p;
  memset(&world, 0, sizeof(world));
  EXPECT(chan_init(&world.c, p->limit) == FQ_OK);
  for (size_t i = 0; i < THREADS && p->threads[i] != NULL; i++) {
    pthread_create(&threads[i], NULL, thread_main, (void *)(uintptr_t)&numbers[i]);
  }
  for (size_t i = 0; i < THREADS && p->threads[i] != NULL; i++) {
    pthread_join(threads[i], NULL);
  }
  check_rest();
  chan_destroy(&world.c);
}

#ifdef PROGRAM

int main(void) {
  run_program(&PROGRAM); /* run_singles_1 and so on */
  return 0;
}

#else

static const program *tested;

static void run_rounds(void) {
  for (int i = 0; i < ROUNDS; i++) {
    run_program(tested);
  }
}

#define TEST(name_, ...) test_run(run_rounds, (tested = &run_##name_)->name);

int main(void) {
  PROGRAMS(TEST)
  return test_end();
}

#endif
