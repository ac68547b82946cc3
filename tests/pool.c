/* pool.c: FQ_POOL: what it answers, and that every accepted task meets done exactly once. */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"

#include "heap.h"
#include "items.h"
#include "pool_book.h"
#include "test.h"
#include "threads.h"

#include <signal.h>
#include <unistd.h>

/* -- Statuses ---------------------------------------------------------------------------------- */

static void check_dead(jobs *p) {
  const struct job job = {.number = 1};
  fq_status why = FQ_OK;
  CHECK(jobs_push(p, job, FQ_FOREVER) == FQ_INVALID);
  CHECK(jobs_push_n(p, &job, 1, FQ_FOREVER, &why) == 0 && why == FQ_INVALID);
  CHECK(jobs_push_n(p, &job, 1, FQ_FOREVER, NULL) == 0);
  CHECK(jobs_wait(p, FQ_FOREVER) == FQ_INVALID);
}

static void dead_objects(void) {
  static struct book book;
  jobs p;
  fq_config no_worker = {.threads = 1};
  memset(&p, 0, sizeof(p));
  check_dead(&p);
  CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK && jobs_destroy(&p, FQ_CANCEL) == FQ_OK);
  check_dead(NULL);
  CHECK(jobs_destroy(NULL, FQ_DRAIN) == FQ_INVALID);
  CHECK(jobs_init(NULL, &no_worker) == FQ_INVALID);
  CHECK(jobs_init(&p, NULL) == FQ_INVALID);
  CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
  CHECK(jobs_init(&p, &no_worker) == FQ_INVALID);
  check_dead(&p);
  CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK && jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
  fq_config config = {.worker = book_work, .done = book_done, .ctx = &book, .threads = 2};
  for (int again = 0; again < 2; again++) {
    book_open(&book, &p);
    CHECK(jobs_init(&p, &config) == FQ_OK);
    CHECK(jobs_push(&p, (struct job){.number = 1}, FQ_FOREVER) == FQ_OK);
    CHECK(jobs_destroy(&p, (enum fq_how)7) == FQ_INVALID);
    CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
    CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK && jobs_destroy(&p, FQ_CANCEL) == FQ_OK);
    check_dead(&p);
    book_check(&book, 1);
  }
}

/* The sanitizers' malloc would end the program rather than refuse. */
static void *modest_alloc(size_t size, void *ctx) {
  return size < 1000000 ? heap_alloc(size, ctx) : NULL;
}

/* Sizes that no machine has are refused before a thread is started, and nothing is left. */
static void absurd_configs(void) {
  static const size_t sizes[] = {SIZE_MAX,     SIZE_MAX - 1,  SIZE_MAX / 2,      SIZE_MAX / 2 + 1,
                                 SIZE_MAX / 4, SIZE_MAX / 16, SIZE_MAX / 64 + 1, SIZE_MAX / 1024};
  struct heap heap = {0};
  const fq_allocator memory = {modest_alloc, heap_free, &heap};
  const fq_allocator half = {heap_alloc, NULL, &heap};
  jobs p;
  fq_config config = {.worker = book_work, .threads = 1, .allocator = &half};
  CHECK(jobs_init(&p, &config) == FQ_INVALID);
  CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    for (size_t member = 0; member < 7; member++) {
      config = (fq_config){.worker = book_work, .threads = 1, .allocator = &memory};
      config.limit = (member & 3) == 0 ? sizes[i] : 0;
      config.batch = member % 2 == 1 ? sizes[i] : 1;
      config.threads = member / 2 % 2 == 1 ? sizes[i] : 1;
      fq_status status = jobs_init(&p, &config);
      CHECK(status == FQ_INVALID || status == FQ_NOMEM);
      CHECK(sizes[i] < SIZE_MAX / 4 || status == FQ_INVALID);
      CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
      CHECK(heap.live == 0 && !heap.damaged);
    }
  }
}

