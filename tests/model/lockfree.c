/* lockfree.c: FQ_SPSC, FQ_MPMC, FQ_MPSC and FQ_SPMC under weak memory.
 *
 * Small programs for a model checker, which runs each in every way that a memory model allows; run.sh
 * does that, and weakens each order of the header in turn. Without PROGRAM it is an ordinary test,
 * which runs all of them many times. */
#define FASTQ_IMPLEMENTATION
#define FASTQ_NO_THREADS
#define FASTQ_INDEX_ORIGIN  ((size_t)-2)  /* positions wrap in every program, as the ring does */
#define FQI_POSITIONS       ((size_t)127) /* and the test goes round all of them */
#define FQI_PLATFORM_HEADER "tests/model/platform.h"
#include "../../fastq.h"

#ifdef PROGRAM
#include <assert.h>
#define EXPECT(cond) assert(cond)
#else
#include "../test.h"
#define EXPECT(cond) ((void)CHECK(cond))
#endif

FQ_SPSC(spsc, size_t);
FQ_MPMC(mpmc, size_t);
FQ_MPSC(mpsc, size_t);
FQ_SPMC(spmc, size_t);

enum { THREADS = 4, PHASES = 2, ITEMS = 5, MOST = 4, ROUNDS = 200 };

typedef enum kind { SPSC, MPMC, MPSC, SPMC } kind;

typedef struct program {
  const char *name;
  kind kind;
  size_t capacity;
  size_t before; /* items that main pushes, as one run */
  void (*threads[PHASES][THREADS])(
      size_t self); /* the second phase begins when the first has ended */
} program;

static const program *running;
static struct {
  spsc spsc;
  mpmc mpmc;
  mpsc mpsc;
  spmc spmc;
  /* Of main, which is the last, and of each thread. */
  size_t payload[(THREADS + 1) * ITEMS]; /* of each item, written before it is pushed */
  size_t pushed[THREADS + 1];            /* how many items went in */
  size_t next[THREADS + 1][THREADS + 1]; /* the least item of each that each may get next */
  size_t popped[(THREADS + 1) * ITEMS];  /* how often each item came out */
  size_t claimed[(THREADS + 1) * ITEMS]; /* where each item went in, 1 more; 0: not known */
  atomic_size_t sent[THREADS + 1], received[THREADS + 1];
} world;
static _Alignas(FASTQ_CACHE_LINE) size_t memory[3 * FASTQ_CACHE_LINE / sizeof(size_t)];

/* --- The calls, of whichever queue the program has --- */

static fq_status queue_push(size_t item) {
  switch (running->kind) {
  case SPSC:
#ifdef PROGRAM /* which stumbles over how the compiler makes the other statuses */
    return spsc_push_n(&world.spsc, &item, 1) == 1 ? FQ_OK : FQ_FULL;
#endif
    return spsc_push(&world.spsc, item);
  case MPMC:
    return mpmc_push(&world.mpmc, item);
  case MPSC:
    return mpsc_push(&world.mpsc, item);
  case SPMC:
    return spmc_push(&world.spmc, item);
  }
  return FQ_INVALID;
}

static fq_status queue_pop(size_t *item) {
  switch (running->kind) {
  case SPSC:
#ifdef PROGRAM
    return spsc_pop_n(&world.spsc, item, 1) == 1 ? FQ_OK : FQ_EMPTY;
#endif
    return spsc_pop(&world.spsc, item);
  case MPMC:
    return mpmc_pop(&world.mpmc, item);
  case MPSC:
    return mpsc_pop(&world.mpsc, item);
  case SPMC:
    return spmc_pop(&world.spmc, item);
  }
  return FQ_INVALID;
}

static size_t queue_push_n(const size_t *items, size_t n) {
  switch (running->kind) {
  case SPSC:
    return spsc_push_n(&world.spsc, items, n);
  case MPMC:
    return mpmc_push_n(&world.mpmc, items, n);
  case MPSC:
    return mpsc_push_n(&world.mpsc, items, n);
  case SPMC:
    return spmc_push_n(&world.spmc, items, n);
  }
  return 0;
}

