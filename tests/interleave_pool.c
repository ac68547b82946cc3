/* interleave_pool.c: short programs of threads that share a pool or a group, under the scheduler of
 * sched.h. How they are run is in interleave.h. */
#include "interleave.h"
#ifndef UNFIT

enum { TASKS = 8, ERROR_CODE = 7 };
enum { NOT_DONE, IN_DONE, DONE };
enum { NEVER = 100 }; /* exactly 0 */

FQ_POOL(pool, int);

/* What a program's pool is like. Threads that start together push tasks from 0 on, and from 4 on. */
typedef struct settings {
  size_t threads, concurrency, limit, batch; /* 0 threads: a thread of the program makes the pool */
  int preload;                               /* so many tasks wait before the threads start; */
  int tasks;                                 /* so many are pushed in all */
  bool paused;                               /* until a thread resumes it */
  bool watched;                              /* with state callbacks */
  bool in_order;                             /* one task at a time, in the order of the pushes */
  int guests;                                /* signals that tell destroy of a departure */
  size_t patience;                           /* looks of a worker before it sleeps */
  int saturations;                           /* exactly so many, if not 0 */
  size_t drains;                             /* the same */
  size_t hook_fails;                         /* the thread_start so far fails; 0: none */
  void (*act)(int task);                     /* in the worker; */
  void (*saturated)(void);                   /* in the state callbacks, the first time */
  void (*empty)(void);
  void (*drained)(void);
} settings;

static struct {
  size_t book; /* stands for what follows, see sched_mark */
  pool p;
  const settings *is;
  unsigned accepted;      /* bits: tasks whose push has returned, */
  unsigned before[TASKS]; /* and those that were when this one's began, if it is to come after */
  int refused;
  int started[TASKS], done[TASKS];
  size_t starts, ends;
  size_t places; /* threads that are in a task */
  int depth[SCHED_THREADS];
  size_t started_by[SCHED_THREADS], dropped_by[SCHED_THREADS];

  size_t ceiling; /* no more tasks than this may have started: it is paused */
  size_t allowed; /* places, from the task on that is number taken; before it, places_before */
  size_t places_before, taken;

  size_t saturations, empties, drains, ends_at_drain;
  bool in_drain;
  bool closed; /* close has returned */
  bool over;   /* destroy has returned */
  size_t hooks, stops;
  char ctx[SCHED_THREADS]; /* what thread_start gives its worker */
  void *ctx_of[SCHED_THREADS];
  size_t calls;                /* that may wait */
  size_t pushing;              /* tasks of pushes under way */
  bool noted;                  /* note_end was called; */
  size_t locks[SCHED_THREADS]; /* that each had taken then */

  fq_group group;
  size_t marks, met[2]; /* atomic, for programs with something to agree on */
} world;

/* --- The book --- */

static void book(void) { sched_mark(&world.book); }

static bool with_faults(void) { return sched.program->faults > 0; }

static size_t signals_sent(void) { return sched.threads[sched.self].signals; }

/* A call that can hand out n tasks, or let n threads go, wakes at most n. */
static void check_signals(size_t before, size_t n) {
  EXPECT(signals_sent() - before <= n + (size_t)world.is->guests);
}

static fqi_view look(void) { return fqi_pool_view(&world.p.pool); }

static bool in(unsigned tasks, int n) { return (tasks >> n & 1) != 0; }

/* No push is under way or to come, but for one that still calls on_saturated. */
static bool pushes_are_over(void) {
  if (world.ends == (size_t)world.is->tasks) {
    return true;
  }
  int n = world.refused;
  for (int i = 0; i < TASKS; i++) {
    n += in(world.accepted, i);
  }
  return n == world.is->tasks;
}

static void check_done(unsigned tasks) {
  for (int i = 0; i < TASKS; i++) {
    EXPECT(!in(tasks, i) || world.done[i] == DONE);
  }
}

/* At a moment when nothing waits and nothing runs, and nothing comes. */
static void check_rest(void) {
  EXPECT(world.places == 0 && !world.in_drain);
  EXPECT(world.saturations == world.empties);
  if (world.is->watched) { /* the last drain came after the last done */
    EXPECT(world.ends == world.ends_at_drain && world.drains <= world.ends);
  }
  int saturations = (int)world.saturations;
  EXPECT(world.is->saturations == 0 || saturations == world.is->saturations % NEVER);
  EXPECT(world.is->drains == 0 || world.drains == world.is->drains);
}

/* --- Callbacks --- */

/* What threads wait for has come about for good. Who looks again from now on must see it, if its
 * time is up, too. */
static void note_end(void) {
  if (!world.noted) {
    world.noted = true;
    for (int i = 0; i < sched.thread_count; i++) {
      world.locks[i] = sched_acquired(i);
    }
  }
}

static void check_timeout(void) {
  EXPECT(sched.ticked && (!world.noted || world.locks[sched.self] == sched_acquired(sched.self)));
}

/* What must say FQ_DEADLOCK in a callback does, and touches nothing. */
static void call_what_deadlocks(void) {
  EXPECT(pool_wait(&world.p, FQ_FOREVER) == FQ_DEADLOCK);
  EXPECT(pool_wait_running(&world.p, FQ_FOREVER) == FQ_DEADLOCK);
  EXPECT(pool_destroy(&world.p, FQ_CANCEL) == FQ_DEADLOCK);
}

static void in_callback(void) {
  EXPECT(sched_held() == 0);
  book();
  EXPECT(!world.over);
}

