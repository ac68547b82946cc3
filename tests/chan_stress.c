/* chan_stress.c: FQ_CHAN with more threads than cores: every item is accounted for, whatever
 * happens. */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"

#include "chan_call.h"
#include "chan_face.h"
#include "items.h"
#include "test.h"
#include "threads.h"

#include <signal.h>
#include <unistd.h>

/* -- Tagged items from many to many ------------------------------------------------------------ */

enum { MAX_SIDE = 8, MAX_PER_PRODUCER = 5000, BULK = 24 };

enum style { SINGLES, BULKS, TIMED, STYLES };

/* What a run must come to: of each producer exactly the accepted items, a prefix of its numbers,
 * were delivered, each once, and every consumer saw them in order. */
struct run {
  const struct face *face;
  enum style style;
  size_t limit, side, per_producer; /* so many producers, and as many consumers */
  bool closes;                      /* in the middle of it */
  size_t close_after;               /* so many calls */
  union any_chan chan;
  atomic_size_t calls, delivered, producers_done;
  atomic_uint_fast64_t sum_in, sum_out;
  atomic_bool closed; /* the close has returned */
  /* Items too small for a tag are only added up. */
  atomic_uchar seen[MAX_SIDE][MAX_PER_PRODUCER];
};

struct producer {
  struct run *run;
  size_t index, accepted;
};

struct consumer {
  struct run *run;
  size_t index;
  uint64_t next[MAX_SIDE]; /* the least number that may come from each producer */
};

static bool run_has_tags(const struct run *r) { return r->face->size >= 8; }

static uint64_t tag_make(size_t producer, uint64_t number) {
  return (uint64_t)producer << 32 | number;
}

static int64_t any_timeout(uint64_t *seed, enum style style) {
  if (style != TIMED) {
    return FQ_FOREVER;
  }
  return random_below(seed, 8) == 0 ? FQ_NOWAIT : 1 + (int64_t)random_below(seed, 60000);
}

/* One push of some kind; returns whether there is more to come. */
static bool produce_some(struct producer *me, uint64_t *seed) {
  struct run *r = me->run;
  _Alignas(16) unsigned char items[BULK * ITEM_SIZE_MAX];
  size_t size = r->face->size, left = r->per_producer - me->accepted, n = 1, moved;
  int64_t timeout = any_timeout(seed, r->style);
  bool was_closed = atomic_load(&r->closed);
  fq_status status = FQ_SYSTEM;
  if (r->style != SINGLES) {
    n = 1 + random_below(seed, left < BULK ? left : BULK);
  }
  for (size_t i = 0; i < n; i++) {
    item_make(items + i * size, size, tag_make(me->index, me->accepted + i));
  }
  if (n > 1 || random_below(seed, 2) == 0) {
    moved = r->face->push_n(&r->chan, items, n, timeout, &status);
  } else {
    status = r->face->push(&r->chan, items, timeout);
    moved = status == FQ_OK ? 1 : 0;
  }
  CHECK(moved <= n && (moved == n) == (status == FQ_OK));
  CHECK(status == FQ_OK || (r->closes && status == FQ_CLOSED) ||
        (timeout > 0 && status == FQ_TIMEOUT) || (timeout == 0 && status == FQ_FULL));
  CHECK(!was_closed || (status == FQ_CLOSED && moved == 0));
  for (size_t i = 0; i < moved; i++) {
    atomic_fetch_add(&r->sum_in, item_number_of(tag_make(me->index, me->accepted + i), size));
  }
  me->accepted += moved;
  return me->accepted < r->per_producer && status != FQ_CLOSED;
}

static void *produce(void *arg) {
  struct producer *me = (struct producer *)arg;
  uint64_t seed = me->index * 7919 + me->run->close_after;
  while (produce_some(me, &seed)) {
    atomic_fetch_add(&me->run->calls, 1);
  }
  atomic_fetch_add(&me->run->producers_done, 1);
  return NULL;
}

