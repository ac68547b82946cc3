/* interleave.c: short channel and pool programs under the scheduler of sched.h.
 *
 *   interleave [-v]                every program: all schedules up to a number of preemptions, then
 *                                  random ones; FASTQ_SEEDS is how many of these in all (100,000)
 *   interleave [-v] NAME           one program
 *   interleave NAME SEED           one schedule again, step by step; as a failure prints it
 *   interleave NAME @LIST
 *   -pN   up to N preemptions (3; 14 at most)
 *   -x    walk on from states that were met before, too: slow, and shows that this finds no more
 *
 * Plain builds with glibc only: sanitizers do not go with coroutines, musl has no makecontext. */

/* What a compiler for this test must have, asked before any header. The checked longjmp of
 * _FORTIFY_SOURCE refuses to change stacks. */
#undef _FORTIFY_SOURCE
#define _XOPEN_SOURCE 700
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define UNFIT "coroutines do not go with sanitizers"
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNFIT "coroutines do not go with sanitizers"
#endif
#if defined(__has_include)
#if !__has_include(<gnu/libc-version.h>)
#define UNFIT "made for glibc"
#endif
#endif

#ifdef UNFIT
#include "test.h"

static void interleave(void) { SKIP(UNFIT); }

int main(void) {
  RUN(interleave);
  return test_end();
}

#else

#define FQI_PLATFORM_HEADER "tests/sched.h"
#define FQI_PATIENCE        0 /* a second look before sleeping is only more of the same */
#define FASTQ_INDEX_ORIGIN  ((size_t)-2) /* the counts wrap within the programs */
#define FASTQ_MALLOC(n)     sched_alloc(n)
#define FASTQ_FREE(p)       sched_free(p)
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"
#include "test.h"
#include <time.h>

enum { MOST = 16, ERROR_CODE = 7, TASKS = 8 };

FQ_CHAN(chan, int);
FQ_POOL(pool, int);

/* An item is producer * 100 + number. Each thread writes only its own lists. */
typedef struct item_list {
  int items[MOST];
  size_t count;
} item_list;

static struct {
  chan c;
  item_list accepted[SCHED_THREADS], received[SCHED_THREADS];
  int numbers[SCHED_THREADS];
  size_t closed;                  /* set when close has returned */
  size_t destroyers;              /* threads that will destroy the channel while others are in it */
  bool saw_end, front, timed_out; /* a reader was told FQ_CLOSED; push_front was used */

  fqi_lock bell_lock; /* what an eventfd is to an event loop */
  fqi_cond bell_cond;
  bool bell_rung;
  size_t notices;

  chan replies[SCHED_THREADS];

  pool p;
  int started[TASKS], done[TASKS], errors[TASKS];
} world;

/* --- What the threads of the programs do: calls that are checked and written down --- */

static bool with_faults(void) { return sched.program->faults > 0; }

/* True for a call that begins after close has returned. */
static bool is_late(void) { return sched_look(&world.closed) != 0; }

static size_t signals_sent(void) { return sched.threads[sched.self].signals; }

/* A call that moved n items wakes at most n, and a thread in destroy. */
static void check_signals(size_t before, size_t n) {
  EXPECT(signals_sent() - before <= n + world.destroyers);
}

/* A timeout without a tick means that nobody could run: then somebody was left asleep. */
static void check_status(fq_status status) {
  EXPECT(status != FQ_SYSTEM || with_faults());
  EXPECT(status != FQ_NOMEM || with_faults());
  EXPECT(status != FQ_INVALID && status != FQ_DEADLOCK);
  EXPECT(status != FQ_TIMEOUT || sched.ticked || world.timed_out);
}

static void list_add(item_list *list, const int *items, size_t n) {
  EXPECT(n <= MOST - list->count);
  memcpy(list->items + list->count, items, n * sizeof(*items));
  list->count += n;
}

static int next_item(void) { return sched.self * 100 + ++world.numbers[sched.self]; }

static fq_status put_item(int64_t timeout, bool front) {
  bool late = is_late();
  size_t signals = signals_sent();
  int item = next_item();
  fq_status status =
      front ? chan_push_front(&world.c, item, timeout) : chan_push(&world.c, item, timeout);
  sched_note("pushed %d: %s", item, fq_status_name(status));
  check_status(status);
  check_signals(signals, status == FQ_OK);
  if (status == FQ_OK) {
    EXPECT(!late);
    list_add(&world.accepted[sched.self], &item, 1);
  }
  return status;
}