static int work(void *task, void *ctx) {
  int n = *(int *)task;
  in_callback();
  EXPECT(n >= 0 && n < TASKS);
  EXPECT(world.started[n] == 0 && world.done[n] == NOT_DONE);
  EXPECT(ctx == (world.ctx_of[sched.self] != NULL ? world.ctx_of[sched.self] : &world));
  for (int i = 0; i < TASKS && world.is->in_order; i++) {
    EXPECT(!in(world.before[n], i) || world.started[i] == 1);
  }
  EXPECT(world.starts < world.ceiling);
  EXPECT(world.is->saturations != 1 || n + 1 < world.is->tasks || world.empties == 1);
  world.places += world.depth[sched.self]++ == 0;
  EXPECT(world.places <= (world.starts < world.taken ? world.places_before : world.allowed));
  world.starts++;
  world.started_by[sched.self]++;
  world.started[n] = 1;
  sched_note("task %d", n);
  sched_pass();
  if (world.is->act != NULL) {
    world.is->act(n);
  }
  return n == 1 ? ERROR_CODE : 0;
}

static void done(void *task, int error, void *ctx) {
  int n = *(int *)task;
  in_callback();
  EXPECT(n >= 0 && n < TASKS && ctx == &world);
  EXPECT(world.done[n] == NOT_DONE);
  EXPECT(error == (world.started[n] == 0 ? FQ_CANCELED : n == 1 ? ERROR_CODE : 0));
  world.done[n] = IN_DONE;
  sched_note("done %d", n);
  sched_pass();
  in_callback();
  world.done[n] = DONE;
  world.ends++;
  if (world.started[n] != 0) {
    world.places -= --world.depth[sched.self] == 0;
  } else {
    world.dropped_by[sched.self]++;
    EXPECT(pool_wait(&world.p, FQ_FOREVER) == FQ_DEADLOCK);
  }
}

static void on_saturated(void *ctx) {
  in_callback();
  EXPECT(ctx == &world);
  sched_note("saturated");
  if (world.saturations++ == 0 && world.is->saturated != NULL) {
    world.is->saturated();
  }
}

static void on_empty(void *ctx) {
  in_callback();
  EXPECT(ctx == &world);
  sched_note("empty");
  sched_pass();
  in_callback();
  if (world.empties++ == 0 && world.is->empty != NULL) {
    world.is->empty();
  }
}

static void on_drain(void *ctx) {
  in_callback();
  EXPECT(ctx == &world && !world.in_drain);
  sched_note("drain");
  world.in_drain = true;
  world.ends_at_drain = world.ends;
  if (world.is->drains == 1) { /* else somebody may have pushed meanwhile */
    EXPECT(world.places == 0 && world.ends == (size_t)world.is->tasks);
    EXPECT(world.empties >= world.saturations);
  }
  sched_pass();
  in_callback();
  if (world.drains++ == 0 && world.is->drained != NULL) {
    world.is->drained();
  }
  world.in_drain = false;
}

static int thread_start(size_t index, void *ctx, void **thread_ctx) {
  in_callback();
  EXPECT(ctx == &world && *thread_ctx == &world && index < world.is->threads);
  sched_pass();
  in_callback();
  if (index + 1 == world.is->hook_fails) {
    return 1;
  }
  world.hooks++;
  *thread_ctx = world.ctx_of[sched.self] = &world.ctx[index];
  return 0;
}

static void thread_stop(size_t index, void *thread_ctx) {
  in_callback();
  EXPECT(thread_ctx == &world.ctx[index] && thread_ctx == world.ctx_of[sched.self]);
  world.stops++;
}

/* --- Calls that are checked and written down --- */

static fq_status open_pool(void) {
  fq_config config = {.worker = work,
                      .done = done,
                      .ctx = &world,
                      .threads = world.is->threads,
                      .concurrency = world.is->concurrency,
                      .limit = world.is->limit,
                      .batch = world.is->batch,
                      .thread_start = thread_start,
                      .thread_stop = thread_stop};
  if (world.is->watched) {
    config.on_saturated = on_saturated;
    config.on_empty = on_empty;
    config.on_drain = on_drain;
  }
  world.allowed = world.is->concurrency != 0 ? world.is->concurrency : world.is->threads;
  world.ceiling = SIZE_MAX;
  fq_status status = pool_init(&world.p, &config);
  if (status == FQ_OK) { /* and every worker waits for tasks */
    EXPECT(world.hooks == world.is->threads);
    EXPECT(fqi_chan_look(&world.p.pool.queue).consumers == world.is->threads);
  }
  return status;
}

static void push_begins(int task, bool front) {
  book();
  world.before[task] = front ? 0 : world.accepted;
  world.calls++;
  world.pushing++;
}

static void push_ends(int from, int to, int accepted, fq_status status) {
  sched_note("pushed %d tasks from %d on: %s", accepted, from, fq_status_name(status));
  book();
  for (int i = from; i < from + accepted; i++) {
    world.accepted |= 1u << i;
  }
  world.refused += to - from - accepted;
  world.pushing -= (size_t)(to - from);
  EXPECT((status == FQ_OK) == (accepted == to - from));
  EXPECT(status != FQ_SYSTEM || with_faults());
  EXPECT(status == FQ_OK || status == FQ_CLOSED || status == FQ_SYSTEM ||
         (status == FQ_TIMEOUT && sched.ticked) || status == FQ_DEADLOCK);
}

static fq_status put_item(int task, bool front, int64_t timeout) {
  push_begins(task, front);
  bool late = world.closed;
  size_t signals = signals_sent();
  fq_status status =
      front ? pool_push_front(&world.p, task, timeout) : pool_push(&world.p, task, timeout);
  if (!world.is->watched) { /* else callbacks have sent some too */
    check_signals(signals, status == FQ_OK);
  }
  push_ends(task, task + 1, status == FQ_OK, status);
  EXPECT(!late || status == FQ_CLOSED);
  return status;
}

static fq_status put(int task) { return put_item(task, false, FQ_FOREVER); }

static void put_n(int from, int n) {
  int tasks[TASKS];
  fq_status status;
  for (int i = 0; i < n; i++) {
    push_begins(from + i, false);
    tasks[i] = from + i;
    world.before[from + i] |= ((1u << i) - 1) << from;
  }
  size_t signals = signals_sent();
  size_t accepted = pool_push_n(&world.p, tasks, (size_t)n, FQ_FOREVER, &status);
  if (!world.is->watched) {
    check_signals(signals, accepted);
  }
  push_ends(from, from + n, (int)accepted, status);
}

