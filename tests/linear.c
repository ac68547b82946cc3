/* linear.c: short runs of two or three threads on tiny queues, each of which a queue that does one
 * call at a time must be able to explain. They yield in the calls, so that these do overlap. */
#define _POSIX_C_SOURCE 200809L
#define FASTQ_NO_THREADS
#define FQI_PLATFORM_HEADER "tests/yield.h"
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"

#include "linear.h"
#include "threads.h"

enum { THREADS = 3, CALLS = 3 };

SPSC_FACE(spsc, uint64_t);
MPMC_FACE(mpmc, uint64_t);
MPSC_FACE(mpsc, uint64_t);
SPMC_FACE(spmc, uint64_t);

/* -- Does the check find what is wrong? ----------------------------------------------------------- */

#define PUSH(item, status_, begin_, end_)                                                          \
  {                                                                                                \
    .kind = CALL_PUSH, .n = 1, .moved = (status_) == FQ_OK, .status = (status_), .items = {item},  \
    .begin = (begin_), .end = (end_)                                                               \
  }
#define POP(item, status_, begin_, end_)                                                           \
  {                                                                                                \
    .kind = CALL_POP, .n = 1, .moved = (status_) == FQ_OK, .status = (status_), .items = {item},   \
    .begin = (begin_), .end = (end_)                                                               \
  }
#define PUSH_2(a, b, moved_, begin_, end_)                                                         \
  {                                                                                                \
    .kind = CALL_PUSH_N, .n = 2, .moved = (moved_), .items = {a, b}, .begin = (begin_),            \
    .end = (end_)                                                                                  \
  }

struct sample {
  bool good;
  size_t capacity, count;
  struct call calls[4];
};

static const struct sample samples[] = {
    {true, 2, 3, {PUSH(1, FQ_OK, 0, 1), POP(1, FQ_OK, 2, 3), POP(0, FQ_EMPTY, 4, 5)}},
    {true, 1, 2, {PUSH(1, FQ_OK, 0, 1), PUSH(2, FQ_FULL, 2, 3)}},
    {true, 1, 2, {PUSH(1, FQ_OK, 0, 3), POP(0, FQ_BUSY, 1, 2)}},
    {true, 1, 2, {PUSH(1, FQ_OK, 0, 3), POP(0, FQ_EMPTY, 1, 2)}},
    {true, 1, 2, {PUSH(1, FQ_OK, 0, 3), POP(1, FQ_OK, 1, 2)}},
    {true, 2, 3, {PUSH(1, FQ_OK, 0, 3), PUSH(2, FQ_OK, 1, 2), POP(2, FQ_OK, 4, 5)}},
    {true, 2, 2, {PUSH(1, FQ_OK, 0, 1), PUSH_2(2, 3, 1, 2, 3)}},
    {true, 2, 3, {PUSH_2(1, 2, 2, 0, 1), POP(1, FQ_OK, 2, 5), PUSH_2(3, 4, 0, 3, 4)}},
    {false, 1, 1, {POP(1, FQ_OK, 0, 1)}},                                             /* invented */
    {false, 2, 2, {PUSH(1, FQ_OK, 0, 1), POP(0, FQ_EMPTY, 2, 3)}},                    /* lost */
    {false, 2, 3, {PUSH(1, FQ_OK, 0, 1), POP(1, FQ_OK, 2, 3), POP(1, FQ_OK, 4, 5)}},  /* twice */
    {false, 2, 3, {PUSH(1, FQ_OK, 0, 1), PUSH(2, FQ_OK, 2, 3), POP(2, FQ_OK, 4, 5)}}, /* order */
    {false, 2, 2, {POP(1, FQ_OK, 0, 1), PUSH(1, FQ_OK, 2, 3)}},     /* too early */
    {false, 2, 2, {PUSH(1, FQ_OK, 0, 1), PUSH(2, FQ_FULL, 2, 3)}},  /* not full */
    {false, 1, 2, {PUSH(1, FQ_OK, 0, 1), PUSH(2, FQ_OK, 2, 3)}},    /* too many */
    {false, 1, 2, {PUSH(1, FQ_OK, 0, 1), POP(0, FQ_BUSY, 2, 3)}},   /* no reason */
    {false, 1, 2, {POP(0, FQ_EMPTY, 0, 3), POP(0, FQ_BUSY, 1, 2)}}, /* no reason */
    {false, 2, 2, {PUSH(1, FQ_OK, 0, 1), PUSH_2(2, 3, 0, 2, 3)}},   /* too few */
    {false,
     2,
     3,
     {PUSH_2(1, 2, 2, 0, 3), PUSH(3, FQ_FULL, 1, 2), POP(3, FQ_OK, 4, 5)}} /* invented */
};