static void null_arguments(void) {
  static struct book book;
  jobs p;
  fq_status why = FQ_OK;
  const struct job job = {.number = 1};
  if (!book_start(&book, &p, (fq_config){.threads = 1, .limit = 4})) {
    return;
  }
  CHECK(jobs_push_n(&p, NULL, 1, FQ_FOREVER, &why) == 0 && why == FQ_INVALID);
  CHECK(jobs_push_n(&p, &job, SIZE_MAX, FQ_NOWAIT, &why) == 0 && why == FQ_INVALID);
  CHECK(jobs_push_n(&p, &job, SIZE_MAX / 16, FQ_NOWAIT, &why) == 0 && why == FQ_INVALID);
  CHECK(jobs_push_n(&p, NULL, 0, FQ_FOREVER, &why) == 0 && why == FQ_OK);
  CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
  book_check(&book, 0);
}

static void config_is_copied(void) {
  static struct book book;
  jobs p;
  book_open(&book, &p);
  fq_config config = {
      .worker = book_work, .done = book_done, .ctx = &book, .threads = 1, .limit = 2};
  CHECK(jobs_init(&p, &config) == FQ_OK);
  memset(&config, 0, sizeof(config));
  for (uint32_t i = 0; i < 10; i++) {
    CHECK(jobs_push(&p, (struct job){.number = i, .error = (int)i}, FQ_FOREVER) == FQ_OK);
  }
  CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
  book_check(&book, 10);
}

static void done_may_be_left_out(void) {
  static struct book book;
  jobs p;
  book_open(&book, &p);
  fq_config config = {.worker = book_work, .ctx = &book};
  CHECK(jobs_init(&p, &config) == FQ_OK);
  for (uint32_t i = 0; i < 10; i++) {
    CHECK(jobs_push(&p, (struct job){.number = i}, FQ_FOREVER) == FQ_OK);
  }
  CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK && atomic_load(&book.started) == 10);
  CHECK(jobs_destroy(&p, FQ_CANCEL) == FQ_OK);
}

/* -- Threads ----------------------------------------------------------------------------------- */

static void meet(struct book *book, const struct job *job) {
  (void)job;
  UNTIL(atomic_load(&book->started) >= book->meeting);
  CHECK(atomic_load(&book->started) - atomic_load(&book->ended) <= book->threads);
}

/* As many threads as were asked for: so many tasks can be under way together. With batch 1 no
 * thread keeps a task from another, neither when it comes from sleep nor when it comes from
 * work. */
static void all_threads_run_at_once(void) {
  const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  for (size_t threads = 0; threads <= 8; threads++) {
    static struct book book;
    struct job many[2 * 64] = {{0}};
    jobs p;
    if (!book_start(&book, &p, (fq_config){.threads = threads})) {
      return;
    }
    size_t n = threads != 0 ? threads : (size_t)cpus;
    book.threads = n;
    n = n < COUNT_OF(many) / 2 ? n : COUNT_OF(many) / 2;
    for (uint32_t i = 0; i < 2 * n; i++) {
      many[i] = (struct job){.number = i, .act = i < n ? stop_at_gate : meet};
    }
    book.meeting = 2 * n;
    CHECK(jobs_push_n(&p, many, n, FQ_FOREVER, NULL) == n);
    UNTIL(atomic_load(&book.started) == n);
    CHECK(jobs_push_n(&p, many + n, n, FQ_FOREVER, NULL) == n);
    atomic_store(&book.gate, true);
    CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK);
    CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
    book_check(&book, 2 * n);
  }
}

static bool is_fault(int number) {
  return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
         number == SIGTRAP || number == SIGABRT || number == SIGKILL || number == SIGSTOP;
}

static void look_at_signals(struct book *book, const struct job *job) {
  sigset_t mask;
  (void)book;
  (void)job;
  CHECK(pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0);
  for (int number = 1; number < 32; number++) {
    CHECK(is_fault(number) || sigismember(&mask, number) == 1);
  }
#ifdef SIGRTMIN
  for (int number = SIGRTMIN; number <= SIGRTMAX; number++) {
    CHECK(sigismember(&mask, number) == 1);
  }
#endif
  CHECK(sigismember(&mask, SIGSEGV) == 0 && sigismember(&mask, SIGFPE) == 0);
}

