/* pool_verbs.c: FQ_POOL: pause, concurrency, order, cancel_if, each, help and stats. */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"

#include "items.h"
#include "pool_book.h"
#include "test.h"
#include "threads.h"

typedef void act_fn(struct book *book, const struct job *job);

static void push_jobs(jobs *p, uint32_t first, size_t n, act_fn *act) {
  for (uint32_t i = 0; i < n; i++) {
    CHECK(jobs_push(p, (struct job){.number = first + i, .act = act}, FQ_FOREVER) == FQ_OK);
  }
}

/* All accepted tasks have ended, and the pool goes. */
static void finish(struct book *book, size_t accepted) {
  CHECK(jobs_wait(book->pool, FQ_FOREVER) == FQ_OK);
  CHECK(jobs_destroy(book->pool, FQ_DRAIN) == FQ_OK);
  book_check(book, accepted);
}

/* Opened with one thread, which is in task 0 and stays there until that is opened. */
static bool start_busy(struct book *book, jobs *p, fq_config config) {
  config.threads = 1;
  if (!book_start(book, p, config)) {
    return false;
  }
  push_jobs(p, 0, 1, stop_until_opened);
  UNTIL(atomic_load(&book->started) == 1);
  return true;
}

/* The numbers of the waiting tasks, as name_each or name_cancel_if shows them. */
struct seen {
  uint32_t numbers[64];
  size_t n, stop_at;          /* stops at so many, if that is not 0 */
  uint32_t divisor, leftover; /* to be cancelled: number % divisor == leftover */
};

static bool see(const void *task, void *arg) {
  struct seen *seen = (struct seen *)arg;
  if (CHECK(seen->n < COUNT_OF(seen->numbers))) {
    seen->numbers[seen->n++] = ((const struct job *)task)->number;
  }
  return seen->n != seen->stop_at;
}

static bool see_and_match(const void *task, void *arg) {
  struct seen *seen = (struct seen *)arg;
  (void)see(task, arg);
  return ((const struct job *)task)->number % seen->divisor == seen->leftover;
}

static bool match_nothing(const void *task, void *arg) {
  (void)task;
  (void)arg;
  return false;
}

static bool queue_is(jobs *p, const uint32_t *numbers, size_t n) {
  struct seen seen = {.n = 0};
  jobs_each(p, see, &seen);
  return seen.n == n && memcmp(seen.numbers, numbers, n * sizeof(*numbers)) == 0;
}

static void must_be_next(struct book *book, const struct job *job) {
  CHECK(atomic_load(&book->started) == job->number + 1);
}

/* -- Dead pools -------------------------------------------------------------------------------- */

static void dead_pools_do_nothing(void) {
  jobs zero;
  memset(&zero, 0, sizeof(zero));
  for (int i = 0; i < 2; i++) {
    jobs *p = i == 0 ? &zero : NULL;
    struct seen seen = {.n = 0};
    jobs_pause(p);
    jobs_resume(p);
    jobs_close(p);
    jobs_each(p, see, &seen);
    CHECK(jobs_cancel_if(p, see, &seen) == 0 && jobs_cancel_if(p, NULL, NULL) == 0 && seen.n == 0);
    CHECK(jobs_set_concurrency(p, 1) == FQ_INVALID);
    CHECK(jobs_push_front(p, (struct job){.number = 0}, FQ_FOREVER) == FQ_INVALID);
    CHECK(jobs_wait_running(p, FQ_FOREVER) == FQ_INVALID && !jobs_help(p));
    CHECK(jobs_count(p) == 0 && jobs_running(p) == 0 && jobs_idle(p));
    fq_stats stats = jobs_stats(p);
    CHECK(stats.submitted == 0 && stats.completed == 0 && stats.failed == 0);
    CHECK(stats.canceled == 0 && stats.peak == 0);
  }
}

static void close_takes_no_more(void) {
  static struct book book;
  fq_status why = FQ_OK;
  jobs p;
  if (!start_busy(&book, &p, (fq_config){.limit = 3})) {
    return;
  }
  const struct job job = {.number = 9};
  push_jobs(&p, 1, 2, NULL);
  jobs_close(&p);
  jobs_close(&p);
  CHECK(jobs_push(&p, job, FQ_FOREVER) == FQ_CLOSED);
  CHECK(jobs_push_front(&p, job, FQ_NOWAIT) == FQ_CLOSED);
  CHECK(jobs_push_n(&p, &job, 1, FQ_FOREVER, &why) == 0 && why == FQ_CLOSED);
  CHECK(jobs_count(&p) == 2 && jobs_running(&p) == 1 && !jobs_idle(&p));
  CHECK(jobs_cancel_if(&p, NULL, NULL) == 2);
  atomic_store(&book.opened, 1);
  CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK && jobs_idle(&p));
  CHECK(jobs_push(&p, job, FQ_FOREVER) == FQ_CLOSED);
  finish(&book, 3);
}

/* What waits when a pool closes still runs, and by the rules: not while it is paused, and no more at
 * once than before. */
static void closed_pools_keep_to_the_rules(void) {
  static struct book book;
  jobs p;
  if (!book_start(&book, &p, (fq_config){.threads = 3, .concurrency = 1})) {
    return;
  }
  atomic_store(&book.at_most, 1);
  jobs_pause(&p);
  push_jobs(&p, 0, 30, must_be_next);
  jobs_close(&p);
  CHECK(jobs_count(&p) == 30 && jobs_running(&p) == 0);
  CHECK(jobs_wait_running(&p, FQ_FOREVER) == FQ_OK && atomic_load(&book.started) == 0);
  jobs_resume(&p);
  finish(&book, 30);
}

/* -- pause ------------------------------------------------------------------------------------- */