static void check_finds_faults(void) {
  for (size_t i = 0; i < COUNT_OF(samples); i++) {
    struct history h = {.capacity = samples[i].capacity, .count = samples[i].count};
    struct linear_queue empty = {{0}, 0};
    memcpy(h.calls, samples[i].calls, h.count * sizeof(*h.calls));
    if (!CHECK(linear_search(&h, 0, &empty) == samples[i].good)) {
      history_print(&h);
    }
  }
}

/* -- Real threads --------------------------------------------------------------------------------- */

struct run {
  const struct face *face;
  union queue queue;
  struct history history;
  atomic_size_t round;    /* that may begin */
  atomic_size_t finished; /* threads, over all rounds */
  bool end;
};

struct actor {
  struct run *run;
  struct call *calls; /* in the history */
};

static void *act(void *arg) {
  struct actor *a = (struct actor *)arg;
  struct run *run = a->run;
  for (size_t round = 1;; round++) {
    UNTIL(atomic_load(&run->round) == round);
    if (run->end) {
      return NULL;
    }
    for (size_t i = 0; i < CALLS; i++) {
      call_do(&a->calls[i], run->face, &run->queue, &run->history.clock);
    }
    atomic_fetch_add(&run->finished, 1);
  }
}

/* Whose turn it is to pop: one thread of a side that has only one. */
static bool pops(const struct face *f, size_t thread, uint64_t *seed) {
  if (f->one_push) {
    return thread > 0;
  }
  return f->one_pop ? thread == THREADS - 1 : random_below(seed, 2) == 0;
}

static void explain_rounds(const struct face *f, size_t threads, size_t rounds) {
  static unsigned char memory[1024];
  struct run run = {.face = f};
  struct actor actors[THREADS];
  struct crew crew = {0};
  uint64_t seed = 5;
  for (size_t i = 0; i < threads; i++) {
    actors[i].run = &run;
    crew_add(&crew, act, &actors[i]);
  }
  for (size_t round = 1; round <= rounds && !run.end; round++) {
    struct history *h = &run.history;
    size_t asked = random_below(&seed, LINEAR_ITEMS) + 1;
    size_t capacity = face_capacity(f, asked);
    uint64_t number = 0;
    run.end = !CHECK(
        f->init_fixed(&run.queue, memory + (64 - (uintptr_t)memory % 64) % 64, asked) == FQ_OK);
    history_begin(h, f, &run.queue, capacity, random_below(&seed, capacity),
                  random_below(&seed, capacity + 1));
    for (size_t i = 0; i < threads; i++) {
      actors[i].calls = &h->calls[h->count];
      for (size_t j = 0; j < CALLS; j++) {
        h->calls[h->count++] = call_random(&seed, f, pops(f, i, &seed), capacity, &number);
      }
    }
    atomic_store(&run.round, round);
    UNTIL(atomic_load(&run.finished) == round * threads);
    history_end(h, f, &run.queue);
    run.end |= !CHECK(history_holds(h)) || round == rounds;
    f->destroy(&run.queue);
    if (run.end) {
      atomic_store(&run.round, round + 1);
    }
  }
  crew_join(&crew);
}

static void spsc_is_explained(void) { explain_rounds(&spsc_face, 2, ROUNDS(20000)); }

static void mpmc_is_explained(void) { explain_rounds(&mpmc_face, 3, ROUNDS(20000)); }

static void mpsc_is_explained(void) { explain_rounds(&mpsc_face, 3, ROUNDS(10000)); }

static void spmc_is_explained(void) { explain_rounds(&spmc_face, 3, ROUNDS(10000)); }

int main(void) {
  RUN(check_finds_faults);
  RUN(spsc_is_explained);
  RUN(mpmc_is_explained);
  RUN(mpsc_is_explained);
  RUN(spmc_is_explained);
  return test_end();
}
