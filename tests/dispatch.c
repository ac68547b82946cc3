/* dispatch.c: FQ_DISPATCH: what it answers, in which order tasks start, how they are completed;
 * items of all sizes, stack and memory. What it calls is in dispatch_calls.c. */
#define FASTQ_NO_THREADS /* nothing here needs the system */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"

#include "dispatch_desk.h"
#include "items.h"

/* -- Statuses ---------------------------------------------------------------------------------- */

/* All zero bytes, failed in init, destroyed, or NULL: takes nothing and touches nothing. */
static void check_dead(jobs *q) {
  const struct job job = {.number = 1};
  bool called = false;
  fq_status why = FQ_OK;
  CHECK(jobs_push(q, job) == FQ_INVALID);
  CHECK(jobs_push_front(q, job) == FQ_INVALID);
  CHECK(jobs_push_n(q, &job, 1, &why) == 0 && why == FQ_INVALID);
  CHECK(jobs_push_n(q, &job, 1, NULL) == 0);
  CHECK(jobs_complete(q, 1, 0) == FQ_INVALID);
  CHECK(jobs_id(q, &called) == 0);
  CHECK(jobs_task(q, 1) == NULL);
  CHECK(jobs_run(q, SIZE_MAX) == 0);
  CHECK(jobs_set_concurrency(q, 2) == FQ_INVALID);
  CHECK(jobs_cancel_if(q, NULL, NULL) == 0);
  CHECK(jobs_cancel_if(q, note_call, &called) == 0);
  jobs_each(q, note_call, &called);
  jobs_pause(q);
  jobs_resume(q);
  jobs_close(q);
  CHECK(!called);
  CHECK(jobs_count(q) == 0 && jobs_running(q) == 0 && jobs_idle(q));
  CHECK(jobs_stats(q).submitted == 0);
  CHECK(jobs_destroy(q) == (q != NULL ? FQ_OK : FQ_INVALID));
}

static void dead_objects(void) {
  struct desk *d = desk_open(2, 0);
  jobs zero;
  memset(&zero, 0, sizeof(zero));
  check_dead(&zero);
  check_dead(NULL);
  CHECK(push_short(d, 0) == FQ_OK);
  desk_close(d);
  check_dead(&d->queue);
  CHECK(jobs_destroy(&d->queue) == FQ_OK);
}

static void refused(struct desk *d, const fq_config *config, bool asked, fq_status expected) {
  size_t calls = d->heap.calls;
  jobs q;
  memset(&q, 0x5A, sizeof(q)); /* init takes memory as it comes */
  CHECK(jobs_init(&q, config) == expected);
  CHECK(asked || d->heap.calls == calls);
  check_dead(&q);
  CHECK(jobs_destroy(&q) == FQ_OK && jobs_destroy(&q) == FQ_OK);
  CHECK(d->heap.live == 0 && !d->heap.damaged);
}

static void bad_arguments_of_init(void) {
  static const size_t too_many[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2,
                                    SIZE_MAX / sizeof(struct job) + 1,
                                    SIZE_MAX / 2 / sizeof(struct job) + 1};
  struct desk *d = desk_open(1, 0);
  desk_close(d);
  const fq_allocator no_free = {heap_alloc, NULL, &d->heap};
  const fq_allocator no_alloc = {NULL, heap_free, &d->heap};
  const fq_config good = desk_config(d, 2, 3);
  fq_config bad = good;
  CHECK(jobs_init(NULL, &good) == FQ_INVALID);
  CHECK(jobs_init(NULL, NULL) == FQ_INVALID);
  refused(d, NULL, false, FQ_INVALID);
  bad.worker = NULL;
  refused(d, &bad, false, FQ_INVALID);
  bad = good;
  bad.concurrency = 0;
  refused(d, &bad, false, FQ_INVALID);
  bad.concurrency = 16777216;
  refused(d, &bad, false, FQ_INVALID);
  bad = good;
  bad.allocator = &no_free;
  refused(d, &bad, false, FQ_INVALID);
  bad.allocator = &no_alloc;
  refused(d, &bad, false, FQ_INVALID);
  for (size_t i = 0; i < COUNT_OF(too_many); i++) {
    bad = good;
    bad.concurrency = too_many[i];
    refused(d, &bad, false, FQ_INVALID);
    bad = good;
    bad.limit = too_many[i];
    refused(d, &bad, false, FQ_INVALID);
  }
}

static void bad_arguments(void) {
  struct desk *d = desk_open(1, 2);
  struct job list[3] = {{.number = 0}};
  fq_status why = FQ_OK;
  CHECK(push_long(d, 0) == FQ_OK && push_long(d, 1) == FQ_OK);
  CHECK(jobs_push_n(&d->queue, NULL, 1, &why) == 0 && why == FQ_INVALID);
  why = FQ_OK;
  CHECK(jobs_push_n(&d->queue, list, SIZE_MAX, &why) == 0 && why == FQ_INVALID);
  CHECK(jobs_push_n(&d->queue, list, SIZE_MAX / sizeof(struct job) + 2, NULL) == 0);
  CHECK(jobs_push_n(&d->queue, NULL, 0, &why) == 0 && why == FQ_OK);
  jobs_close(&d->queue);
  why = FQ_FULL;
  CHECK(jobs_push_n(&d->queue, list, 0, &why) == 0 && why == FQ_OK);
  CHECK(set_concurrency(d, 0) == FQ_INVALID);
  CHECK(set_concurrency(d, SIZE_MAX) == FQ_INVALID);
  CHECK(set_concurrency(d, 16777216) == FQ_INVALID);
  CHECK(jobs_running(&d->queue) == 1 && jobs_count(&d->queue) == 1);
  jobs_each(&d->queue, NULL, NULL);
  CHECK(complete(d, 0) == FQ_OK);
  CHECK(jobs_running(&d->queue) == 1); /* still one at once */
  settle(d);
  desk_close(d);
}