static fq_status put(int64_t timeout) { return put_item(timeout, false); }

static fq_status put_n(size_t n, int64_t timeout) {
  int items[MOST];
  bool late = is_late();
  size_t signals = signals_sent();
  fq_status status;
  for (size_t i = 0; i < n; i++) {
    items[i] = next_item();
  }
  size_t moved = chan_push_n(&world.c, items, n, timeout, &status);
  sched_note("pushed %zu of %zu from %d: %s", moved, n, items[0], fq_status_name(status));
  check_status(status);
  EXPECT(moved <= n && (moved == n) == (status == FQ_OK));
  check_signals(signals, moved);
  EXPECT(!late || moved == 0);
  list_add(&world.accepted[sched.self], items, moved);
  return status;
}

static fq_status get(int64_t timeout) {
  bool late = is_late();
  size_t signals = signals_sent();
  int item = 0;
  fq_status status = chan_pop(&world.c, &item, timeout);
  sched_note("popped %d: %s", item, fq_status_name(status));
  check_status(status);
  check_signals(signals, status == FQ_OK);
  EXPECT(!late || status == FQ_OK || status == FQ_CLOSED);
  if (status == FQ_OK) {
    list_add(&world.received[sched.self], &item, 1);
  }
  world.saw_end = world.saw_end || status == FQ_CLOSED;
  return status;
}

static size_t get_n(size_t min, size_t max, int64_t timeout, fq_status *status) {
  int items[MOST] = {0};
  size_t signals = signals_sent();
  size_t n = chan_pop_n(&world.c, items, min, max, timeout, status);
  sched_note("popped %zu (%zu to %zu) from %d: %s", n, min, max, items[0], fq_status_name(*status));
  if (*status != FQ_INVALID) { /* after set_limit */
    check_status(*status);
  }
  EXPECT(n <= max && (n >= min) == (*status == FQ_OK));
  check_signals(signals, n);
  list_add(&world.received[sched.self], items, n);
  world.saw_end = world.saw_end || *status == FQ_CLOSED;
  return n;
}

static void close_channel(int error) {
  if (error != 0) {
    chan_fail(&world.c, error);
  } else {
    chan_close(&world.c);
  }
  sched_note("closed");
  fqi_store(&world.closed, 1);
}

/* --- Thread bodies --- */

static void push_1(void) { put(FQ_FOREVER); }

static void push_2(void) {
  put(FQ_FOREVER);
  put(FQ_FOREVER);
}

static void push_front_2(void) {
  put_item(FQ_FOREVER, true);
  put_item(FQ_FOREVER, true);
}

static void push_bulk_2(void) { put_n(2, FQ_FOREVER); }

static void push_bulk_3(void) { put_n(3, FQ_FOREVER); }

static void push_1_timed(void) { put(SCHED_TICK); }

static void push_2_timed(void) {
  put(SCHED_TICK);
  put(SCHED_TICK);
}

static void push_bulk_3_timed(void) { put_n(3, SCHED_TICK); }

static void push_3_and_close(void) {
  put(FQ_FOREVER);
  put_n(2, FQ_FOREVER);
  close_channel(0);
}

static void pop_1(void) { get(FQ_FOREVER); }

static void pop_2(void) {
  get(FQ_FOREVER);
  get(FQ_FOREVER);
}

static void pop_4(void) {
  pop_2();
  pop_2();
}

static void pop_1_timed(void) { get(SCHED_TICK); }

static void pop_2_timed(void) {
  get(SCHED_TICK);
  get(SCHED_TICK);
}

static void pop_bulk(size_t min, size_t max, int64_t timeout) {
  fq_status status;
  (void)get_n(min, max, timeout, &status);
}

static void pop_pair(void) { pop_bulk(2, 2, FQ_FOREVER); }

static void pop_pair_timed(void) { pop_bulk(2, 3, SCHED_TICK); }

static void pop_portions_of_3(void) {
  fq_status status;
  for (size_t left = 3; left > 0;) {
    left -= get_n(1, left, FQ_FOREVER, &status);
  }
}

static void drain(void) {
  while (get(FQ_FOREVER) != FQ_CLOSED) {
  }
}

static void drain_pairs(void) {
  fq_status status;
  do {
    (void)get_n(2, 3, FQ_FOREVER, &status);
  } while (status != FQ_CLOSED);
}

