/* group.c: fq_group and fq_jobs, with the system watched. */
#define FASTQ_IMPLEMENTATION
#define FASTQ_MALLOC(size) sys_malloc(size)
#define FASTQ_FREE(p)      sys_free(p)
#include "system.h"

#include "test.h"
#include "threads.h"

#include <string.h>

/* -- Groups: what they answer ------------------------------------------------------------------ */

static void dead_groups(void) {
  fq_group g;
  memset(&g, 0, sizeof(g));
  for (int i = 0; i < 2; i++) {
    fq_group *dead = i == 0 ? &g : NULL;
    fq_group_add(dead, 1);
    fq_group_done(dead);
    CHECK(fq_group_wait(dead, FQ_FOREVER) == FQ_INVALID);
    CHECK(fq_group_wait(dead, FQ_NOWAIT) == FQ_INVALID);
    fq_group_destroy(dead);
  }
  CHECK(fq_group_init(NULL) == FQ_INVALID);
  for (int again = 0; again < 2; again++) {
    CHECK(fq_group_init(&g) == FQ_OK && fq_group_wait(&g, FQ_FOREVER) == FQ_OK);
    fq_group_destroy(&g);
    fq_group_destroy(&g);
    CHECK(fq_group_wait(&g, FQ_FOREVER) == FQ_INVALID);
    CHECK(sys_is_tidy());
  }
}

static void group_counts(void) {
  fq_group g;
  CHECK(fq_group_init(&g) == FQ_OK);
  fq_group_done(&g); /* one too many, of none */
  CHECK(fq_group_wait(&g, FQ_NOWAIT) == FQ_OK);
  for (size_t n = 0; n <= 5; n++) {
    fq_group_add(&g, n);
    fq_group_add(&g, 0);
    for (size_t i = 0; i < n; i++) {
      CHECK(fq_group_wait(&g, FQ_NOWAIT) == FQ_TIMEOUT);
      fq_group_done(&g);
    }
    CHECK(fq_group_wait(&g, FQ_NOWAIT) == FQ_OK && fq_group_wait(&g, 1) == FQ_OK);
    CHECK(fq_group_wait(&g, FQ_FOREVER) == FQ_OK);
    fq_group_done(&g); /* has no credit with the next */
  }
  fq_group_destroy(&g);
  CHECK(sys_is_tidy());
}

static void group_timeouts(void) {
  static const int64_t timeouts[] = {1, 50 * MICROSECOND, 3 * MILLISECOND, 20 * MILLISECOND};
  fq_group g;
  CHECK(fq_group_init(&g) == FQ_OK);
  fq_group_add(&g, 1);
  for (size_t i = 0; i < 2 * COUNT_OF(timeouts); i++) {
    atomic_store(&sys.restless, i % 2 != 0); /* wakes without a cause bring nothing forward */
    int64_t start = now_ns();
    CHECK(fq_group_wait(&g, timeouts[i / 2]) == FQ_TIMEOUT);
    CHECK(now_ns() - start >= timeouts[i / 2]);
  }
  atomic_store(&sys.restless, false);
  fq_group_done(&g);
  CHECK(fq_group_wait(&g, INT64_MAX) == FQ_OK);
  fq_group_destroy(&g);
  CHECK(sys_is_tidy());
}

static void groups_that_cannot_be(void) {
  size_t k = 0;
  int refused;
  do {
    fq_group g;
    sys_refuse(++k);
    fq_status status = fq_group_init(&g);
    refused = atomic_load(&sys.refused);
    if (refused != SYS_NOTHING) {
      CHECK(status == FQ_SYSTEM && fq_group_wait(&g, FQ_FOREVER) == FQ_INVALID);
    } else {
      CHECK(status == FQ_OK);
      fq_group_add(&g, 1);
      status = fq_group_wait(&g, 1);
      refused = atomic_load(&sys.refused);
      CHECK(status == (refused == SYS_NOTHING ? FQ_TIMEOUT : FQ_SYSTEM));
      fq_group_done(&g);
      CHECK(fq_group_wait(&g, FQ_FOREVER) == FQ_OK); /* that one was not counted, or linked */
    }
    sys_refuse(0);
    fq_group_destroy(&g);
    CHECK(sys_is_tidy());
  } while (refused != SYS_NOTHING);
  CHECK(k > 2);
}

/* -- Groups: threads that wait ----------------------------------------------------------------- */

enum { WAITERS = 6 };

struct waiter {
  fq_group *group;
  int64_t timeout, took;
  fq_status status;
};