static void config_is_copied(void) {
  static struct desk d;
  memset(&d, 0, sizeof(d));
  d.memory = (fq_allocator){heap_alloc, heap_free, &d.heap};
  d.concurrency = 1;
  fq_config config = desk_config(&d, 1, 0);
  CHECK(jobs_init(&d.queue, &config) == FQ_OK);
  memset(&config, 0, sizeof(config));
  memset(&d.memory, 0, sizeof(d.memory));
  CHECK(push_many(&d, 0, 26, false, NULL) == 26);
  desk_close(&d);
}

static int count_up(void *task, void *ctx) {
  ++*(int *)ctx;
  return ((struct job *)task)->error;
}

static void callbacks_may_be_left_out(void) {
  jobs q;
  int count = 0;
  CHECK(jobs_init(&q, &(fq_config){.worker = count_up, .ctx = &count, .concurrency = 1}) == FQ_OK);
  CHECK(jobs_push(&q, (struct job){.error = 0}) == FQ_OK);
  jobs_pause(&q);
  for (int i = 0; i < 10; i++) {
    CHECK(jobs_push(&q, (struct job){.error = 5}) == FQ_OK);
  }
  CHECK(jobs_run(&q, 4) == 4);
  CHECK(jobs_cancel_if(&q, NULL, NULL) == 6);
  fq_stats s = jobs_stats(&q);
  CHECK(count == 5 && s.submitted == 11 && s.completed == 5 && s.failed == 4 && s.canceled == 6);
  CHECK(jobs_destroy(&q) == FQ_OK);
}

/* -- Starts, order, limit ---------------------------------------------------------------------- */

static void starts_at_once_and_in_order(void) {
  struct desk *d = desk_open(3, 0);
  for (unsigned i = 0; i < 3; i++) {
    CHECK(push_long(d, i) == FQ_OK);
    CHECK(jobs_running(&d->queue) == i + 1 && jobs_count(&d->queue) == 0);
  }
  CHECK(did(d, "+A +B +C"));
  for (unsigned i = 3; i < 8; i++) {
    CHECK(push_long(d, i) == FQ_OK);
    CHECK(jobs_running(&d->queue) == 3 && jobs_count(&d->queue) == i - 2);
  }
  CHECK(did(d, "S"));
  CHECK(push_job(d, (struct job){.number = 8}, true) == FQ_OK);
  CHECK(push_job(d, (struct job){.number = 9}, true) == FQ_OK);
  CHECK(did(d, ""));
  CHECK(complete(d, 1) == FQ_OK);
  CHECK(did(d, "-B +J -J +I -I +D"));
  settle(d);
  CHECK(did(d, "-A +E -C +F -D +G -E E +H -F -G -H D"));
  desk_close(d);
}

static void limit_counts_what_waits(void) {
  struct desk *d = desk_open(2, 3);
  fq_status why = FQ_OK;
  CHECK(push_many(d, 0, 7, true, &why) == 5 && why == FQ_FULL);
  CHECK(jobs_running(&d->queue) == 2 && jobs_count(&d->queue) == 3);
  CHECK(push_long(d, 7) == FQ_FULL);
  CHECK(push_job(d, (struct job){.number = 7}, true) == FQ_FULL);
  CHECK(push_many(d, 7, 2, true, &why) == 0 && why == FQ_FULL);
  CHECK(complete(d, 0) == FQ_OK);
  CHECK(push_many(d, 7, 2, true, &why) == 1 && why == FQ_FULL);
  CHECK(complete(d, 1) == FQ_OK);
  CHECK(push_many(d, 8, 1, true, &why) == 1 && why == FQ_OK);
  CHECK(did(d, "S +A +B -A +C -B +D"));
  jobs_close(&d->queue);
  CHECK(push_long(d, 9) == FQ_CLOSED); /* and full: closed wins */
  CHECK(push_many(d, 9, 2, true, &why) == 0 && why == FQ_CLOSED);
  settle(d);
  desk_close(d);
}

/* Tasks that end at once make room for the next: a bulk is as long as it likes. */
static void bulk_beyond_the_limit(void) {
  struct desk *d = desk_open(1, 2);
  fq_status why = FQ_FULL;
  CHECK(push_many(d, 0, 5, false, &why) == 5 && why == FQ_OK);
  CHECK(did(d, "S +A -A E +B -B D S +C -C E +D -D D +E -E D"));
  jobs_pause(&d->queue);
  CHECK(push_many(d, 5, 5, false, &why) == 2 && why == FQ_FULL);
  jobs_resume(&d->queue);
  CHECK(did(d, "S +F -F E +G -G D"));
  desk_close(d);
}

static void close_in_the_third(struct desk *d, struct job *job) {
  if (job->number == 2) {
    jobs_close(&d->queue);
  }
}

static void bulk_that_is_closed(void) {
  struct desk *d = desk_open(1, 1);
  fq_status why = FQ_OK;
  d->at_worker = close_in_the_third;
  CHECK(push_many(d, 0, 6, false, &why) == 3 && why == FQ_CLOSED);
  CHECK(did(d, "+A -A D +B -B D +C -C D"));
  CHECK(push_short(d, 6) == FQ_CLOSED);
  CHECK(push_job(d, (struct job){.number = 6}, true) == FQ_CLOSED);
  desk_close(d);
}

static void push_past_the_limit(struct desk *d, struct job *job) {
  fq_status why = FQ_OK;
  if (job->number == 0) { /* two places are free, but here it only queues */
    CHECK(push_many(d, 1, 4, true, &why) == 3 && why == FQ_FULL);
    CHECK(push_short(d, 5) == FQ_FULL);
  }
}