static void nothing_starts_while_paused(void) {
  for (size_t threads = 1; threads <= 4; threads++) {
    static struct book book;
    jobs p;
    if (!book_start(&book, &p, (fq_config){.threads = threads, .batch = 1 + threads % 2 * 31})) {
      return;
    }
    jobs_pause(&p);
    jobs_pause(&p);
    push_jobs(&p, 0, 20, NULL);
    CHECK(jobs_wait_running(&p, FQ_FOREVER) == FQ_OK && jobs_wait_running(&p, FQ_NOWAIT) == FQ_OK);
    int64_t start = now_ns();
    CHECK(jobs_wait(&p, MILLISECOND) == FQ_TIMEOUT && now_ns() - start >= MILLISECOND);
    CHECK(jobs_wait(&p, FQ_NOWAIT) == FQ_TIMEOUT);
    CHECK(!jobs_help(&p));
    CHECK(jobs_set_concurrency(&p, 1) == FQ_OK && jobs_set_concurrency(&p, threads) == FQ_OK);
    CHECK(jobs_count(&p) == 20 && jobs_running(&p) == 0 && !jobs_idle(&p));
    CHECK(atomic_load(&book.started) == 0);
    jobs_resume(&p); /* pauses are not counted */
    finish(&book, 20);
  }
}

static void must_not_be_frozen(struct book *book, const struct job *job) {
  (void)job;
  CHECK(!atomic_load(&book->gate));
}

/* From the moment pause returns no task is taken, and after wait_running none runs, whatever is
 * pushed; and resume starts all of it again. The gate says here that the pool stands still. */
static void pause_is_a_checkpoint(void) {
  for (size_t threads = 1; threads <= 4; threads++) {
    static struct book book;
    uint32_t pushed = 0;
    jobs p;
    if (!book_start(&book, &p, (fq_config){.threads = threads, .batch = 1 + threads % 2 * 2})) {
      return;
    }
    for (size_t round = 0; round < ROUNDS(180); round++) {
      push_jobs(&p, pushed, 40, must_not_be_frozen);
      pushed += 40;
      jobs_pause(&p);
      size_t left = jobs_count(&p);
      CHECK(jobs_wait_running(&p, FQ_FOREVER) == FQ_OK);
      CHECK(jobs_count(&p) == left && jobs_running(&p) == 0);
      CHECK(atomic_load(&book.ended) + left == pushed);
      atomic_store(&book.gate, true);
      push_jobs(&p, pushed++, 1, must_not_be_frozen);
      sched_yield();
      CHECK(atomic_load(&book.started) + left + 1 == pushed);
      atomic_store(&book.gate, false);
      jobs_resume(&p);
      CHECK(round % 4 != 0 || jobs_wait(&p, FQ_FOREVER) == FQ_OK);
    }
    finish(&book, pushed);
  }
}

/* A worker on its way to sleep must not miss the resume. */
static void resume_right_after_pause(void) {
  for (size_t threads = 1; threads <= 3; threads++) {
    static struct book book;
    uint32_t pushed = 0;
    jobs p;
    if (!book_start(&book, &p, (fq_config){.threads = threads})) {
      return;
    }
    for (size_t round = 0; round < ROUNDS(1500); round++) {
      bool late = round % 2 != 0;
      push_jobs(&p, pushed++, late ? 0 : 1, NULL);
      jobs_pause(&p);
      push_jobs(&p, pushed - 1, late ? 1 : 0, NULL);
      jobs_resume(&p);
      CHECK(round % 3 == 0 || jobs_wait(&p, FQ_FOREVER) == FQ_OK);
    }
    finish(&book, pushed);
  }
}

static void pause_pool(struct book *book, const struct job *job) {
  (void)job;
  jobs_pause(book->pool);
}

static void workers_may_pause(void) {
  for (int after = 0; after < 2; after++) {
    static struct book book;
    jobs p;
    if (!start_busy(&book, &p, (fq_config){.limit = 0})) {
      return;
    }
    struct job job = {.number = 1};
    *(after != 0 ? &job.after : &job.act) = pause_pool;
    CHECK(jobs_push(&p, job, FQ_FOREVER) == FQ_OK);
    push_jobs(&p, 2, 3, NULL);
    atomic_store(&book.opened, 1);
    UNTIL(jobs_stats(&p).completed == 2);
    CHECK(jobs_wait_running(&p, FQ_FOREVER) == FQ_OK);
    CHECK(jobs_count(&p) == 3 && atomic_load(&book.started) == 2);
    jobs_resume(&p);
    finish(&book, 5);
  }
}

static void wait_running_is_not_early(void) {
  static struct book book;
  jobs p;
  if (!start_busy(&book, &p, (fq_config){.limit = 0})) {
    return;
  }
  jobs_pause(&p);
  for (int64_t timeout = 1; timeout < 5 * MILLISECOND; timeout *= 30) {
    int64_t start = now_ns();
    CHECK(jobs_wait_running(&p, timeout) == FQ_TIMEOUT && now_ns() - start >= timeout);
  }
  CHECK(jobs_wait_running(&p, FQ_NOWAIT) == FQ_TIMEOUT);
  atomic_store(&book.opened, 1);
  CHECK(jobs_wait_running(&p, FQ_FOREVER) == FQ_OK && atomic_load(&book.ended) == 1);
  finish(&book, 1);
}

/* -- Concurrency ------------------------------------------------------------------------------- */

/* A task's end and the next start are one step, so what is seen when the end has been counted tells
 * whether it was replaced. */
static void concurrency_goes_down_and_up(void) {
  static struct book book;
  jobs p;
  if (!book_start(&book, &p, (fq_config){.threads = 4})) {
    return;
  }
  push_jobs(&p, 0, 12, stop_until_opened);
  UNTIL(atomic_load(&book.started) == 4);
  CHECK(jobs_running(&p) == 4 && jobs_count(&p) == 8);
  CHECK(jobs_set_concurrency(&p, 2) == FQ_OK);
  CHECK(jobs_running(&p) == 4 && jobs_count(&p) == 8);
  for (size_t ended = 1; ended <= 4; ended++) {
    atomic_store(&book.opened, ended);
    UNTIL(jobs_stats(&p).completed == ended);
    CHECK(jobs_running(&p) == (ended == 1 ? 3 : 2));
    CHECK(jobs_count(&p) == (ended <= 2 ? 8 : 10 - ended));
  }
  static const size_t refused[] = {0, 5, SIZE_MAX};
  for (size_t i = 0; i < COUNT_OF(refused); i++) {
    CHECK(jobs_set_concurrency(&p, refused[i]) == FQ_INVALID);
    CHECK(jobs_running(&p) == 2 && jobs_count(&p) == 6);
  }
  atomic_store(&book.opened, 5);
  UNTIL(jobs_stats(&p).completed == 5);
  CHECK(jobs_running(&p) == 2 && jobs_count(&p) == 5); /* the old limit still holds */
  CHECK(jobs_set_concurrency(&p, 3) == FQ_OK);
  CHECK(jobs_running(&p) == 3 && jobs_count(&p) == 4);
  CHECK(jobs_set_concurrency(&p, 4) == FQ_OK);
  CHECK(jobs_running(&p) == 4 && jobs_count(&p) == 3);
  CHECK(jobs_set_concurrency(NULL, 1) == FQ_INVALID);
  atomic_store(&book.opened, 12);
  finish(&book, 12);
}