/* The workers take no signals away from the program, and the program's own mask is not touched. */
static void signals_are_blocked(void) {
  sigset_t own, old, after;
  sigemptyset(&own);
  sigaddset(&own, SIGUSR2);
  CHECK(pthread_sigmask(SIG_SETMASK, &own, &old) == 0);
  for (uint32_t round = 0; round < 2; round++) {
    static struct book book;
    jobs p;
    if (!book_start(&book, &p, (fq_config){.threads = 2})) {
      return;
    }
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &after) == 0);
    for (int number = 1; number < 32; number++) {
      CHECK(is_fault(number) || sigismember(&after, number) == (number == SIGUSR2 ? 1 : 0));
    }
    CHECK(jobs_push(&p, (struct job){.act = look_at_signals}, FQ_FOREVER) == FQ_OK);
    CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
    book_check(&book, 1);
  }
  CHECK(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
}

/* -- Sizes and alignment ----------------------------------------------------------------------- */

struct item_wide {
  _Alignas(128) unsigned char bytes[128];
};

/* What a worker of any of these pools is told: the task's shape, and what to add up. */
struct shape {
  size_t size, align;
  atomic_uint_fast64_t sum, canceled, count;
};

static void shape_add(struct shape *shape, const void *task, atomic_uint_fast64_t *sum) {
  uint64_t number = 0;
  CHECK((uintptr_t)task % shape->align == 0);
  CHECK(item_read(task, shape->size, &number));
  atomic_fetch_add(sum, number);
}

static int shape_work(void *task, void *ctx) {
  struct shape *shape = (struct shape *)ctx;
  shape_add(shape, task, &shape->sum);
  return 0;
}

static void shape_done(void *task, int error, void *ctx) {
  struct shape *shape = (struct shape *)ctx;
  if (error != 0) {
    shape_add(shape, task, &shape->canceled);
  } else {
    CHECK((uintptr_t)task % shape->align == 0);
  }
  atomic_fetch_add(&shape->count, 1);
}

/* 120 tasks through every batch and number of threads, run or canceled. Only by pointer: gcc has
 * a note to tell about each call that passes a value of more alignment than usual. */