static void limit_inside_a_callback(void) {
  struct desk *d = desk_open(3, 3);
  d->at_worker = push_past_the_limit;
  CHECK(push_long(d, 0) == FQ_OK);
  CHECK(did(d, "+A S +B +C"));
  settle(d);
  desk_close(d);
}

/* The queue's own copy is pushed again, from the worker and from done, while the storage grows. */
static void push_itself(struct desk *d, struct job *job) {
  if (d->starts < 200) {
    fq_status why = FQ_OK;
    CHECK(jobs_push_n(&d->queue, job, 1, &why) == 1 && why == FQ_OK);
    d->accepted[job->number]++;
  }
}

static void push_itself_in_done(struct desk *d, struct job *job, int error) {
  (void)error;
  push_itself(d, job);
}

static void tasks_that_push_themselves(void) {
  struct desk *d = desk_open(3, 0);
  d->quiet = true;
  d->at_worker = push_itself;
  d->at_done = push_itself_in_done;
  for (unsigned i = 0; i < 3; i++) {
    CHECK(push_job(d, (struct job){.number = i, .error = (int)i}, false) == FQ_OK);
  }
  CHECK(d->ends >= 200 && jobs_idle(&d->queue));
  desk_close(d);
}

/* -- Concurrency ------------------------------------------------------------------------------- */

static void concurrency_up_and_down(void) {
  struct desk *d = desk_open(1, 0);
  CHECK(push_many(d, 0, 3, true, NULL) == 3);
  CHECK(did(d, "S +A"));
  CHECK(set_concurrency(d, 3) == FQ_OK);
  CHECK(did(d, "+B E +C"));
  CHECK(set_concurrency(d, 1) == FQ_OK);
  CHECK(push_long(d, 3) == FQ_OK && push_long(d, 4) == FQ_OK);
  CHECK(complete(d, 0) == FQ_OK && complete(d, 2) == FQ_OK);
  CHECK(did(d, "S -A -C"));
  CHECK(complete(d, 1) == FQ_OK);
  CHECK(did(d, "-B +D"));
  CHECK(set_concurrency(d, 1) == FQ_OK);
  CHECK(complete(d, 3) == FQ_OK && complete(d, 4) == FQ_OK);
  CHECK(did(d, "-D E +E -E D"));
  desk_close(d);
}

/* Other concurrency in each callback, while what runs is checked against it at each start. */
static void jump(struct desk *d) {
  static const size_t steps[] = {3, 1, 7, 2, 1, 20, 4};
  CHECK(set_concurrency(d, steps[(d->starts + d->ends) % COUNT_OF(steps)]) == FQ_OK);
}

static void jump_in_worker(struct desk *d, struct job *job) {
  (void)job;
  jump(d);
}

static void jump_in_done(struct desk *d, struct job *job, int error) {
  (void)job;
  (void)error;
  jump(d);
}

static void concurrency_in_callbacks(void) {
  struct desk *d = desk_open(2, 0);
  d->quiet = true;
  d->at_worker = jump_in_worker;
  d->at_done = jump_in_done;
  d->at_saturated = d->at_empty = d->at_drain = jump;
  for (unsigned i = 0; i < JOBS; i++) {
    CHECK(push_job(d, (struct job){.number = i, .pending = i % 3 > 0}, i % 5 == 0) == FQ_OK);
    CHECK(jobs_count(&d->queue) == 0 || jobs_running(&d->queue) >= d->concurrency);
    if (i % 4 == 0) {
      (void)complete(d, i / 2);
      CHECK(jobs_count(&d->queue) == 0 || jobs_running(&d->queue) >= d->concurrency);
    }
  }
  settle(d);
  CHECK(d->ends == JOBS);
  desk_close(d);
}

/* -- Completion -------------------------------------------------------------------------------- */

static void complete_in_any_order(void) {
  for (unsigned order = 0; order < 4 * 4 * 4 * 4; order++) {
    struct desk *d = desk_open(4, 0);
    unsigned which[4] = {order % 4, order / 4 % 4, order / 16 % 4, order / 64};
    bool ended[4] = {false, false, false, false};
    CHECK(push_many(d, 0, 6, true, NULL) == 6);
    for (unsigned i = 0; i < 4; i++) {
      CHECK(complete(d, which[i]) == (ended[which[i]] ? FQ_INVALID : FQ_OK));
      ended[which[i]] = true;
    }
    for (unsigned i = 0; i < 4; i++) {
      CHECK(d->ended[i] == (ended[i] ? 1 : 0));
    }
    settle(d);
    desk_close(d);
  }
}

static void errors_reach_done(void) {
  struct desk *d = desk_open(1, 0);
  CHECK(push_job(d, (struct job){.number = 0, .error = 5}, false) == FQ_OK);
  CHECK(push_job(d, (struct job){.number = 1, .error = FQ_NOMEM}, false) == FQ_OK);
  CHECK(push_long(d, 2) == FQ_OK);
  CHECK(jobs_complete(&d->queue, d->ids[2], -77) == FQ_OK);
  CHECK(push_long(d, 3) == FQ_OK);
  CHECK(jobs_complete(&d->queue, d->ids[3], FQ_PENDING) == FQ_OK); /* a code like any other */
  CHECK(push_long(d, 4) == FQ_OK && complete(d, 4) == FQ_OK);
  CHECK(did(d, "+A -A:5 D +B -B:-8 D +C -C:-77 D +D -D:-7 D +E -E D"));
  fq_stats s = jobs_stats(&d->queue);
  CHECK(s.completed == 5 && s.failed == 4);
  desk_close(d);
}

/* Before the worker has returned: it decides, whatever the worker returns; done comes after. */
static void complete_myself(struct desk *d, struct job *job) {
  fq_id id = jobs_id(&d->queue, job);
  CHECK(jobs_complete(&d->queue, id, 40 + (int)job->number) == FQ_OK);
  CHECK(jobs_complete(&d->queue, id, 1) == FQ_INVALID);
  CHECK(jobs_task(&d->queue, id) == NULL);
  CHECK(d->ended[job->number] == 0 && jobs_running(&d->queue) == 1);
}