static void rest_a_little(struct book *book, const struct job *job) {
  (void)book;
  (void)job;
  sched_yield();
}

/* at_most is what the running tasks compare with: it is raised before the pool's, and lowered when
 * no more run. */
static void concurrency_holds_at_each_start(void) {
  enum { THREADS = 4 };
  static const size_t batches[] = {1, 4};
  for (size_t b = 0; b < COUNT_OF(batches); b++) {
    static struct book book;
    uint64_t seed = 1 + b;
    uint32_t pushed = 0;
    size_t now = 2;
    jobs p;
    fq_config config = {.threads = THREADS, .concurrency = now, .batch = batches[b]};
    if (!book_start(&book, &p, config)) {
      return;
    }
    atomic_store(&book.at_most, now);
    for (size_t round = 0; round < ROUNDS(300); round++) {
      size_t next = 1 + random_below(&seed, THREADS);
      push_jobs(&p, pushed, 25, rest_a_little);
      pushed += 25;
      atomic_store(&book.at_most, next > now ? next : now);
      CHECK(jobs_set_concurrency(&p, next) == FQ_OK);
      UNTIL(next >= now || jobs_running(&p) <= next);
      atomic_store(&book.at_most, next);
      now = next;
    }
    finish(&book, pushed);
  }
}