/* Whatever was accepted before the call is done after it. */
static fq_status wait_for(int64_t timeout) {
  book();
  unsigned accepted = world.accepted;
  bool over = pushes_are_over();
  world.calls++;
  fq_status status = pool_wait(&world.p, timeout);
  sched_note("waited: %s", fq_status_name(status));
  book();
  if (status == FQ_OK) {
    check_done(accepted);
    if (over) {
      check_rest();
      note_end();
    }
  } else if (status == FQ_TIMEOUT) {
    check_timeout();
  } else {
    EXPECT(status == FQ_SYSTEM && with_faults());
  }
  return status;
}

/* What was taken before it has returned may still start, and nothing else. */
static void pause_pool(void) {
  pool_pause(&world.p);
  fqi_view view = look();
  book();
  sched_note("paused with %zu running", view.running);
  world.ceiling = (size_t)view.stats.completed + view.running;
}

static void resume_pool(void) {
  size_t signals = signals_sent();
  book();
  size_t pushing = world.pushing, calls = world.calls; /* who may be waiting for room */
  world.ceiling = SIZE_MAX;
  pool_resume(&world.p);
  book();
  check_signals(signals, world.is->threads + pushing + (world.calls - calls));
}

static void change_concurrency(size_t n) {
  book();
  size_t before = world.allowed, signals = signals_sent();
  size_t pushing = world.pushing, calls = world.calls; /* who may be waiting for room */
  if (n > before) {
    world.allowed = n;
  }
  EXPECT(pool_set_concurrency(&world.p, n) == FQ_OK);
  book();
  check_signals(signals, n + pushing + (world.calls - calls));
  fqi_view view = look();
  book();
  sched_note("concurrency is %zu", n);
  world.places_before = n > before ? n : before;
  world.taken = (size_t)view.stats.completed + view.running;
  world.allowed = n;
}

static void cancel(bool (*pred)(const void *, void *)) {
  book();
  size_t before = world.dropped_by[sched.self];
  size_t n = pool_cancel_if(&world.p, pred, NULL);
  book();
  sched_note("dropped %zu", n);
  EXPECT(world.dropped_by[sched.self] - before == n);
}

static bool help(void) {
  book();
  size_t before = world.started_by[sched.self];
  bool ran = pool_help(&world.p);
  book();
  sched_note("helped: %d", ran);
  EXPECT(world.started_by[sched.self] - before == ran);
  return ran;
}

static void close_pool(void) {
  pool_close(&world.p);
  book();
  sched_note("closed");
  world.closed = true;
}

static void destroy_pool(fq_how how) {
  book();
  if (how == FQ_DRAIN) { /* that ends a pause, while the other leaves nothing to start */
    world.ceiling = SIZE_MAX;
  }
  EXPECT(pool_destroy(&world.p, how) == FQ_OK);
  book();
  sched_note("destroyed");
  world.over = true;
  sched_forbid(&world.p, sizeof(world.p));
}

/* --- Before and after --- */

static void set_up(void) {
  memset(&world, 0, sizeof(world));
  world.is = sched.program->settings;
  world.ceiling = SIZE_MAX;
  if (world.is->preload > 0 || world.is->threads > 0) {
    sched_calm(true);
    EXPECT(open_pool() == FQ_OK);
    if (world.is->paused) {
      pause_pool();
    }
    for (int i = 0; i < world.is->preload; i++) {
      EXPECT(put(i) == FQ_OK);
    }
    world.p.pool.queue.pop.patience = world.is->patience;
    sched_calm(false);
  }
}

/* One that a thread of the program makes. */
static void set_up_nothing(void) {
  memset(&world, 0, sizeof(world));
  world.is = sched.program->settings;
}

/* Every accepted task met done, and no other. */
static void check_destroyed(void) {
  size_t accepted = 0;
  for (int i = 0; i < TASKS; i++) {
    EXPECT(world.done[i] == (in(world.accepted, i) ? DONE : NOT_DONE));
    accepted += in(world.accepted, i);
  }
  EXPECT(world.hooks == world.stops);
  check_rest();
  /* Who is handed a task, who waits for the end or for room, each worker at the end; after the locks
   * were released. */
  EXPECT(sched.signals_locked <= (size_t)world.is->guests);
  EXPECT(sched.signals <=
         accepted + world.calls + world.is->threads + (size_t)world.is->guests + 1);
}

static void check(void) {
  destroy_pool(FQ_DRAIN);
  check_destroyed();
  if (world.refused == 0) {
    EXPECT(pushes_are_over());
  }
}

/* --- Thread bodies --- */

static void push_a(void) { put(0); }

static void push_a2(void) {
  put(0);
  put(1);
}

static void push_a3(void) {
  push_a2();
  put(2);
}

static void push_b(void) { put(4); }

static void push_b2(void) {
  put(4);
  put(5);
}

static void push_bulk_2(void) { put_n(0, 2); }

static void push_bulk_3(void) { put_n(0, 3); }

static void push_bulk_b2(void) { put_n(4, 2); }

static void push_front_b(void) { put_item(4, true, FQ_FOREVER); }

static void push_timed_b(void) { put_item(4, false, SCHED_TICK); }

static void wait_idle(void) { EXPECT(wait_for(FQ_FOREVER) == FQ_OK); }

static void wait_idle_or_not(void) { wait_for(FQ_FOREVER); }

static void wait_idle_timed(void) { wait_for(SCHED_TICK); }

/* The only thread that pushes: each busy period has its drain. */
static void push_and_wait_twice(void) {
  push_a();
  wait_idle();
  EXPECT(!world.is->watched || (world.drains == 1 && world.saturations == 0));
  put(1);
  wait_idle();
  EXPECT(pool_idle(&world.p));
}

static void push_bulk_and_wait(void) {
  put_n(0, 3);
  wait_idle();
}

static void push_and_wait(void) {
  push_b();
  wait_idle();
}

static void push_parent_and_wait(void) {
  push_a();
  wait_idle();
}