#define SHAPE_TEST(name, T)                                                                        \
  FQ_POOL(name, T);                                                                                \
  static void name##_test(fq_config config, fq_how how) {                                          \
    enum { N = 120 };                                                                              \
    static T items[N];                                                                             \
    struct shape shape = {.size = sizeof(T), .align = _Alignof(T)};                                \
    uint64_t sum = 0;                                                                              \
    name p;                                                                                        \
    config.ctx = &shape;                                                                           \
    CHECK(name##_init(&p, &config) == FQ_OK);                                                      \
    for (size_t i = 0, n = 1; i < N; i += n) {                                                     \
      n = 4 - n; /* 3, 1, 3, 1, ... */                                                             \
      for (size_t k = i; k < i + n; k++) {                                                         \
        item_make(&items[k], sizeof(T), k);                                                        \
        sum += k;                                                                                  \
      }                                                                                            \
      CHECK(name##_push_n(&p, &items[i], n, FQ_FOREVER, NULL) == n);                               \
    }                                                                                              \
    CHECK(name##_destroy(&p, how) == FQ_OK);                                                       \
    CHECK(atomic_load(&shape.sum) + atomic_load(&shape.canceled) == sum);                          \
    CHECK(how == FQ_CANCEL || atomic_load(&shape.canceled) == 0);                                  \
    CHECK(atomic_load(&shape.count) == N);                                                         \
  }

SHAPE_TEST(pool1, uint8_t)
SHAPE_TEST(pool3, struct item3)
SHAPE_TEST(pool8, uint64_t)
SHAPE_TEST(pool24, struct item24)
SHAPE_TEST(pool200, struct item200)
SHAPE_TEST(pool_wide, struct item_wide)

static void sizes_and_alignments(void) {
  static const size_t batches[] = {0, 1, 3, 32};
  struct heap heap = {0};
  const fq_allocator memory = {heap_alloc, heap_free, &heap};
  for (size_t i = 0; i < 2 * 2 * COUNT_OF(batches); i++) {
    fq_how how = i % 2 == 0 ? FQ_DRAIN : FQ_CANCEL;
    fq_config config = {.worker = shape_work,
                        .done = shape_done,
                        .allocator = &memory,
                        .threads = i / 2 % 2 * 2 + 1,
                        .batch = batches[i / 4],
                        .limit = i % 3 * 5};
    pool1_test(config, how);
    pool3_test(config, how);
    pool8_test(config, how);
    pool24_test(config, how);
    pool200_test(config, how);
    pool_wide_test(config, how);
  }
  CHECK(heap.live == 0 && !heap.damaged);
}

/* -- Order ------------------------------------------------------------------------------------- */

static void push_mixed(jobs *p, uint32_t n, void (*act)(struct book *book, const struct job *job)) {
  struct job bulk[7] = {{0}};
  for (uint32_t i = 0; i < n;) {
    size_t size = 1 + i % COUNT_OF(bulk);
    size = size < n - i ? size : n - i;
    for (uint32_t k = 0; k < size; k++) {
      bulk[k] = (struct job){.number = i + k, .act = act};
    }
    if (size == 1) {
      CHECK(jobs_push(p, bulk[0], FQ_FOREVER) == FQ_OK);
    } else {
      CHECK(jobs_push_n(p, bulk, size, FQ_FOREVER, NULL) == size);
    }
    i += (uint32_t)size;
  }
}

/* When task n starts, each of the tasks before it has started, or is in the hands of one of the
 * other threads, which have a batch each. */
static void check_order(struct book *book, const struct job *job) {
  CHECK(atomic_load(&book->started) + (book->threads - 1) * book->batch >= job->number + 1);
  CHECK(book->threads > 1 || atomic_load(&book->started) == job->number + 1);
}

static void starts_in_order(void) {
  static const size_t limits[] = {1, 5, 0}, batches[] = {1, 4, 32};
  for (size_t threads = 1; threads <= 8; threads += threads) {
    for (size_t i = 0; i < COUNT_OF(limits) * COUNT_OF(batches); i++) {
      static struct book book;
      jobs p;
      size_t limit = limits[i % COUNT_OF(limits)], batch = batches[i / COUNT_OF(limits)];
      if (!book_start(&book, &p, (fq_config){.threads = threads, .limit = limit, .batch = batch})) {
        return;
      }
      book.threads = threads;
      book.batch = batch;
      push_mixed(&p, 3000, check_order);
      CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
      book_check(&book, 3000);
    }
  }
}

/* -- Every task meets done once ---------------------------------------------------------------- */

enum { PER_PUSHER = 500, PUSHERS = 4 };

struct pusher {
  struct book *book;
  jobs *pool;
  uint32_t first, n;
  int64_t timeout;
  bool in_one; /* one call for all */
  size_t accepted;
  fq_status why;
  atomic_bool over;
};

/* A worker's own push: it cannot wait for room that only its like can make. */
static void spawn(struct book *book, const struct job *job) {
  struct job child = {.number = job->number + MAX_JOBS / 2, .error = 3};
  fq_status status;
  if (job->number % 2 == 0) {
    status = jobs_push(book->pool, child, FQ_FOREVER);
  } else {
    size_t n = jobs_push_n(book->pool, &child, 1, MILLISECOND, &status);
    CHECK((n == 1) == (status == FQ_OK));
  }
  CHECK(status == FQ_OK || (book->limited && status == FQ_DEADLOCK) ||
        (book->ends && status == FQ_CLOSED));
  atomic_fetch_add(&book->children, status == FQ_OK ? 1 : 0);
}

static void make_jobs(struct job *out, uint32_t first, size_t n) {
  for (uint32_t i = 0; i < n; i++) {
    uint32_t number = first + i;
    out[i] = (struct job){.number = number,
                          .error = (int)(number % 3),
                          .act = number % 4 == 0 ? spawn : NULL,
                          .after = number % 8 == 1 ? spawn : NULL};
  }
}

static void *pusher_main(void *arg) {
  struct pusher *me = (struct pusher *)arg;
  struct job bulk[PER_PUSHER];
  make_jobs(bulk, me->first, me->n);
  me->why = FQ_OK;
  while (me->accepted < me->n && me->why != FQ_CLOSED) {
    size_t left = me->n - me->accepted;
    size_t n = me->in_one || left < 9 ? left : me->accepted % 9;
    if (n == 0) {
      me->why = jobs_push(me->pool, bulk[me->accepted], me->timeout);
      me->accepted += me->why == FQ_OK ? 1 : 0;
    } else {
      me->accepted += jobs_push_n(me->pool, bulk + me->accepted, n, me->timeout, &me->why);
    }
    CHECK(me->why == FQ_OK || me->why == FQ_CLOSED || (me->timeout >= 0 && me->why == FQ_TIMEOUT));
    if (me->in_one) {
      break;
    }
  }
  atomic_store(&me->over, true);
  return NULL;
}

static void check_once(fq_config config, size_t pushers) {
  static struct book book;
  struct pusher tasks[PUSHERS];
  struct crew crew = {0};
  jobs p;
  if (!book_start(&book, &p, config)) {
    return;
  }
  book.limited = config.limit != 0;
  for (size_t i = 0; i < pushers; i++) {
    tasks[i] = (struct pusher){.book = &book,
                               .pool = &p,
                               .first = (uint32_t)(i * PER_PUSHER),
                               .n = PER_PUSHER,
                               .timeout = i % 2 == 0 ? FQ_FOREVER : 20 * MICROSECOND};
    crew_add(&crew, pusher_main, &tasks[i]);
  }
  crew_join(&crew);
  CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK);
  book_check(&book, pushers * PER_PUSHER + atomic_load(&book.children));
  CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
  book_check(&book, pushers * PER_PUSHER + atomic_load(&book.children));
  CHECK(atomic_load(&book.canceled) == 0);
}

static void every_task_meets_done_once(void) {
  static const size_t threads[] = {1, 2, 8}, batches[] = {1, 32}, limits[] = {1, 7, 0};
  for (size_t t = 0; t < COUNT_OF(threads); t++) {
    for (size_t b = 0; b < COUNT_OF(batches); b++) {
      for (size_t l = 0; l < COUNT_OF(limits); l++) {
        fq_config config = {.threads = threads[t], .batch = batches[b], .limit = limits[l]};
        check_once(config, 1);
        check_once(config, PUSHERS);
      }
    }
  }
}

/* -- wait -------------------------------------------------------------------------------------- */

static void wait_when_idle_and_when_busy(void) {
  static const int64_t timeouts[] = {1, 50 * MICROSECOND, 3 * MILLISECOND, 20 * MILLISECOND};
  static struct book book;
  jobs p;
  if (!book_start(&book, &p, (fq_config){.threads = 2})) {
    return;
  }
  CHECK(jobs_wait(&p, FQ_NOWAIT) == FQ_OK && jobs_wait(&p, 1) == FQ_OK);
  CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK);
  CHECK(jobs_push(&p, (struct job){.act = stop_at_gate}, FQ_NOWAIT) == FQ_OK);
  CHECK(jobs_wait(&p, FQ_NOWAIT) == FQ_TIMEOUT);
  for (size_t i = 0; i < COUNT_OF(timeouts); i++) {
    int64_t start = now_ns();
    CHECK(jobs_wait(&p, timeouts[i]) == FQ_TIMEOUT);
    CHECK(now_ns() - start >= timeouts[i]);
  }
  atomic_store(&book.gate, true);
  CHECK(jobs_wait(&p, INT64_MAX) == FQ_OK && jobs_wait(&p, FQ_NOWAIT) == FQ_OK);
  book_check(&book, 1);
  CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
}