static void complete_inside_the_worker(void) {
  struct desk *d = desk_open(1, 0);
  d->at_worker = complete_myself;
  CHECK(push_job(d, (struct job){.number = 0, .error = 0}, false) == FQ_OK);
  CHECK(push_job(d, (struct job){.number = 1, .error = 9}, false) == FQ_OK);
  CHECK(push_long(d, 2) == FQ_OK);
  CHECK(did(d, "+A -A:40 D +B -B:41 D +C -C:42 D"));
  desk_close(d);
}

static void complete_the_others(struct desk *d, struct job *job) {
  if (job->number == 3) {
    CHECK(complete(d, 2) == FQ_OK && complete(d, 0) == FQ_OK && complete(d, 1) == FQ_OK);
    CHECK(complete(d, 0) == FQ_INVALID);
    CHECK(d->ends == 0);
  }
}

/* Completions in a callback only queue, and done comes in their order. */
static void complete_others_inside_a_worker(void) {
  struct desk *d = desk_open(4, 0);
  d->at_worker = complete_the_others;
  CHECK(push_many(d, 0, 4, true, NULL) == 4);
  CHECK(did(d, "+A +B +C +D -C -A -B"));
  CHECK(complete(d, 3) == FQ_OK);
  CHECK(did(d, "-D D"));
  desk_close(d);
}

/* Handles of places that were used again, over and over: so often that a counter of 16 bits comes
 * around. */
static void stale_handles(void) {
  enum { PLACES = 3, REUSES = PLACES * 70000, KEPT = 4 * PLACES };
  struct desk *d = desk_open(PLACES, 0);
  fq_id kept[KEPT];
  d->quiet = true;
  for (unsigned i = 0; i < REUSES; i++) {
    if (i >= PLACES) {
      fq_id old = d->ids[(i - PLACES) % JOBS];
      CHECK(jobs_complete(&d->queue, old, 0) == FQ_OK);
      CHECK(push_long(d, i) == FQ_OK); /* in the place that is free now */
      CHECK(jobs_task(&d->queue, old) == NULL);
      CHECK(jobs_complete(&d->queue, old, 0) == FQ_INVALID);
    } else {
      CHECK(push_long(d, i) == FQ_OK);
    }
    fq_id id = d->ids[i % JOBS];
    CHECK(id != 0 && jobs_task(&d->queue, id) != NULL);
    if (i < KEPT) {
      kept[i] = id;
    }
    for (unsigned j = 0; j < KEPT && i >= KEPT + PLACES; j++) {
      CHECK(jobs_complete(&d->queue, kept[j], 0) == FQ_INVALID);
    }
    if (i == 200 || i == REUSES / 2) {
      CHECK(set_concurrency(d, PLACES + i) == FQ_OK); /* more places do not confuse them */
      CHECK(set_concurrency(d, PLACES) == FQ_OK);
    }
  }
  CHECK(jobs_running(&d->queue) == PLACES && d->ends == REUSES - PLACES);
  settle(d);
  desk_close(d);
}

static void handles_that_never_were(void) {
  static const fq_id nonsense[] = {0,         2,          4,          0xffffff,        0x1000000,
                                   0x1000001, 0xffffffff, UINT64_MAX, UINT64_MAX << 24};
  struct desk *d = desk_open(3, 0);
  CHECK(push_long(d, 0) == FQ_OK);
  for (size_t i = 0; i < COUNT_OF(nonsense); i++) {
    CHECK(nonsense[i] != d->ids[0]);
    CHECK(jobs_complete(&d->queue, nonsense[i], 0) == FQ_INVALID);
    CHECK(jobs_task(&d->queue, nonsense[i]) == NULL);
  }
  settle(d);
  desk_close(d);
}

/* No two tasks ever have the same handle, whichever places they use. */
static void handles_are_unique(void) {
  enum { MANY = 4000, PLACES = 5 };
  static fq_id ids[MANY];
  unsigned running[PLACES];
  struct desk *d = desk_open(PLACES, 0);
  d->quiet = true;
  for (unsigned i = 0; i < MANY; i++) {
    unsigned place = i < PLACES ? i : i * i / 7 % PLACES;
    CHECK(i < PLACES || complete(d, running[place]) == FQ_OK);
    CHECK(push_long(d, i) == FQ_OK);
    running[place] = i;
    ids[i] = d->ids[i % JOBS];
    for (unsigned j = 0; j < i; j++) {
      if (!CHECK(ids[j] != ids[i])) {
        return;
      }
    }
  }
  settle(d);
  desk_close(d);
}

static bool keep_pointer(const void *task, void *arg) {
  *(const void **)arg = task;
  return true;
}

static void no_handle_for_other_pointers(void) {
  struct desk *d = desk_open(2, 0);
  const void *waiting = NULL;
  CHECK(push_many(d, 0, 3, true, NULL) == 3);
  jobs_each(&d->queue, keep_pointer, &waiting);
  unsigned char *task = (unsigned char *)jobs_task(&d->queue, d->ids[0]);
  CHECK(jobs_id(&d->queue, task) == d->ids[0]);
  CHECK(jobs_id(&d->queue, NULL) == 0);
  CHECK(jobs_id(&d->queue, d) == 0);
  CHECK(jobs_id(&d->queue, &d->queue) == 0);
  CHECK(waiting != NULL && jobs_id(&d->queue, (void *)(uintptr_t)waiting) == 0);
  for (size_t i = 1; i < sizeof(struct job); i++) {
    CHECK(jobs_id(&d->queue, task + i) == 0 && jobs_id(&d->queue, task - i) == 0);
  }
  CHECK(complete(d, 0) == FQ_OK && complete(d, 1) == FQ_OK && complete(d, 2) == FQ_OK);
  CHECK(jobs_id(&d->queue, task) == 0);
  desk_close(d);
}