static void concurrency_below_threads(void) {
  static struct book book;
  jobs p;
  fq_config config = {.worker = book_work, .threads = 4, .concurrency = 5};
  CHECK(jobs_init(&p, &config) == FQ_INVALID && jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
  config.concurrency = SIZE_MAX;
  CHECK(jobs_init(&p, &config) == FQ_INVALID && jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
  if (!book_start(&book, &p, (fq_config){.threads = 0, .concurrency = SIZE_MAX})) {
    return; /* cut to the CPUs */
  }
  finish(&book, 0);
  for (size_t batch = 1; batch < 4; batch += 2) {
    if (!book_start(&book, &p, (fq_config){.threads = 4, .concurrency = 1, .batch = batch})) {
      return;
    }
    atomic_store(&book.at_most, 1);
    book.in_order = true;
    push_jobs(&p, 0, 2000, must_be_next);
    finish(&book, 2000);
  }
}

/* -- Order ------------------------------------------------------------------------------------- */

static bool comes_later(const void *task, void *arg) {
  return CHECK(((const struct job *)task)->number > *(const uint32_t *)arg);
}

static void is_first(struct book *book, const struct job *job) {
  uint32_t number = job->number;
  jobs_each(book->pool, comes_later, &number);
}

/* When a task starts, no task that was pushed before it still waits. */
static void starts_are_fifo(void) {
  for (size_t threads = 1; threads <= 8; threads += threads) {
    for (size_t limit = 0; limit <= 6; limit += 3) {
      static struct book book;
      struct job bulk[5];
      size_t n = ROUNDS(600) / COUNT_OF(bulk) * COUNT_OF(bulk);
      jobs p;
      if (!book_start(&book, &p, (fq_config){.threads = threads, .limit = limit})) {
        return;
      }
      for (uint32_t i = 0; i < n; i += COUNT_OF(bulk)) {
        for (uint32_t k = 0; k < COUNT_OF(bulk); k++) {
          bulk[k] = (struct job){.number = i + k, .act = is_first};
        }
        if (i % 2 == 0) {
          CHECK(jobs_push_n(&p, bulk, COUNT_OF(bulk), FQ_FOREVER, NULL) == COUNT_OF(bulk));
        } else {
          push_jobs(&p, i, COUNT_OF(bulk), is_first);
        }
      }
      finish(&book, n);
    }
  }
}

static void push_front_goes_first(void) {
  for (size_t limit = 0; limit <= 5; limit += 5) {
    static const uint32_t order[] = {0, 1, 2, 3, 4};
    static struct book book;
    jobs p;
    if (!book_start(&book, &p, (fq_config){.threads = 1, .limit = limit})) {
      return;
    }
    jobs_pause(&p);
    push_jobs(&p, 3, 2, must_be_next);
    for (uint32_t i = 3; i-- > 0;) {
      struct job job = {.number = i, .act = must_be_next};
      CHECK(jobs_push_front(&p, job, FQ_NOWAIT) == FQ_OK);
    }
    CHECK(queue_is(&p, order, COUNT_OF(order)));
    if (limit != 0) {
      int64_t start = now_ns();
      CHECK(jobs_push_front(&p, (struct job){.number = 9}, FQ_NOWAIT) == FQ_FULL);
      CHECK(jobs_push_front(&p, (struct job){.number = 9}, MILLISECOND) == FQ_TIMEOUT);
      CHECK(now_ns() - start >= MILLISECOND);
    }
    jobs_resume(&p);
    finish(&book, 5);
  }
}

/* -- cancel_if and each ------------------------------------------------------------------------ */

/* The canceled tasks, in the order of their done, all on one thread. */
static struct {
  pthread_t thread;
  uint32_t numbers[64];
  size_t n;
} drops;

static void drops_start(void) {
  drops.thread = pthread_self();
  drops.n = 0;
}

static bool drops_are(uint32_t first, size_t n, uint32_t step) {
  bool good = drops.n == n;
  for (uint32_t i = 0; i < n; i++) {
    good = good && drops.numbers[i] == first + i * step;
  }
  return good;
}

static void note_drop(void *task, int error, void *ctx) {
  if (error == FQ_CANCELED && CHECK(drops.n < COUNT_OF(drops.numbers))) {
    CHECK(pthread_equal(pthread_self(), drops.thread));
    drops.numbers[drops.n++] = ((const struct job *)task)->number;
  }
  book_done(task, error, ctx);
}

static void cancel_drops_what_matches(void) {
  for (uint32_t before = 0; before < 40; before += 13) { /* the queue begins anywhere in its ring */
    for (size_t limit = 0; limit <= 30; limit += 30) {
      static struct book book;
      struct seen seen = {.divisor = 3, .leftover = before % 3};
      uint32_t rest[20];
      jobs p;
      if (!book_start(&book, &p, (fq_config){.threads = 1, .limit = limit, .done = note_drop})) {
        return;
      }
      push_jobs(&p, 0, before, NULL);
      CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK);
      jobs_pause(&p);
      push_jobs(&p, before, 30, NULL);
      for (uint32_t i = 0; i < 20; i++) {
        rest[i] = before + i / 2 * 3 + 1 + i % 2;
      }
      drops_start();
      CHECK(jobs_cancel_if(&p, see_and_match, &seen) == 10);
      CHECK(seen.n == 30 && seen.numbers[0] == before && seen.numbers[29] == before + 29);
      CHECK(drops_are(before, 10, 3));
      CHECK(queue_is(&p, rest, COUNT_OF(rest)) && jobs_count(&p) == 20);
      CHECK(jobs_cancel_if(&p, match_nothing, NULL) == 0 && queue_is(&p, rest, COUNT_OF(rest)));
      push_jobs(&p, before + 30, 1, NULL);
      drops_start();
      CHECK(jobs_cancel_if(&p, NULL, NULL) == 21 && drops.n == 21);
      CHECK(jobs_cancel_if(&p, NULL, NULL) == 0 && jobs_count(&p) == 0 && jobs_idle(&p));
      CHECK(jobs_stats(&p).canceled == 31);
      push_jobs(&p, before + 31, 30, NULL);
      jobs_resume(&p);
      finish(&book, before + 61);
      CHECK(atomic_load(&book.canceled) == 31);
    }
  }
}

/* From wherever it is called, done comes there. */
static void cancel_all(struct book *book, const struct job *job) {
  (void)job;
  drops_start();
  CHECK(jobs_cancel_if(book->pool, NULL, NULL) == 5);
  CHECK(drops_are(2, 5, 1));
  CHECK(jobs_count(book->pool) == 0 && jobs_running(book->pool) == 1);
}

static void tasks_cancel(void) {
  for (int after = 0; after < 2; after++) {
    static struct book book;
    jobs p;
    if (!start_busy(&book, &p, (fq_config){.done = note_drop})) {
      return;
    }
    struct job job = {.number = 1};
    *(after != 0 ? &job.after : &job.act) = cancel_all;
    CHECK(jobs_push(&p, job, FQ_FOREVER) == FQ_OK);
    push_jobs(&p, 2, 5, NULL);
    atomic_store(&book.opened, 1);
    finish(&book, 7);
    CHECK(atomic_load(&book.canceled) == 5);
  }
}

/* Each canceled task pushes the next one, and cancels it. */
static void cancel_next(void *task, int error, void *ctx) {
  struct book *book = (struct book *)ctx;
  uint32_t next = ((const struct job *)task)->number + 1;
  if (error == FQ_CANCELED && next < 100) {
    CHECK(jobs_push(book->pool, (struct job){.number = next}, FQ_NOWAIT) == FQ_OK);
    CHECK(jobs_cancel_if(book->pool, NULL, NULL) == 1);
  }
  book_done(task, error, ctx);
}

static void canceled_tasks_cancel(void) {
  static struct book book;
  jobs p;
  if (!start_busy(&book, &p, (fq_config){.limit = 1, .done = cancel_next})) {
    return;
  }
  push_jobs(&p, 1, 1, NULL);
  CHECK(jobs_cancel_if(&p, NULL, NULL) == 1);
  CHECK(atomic_load(&book.canceled) == 99);
  atomic_store(&book.opened, 1);
  finish(&book, 100);
}

static void cancel_at_once(void *ctx) {
  struct book *book = (struct book *)ctx;
  CHECK(jobs_cancel_if(book->pool, NULL, NULL) == 1);
}

static void state_callbacks_cancel(void) {
  static struct book book;
  jobs p;
  if (!start_busy(&book, &p, (fq_config){.on_saturated = cancel_at_once, .done = note_drop})) {
    return;
  }
  drops_start();
  push_jobs(&p, 1, 3, NULL); /* accepted, and dropped before push returns */
  CHECK(drops_are(1, 3, 1) && jobs_count(&p) == 0);
  atomic_store(&book.opened, 1);
  finish(&book, 4);
}

enum { PUSHERS = 2, CANCELERS = 3, EACH = 900 };

struct canceler {
  struct book *book;
  uint32_t number;
  size_t dropped;
  atomic_size_t *pushing;
};

static void *push_main(void *arg) {
  struct canceler *me = (struct canceler *)arg;
  push_jobs(me->book->pool, me->number * EACH, EACH, rest_a_little);
  atomic_fetch_sub(me->pushing, 1);
  return NULL;
}

static void *cancel_main(void *arg) {
  struct canceler *me = (struct canceler *)arg;
  while (atomic_load(me->pushing) != 0) {
    struct seen seen = {.divisor = CANCELERS, .leftover = me->number};
    bool all = me->number == 0;
    me->dropped += jobs_cancel_if(me->book->pool, all ? NULL : see_and_match, &seen);
    sched_yield();
  }
  return NULL;
}

static void cancel_while_all_goes_on(void) {
  for (size_t threads = 1; threads <= 4; threads++) {
    static struct book book;
    struct canceler them[PUSHERS + CANCELERS];
    struct crew crew = {0};
    atomic_size_t pushing = PUSHERS;
    size_t dropped = 0;
    jobs p;
    fq_config config = {.threads = threads, .limit = threads % 2 * 8 + 8, .batch = 1 + threads / 3};
    if (!book_start(&book, &p, config)) {
      return;
    }
    for (uint32_t i = 0; i < COUNT_OF(them); i++) {
      uint32_t number = i < PUSHERS ? i : i - PUSHERS;
      them[i] = (struct canceler){.book = &book, .number = number, .pushing = &pushing};
      crew_add(&crew, i < PUSHERS ? push_main : cancel_main, &them[i]);
    }
    crew_join(&crew);
    for (size_t i = 0; i < COUNT_OF(them); i++) {
      dropped += them[i].dropped;
    }
    CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK);
    CHECK(atomic_load(&book.canceled) == dropped && jobs_stats(&p).canceled == dropped);
    finish(&book, PUSHERS * EACH);
  }
}