static void consume_item(struct consumer *me, const unsigned char *item) {
  struct run *r = me->run;
  uint64_t tag;
  CHECK(item_read(item, r->face->size, &tag));
  atomic_fetch_add(&r->delivered, 1);
  atomic_fetch_add(&r->sum_out, tag);
  if (!run_has_tags(r)) {
    return;
  }
  size_t producer = (size_t)(tag >> 32);
  uint64_t number = tag & UINT32_MAX;
  if (CHECK(producer < r->side && number < r->per_producer)) {
    CHECK(atomic_exchange(&r->seen[producer][number], 1) == 0);
    CHECK(number >= me->next[producer]);
    me->next[producer] = number + 1;
  }
}

/* One pop of some kind; returns whether the channel has not come to its end. */
static bool consume_some(struct consumer *me, uint64_t *seed) {
  static const size_t mins[] = {0, 1, 1, 3, 10};
  struct run *r = me->run;
  _Alignas(16) unsigned char items[2 * BULK * ITEM_SIZE_MAX];
  int64_t timeout = any_timeout(seed, r->style);
  size_t min = 1, max = 1, moved;
  fq_status status = FQ_SYSTEM;
  if (r->style != SINGLES) {
    min = mins[random_below(seed, COUNT_OF(mins))];
    min = r->limit != 0 && min > r->limit ? r->limit : min;
    max = min + random_below(seed, BULK);
    max = max > 0 ? max : 1;
  }
  if (max > 1 || min == 0 || random_below(seed, 2) == 0) {
    moved = r->face->pop_n(&r->chan, items, min, max, timeout, &status);
  } else {
    status = r->face->pop(&r->chan, items, timeout);
    moved = status == FQ_OK ? 1 : 0;
  }
  CHECK(moved <= max);
  CHECK((status == FQ_OK && moved >= min) || (moved < min && timeout > 0 && status == FQ_TIMEOUT) ||
        (moved < min && timeout == 0 && status == FQ_EMPTY) ||
        ((moved < min || moved == 0) && status == FQ_CLOSED));
  for (size_t i = 0; i < moved; i++) {
    consume_item(me, items + i * r->face->size);
  }
  if (moved == 0) {
    sched_yield();
  }
  return status != FQ_CLOSED;
}

/* In a run that closes, some leave with the close and leave items behind. */
static void *consume(void *arg) {
  struct consumer *me = (struct consumer *)arg;
  uint64_t seed = me->index * 104729 + me->run->close_after;
  bool leaves = me->run->closes && me->index % 2 == 0;
  while (consume_some(me, &seed) && !(leaves && me->run->face->closed(&me->run->chan))) {
    atomic_fetch_add(&me->run->calls, 1);
  }
  return NULL;
}

static void *close_in_the_middle(void *arg) {
  struct run *r = (struct run *)arg;
  UNTIL(atomic_load(&r->calls) >= r->close_after || atomic_load(&r->producers_done) == r->side);
  if (r->close_after % 2 == 0) {
    r->face->close(&r->chan);
  } else {
    r->face->fail(&r->chan, 5);
  }
  atomic_store(&r->closed, true);
  return NULL;
}

static void run_check(struct run *r, const struct producer *producers) {
  size_t accepted = 0, wrong = 0;
  for (size_t p = 0; p < r->side; p++) {
    accepted += producers[p].accepted;
    CHECK(r->closes || producers[p].accepted == r->per_producer);
    for (size_t i = 0; run_has_tags(r) && i < r->per_producer; i++) {
      bool seen = atomic_load(&r->seen[p][i]) != 0;
      wrong += seen != (i < producers[p].accepted) ? 1 : 0;
    }
  }
  CHECK(wrong == 0);
  CHECK(atomic_load(&r->delivered) == accepted);
  CHECK(atomic_load(&r->sum_in) == atomic_load(&r->sum_out));
  CHECK(r->face->count(&r->chan) == 0);
}

