/* lockfree_stopped.c: threads that are stopped in the middle of a call. Nobody waits for them: the
 * others go on, or hear an honest FQ_BUSY. And threads that are stopped anywhere, in any order. */
#define _POSIX_C_SOURCE 200809L
#define FASTQ_NO_THREADS
#define FQI_PLATFORM_HEADER "tests/puppet.h"
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"

#include "linear.h"
#include "threads.h"

SPSC_FACE(spsc, uint64_t);
MPMC_FACE(mpmc, uint64_t);
MPSC_FACE(mpsc, uint64_t);
SPMC_FACE(spmc, uint64_t);

enum { CAPACITY = 4, STEPS_MAX = 100 };

static _Alignas(64) unsigned char memory[1024];
static union queue queue;
static const struct face *face;
static struct call calls[PUPPETS]; /* of the puppets */
static atomic_size_t tickets;

static void fresh(const struct face *f, size_t capacity) {
  face = f;
  CHECK(f->init_fixed(&queue, memory, capacity) == FQ_OK);
}

static void do_call(void *arg) { call_do((struct call *)arg, face, &queue, &tickets); }

/* Puppet i is about to push n items from first on, or to pop n. */
static void will_push(size_t i, enum call_kind kind, size_t n, uint64_t first) {
  calls[i] = (struct call){.kind = kind, .n = n};
  for (size_t j = 0; j < n; j++) {
    calls[i].items[j] = first + j;
  }
  puppet_call(i, do_call, &calls[i]);
}

static void will_pop(size_t i, enum call_kind kind, size_t n) {
  calls[i] = (struct call){.kind = kind, .n = n};
  puppet_call(i, do_call, &calls[i]);
}

/* Lets puppet i go on until it has claimed, which the count shows. It is not finished then. */
static void until_claimed(size_t i) {
  size_t before = face->count(&queue);
  for (size_t step = 0; step < STEPS_MAX && face->count(&queue) == before; step++) {
    puppet_go(i, 1);
  }
  CHECK(face->count(&queue) != before);
  CHECK(puppet_busy(i));
}

/* What the test itself does, as one more thread. */
static fq_status push(uint64_t item) { return face->push(&queue, &item); }

static fq_status pop(uint64_t *item) {
  *item = 0;
  return face->pop(&queue, item);
}

/* The n items from first on come next, and nothing else. */
static void expect_only(uint64_t first, size_t n) {
  uint64_t item;
  for (size_t i = 0; i < n; i++) {
    CHECK(pop(&item) == FQ_OK && item == first + i);
  }
  CHECK(pop(&item) == FQ_EMPTY);
  CHECK(face->count(&queue) == 0);
}

/* -- A push is stopped between its claim and its end ----------------------------------------------- */

static void push_is_stopped_of(const struct face *f, enum call_kind kind, size_t n) {
  uint64_t items[CAPACITY];
  fresh(f, CAPACITY);
  will_push(0, kind, n, 1);
  until_claimed(0);
  CHECK(f->count(&queue) == n);
  CHECK(pop(items) == FQ_BUSY);
  CHECK(f->pop_n(&queue, items, CAPACITY) == 0);
  CHECK(f->pop_all(&queue, items, n) == FQ_BUSY);
  CHECK(f->pop_all(&queue, items, n + 1) == FQ_EMPTY);
  if (!f->one_push) {
    for (size_t i = n + 1; i <= CAPACITY; i++) {
      CHECK(push(i) == FQ_OK); /* the others go on */
      CHECK(pop(items) == FQ_BUSY);
    }
    CHECK(push(9) == FQ_FULL);
    CHECK(f->count(&queue) == CAPACITY);
  }
  puppet_finish(0);
  CHECK(calls[0].moved == n && calls[0].status == FQ_OK);
  expect_only(1, f->one_push ? n : CAPACITY);
  f->destroy(&queue);
}

static void push_is_stopped(void) {
  const struct face *const shared[] = {&mpmc_face, &mpsc_face, &spmc_face};
  for (size_t i = 0; i < COUNT_OF(shared); i++) {
    push_is_stopped_of(shared[i], CALL_PUSH, 1);
    push_is_stopped_of(shared[i], CALL_PUSH_N, 2);
    push_is_stopped_of(shared[i], CALL_PUSH_ALL, 3);
  }
}