static void each_in_order_until_told(void) {
  static struct book book;
  jobs p;
  if (!start_busy(&book, &p, (fq_config){.limit = 8})) {
    return;
  }
  struct seen none = {.n = 0};
  jobs_each(&p, see, &none);
  CHECK(none.n == 0);
  push_jobs(&p, 1, 7, NULL);
  for (size_t stop = 0; stop <= 9; stop++) {
    struct seen seen = {.stop_at = stop};
    jobs_each(&p, see, &seen);
    CHECK(seen.n == (stop == 0 || stop > 7 ? 7 : stop));
    for (uint32_t i = 0; i < seen.n; i++) {
      CHECK(seen.numbers[i] == i + 1);
    }
  }
  jobs_each(&p, NULL, NULL);
  CHECK(jobs_count(&p) == 7);
  atomic_store(&book.opened, 1);
  finish(&book, 8);
}

/* In pred and fn the pool stands still: it can be looked at, and nothing else. */
static bool try_every_verb(const void *task, void *arg) {
  struct book *book = (struct book *)arg;
  const struct job job = {.number = 99};
  jobs *p = book->pool;
  fq_status why = FQ_OK;
  struct seen seen = {.n = 0};
  (void)task;
  for (int64_t timeout = FQ_FOREVER; timeout <= FQ_NOWAIT; timeout++) {
    CHECK(jobs_push(p, job, timeout) == FQ_DEADLOCK);
    CHECK(jobs_push_front(p, job, timeout) == FQ_DEADLOCK);
    CHECK(jobs_push_n(p, &job, 1, timeout, &why) == 0 && why == FQ_DEADLOCK);
    CHECK(jobs_wait(p, timeout) == FQ_DEADLOCK);
    CHECK(jobs_wait_running(p, timeout) == FQ_DEADLOCK);
  }
  CHECK(jobs_destroy(p, FQ_DRAIN) == FQ_DEADLOCK && jobs_destroy(p, FQ_CANCEL) == FQ_DEADLOCK);
  CHECK(jobs_set_concurrency(p, 1) == FQ_DEADLOCK);
  CHECK(jobs_cancel_if(p, NULL, NULL) == 0 && jobs_cancel_if(p, see, &seen) == 0);
  jobs_each(p, see, &seen);
  CHECK(seen.n == 0 && !jobs_help(p));
  jobs_resume(p);
  jobs_close(p);
  fq_stats stats = jobs_stats(p);
  CHECK(stats.submitted == 5 && stats.completed == 1 && stats.canceled == 0 && stats.peak == 4);
  CHECK(jobs_count(p) == 4 && jobs_running(p) == 0 && !jobs_idle(p));
  atomic_fetch_add(&book->children, 1);
  return book->threads != 0;
}

static void verbs_in_pred_and_fn(void) {
  static struct book book;
  jobs p;
  if (!book_start(&book, &p, (fq_config){.threads = 2, .limit = 9})) {
    return;
  }
  push_jobs(&p, 0, 1, NULL);
  CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK);
  jobs_pause(&p);
  push_jobs(&p, 1, 4, NULL);
  CHECK(jobs_cancel_if(&p, try_every_verb, &book) == 0);
  CHECK(atomic_load(&book.children) == 4);
  book.threads = 2;
  jobs_each(&p, try_every_verb, &book);
  CHECK(atomic_load(&book.children) == 8);
  CHECK(atomic_load(&book.started) == 1 && jobs_count(&p) == 4); /* that resume did nothing */
  push_jobs(&p, 5, 1, NULL);                                     /* and that close neither */
  jobs_resume(&p);
  finish(&book, 6);
}

/* -- help -------------------------------------------------------------------------------------- */

static void hold_in_drain(void *ctx) {
  struct book *book = (struct book *)ctx;
  atomic_fetch_add(&book->children, 1);
  UNTIL(atomic_load(&book->gate));
}

static pthread_t helper;

static void *help_main(void *arg) {
  CHECK(!jobs_help((jobs *)arg));
  return NULL;
}

/* Runs on the helper, in the only place there is: others find none, itself may go on in it. */
static void run_on_helper(struct book *book, const struct job *job) {
  struct crew crew = {0};
  CHECK(pthread_equal(pthread_self(), helper));
  CHECK(jobs_running(book->pool) == job->number);
  crew_add(&crew, help_main, book->pool);
  crew_join(&crew);
  CHECK(job->number == 3 || jobs_help(book->pool));
}

static void note_helper(struct book *book, const struct job *job) {
  (void)book;
  (void)job;
  CHECK(pthread_equal(pthread_self(), helper));
}

/* The only worker is in on_drain, so its place is free. */
static void help_from_outside(void) {
  static struct book book;
  jobs p;
  helper = pthread_self();
  if (!book_start(&book, &p, (fq_config){.threads = 1, .on_drain = hold_in_drain})) {
    return;
  }
  CHECK(!jobs_help(&p));
  push_jobs(&p, 0, 1, NULL);
  UNTIL(atomic_load(&book.children) == 1);
  CHECK(!jobs_help(&p));
  for (uint32_t i = 1; i <= 4; i++) {
    struct job job = {.number = i, .error = 5, .after = note_helper};
    job.act = i < 4 ? run_on_helper : NULL;
    CHECK(jobs_push(&p, job, FQ_NOWAIT) == FQ_OK);
  }
  jobs_pause(&p);
  CHECK(!jobs_help(&p) && atomic_load(&book.started) == 1);
  jobs_resume(&p);
  CHECK(jobs_help(&p)); /* 1, in it 2, in it 3 */
  CHECK(atomic_load(&book.ended) == 4 && jobs_count(&p) == 1 && jobs_running(&p) == 0);
  CHECK(jobs_help(&p) && !jobs_help(&p));
  CHECK(jobs_stats(&p).completed == 5 && jobs_stats(&p).failed == 4);
  atomic_store(&book.gate, true);
  finish(&book, 5);
}