/* A checkpoint: nothing runs between the two. */
static void pause_and_resume(void) {
  pause_pool();
  world.calls++;
  EXPECT(pool_wait_running(&world.p, FQ_FOREVER) == FQ_OK);
  book();
  EXPECT(world.places == 0 && !world.in_drain);
  world.ceiling = world.starts;
  sched_pass();
  EXPECT(pool_running(&world.p) == 0);
  resume_pool();
}

static void pause_and_resume_at_once(void) {
  pause_pool();
  resume_pool();
}

static void pause_only(void) { pause_pool(); }

static void resume_only(void) { resume_pool(); }

/* No call of this thread helps tasks 0 and 4 to meet. */
static void resume_until_met(void) {
  resume_pool();
  world.calls++;
  EXPECT(fq_group_wait(&world.group, FQ_FOREVER) == FQ_OK);
}

/* Both workers slept: each of them gets a part. */
static void resume_and_share(void) {
  resume_pool();
  wait_idle();
  EXPECT(world.started_by[1] > 0 && world.started_by[2] > 0);
}

static void wait_running(void) {
  world.calls++;
  EXPECT(pool_wait_running(&world.p, FQ_FOREVER) == FQ_OK);
}

static void raise_to_2(void) { change_concurrency(2); }

static void lower_to_1(void) { change_concurrency(1); }

static void lower_and_raise(void) {
  change_concurrency(1);
  change_concurrency(2);
}

static void cancel_all(void) { cancel(NULL); }

/* Under the locks it can look, and nothing else. */
static bool is_odd(const void *task, void *arg) {
  EXPECT(arg == NULL && pool_count(&world.p) > 0);
  EXPECT(pool_push(&world.p, 7, FQ_NOWAIT) == FQ_DEADLOCK);
  EXPECT(pool_wait(&world.p, FQ_NOWAIT) == FQ_DEADLOCK && !pool_help(&world.p));
  return *(const int *)task % 2 != 0;
}

static void cancel_odd(void) { cancel(is_odd); }

static void cancel_and_resume(void) {
  cancel(is_odd);
  resume_pool();
}

static void help_once(void) { help(); }

static void help_twice(void) {
  help();
  help();
}

static void help_in_vain(void) { EXPECT(!help()); }

static void close_it(void) { close_pool(); }

static void close_and_push(void) {
  close_pool();
  EXPECT(put(6) == FQ_CLOSED);
  wait_idle();
}

static void close_and_resume(void) {
  close_pool();
  resume_pool();
}

/* --- Destroy --- */

/* Returns when the thread has come into its only call, so far that it had a lock. */
static void until_inside(int body) {
  while (sched_acquired((int)world.is->threads + 1 + body) == 0) {
    fqi_pause();
  }
}

static void destroy_drain(void) {
  until_inside(0);
  destroy_pool(FQ_DRAIN);
}

static void destroy_cancel(void) {
  until_inside(0);
  destroy_pool(FQ_CANCEL);
}

static void destroy_drain_3(void) {
  until_inside(1);
  destroy_drain();
}

static void destroy_cancel_3(void) {
  until_inside(1);
  destroy_cancel();
}

/* Tells that its task has come to an end, whatever the push that brought it still does. */
static void tell(int task) {
  (void)task;
  fqi_store(&world.marks, world.marks + 1);
}

static void destroy_when_told(void) {
  while (fqi_load(&world.marks) == 0) {
    fqi_pause();
  }
  destroy_pool(FQ_DRAIN);
}

/* --- The start --- */

static void open_and_destroy(void) {
  EXPECT(open_pool() == FQ_OK);
  destroy_pool(FQ_DRAIN);
}

static void open_push_and_drain(void) {
  EXPECT(open_pool() == FQ_OK);
  put_n(0, 2);
  destroy_pool(FQ_DRAIN);
}

static void open_push_and_cancel(void) {
  EXPECT(open_pool() == FQ_OK);
  put_n(0, 3);
  destroy_pool(FQ_CANCEL);
}

static void open_in_vain(void) {
  EXPECT(open_pool() == FQ_SYSTEM);
  EXPECT(world.hooks == world.stops);
  EXPECT(pool_push(&world.p, 0, FQ_FOREVER) == FQ_INVALID);
  EXPECT(pool_destroy(&world.p, FQ_DRAIN) == FQ_OK);
}

/* With something that is refused somewhere. */
static void open_if_possible(void) {
  fq_status status = open_pool();
  if (status == FQ_OK) {
    if (put(0) == FQ_OK) {
      put(1);
    }
    wait_idle_or_not();
    destroy_pool(FQ_DRAIN);
  } else {
    EXPECT(status == FQ_SYSTEM || status == FQ_NOMEM);
    EXPECT(pool_destroy(&world.p, FQ_DRAIN) == FQ_OK);
  }
}

/* --- What callbacks do --- */

/* A task that pushes another. */
static void act_push_child(int task) {
  if (task < 2) {
    call_what_deadlocks();
    put(task + 2);
  }
}

/* A task that runs its child itself, if no other worker does. */
static void act_help_child(int task) {
  if (task == 0) {
    put(2);
    bool helped = help();
    EXPECT(helped || world.is->threads > 1);
  }
}

/* Its children need each other: one of them runs here, and takes up no other place. */
static void act_meet(int task) {
  if (task == 0) {
    put(2);
    put(3);
    help();
  } else if (task < 4) {
    fqi_store(&world.met[task - 2], 1);
    while (fqi_load(&world.met[3 - task]) == 0) {
      fqi_pause();
    }
  }
}

/* Tasks 0 and 4 need each other. */
static void act_meet_other(int task) {
  (void)task;
  world.calls++;
  fq_group_done(&world.group);
  EXPECT(fq_group_wait(&world.group, FQ_FOREVER) == FQ_OK);
}

/* The only worker fills the queue: nobody else could make room. */
static void act_fill(int task) {
  if (task == 0) {
    put(6);
    EXPECT(pool_push(&world.p, 7, FQ_FOREVER) == FQ_DEADLOCK);
    EXPECT(pool_push(&world.p, 7, FQ_NOWAIT) == FQ_FULL);
  }
}

