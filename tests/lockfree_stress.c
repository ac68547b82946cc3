/* lockfree_stress.c: FQ_SPSC, FQ_MPMC, FQ_MPSC and FQ_SPMC between running threads: every item arrives
 * once, in the order of its producer, whole, and beside its neighbours in its batch; the count stays
 * within the capacity.
 *
 * Where FQI_POSITIONS makes the positions few, each side is one thread: a compare-and-swap cannot
 * tell a position from the same one a lap later, and a thread may be stopped for so long. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_setaffinity */
#endif
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"

#include "items.h"
#include "queue_face.h"
#include "threads.h"

#include <string.h>

SPSC_FACE(spsc8, uint64_t);
SPSC_FACE(spsc24, struct item24);
MPMC_FACE(mpmc8, uint64_t);
MPMC_FACE(mpmc24, struct item24);
MPSC_FACE(mpsc8, uint64_t);
MPSC_FACE(mpsc24, struct item24);
SPMC_FACE(spmc8, uint64_t);
SPMC_FACE(spmc24, struct item24);

enum { PRODUCERS = 8, BULK = 16, ITEM = sizeof(struct item24), TOTAL_MAX = 200000 };

/* How many positions there are; 0 where they are not few. */
#if FQI_POSITIONS <= 0xffff
#define NARROW FQI_POSITIONS
#else
#define NARROW 0
#endif

/* An item is its producer, its number there, and its place in the call that pushed it. */
static uint64_t tag_of(size_t producer, size_t number, size_t place) {
  return (uint64_t)producer << 48 | (uint64_t)place << 32 | (uint64_t)number;
}
static size_t tag_producer(uint64_t tag) { return (size_t)(tag >> 48); }
static size_t tag_place(uint64_t tag) { return (size_t)(tag >> 32) & 0xffff; }
static size_t tag_number(uint64_t tag) { return (size_t)(tag & 0xffffffff); }

/* What one producer leaves, and what one consumer has seen. */
struct producer {
  size_t id, number; /* of the next item */
  uint64_t seed;
};

struct consumer {
  size_t next[PRODUCERS]; /* the least number that may come from each */
  uint64_t last;          /* the newest item, where this is the only consumer; else of a call */
  bool has_last;
  uint64_t seed;
};

struct run {
  const struct face *face;
  union queue queue;
  size_t capacity, producers, consumers;
  size_t each;           /* items of each producer */
  size_t total;          /* items of all */
  atomic_size_t arrived; /* items that came out */
  atomic_uchar *seen;    /* of each item, whether it came out */
};

static atomic_uchar seen[TOTAL_MAX];

/* -- One call, of any kind -------------------------------------------------------------------------- */

/* At most so many new items, in one call of any kind: how many the queue took. */
static size_t push_some(struct run *run, struct producer *p, size_t most) {
  const struct face *f = run->face;
  _Alignas(8) unsigned char items[BULK * ITEM];
  size_t kind = random_below(&p->seed, f->write_span != NULL ? 4 : 3);
  size_t n = kind == 0 ? 1 : random_below(&p->seed, BULK) + 1;
  unsigned char *to = items;
  n = n < most ? n : most;
  if (kind == 2 && n > run->capacity) {
    n = run->capacity;
  }
  if (kind == 3) {
    to = (unsigned char *)f->write_span(&run->queue, &n);
  }
  for (size_t i = 0; i < n; i++) {
    item_make(to + i * f->size, f->size, tag_of(p->id, p->number + i, i));
  }
  fq_status status;
  switch (kind) {
  case 0:
    status = f->push(&run->queue, items);
    break;
  case 1:
    return f->push_n(&run->queue, items, n);
  case 2:
    status = f->push_all(&run->queue, items, n);
    break;
  default:
    f->commit(&run->queue, n);
    return n;
  }
  CHECK(status == FQ_OK || status == FQ_FULL || (status == FQ_BUSY && f->shared));
  return status == FQ_OK ? n : 0;
}