static void *wait_main(void *arg) {
  struct waiter *w = (struct waiter *)arg;
  int64_t start = now_ns();
  w->status = fq_group_wait(w->group, w->timeout);
  w->took = now_ns() - start;
  return NULL;
}

static void start_waiters(struct crew *crew, struct waiter *waiters, fq_group *g, int64_t timeout) {
  for (size_t i = 0; i < WAITERS; i++) {
    waiters[i] = (struct waiter){.group = g, .timeout = i % 2 == 0 ? timeout : INT64_MAX};
    crew_add(crew, wait_main, &waiters[i]);
  }
  UNTIL(atomic_load(&sys.sleeping) == WAITERS);
}

/* Everyone is let go, although the group is in use again before any of them has come to look. */
static void all_waiters_leave(void) {
  for (size_t round = 0; round < ROUNDS(200); round++) {
    struct waiter waiters[WAITERS];
    struct crew crew = {0};
    fq_group g;
    CHECK(fq_group_init(&g) == FQ_OK);
    fq_group_add(&g, 2);
    start_waiters(&crew, waiters, &g, FQ_FOREVER);
    sys_watch(&g, sizeof(g));
    fq_group_done(&g);
    CHECK(atomic_load(&sys.wakes) == 0 && atomic_load(&sys.sleeping) == WAITERS);
    fq_group_done(&g);
    fq_group_add(&g, 1);
    CHECK(atomic_load(&sys.wakes) == WAITERS);
    crew_join(&crew);
    for (size_t i = 0; i < WAITERS; i++) {
      CHECK(waiters[i].status == FQ_OK);
    }
    CHECK(fq_group_wait(&g, FQ_NOWAIT) == FQ_TIMEOUT);
    fq_group_done(&g);
    CHECK(fq_group_wait(&g, FQ_FOREVER) == FQ_OK);
    fq_group_destroy(&g);
    CHECK(sys_is_tidy());
  }
}

/* Time is up while the last done comes: either answer, but none too early and nobody stays. */
static void time_is_up_when_done_comes(void) {
  for (size_t round = 0; round < ROUNDS(300); round++) {
    struct waiter waiters[2];
    struct crew crew = {0};
    fq_group g;
    int64_t timeout = 200 * MICROSECOND;
    CHECK(fq_group_init(&g) == FQ_OK);
    fq_group_add(&g, 1);
    int64_t moment = now_ns() + timeout + (int64_t)(round % 30) * 5 * MICROSECOND;
    for (size_t i = 0; i < COUNT_OF(waiters); i++) {
      waiters[i] = (struct waiter){.group = &g, .timeout = timeout};
      crew_add(&crew, wait_main, &waiters[i]);
    }
    UNTIL(now_ns() >= moment);
    fq_group_done(&g);
    crew_join(&crew);
    for (size_t i = 0; i < COUNT_OF(waiters); i++) {
      CHECK(waiters[i].status == FQ_OK ||
            (waiters[i].status == FQ_TIMEOUT && waiters[i].took >= timeout));
    }
    fq_group_destroy(&g);
    CHECK(sys_is_tidy());
  }
}

/* A waiter whose time is up, and who has yet to take the lock: it is told of a done that comes
 * before, and of no other. */
static void done_comes_for_a_leaver(void) {
  for (int reused = 0; reused < 2; reused++) {
    struct crew crew = {0};
    fq_group g;
    CHECK(fq_group_init(&g) == FQ_OK);
    fq_group_add(&g, 1);
    struct waiter waiter = {.group = &g, .timeout = MILLISECOND};
    sys_watch(&g, sizeof(g));
    atomic_store(&sys.detains, true);
    crew_add(&crew, wait_main, &waiter);
    UNTIL(atomic_load(&sys.detained) == 1);
    fq_group_done(&g);
    CHECK(atomic_load(&sys.wakes) == 0); /* it needs none */
    fq_group_add(&g, (size_t)reused);
    atomic_store(&sys.detains, false);
    crew_join(&crew);
    CHECK(waiter.status == FQ_OK && waiter.took >= MILLISECOND);
    fq_group_done(&g);
    CHECK(fq_group_wait(&g, FQ_NOWAIT) == FQ_OK);
    fq_group_destroy(&g);
    CHECK(sys_is_tidy());
  }
}

struct rounds {
  fq_group group;
  atomic_size_t round;
};

enum { REUSES = 2000 };