enum { CHAIN = 400, WAITERS = 5 };

/* Each task of the chain pushes the next one: there is no idle moment before its end. */
static void push_next(struct book *book, const struct job *job) {
  if (job->number + 1 < CHAIN) {
    struct job next = *job;
    next.number++;
    CHECK(jobs_push(book->pool, next, FQ_NOWAIT) == FQ_OK);
  }
}

static void *wait_for_chain(void *arg) {
  struct book *book = (struct book *)arg;
  CHECK(jobs_wait(book->pool, FQ_FOREVER) == FQ_OK);
  CHECK(atomic_load(&book->ended) == CHAIN);
  return NULL;
}

static void *poll_for_chain(void *arg) {
  struct book *book = (struct book *)arg;
  UNTIL(jobs_wait(book->pool, FQ_NOWAIT) == FQ_OK);
  CHECK(atomic_load(&book->ended) == CHAIN);
  return NULL;
}

static void wait_includes_children(void) {
  for (size_t round = 0; round < ROUNDS(80); round++) {
    static struct book book;
    struct crew crew = {0};
    fq_config config = {
        .threads = 1 + round % 4, .batch = 1 + round / 4 % 2 * 31, .limit = round / 8 % 2};
    bool in_done = round / 16 % 2 != 0;
    struct job first = {.act = in_done ? NULL : push_next, .after = in_done ? push_next : NULL};
    jobs p;
    if (!book_start(&book, &p, config)) {
      return;
    }
    CHECK(jobs_push(&p, first, FQ_NOWAIT) == FQ_OK);
    for (size_t i = 0; i < WAITERS; i++) {
      crew_add(&crew, i == 0 ? poll_for_chain : wait_for_chain, &book);
    }
    wait_for_chain(&book);
    crew_join(&crew);
    CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
    book_check(&book, CHAIN);
  }
}