static size_t pop_some(struct run *run, struct consumer *c, void *out) {
  const struct face *f = run->face;
  size_t kind = random_below(&c->seed, 4);
  size_t n = kind == 0 ? 1 : random_below(&c->seed, BULK) + 1;
  fq_status status;
  const void *span;
  if (kind == 2 && f->pop_all != NULL) {
    n = n < run->capacity ? n : run->capacity;
    status = f->pop_all(&run->queue, out, n);
  } else if (kind == 0) {
    status = f->pop(&run->queue, out);
  } else if (kind == 1 && f->read_span != NULL) {
    span = f->read_span(&run->queue, &n);
    if (n > 0) {
      CHECK(span == f->peek(&run->queue));
      memcpy(out, span, n * f->size);
    }
    f->release(&run->queue, n);
    return n;
  } else {
    return f->pop_n(&run->queue, out, n);
  }
  CHECK(status == FQ_OK || status == FQ_EMPTY || (status == FQ_BUSY && f->shared));
  return status == FQ_OK ? n : 0;
}

/* -- What came out --------------------------------------------------------------------------------- */

static void take(struct run *run, struct consumer *c, const unsigned char *items, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint64_t tag;
    bool whole = item_read(items + i * run->face->size, run->face->size, &tag);
    size_t producer = tag_producer(tag), number = tag_number(tag);
    if (!CHECK(whole && producer < run->producers && number < run->each)) {
      continue;
    }
    CHECK(number >= c->next[producer]);
    c->next[producer] = number + 1;
    if (c->has_last && tag_place(tag) > 0) {
      CHECK(tag == tag_of(producer, tag_number(c->last) + 1, tag_place(c->last) + 1));
      CHECK(producer == tag_producer(c->last));
    }
    c->last = tag;
    c->has_last = true;
    CHECK(atomic_exchange_explicit(&run->seen[producer * run->each + number], 1,
                                   memory_order_relaxed) == 0);
  }
  c->has_last &= run->consumers == 1;
}

/* -- The threads ------------------------------------------------------------------------------------ */

struct actor {
  struct run *run;
  struct producer producer;
  struct consumer consumer;
};

static void *produce(void *arg) {
  struct actor *a = (struct actor *)arg;
  while (a->producer.number < a->run->each) {
    size_t n = push_some(a->run, &a->producer, a->run->each - a->producer.number);
    a->producer.number += n;
    if (n == 0) {
      sched_yield();
    }
  }
  return NULL;
}

static void *consume(void *arg) {
  struct actor *a = (struct actor *)arg;
  struct run *run = a->run;
  _Alignas(8) unsigned char out[BULK * ITEM];
  while (atomic_load_explicit(&run->arrived, memory_order_relaxed) < run->total) {
    size_t n = pop_some(run, &a->consumer, out);
    if (n == 0) {
      sched_yield();
      continue;
    }
    take(run, &a->consumer, out, n);
    atomic_fetch_add_explicit(&run->arrived, n, memory_order_relaxed);
  }
  return NULL;
}

static void *observe(void *arg) {
  struct run *run = ((struct actor *)arg)->run;
  while (atomic_load_explicit(&run->arrived, memory_order_relaxed) < run->total) {
    for (int i = 0; i < 20; i++) {
      CHECK(run->face->count(&run->queue) <= run->capacity);
    }
    sched_yield();
  }
  return NULL;
}

static bool run_open(struct run *run, const struct face *f, size_t asked, size_t total) {
  memset(run, 0, sizeof(*run));
  run->face = f;
  run->capacity = face_capacity(f, asked);
  run->total = total;
  run->seen = seen;
  for (size_t i = 0; i < total; i++) {
    atomic_init(&seen[i], 0);
  }
  return CHECK(total <= TOTAL_MAX) && CHECK(f->init(&run->queue, asked) == FQ_OK);
}

static void run_close(struct run *run) {
  _Alignas(8) unsigned char out[ITEM];
  size_t missing = 0;
  for (size_t i = 0; i < run->total; i++) {
    missing += atomic_load_explicit(&seen[i], memory_order_relaxed) == 0 ? 1 : 0;
  }
  CHECK(missing == 0);
  CHECK(run->face->count(&run->queue) == 0);
  CHECK(run->face->pop(&run->queue, out) == FQ_EMPTY);
  run->face->destroy(&run->queue);
}