static void *follow_rounds(void *arg) {
  struct rounds *r = (struct rounds *)arg;
  size_t seen = 0;
  while (seen < REUSES) {
    CHECK(fq_group_wait(&r->group, FQ_FOREVER) == FQ_OK);
    size_t now = atomic_load(&r->round);
    CHECK(now >= seen);
    seen = now;
  }
  return NULL;
}

/* The group goes from round to round while its waiters still return from an earlier one. */
static void group_in_use_again(void) {
  static struct rounds r;
  struct crew crew = {0};
  atomic_store(&r.round, 0);
  CHECK(fq_group_init(&r.group) == FQ_OK);
  for (size_t i = 0; i < 3; i++) {
    crew_add(&crew, follow_rounds, &r);
  }
  for (size_t i = 0; i < REUSES; i++) {
    fq_group_add(&r.group, 1 + i % 2);
    atomic_fetch_add(&r.round, 1);
    fq_group_done(&r.group);
    if (i % 2 != 0) {
      fq_group_done(&r.group);
    }
  }
  crew_join(&crew);
  fq_group_destroy(&r.group);
  CHECK(sys_is_tidy());
}

/* -- Groups and tasks -------------------------------------------------------------------------- */

struct part {
  fq_group *group;
  int value; /* no atomic: who waited sees what was written before done */
};

static void do_part(void *arg) {
  struct part *part = (struct part *)arg;
  part->value++;
  fq_group_done(part->group);
}

/* A group on the stack, which goes as soon as the wait is over: the last done may not have returned
 * yet. */