static void act_deadlock(int task) {
  (void)task;
  call_what_deadlocks();
}

static void act_pause(int task) {
  if (task == 0) {
    pool_pause(&world.p);
  }
}

static void act_cancel(int task) {
  if (task == 0) {
    cancel(NULL);
  }
}

static void act_lower(int task) {
  if (task == 0) {
    change_concurrency(1);
  }
}

static void act_help(int task) {
  if (task == 0) {
    help();
  }
}

static void push_6(void) {
  call_what_deadlocks();
  put(6);
}

/* A task that waits for a place that is free is no backlog; without the place it is. */
static void push_6_and_pause(void) {
  put(6);
  pool_pause(&world.p);
  fqi_store(&world.marks, 1);
}

static void push_and_resume_when_told(void) {
  push_a();
  while (fqi_load(&world.marks) == 0) {
    fqi_pause();
  }
  resume_pool();
  wait_idle();
}

static void push_7(void) {
  call_what_deadlocks();
  put(7);
}

/* --- Groups --- */

static void set_up_group(void) {
  set_up_nothing();
  sched_calm(true);
  EXPECT(fq_group_init(&world.group) == FQ_OK);
  fq_group_add(&world.group, 2);
  sched_calm(false);
}

static void check_group_destroyed(void) {
  EXPECT(sched.signals <= world.calls && sched.signals_locked == 0);
}

static void check_group(void) {
  fq_group_destroy(&world.group);
  check_group_destroyed();
}

static void group_done(void) {
  book();
  world.ends++;
  fq_group_done(&world.group);
}

/* The last of them. */
static void group_done_twice_and_note(void) {
  group_done();
  group_done();
  book();
  note_end();
}

static void group_done_twice(void) {
  group_done();
  group_done();
}

/* The group was empty at some time in the call: so many had ended by then. */
static fq_status group_wait(int64_t timeout, size_t ends) {
  world.calls++;
  fq_status status = fq_group_wait(&world.group, timeout);
  sched_note("waited for the group: %s", fq_status_name(status));
  book();
  EXPECT(status == FQ_OK || status == FQ_TIMEOUT || (status == FQ_SYSTEM && with_faults()));
  EXPECT(status != FQ_OK || world.ends >= ends);
  if (status == FQ_TIMEOUT) {
    check_timeout();
  }
  return status;
}

static void group_wait_2(void) { group_wait(FQ_FOREVER, 2); }

static void group_wait_timed(void) { group_wait(SCHED_TICK, 2); }

static void group_wait_and_destroy(void) {
  EXPECT(group_wait(FQ_FOREVER, 2) == FQ_OK);
  fq_group_destroy(&world.group);
  sched_forbid(&world.group, sizeof(world.group));
}

/* Uses it again while another may still be on its way out of the first wait. */
static void group_wait_and_again(void) {
  EXPECT(group_wait(FQ_FOREVER, 2) == FQ_OK);
  fq_group_add(&world.group, 1);
  fqi_store(&world.marks, 1);
  EXPECT(group_wait(FQ_FOREVER, 3) == FQ_OK);
}

static void group_done_twice_and_again(void) {
  group_done_twice();
  while (fqi_load(&world.marks) == 0) {
    fqi_pause();
  }
  group_done();
}

/* Tasks of a pool are members; the last to know may destroy. */
static void act_group_done(int task) {
  (void)task;
  fq_group_done(&world.group);
}

static void set_up_pool_group(void) {
  set_up();
  EXPECT(fq_group_init(&world.group) == FQ_OK);
}

static void set_up_meeting(void) {
  set_up_pool_group();
  fq_group_add(&world.group, 2);
}

static void check_meeting(void) {
  check();
  fq_group_destroy(&world.group);
}

static void push_and_wait_for_group(void) {
  fq_group_add(&world.group, 2);
  put_n(0, 2);
  world.calls++;
  EXPECT(fq_group_wait(&world.group, FQ_FOREVER) == FQ_OK);
  EXPECT(world.started[0] == 1 && world.started[1] == 1);
  fq_group_destroy(&world.group);
  sched_forbid(&world.group, sizeof(world.group));
}

/* --- The programs --- */

#define POOL(...)                                                                                  \
  .settings = &(const settings) { __VA_ARGS__ }