/* -- Items of all sizes ------------------------------------------------------------------------ */

struct item7 {
  unsigned char bytes[7];
};
struct item4096 {
  unsigned char bytes[4096];
};
struct item16 {
  _Alignas(16) unsigned char bytes[16];
};
struct item64 { /* over-aligned */
  _Alignas(64) unsigned char bytes[64];
};
struct item80 { /* and larger than its alignment */
  _Alignas(32) unsigned char bytes[80];
};

struct items_face {
  size_t size, align;
  fq_status (*init)(void *q, const fq_config *config);
  fq_status (*push)(void *q, const void *item, bool front);
  size_t (*push_n)(void *q, const void *items, size_t n, fq_status *why);
  fq_status (*set_concurrency)(void *q, size_t concurrency);
  fq_id (*id)(void *q, void *task);
  void *(*task)(void *q, fq_id id);
  fq_status (*complete)(void *q, fq_id id, int error);
  fq_status (*destroy)(void *q);
};

#define ITEMS_FACE(name, T)                                                                        \
  FQ_DISPATCH(name, T);                                                                            \
  static fq_status name##_v_init(void *q, const fq_config *config) {                               \
    return name##_init((name *)q, config);                                                         \
  }                                                                                                \
  static fq_status name##_v_push(void *q, const void *item, bool front) {                          \
    return front ? name##_push_front((name *)q, *(const T *)item)                                  \
                 : name##_push((name *)q, *(const T *)item);                                       \
  }                                                                                                \
  static size_t name##_v_push_n(void *q, const void *items, size_t n, fq_status *why) {            \
    return name##_push_n((name *)q, (const T *)items, n, why);                                     \
  }                                                                                                \
  static fq_status name##_v_set_concurrency(void *q, size_t concurrency) {                         \
    return name##_set_concurrency((name *)q, concurrency);                                         \
  }                                                                                                \
  static fq_id name##_v_id(void *q, void *task) { return name##_id((name *)q, task); }             \
  static void *name##_v_task(void *q, fq_id id) { return name##_task((name *)q, id); }             \
  static fq_status name##_v_complete(void *q, fq_id id, int error) {                               \
    return name##_complete((name *)q, id, error);                                                  \
  }                                                                                                \
  static fq_status name##_v_destroy(void *q) { return name##_destroy((name *)q); }                 \
  static const struct items_face name##_face = {sizeof(T),         _Alignof(T),                    \
                                                name##_v_init,     name##_v_push,                  \
                                                name##_v_push_n,   name##_v_set_concurrency,       \
                                                name##_v_id,       name##_v_task,                  \
                                                name##_v_complete, name##_v_destroy}

ITEMS_FACE(items1, uint8_t);
ITEMS_FACE(items3, struct item3);
ITEMS_FACE(items7, struct item7);
ITEMS_FACE(items8, uint64_t);
ITEMS_FACE(items16, struct item16);
ITEMS_FACE(items24, struct item24);
ITEMS_FACE(items64, struct item64);
ITEMS_FACE(items80, struct item80);
ITEMS_FACE(items200, struct item200);
ITEMS_FACE(items4096, struct item4096);

static const struct items_face *const faces[] = {
    &items1_face,  &items3_face,  &items7_face,  &items8_face,   &items16_face,
    &items24_face, &items64_face, &items80_face, &items200_face, &items4096_face};

enum { SHELF = 1000 };

struct shelf {
  const struct items_face *face;
  fq_dispatch queue; /* what every face consists of */
  struct heap heap;
  size_t begun, ended;
  void *places[SHELF];
  fq_id ids[SHELF];
};

static bool shelf_holds(const struct shelf *s, const void *task, size_t number) {
  uint64_t found = 0;
  return (uintptr_t)task % s->face->align == 0 && item_read(task, s->face->size, &found) &&
         found == item_number_of(number, s->face->size);
}

static int shelf_work(void *task, void *ctx) {
  struct shelf *s = (struct shelf *)ctx;
  CHECK(s->begun < SHELF && shelf_holds(s, task, s->begun));
  s->places[s->begun] = task;
  s->ids[s->begun] = s->face->id(&s->queue, task);
  CHECK(s->face->task(&s->queue, s->ids[s->begun]) == task);
  s->begun++;
  return FQ_PENDING;
}

static void shelf_done(void *task, int error, void *ctx) {
  struct shelf *s = (struct shelf *)ctx;
  CHECK(error >= 0 && s->places[error] == task && shelf_holds(s, task, (size_t)error));
  s->ended++;
}

static void shelf_check(struct shelf *s) {
  for (size_t i = 0; i < s->begun; i++) {
    CHECK(s->face->task(&s->queue, s->ids[i]) == s->places[i]);
    CHECK(shelf_holds(s, s->places[i], i));
  }
}