static size_t queue_pop_n(size_t *items, size_t n) {
  switch (running->kind) {
  case SPSC:
    return spsc_pop_n(&world.spsc, items, n);
  case MPMC:
    return mpmc_pop_n(&world.mpmc, items, n);
  case MPSC:
    return mpsc_pop_n(&world.mpsc, items, n);
  case SPMC:
    return spmc_pop_n(&world.spmc, items, n);
  }
  return 0;
}

static fq_status queue_push_all(const size_t *items, size_t n) {
  switch (running->kind) {
  case SPSC:
    return spsc_push_all(&world.spsc, items, n);
  case MPMC:
    return mpmc_push_all(&world.mpmc, items, n);
  case MPSC:
    return mpsc_push_all(&world.mpsc, items, n);
  case SPMC:
    return spmc_push_all(&world.spmc, items, n);
  }
  return FQ_INVALID;
}

static fq_status queue_pop_all(size_t *items, size_t n) {
  switch (running->kind) {
  case MPMC:
    return mpmc_pop_all(&world.mpmc, items, n);
  case MPSC:
    return mpsc_pop_all(&world.mpsc, items, n);
  case SPMC:
    return spmc_pop_all(&world.spmc, items, n);
  case SPSC:
    break;
  }
  return FQ_INVALID;
}

static size_t queue_count(void) {
  switch (running->kind) {
  case SPSC:
    return spsc_count(&world.spsc);
  case MPMC:
    return mpmc_count(&world.mpmc);
  case MPSC:
    return mpsc_count(&world.mpsc);
  case SPMC:
    return spmc_count(&world.spmc);
  }
  return 0;
}

/* --- What threads do --- */

/* The self-th thread's next item. */
static size_t make(size_t self, size_t i) {
  size_t item = self * ITEMS + world.pushed[self] + i;
  EXPECT(world.pushed[self] + i < ITEMS);
  world.payload[item] = ~item;
  return item;
}

/* Each item once, in its thread's order, and with what was written before the push. */
static void got(size_t self, size_t item) {
  size_t from = item / ITEMS;
  EXPECT(from <= THREADS && world.payload[item] == ~item);
  EXPECT(item % ITEMS >= world.next[self][from]);
  world.next[self][from] = item % ITEMS + 1;
  EXPECT(world.popped[item] == 0);
  world.popped[item] = 1;
}

static fq_status push(size_t self) {
  size_t item = make(self, 0);
  fq_status status = queue_push(item);
  EXPECT(status == FQ_OK || status == FQ_FULL || (status == FQ_BUSY && running->kind != SPSC));
  world.pushed[self] += status == FQ_OK;
  return status;
}

static fq_status pop(size_t self) {
  size_t item;
  fq_status status = queue_pop(&item);
  EXPECT(status == FQ_OK || status == FQ_EMPTY || (status == FQ_BUSY && running->kind != SPSC));
  if (status == FQ_OK) {
    got(self, item);
  }
  return status;
}

static size_t push_n(size_t self, size_t n) {
  size_t items[MOST];
  for (size_t i = 0; i < n; i++) {
    items[i] = make(self, i);
  }
  size_t pushed = queue_push_n(items, n);
  EXPECT(pushed <= n);
  world.pushed[self] += pushed;
  return pushed;
}

static size_t pop_n(size_t self, size_t n) {
  size_t items[MOST];
  size_t popped = queue_pop_n(items, n);
  EXPECT(popped <= n);
  for (size_t i = 0; i < popped; i++) {
    got(self, items[i]);
  }
  return popped;
}

static void push_1(size_t self) { push(self); }

static void push_2(size_t self) {
  push(self);
  push(self);
}