/* -- Calls that would wait for themselves ------------------------------------------------------ */

static void try_to_wait(struct book *book, const struct job *job) {
  (void)job;
  CHECK(jobs_wait(book->pool, FQ_FOREVER) == FQ_DEADLOCK);
  CHECK(jobs_wait(book->pool, MILLISECOND) == FQ_DEADLOCK);
  CHECK(jobs_wait(book->pool, FQ_NOWAIT) == FQ_TIMEOUT); /* this very task runs */
  CHECK(jobs_destroy(book->pool, FQ_DRAIN) == FQ_DEADLOCK);
  CHECK(jobs_destroy(book->pool, FQ_CANCEL) == FQ_DEADLOCK);
}

static void try_to_push(struct book *book, const struct job *job) {
  struct job more[3];
  fq_status why = FQ_OK;
  (void)job;
  for (uint32_t i = 0; i < 3; i++) {
    more[i] = (struct job){.number = 10 + i};
  }
  CHECK(jobs_push_n(book->pool, more, 3, FQ_FOREVER, &why) == 2 && why == FQ_DEADLOCK);
  CHECK(jobs_push_n(book->pool, more, 3, FQ_NOWAIT, &why) == 0 && why == FQ_FULL);
  CHECK(jobs_push_n(book->pool, more, 3, MILLISECOND, &why) == 0 && why == FQ_DEADLOCK);
  CHECK(jobs_push(book->pool, more[2], FQ_FOREVER) == FQ_DEADLOCK);
  CHECK(jobs_push(book->pool, more[2], INT64_MAX) == FQ_DEADLOCK);
  CHECK(jobs_push(book->pool, more[2], FQ_NOWAIT) == FQ_FULL);
}

/* Runs on the thread that destroys the pool: what waits for that would wait for itself. */
static void try_when_canceled(void *task, int error, void *ctx) {
  struct book *book = (struct book *)ctx;
  if (error == FQ_CANCELED) {
    CHECK(jobs_wait(book->pool, MILLISECOND) == FQ_DEADLOCK);
    CHECK(jobs_push(book->pool, *(const struct job *)task, FQ_FOREVER) == FQ_CLOSED);
    CHECK(jobs_destroy(book->pool, FQ_DRAIN) == FQ_DEADLOCK);
  }
  book_done(task, error, ctx);
}

static void canceled_tasks_do_not_wait_for_themselves(void) {
  static struct book book;
  fq_config config = {.worker = book_work, .done = try_when_canceled, .ctx = &book, .threads = 1};
  jobs p;
  config.limit = 2;
  book_open(&book, &p);
  if (!CHECK(jobs_init(&p, &config) == FQ_OK)) {
    return;
  }
  CHECK(jobs_push(&p, (struct job){.act = hold_until_closed}, FQ_FOREVER) == FQ_OK);
  UNTIL(atomic_load(&book.started) == 1);
  for (uint32_t i = 1; i <= 2; i++) {
    CHECK(jobs_push(&p, (struct job){.number = i}, FQ_NOWAIT) == FQ_OK);
  }
  atomic_store(&book.gate, true);
  CHECK(jobs_destroy(&p, FQ_CANCEL) == FQ_OK);
  book_check(&book, 3);
  CHECK(atomic_load(&book.canceled) == 2);
}