static void move_items(const struct face *f, size_t asked, size_t producers, size_t consumers,
                       size_t total) {
  struct run run;
  struct actor actors[CREW_MAX];
  struct crew crew = {0};
  if (NARROW && (producers + consumers > 2 || (f->shared && asked > NARROW / 32))) {
    return;
  }
  if (!run_open(&run, f, asked, total / producers * producers)) {
    return;
  }
  run.producers = producers;
  run.consumers = consumers;
  run.each = run.total / producers;
  memset(actors, 0, sizeof(actors));
  for (size_t i = 0; i < producers + consumers + 1; i++) {
    actors[i].run = &run;
    actors[i].producer.id = i;
    actors[i].producer.seed = actors[i].consumer.seed = i + 1;
    crew_add(&crew,
             i < producers               ? produce
             : i < producers + consumers ? consume
                                         : observe,
             &actors[i]);
  }
  crew_join(&crew);
  run_close(&run);
}

/* -- The tests -------------------------------------------------------------------------------------- */

static void one_to_one(void) {
  const struct face *const all[] = {&spsc8_face,  &spsc24_face, &mpmc8_face,
                                    &mpmc24_face, &mpsc8_face,  &spmc24_face};
  const size_t capacities[] = {1, 2, 3, 7, 63};
  for (size_t i = 0; i < COUNT_OF(all); i++) {
    for (size_t j = 0; j < COUNT_OF(capacities); j++) {
      move_items(all[i], capacities[j], 1, 1, ROUNDS(capacities[j] > 4 ? 100000 : 4000));
    }
  }
}

static void many_to_many(void) {
  const size_t capacities[] = {1, 2, 4, 32};
  for (size_t j = 0; j < COUNT_OF(capacities); j++) {
    size_t total = ROUNDS(capacities[j] > 8 ? 50000 : 4000);
    move_items(&mpmc8_face, capacities[j], 2, 2, total);
    move_items(&mpmc24_face, capacities[j], 3, 1, total);
    move_items(&mpsc8_face, capacities[j], 2, 1, total);
    move_items(&mpsc24_face, capacities[j], 3, 1, total);
    move_items(&spmc8_face, capacities[j], 1, 2, total);
    move_items(&spmc24_face, capacities[j], 1, 3, total);
  }
}

static void more_threads_than_cores(void) {
  move_items(&mpmc8_face, 64, 8, 8, ROUNDS(30000));
  move_items(&mpmc24_face, 4, 8, 8, ROUNDS(5000));
  move_items(&mpsc8_face, 64, 8, 1, ROUNDS(30000));
  move_items(&spmc8_face, 64, 1, 8, ROUNDS(30000));
}

static void one_core(void) {
#ifdef __linux__
  cpu_set_t before, one;
  size_t first = 0;
  if (sched_getaffinity(0, sizeof(before), &before) != 0) {
    SKIP("the system does not tell which cores there are");
    return;
  }
  while (first < CPU_SETSIZE - 1 && !CPU_ISSET(first, &before)) {
    first++;
  }
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  if (sched_setaffinity(0, sizeof(one), &one) != 0) {
    SKIP("the system does not bind threads to a core");
    return;
  }
  move_items(&spsc8_face, 7, 1, 1, ROUNDS(10000));
  move_items(&mpmc8_face, 8, 1, 1, ROUNDS(10000));
  move_items(&mpmc24_face, 8, 4, 4, ROUNDS(10000));
  move_items(&mpsc8_face, 8, 4, 1, ROUNDS(10000));
  move_items(&spmc8_face, 8, 1, 4, ROUNDS(10000));
  CHECK(sched_setaffinity(0, sizeof(before), &before) == 0);
#else
  SKIP("threads are bound to a core on Linux only");
#endif
}