/* With refusals a wait may be impossible; try again. */
static void drain_failed(void) {
  drain();
  EXPECT(chan_error(&world.c) == ERROR_CODE);
}

static void stream(void) {
  fq_iter it = FQ_ITER(.first_timeout_ns = SCHED_TICK, .between_timeout_ns = SCHED_TICK);
  int item;
  while (chan_next(&world.c, &it, &item)) {
    sched_note("read %d", item);
    list_add(&world.received[sched.self], &item, 1);
  }
  sched_note("the stream ends: %s", fq_status_name(it.status));
  check_status(it.status);
  EXPECT(it.count == world.received[sched.self].count);
  EXPECT(it.status == FQ_CLOSED || it.status == FQ_TIMEOUT);
  world.saw_end = world.saw_end || it.status == FQ_CLOSED;
}

/* What close leaves is final: it can only be read, and one thread alone reads exactly that. */
static void close_and_drain(void) {
  close_channel(0);
  size_t count = chan_count(&world.c);
  drain();
  EXPECT(world.received[sched.self].count == count);
}

static void close_it(void) { close_channel(0); }

static void fail_it(void) { close_channel(ERROR_CODE); }

static void raise_limit(void) { EXPECT(chan_set_limit(&world.c, 4) == FQ_OK); }

static void lower_limit(void) { EXPECT(chan_set_limit(&world.c, 1) == FQ_OK); }

/* --- An event loop --- */

/* The bell's signals are not the channel's. */
static void ring_bell(void *ctx) {
  (void)ctx;
  fqi_lock_acquire(&world.bell_lock);
  world.bell_rung = true;
  world.notices++;
  fqi_cond_signal(&world.bell_cond);
  fqi_lock_release(&world.bell_lock);
  sched.signals--;
  sched.threads[sched.self].signals--;
}

static void wait_for_bell(void) {
  fqi_lock_acquire(&world.bell_lock);
  while (!world.bell_rung) {
    fqi_cond_wait(&world.bell_cond, &world.bell_lock, INT64_MAX);
  }
  world.bell_rung = false;
  fqi_lock_release(&world.bell_lock);
}

static void event_loop(size_t items) {
  chan_notify(&world.c, ring_bell, NULL);
  while (world.received[sched.self].count < items) {
    fq_status status = get(FQ_NOWAIT);
    if (status == FQ_CLOSED) {
      return;
    }
    if (status == FQ_EMPTY) {
      wait_for_bell();
    }
  }
}

static void event_loop_2(void) { event_loop(2); }

static void event_loop_3(void) { event_loop(3); }

static void event_loop_drain(void) { event_loop(MOST); }

/* --- Destroy --- */

/* Who was sent the last item may destroy the channel, whatever the sender still does. */
static void client(int answers) {
  chan *reply = &world.replies[sched.self];
  EXPECT(chan_init(reply, 1) == FQ_OK);
  EXPECT(chan_push(&world.c, sched.self, FQ_FOREVER) == FQ_OK);
  for (int i = 0; i < answers; i++) {
    int answer = 0;
    EXPECT(chan_pop(reply, &answer, FQ_FOREVER) == FQ_OK);
    EXPECT(answer == sched.self);
  }
  chan_destroy(reply);
  sched_forbid(reply, sizeof(*reply));
}

static void server(int requests, int answers) {
  for (int i = 0; i < requests; i++) {
    int who = 0;
    EXPECT(chan_pop(&world.c, &who, FQ_FOREVER) == FQ_OK);
    for (int k = 0; k < answers; k++) {
      EXPECT(chan_push(&world.replies[who], who, FQ_FOREVER) == FQ_OK);
    }
  }
}

static void client_1(void) { client(1); }

static void client_2(void) { client(2); }

static void server_1_2(void) { server(1, 2); }

static void server_2_1(void) { server(2, 1); }

/* Two servers, each with one of the two answers that the client waits for. */
static void answer_client(void) {
  int who = 0;
  EXPECT(chan_pop(&world.c, &who, FQ_FOREVER) == FQ_OK);
  EXPECT(chan_push(&world.replies[who], who, FQ_FOREVER) == FQ_OK);
}

static void client_of_two(void) {
  chan *reply = &world.replies[sched.self];
  int requests[2] = {sched.self, sched.self};
  EXPECT(chan_init(reply, 1) == FQ_OK);
  EXPECT(chan_push_n(&world.c, requests, 2, FQ_FOREVER, NULL) == 2);
  for (int i = 0; i < 2; i++) {
    int answer = 0;
    EXPECT(chan_pop(reply, &answer, FQ_FOREVER) == FQ_OK);
  }
  chan_destroy(reply);
  sched_forbid(reply, sizeof(*reply));
}