static void workers_do_not_wait_for_themselves(void) {
  for (int after = 0; after < 2; after++) {
    static struct book book;
    jobs p;
    if (!book_start(&book, &p, (fq_config){.threads = 1, .limit = 2})) {
      return;
    }
    struct job job = {.number = 1};
    *(after != 0 ? &job.after : &job.act) = try_to_wait;
    CHECK(jobs_push(&p, job, FQ_FOREVER) == FQ_OK);
    CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK);
    job.number = 2;
    *(after != 0 ? &job.after : &job.act) = try_to_push;
    CHECK(jobs_push(&p, job, FQ_FOREVER) == FQ_OK);
    CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK); /* nothing was touched by the refused calls */
    CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
    book_check(&book, 4);
  }
}

static void use_other_pool(struct book *book, const struct job *job) {
  (void)job;
  push_mixed(book->other->pool, 300, NULL); /* waits for room, again and again */
  CHECK(jobs_wait(book->other->pool, FQ_FOREVER) == FQ_OK);
  CHECK(jobs_destroy(book->other->pool, FQ_DRAIN) == FQ_OK);
}

static void workers_wait_for_other_pools(void) {
  static struct book book, other;
  jobs p, q;
  if (!book_start(&book, &p, (fq_config){.threads = 1}) ||
      !book_start(&other, &q, (fq_config){.threads = 2, .limit = 1})) {
    return;
  }
  book.other = &other;
  CHECK(jobs_push(&p, (struct job){.act = use_other_pool}, FQ_FOREVER) == FQ_OK);
  CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
  book_check(&book, 1);
  book_check(&other, 300);
}

static void limit_counts_waiting_tasks(void) {
  static struct book book;
  struct job bulk[5];
  fq_status why = FQ_OK;
  jobs p;
  make_jobs(bulk, 1, COUNT_OF(bulk));
  if (!book_start(&book, &p, (fq_config){.threads = 1, .limit = 3})) {
    return;
  }
  for (size_t i = 0; i < COUNT_OF(bulk); i++) {
    bulk[i].act = NULL;
    bulk[i].after = NULL;
  }
  CHECK(jobs_push(&p, (struct job){.act = stop_at_gate}, FQ_FOREVER) == FQ_OK);
  UNTIL(atomic_load(&book.started) == 1);
  CHECK(jobs_push_n(&p, bulk, 5, FQ_NOWAIT, &why) == 3 && why == FQ_FULL);
  int64_t start = now_ns();
  CHECK(jobs_push(&p, bulk[4], 2 * MILLISECOND) == FQ_TIMEOUT);
  CHECK(jobs_push_n(&p, bulk + 3, 2, MILLISECOND, &why) == 0 && why == FQ_TIMEOUT);
  CHECK(now_ns() - start >= 3 * MILLISECOND);
  CHECK(jobs_push(&p, bulk[4], FQ_NOWAIT) == FQ_FULL);
  atomic_store(&book.gate, true);
  CHECK(jobs_push_n(&p, bulk + 3, 2, FQ_FOREVER, &why) == 2 && why == FQ_OK);
  CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
  book_check(&book, 6);
}

/* -- destroy ----------------------------------------------------------------------------------- */

/* What is queued behind a running task runs, or is dropped, in order. */
static void destroy_in_order(void) {
  for (int cancel = 0; cancel < 2; cancel++) {
    static struct book book;
    enum { QUEUED = 100 };
    jobs p;
    if (!book_start(&book, &p, (fq_config){.threads = 1, .limit = QUEUED})) {
      return;
    }
    book.in_order = true;
    CHECK(jobs_push(&p, (struct job){.act = hold_until_closed}, FQ_FOREVER) == FQ_OK);
    UNTIL(atomic_load(&book.started) == 1);
    for (uint32_t i = 1; i <= QUEUED; i++) {
      CHECK(jobs_push(&p, (struct job){.number = i, .error = 2}, FQ_NOWAIT) == FQ_OK);
    }
    atomic_store(&book.gate, true);
    CHECK(jobs_destroy(&p, cancel != 0 ? FQ_CANCEL : FQ_DRAIN) == FQ_OK);
    book_check(&book, 1 + QUEUED);
    CHECK(atomic_load(&book.canceled) == (cancel != 0 ? QUEUED : 0));
  }
}