static void run_all(struct run *r) {
  struct producer producers[MAX_SIDE];
  struct consumer consumers[MAX_SIDE + 1];
  struct crew sources = {0}, sinks = {0};
  if (!CHECK(r->face->init(&r->chan, r->limit) == FQ_OK)) {
    return;
  }
  for (size_t i = 0; i <= r->side; i++) {
    consumers[i] = (struct consumer){.run = r, .index = i};
  }
  for (size_t i = 0; i < r->side; i++) {
    producers[i] = (struct producer){.run = r, .index = i};
    crew_add(&sinks, consume, &consumers[i]);
    crew_add(&sources, produce, &producers[i]);
  }
  if (r->closes) {
    crew_add(&sources, close_in_the_middle, r);
  }
  crew_join(&sources);
  r->face->close(&r->chan);
  crew_join(&sinks);
  consume(&consumers[r->side]); /* what is left */
  run_check(r, producers);
  r->face->destroy(&r->chan);
}

/* Every size, limit and way to call; a bound that makes threads wait makes them slow, too. */
static void many_to_many(enum style style) {
  static const size_t limits[] = {1, 2, 7, 1024, 0};
  for (size_t f = 0; f < FACES; f++) {
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
      bool waits = limits[i] != 0 && limits[i] < 100;
      struct run r = {.face = faces[f],
                      .style = style,
                      .limit = limits[i],
                      .side = MAX_SIDE,
                      .per_producer = ROUNDS(waits ? 1000 : 5000)};
      run_all(&r);
    }
  }
}

static void singles(void) { many_to_many(SINGLES); }

static void bulks(void) { many_to_many(BULKS); }

static void timed(void) { many_to_many(TIMED); }

/* After k calls of producers and consumers together, for each k, in each style and limit. */
static void close_at_every_moment(void) {
  static const size_t limits[] = {1, 2, 7, 0};
  for (size_t k = 0; k < 360; k++) {
    struct run r = {.face = &chan24_face,
                    .style = (enum style)(k % STYLES),
                    .limit = limits[k / STYLES % COUNT_OF(limits)],
                    .side = 3,
                    .per_producer = 2000,
                    .closes = true,
                    .close_after = k};
    run_all(&r);
  }
}

/* -- Limits that change under way -------------------------------------------------------------- */

struct changing {
  numbers chan;
  atomic_bool over;
  uint64_t sum;
};

static void *change_limits(void *arg) {
  struct changing *x = (struct changing *)arg;
  uint64_t seed = 1;
  while (!atomic_load(&x->over)) {
    CHECK(numbers_set_limit(&x->chan, random_below(&seed, 6)) == FQ_OK);
    sched_yield();
  }
  return NULL;
}

static void *sum_up(void *arg) {
  struct changing *x = (struct changing *)arg;
  uint64_t items[4], expected = 1;
  fq_status status;
  do {
    size_t n = numbers_pop_n(&x->chan, items, 1 + expected % 3, 4, FQ_FOREVER, &status);
    CHECK(status == FQ_OK || status == FQ_CLOSED || (status == FQ_INVALID && n == 0));
    for (size_t i = 0; i < n; i++) {
      CHECK(items[i] == expected);
      expected++;
      x->sum += items[i];
    }
  } while (status != FQ_CLOSED);
  return NULL;
}

/* One producer and one consumer keep their order however often the limit changes. A min above the
 * limit of the moment is refused, and tried again with the next item. */
static void set_limit_under_way(void) {
  struct changing x = {.sum = 0};
  struct crew changer = {0}, reader = {0};
  const uint64_t last = ROUNDS(30000);
  uint64_t items[5];
  CHECK(numbers_init(&x.chan, 1) == FQ_OK);
  crew_add(&changer, change_limits, &x);
  crew_add(&reader, sum_up, &x);
  for (uint64_t next = 1; next <= last;) {
    size_t n = next % 5 + 1;
    for (size_t i = 0; i < n; i++) {
      items[i] = next + i;
    }
    n = next + n <= last + 1 ? n : (size_t)(last + 1 - next);
    CHECK(numbers_push_n(&x.chan, items, n, FQ_FOREVER, NULL) == n);
    next += n;
  }
  atomic_store(&x.over, true);
  crew_join(&changer);
  CHECK(numbers_set_limit(&x.chan, 0) == FQ_OK); /* no min is above it */
  numbers_close(&x.chan);
  crew_join(&reader);
  CHECK(x.sum == last * (last + 1) / 2);
  numbers_destroy(&x.chan);
}