/* Threads that are in their only call, or have left it, when the channel is destroyed. */
static void pop_to_the_end(void) {
  fq_status status = get(FQ_FOREVER);
  EXPECT(status == FQ_CLOSED);
}

static void pop_timed_to_the_end(void) {
  fq_status status = get(SCHED_TICK);
  EXPECT(status == FQ_CLOSED || status == FQ_TIMEOUT);
}

static void push_to_the_end(void) {
  fq_status status = put(FQ_FOREVER);
  EXPECT(status == FQ_CLOSED);
}

static void push_timed_to_the_end(void) {
  fq_status status = put(SCHED_TICK);
  EXPECT(status == FQ_CLOSED || status == FQ_TIMEOUT);
}

/* Returns when that thread has come into its only call, so far that it had a lock. */
static void until_inside(int thread) {
  while (sched_acquired(thread) == 0) {
    fqi_pause();
  }
}

static void destroy_it(void) {
  until_inside(1);
  until_inside(2);
  chan_destroy(&world.c);
  sched_forbid(&world.c, sizeof(world.c));
}

static void close_and_destroy(void) {
  until_inside(1);
  until_inside(2);
  chan_close(&world.c);
  chan_destroy(&world.c);
  sched_forbid(&world.c, sizeof(world.c));
}

/* --- Before and after --- */

static void set_up(void) {
  int faults = sched.faults;
  memset(&world, 0, sizeof(world));
  sched.faults = 0;
  EXPECT(chan_init(&world.c, sched.program->limit) == FQ_OK);
  sched.faults = faults;
}

static void set_up_destroy(void) {
  set_up();
  world.destroyers = 1;
}

static void set_up_destroy_full(void) {
  set_up_destroy();
  put_n(sched.program->limit, FQ_NOWAIT);
}

static void set_up_front(void) {
  set_up();
  world.front = true;
}

/* Looks once more before it sleeps. */
static void set_up_patient(void) {
  set_up();
  world.c.chan.push.patience = 1;
  world.c.chan.pop.patience = 1;
}

/* Somebody will wait in vain. */
static void set_up_short(void) {
  set_up();
  world.timed_out = true;
}

static void set_up_bell(void) {
  set_up();
  EXPECT(fqi_lock_init(&world.bell_lock) == 0 && fqi_cond_init(&world.bell_cond) == 0);
}

/* The numbers of each producer's items as bits; none comes twice. */
static void collect(const item_list lists[SCHED_THREADS], unsigned numbers[SCHED_THREADS]) {
  for (int i = 0; i < SCHED_THREADS; i++) {
    for (size_t k = 0; k < lists[i].count; k++) {
      int producer = lists[i].items[k] / 100;
      unsigned bit = 1u << lists[i].items[k] % 100;
      EXPECT(producer >= 0 && producer < SCHED_THREADS);
      EXPECT((numbers[producer] & bit) == 0);
      numbers[producer] |= bit;
    }
  }
}

/* Each reader gets each producer's items in their order. */
static void check_order(void) {
  for (int i = 0; i < SCHED_THREADS; i++) {
    int last[SCHED_THREADS] = {0};
    for (size_t k = 0; k < world.received[i].count; k++) {
      int item = world.received[i].items[k];
      EXPECT(last[item / 100] < item);
      last[item / 100] = item;
    }
  }
}

static void check(void) {
  unsigned accepted[SCHED_THREADS] = {0}, received[SCHED_THREADS] = {0};
  size_t writers, readers;
  int item;
  while (chan_pop(&world.c, &item, FQ_NOWAIT) == FQ_OK) {
    EXPECT(!world.saw_end); /* closed and empty is final */
    list_add(&world.received[0], &item, 1);
  }
  chan_waiting(&world.c, &writers, &readers);
  EXPECT(writers == 0 && readers == 0);
  collect(world.accepted, accepted);
  collect(world.received, received);
  EXPECT(memcmp(accepted, received, sizeof(accepted)) == 0);
  if (!world.front) {
    check_order();
  }
  chan_destroy(&world.c);
  EXPECT(sched.signals + 2 <= (size_t)sched.numbers[SCHED_COND]); /* two are the channel's own */
}