/* Each pusher makes one call, and is in it, or back, when its first task has started. What was
 * accepted of it is a prefix. */
static void check_destroy(fq_config config, fq_how how, size_t k) {
  static struct book book;
  struct pusher tasks[PUSHERS];
  struct crew crew = {0};
  jobs *p = (jobs *)malloc(sizeof(*p));
  if (!CHECK(p != NULL) || !book_start(&book, p, config)) {
    abort();
  }
  book.limited = config.limit != 0;
  book.ends = true;
  for (size_t i = 0; i < PUSHERS; i++) {
    tasks[i] = (struct pusher){.book = &book,
                               .pool = p,
                               .first = (uint32_t)(i * PER_PUSHER),
                               .n = 120,
                               .timeout = i % 2 == 0 ? FQ_FOREVER : MILLISECOND,
                               .in_one = true};
    crew_add(&crew, pusher_main, &tasks[i]);
    UNTIL(atomic_load(&book.ran[tasks[i].first]) != 0 || atomic_load(&tasks[i].over));
  }
  UNTIL(atomic_load(&book.started) >= k || jobs_wait(p, FQ_NOWAIT) == FQ_OK);
  CHECK(jobs_destroy(p, how) == FQ_OK);
  size_t ended = atomic_load(&book.ended) + atomic_load(&book.canceled);
  memset(p, 0xDD, sizeof(*p));
  free(p);
  crew_join(&crew);
  size_t accepted = atomic_load(&book.children);
  for (size_t i = 0; i < PUSHERS; i++) {
    accepted += tasks[i].accepted;
    for (uint32_t j = 0; j < tasks[i].n; j++) {
      bool seen = atomic_load(&book.done[tasks[i].first + j]) != 0;
      CHECK(seen == (j < tasks[i].accepted));
    }
  }
  CHECK(ended == accepted);
  book_check(&book, accepted);
  CHECK(how == FQ_CANCEL || atomic_load(&book.canceled) == 0);
}

static void destroy_at_every_moment(void) {
  static const size_t limits[] = {1, 7, 0}, batches[] = {1, 32};
  for (size_t k = 0; k < 400; k++) {
    fq_config config = {.threads = 1 + k % 5,
                        .limit = limits[k % COUNT_OF(limits)],
                        .batch = batches[k / 2 % COUNT_OF(batches)]};
    check_destroy(config, k % 2 == 0 ? FQ_DRAIN : FQ_CANCEL, k);
  }
}

static void destroy_right_after_init(void) {
  for (size_t round = 0; round < ROUNDS(300); round++) {
    static struct book book;
    jobs p;
    if (!book_start(&book, &p, (fq_config){.threads = 1 + round % 4, .batch = 1 + round % 3})) {
      return;
    }
    size_t n = round % 5;
    for (uint32_t i = 0; i < n; i++) {
      CHECK(jobs_push(&p, (struct job){.number = i}, FQ_NOWAIT) == FQ_OK);
    }
    CHECK(jobs_destroy(&p, round % 2 == 0 ? FQ_DRAIN : FQ_CANCEL) == FQ_OK);
    book_check(&book, n);
  }
}

int main(void) {
  RUN(dead_objects);
  RUN(absurd_configs);
  RUN(null_arguments);
  RUN(config_is_copied);
  RUN(done_may_be_left_out);
  RUN(all_threads_run_at_once);
  RUN(signals_are_blocked);
  RUN(sizes_and_alignments);
  RUN(starts_in_order);
  RUN(every_task_meets_done_once);
  RUN(wait_when_idle_and_when_busy);
  RUN(wait_includes_children);
  RUN(workers_do_not_wait_for_themselves);
  RUN(canceled_tasks_do_not_wait_for_themselves);
  RUN(workers_wait_for_other_pools);
  RUN(limit_counts_waiting_tasks);
  RUN(destroy_in_order);
  RUN(destroy_at_every_moment);
  RUN(destroy_right_after_init);
  return test_end();
}
