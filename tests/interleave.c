/* interleave.c: short programs of threads that share a channel, under the scheduler of sched.h. How
 * they are run is in interleave.h. */
#include "interleave.h"
#ifndef UNFIT

enum { MOST = 16, ERROR_CODE = 7 };

FQ_CHAN(chan, int);

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
  memset(&world, 0, sizeof(world));
  sched_calm(true);
  EXPECT(chan_init(&world.c, sched.program->limit) == FQ_OK);
  sched_calm(false);
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
  EXPECT(sched.signals_locked == 0);
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

/* --- The programs --- */

static const sched_program programs[] = {
    /* 2 producers, 2 consumers */
    PROGRAM("singles-1", set_up, check, .limit = 1,
            .threads = {T(push_2), T(push_1), T(pop_2), T(pop_1)}),
    PROGRAM("singles-2", set_up, check, .limit = 2,
            .threads = {T(push_2), T(push_1), T(pop_2), T(pop_1)}),
    PROGRAM("singles-unbounded", set_up, check, .limit = 0,
            .threads = {T(push_2), T(push_1), T(pop_2), T(pop_1)}),
    PROGRAM("one-reader-1", set_up, check, .limit = 1, .threads = {T(push_2), T(push_2), T(pop_4)}),
    PROGRAM("one-reader-2", set_up, check, .limit = 2, .threads = {T(push_2), T(push_2), T(pop_4)}),
    PROGRAM("spurious-1", set_up, check, .limit = 1, .spurious = 1,
            .threads = {T(push_2), T(pop_1), T(pop_1)}),
    PROGRAM("patient-1", set_up_patient, check, .limit = 1,
            .threads = {T(push_2), T(pop_1), T(pop_1)}),
    PROGRAM("front-2", set_up_front, check, .limit = 2,
            .threads = {T(push_front_2), T(push_1), T(pop_2), T(pop_1)}),

    /* bulk */
    PROGRAM("bulk-1", set_up, check, .limit = 1,
            .threads = {T(push_bulk_2), T(push_1), T(pop_2), T(pop_1)}),
    PROGRAM(
        "bulk-2", set_up, check, .limit = 2,
        .threads = {T(push_bulk_3), T(push_bulk_3), T(pop_portions_of_3), T(pop_portions_of_3)}),
    PROGRAM("min-2", set_up, check, .limit = 2,
            .threads = {T(push_2), T(push_1), T(pop_pair), T(pop_1)}),
    PROGRAM("min-2-pairs", set_up, check, .limit = 2,
            .threads = {T(push_2), T(push_2), T(pop_pair), T(pop_pair)}),
    PROGRAM("min-unbounded", set_up, check, .limit = 0,
            .threads = {T(push_2), T(push_1), T(pop_pair), T(pop_1)}),
    PROGRAM("min-close", set_up, check, .limit = 2,
            .threads = {T(push_3_and_close), T(drain_pairs), T(drain)}),

    /* close and fail at each step */
    PROGRAM("close-1", set_up, check, .limit = 1,
            .threads = {T(push_2), T(push_1), T(drain), T(close_it)}),
    PROGRAM("close-2-readers", set_up, check, .limit = 1,
            .threads = {T(push_2), T(drain), T(drain), T(close_it)}),
    PROGRAM("close-unbounded", set_up, check, .limit = 0,
            .threads = {T(push_2), T(push_1), T(drain), T(close_it)}),
    PROGRAM("close-bulk", set_up, check, .limit = 2,
            .threads = {T(push_bulk_3), T(push_1), T(drain_pairs), T(close_it)}),
    PROGRAM("close-and-drain", set_up, check, .limit = 1,
            .threads = {T(push_2), T(push_bulk_2), T(close_and_drain)}),
    PROGRAM("fail-1", set_up, check, .limit = 1,
            .threads = {T(push_1), T(drain_failed), T(drain_failed), T(fail_it)}),

    /* a timeout that fires at each step */
    PROGRAM("timed-pop", set_up, check, .limit = 0, .ticks = 1,
            .threads = {T(push_1), T(push_1), T(pop_1_timed), T(pop_1)}),
    PROGRAM("timed-pops", set_up_short, check, .limit = 1, .ticks = 1,
            .threads = {T(push_2_timed), T(pop_2_timed), T(pop_1_timed)}),
    PROGRAM("timed-push", set_up, check, .limit = 1, .ticks = 1,
            .threads = {T(push_1_timed), T(push_2_timed), T(pop_2_timed)}),
    PROGRAM("timed-min", set_up_short, check, .limit = 0, .ticks = 1,
            .threads = {T(push_2), T(pop_pair_timed), T(pop_1_timed)}),
    PROGRAM("timed-bulk", set_up, check, .limit = 1, .ticks = 1,
            .threads = {T(push_bulk_3_timed), T(pop_1_timed), T(pop_1_timed)}),
    PROGRAM("timed-close", set_up, check, .limit = 1, .ticks = 1,
            .threads = {T(push_2_timed), T(pop_1_timed), T(close_it)}),
    PROGRAM("stream", set_up, check, .limit = 3, .ticks = 2,
            .threads = {T(push_3_and_close), T(stream)}),

    /* the limit */
    PROGRAM("raise", set_up, check, .limit = 1, .threads = {T(push_2), T(push_2), T(raise_limit)}),
    PROGRAM("raise-bulk", set_up, check, .limit = 1,
            .threads = {T(push_bulk_3), T(push_1), T(raise_limit)}),
    PROGRAM("lower", set_up, check, .limit = 2,
            .threads = {T(push_2), T(push_1), T(pop_2), T(lower_limit)}),
    PROGRAM("lower-min", set_up, check, .limit = 2, .ticks = 1,
            .threads = {T(push_1), T(pop_pair), T(lower_limit), T(pop_1_timed)}),

    /* an event loop */
    PROGRAM("notify-1", set_up_bell, check_bell, .limit = 1,
            .threads = {T(push_2), T(push_1), T(event_loop_3)}),
    PROGRAM("notify-unbounded", set_up_bell, check_bell, .limit = 0,
            .threads = {T(push_2), T(push_bulk_2), T(event_loop_3)}),
    PROGRAM("notify-readers", set_up_bell, check_bell, .limit = 3,
            .threads = {T(push_bulk_3), T(pop_1), T(event_loop_2)}),
    PROGRAM("notify-close", set_up_bell, check_bell, .limit = 1,
            .threads = {T(push_2), T(event_loop_drain), T(close_it)}),

    /* destroy */
    PROGRAM("reply", set_up, check_replies, .limit = 1,
            .threads = {T(client_1), T(client_1), T(server_2_1)}),
    PROGRAM("reply-2", set_up, check_replies, .limit = 1, .spurious = 1,
            .threads = {T(client_2), T(server_1_2)}),
    PROGRAM("reply-servers", set_up, check_replies, .limit = 1,
            .threads = {T(client_of_two), T(answer_client), T(answer_client)}),
    PROGRAM("destroy-readers", set_up_destroy, check_destroyed, .limit = 1, .ticks = 1,
            .threads = {T(pop_to_the_end), T(pop_timed_to_the_end), T(destroy_it)}),
    PROGRAM("destroy-writers", set_up_destroy_full, check_destroyed, .limit = 1, .ticks = 1,
            .threads = {T(push_to_the_end), T(push_timed_to_the_end), T(destroy_it)}),
    PROGRAM("destroy-closed", set_up_destroy, check_destroyed, .limit = 1, .ticks = 1,
            .threads = {T(pop_timed_to_the_end), T(pop_to_the_end), T(close_and_destroy)}),

    /* locks, conditions and memory that are refused */
    PROGRAM("refused-1", set_up, check, .limit = 1, .faults = 1,
            .threads = {T(push_1), T(push_1), T(drain), T(close_it)}),
    PROGRAM("refused-unbounded", set_up, check, .limit = 0, .faults = 1,
            .threads = {T(push_1), T(push_1), T(drain), T(close_it)}),
};

int main(int argc, char **argv) {
  return run_programs(argc, argv, programs, sizeof(programs) / sizeof(programs[0]));
}

#endif