static void help_finds_no_place(void) {
  static struct book book;
  jobs p;
  if (!start_busy(&book, &p, (fq_config){.limit = 0})) {
    return;
  }
  push_jobs(&p, 1, 1, NULL);
  CHECK(!jobs_help(&p) && jobs_count(&p) == 1 && atomic_load(&book.started) == 1);
  atomic_store(&book.opened, 1);
  finish(&book, 2);
}

/* A tree: each task pushes two, and runs tasks until these two have ended. */
enum { TREE = 255 };
static atomic_int tree_left[TREE];

static void tree_done(struct book *book, const struct job *job) {
  (void)book;
  if (job->number > 0) {
    atomic_fetch_sub(&tree_left[(job->number - 1) / 2], 1);
  }
}

static void tree_work(struct book *book, const struct job *job) {
  uint32_t child = 2 * job->number + 1;
  if (child + 1 < TREE) {
    atomic_store(&tree_left[job->number], 2);
    for (uint32_t i = 0; i < 2; i++) {
      struct job next = {.number = child + i, .act = tree_work, .after = tree_done};
      CHECK(jobs_push(book->pool, next, FQ_NOWAIT) == FQ_OK);
    }
  }
  while (atomic_load(&tree_left[job->number]) > 0) {
    if (!jobs_help(book->pool)) {
      CHECK(book->threads > 1); /* alone, it always has something to run */
      sched_yield();
    }
  }
}

static void tasks_wait_for_their_tasks(void) {
  for (size_t threads = 1; threads <= 4; threads++) {
    for (size_t concurrency = 1; concurrency <= threads; concurrency++) {
      static struct book book;
      jobs p;
      fq_config config = {.threads = threads, .concurrency = concurrency};
      if (!book_start(&book, &p, config)) {
        return;
      }
      book.threads = concurrency;
      struct job root = {.act = tree_work, .after = tree_done};
      CHECK(jobs_push(&p, root, FQ_NOWAIT) == FQ_OK);
      finish(&book, TREE);
    }
  }
}

enum { DEEP = 300 };

static void go_deeper(struct book *book, const struct job *job) {
  CHECK(jobs_running(book->pool) == job->number + 1);
  struct job next = {.number = job->number + 1};
  *(next.number % 2 == 0 ? &next.act : &next.after) = go_deeper;
  if (next.number < DEEP) {
    CHECK(jobs_push(book->pool, next, FQ_NOWAIT) == FQ_OK);
    jobs_pause(book->pool);
    CHECK(!jobs_help(book->pool));
    jobs_resume(book->pool);
    CHECK(jobs_help(book->pool));
    CHECK(jobs_running(book->pool) == job->number + 1);
  }
}

static void help_in_help(void) {
  static struct book book;
  jobs p;
  if (!book_start(&book, &p, (fq_config){.threads = 1})) {
    return;
  }
  CHECK(jobs_push(&p, (struct job){.act = go_deeper}, FQ_NOWAIT) == FQ_OK);
  finish(&book, DEEP);
}

struct helping {
  struct book *book;
  atomic_bool *over;
  size_t helped;
};

static void *help_until_over(void *arg) {
  struct helping *me = (struct helping *)arg;
  while (!atomic_load(me->over)) {
    me->helped += jobs_help(me->book->pool) ? 1 : 0;
    sched_yield();
  }
  return NULL;
}

/* Helpers and workers share the places. */
static void help_keeps_to_the_concurrency(void) {
  static const size_t threads[] = {1, 2, 3, 3}, concurrency[] = {1, 2, 1, 2};
  for (size_t k = 0; k < COUNT_OF(threads); k++) {
    static struct book book;
    struct helping them[3];
    struct crew crew = {0};
    atomic_bool over = false;
    size_t n = ROUNDS(4000) / 2 * 2;
    jobs p;
    if (!book_start(&book, &p, (fq_config){.threads = threads[k], .concurrency = concurrency[k]})) {
      return;
    }
    atomic_store(&book.at_most, concurrency[k]);
    for (size_t i = 0; i < COUNT_OF(them); i++) {
      them[i] = (struct helping){.book = &book, .over = &over};
      crew_add(&crew, help_until_over, &them[i]);
    }
    for (uint32_t i = 0; i < n; i += 2) {
      push_jobs(&p, i, 2, rest_a_little);
      UNTIL(i % 8 != 0 || atomic_load(&book.ended) >= i);
    }
    CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK);
    atomic_store(&over, true);
    crew_join(&crew);
    finish(&book, n);
  }
}

/* In the only place: what is pushed meanwhile stays. */
static void push_behind(struct book *book, const struct job *job) {
  if (pthread_equal(pthread_self(), helper)) {
    push_jobs(book->pool, job->number + 1, 1, NULL);
    for (int i = 0; i < 20; i++) {
      CHECK(jobs_running(book->pool) == 1 && jobs_count(book->pool) == 1);
    }
  }
}

/* The worker still looks for tasks when the helper gets one before it, now and then: from there on
 * it must look at the places too. */
static void help_ahead_of_the_worker(void) {
  static struct book book;
  uint32_t n = 0;
  jobs p;
  helper = pthread_self();
  if (!book_start(&book, &p, (fq_config){.threads = 1})) {
    return;
  }
  atomic_store(&book.at_most, 1);
  for (size_t round = 0; round < ROUNDS(3000); round++) {
    push_jobs(&p, n, 1, push_behind);
    n += jobs_help(&p) ? 2 : 1;
    UNTIL(atomic_load(&book.ended) == n);
  }
  finish(&book, n);
}