/* The running tasks lie still, whole and aligned, however often there come to be more of them. */
static void check_items(struct shelf *s) {
  static _Alignas(64) unsigned char list[SHELF * sizeof(struct item4096)];
  static const size_t steps[] = {1, 2, 3, 10, SHELF};
  const fq_allocator memory = {heap_alloc, heap_free, &s->heap};
  fq_config config = {
      .worker = shelf_work, .done = shelf_done, .ctx = s, .concurrency = 1, .allocator = &memory};
  size_t size = s->face->size;
  for (size_t i = 0; i < SHELF; i++) {
    item_make(list + i * size, size, i);
  }
  CHECK(s->face->init(&s->queue, &config) == FQ_OK);
  CHECK(s->face->push(&s->queue, list, false) == FQ_OK);
  CHECK(s->face->push(&s->queue, list + 2 * size, false) == FQ_OK);
  CHECK(s->face->push(&s->queue, list + size, true) == FQ_OK);
  CHECK(s->face->push_n(&s->queue, list + 3 * size, SHELF - 3, NULL) == SHELF - 3);
  for (size_t i = 0; i < COUNT_OF(steps); i++) {
    CHECK(s->face->set_concurrency(&s->queue, steps[i]) == FQ_OK);
    CHECK(s->begun == steps[i]);
    shelf_check(s);
  }
  for (size_t i = 0; i < SHELF; i++) {
    size_t number = i * 7 % SHELF; /* each, in another order */
    CHECK(s->face->complete(&s->queue, s->ids[number], (int)number) == FQ_OK);
    CHECK(s->face->complete(&s->queue, s->ids[number], 0) == FQ_INVALID);
  }
  CHECK(s->ended == SHELF);
  CHECK(s->face->destroy(&s->queue) == FQ_OK);
  CHECK(s->heap.live == 0 && !s->heap.damaged);
}

static void items_of_all_sizes(void) {
  static struct shelf s;
  for (size_t i = 0; i < COUNT_OF(faces); i++) {
    memset(&s, 0, sizeof(s));
    s.face = faces[i];
    check_items(&s);
  }
}

/* -- Stack ------------------------------------------------------------------------------------- */

#ifdef TEST_QUICK
enum { CHAIN = 200000, CHAIN_AT_ONCE = 20000 };
#else
enum { CHAIN = 10000000, CHAIN_AT_ONCE = 200000 };
#endif

enum { STACK = 256 }; /* bytes that the calls of one callback may lie apart */

enum link { BY_WORKER, BY_WORKER_COMPLETED, BY_DONE, BY_EMPTY, BY_DRAIN, LINKS };

FQ_DISPATCH(links, uint32_t);

struct chain {
  links queue;
  enum link link;
  uint32_t next, ended;
  struct chain_span {
    uintptr_t low, high;
  } worker, done, state; /* where their stack lay */
  fq_id *ids;
};

static void chain_look(struct chain_span *span) {
  volatile char here = 0;
  uintptr_t at = (uintptr_t)&here;
  span->low = span->low == 0 || at < span->low ? at : span->low;
  span->high = at > span->high ? at : span->high;
}

static void chain_push(struct chain *c, enum link link) {
  if (c->link == link && c->next < CHAIN) {
    CHECK(links_push(&c->queue, c->next) == FQ_OK);
    c->next++;
  }
}

static int chain_work(void *task, void *ctx) {
  struct chain *c = (struct chain *)ctx;
  chain_look(&c->worker);
  chain_push(c, BY_WORKER);
  if (c->link == BY_WORKER_COMPLETED) {
    CHECK(links_complete(&c->queue, links_id(&c->queue, task), 0) == FQ_OK);
    chain_push(c, BY_WORKER_COMPLETED);
    return FQ_PENDING;
  }
  return 0;
}

static void chain_done(void *task, int error, void *ctx) {
  struct chain *c = (struct chain *)ctx;
  chain_look(&c->done);
  CHECK(*(uint32_t *)task == c->ended);
  c->ended++;
  if (error == 0) {
    chain_push(c, BY_DONE);
  }
}

static void chain_empty(void *ctx) {
  struct chain *c = (struct chain *)ctx;
  chain_look(&c->state);
  chain_push(c, BY_EMPTY);
}

static void chain_drain(void *ctx) {
  struct chain *c = (struct chain *)ctx;
  chain_look(&c->state);
  chain_push(c, BY_DRAIN);
}

static bool chain_is_flat(const struct chain *c) {
  return c->worker.high - c->worker.low < STACK && c->done.high - c->done.low < STACK &&
         c->state.high - c->state.low < STACK;
}

static void chain_check(struct chain *c) {
  CHECK(c->ended == c->next && c->next > 1);
  CHECK(chain_is_flat(c));
  CHECK(links_idle(&c->queue) && links_stats(&c->queue).submitted == c->next);
  CHECK(links_destroy(&c->queue) == FQ_OK);
}

static void chain_runs(enum link link) {
  struct chain c = {.link = link, .next = 1};
  fq_config config = {.worker = chain_work,
                      .done = chain_done,
                      .ctx = &c,
                      .concurrency = 1,
                      .on_empty = chain_empty,
                      .on_drain = chain_drain};
  CHECK(links_init(&c.queue, &config) == FQ_OK);
  links_pause(&c.queue);
  CHECK(links_push(&c.queue, 0) == FQ_OK);
  links_resume(&c.queue);
  CHECK(c.next == CHAIN);
  chain_check(&c);
}

static void stack_of_workers_that_push(void) { chain_runs(BY_WORKER); }
static void stack_of_workers_that_complete(void) { chain_runs(BY_WORKER_COMPLETED); }
static void stack_of_done_that_pushes(void) { chain_runs(BY_DONE); }
static void stack_of_empty_that_pushes(void) { chain_runs(BY_EMPTY); }
static void stack_of_drain_that_pushes(void) { chain_runs(BY_DRAIN); }

static int chain_wait(void *task, void *ctx) {
  struct chain *c = (struct chain *)ctx;
  chain_look(&c->worker);
  c->ids[*(uint32_t *)task] = links_id(&c->queue, task);
  return FQ_PENDING;
}

static void chain_complete_next(void *task, int error, void *ctx) {
  struct chain *c = (struct chain *)ctx;
  (void)error;
  chain_look(&c->done);
  CHECK(*(uint32_t *)task == c->ended);
  c->ended++;
  if (c->ended < c->next) {
    CHECK(links_complete(&c->queue, c->ids[c->ended], 0) == FQ_OK);
  }
}