/* -- notify ------------------------------------------------------------------------------------ */

/* An event loop: it sleeps on a pipe, and only what notify writes wakes it. */
struct loop {
  numbers chan;
  int pipe[2];
  atomic_size_t read;
  uint64_t sum;
};

static void write_pipe(void *ctx) {
  struct loop *l = (struct loop *)ctx;
  CHECK(write(l->pipe[1], "x", 1) == 1);
}

static void *loop_main(void *arg) {
  struct loop *l = (struct loop *)arg;
  fq_status status = FQ_OK;
  char byte;
  while (status != FQ_CLOSED && read(l->pipe[0], &byte, 1) == 1) {
    uint64_t item;
    while ((status = numbers_pop(&l->chan, &item, FQ_NOWAIT)) == FQ_OK) {
      l->sum += item;
      atomic_fetch_add(&l->read, 1);
    }
  }
  CHECK(status == FQ_CLOSED);
  return NULL;
}

struct loop_producer {
  struct loop *loop;
  size_t n;
};

static void *loop_produce(void *arg) {
  struct loop_producer *me = (struct loop_producer *)arg;
  for (size_t i = 1; i <= me->n; i++) {
    CHECK(numbers_push(&me->loop->chan, i, FQ_FOREVER) == FQ_OK);
  }
  return NULL;
}

/* A lost notification would leave the loop asleep for good: no later edge can follow. */
static void notify_is_never_lost(void) {
  static const size_t limits[] = {0, 1, 3};
  for (size_t i = 0; i < COUNT_OF(limits); i++) {
    struct loop l = {.sum = 0};
    struct crew reader = {0}, writers = {0};
    const uint64_t n = ROUNDS(20000);
    struct loop_producer producer = {&l, n};
    CHECK(pipe(l.pipe) == 0);
    CHECK(numbers_init(&l.chan, limits[i]) == FQ_OK);
    numbers_notify(&l.chan, write_pipe, &l);
    crew_add(&reader, loop_main, &l);
    for (int w = 0; w < 4; w++) {
      crew_add(&writers, loop_produce, &producer);
    }
    crew_join(&writers);
    UNTIL(atomic_load(&l.read) == 4 * n);
    numbers_close(&l.chan);
    crew_join(&reader);
    CHECK(l.sum == 4 * (n * (n + 1) / 2));
    numbers_destroy(&l.chan);
    close(l.pipe[0]);
    close(l.pipe[1]);
  }
}

/* Takes one item in a round, so that it is not the one who empties the channel. */
struct thief {
  struct loop *loop;
  atomic_size_t round;
};

static void *thief_main(void *arg) {
  struct thief *me = (struct thief *)arg;
  size_t round = 1;
  uint64_t item;
  while (numbers_pop(&me->loop->chan, &item, FQ_FOREVER) == FQ_OK) {
    atomic_fetch_add(&me->loop->read, 1);
    UNTIL(atomic_load(&me->round) > round);
    round = atomic_load(&me->round);
  }
  return NULL;
}

/* The loop shares the channel with a reader that waits, which takes one item of each bulk, perhaps
 * before the push has returned. The rest is for the loop, which has to be told. */
static void notify_is_not_lost_to_another_reader(void) {
  struct loop l = {.sum = 0};
  struct thief thief = {.loop = &l};
  struct crew readers = {0};
  const uint64_t items[3] = {1, 2, 3};
  uint64_t seed = 1;
  CHECK(pipe(l.pipe) == 0);
  CHECK(numbers_init(&l.chan, 8) == FQ_OK);
  numbers_notify(&l.chan, write_pipe, &l);
  crew_add(&readers, loop_main, &l);
  crew_add(&readers, thief_main, &thief);
  for (size_t round = 1; round <= ROUNDS(20000); round++) {
    atomic_store(&thief.round, round);
    for (size_t spin = random_below(&seed, 2000); spin > 0; spin--) {
      (void)atomic_load(&thief.round);
    }
    CHECK(numbers_push_n(&l.chan, items, COUNT_OF(items), FQ_FOREVER, NULL) == COUNT_OF(items));
    UNTIL(atomic_load(&l.read) == round * COUNT_OF(items));
  }
  atomic_store(&thief.round, SIZE_MAX);
  numbers_close(&l.chan);
  crew_join(&readers);
  numbers_destroy(&l.chan);
  close(l.pipe[0]);
  close(l.pipe[1]);
}