static void push_3(size_t self) {
  push_2(self);
  push(self);
}

static void push_4(size_t self) {
  push_2(self);
  push_2(self);
}

static void pop_1(size_t self) { pop(self); }

static void pop_2(size_t self) {
  pop(self);
  pop(self);
}

static void pop_3(size_t self) {
  pop_2(self);
  pop(self);
}

static void pop_4(size_t self) {
  pop_2(self);
  pop_2(self);
}

static void push_pair(size_t self) { push_n(self, 2); }

static void push_pairs(size_t self) {
  push_n(self, 2);
  push_n(self, 2);
}

static void push_1_and_pair(size_t self) {
  push(self);
  push_n(self, 2);
}

static void pop_pair(size_t self) { pop_n(self, 2); }

static void pop_pairs(size_t self) {
  pop_n(self, 2);
  pop_n(self, 2);
}

static void pop_1_and_pair(size_t self) {
  pop(self);
  pop_n(self, 2);
}

static void pop_triple(size_t self) { pop_n(self, 3); }

static void pop_1_and_triple(size_t self) {
  pop(self);
  pop_n(self, 3);
}

/* Both or none; one alone of the two is never seen. */
static void push_both(size_t self) {
  size_t items[2] = {make(self, 0), make(self, 1)};
  fq_status status = queue_push_all(items, 2);
  EXPECT(status == FQ_OK || status == FQ_FULL || (status == FQ_BUSY && running->kind != SPSC));
  world.pushed[self] += status == FQ_OK ? 2 : 0;
}

static void pop_both(size_t self) {
  size_t items[2];
  fq_status status = queue_pop_all(items, 2);
  EXPECT(status == FQ_OK || status == FQ_EMPTY || status == FQ_BUSY);
  if (status == FQ_OK) {
    got(self, items[0]);
    got(self, items[1]);
    /* where all are pushed in twos, two that come out at once went in so */
    EXPECT(items[1] == items[0] + 1 && items[0] % ITEMS % 2 == 0);
  }
}

static void push_both_twice(size_t self) {
  push_both(self);
  push_both(self);
}

/* In place, without a copy. */
static void push_span(size_t self) {
  size_t n = 2;
  size_t *span = spsc_write_span(&world.spsc, &n);
  EXPECT(n <= 2 && (span != NULL) == (n > 0));
  for (size_t i = 0; i < n; i++) {
    span[i] = make(self, i);
  }
  spsc_commit(&world.spsc, n);
  world.pushed[self] += n;
}

static void pop_span(size_t self) {
  size_t n = 2;
  const size_t *span = spsc_read_span(&world.spsc, &n);
  EXPECT(n <= 2 && (span != NULL) == (n > 0));
  for (size_t i = 0; i < n; i++) {
    got(self, span[i]);
  }
  spsc_release(&world.spsc, n);
}

static void push_spans(size_t self) {
  push_span(self);
  push_span(self);
}

static void pop_spans(size_t self) {
  pop_span(self);
  pop_span(self);
}

static void peek_and_pop(size_t self) {
  for (int i = 0; i < 2; i++) {
    const size_t *item = spsc_peek(&world.spsc);
    size_t seen = item != NULL ? *item : 0;
    size_t popped;
    if (item != NULL) {
      EXPECT(queue_pop(&popped) == FQ_OK && popped == seen);
      got(self, popped);
    }
  }
}

/* Never beyond the capacity, nor beyond what has been pushed in all. */
static void count(size_t self) {
  size_t most = running->before;
  size_t n = queue_count();
  for (size_t i = 0; i < THREADS; i++) {
    most += i != self && running->threads[0][i] != NULL;
  }
  EXPECT(n <= running->capacity && n <= most);
}

/* --- Honest answers. Threads tell each other what they have done; that is an order of its own, so the
 * other programs do without. --- */