/* Many run, and each is completed by the done of the one before. */
static void stack_of_done_that_completes(void) {
  static fq_id ids[CHAIN_AT_ONCE];
  struct chain c = {.ids = ids, .next = CHAIN_AT_ONCE};
  fq_config config = {
      .worker = chain_wait, .done = chain_complete_next, .ctx = &c, .concurrency = CHAIN_AT_ONCE};
  CHECK(links_init(&c.queue, &config) == FQ_OK);
  for (uint32_t i = 0; i < CHAIN_AT_ONCE; i++) {
    CHECK(links_push(&c.queue, i) == FQ_OK);
  }
  CHECK(links_running(&c.queue) == CHAIN_AT_ONCE);
  CHECK(links_complete(&c.queue, ids[0], 0) == FQ_OK);
  chain_check(&c);
}

/* A bulk that is started from one call, and dropped by one. */
static void stack_of_a_bulk(void) {
  static uint32_t list[CHAIN_AT_ONCE];
  struct chain c = {.link = LINKS, .next = CHAIN_AT_ONCE};
  fq_config config = {.worker = chain_work, .done = chain_done, .ctx = &c, .concurrency = 3};
  for (uint32_t i = 0; i < CHAIN_AT_ONCE; i++) {
    list[i] = i;
  }
  CHECK(links_init(&c.queue, &config) == FQ_OK);
  CHECK(links_push_n(&c.queue, list, CHAIN_AT_ONCE, NULL) == CHAIN_AT_ONCE);
  CHECK(c.ended == CHAIN_AT_ONCE && chain_is_flat(&c));
  c.ended = 0;
  c.done = (struct chain_span){0, 0};
  links_pause(&c.queue);
  CHECK(links_push_n(&c.queue, list, CHAIN_AT_ONCE, NULL) == CHAIN_AT_ONCE);
  CHECK(links_cancel_if(&c.queue, NULL, NULL) == CHAIN_AT_ONCE);
  CHECK(c.ended == CHAIN_AT_ONCE && chain_is_flat(&c));
  CHECK(links_destroy(&c.queue) == FQ_OK);
}

/* -- Memory ------------------------------------------------------------------------------------ */

static void steady_work_allocates_nothing(void) {
  for (size_t limit = 0; limit <= 16; limit += 16) {
    struct desk *d = desk_open(4, limit);
    d->quiet = true;
    size_t calls = 0;
    for (unsigned i = 0; i < 100000; i++) {
      if (i == 200) {
        calls = d->heap.calls; /* by then the storage has its size */
      }
      bool front = i % 7 == 0;
      CHECK(push_job(d, (struct job){.number = i, .pending = i % 2 == 0}, front) == FQ_OK);
      if (i % 16 == 15) {
        CHECK(push_many(d, i + 1, 3, true, NULL) == 3);
        settle(d);
      }
    }
    CHECK(limit == 0 || calls == 2); /* the queue and the places: all that init got */
    CHECK(d->heap.calls == calls);
    settle(d);
    desk_close(d);
  }
}

static void default_memory(void) {
  jobs q;
  int count = 0;
  CHECK(jobs_init(&q, &(fq_config){.worker = count_up, .ctx = &count, .concurrency = 1}) == FQ_OK);
  jobs_pause(&q);
  for (int i = 0; i < 1000; i++) {
    CHECK(jobs_push(&q, (struct job){.error = i}) == FQ_OK);
  }
  jobs_resume(&q);
  CHECK(count == 1000);
  CHECK(jobs_destroy(&q) == FQ_OK);
}

/* Without memory nothing is lost, and with it again everything goes on. */
static void no_memory(void) {
  struct desk *d = desk_open(1, 0);
  fq_status why = FQ_OK;
  d->heap.refuse = true;
  CHECK(push_long(d, 0) == FQ_NOMEM);
  CHECK(push_job(d, (struct job){.number = 0}, true) == FQ_NOMEM);
  CHECK(push_many(d, 0, 3, true, &why) == 0 && why == FQ_NOMEM);
  CHECK(did(d, "") && jobs_idle(&d->queue) && jobs_stats(&d->queue).submitted == 0);
  d->heap.refuse = false;
  CHECK(push_many(d, 0, 3, true, &why) == 3 && why == FQ_OK);
  d->heap.refuse = true;
  size_t accepted = push_many(d, 3, 200, true, &why);
  CHECK(accepted < 200 && why == FQ_NOMEM); /* a prefix: what the storage holds */
  CHECK(jobs_count(&d->queue) == 2 + accepted);
  CHECK(push_long(d, 203) == FQ_NOMEM);
  CHECK(set_concurrency(d, 100) == FQ_NOMEM);
  CHECK(jobs_running(&d->queue) == 1);
  CHECK(complete(d, 0) == FQ_OK);
  CHECK(jobs_running(&d->queue) == 1); /* still one at once */
  CHECK(push_long(d, 203) == FQ_OK);
  size_t count = jobs_count(&d->queue);
  size_t dropped = jobs_cancel_if(&d->queue, NULL, NULL);
  CHECK(dropped <= count && jobs_count(&d->queue) == count - dropped);
  d->quiet = true;
  settle(d);
  CHECK(push_many(d, 300, 3, true, NULL) == 3);
  CHECK(complete(d, 300) == FQ_OK && complete(d, 301) == FQ_OK && complete(d, 302) == FQ_OK);
  jobs_pause(&d->queue);
  CHECK(push_many(d, 400, 3, true, NULL) == 3);
  desk_close(d); /* which needs none */
}

static void use_up_memory(struct desk *d, struct job *job) {
  if (job->number == 0) {
    fq_status why = FQ_OK;
    d->heap.refuse = true;
    size_t accepted = push_many(d, 1, 200, false, &why);
    CHECK(accepted < 200 && why == FQ_NOMEM);
    CHECK(push_short(d, 201) == FQ_NOMEM);
    CHECK(set_concurrency(d, 50) == FQ_NOMEM);
    CHECK(jobs_count(&d->queue) == accepted);
  }
}