/* -- destroy ----------------------------------------------------------------------------------- */

/* Overwrites and frees: whoever comes back to the channel later finds ruins. */
static void ruin(numbers *c) {
  memset(c, 0xDD, sizeof(*c));
  free(c);
}

FQ_CHAN(requests, numbers *);

static void *answer_requests(void *arg) {
  requests *in = (requests *)arg;
  numbers *reply;
  uint64_t n = 0;
  while (requests_pop(in, &reply, FQ_FOREVER) == FQ_OK) {
    if (n++ % 2 == 0) {
      CHECK(numbers_push(reply, 42, FQ_FOREVER) == FQ_OK);
    } else {
      const uint64_t item = 42;
      CHECK(numbers_push_n(reply, &item, 1, FQ_FOREVER, NULL) == 1);
    }
  }
  return NULL;
}

/* Who has the reply may destroy the channel that brought it, even if the push has not returned. */
static void *ask(void *arg) {
  requests *out = (requests *)arg;
  for (size_t round = 0; round < ROUNDS(6000); round++) {
    numbers on_stack;
    numbers *reply = round % 2 == 0 ? &on_stack : (numbers *)malloc(sizeof(*reply));
    uint64_t item = 0;
    if (!CHECK(reply != NULL) || !CHECK(numbers_init(reply, 1) == FQ_OK)) {
      return NULL;
    }
    CHECK(requests_push(out, reply, FQ_FOREVER) == FQ_OK);
    while (round % 4 < 2 && numbers_pop(reply, &item, FQ_NOWAIT) == FQ_EMPTY) {
    }
    if (round % 4 >= 2) {
      CHECK(numbers_pop(reply, &item, FQ_FOREVER) == FQ_OK);
    }
    CHECK(item == 42);
    numbers_destroy(reply);
    if (reply == &on_stack) {
      memset(reply, 0xDD, sizeof(*reply));
    } else {
      ruin(reply);
    }
  }
  return NULL;
}

static void destroy_right_after_the_item(void) {
  requests c;
  struct crew servers = {0}, clients = {0};
  CHECK(requests_init(&c, 4) == FQ_OK);
  for (int i = 0; i < 2; i++) {
    crew_add(&servers, answer_requests, &c);
    crew_add(&clients, ask, &c);
  }
  crew_join(&clients);
  requests_close(&c);
  crew_join(&servers);
  requests_destroy(&c);
}

/* A channel on the heap with guests that wait in it; false when one of them has gone already. */
static bool invite(numbers **c, struct crew *crew, struct call *guests, size_t n, bool writes,
                   int64_t timeout) {
  size_t over = 0;
  *c = (numbers *)malloc(sizeof(**c));
  if (!CHECK(*c != NULL) || !open_with(*c, 1, writes ? 1 : 0)) {
    abort();
  }
  for (size_t i = 0; i < n; i++) {
    guests[i] = (struct call){.chan = *c, .kind = writes ? PUSH : POP, .timeout = timeout};
    crew_add(crew, call_main, &guests[i]);
  }
  while (waiting_in(*c) < n && over == 0) {
    sched_yield();
    for (size_t i = 0; i < n; i++) {
      over += atomic_load(&guests[i].over) ? 1 : 0;
    }
  }
  return over == 0;
}

static void destroy_with_threads_inside(void) {
  enum { GUESTS = 4 };
  for (size_t round = 0; round < ROUNDS(400); round++) {
    numbers *c;
    struct crew crew = {0};
    struct call guests[GUESTS];
    CHECK(invite(&c, &crew, guests, GUESTS, round % 2 == 0, FQ_FOREVER));
    numbers_destroy(c);
    ruin(c);
    crew_join(&crew);
    for (size_t i = 0; i < GUESTS; i++) {
      CHECK(guests[i].status == FQ_CLOSED);
    }
  }
}