static void check_bell(void) {
  size_t accepted = 0;
  for (int i = 0; i < SCHED_THREADS; i++) {
    accepted += world.accepted[i].count;
  }
  EXPECT(world.notices <= accepted + world.closed);
  check();
  fqi_cond_destroy(&world.bell_cond);
  fqi_lock_destroy(&world.bell_lock);
}

static void check_replies(void) { chan_destroy(&world.c); }

/* Each of the two other threads was woken, or told the destroyer that it left. */
static void check_destroyed(void) { EXPECT(sched.signals <= 2); }

/* --- Pool programs --- */

static int work(void *task, void *ctx) {
  int number = *(int *)task;
  (void)ctx;
  EXPECT(number >= 0 && number < TASKS);
  world.started[number]++;
  sched_pass();
  return 0;
}

static void done(void *task, int error, void *ctx) {
  int number = *(int *)task;
  (void)ctx;
  sched_pass();
  EXPECT(error == (world.started[number] == 1 ? 0 : FQ_CANCELED));
  EXPECT(world.done[number] == 0);
  world.done[number]++;
}

static void check_done(int from, int to) {
  for (int i = from; i < to; i++) {
    EXPECT(world.done[i] == 1);
  }
}

static void set_up_nothing(void) { memset(&world, 0, sizeof(world)); }

static void check_nothing(void) {}

static fq_status open_pool(size_t threads, size_t limit, size_t batch) {
  fq_config config = {
      .worker = work, .done = done, .threads = threads, .limit = limit, .batch = batch};
  return pool_init(&world.p, &config);
}

static void submit(int from, int to) {
  for (int i = from; i < to; i++) {
    EXPECT(pool_push(&world.p, i, FQ_FOREVER) == FQ_OK);
  }
}

static void close_pool(fq_how how) {
  EXPECT(pool_destroy(&world.p, how) == FQ_OK);
  sched_forbid(&world.p, sizeof(world.p));
}

static void pool_drain(void) {
  EXPECT(open_pool(2, 0, 1) == FQ_OK);
  submit(0, 3);
  close_pool(FQ_DRAIN);
  check_done(0, 3);
  EXPECT(world.started[0] + world.started[1] + world.started[2] == 3);
}

static void pool_cancel(void) {
  EXPECT(open_pool(2, 0, 1) == FQ_OK);
  submit(0, 3);
  close_pool(FQ_CANCEL);
  check_done(0, 3);
}

static void pool_limited(void) {
  EXPECT(open_pool(2, 1, 2) == FQ_OK);
  submit(0, 3);
  close_pool(FQ_DRAIN);
  check_done(0, 3);
}

static void pool_waits(void) {
  EXPECT(open_pool(2, 0, 1) == FQ_OK);
  submit(0, 2);
  EXPECT(pool_wait(&world.p, FQ_FOREVER) == FQ_OK);
  check_done(0, 2);
  submit(2, 3);
  EXPECT(pool_wait(&world.p, FQ_FOREVER) == FQ_OK);
  check_done(2, 3);
  close_pool(FQ_DRAIN);
}

static void pool_waits_timed(void) {
  EXPECT(open_pool(1, 0, 1) == FQ_OK);
  submit(0, 2);
  fq_status status = pool_wait(&world.p, SCHED_TICK);
  EXPECT(status == FQ_OK || (status == FQ_TIMEOUT && sched.ticked));
  if (status == FQ_OK) {
    check_done(0, 2);
  }
  close_pool(FQ_CANCEL);
  check_done(0, 2);
}

static void pool_refused(void) {
  fq_status status = open_pool(2, 1, 1);
  if (status == FQ_OK) {
    int accepted = 0;
    while (accepted < 2 && (status = pool_push(&world.p, accepted, FQ_FOREVER)) == FQ_OK) {
      accepted++;
    }
    EXPECT(status == FQ_OK || status == FQ_SYSTEM);
    close_pool(FQ_DRAIN);
    check_done(0, accepted);
  } else {
    EXPECT(status == FQ_SYSTEM || status == FQ_NOMEM);
    EXPECT(pool_destroy(&world.p, FQ_DRAIN) == FQ_OK);
  }
}

/* A task that pushes another; who waits for the pool waits for that too. */
static int work_and_push(void *task, void *ctx) {
  int number = *(int *)task;
  int error = work(task, ctx);
  if (number < 2) {
    EXPECT(pool_wait(&world.p, FQ_FOREVER) == FQ_DEADLOCK);
    submit(number + 2, number + 3);
  }
  return error;
}