static const sched_program programs[] = {
    /* the start, and the end without anyone else */
    PROGRAM("open", set_up_nothing, check_destroyed, POOL(.threads = 2),
            .threads = {T(open_and_destroy)}),
    PROGRAM("open-drain", set_up_nothing, check_destroyed,
            POOL(.threads = 2, .tasks = 2, .watched = true), .threads = {T(open_push_and_drain)}),
    PROGRAM("open-cancel", set_up_nothing, check_destroyed, POOL(.threads = 2, .tasks = 3),
            .preemptions = 2, .threads = {T(open_push_and_cancel)}),
    PROGRAM("open-refused", set_up_nothing, check_destroyed,
            POOL(.threads = 2, .tasks = 2, .limit = 1), .faults = 1, .preemptions = 2,
            .threads = {T(open_if_possible)}),
    PROGRAM("open-hook-1", set_up_nothing, check_destroyed, POOL(.threads = 2, .hook_fails = 1),
            .preemptions = 4, .threads = {T(open_in_vain)}),
    PROGRAM("open-hook-2", set_up_nothing, check_destroyed, POOL(.threads = 2, .hook_fails = 2),
            .preemptions = 4, .threads = {T(open_in_vain)}),

    /* push */
    PROGRAM("push", set_up, check, POOL(.threads = 1, .tasks = 3, .in_order = true),
            .threads = {T(push_a2), T(push_b)}),
    PROGRAM("push-2", set_up, check, POOL(.threads = 2, .tasks = 3), .preemptions = 2,
            .threads = {T(push_a2), T(push_b)}),
    PROGRAM("push-watched", set_up, check,
            POOL(.threads = 1, .tasks = 3, .in_order = true, .watched = true),
            .threads = {T(push_a2), T(push_b)}),
    PROGRAM("push-watched-2", set_up, check, POOL(.threads = 2, .tasks = 3, .watched = true),
            .preemptions = 2, .threads = {T(push_a2), T(push_b)}),
    PROGRAM("push-limit", set_up, check,
            POOL(.threads = 1, .tasks = 4, .limit = 1, .in_order = true),
            .threads = {T(push_a2), T(push_b2)}),
    PROGRAM("bulk", set_up, check, POOL(.threads = 1, .tasks = 5, .in_order = true, .batch = 2),
            .threads = {T(push_bulk_3), T(push_bulk_b2)}),
    PROGRAM("bulk-2", set_up, check, POOL(.threads = 2, .tasks = 4, .batch = 2), .preemptions = 2,
            .threads = {T(push_bulk_3), T(push_b)}),
    PROGRAM("bulk-limit", set_up, check, POOL(.threads = 2, .tasks = 4, .limit = 1),
            .preemptions = 2, .threads = {T(push_bulk_3), T(push_b)}),
    PROGRAM("bulk-watched", set_up, check,
            POOL(.threads = 2, .tasks = 3, .limit = 1, .watched = true), .preemptions = 2,
            .threads = {T(push_bulk_3)}),
    PROGRAM("front", set_up, check, POOL(.threads = 1, .tasks = 3, .in_order = true),
            .threads = {T(push_a2), T(push_front_b)}),
    PROGRAM("front-limit", set_up, check,
            POOL(.threads = 1, .tasks = 3, .limit = 1, .in_order = true),
            .threads = {T(push_a2), T(push_front_b)}),
    PROGRAM("push-timed", set_up, check, POOL(.threads = 1, .tasks = 3, .limit = 1), .ticks = 1,
            .preemptions = 2, .threads = {T(push_a2), T(push_timed_b)}),

    /* wait */
    PROGRAM("wait", set_up, check, POOL(.threads = 2, .tasks = 2), .spurious = 1,
            .threads = {T(push_and_wait_twice)}),
    PROGRAM("wait-watched", set_up, check,
            POOL(.threads = 2, .tasks = 2, .watched = true, .drains = 2), .preemptions = 4,
            .threads = {T(push_and_wait_twice)}),
    PROGRAM("wait-bulk", set_up, check,
            POOL(.threads = 2, .tasks = 3, .watched = true, .drains = 1),
            .threads = {T(push_bulk_and_wait)}),
    PROGRAM("wait-saturated", set_up, check,
            POOL(.threads = 1, .tasks = 2, .watched = true, .drains = 1),
            .threads = {T(push_bulk_2), T(wait_idle)}),
    PROGRAM("wait-others", set_up, check, POOL(.threads = 1, .tasks = 2), .preemptions = 2,
            .threads = {T(push_a), T(push_and_wait), T(wait_idle)}),
    PROGRAM("wait-two", set_up, check, POOL(.threads = 1, .tasks = 1, .watched = true, .drains = 1),
            .threads = {T(push_a), T(wait_idle), T(wait_idle)}),
    PROGRAM("wait-timed", set_up, check, POOL(.threads = 1, .tasks = 2), .ticks = 1,
            .threads = {T(push_a2), T(wait_idle_timed)}),
    PROGRAM("wait-timed-two", set_up, check, POOL(.threads = 1, .tasks = 1, .preload = 1),
            .ticks = 1, .preemptions = 3, .threads = {T(wait_idle), T(wait_idle_timed)}),
    PROGRAM("wait-child", set_up, check, POOL(.threads = 2, .tasks = 3, .act = act_push_child),
            .preemptions = 2, .threads = {T(push_and_wait), T(push_a)}),
    PROGRAM("wait-refused", set_up, check, POOL(.threads = 1, .tasks = 2, .limit = 1), .faults = 1,
            .threads = {T(push_a2), T(wait_idle_or_not)}),

    /* a worker looks again before it sleeps, with nothing to report then */
    PROGRAM("patient", set_up, check,
            POOL(.threads = 1, .tasks = 3, .patience = 1, .in_order = true),
            .threads = {T(push_a2), T(push_b)}),
    PROGRAM("patient-wait", set_up, check, POOL(.threads = 1, .tasks = 2, .patience = 1),
            .threads = {T(push_a2), T(wait_idle)}),
    PROGRAM("patient-2", set_up, check, POOL(.threads = 2, .tasks = 3, .patience = 1),
            .preemptions = 2, .threads = {T(push_a2), T(push_b)}),

    /* pause */
    PROGRAM("pause", set_up, check, POOL(.threads = 2, .tasks = 2), .preemptions = 2,
            .threads = {T(push_a2), T(pause_and_resume)}),
    PROGRAM("pause-1", set_up, check, POOL(.threads = 1, .tasks = 3, .in_order = true),
            .threads = {T(push_a3), T(pause_and_resume)}),
    PROGRAM("pause-watched", set_up, check, POOL(.threads = 1, .tasks = 2, .watched = true),
            .threads = {T(push_a2), T(pause_and_resume)}),
    PROGRAM("pause-wait", set_up, check, POOL(.threads = 1, .tasks = 1),
            .threads = {T(push_a), T(pause_and_resume_at_once), T(wait_idle)}),
    PROGRAM("pause-end", set_up, check,
            POOL(.threads = 1, .tasks = 2, .watched = true, .drains = 1),
            .threads = {T(push_bulk_2), T(pause_only), T(wait_running)}),
    PROGRAM("resume", set_up, check,
            POOL(.threads = 2, .tasks = 3, .preload = 3, .paused = true, .watched = true,
                 .saturations = 1, .drains = 1),
            .preemptions = 2, .threads = {T(resume_only), T(wait_idle)}),
    PROGRAM("resume-batch", set_up, check,
            POOL(.threads = 2, .tasks = 3, .preload = 3, .batch = 4, .paused = true),
            .preemptions = 2, .threads = {T(resume_and_share), T(wait_running)}),
    PROGRAM("resume-limit", set_up, check,
            POOL(.threads = 1, .tasks = 3, .preload = 1, .limit = 1, .paused = true),
            .preemptions = 4, .threads = {T(push_b2), T(resume_only)}),
    PROGRAM("resume-limit-2", set_up_meeting, check_meeting,
            POOL(.threads = 2, .tasks = 2, .preload = 1, .limit = 1, .paused = true,
                 .act = act_meet_other),
            .preemptions = 2, .threads = {T(push_b), T(resume_until_met)}),
    PROGRAM("pause-in-task", set_up, check,
            POOL(.threads = 1, .tasks = 3, .in_order = true, .act = act_pause), .preemptions = 4,
            .threads = {T(push_a3)}),

    /* concurrency */
    PROGRAM("raise", set_up, check, POOL(.threads = 2, .tasks = 3, .concurrency = 1),
            .preemptions = 2, .threads = {T(push_a3), T(raise_to_2)}),
    PROGRAM("raise-backlog", set_up, check,
            POOL(.threads = 2, .tasks = 2, .preload = 2, .concurrency = 1, .watched = true,
                 .drains = 1),
            .preemptions = 2, .threads = {T(raise_to_2), T(wait_idle)}),
    PROGRAM("raise-limit", set_up, check,
            POOL(.threads = 2, .tasks = 3, .preload = 2, .limit = 1, .concurrency = 1),
            .preemptions = 2, .threads = {T(push_b), T(raise_to_2)}),
    PROGRAM("lower", set_up, check, POOL(.threads = 2, .tasks = 3), .preemptions = 2,
            .threads = {T(push_a3), T(lower_to_1)}),
    PROGRAM("lower-raise", set_up, check,
            POOL(.threads = 2, .tasks = 2, .watched = true, .drains = 1), .preemptions = 2,
            .threads = {T(push_bulk_2), T(lower_and_raise)}),
    PROGRAM("lower-in-task", set_up, check, POOL(.threads = 2, .tasks = 3, .act = act_lower),
            .preemptions = 2, .threads = {T(push_bulk_3), T(wait_idle)}),
    PROGRAM("one-of-2", set_up, check,
            POOL(.threads = 2, .tasks = 3, .concurrency = 1, .in_order = true), .preemptions = 2,
            .threads = {T(push_a2), T(push_b)}),

    /* cancel */
    PROGRAM("cancel", set_up, check, POOL(.threads = 1, .tasks = 2), .preemptions = 2,
            .threads = {T(push_a2), T(cancel_all), T(wait_idle)}),
    PROGRAM("cancel-watched", set_up, check,
            POOL(.threads = 1, .tasks = 2, .watched = true, .drains = 1), .preemptions = 2,
            .threads = {T(push_bulk_2), T(cancel_all), T(wait_idle)}),
    PROGRAM("cancel-paused", set_up, check,
            POOL(.threads = 1, .tasks = 2, .preload = 2, .paused = true, .watched = true,
                 .saturations = 1, .drains = 1),
            .preemptions = 4, .threads = {T(cancel_all), T(wait_idle)}),
    PROGRAM("cancel-odd", set_up, check,
            POOL(.threads = 1, .tasks = 3, .preload = 2, .limit = 2, .paused = true),
            .preemptions = 4, .threads = {T(push_b), T(cancel_and_resume)}),
    PROGRAM("cancel-full", set_up, check,
            POOL(.threads = 1, .tasks = 2, .preload = 1, .limit = 1, .paused = true),
            .preemptions = 4, .threads = {T(push_b), T(cancel_all)}),
    PROGRAM("cancel-in-task", set_up, check, POOL(.threads = 1, .tasks = 3, .act = act_cancel),
            .preemptions = 4, .threads = {T(push_bulk_3), T(wait_idle)}),
    PROGRAM("cancel-two", set_up, check,
            POOL(.threads = 1, .tasks = 3, .watched = true, .drains = 1), .preemptions = 2,
            .threads = {T(push_bulk_3), T(cancel_all), T(cancel_odd)}),

    /* help */
    PROGRAM("help", set_up, check, POOL(.threads = 2, .tasks = 2, .concurrency = 1),
            .preemptions = 2, .threads = {T(push_a2), T(help_once), T(wait_idle)}),
    PROGRAM("help-watched", set_up, check,
            POOL(.threads = 1, .tasks = 2, .watched = true, .drains = 1),
            .threads = {T(push_bulk_2), T(help_twice)}),
    PROGRAM("help-paused", set_up, check,
            POOL(.threads = 1, .tasks = 2, .preload = 2, .paused = true), .preemptions = 4,
            .threads = {T(help_in_vain)}),
    PROGRAM("help-in-task", set_up, check, POOL(.threads = 1, .tasks = 3, .act = act_help_child),
            .threads = {T(push_parent_and_wait), T(push_b)}),
    PROGRAM("help-in-task-2", set_up, check, POOL(.threads = 2, .tasks = 2, .act = act_help_child),
            .preemptions = 4, .threads = {T(push_parent_and_wait)}),
    PROGRAM("help-meet", set_up, check, POOL(.threads = 2, .tasks = 4, .act = act_meet),
            .preemptions = 2, .threads = {T(push_parent_and_wait), T(push_b)}),
    PROGRAM("help-in-tasks", set_up, check,
            POOL(.threads = 2, .tasks = 3, .act = act_help, .watched = true, .drains = 1),
            .preemptions = 2, .threads = {T(push_bulk_3)}),
    PROGRAM("help-limit", set_up, check, POOL(.threads = 1, .tasks = 3, .limit = 1),
            .threads = {T(push_a3), T(help_once)}),

    PROGRAM("help-patient", set_up, check, POOL(.threads = 1, .tasks = 3, .patience = 1),
            .preemptions = 2, .threads = {T(push_a3), T(help_once)}),
    PROGRAM("help-deadlock", set_up, check,
            POOL(.threads = 1, .tasks = 2, .patience = 1, .act = act_deadlock), .preemptions = 2,
            .threads = {T(push_a2), T(help_once)}),

    /* callbacks that call */
    PROGRAM(
        "drain-pushes", set_up, check,
        POOL(.threads = 1, .tasks = 2, .watched = true, .saturations = NEVER, .drained = push_6),
        .threads = {T(push_a), T(wait_idle)}),
    PROGRAM("drain-pauses", set_up, check,
            POOL(.threads = 1, .tasks = 2, .watched = true, .saturations = 1, .drains = 2,
                 .drained = push_6_and_pause),
            .threads = {T(push_and_resume_when_told)}),
    PROGRAM("empty-pushes", set_up, check,
            POOL(.threads = 1, .tasks = 3, .preload = 2, .paused = true, .watched = true,
                 .empty = push_7),
            .preemptions = 4, .threads = {T(resume_only), T(wait_idle)}),
    PROGRAM("saturated-pushes", set_up, check,
            POOL(.threads = 1, .tasks = 3, .paused = true, .watched = true, .saturated = push_6),
            .threads = {T(push_bulk_2), T(resume_only)}),
    PROGRAM("push-deadlock", set_up, check,
            POOL(.threads = 1, .tasks = 2, .limit = 1, .act = act_fill),
            .threads = {T(push_parent_and_wait), T(wait_idle)}),

    /* close */
    PROGRAM("close", set_up, check, POOL(.threads = 1, .tasks = 2), .preemptions = 2,
            .threads = {T(push_a2), T(close_it), T(wait_idle)}),
    PROGRAM("close-full", set_up, check, POOL(.threads = 1, .tasks = 4, .limit = 1),
            .threads = {T(push_bulk_3), T(close_and_push)}),
    PROGRAM("close-paused", set_up, check,
            POOL(.threads = 2, .tasks = 2, .preload = 2, .paused = true, .watched = true,
                 .saturations = 1, .drains = 1),
            .threads = {T(close_and_resume), T(wait_idle)}),
    PROGRAM("close-drain", set_up, check, POOL(.threads = 2, .tasks = 1, .watched = true),
            .threads = {T(push_a), T(close_it)}),

    /* destroy, with others in their calls */
    PROGRAM("drain-pusher", set_up, check_destroyed,
            POOL(.threads = 1, .tasks = 2, .preload = 1, .limit = 1, .guests = 1),
            .threads = {T(push_b), T(destroy_drain)}),
    PROGRAM("drain-waiter", set_up, check_destroyed,
            POOL(.threads = 1, .tasks = 1, .preload = 1, .watched = true),
            .threads = {T(wait_idle), T(destroy_drain)}),
    PROGRAM("cancel-pusher", set_up, check_destroyed,
            POOL(.threads = 1, .tasks = 3, .preload = 2, .limit = 2, .guests = 1),
            .threads = {T(push_b), T(destroy_cancel)}),
    PROGRAM("cancel-waiter", set_up, check_destroyed,
            POOL(.threads = 1, .tasks = 2, .preload = 2, .watched = true), .preemptions = 2,
            .threads = {T(wait_idle), T(destroy_cancel)}),
    PROGRAM("drain-both", set_up, check_destroyed,
            POOL(.threads = 1, .tasks = 3, .preload = 2, .limit = 2, .paused = true, .guests = 1),
            .preemptions = 2, .threads = {T(push_b), T(wait_idle), T(destroy_drain_3)}),
    PROGRAM("cancel-both", set_up, check_destroyed,
            POOL(.threads = 1, .tasks = 3, .preload = 2, .limit = 2, .paused = true, .guests = 1),
            .preemptions = 2, .threads = {T(push_b), T(wait_idle), T(destroy_cancel_3)}),
    PROGRAM("drain-timed", set_up, check_destroyed,
            POOL(.threads = 1, .tasks = 1, .preload = 1, .guests = 1), .ticks = 1, .preemptions = 2,
            .threads = {T(wait_idle_timed), T(destroy_drain)}),
    PROGRAM("drain-canceler", set_up, check_destroyed,
            POOL(.threads = 1, .tasks = 2, .preload = 2, .paused = true, .guests = 1),
            .threads = {T(cancel_all), T(destroy_drain)}),
    PROGRAM("drain-helper", set_up, check_destroyed,
            POOL(.threads = 1, .tasks = 2, .preload = 1, .patience = 1, .guests = 2),
            .preemptions = 2, .threads = {T(push_b), T(help_once), T(destroy_drain_3)}),
    PROGRAM("drain-told", set_up, check_destroyed,
            POOL(.threads = 1, .tasks = 1, .act = tell, .guests = 2), .preemptions = 4,
            .threads = {T(push_a), T(destroy_when_told)}),

    /* groups */
    PROGRAM("group", set_up_group, check_group, POOL(.threads = 0), .preemptions = 4,
            .threads = {T(group_wait_2), T(group_wait_2), T(group_done), T(group_done)}),
    PROGRAM("group-timed", set_up_group, check_group, POOL(.threads = 0), .ticks = 1, .faults = 1,
            .threads = {T(group_wait_timed), T(group_wait_2), T(group_done_twice_and_note)}),
    PROGRAM("group-destroy", set_up_group, check_group_destroyed, POOL(.threads = 0), .spurious = 1,
            .preemptions = 4, .threads = {T(group_wait_and_destroy), T(group_done), T(group_done)}),
    PROGRAM("group-again", set_up_group, check_group, POOL(.threads = 0), .preemptions = 4,
            .threads = {T(group_wait_and_again), T(group_wait_2), T(group_done_twice_and_again)}),
    PROGRAM("group-pool", set_up_pool_group, check,
            POOL(.threads = 2, .tasks = 2, .act = act_group_done),
            .threads = {T(push_and_wait_for_group)}),
};

int main(int argc, char **argv) {
  return run_programs(argc, argv, programs, sizeof(programs) / sizeof(programs[0]));
}

#endif