/* Who has the first item of a push_n knows that the call is in there, and may wait or be about
 * to. */
static void destroy_with_a_push_under_way(void) {
  for (size_t round = 0; round < ROUNDS(500); round++) {
    struct crew crew = {0};
    numbers *c = (numbers *)malloc(sizeof(*c));
    uint64_t item = 9;
    if (!CHECK(c != NULL) || !open_with(c, 1 + round % 3, 0)) {
      abort();
    }
    struct call push = {.chan = c, .kind = PUSH_N, .n = CALL_ITEMS, .timeout = FQ_FOREVER};
    crew_add(&crew, call_main, &push);
    while (numbers_pop(c, &item, round % 2 == 0 ? FQ_NOWAIT : FQ_FOREVER) != FQ_OK) {
    }
    numbers_destroy(c);
    ruin(c);
    crew_join(&crew);
    CHECK(item == 0 && push.status == FQ_CLOSED && push.moved >= 1 && push.moved < CALL_ITEMS);
  }
}

/* Those whose time is just up are on their way out by themselves. */
static void destroy_when_time_is_up(void) {
  enum { GUESTS = 2 };
  const int64_t timeout = MILLISECOND;
  for (size_t round = 0; round < ROUNDS(600); round++) {
    numbers *c;
    struct crew crew = {0};
    struct call guests[GUESTS];
    int64_t moment = now_ns() + timeout + (int64_t)(round % 40) * 10 * MICROSECOND;
    if (invite(&c, &crew, guests, GUESTS, round % 2 == 0, timeout)) {
      while (now_ns() < moment) {
      }
      numbers_destroy(c);
      ruin(c);
      crew_join(&crew);
    } else { /* a guest who is late might come in after the end */
      crew_join(&crew);
      numbers_destroy(c);
      ruin(c);
    }
    for (size_t i = 0; i < GUESTS; i++) {
      CHECK(guests[i].status == FQ_CLOSED ||
            (guests[i].status == FQ_TIMEOUT && guests[i].took >= timeout));
    }
  }
}

/* -- Signals and cancellation ------------------------------------------------------------------ */

static atomic_size_t signals_taken;

static void on_signal(int number) {
  (void)number;
  atomic_fetch_add(&signals_taken, 1);
}

struct storm {
  const struct crew *victims;
  atomic_bool over;
};

static void *storm_main(void *arg) {
  struct storm *storm = (struct storm *)arg;
  while (!atomic_load(&storm->over)) {
    for (size_t i = 0; i < storm->victims->count; i++) {
      CHECK(pthread_kill(storm->victims->threads[i], SIGUSR1) == 0);
    }
    sched_yield();
  }
  return NULL;
}

/* Interrupted waits go on to their own end: the item, or the time that was given. */
static void signal_storm(void) {
  enum { TIMED_GUESTS = 4, GUESTS = 6 };
  struct sigaction action = {.sa_handler = on_signal}, before;
  sigemptyset(&action.sa_mask);
  CHECK(sigaction(SIGUSR1, &action, &before) == 0);
  atomic_store(&signals_taken, 0);
  for (size_t round = 0; round < 5; round++) {
    numbers full, empty;
    struct crew crew = {0}, weather = {0};
    struct call guests[GUESTS];
    struct storm storm = {.victims = &crew};
    uint64_t item;
    CHECK(numbers_init(&full, 1) == FQ_OK && numbers_init(&empty, 1) == FQ_OK);
    CHECK(numbers_push(&full, 1, FQ_NOWAIT) == FQ_OK);
    for (size_t i = 0; i < GUESTS; i++) {
      bool writes = i % 2 == 0;
      guests[i] = (struct call){.chan = writes ? &full : &empty, .kind = writes ? PUSH : POP};
      guests[i].timeout = i < TIMED_GUESTS ? 20 * MILLISECOND : FQ_FOREVER;
      crew_add(&crew, call_main, &guests[i]);
    }
    crew_add(&weather, storm_main, &storm);
    for (size_t i = 0; i < TIMED_GUESTS; i++) {
      UNTIL(atomic_load(&guests[i].over));
      CHECK(guests[i].status == FQ_TIMEOUT && guests[i].took >= guests[i].timeout);
    }
    UNTIL(waiting_in(&full) == 1 && waiting_in(&empty) == 1);
    CHECK(!atomic_load(&guests[4].over) && !atomic_load(&guests[5].over));
    CHECK(numbers_pop(&full, &item, FQ_NOWAIT) == FQ_OK);
    CHECK(numbers_push(&empty, 1, FQ_NOWAIT) == FQ_OK);
    UNTIL(atomic_load(&guests[4].over) && atomic_load(&guests[5].over));
    CHECK(guests[4].status == FQ_OK && guests[5].status == FQ_OK);
    atomic_store(&storm.over, true);
    crew_join(&weather);
    crew_join(&crew);
    numbers_destroy(&full);
    numbers_destroy(&empty);
  }
  CHECK(atomic_load(&signals_taken) > 0);
  CHECK(sigaction(SIGUSR1, &before, NULL) == 0);
}