static void group_goes_right_after_wait(void) {
  fq_jobs p;
  fq_config config = {.threads = 2};
  CHECK(fq_jobs_init(&p, &config) == FQ_OK);
  for (size_t round = 0; round < ROUNDS(5000); round++) {
    struct part parts[3];
    size_t n = 1 + round % 3;
    fq_group g;
    CHECK(fq_group_init(&g) == FQ_OK);
    fq_group_add(&g, n);
    for (size_t i = 0; i < n; i++) {
      parts[i] = (struct part){.group = &g, .value = 7};
      CHECK(fq_jobs_run(&p, do_part, &parts[i]) == FQ_OK);
    }
    if (round % 2 == 0) {
      CHECK(fq_group_wait(&g, FQ_FOREVER) == FQ_OK);
    } else {
      while (fq_group_wait(&g, FQ_NOWAIT) != FQ_OK) {
      }
    }
    for (size_t i = 0; i < n; i++) {
      CHECK(parts[i].value == 8);
    }
    fq_group_destroy(&g);
    memset(&g, 0xDD, sizeof(g));
    memset(parts, 0xDD, sizeof(parts));
  }
  CHECK(fq_jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
  CHECK(sys_is_tidy());
}

/* A worker of the only thread waits for tasks of its own pool by helping. */
struct fork {
  fq_jobs *pool;
  fq_group group;
  int sum;
};

static void add_one(void *arg) {
  struct fork *f = (struct fork *)arg;
  f->sum++;
  fq_group_done(&f->group);
}

static void fork_and_join(void *arg) {
  struct fork *f = (struct fork *)arg;
  fq_group_add(&f->group, 10);
  for (int i = 0; i < 10; i++) {
    CHECK(fq_jobs_run(f->pool, add_one, f) == FQ_OK);
  }
  while (fq_group_wait(&f->group, FQ_NOWAIT) == FQ_TIMEOUT) {
    CHECK(fq_jobs_help(f->pool));
  }
  f->sum *= 2;
}

static void task_waits_for_a_group(void) {
  struct fork f = {.sum = 0};
  fq_jobs p;
  fq_config config = {.threads = 1};
  f.pool = &p;
  CHECK(fq_jobs_init(&p, &config) == FQ_OK && fq_group_init(&f.group) == FQ_OK);
  CHECK(fq_jobs_run(&p, fork_and_join, &f) == FQ_OK);
  CHECK(fq_jobs_wait(&p, FQ_FOREVER) == FQ_OK && f.sum == 20);
  fq_group_destroy(&f.group);
  CHECK(fq_jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
  CHECK(sys_is_tidy());
}

/* -- Jobs -------------------------------------------------------------------------------------- */

static atomic_bool gate;
static atomic_int calls, dones;

static void stop_here(void *arg) {
  atomic_fetch_add(&calls, *(int *)arg);
  UNTIL(atomic_load(&gate));
}

static void count_call(void *arg) { atomic_fetch_add(&calls, *(int *)arg); }

static void count_done(void *task, int error, void *ctx) {
  const fq_job *job = (const fq_job *)task;
  CHECK(error == 0 || error == FQ_CANCELED);
  CHECK((job->fn == count_call || job->fn == stop_here) && ctx == &dones);
  atomic_fetch_add(&dones, 1);
}

static void *run_main(void *arg) {
  static int one = 1;
  CHECK(fq_jobs_run((fq_jobs *)arg, count_call, &one) == FQ_OK);
  return NULL;
}

static void jobs_run_functions(void) {
  int ten = 10, one = 1;
  struct crew crew = {0};
  fq_jobs p;
  fq_config config = {.threads = 1, .limit = 2, .done = count_done, .ctx = &dones};
  atomic_store(&gate, false);
  atomic_store(&calls, 0);
  atomic_store(&dones, 0);
  CHECK(fq_jobs_init(&p, &config) == FQ_OK);
  CHECK(fq_jobs_run(&p, NULL, &one) == FQ_INVALID);
  CHECK(fq_jobs_run(&p, stop_here, &ten) == FQ_OK);
  UNTIL(atomic_load(&calls) == 10);
  CHECK(fq_jobs_run(&p, count_call, &one) == FQ_OK);
  CHECK(fq_jobs_push(&p, (fq_job){count_call, &one}, FQ_NOWAIT) == FQ_OK);
  CHECK(fq_jobs_push(&p, (fq_job){count_call, &one}, FQ_NOWAIT) == FQ_FULL);
  crew_add(&crew, run_main, &p); /* waits while the pool is full */
  UNTIL(atomic_load(&sys.sleeping) == 1);
  CHECK(fq_jobs_count(&p) == 2);
  atomic_store(&gate, true);
  crew_join(&crew);
  CHECK(fq_jobs_wait(&p, FQ_FOREVER) == FQ_OK);
  CHECK(atomic_load(&calls) == 13 && atomic_load(&dones) == 4);
  fq_jobs_close(&p);
  CHECK(fq_jobs_run(&p, count_call, &one) == FQ_CLOSED);
  CHECK(fq_jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
  CHECK(fq_jobs_run(&p, count_call, &one) == FQ_INVALID);
  CHECK(fq_jobs_run(NULL, count_call, &one) == FQ_INVALID);
  CHECK(atomic_load(&calls) == 13 && sys_is_tidy());
}

static void run_from_inside(void *arg) {
  int one = 1;
  fq_jobs *p = (fq_jobs *)arg;
  CHECK(fq_jobs_run(p, count_call, &calls) == FQ_OK);
  CHECK(fq_jobs_run(p, count_call, &one) == FQ_DEADLOCK); /* full */
  CHECK(fq_jobs_cancel_if(p, NULL, NULL) == 1);
}

static int own_worker(void *task, void *ctx) {
  const fq_job *job = (const fq_job *)task;
  CHECK(ctx == &dones);
  job->fn(job->arg);
  atomic_fetch_add(&calls, 100);
  return 0;
}

static void jobs_with_a_worker_of_their_own(void) {
  int one = 1;
  fq_jobs p;
  fq_config config = {.threads = 1, .limit = 1};
  atomic_store(&calls, 0);
  CHECK(fq_jobs_init(&p, &config) == FQ_OK);
  CHECK(fq_jobs_run(&p, run_from_inside, &p) == FQ_OK);
  CHECK(fq_jobs_wait(&p, FQ_FOREVER) == FQ_OK);
  CHECK(fq_jobs_destroy(&p, FQ_DRAIN) == FQ_OK && atomic_load(&calls) == 0);
  config = (fq_config){.threads = 2, .worker = own_worker, .ctx = &dones};
  CHECK(fq_jobs_init(&p, &config) == FQ_OK);
  CHECK(fq_jobs_run(&p, count_call, &one) == FQ_OK);
  CHECK(fq_jobs_destroy(&p, FQ_DRAIN) == FQ_OK && atomic_load(&calls) == 101);
  CHECK(fq_jobs_init(&p, NULL) == FQ_INVALID && fq_jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
  CHECK(sys_is_tidy());
}

int main(void) {
  RUN(dead_groups);
  RUN(group_counts);
  RUN(group_timeouts);
  RUN(groups_that_cannot_be);
  RUN(all_waiters_leave);
  RUN(time_is_up_when_done_comes);
  RUN(done_comes_for_a_leaver);
  RUN(group_in_use_again);
  RUN(group_goes_right_after_wait);
  RUN(task_waits_for_a_group);
  RUN(jobs_run_functions);
  RUN(jobs_with_a_worker_of_their_own);
  return test_end();
}