static void pop_is_stopped_of(const struct face *f, enum call_kind kind, size_t n) {
  const uint64_t first[] = {1, 2, 3, 4};
  uint64_t items[CAPACITY];
  fresh(f, CAPACITY);
  CHECK(f->push_all(&queue, first, CAPACITY) == FQ_OK);
  will_pop(0, kind, n);
  until_claimed(0);
  CHECK(f->count(&queue) == CAPACITY - n);
  CHECK(push(9) == FQ_BUSY);
  CHECK(f->push_n(&queue, first, CAPACITY) == 0);
  CHECK(f->push_all(&queue, first, n) == FQ_BUSY);
  CHECK(f->push_all(&queue, first, n + 1) == FQ_FULL);
  if (!f->one_pop) {
    for (size_t i = n + 1; i <= CAPACITY; i++) {
      CHECK(pop(items) == FQ_OK && items[0] == i);
      CHECK(push(9) == FQ_BUSY);
    }
    CHECK(pop(items) == FQ_EMPTY);
  }
  puppet_finish(0);
  CHECK(calls[0].moved == n && memcmp(calls[0].items, first, n * sizeof(*first)) == 0);
  if (f->one_pop) {
    CHECK(f->pop_n(&queue, items, CAPACITY) == CAPACITY - n);
  }
  CHECK(f->push_all(&queue, first, CAPACITY) == FQ_OK);
  expect_only(1, CAPACITY);
  f->destroy(&queue);
}

static void pop_is_stopped(void) {
  const struct face *const shared[] = {&mpmc_face, &mpsc_face, &spmc_face};
  for (size_t i = 0; i < COUNT_OF(shared); i++) {
    pop_is_stopped_of(shared[i], CALL_POP, 1);
    pop_is_stopped_of(shared[i], CALL_POP_N, 2);
    pop_is_stopped_of(shared[i], CALL_POP_ALL, 3);
  }
}

/* -- Several are stopped, and end in any order ------------------------------------------------------- */