struct doomed {
  numbers *chan;
  fq_status (*wait)(numbers *c, uint64_t *item);
  uint64_t item;
  fq_status status;
  atomic_bool came_back, lived_on;
};

static fq_status wait_to_push(numbers *c, uint64_t *item) {
  return numbers_push(c, *item, FQ_FOREVER);
}

static fq_status wait_to_pop(numbers *c, uint64_t *item) {
  return numbers_pop(c, item, FQ_FOREVER);
}

/* Nothing but a pointer on the stack: AddressSanitizer does not tidy up where a thread is
 * cancelled. */
static void *doomed_main(void *arg) {
  struct doomed *d = (struct doomed *)arg;
  d->status = d->wait(d->chan, &d->item);
  atomic_store(&d->came_back, true);
  pthread_testcancel();
  atomic_store(&d->lived_on, true);
  return NULL;
}

/* A wait is no cancellation point: the cancelled thread gets its item and dies at the next one. */
static void cancel_while_waiting(void) {
  for (size_t round = 0; round < ROUNDS(200); round++) {
    numbers c;
    bool writes = round % 2 == 0;
    struct doomed d = {.chan = &c, .wait = writes ? wait_to_push : wait_to_pop};
    pthread_t thread;
    void *result = NULL;
    uint64_t item = 0;
    CHECK(numbers_init(&c, 1) == FQ_OK);
    if (writes) {
      CHECK(numbers_push(&c, 1, FQ_NOWAIT) == FQ_OK);
    }
    if (!CHECK(pthread_create(&thread, NULL, doomed_main, &d) == 0)) {
      return;
    }
    UNTIL(waiting_in(&c) == 1);
    CHECK(pthread_cancel(thread) == 0);
    for (size_t spin = 0; spin < round; spin++) {
      sched_yield();
    }
    CHECK(waiting_in(&c) == 1);
    if (writes) {
      CHECK(numbers_pop(&c, &item, FQ_NOWAIT) == FQ_OK && item == 1);
    } else {
      CHECK(numbers_push(&c, 2, FQ_NOWAIT) == FQ_OK);
    }
    CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    CHECK(atomic_load(&d.came_back) && d.status == FQ_OK && !atomic_load(&d.lived_on));
    CHECK(writes || d.item == 2);
    CHECK(numbers_count(&c) == (writes ? 1 : 0) && waiting_in(&c) == 0);
    numbers_destroy(&c);
  }
}

int main(void) {
  RUN(singles);
  RUN(bulks);
  RUN(timed);
  RUN(close_at_every_moment);
  RUN(set_limit_under_way);
  RUN(notify_is_never_lost);
  RUN(notify_is_not_lost_to_another_reader);
  RUN(destroy_right_after_the_item);
  RUN(destroy_with_threads_inside);
  RUN(destroy_with_a_push_under_way);
  RUN(destroy_when_time_is_up);
  RUN(signal_storm);
  RUN(cancel_while_waiting);
  return test_end();
}