/* -- Roles that change hands ------------------------------------------------------------------------ */

/* Every thread pushes and pops. Where a side has room for one thread only, whoever takes its lock is
 * that one for a while, and the items and what was seen of them go with the role. */
struct roles {
  struct run run;
  pthread_mutex_t push_lock, pop_lock;
  struct producer producer; /* of the role */
  struct consumer consumer;
};

struct player {
  struct roles *roles;
  struct producer producer; /* of its own */
  struct consumer consumer;
};

static void play_push(struct player *p, unsigned turns) {
  struct run *run = &p->roles->run;
  bool alone = run->face->one_push;
  struct producer *as = alone ? &p->roles->producer : &p->producer;
  if (alone && pthread_mutex_trylock(&p->roles->push_lock) != 0) {
    return;
  }
  for (unsigned i = 0; i < turns && as->number < run->each; i++) {
    as->number += push_some(run, as, run->each - as->number);
  }
  if (alone) {
    pthread_mutex_unlock(&p->roles->push_lock);
  }
}

static void play_pop(struct player *p, unsigned turns) {
  struct run *run = &p->roles->run;
  bool alone = run->face->one_pop;
  struct consumer *as = alone ? &p->roles->consumer : &p->consumer;
  _Alignas(8) unsigned char out[BULK * ITEM];
  if (alone && pthread_mutex_trylock(&p->roles->pop_lock) != 0) {
    return;
  }
  for (unsigned i = 0; i < turns; i++) {
    size_t n = pop_some(run, as, out);
    take(run, as, out, n);
    atomic_fetch_add_explicit(&run->arrived, n, memory_order_relaxed);
  }
  if (alone) {
    pthread_mutex_unlock(&p->roles->pop_lock);
  }
}

static void *play(void *arg) {
  struct player *p = (struct player *)arg;
  uint64_t seed = p->producer.id + 77;
  while (atomic_load_explicit(&p->roles->run.arrived, memory_order_relaxed) < p->roles->run.total) {
    unsigned turns = (unsigned)random_below(&seed, 20) + 1;
    if (random_below(&seed, 2) == 0) {
      play_push(p, turns);
    } else {
      play_pop(p, turns);
    }
    sched_yield();
  }
  return NULL;
}

static void roles_of(const struct face *f, size_t asked, size_t threads, size_t total) {
  struct roles roles = {.push_lock = PTHREAD_MUTEX_INITIALIZER,
                        .pop_lock = PTHREAD_MUTEX_INITIALIZER,
                        .producer.seed = 11,
                        .consumer.seed = 13};
  struct player players[PRODUCERS];
  struct crew crew = {0};
  if ((NARROW && !(f->one_push && f->one_pop)) ||
      !run_open(&roles.run, f, asked, total / threads * threads)) {
    return;
  }
  roles.run.producers = f->one_push ? 1 : threads;
  roles.run.consumers = f->one_pop ? 1 : threads;
  roles.run.each = roles.run.total / roles.run.producers;
  memset(players, 0, sizeof(players));
  for (size_t i = 0; i < threads; i++) {
    players[i].roles = &roles;
    players[i].producer.id = i;
    players[i].producer.seed = players[i].consumer.seed = i + 1;
    crew_add(&crew, play, &players[i]);
  }
  crew_join(&crew);
  run_close(&roles.run);
}

static void roles_change(void) {
  roles_of(&spsc8_face, 5, 4, ROUNDS(30000));
  roles_of(&spsc24_face, 1, 3, ROUNDS(5000));
  roles_of(&mpmc8_face, 8, 4, ROUNDS(30000));
  roles_of(&mpmc24_face, 1, 3, ROUNDS(5000));
  roles_of(&mpsc8_face, 8, 4, ROUNDS(30000));
  roles_of(&spmc24_face, 8, 4, ROUNDS(30000));
}

int main(void) {
  RUN(one_to_one);
  if (NARROW == 0) {
    RUN(many_to_many);
    RUN(more_threads_than_cores);
  }
  RUN(one_core);
  RUN(roles_change);
  return test_end();
}