static void no_memory_inside_a_callback(void) {
  struct desk *d = desk_open(2, 0);
  d->at_worker = use_up_memory;
  d->quiet = true;
  CHECK(push_long(d, 0) == FQ_OK);
  CHECK(jobs_count(&d->queue) == 0 && jobs_running(&d->queue) == 1);
  d->heap.refuse = false;
  CHECK(push_short(d, 201) == FQ_OK);
  settle(d);
  CHECK(d->accepted[1] == 1 && d->accepted[200] == 0);
  desk_close(d);
}

/* Concurrency that rises one by one needs memory a few times, not each time. */
static void places_are_amortised(void) {
  struct desk *d = desk_open(1, 4);
  size_t calls = d->heap.calls;
  d->quiet = true;
  for (unsigned i = 0; i < 500; i++) {
    CHECK(set_concurrency(d, i + 1) == FQ_OK);
    CHECK(push_long(d, i) == FQ_OK);
  }
  CHECK(jobs_running(&d->queue) == 500);
  CHECK(d->heap.calls <= calls + 10);
  settle(d);
  desk_close(d);
}

/* A step may fail once, when the allocation that it made was the one to fail; then it changed
 * nothing and can be made again. */
static bool may_fail(const struct desk *d, fq_status status) {
  return status == FQ_OK || (status == FQ_NOMEM && d->heap.calls >= d->heap.fail_at);
}

static void use_memory(struct desk *d, size_t limit) {
  fq_config config = desk_config(d, 2, limit);
  fq_status status = jobs_init(&d->queue, &config);
  if (status != FQ_OK) {
    CHECK(may_fail(d, status) && d->heap.live == 0);
    check_dead(&d->queue);
    CHECK(jobs_init(&d->queue, &config) == FQ_OK);
  }
  for (unsigned i = 0; i < 20; i++) {
    size_t count = jobs_count(&d->queue), running = jobs_running(&d->queue);
    status = push_job(d, (struct job){.number = i, .pending = true}, i % 3 == 0);
    if (status != FQ_OK) {
      CHECK(may_fail(d, status));
      CHECK(jobs_count(&d->queue) == count && jobs_running(&d->queue) == running);
      CHECK(push_long(d, i) == FQ_OK);
    }
  }
  size_t accepted = push_many(d, 20, 30, true, &status);
  CHECK(may_fail(d, status) && (accepted == 30) == (status == FQ_OK));
  CHECK(push_many(d, 20 + (unsigned)accepted, 30 - accepted, true, &status) == 30 - accepted);
  CHECK(jobs_count(&d->queue) + jobs_running(&d->queue) == 50);
  for (size_t concurrency = 3; concurrency < 10; concurrency += 3) {
    size_t running = jobs_running(&d->queue);
    status = set_concurrency(d, concurrency);
    CHECK(may_fail(d, status));
    CHECK(jobs_running(&d->queue) == (status == FQ_OK ? concurrency : running));
    CHECK(set_concurrency(d, concurrency) == FQ_OK);
    CHECK(jobs_running(&d->queue) == concurrency);
  }
  size_t count = jobs_count(&d->queue), dropped = jobs_cancel_if(&d->queue, NULL, NULL);
  CHECK(dropped == count || d->heap.calls >= d->heap.fail_at);
  CHECK(jobs_count(&d->queue) == count - dropped);
  CHECK(jobs_cancel_if(&d->queue, NULL, NULL) == count - dropped);
  CHECK(push_many(d, 100, 3, true, NULL) == 3);
  settle(d);
  jobs_pause(&d->queue);
  CHECK(push_many(d, 200, 3, true, NULL) == 3);
  desk_close(d);
}

static void each_allocation_fails_once(void) {
  for (size_t limit = 0; limit <= 64; limit += 64) {
    size_t k = 0;
    struct desk *d;
    do {
      d = desk_open(2, limit);
      CHECK(jobs_destroy(&d->queue) == FQ_OK);
      memset(&d->heap, 0, sizeof(d->heap));
      d->quiet = true;
      d->heap.fail_at = ++k;
      use_memory(d, limit);
    } while (d->heap.calls >= k);
    CHECK(k > 6); /* init, pushes that grow, concurrency, cancels */
  }
}

int main(void) {
  RUN(dead_objects);
  RUN(bad_arguments_of_init);
  RUN(bad_arguments);
  RUN(config_is_copied);
  RUN(callbacks_may_be_left_out);
  RUN(starts_at_once_and_in_order);
  RUN(limit_counts_what_waits);
  RUN(bulk_beyond_the_limit);
  RUN(bulk_that_is_closed);
  RUN(limit_inside_a_callback);
  RUN(tasks_that_push_themselves);
  RUN(concurrency_up_and_down);
  RUN(concurrency_in_callbacks);
  RUN(complete_in_any_order);
  RUN(errors_reach_done);
  RUN(complete_inside_the_worker);
  RUN(complete_others_inside_a_worker);
  RUN(stale_handles);
  RUN(handles_that_never_were);
  RUN(handles_are_unique);
  RUN(no_handle_for_other_pointers);
  RUN(items_of_all_sizes);
  RUN(stack_of_workers_that_push);
  RUN(stack_of_workers_that_complete);
  RUN(stack_of_done_that_pushes);
  RUN(stack_of_empty_that_pushes);
  RUN(stack_of_drain_that_pushes);
  RUN(stack_of_done_that_completes);
  RUN(stack_of_a_bulk);
  RUN(steady_work_allocates_nothing);
  RUN(default_memory);
  RUN(no_memory);
  RUN(no_memory_inside_a_callback);
  RUN(places_are_amortised);
  RUN(each_allocation_fails_once);
  return test_end();
}