static const size_t orders[][PUPPETS] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                         {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

/* Of runs claimed in the order 0, 1, 2: how many items of theirs may move on, with those ended. */
static size_t ready_items(const bool *ended, const size_t *sizes) {
  size_t ready = 0;
  for (size_t i = 0; i < PUPPETS && ended[i]; i++) {
    ready += sizes[i];
  }
  return ready;
}

/* peeks: the other side looks after each end, and takes what is there; else at the last only. */
static void pushes_end_in(const struct face *f, const size_t *order, bool peeks) {
  const size_t sizes[PUPPETS] = {1, 2, 1};
  bool ended[PUPPETS] = {false};
  uint64_t item, next = 1, first = 1;
  fresh(f, CAPACITY);
  for (size_t i = 0; i < PUPPETS; i++) {
    will_push(i, CALL_PUSH_ALL, sizes[i], first);
    until_claimed(i);
    first += sizes[i];
  }
  for (size_t i = 0; i < PUPPETS; i++) {
    puppet_finish(order[i]);
    ended[order[i]] = true;
    size_t ready = ready_items(ended, sizes);
    while (peeks && next <= ready) {
      CHECK(pop(&item) == FQ_OK && item == next);
      next++;
    }
    CHECK(!peeks || pop(&item) == (ready == CAPACITY ? FQ_EMPTY : FQ_BUSY));
  }
  expect_only(next, (size_t)(CAPACITY + 1 - next));
  CHECK(f->push_n(&queue, (const uint64_t[]){5, 6, 7, 8}, CAPACITY) == CAPACITY);
  expect_only(5, CAPACITY);
  f->destroy(&queue);
}

static void pops_end_in(const struct face *f, const size_t *order, bool peeks) {
  const size_t sizes[PUPPETS] = {1, 2, 1};
  bool ended[PUPPETS] = {false};
  uint64_t pushed = 0, first = 1;
  fresh(f, CAPACITY);
  CHECK(f->push_n(&queue, (const uint64_t[]){1, 2, 3, 4}, CAPACITY) == CAPACITY);
  for (size_t i = 0; i < PUPPETS; i++) {
    will_pop(i, CALL_POP_ALL, sizes[i]);
    until_claimed(i);
  }
  for (size_t i = 0; i < PUPPETS; i++) {
    puppet_finish(order[i]);
    ended[order[i]] = true;
    size_t ready = ready_items(ended, sizes);
    while (peeks && pushed < ready) {
      pushed++;
      CHECK(push(4 + pushed) == FQ_OK);
    }
    CHECK(!peeks || push(9) == (ready == CAPACITY ? FQ_FULL : FQ_BUSY));
  }
  for (size_t i = 0; i < PUPPETS; i++) {
    CHECK(calls[i].status == FQ_OK && calls[i].items[0] == first);
    first += sizes[i];
  }
  while (pushed < CAPACITY) {
    pushed++;
    CHECK(push(4 + pushed) == FQ_OK);
  }
  CHECK(push(9) == FQ_FULL);
  expect_only(5, CAPACITY);
  f->destroy(&queue);
}

static void any_order_of_ends(void) {
  for (size_t i = 0; i < COUNT_OF(orders); i++) {
    for (int peeks = 0; peeks < 2; peeks++) {
      pushes_end_in(&mpmc_face, orders[i], peeks);
      pushes_end_in(&mpsc_face, orders[i], peeks);
      pops_end_in(&mpmc_face, orders[i], peeks);
      pops_end_in(&spmc_face, orders[i], peeks);
    }
  }
}

/* A push that is stopped anywhere: from its claim on, the others hear FQ_BUSY when they come to its
 * place; before it they go on for laps. */
static void laps_around_a_stopped_push(void) {
  uint64_t item;
  for (size_t step = 0; step < 12; step++) {
    fresh(&mpmc_face, 2);
    will_push(0, CALL_PUSH, 1, 1000);
    puppet_go(0, step);
    size_t claimed = mpmc_face.count(&queue), moved = 0;
    bool busy = puppet_busy(0) && claimed == 1;
    for (uint64_t i = 0; i < 40; i++) {
      bool pushed = push(i) == FQ_OK;
      CHECK(pushed || busy);
      fq_status status = pop(&item);
      CHECK(busy ? status == FQ_BUSY : status == FQ_OK);
      moved += status == FQ_OK ? 1 : 0;
    }
    CHECK(busy ? moved == 0 : moved == 40);
    puppet_finish(0);
    CHECK(calls[0].status == (busy || claimed == 1 || moved == 40 ? FQ_OK : FQ_FULL));
    while (pop(&item) == FQ_OK) {
    }
    CHECK(push(7) == FQ_OK);
    expect_only(7, 1);
    mpmc_face.destroy(&queue);
  }
}

/* A pop that is stopped anywhere, at a place that was finished late, while the others go on for laps:
 * each item comes out once, in order. */
static void laps_around_a_stopped_pop(void) {
  for (size_t step = 0; step < 16; step++) {
    uint64_t item, pushed = 0, last = 0;
    size_t popped = 0;
    fresh(&mpmc_face, CAPACITY);
    will_push(0, CALL_PUSH, 1, ++pushed);
    until_claimed(0);
    CHECK(push(++pushed) == FQ_OK); /* it ends before the one before it */
    puppet_finish(0);
    will_pop(1, CALL_POP, 1);
    puppet_go(1, step);
    for (size_t i = 0; i < 8 * CAPACITY; i++) {
      fq_status status = push(pushed + 1);
      CHECK(status == FQ_OK || status == FQ_BUSY);
      pushed += status == FQ_OK ? 1 : 0;
      if (pop(&item) == FQ_OK) {
        CHECK(item > last && item <= pushed);
        last = item;
        popped++;
      }
    }
    puppet_finish(1);
    popped += calls[1].status == FQ_OK ? 1 : 0;
    while (popped < pushed && pop(&item) == FQ_OK) {
      CHECK(item > last);
      last = item;
      popped++;
    }
    CHECK(popped == pushed);
    CHECK(push(100) == FQ_OK);
    expect_only(100, 1);
    mpmc_face.destroy(&queue);
  }
}

/* -- Honest answers ------------------------------------------------------------------------------------ */

/* Always at least one item, or one free place: never FQ_EMPTY, never FQ_FULL. The first thread is
 * stopped in its push (pop), and the second in its pop (push) at that place, where it learns that
 * nothing is ready; then the first ends, and others move on, by more than a lap. */
static void never_empty(size_t step) {
  uint64_t item;
  fresh(&mpmc_face, 2);
  will_push(0, CALL_PUSH, 1, 1);
  until_claimed(0);
  CHECK(push(2) == FQ_OK);
  will_pop(1, CALL_POP, 1);
  puppet_go(1, step);
  puppet_finish(0);
  for (uint64_t i = 3; i < 9 && puppet_busy(1); i++) {
    CHECK(pop(&item) == FQ_OK);
    CHECK(push(i) == FQ_OK);
  }
  puppet_finish(1);
  CHECK(calls[1].status == FQ_OK || calls[1].status == FQ_BUSY);
  mpmc_face.destroy(&queue);
}

static void never_full(size_t step) {
  uint64_t item;
  fresh(&mpmc_face, 2);
  CHECK(push(1) == FQ_OK && push(2) == FQ_OK);
  will_pop(0, CALL_POP, 1);
  until_claimed(0);
  CHECK(pop(&item) == FQ_OK && item == 2);
  will_push(1, CALL_PUSH, 1, 100);
  puppet_go(1, step);
  puppet_finish(0);
  for (uint64_t i = 3; i < 9 && puppet_busy(1); i++) {
    CHECK(push(i) == FQ_OK);
    CHECK(pop(&item) == FQ_OK);
  }
  puppet_finish(1);
  CHECK(calls[1].status == FQ_OK || calls[1].status == FQ_BUSY);
  mpmc_face.destroy(&queue);
}

static void honest_answers(void) {
  for (size_t step = 0; step < 12; step++) {
    never_empty(step);
    never_full(step);
  }
}

/* -- Looks that are stopped ---------------------------------------------------------------------------- */

static size_t counted;

static void do_count(void *arg) {
  (void)arg;
  counted = face->count(&queue);
}

/* One or two of four places are in use, all the while that somebody counts them, at different times. */
static void counts_of(const struct face *f) {
  uint64_t item;
  for (size_t step = 0; step < 4; step++) {
    fresh(f, CAPACITY);
    CHECK(push(1) == FQ_OK);
    puppet_call(0, do_count, NULL);
    puppet_go(0, step);
    CHECK(push(2) == FQ_OK);
    CHECK(pop(&item) == FQ_OK && item == 1);
    puppet_finish(0);
    CHECK(counted >= 1 && counted <= 2);

    puppet_call(0, do_count, NULL);
    puppet_go(0, step);
    for (uint64_t i = 3; i < 20; i++) {
      CHECK(push(i) == FQ_OK);
      CHECK(pop(&item) == FQ_OK && item == i - 1);
    }
    puppet_finish(0);
    CHECK(counted >= 1 && counted <= CAPACITY);
    f->destroy(&queue);
  }
}

static void counts(void) {
  counts_of(&spsc_face);
  counts_of(&mpmc_face);
}

/* -- Stopped anywhere ---------------------------------------------------------------------------------- */

enum { PROGRAM = 3 };

struct program {
  struct call *calls; /* in the history */
};

static struct history history;

static void do_program(void *arg) {
  struct program *p = (struct program *)arg;
  for (size_t i = 0; i < PROGRAM; i++) {
    call_do(&p->calls[i], face, &queue, &history.clock);
  }
}

/* Whose turn it is to pop: one thread of a side that has only one. */
static bool pops(const struct face *f, size_t thread, size_t threads, uint64_t *seed) {
  if (f->one_push) {
    return thread > 0;
  }
  return f->one_pop ? thread == threads - 1 : random_below(seed, 2) == 0;
}

/* Random programs, of which a random one does a few steps, and so on. */
static bool explain(const struct face *f, size_t threads, uint64_t seed) {
  struct program programs[PUPPETS];
  size_t capacity = face_capacity(f, random_below(&seed, LINEAR_ITEMS) + 1);
  uint64_t number = 0;
  fresh(f, capacity);
  history_begin(&history, f, &queue, capacity, random_below(&seed, capacity),
                random_below(&seed, capacity + 1));
  for (size_t i = 0; i < threads; i++) {
    programs[i].calls = &history.calls[history.count];
    for (size_t j = 0; j < PROGRAM; j++) {
      history.calls[history.count++] =
          call_random(&seed, f, pops(f, i, threads, &seed), capacity, &number);
    }
    puppet_call(i, do_program, &programs[i]);
  }
  for (size_t left = threads; left > 0;) {
    size_t i = random_below(&seed, threads);
    if (puppet_busy(i)) {
      puppet_go(i, random_below(&seed, 8) + 1);
      left -= puppet_busy(i) ? 0 : 1;
      size_t count = f->count(&queue);
      CHECK(count <= capacity);
    }
  }
  history_end(&history, f, &queue);
  f->destroy(&queue);
  return CHECK(history_holds(&history));
}

static void explain_seeds(const struct face *f, size_t threads, size_t seeds) {
  for (size_t seed = 1; seed <= seeds; seed++) {
    if (!explain(f, threads, seed)) {
      printf("%s, seed %zu\n", f->name, seed);
      return;
    }
  }
}

static void stopped_anywhere(void) {
  explain_seeds(&mpmc_face, 3, ROUNDS(3000));
  explain_seeds(&mpsc_face, 3, ROUNDS(1500));
  explain_seeds(&spmc_face, 3, ROUNDS(1500));
  explain_seeds(&spsc_face, 2, ROUNDS(1500));
}

int main(void) {
  stage_open();
  RUN(push_is_stopped);
  RUN(pop_is_stopped);
  RUN(any_order_of_ends);
  RUN(laps_around_a_stopped_push);
  RUN(laps_around_a_stopped_pop);
  RUN(honest_answers);
  RUN(counts);
  RUN(stopped_anywhere);
  stage_close();
  return test_end();
}
