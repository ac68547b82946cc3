/* dispatch_desk.h: a dispatch with a log of all that it called, in order, and checks of what must
 * hold in each callback. The file that includes it has the implementation. */
#ifndef DISPATCH_DESK_H_INCLUDED
#define DISPATCH_DESK_H_INCLUDED

#include "heap.h"
#include "test.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

struct job {
  unsigned number;
  int error;    /* what the worker returns, unless */
  bool pending; /*   it is completed later */
};
FQ_DISPATCH(jobs, struct job);

enum { JOBS = 512 };

/* A dispatch, what it was asked, and what it did. The hooks are called inside the callbacks. */
struct desk {
  jobs queue;
  struct heap heap;
  fq_allocator memory;
  size_t concurrency, limit; /* as they were last set */
  char log[2048];
  size_t length;
  unsigned accepted[JOBS], started[JOBS], ended[JOBS], canceled[JOBS]; /* how often */
  size_t starts, ends;
  bool backlog;
  uint64_t drained; /* so many had been submitted at the last drain */
  fq_id ids[JOBS];
  bool in_done, in_empty, quiet; /* quiet: nothing is logged */
  size_t granted; /* the concurrency when on_empty lowered it: its task has had its place before */
  void (*at_worker)(struct desk *, struct job *);
  void (*at_done)(struct desk *, struct job *, int error);
  void (*at_saturated)(struct desk *);
  void (*at_empty)(struct desk *);
  void (*at_drain)(struct desk *);
};

/* -- The log: "+A" A starts, "-A" it has ended, "-A:5" with an error, "xA" it is canceled, "S", "E"
 * and "D": saturated, empty and drain ---------------------------------------------------------- */

static inline void desk_log(struct desk *d, char what, int number, int error) {
  size_t room = sizeof(d->log) - d->length;
  int n = 0;
  if (number < 0) {
    n = snprintf(d->log + d->length, room, " %c", what);
  } else if (error == 0) {
    n = snprintf(d->log + d->length, room, " %c%c", what, 'A' + number % 26);
  } else {
    n = snprintf(d->log + d->length, room, " %c%c:%d", what, 'A' + number % 26, error);
  }
  d->length += (size_t)n < room ? (size_t)n : 0;
}

/* Is this all that happened since the last look? */
static inline bool did(struct desk *d, const char *expected) {
  const char *log = d->length > 0 ? d->log + 1 : "";
  bool same = strcmp(log, expected) == 0;
  if (!same) {
    printf("expected: %s\n     did: %s\n", expected, log);
  }
  d->length = 0;
  d->log[0] = '\0';
  return same;
}

static inline bool same_job(const struct job *a, const struct job *b) {
  return a->number == b->number && a->error == b->error && a->pending == b->pending;
}

/* -- The callbacks ----------------------------------------------------------------------------- */

static inline void desk_look(struct desk *d) {
  fq_stats s = jobs_stats(&d->queue);
  size_t count = jobs_count(&d->queue), running = jobs_running(&d->queue);
  CHECK(d->limit == 0 || count <= d->limit);
  CHECK(s.submitted == s.completed + s.canceled + running + count);
  CHECK(s.failed <= s.completed);
  CHECK(s.completed == d->ends);
  CHECK(jobs_idle(&d->queue) == (count == 0 && running == 0));
}

static int desk_work(void *task, void *ctx) {
  struct desk *d = (struct desk *)ctx;
  struct job *job = (struct job *)task;
  struct job copy = *job;
  d->starts++;
  d->started[copy.number % JOBS]++;
  if (!d->quiet) {
    desk_log(d, '+', (int)copy.number, 0);
  }
  desk_look(d);
  CHECK(jobs_running(&d->queue) <= (d->granted > 0 ? d->granted : d->concurrency));
  d->granted = 0;
  CHECK(jobs_running(&d->queue) == d->starts - d->ends);
  fq_id id = jobs_id(&d->queue, task);
  CHECK(id != 0 && jobs_task(&d->queue, id) == task);
  d->ids[copy.number % JOBS] = id;
  if (d->at_worker != NULL) {
    d->at_worker(d, job);
    CHECK(same_job(job, &copy));
  }
  return copy.pending ? FQ_PENDING : copy.error;
}

static void desk_done(void *task, int error, void *ctx) {
  struct desk *d = (struct desk *)ctx;
  struct job *job = (struct job *)task;
  struct job copy = *job;
  bool canceled = error == FQ_CANCELED;
  desk_look(d);
  (canceled ? d->canceled : d->ended)[copy.number % JOBS]++;
  if (!d->quiet) {
    desk_log(d, canceled ? 'x' : '-', (int)copy.number, canceled ? 0 : error);
  }
  if (!canceled) {
    fq_id id = d->ids[copy.number % JOBS];
    CHECK(!d->in_done); /* never inside each other */
    d->in_done = true;
    CHECK(jobs_task(&d->queue, id) == NULL);
    CHECK(jobs_complete(&d->queue, id, 77) == FQ_INVALID);
    CHECK(jobs_running(&d->queue) == d->starts - d->ends);
  } else {
    CHECK(jobs_id(&d->queue, task) == 0);
  }
  if (d->at_done != NULL) {
    d->at_done(d, job, error);
    CHECK(same_job(job, &copy));
  }
  if (!canceled) {
    d->in_done = false;
    d->ends++;
  }
}