static size_t told(atomic_size_t *counts) {
  size_t sum = 0;
  for (size_t i = 0; i < THREADS; i++) {
    sum += atomic_load_explicit(&counts[i], memory_order_acquire);
  }
  return sum;
}

/* The only one who pushes: whether there is room for sure, and that it is told if there is. What others
 * have popped makes room, but they may have claims that they have not finished. */
static fq_status push_told(size_t self) {
  size_t gone = running->capacity + told(world.received);
  bool fits = world.pushed[self] + running->before < gone;
  fq_status status = push(self);
  EXPECT(status != FQ_FULL || !fits);
  EXPECT(status != FQ_BUSY || !fits || running->threads[0][2] != NULL);
  atomic_store_explicit(&world.sent[self], world.pushed[self], memory_order_release);
  return status;
}

/* The only one who pops. */
static fq_status pop_told(size_t self) {
  size_t popped = atomic_load_explicit(&world.received[self], memory_order_relaxed);
  bool there = told(world.sent) + running->before > popped;
  fq_status status = pop(self);
  EXPECT(status != FQ_EMPTY || !there);
  EXPECT(status != FQ_BUSY || !there || running->threads[0][2] != NULL);
  popped += status == FQ_OK;
  atomic_store_explicit(&world.received[self], popped, memory_order_release);
  return status;
}

static void push_told_2(size_t self) {
  push_told(self);
  push_told(self);
}

static void push_told_3(size_t self) {
  push_told_2(self);
  push_told(self);
}

static void pop_told_2(size_t self) {
  pop_told(self);
  pop_told(self);
}

/* Of several who push, or pop: what they have done is done. */
static void push_and_tell(size_t self) {
  push(self);
  atomic_store_explicit(&world.sent[self], world.pushed[self], memory_order_release);
}

static void pop_and_tell(size_t self) {
  size_t popped = pop(self) == FQ_OK;
  atomic_store_explicit(&world.received[self], popped, memory_order_release);
}

/* Nobody is inside a call of the other side, so nobody can be busy; where there is enough for all, nothing
 * but FQ_OK. */
static void push_sure(size_t self) { EXPECT(push(self) == FQ_OK); }

static void pop_sure(size_t self) { EXPECT(pop(self) == FQ_OK); }

static void push_idle(size_t self) { EXPECT(push(self) != FQ_BUSY); }

static void pop_idle(size_t self) { EXPECT(pop(self) != FQ_BUSY); }

/* --- Programs: name, queue, capacity, items before, threads of each phase. run.sh reads this. --- */