static void pool_nested(void) {
  fq_config config = {.worker = work_and_push, .done = done, .threads = 2};
  EXPECT(pool_init(&world.p, &config) == FQ_OK);
  submit(0, 2);
  EXPECT(pool_wait(&world.p, FQ_FOREVER) == FQ_OK);
  check_done(0, 4);
  close_pool(FQ_CANCEL);
}

/* Threads in a push or in a wait while the pool is destroyed. */
static void set_up_pool(void) {
  set_up_nothing();
  EXPECT(open_pool(1, 1, 1) == FQ_OK);
  submit(0, 1);
}

static void submit_own(void) {
  int task = sched.self;
  fq_status status = pool_push(&world.p, task, FQ_FOREVER);
  EXPECT(status == FQ_OK || status == FQ_CLOSED);
  if (status == FQ_OK) {
    world.numbers[task] = 1;
  }
}

static void wait_idle(void) { EXPECT(pool_wait(&world.p, FQ_FOREVER) == FQ_OK); }

static void wait_idle_timed(void) {
  fq_status status = pool_wait(&world.p, SCHED_TICK);
  EXPECT(status == FQ_OK || (status == FQ_TIMEOUT && sched.ticked));
}

static void destroy_pool_drain(void) {
  until_inside(2); /* the worker is 1 */
  close_pool(FQ_DRAIN);
  check_done(0, 1);
}

static void destroy_pool_cancel(void) {
  until_inside(2); /* the worker is 1 */
  close_pool(FQ_CANCEL);
  check_done(0, 1);
}

/* Every accepted task met done, and no other. */
static void check_submitted(void) {
  for (int i = 1; i < TASKS; i++) {
    EXPECT(world.done[i] == world.numbers[i]);
  }
}

/* --- The programs --- */

#define T(fn) SCHED_BODY(fn)
#define PROGRAM(name_, before, after, limit_, ...)                                                 \
  { .name = name_, .setup = before, .check = after, .limit = limit_, __VA_ARGS__ }