static inline void desk_state(struct desk *d, char what, void (*hook)(struct desk *)) {
  desk_look(d);
  if (!d->quiet) {
    desk_log(d, what, -1, 0);
  }
  if (hook != NULL) {
    hook(d);
  }
}

static void desk_saturated(void *ctx) {
  struct desk *d = (struct desk *)ctx;
  CHECK(jobs_count(&d->queue) > 0);
  CHECK(!d->backlog); /* saturated and empty take turns */
  d->backlog = true;
  desk_state(d, 'S', d->at_saturated);
}

static void desk_empty(void *ctx) {
  struct desk *d = (struct desk *)ctx;
  CHECK(jobs_count(&d->queue) == 0);
  CHECK(d->backlog);
  d->backlog = false;
  d->in_empty = true;
  desk_state(d, 'E', d->at_empty);
  d->in_empty = false;
}

static void desk_drain(void *ctx) {
  struct desk *d = (struct desk *)ctx;
  fq_stats s = jobs_stats(&d->queue);
  CHECK(jobs_idle(&d->queue) && d->starts == d->ends);
  CHECK(!d->backlog);
  CHECK(s.submitted > d->drained); /* something was done since the last drain */
  d->drained = s.submitted;
  desk_state(d, 'D', d->at_drain);
}

/* -- The desk's verbs -------------------------------------------------------------------------- */

static inline fq_config desk_config(struct desk *d, size_t concurrency, size_t limit) {
  return (fq_config){.worker = desk_work,
                     .done = desk_done,
                     .ctx = d,
                     .concurrency = concurrency,
                     .limit = limit,
                     .on_saturated = desk_saturated,
                     .on_empty = desk_empty,
                     .on_drain = desk_drain,
                     .allocator = &d->memory};
}

static inline struct desk *desk_open(size_t concurrency, size_t limit) {
  static struct desk d;
  memset(&d, 0, sizeof(d));
  d.memory = (fq_allocator){heap_alloc, heap_free, &d.heap};
  d.concurrency = concurrency;
  d.limit = limit;
  fq_config config = desk_config(&d, concurrency, limit);
  CHECK(jobs_init(&d.queue, &config) == FQ_OK);
  return &d;
}

static inline fq_status push_job(struct desk *d, struct job job, bool front) {
  fq_status status = front ? jobs_push_front(&d->queue, job) : jobs_push(&d->queue, job);
  d->accepted[job.number % JOBS] += status == FQ_OK;
  return status;
}

/* One that ends at once, and one that ends when it is completed. */
static inline fq_status push_short(struct desk *d, unsigned number) {
  return push_job(d, (struct job){.number = number}, false);
}

static inline fq_status push_long(struct desk *d, unsigned number) {
  return push_job(d, (struct job){.number = number, .pending = true}, false);
}

/* The jobs first, first + 1, ... */
static inline size_t push_many(struct desk *d, unsigned first, size_t n, bool pending,
                               fq_status *why) {
  struct job list[JOBS];
  for (size_t i = 0; i < n; i++) {
    list[i] = (struct job){.number = first + (unsigned)i, .pending = pending};
  }
  size_t accepted = jobs_push_n(&d->queue, list, n, why);
  for (size_t i = 0; i < accepted; i++) {
    d->accepted[(first + i) % JOBS]++;
  }
  return accepted;
}

static inline fq_status complete(struct desk *d, unsigned number) {
  return jobs_complete(&d->queue, d->ids[number % JOBS], 0);
}

static inline fq_status set_concurrency(struct desk *d, size_t concurrency) {
  size_t before = d->concurrency;
  d->concurrency = concurrency; /* it holds for what the call starts */
  fq_status status = jobs_set_concurrency(&d->queue, concurrency);
  if (status != FQ_OK) {
    d->concurrency = before;
  } else if (d->in_empty && concurrency < before && d->granted == 0) {
    d->granted = before;
  }
  return status;
}

/* Completes whatever runs until nothing is left. */
static inline void settle(struct desk *d) {
  jobs_resume(&d->queue);
  for (unsigned i = 0; !jobs_idle(&d->queue); i++) {
    if (!CHECK(i < 100 * JOBS)) {
      return;
    }
    (void)complete(d, i);
  }
}

static inline void desk_close(struct desk *d) {
  CHECK(jobs_destroy(&d->queue) == FQ_OK);
  for (size_t i = 0; i < JOBS; i++) {
    CHECK(d->ended[i] + d->canceled[i] == d->accepted[i]);
    CHECK(d->started[i] == d->ended[i]);
  }
  CHECK(d->heap.live == 0 && !d->heap.damaged);
}

static inline bool has_number(const void *task, void *arg) {
  return ((const struct job *)task)->number == *(const unsigned *)arg;
}

static inline size_t cancel_number(struct desk *d, unsigned number) {
  return jobs_cancel_if(&d->queue, has_number, &number);
}

/* A pred or fn that notes that it was called. */
static inline bool note_call(const void *task, void *arg) {
  (void)task;
  *(bool *)arg = true;
  return true;
}

#endif