/* Tasks that do not fit on the stack of a helper, and one that wants more alignment. */
struct item_large {
  unsigned char bytes[1000];
};

struct item_aligned {
  _Alignas(64) unsigned char bytes[64];
};

static atomic_size_t items_run;

#define HELP_TEST(name, T)                                                                         \
  FQ_POOL(name, T);                                                                                \
  static int name##_work(void *task, void *ctx) {                                                  \
    uint64_t number = 0;                                                                           \
    name *p = (name *)ctx;                                                                         \
    CHECK((uintptr_t)task % _Alignof(T) == 0);                                                     \
    CHECK(item_read(task, sizeof(T), &number));                                                    \
    CHECK(number == atomic_fetch_add(&items_run, 1));                                              \
    CHECK(number == 9 || name##_help(p));                                                          \
    return 0;                                                                                      \
  }                                                                                                \
  static void name##_done(void *task, int error, void *ctx) {                                      \
    uint64_t number = 0;                                                                           \
    (void)ctx;                                                                                     \
    CHECK(error == 0 && item_read(task, sizeof(T), &number));                                      \
    CHECK(number + 1 == atomic_load(&items_run)); /* the innermost ends first */                   \
    atomic_fetch_sub(&items_run, 1);                                                               \
  }                                                                                                \
  static void name##_test(void) {                                                                  \
    static T items[10];                                                                            \
    name p;                                                                                        \
    fq_config config = {.worker = name##_work, .done = name##_done, .ctx = &p, .threads = 1};      \
    CHECK(name##_init(&p, &config) == FQ_OK);                                                      \
    name##_pause(&p);                                                                              \
    for (size_t i = 0; i < COUNT_OF(items); i++) {                                                 \
      item_make(&items[i], sizeof(T), i);                                                          \
    }                                                                                              \
    CHECK(name##_push_n(&p, items, COUNT_OF(items), FQ_FOREVER, NULL) == COUNT_OF(items));         \
    name##_resume(&p);                                                                             \
    CHECK(name##_wait(&p, FQ_FOREVER) == FQ_OK);                                                   \
    CHECK(name##_stats(&p).completed == COUNT_OF(items) && atomic_load(&items_run) == 0);          \
    CHECK(name##_destroy(&p, FQ_DRAIN) == FQ_OK);                                                  \
  }

HELP_TEST(large, struct item_large)
HELP_TEST(aligned, struct item_aligned)
HELP_TEST(odd, struct item3)

static void help_with_any_item(void) {
  large_test();
  aligned_test();
  odd_test();
}

/* -- stats ------------------------------------------------------------------------------------- */

static void ignore(void *ctx) { (void)ctx; }

struct stock {
  struct book *book;
  atomic_bool *over;
  size_t limit, places;
  fq_stats last;
  size_t looks;
};

static bool grows(const fq_stats *a, const fq_stats *b) {
  return a->submitted <= b->submitted && a->completed <= b->completed && a->failed <= b->failed &&
         a->canceled <= b->canceled && a->peak <= b->peak;
}

/* In fn the pool stands still, so that all its numbers are of one moment. */
static bool add_up(const void *task, void *arg) {
  struct stock *stock = (struct stock *)arg;
  fq_stats now = jobs_stats(stock->book->pool);
  size_t running = jobs_running(stock->book->pool), waiting = jobs_count(stock->book->pool);
  (void)task;
  CHECK(now.submitted == now.completed + now.canceled + running + waiting);
  CHECK(waiting > 0 && waiting <= stock->limit && running <= stock->places);
  CHECK(grows(&stock->last, &now));
  stock->last = now;
  stock->looks++;
  return false;
}

static void *take_stock(void *arg) {
  struct stock *stock = (struct stock *)arg;
  while (!atomic_load(stock->over)) {
    jobs_each(stock->book->pool, add_up, stock);
    fq_stats now = jobs_stats(stock->book->pool);
    uint64_t ended = now.completed + now.canceled;
    CHECK(grows(&stock->last, &now) && now.failed <= now.completed);
    CHECK(now.submitted >= ended && now.submitted - ended <= stock->limit + stock->places);
    stock->last = now;
    sched_yield();
  }
  return NULL;
}

static void stats_add_up(void) {
  static const size_t batches[] = {1, 5};
  for (size_t i = 0; i < 2 * COUNT_OF(batches); i++) {
    static struct book book;
    struct crew crew = {0};
    atomic_bool over = false;
    uint64_t seed = i;
    size_t dropped = 0, failed = 0, n = ROUNDS(3000);
    jobs p;
    fq_config config = {.threads = 2, .limit = 20, .batch = batches[i / 2]};
    config.on_drain = i % 2 != 0 ? ignore : NULL;
    if (!book_start(&book, &p, config)) {
      return;
    }
    struct stock stock = {
        .book = &book, .over = &over, .limit = 20, .places = 2 * batches[i / 2] + 1};
    crew_add(&crew, take_stock, &stock);
    for (uint32_t k = 0; k < n; k++) {
      struct job job = {.number = k, .error = (int)(k % 3), .act = rest_a_little};
      CHECK(jobs_push(&p, job, FQ_FOREVER) == FQ_OK);
      size_t what = random_below(&seed, 40);
      dropped += what == 0 ? jobs_cancel_if(&p, NULL, NULL) : 0;
      if (what == 1) {
        (void)jobs_help(&p);
      } else if (what == 2) { /* at rest all of it is known */
        jobs_pause(&p);
        CHECK(jobs_wait_running(&p, FQ_FOREVER) == FQ_OK);
        fq_stats now = jobs_stats(&p);
        CHECK(now.submitted == k + 1 && now.canceled == atomic_load(&book.canceled));
        CHECK(now.completed == atomic_load(&book.ended));
        CHECK(now.submitted == now.completed + now.canceled + jobs_count(&p));
        jobs_resume(&p);
      }
    }
    CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK);
    atomic_store(&over, true);
    crew_join(&crew);
    for (uint32_t k = 0; k < n; k++) {
      failed += atomic_load(&book.ran[k]) != 0 && k % 3 != 0 ? 1 : 0;
    }
    fq_stats end = jobs_stats(&p);
    CHECK(end.submitted == n && end.canceled == dropped && end.completed == n - dropped);
    CHECK(end.failed == failed && end.peak <= 20 && jobs_idle(&p));
    finish(&book, n);
  }
}

/* The longest backlog, whether the pool is watched closely or not. */
static void peak_is_the_longest_backlog(void) {
  for (int watched = 0; watched < 2; watched++) {
    static struct book book;
    jobs p;
    fq_config config = {.limit = 0, .on_empty = watched != 0 ? ignore : NULL};
    if (!start_busy(&book, &p, config)) {
      return;
    }
    CHECK(jobs_stats(&p).peak == 0);
    push_jobs(&p, 1, 5, NULL);
    CHECK(jobs_stats(&p).peak == 5);
    CHECK(jobs_cancel_if(&p, NULL, NULL) == 5 && jobs_stats(&p).peak == 5);
    push_jobs(&p, 6, 3, NULL);
    CHECK(jobs_stats(&p).peak == 5);
    CHECK(jobs_push_front(&p, (struct job){.number = 9}, FQ_NOWAIT) == FQ_OK);
    push_jobs(&p, 10, 3, NULL);
    CHECK(jobs_stats(&p).peak == 7);
    atomic_store(&book.opened, 1);
    CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK && jobs_stats(&p).peak == 7);
    jobs_pause(&p);
    push_jobs(&p, 13, 9, NULL);
    CHECK(jobs_stats(&p).peak == 9);
    jobs_resume(&p);
    finish(&book, 22);
  }
}

/* -- Everything at once ------------------------------------------------------------------------ */

enum { ACTORS = 4 };

struct actor {
  struct book *book;
  uint32_t number, pushed;
  size_t dropped;
};

/* Whatever it does, in the end the pool is not paused, and all tasks get their turn. */
static void *act_main(void *arg) {
  struct actor *me = (struct actor *)arg;
  jobs *p = me->book->pool;
  uint64_t seed = me->number;
  for (size_t i = 0; i < ROUNDS(1200); i++) {
    struct job job = {.number = me->number * 1500 + me->pushed, .act = rest_a_little};
    struct seen seen = {.divisor = 5, .leftover = me->number, .stop_at = 2};
    fq_status status = FQ_FULL;
    size_t what = random_below(&seed, 16);
    if (what < 4) {
      status = jobs_push(p, job, 50 * MICROSECOND);
    } else if (what < 6) {
      status = jobs_push_front(p, job, FQ_NOWAIT);
    } else if (what == 6) {
      me->pushed += (uint32_t)jobs_push_n(p, &job, 1, 50 * MICROSECOND, NULL);
    } else if (what == 7) {
      jobs_pause(p);
    } else if (what < 10) {
      jobs_resume(p);
    } else if (what == 10) {
      CHECK(jobs_set_concurrency(p, 1 + random_below(&seed, 3)) == FQ_OK);
    } else if (what == 11) {
      me->dropped += jobs_cancel_if(p, see_and_match, &seen);
    } else if (what == 12) {
      status = jobs_wait(p, 20 * MICROSECOND);
    } else if (what == 13) {
      status = jobs_wait_running(p, 20 * MICROSECOND);
    } else if (what == 14) {
      (void)jobs_help(p);
    } else {
      jobs_each(p, see, &seen);
    }
    me->pushed += what < 6 && status == FQ_OK ? 1 : 0;
    CHECK(status == FQ_OK || status == FQ_FULL || status == FQ_TIMEOUT);
  }
  jobs_resume(p);
  return NULL;
}

static void all_verbs_at_once(void) {
  for (size_t round = 0; round < 8; round++) {
    static struct book book;
    struct actor actors[ACTORS];
    struct crew crew = {0};
    size_t accepted = 0, dropped = 0;
    jobs p;
    fq_config config = {.threads = 3, .limit = 8, .batch = 1 + round / 4 * 2};
    if (round / 2 % 2 != 0) {
      config.on_saturated = config.on_empty = config.on_drain = ignore;
    }
    if (!book_start(&book, &p, config)) {
      return;
    }
    for (uint32_t i = 0; i < ACTORS; i++) {
      actors[i] = (struct actor){.book = &book, .number = i};
      crew_add(&crew, act_main, &actors[i]);
    }
    crew_join(&crew);
    for (size_t i = 0; i < ACTORS; i++) {
      accepted += actors[i].pushed;
      dropped += actors[i].dropped;
    }
    if (round % 2 == 0) {
      CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK && jobs_stats(&p).canceled == dropped);
      finish(&book, accepted);
      CHECK(atomic_load(&book.canceled) == dropped);
    } else {
      CHECK(jobs_destroy(&p, FQ_CANCEL) == FQ_OK);
      book_check(&book, accepted);
      CHECK(atomic_load(&book.canceled) >= dropped);
    }
  }
}

int main(void) {
  RUN(dead_pools_do_nothing);
  RUN(close_takes_no_more);
  RUN(closed_pools_keep_to_the_rules);
  RUN(nothing_starts_while_paused);
  RUN(pause_is_a_checkpoint);
  RUN(resume_right_after_pause);
  RUN(workers_may_pause);
  RUN(wait_running_is_not_early);
  RUN(concurrency_goes_down_and_up);
  RUN(concurrency_holds_at_each_start);
  RUN(concurrency_below_threads);
  RUN(starts_are_fifo);
  RUN(push_front_goes_first);
  RUN(cancel_drops_what_matches);
  RUN(tasks_cancel);
  RUN(canceled_tasks_cancel);
  RUN(state_callbacks_cancel);
  RUN(cancel_while_all_goes_on);
  RUN(each_in_order_until_told);
  RUN(verbs_in_pred_and_fn);
  RUN(help_from_outside);
  RUN(help_finds_no_place);
  RUN(tasks_wait_for_their_tasks);
  RUN(help_in_help);
  RUN(help_keeps_to_the_concurrency);
  RUN(help_ahead_of_the_worker);
  RUN(help_with_any_item);
  RUN(stats_add_up);
  RUN(peak_is_the_longest_backlog);
  RUN(all_verbs_at_once);
  return test_end();
}