static const sched_program programs[] = {
    /* 2 producers, 2 consumers */
    PROGRAM("singles-1", set_up, check, 1, .threads = {T(push_2), T(push_1), T(pop_2), T(pop_1)}),
    PROGRAM("singles-2", set_up, check, 2, .threads = {T(push_2), T(push_1), T(pop_2), T(pop_1)}),
    PROGRAM("singles-unbounded", set_up, check, 0,
            .threads = {T(push_2), T(push_1), T(pop_2), T(pop_1)}),
    PROGRAM("one-reader-1", set_up, check, 1, .threads = {T(push_2), T(push_2), T(pop_4)}),
    PROGRAM("one-reader-2", set_up, check, 2, .threads = {T(push_2), T(push_2), T(pop_4)}),
    PROGRAM("spurious-1", set_up, check, 1, .spurious = 1,
            .threads = {T(push_2), T(pop_1), T(pop_1)}),
    PROGRAM("patient-1", set_up_patient, check, 1, .threads = {T(push_2), T(pop_1), T(pop_1)}),
    PROGRAM("front-2", set_up_front, check, 2,
            .threads = {T(push_front_2), T(push_1), T(pop_2), T(pop_1)}),

    /* bulk */
    PROGRAM("bulk-1", set_up, check, 1, .threads = {T(push_bulk_2), T(push_1), T(pop_2), T(pop_1)}),
    PROGRAM(
        "bulk-2", set_up, check, 2,
        .threads = {T(push_bulk_3), T(push_bulk_3), T(pop_portions_of_3), T(pop_portions_of_3)}),
    PROGRAM("min-2", set_up, check, 2, .threads = {T(push_2), T(push_1), T(pop_pair), T(pop_1)}),
    PROGRAM("min-2-pairs", set_up, check, 2,
            .threads = {T(push_2), T(push_2), T(pop_pair), T(pop_pair)}),
    PROGRAM("min-unbounded", set_up, check, 0,
            .threads = {T(push_2), T(push_1), T(pop_pair), T(pop_1)}),
    PROGRAM("min-close", set_up, check, 2,
            .threads = {T(push_3_and_close), T(drain_pairs), T(drain)}),

    /* close and fail at each step */
    PROGRAM("close-1", set_up, check, 1, .threads = {T(push_2), T(push_1), T(drain), T(close_it)}),
    PROGRAM("close-2-readers", set_up, check, 1,
            .threads = {T(push_2), T(drain), T(drain), T(close_it)}),
    PROGRAM("close-unbounded", set_up, check, 0,
            .threads = {T(push_2), T(push_1), T(drain), T(close_it)}),
    PROGRAM("close-bulk", set_up, check, 2,
            .threads = {T(push_bulk_3), T(push_1), T(drain_pairs), T(close_it)}),
    PROGRAM("close-and-drain", set_up, check, 1,
            .threads = {T(push_2), T(push_bulk_2), T(close_and_drain)}),
    PROGRAM("fail-1", set_up, check, 1,
            .threads = {T(push_1), T(drain_failed), T(drain_failed), T(fail_it)}),

    /* a timeout that fires at each step */
    PROGRAM("timed-pop", set_up, check, 0, .ticks = 1,
            .threads = {T(push_1), T(push_1), T(pop_1_timed), T(pop_1)}),
    PROGRAM("timed-pops", set_up_short, check, 1, .ticks = 1,
            .threads = {T(push_2_timed), T(pop_2_timed), T(pop_1_timed)}),
    PROGRAM("timed-push", set_up, check, 1, .ticks = 1,
            .threads = {T(push_1_timed), T(push_2_timed), T(pop_2_timed)}),
    PROGRAM("timed-min", set_up_short, check, 0, .ticks = 1,
            .threads = {T(push_2), T(pop_pair_timed), T(pop_1_timed)}),
    PROGRAM("timed-bulk", set_up, check, 1, .ticks = 1,
            .threads = {T(push_bulk_3_timed), T(pop_1_timed), T(pop_1_timed)}),
    PROGRAM("timed-close", set_up, check, 1, .ticks = 1,
            .threads = {T(push_2_timed), T(pop_1_timed), T(close_it)}),
    PROGRAM("stream", set_up, check, 3, .ticks = 2, .threads = {T(push_3_and_close), T(stream)}),

    /* the limit */
    PROGRAM("raise", set_up, check, 1, .threads = {T(push_2), T(push_2), T(raise_limit)}),
    PROGRAM("raise-bulk", set_up, check, 1, .threads = {T(push_bulk_3), T(push_1), T(raise_limit)}),
    PROGRAM("lower", set_up, check, 2, .threads = {T(push_2), T(push_1), T(pop_2), T(lower_limit)}),
    PROGRAM("lower-min", set_up, check, 2, .ticks = 1,
            .threads = {T(push_1), T(pop_pair), T(lower_limit), T(pop_1_timed)}),

    /* an event loop */
    PROGRAM("notify-1", set_up_bell, check_bell, 1,
            .threads = {T(push_2), T(push_1), T(event_loop_3)}),
    PROGRAM("notify-unbounded", set_up_bell, check_bell, 0,
            .threads = {T(push_2), T(push_bulk_2), T(event_loop_3)}),
    PROGRAM("notify-readers", set_up_bell, check_bell, 3,
            .threads = {T(push_bulk_3), T(pop_1), T(event_loop_2)}),
    PROGRAM("notify-close", set_up_bell, check_bell, 1,
            .threads = {T(push_2), T(event_loop_drain), T(close_it)}),

    /* destroy */
    PROGRAM("reply", set_up, check_replies, 1,
            .threads = {T(client_1), T(client_1), T(server_2_1)}),
    PROGRAM("reply-2", set_up, check_replies, 1, .spurious = 1,
            .threads = {T(client_2), T(server_1_2)}),
    PROGRAM("reply-servers", set_up, check_replies, 1,
            .threads = {T(client_of_two), T(answer_client), T(answer_client)}),
    PROGRAM("destroy-readers", set_up_destroy, check_destroyed, 1, .ticks = 1,
            .threads = {T(pop_to_the_end), T(pop_timed_to_the_end), T(destroy_it)}),
    PROGRAM("destroy-writers", set_up_destroy_full, check_destroyed, 1, .ticks = 1,
            .threads = {T(push_to_the_end), T(push_timed_to_the_end), T(destroy_it)}),
    PROGRAM("destroy-closed", set_up_destroy, check_destroyed, 1, .ticks = 1,
            .threads = {T(pop_timed_to_the_end), T(pop_to_the_end), T(close_and_destroy)}),

    /* locks, conditions and memory that are refused */
    PROGRAM("refused-1", set_up, check, 1, .faults = 1,
            .threads = {T(push_1), T(push_1), T(drain), T(close_it)}),
    PROGRAM("refused-unbounded", set_up, check, 0, .faults = 1,
            .threads = {T(push_1), T(push_1), T(drain), T(close_it)}),

    /* pools */
    PROGRAM("pool-drain", set_up_nothing, check_nothing, 0, .threads = {T(pool_drain)}),
    PROGRAM("pool-cancel", set_up_nothing, check_nothing, 0, .threads = {T(pool_cancel)}),
    PROGRAM("pool-limit", set_up_nothing, check_nothing, 0, .threads = {T(pool_limited)}),
    PROGRAM("pool-wait", set_up_nothing, check_nothing, 0, .threads = {T(pool_waits)}),
    PROGRAM("pool-wait-timed", set_up_nothing, check_nothing, 0, .ticks = 1,
            .threads = {T(pool_waits_timed)}),
    PROGRAM("pool-nested", set_up_nothing, check_nothing, 0, .threads = {T(pool_nested)}),
    PROGRAM("pool-refused", set_up_nothing, check_nothing, 0, .faults = 1,
            .threads = {T(pool_refused)}),
    PROGRAM("pool-drain-pusher", set_up_pool, check_submitted, 0,
            .threads = {T(submit_own), T(destroy_pool_drain)}),
    PROGRAM("pool-drain-waiter", set_up_pool, check_submitted, 0,
            .threads = {T(wait_idle), T(destroy_pool_drain)}),
    PROGRAM("pool-cancel-pusher", set_up_pool, check_submitted, 0,
            .threads = {T(submit_own), T(destroy_pool_cancel)}),
    PROGRAM("pool-drain-timed", set_up_pool, check_submitted, 0, .ticks = 1,
            .threads = {T(wait_idle_timed), T(destroy_pool_drain)}),
    PROGRAM("pool-cancel-waiter", set_up_pool, check_submitted, 0,
            .threads = {T(wait_idle), T(destroy_pool_cancel)}),
};