#define PROGRAMS(P)                                                                                \
  P(spsc_1, SPSC, 1, 0, {{push_2, pop_2}})                                                         \
  P(spsc_2, SPSC, 2, 0, {{push_4, pop_4}})                                                         \
  P(spsc_3, SPSC, 3, 2, {{push_4, pop_4}})                                                         \
  P(spsc_batches_2, SPSC, 2, 0, {{push_1_and_pair, pop_1_and_pair}})                               \
  P(spsc_batches_3, SPSC, 3, 1, {{push_pairs, pop_pairs}})                                         \
  P(spsc_all, SPSC, 3, 0, {{push_both_twice, pop_pairs}})                                          \
  P(spsc_spans_2, SPSC, 2, 0, {{push_spans, pop_spans}})                                           \
  P(spsc_spans_3, SPSC, 3, 1, {{push_spans, pop_spans}})                                           \
  P(spsc_peek, SPSC, 1, 0, {{push_2, peek_and_pop}})                                               \
  P(spsc_count, SPSC, 3, 0, {{push_1, pop_1, count}})                                              \
  P(spsc_told, SPSC, 2, 0, {{push_told_3, pop_told_2}})                                            \
  P(mpmc_1, MPMC, 1, 0, {{push_2, pop_2}})                                                         \
  P(mpmc_2, MPMC, 2, 0, {{push_3, pop_3}})                                                         \
  P(producers_1, MPMC, 1, 0, {{push_1, push_1, pop_2}})                                            \
  P(producers_2, MPMC, 2, 1, {{push_1, push_1, pop_2}})                                            \
  P(consumers_1, MPMC, 1, 1, {{push_1, pop_1, pop_1}})                                             \
  P(consumers_2, MPMC, 2, 2, {{push_2, pop_1, pop_1}})                                             \
  P(two_two_1, MPMC, 1, 0, {{push_1, push_1, pop_1, pop_1}})                                       \
  P(two_two_2, MPMC, 2, 1, {{push_1, push_1, pop_1, pop_1}})                                       \
  P(batches_2, MPMC, 2, 1, {{push_pair, push_1, pop_pair}})                                        \
  P(batches_4, MPMC, 4, 1, {{push_pair, push_pair, pop_pair}})                                     \
  P(batches_out, MPMC, 4, 4, {{push_pair, pop_pair, pop_1}})                                       \
  P(all_2, MPMC, 2, 0, {{push_both, push_both, pop_both}})                                         \
  P(all_4, MPMC, 4, 0, {{push_both, push_both, pop_both}})                                         \
  P(count_1, MPMC, 1, 0, {{push_1, pop_1, count}})                                                 \
  P(count_4, MPMC, 4, 0, {{push_1, pop_1, count}})                                                 \
  P(told_1, MPMC, 1, 0, {{push_told_2, pop_told_2}})                                               \
  P(told_producers, MPMC, 2, 0, {{push_and_tell, push_and_tell, pop_told_2}})                      \
  P(told_consumers, MPMC, 2, 2, {{push_told_2, pop_and_tell, pop_and_tell}})                       \
  P(help_in, MPMC, 2, 0, {{push_sure, push_sure}, {NULL, NULL, pop_sure, pop_sure}})               \
  P(help_out, MPMC, 2, 2, {{pop_sure, pop_sure}, {NULL, NULL, push_sure, push_sure}})              \
  P(help_in_2, MPMC, 2, 0, {{push_sure, push_sure}, {NULL, NULL, pop_pair, pop_pair}})             \
  P(help_out_2, MPMC, 2, 2, {{pop_sure, pop_sure}, {NULL, NULL, push_pair, push_pair}})            \
  P(parts_in, MPMC, 2, 2, {{pop_sure, pop_sure}})                                                  \
  P(parts_out, MPMC, 2, 2, {{pop_pair}, {NULL, NULL, push_sure, push_sure}})                       \
  P(parts_4, MPMC, 4, 4, {{pop_1, pop_pair}, {NULL, NULL, push_pair}})                             \
  P(seen_in, MPMC, 4, 2, {{push_pair, pop_triple, pop_1_and_triple}})                              \
  P(idle_in, MPMC, 2, 0, {{push_1, push_1, pop_1}, {NULL, NULL, pop_idle, pop_idle}})              \
  P(idle_out, MPMC, 2, 2, {{pop_1, pop_1, push_1}, {NULL, NULL, push_idle, push_idle}})            \
  P(mpsc_1, MPSC, 1, 0, {{push_1, push_1, pop_2}})                                                 \
  P(mpsc_2, MPSC, 2, 1, {{push_1, push_1, pop_3}})                                                 \
  P(mpsc_batches, MPSC, 2, 1, {{push_pair, push_1, pop_pair}})                                     \
  P(mpsc_count, MPSC, 4, 0, {{push_1, pop_1, count}})                                              \
  P(mpsc_told, MPSC, 2, 0, {{push_and_tell, push_and_tell, pop_told_2}})                           \
  P(spmc_1, SPMC, 1, 1, {{push_2, pop_1, pop_1}})                                                  \
  P(spmc_2, SPMC, 2, 2, {{push_3, pop_1, pop_1}})                                                  \
  P(spmc_batches, SPMC, 4, 3, {{push_pair, pop_pair, pop_1}})                                      \
  P(spmc_count, SPMC, 4, 0, {{push_1, pop_1, count}})                                              \
  P(spmc_told, SPMC, 2, 2, {{push_told_2, pop_and_tell, pop_and_tell}})