enum { PROGRAMS = sizeof(programs) / sizeof(programs[0]) };

/* --- Running them --- */

static const sched_program *program;
static int bound = 3; /* preemptions */
static bool verbose, exact;
static uint64_t seeds, walked, drawn;

static void walk(void) {
  for (int i = 0; i <= bound; i++) {
    clock_t start = clock();
    sched_result result = sched_walk(program, i, !exact);
    walked += result.runs;
    if (verbose) {
      printf("%-20s %d preemptions: %9" PRIu64 " schedules, %9" PRIu64 " left early, %6.2f s\n",
             program->name, i, result.runs, result.cut, (double)(clock() - start) / CLOCKS_PER_SEC);
      fflush(stdout);
    }
    if (!CHECK(!result.failed)) {
      return;
    }
  }
}

static void draw(void) {
  sched_result result = sched_random(program, seeds);
  drawn += result.runs;
  CHECK(!result.failed);
}

static void run_program(const sched_program *p) {
  char name[64];
  program = p;
  snprintf(name, sizeof(name), "walk %s", p->name);
  test_run(walk, name);
  snprintf(name, sizeof(name), "seeds %s", p->name);
  test_run(draw, name);
}

int main(int argc, char **argv) {
  const char *in_all = getenv("FASTQ_SEEDS");
  const char *name = NULL, *how = NULL;
  bool found = false;
  for (int i = 1; i < argc; i++) {
    verbose = verbose || strcmp(argv[i], "-v") == 0;
    exact = exact || strcmp(argv[i], "-x") == 0;
    bound = strncmp(argv[i], "-p", 2) == 0 ? atoi(argv[i] + 2) : bound;
    if (argv[i][0] != '-') {
      how = name != NULL ? argv[i] : NULL;
      name = name != NULL ? name : argv[i];
    }
  }
  seeds = (in_all != NULL ? strtoull(in_all, NULL, 10) : 100000) / PROGRAMS + 1;
  for (int i = 0; i < PROGRAMS; i++) {
    if (name == NULL || strcmp(name, programs[i].name) == 0) {
      found = true;
      if (how != NULL) {
        return sched_replay(&programs[i], how).failed;
      }
      run_program(&programs[i]);
    }
  }
  if (!found) {
    printf("interleave: no program %s\n", name);
    return 2;
  }
  printf("interleave: %" PRIu64 " schedules walked, %" PRIu64 " drawn\n", walked, drawn);
  return test_end();
}

#endif