#define DEFINE(name_, ...) static const program run_##name_ = {#name_, __VA_ARGS__};
PROGRAMS(DEFINE)

static void *thread_main(void *arg) {
  size_t number = *(const size_t *)arg;
  running->threads[number / THREADS][number % THREADS](number % THREADS);
  return NULL;
}

static void run_threads(size_t phase) {
  static const size_t numbers[PHASES * THREADS] = {0, 1, 2, 3, 4, 5, 6, 7};
  pthread_t threads[THREADS];
  for (size_t i = 0; i < THREADS; i++) {
    if (running->threads[phase][i] != NULL) {
      pthread_create(&threads[i], NULL, thread_main,
                     (void *)(uintptr_t)&numbers[phase * THREADS + i]);
    }
  }
  for (size_t i = 0; i < THREADS; i++) {
    if (running->threads[phase][i] != NULL) {
      pthread_join(threads[i], NULL);
    }
  }
}

static void set_up(void) {
  fq_status status = FQ_INVALID;
  memset(&world, 0, sizeof(world));
  switch (running->kind) {
  case SPSC:
    status = spsc_init_fixed(&world.spsc, memory, running->capacity);
    break;
  case MPMC:
    status = mpmc_init_fixed(&world.mpmc, memory, running->capacity);
    break;
  case MPSC:
    status = mpsc_init_fixed(&world.mpsc, memory, running->capacity);
    break;
  case SPMC:
    status = spmc_init_fixed(&world.spmc, memory, running->capacity);
    break;
  }
  EXPECT(status == FQ_OK);
  EXPECT(push_n(THREADS, running->before) == running->before);
}

/* What is left comes after all that came out, nobody is busy with it, and then every item has come out
 * once. */
static void check_rest(void) {
  size_t left = queue_count();
  fq_status status;
  for (size_t i = 0; i < THREADS; i++) {
    for (size_t from = 0; from <= THREADS; from++) {
      if (world.next[THREADS][from] < world.next[i][from]) {
        world.next[THREADS][from] = world.next[i][from];
      }
    }
  }
  while ((status = pop(THREADS)) == FQ_OK) {
    left--;
  }
  EXPECT(status == FQ_EMPTY && left == 0 && queue_count() == 0);
  for (size_t from = 0; from <= THREADS; from++) {
    for (size_t i = 0; i < ITEMS; i++) {
      EXPECT(world.popped[from * ITEMS + i] == (i < world.pushed[from] ? 1 : 0));
    }
  }
}

#ifndef PROGRAM

/* Once round all positions, empty and then full: no mark of the program is taken for a new one. */
static void check_laps(void) {
  size_t item, in = 0, out = 0;
  for (size_t i = 0; i <= FQI_POSITIONS; i++) {
    EXPECT(queue_pop(&item) == FQ_EMPTY);
    EXPECT(queue_push(in++) == FQ_OK);
    EXPECT(queue_pop(&item) == FQ_OK && item == out++);
  }
  for (size_t i = 0; i < running->capacity; i++) {
    EXPECT(queue_push(in++) == FQ_OK);
  }
  for (size_t i = 0; i <= FQI_POSITIONS; i++) {
    EXPECT(queue_push(in) == FQ_FULL);
    EXPECT(queue_pop(&item) == FQ_OK && item == out++);
    EXPECT(queue_push(in++) == FQ_OK);
  }
}

#endif

static void run_program(const program *p) {
  running = p;
  set_up();
  run_threads(0);
  run_threads(1);
  check_rest();
#ifndef PROGRAM
  check_laps();
#endif
}

#ifdef PROGRAM

int main(void) {
  run_program(&PROGRAM); /* run_spsc_1 and so on */
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
