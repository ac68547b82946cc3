/* pool_fault.c: FQ_POOL with the system watched: requests refused, wakes and allocations counted,
 * waiting threads counted, so that destroy and idle moments can be placed exactly. */
#define FASTQ_IMPLEMENTATION
#define FASTQ_MALLOC(size) sys_malloc(size)
#define FASTQ_FREE(p)      sys_free(p)
#include "system.h"

#include "heap.h"
#include "pool_book.h"
#include "test.h"
#include "threads.h"

/* Opened with one thread, which stops at the gate: no worker sleeps. */
static bool start_at_gate(struct book *book, jobs *p, size_t limit) {
  if (!book_start(book, p, (fq_config){.threads = 1, .limit = limit})) {
    return false;
  }
  CHECK(jobs_push(p, (struct job){.act = stop_at_gate}, FQ_FOREVER) == FQ_OK);
  UNTIL(atomic_load(&book->started) == 1);
  CHECK(atomic_load(&sys.sleeping) == 0);
  return true;
}

/* -- What the system refuses ------------------------------------------------------------------- */

static bool same_mask(const sigset_t *a, const sigset_t *b) {
  for (int number = 1; number < 32; number++) {
    if (sigismember(a, number) != sigismember(b, number)) {
      return false;
    }
  }
  return true;
}

/* The k-th request is refused, for each k: init fails, with its reason, and nothing stays
 * behind. */
static void check_init_fails(fq_config config) {
  size_t k = 0;
  int refused;
  do {
    static struct book book;
    sigset_t before, after;
    jobs p;
    book_open(&book, &p);
    config.worker = book_work;
    config.ctx = &book;
    config.done = book_done;
    (void)pthread_sigmask(SIG_SETMASK, NULL, &before);
    sys_refuse(++k);
    fq_status status = jobs_init(&p, &config);
    refused = atomic_load(&sys.refused);
    sys_refuse(0);
    (void)pthread_sigmask(SIG_SETMASK, NULL, &after);
    CHECK(same_mask(&before, &after));
    if (refused == SYS_NOTHING) {
      CHECK(status == FQ_OK);
      CHECK(jobs_push(&p, (struct job){.number = 0}, FQ_FOREVER) == FQ_OK);
    } else {
      CHECK(status == (refused == SYS_MEMORY ? FQ_NOMEM : FQ_SYSTEM));
      CHECK(sys_is_tidy());
      CHECK(jobs_push(&p, (struct job){.number = 0}, FQ_FOREVER) == FQ_INVALID);
      CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_INVALID);
    }
    CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK && jobs_destroy(&p, FQ_CANCEL) == FQ_OK);
    book_check(&book, refused == SYS_NOTHING ? 1 : 0);
    CHECK(sys_is_tidy());
  } while (refused != SYS_NOTHING);
  CHECK(k > 3 * config.threads);
}

static void init_fails_whole(void) {
  check_init_fails((fq_config){.threads = 1});
  check_init_fails((fq_config){.threads = 4, .limit = 9, .batch = 32});
}

static void init_fails_with_its_allocator(void) {
  for (size_t limit = 0; limit < 2; limit++) {
    struct heap heap = {0};
    const fq_allocator memory = {heap_alloc, heap_free, &heap};
    fq_status status = FQ_NOMEM;
    jobs p;
    for (size_t k = 1; status == FQ_NOMEM; k++) {
      fq_config config = {.worker = book_work, .threads = 2, .limit = limit, .allocator = &memory};
      heap.calls = 0;
      heap.fail_at = k;
      status = jobs_init(&p, &config);
      CHECK(status == (heap.calls >= k ? FQ_NOMEM : FQ_OK));
      CHECK(status == FQ_OK || heap.live == 0);
      CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
      CHECK(heap.live == 0 && !heap.damaged);
    }
    CHECK(heap.calls > 0);
    CHECK(sys_is_tidy());
  }
}

/* Once a pool has started, its workers need nothing more of the system: whatever is refused, every
 * accepted task runs. Threads that push or wait may be told that they cannot. */
static void workers_need_nothing_more(void) {
  size_t k = 0;
  int refused;
  do {
    static struct book book;
    uint32_t accepted = 0;
    jobs p;
    if (!book_start(&book, &p, (fq_config){.threads = 2, .limit = 1})) {
      return;
    }
    sys_refuse(++k);
    for (uint32_t i = 0; i < 50; i++) {
      fq_status status = jobs_push(&p, (struct job){.number = accepted}, FQ_FOREVER);
      CHECK(status == FQ_OK || (status == FQ_SYSTEM && atomic_load(&sys.refused) == SYS_OTHER));
      accepted += status == FQ_OK ? 1 : 0;
      status = i % 10 == 9 ? jobs_wait(&p, FQ_FOREVER) : FQ_OK;
      CHECK(status == FQ_OK || (status == FQ_SYSTEM && atomic_load(&sys.refused) == SYS_OTHER));
    }
    refused = atomic_load(&sys.refused);
    CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
    sys_refuse(0);
    CHECK(accepted >= 49);
    book_check(&book, accepted);
    CHECK(sys_is_tidy());
  } while (refused != SYS_NOTHING && k < 60);
}

static void waits_that_cannot_be(void) {
  size_t k = 0;
  int refused;
  do {
    static struct book book;
    fq_status why = FQ_OK;
    jobs p;
    if (!start_at_gate(&book, &p, 2)) {
      return;
    }
    const struct job bulk[3] = {{.number = 1}, {.number = 2}, {.number = 3}};
    sys_refuse(++k);
    CHECK(jobs_push_n(&p, bulk, 3, 1, &why) == 2);
    refused = atomic_load(&sys.refused);
    CHECK(why == (refused == SYS_NOTHING ? FQ_TIMEOUT : FQ_SYSTEM));
    sys_refuse(k);
    fq_status status = jobs_wait(&p, 1);
    refused |= atomic_load(&sys.refused);
    CHECK(status == (atomic_load(&sys.refused) == SYS_NOTHING ? FQ_TIMEOUT : FQ_SYSTEM));
    sys_refuse(0);
    atomic_store(&book.gate, true);
    CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
    book_check(&book, 3);
    CHECK(sys_is_tidy());
  } while (refused != SYS_NOTHING);
}

/* A helper that finds no room for a large task lets it wait; a cancel that finds none lets the
 * rest wait. */
struct heavy {
  unsigned char bytes[400];
};

FQ_POOL(heavies, struct heavy);

struct heavy_book {
  heavies *pool;
  size_t ran, canceled;
};

static int heavy_work(void *task, void *ctx) {
  struct heavy_book *book = (struct heavy_book *)ctx;
  CHECK(*(const unsigned char *)task == book->ran + book->canceled);
  if (book->ran++ == 0) {
    sys_refuse_from(1);
    CHECK(!heavies_help(book->pool));
    CHECK(atomic_load(&sys.refused) == SYS_MEMORY && heavies_count(book->pool) == 9);
    sys_refuse_from(1);
    CHECK(heavies_cancel_if(book->pool, NULL, NULL) == 0);
    CHECK(atomic_load(&sys.refused) == SYS_MEMORY && heavies_count(book->pool) == 9);
    sys_refuse_from(2); /* room for some */
    book->canceled = heavies_cancel_if(book->pool, NULL, NULL);
    CHECK(atomic_load(&sys.refused) == SYS_MEMORY);
    CHECK(book->canceled > 0 && heavies_count(book->pool) == 9 - book->canceled);
    sys_refuse(0);
    CHECK(heavies_help(book->pool) && book->ran == 2);
  }
  return 0;
}

static void heavy_done(void *task, int error, void *ctx) {
  (void)ctx;
  CHECK(error == 0 || (error == FQ_CANCELED && *(const unsigned char *)task > 0));
}

static void no_memory_to_help_or_cancel(void) {
  struct heavy_book book = {.ran = 0};
  heavies p;
  fq_config config = {.worker = heavy_work, .done = heavy_done, .ctx = &book, .threads = 1};
  book.pool = &p;
  CHECK(heavies_init(&p, &config) == FQ_OK);
  heavies_pause(&p);
  for (unsigned char i = 0; i < 10; i++) {
    struct heavy heavy = {{i}};
    CHECK(heavies_push(&p, heavy, FQ_FOREVER) == FQ_OK);
  }
  heavies_resume(&p);
  CHECK(heavies_wait(&p, FQ_FOREVER) == FQ_OK);
  CHECK(book.ran + book.canceled == 10);
  fq_stats stats = heavies_stats(&p);
  CHECK(stats.completed == book.ran && stats.canceled == book.canceled && stats.submitted == 10);
  CHECK(heavies_destroy(&p, FQ_DRAIN) == FQ_OK);
  CHECK(sys_is_tidy());
}

/* An unbounded queue that cannot grow refuses the task, and goes on. */
static void queue_that_cannot_grow(void) {
  static struct book book;
  struct job bulk[40];
  fq_status why = FQ_OK;
  jobs p;
  for (uint32_t i = 0; i < COUNT_OF(bulk); i++) {
    bulk[i] = (struct job){.number = i + 1};
  }
  if (!start_at_gate(&book, &p, 0)) {
    return;
  }
  size_t n = jobs_push_n(&p, bulk, 2, FQ_FOREVER, NULL);
  sys_refuse(1);
  n += jobs_push_n(&p, bulk + n, COUNT_OF(bulk) - n, FQ_FOREVER, &why);
  CHECK(n < COUNT_OF(bulk) && why == FQ_NOMEM);
  sys_refuse(1);
  CHECK(jobs_push(&p, bulk[n], FQ_FOREVER) == FQ_NOMEM);
  sys_refuse(0);
  CHECK(jobs_push_n(&p, bulk + n, COUNT_OF(bulk) - n, FQ_FOREVER, &why) == COUNT_OF(bulk) - n);
  CHECK(why == FQ_OK);
  atomic_store(&book.gate, true);
  CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
  book_check(&book, 1 + COUNT_OF(bulk));
  CHECK(sys_is_tidy());
}

/* -- Memory and locks -------------------------------------------------------------------------- */

struct tally {
  atomic_size_t worked, done;
};

static int tally_work(void *task, void *ctx) {
  CHECK(sys_locks == 0);
  atomic_fetch_add(&((struct tally *)ctx)->worked, *(const uint32_t *)task);
  return 0;
}

static void tally_done(void *task, int error, void *ctx) {
  CHECK(sys_locks == 0);
  (void)task;
  atomic_fetch_add(&((struct tally *)ctx)->done, error == 0 || error == FQ_CANCELED ? 1 : 1000000);
}

FQ_POOL(tallies, uint32_t);

static void callbacks_hold_no_lock(void) {
  for (int cancel = 0; cancel < 2; cancel++) {
    struct tally tally = {0};
    fq_config config = {.worker = tally_work, .done = tally_done, .ctx = &tally, .threads = 2};
    tallies p;
    CHECK(tallies_init(&p, &config) == FQ_OK);
    for (uint32_t i = 0; i < 1000; i++) {
      CHECK(tallies_push(&p, 1, FQ_FOREVER) == FQ_OK);
    }
    CHECK(tallies_destroy(&p, cancel != 0 ? FQ_CANCEL : FQ_DRAIN) == FQ_OK);
    CHECK(atomic_load(&tally.done) == 1000);
    CHECK(sys_locks == 0);
    CHECK(sys_is_tidy());
  }
}

/* 100,000 tasks, singly and in bulk, with waits and a full queue, and not one allocation. */
static void tasks_do_not_allocate(void) {
  static const size_t batches[] = {1, 32};
  for (size_t i = 0; i < 4; i++) {
    struct heap heap = {0};
    const fq_allocator memory = {heap_alloc, heap_free, &heap};
    struct tally tally = {0};
    uint32_t bulk[50];
    tallies p;
    fq_config config = {.worker = tally_work,
                        .done = tally_done,
                        .ctx = &tally,
                        .threads = 2,
                        .batch = batches[i % 2],
                        .limit = 64,
                        .allocator = i / 2 == 0 ? NULL : &memory};
    for (size_t k = 0; k < COUNT_OF(bulk); k++) {
      bulk[k] = 1;
    }
    CHECK(tallies_init(&p, &config) == FQ_OK);
    size_t before = atomic_load(&sys.allocations) + heap.calls;
    for (size_t round = 0; round < ROUNDS(1000); round++) {
      for (size_t k = 0; k < COUNT_OF(bulk); k++) {
        CHECK(tallies_push(&p, 1, FQ_FOREVER) == FQ_OK);
      }
      CHECK(tallies_push_n(&p, bulk, COUNT_OF(bulk), FQ_FOREVER, NULL) == COUNT_OF(bulk));
      CHECK(round % 100 != 0 || tallies_wait(&p, FQ_FOREVER) == FQ_OK);
    }
    CHECK(tallies_wait(&p, FQ_FOREVER) == FQ_OK);
    CHECK(before > 0 && atomic_load(&sys.allocations) + heap.calls == before);
    CHECK(tallies_destroy(&p, FQ_DRAIN) == FQ_OK);
    CHECK(atomic_load(&tally.worked) == 100 * ROUNDS(1000));
    CHECK(atomic_load(&tally.done) == 100 * ROUNDS(1000));
    CHECK(heap.live == 0 && !heap.damaged);
    CHECK(sys_is_tidy());
  }
}

/* -- Wakes ------------------------------------------------------------------------------------- */

static void no_wake_for_a_busy_worker(void) {
  static struct book book;
  jobs p;
  if (!start_at_gate(&book, &p, 0)) {
    return;
  }
  sys_watch(&p, sizeof(p));
  for (uint32_t i = 1; i <= 1000; i++) {
    CHECK(jobs_push(&p, (struct job){.number = i}, FQ_FOREVER) == FQ_OK);
  }
  CHECK(atomic_load(&sys.wakes) == 0);
  atomic_store(&book.gate, true);
  CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
  CHECK(atomic_load(&sys.wakes) == 0);
  book_check(&book, 1001);
  CHECK(sys_is_tidy());
}

enum { WORKERS = 6 };

/* n tasks wake n of the sleeping workers, or all; and every one that got a task stays at the
 * gate. */
static void tasks_wake_workers(void) {
  for (size_t n = 1; n <= WORKERS + 2; n++) {
    static struct book book;
    struct job bulk[WORKERS + 2];
    jobs p;
    size_t busy = n < WORKERS ? n : WORKERS;
    for (uint32_t i = 0; i < n; i++) {
      bulk[i] = (struct job){.number = i, .act = stop_at_gate};
    }
    if (!book_start(&book, &p, (fq_config){.threads = WORKERS})) {
      return;
    }
    UNTIL(atomic_load(&sys.sleeping) == WORKERS);
    sys_watch(&p, sizeof(p));
    CHECK(jobs_push_n(&p, bulk, n, FQ_FOREVER, NULL) == n);
    CHECK(atomic_load(&sys.wakes) == busy);
    UNTIL(atomic_load(&book.started) == busy);
    UNTIL(atomic_load(&sys.sleeping) == WORKERS - busy);
    atomic_store(&book.gate, true);
    CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
    CHECK(atomic_load(&sys.wakes) <= 2 * WORKERS);
    book_check(&book, n);
    CHECK(sys_is_tidy());
  }
}

/* A bulk push finds min(tasks, sleepers, free places) workers and wakes these, whatever its batch;
 * what starts beyond them waits for one of them to end. */
static void bulk_wakes_no_more_than_places(void) {
  static const size_t batches[] = {1, 2, 32};
  for (size_t b = 0; b < COUNT_OF(batches); b++) {
    for (size_t n = 1; n <= WORKERS + 2; n++) {
      for (size_t concurrency = 1; concurrency <= WORKERS; concurrency += 2) {
        static struct book book;
        struct job bulk[WORKERS + 2];
        jobs p;
        size_t busy = n < concurrency ? n : concurrency;
        fq_config config = {.threads = WORKERS, .concurrency = concurrency, .batch = batches[b]};
        if (!book_start(&book, &p, config)) {
          return;
        }
        for (uint32_t i = 0; i < n; i++) {
          bulk[i] = (struct job){.number = i, .act = stop_at_gate};
        }
        UNTIL(atomic_load(&sys.sleeping) == WORKERS);
        sys_watch(&p, sizeof(p));
        CHECK(jobs_push_n(&p, bulk, n, FQ_FOREVER, NULL) == n);
        CHECK(atomic_load(&sys.wakes) == busy);
        UNTIL(atomic_load(&book.started) == busy && atomic_load(&sys.sleeping) == WORKERS - busy);
        CHECK(jobs_running(&p) + jobs_count(&p) == n && atomic_load(&sys.wakes) == busy);
        atomic_store(&book.gate, true);
        CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
        book_check(&book, n);
        CHECK(sys_is_tidy());
      }
    }
  }
}

/* Tasks that nobody may start wake nobody; what lets k of them start wakes k. */
static void paused_workers_sleep(void) {
  static struct book book;
  jobs p;
  if (!book_start(&book, &p, (fq_config){.threads = WORKERS, .concurrency = 3})) {
    return;
  }
  jobs_pause(&p);
  UNTIL(atomic_load(&sys.sleeping) == WORKERS);
  sys_watch(&p, sizeof(p));
  for (uint32_t i = 0; i < 20; i++) {
    CHECK(jobs_push(&p, (struct job){.number = i, .act = stop_until_opened}, FQ_NOWAIT) == FQ_OK);
  }
  CHECK(atomic_load(&sys.wakes) == 0 && atomic_load(&sys.sleeping) == WORKERS);
  jobs_resume(&p);
  CHECK(atomic_load(&sys.wakes) == 3);
  UNTIL(atomic_load(&book.started) == 3 && atomic_load(&sys.sleeping) == WORKERS - 3);
  CHECK(jobs_set_concurrency(&p, 5) == FQ_OK);
  CHECK(atomic_load(&sys.wakes) == 5);
  UNTIL(atomic_load(&book.started) == 5 && atomic_load(&sys.sleeping) == WORKERS - 5);
  CHECK(jobs_set_concurrency(&p, 1) == FQ_OK);
  jobs_pause(&p);
  atomic_store(&book.opened, 20);
  CHECK(jobs_wait_running(&p, FQ_FOREVER) == FQ_OK);
  UNTIL(atomic_load(&sys.sleeping) == WORKERS);
  CHECK(atomic_load(&book.started) == 5 && jobs_count(&p) == 15);
  sys_watch(&p, sizeof(p));
  CHECK(jobs_cancel_if(&p, NULL, NULL) == 15 && atomic_load(&sys.wakes) == 0);
  jobs_resume(&p);
  CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK && atomic_load(&sys.wakes) == 0);
  CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
  book_check(&book, 20);
  CHECK(sys_is_tidy());
}

/* -- Threads that wait ------------------------------------------------------------------------- */

enum { GUESTS = 6 };

struct guest {
  jobs *pool;
  bool pushes, front, rests; /* name_push, ..._front, ..._wait_running; otherwise ..._wait */
  struct job job;
  int64_t timeout, took;
  fq_status status;
};

static bool is_number(const void *task, void *arg) {
  return ((const struct job *)task)->number == *(const uint32_t *)arg;
}

/* arg: how many there are, then their numbers. */
static bool note_number(const void *task, void *arg) {
  uint32_t *order = (uint32_t *)arg;
  order[++order[0]] = ((const struct job *)task)->number;
  return true;
}

static void *guest_main(void *arg) {
  struct guest *g = (struct guest *)arg;
  int64_t start = now_ns();
  g->status = g->front    ? jobs_push_front(g->pool, g->job, g->timeout)
              : g->pushes ? jobs_push(g->pool, g->job, g->timeout)
              : g->rests  ? jobs_wait_running(g->pool, g->timeout)
                          : jobs_wait(g->pool, g->timeout);
  g->took = now_ns() - start;
  return NULL;
}

/* Dropped tasks leave room for those who wait to push, and one who pushes to the front gets there;
 * close lets them go. */
static void cancel_makes_room(void) {
  for (int front = 0; front < 2; front++) {
    static struct book book;
    struct guest guest = {.pushes = front == 0, .front = front != 0, .timeout = FQ_FOREVER};
    struct crew crew = {0};
    uint32_t number = 1, order[4] = {0};
    jobs p;
    if (!start_at_gate(&book, &p, 2)) {
      return;
    }
    for (; number <= 2; number++) {
      CHECK(jobs_push(&p, (struct job){.number = number}, FQ_NOWAIT) == FQ_OK);
    }
    guest.pool = &p;
    guest.job.number = number++;
    crew_add(&crew, guest_main, &guest);
    UNTIL(atomic_load(&sys.sleeping) == 1);
    CHECK(jobs_cancel_if(&p, is_number, &(uint32_t){1}) == 1);
    crew_join(&crew);
    CHECK(guest.status == FQ_OK);
    jobs_each(&p, note_number, order);
    CHECK(order[0] == 2 && order[1] == (front != 0 ? 3 : 2) && order[2] == (front != 0 ? 2 : 3));
    guest.job.number = number++;
    crew_add(&crew, guest_main, &guest);
    UNTIL(atomic_load(&sys.sleeping) == 1);
    jobs_close(&p);
    crew_join(&crew);
    CHECK(guest.status == FQ_CLOSED && jobs_count(&p) == 2);
    atomic_store(&book.gate, true);
    CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK && jobs_destroy(&p, FQ_CANCEL) == FQ_OK);
    book_check(&book, 4);
    CHECK(sys_is_tidy());
  }
}

/* When one call says that the pool was idle, everyone who waits is told so, although it is busy
 * again. */
static void idle_for_a_moment(void) {
  for (size_t round = 0; round < ROUNDS(300); round++) {
    static struct book book;
    struct guest guests[GUESTS];
    struct crew crew = {0};
    jobs p;
    if (!start_at_gate(&book, &p, 0)) {
      return;
    }
    for (size_t i = 0; i < GUESTS; i++) {
      guests[i] = (struct guest){.pool = &p, .timeout = i % 2 == 0 ? FQ_FOREVER : INT64_MAX};
      crew_add(&crew, guest_main, &guests[i]);
    }
    UNTIL(atomic_load(&sys.sleeping) == GUESTS);
    sys_watch(&p, sizeof(p));
    atomic_store(&book.gate, true);
    while (jobs_wait(&p, round % 2 == 0 ? FQ_FOREVER : FQ_NOWAIT) != FQ_OK) {
    }
    atomic_store(&book.gate, false);
    CHECK(jobs_push(&p, (struct job){.number = 1, .act = stop_at_gate}, FQ_NOWAIT) == FQ_OK);
    crew_join(&crew);
    for (size_t i = 0; i < GUESTS; i++) {
      CHECK(guests[i].status == FQ_OK);
    }
    atomic_store(&book.gate, true);
    CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
    book_check(&book, 2);
    CHECK(sys_is_tidy());
  }
}

/* The same with the moment when nothing runs, and what was queued starts right after it. */
static void at_rest_for_a_moment(void) {
  for (size_t round = 0; round < ROUNDS(200); round++) {
    static struct book book;
    struct guest guests[GUESTS];
    struct crew crew = {0};
    jobs p;
    if (!start_at_gate(&book, &p, 0)) {
      return;
    }
    jobs_pause(&p);
    for (uint32_t i = 1; i <= 2; i++) {
      CHECK(jobs_push(&p, (struct job){.number = i, .act = stop_until_opened}, 0) == FQ_OK);
    }
    for (size_t i = 0; i < GUESTS; i++) {
      guests[i] =
          (struct guest){.pool = &p, .rests = true, .timeout = i % 2 == 0 ? FQ_FOREVER : INT64_MAX};
      crew_add(&crew, guest_main, &guests[i]);
    }
    UNTIL(atomic_load(&sys.sleeping) == GUESTS);
    atomic_store(&book.gate, true);
    while (jobs_wait_running(&p, round % 2 == 0 ? FQ_FOREVER : FQ_NOWAIT) != FQ_OK) {
    }
    jobs_resume(&p);
    crew_join(&crew); /* while the next task runs */
    CHECK(jobs_running(&p) == 1 && jobs_count(&p) == 1);
    for (size_t i = 0; i < GUESTS; i++) {
      CHECK(guests[i].status == FQ_OK);
    }
    atomic_store(&book.opened, 3);
    CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
    book_check(&book, 3);
    CHECK(sys_is_tidy());
  }
}

/* Threads that wait to push leave with FQ_CLOSED, those in name_wait when all is done; and the
 * memory of the pool is gone right after. */
static void destroy_with_threads_inside(void) {
  for (size_t round = 0; round < ROUNDS(300); round++) {
    static struct book book;
    struct guest guests[GUESTS];
    struct crew crew = {0};
    bool cancel = round % 2 != 0;
    size_t workers = 1 + round / 2 % 2;
    jobs *p = (jobs *)malloc(sizeof(*p));
    if (!CHECK(p != NULL) || !book_start(&book, p, (fq_config){.threads = workers, .limit = 1})) {
      abort();
    }
    for (uint32_t i = 0; i < workers; i++) {
      struct job job = {.number = 10 + i, .act = hold_until_closed};
      CHECK(jobs_push(p, job, FQ_FOREVER) == FQ_OK);
      UNTIL(atomic_load(&book.started) == i + 1);
    }
    CHECK(jobs_push(p, (struct job){.number = 1}, FQ_NOWAIT) == FQ_OK);
    atomic_store(&book.gate, true);
    for (uint32_t i = 0; i < GUESTS; i++) {
      guests[i] = (struct guest){
          .pool = p, .pushes = i % 2 == 0, .job = {.number = 20 + i}, .timeout = FQ_FOREVER};
      crew_add(&crew, guest_main, &guests[i]);
    }
    UNTIL(atomic_load(&sys.sleeping) == GUESTS);
    CHECK(jobs_destroy(p, cancel ? FQ_CANCEL : FQ_DRAIN) == FQ_OK);
    memset(p, 0xDD, sizeof(*p));
    free(p);
    crew_join(&crew);
    for (size_t i = 0; i < GUESTS; i++) {
      CHECK(guests[i].status == (guests[i].pushes ? FQ_CLOSED : FQ_OK));
    }
    book_check(&book, workers + 1);
    CHECK(atomic_load(&book.canceled) == (cancel ? 1 : 0));
    CHECK(sys_is_tidy());
  }
}

/* Those whose time is just up are on their way out by themselves when destroy comes. */
static void destroy_when_time_is_up(void) {
  const int64_t timeout = MILLISECOND;
  for (size_t round = 0; round < ROUNDS(400); round++) {
    static struct book book;
    struct guest guests[2];
    struct crew crew = {0};
    jobs *p = (jobs *)malloc(sizeof(*p));
    if (!CHECK(p != NULL) || !start_at_gate(&book, p, 1)) {
      abort();
    }
    CHECK(jobs_push(p, (struct job){.number = 1}, FQ_FOREVER) == FQ_OK);
    int64_t moment = now_ns() + timeout + (int64_t)(round % 40) * 10 * MICROSECOND;
    for (uint32_t i = 0; i < 2; i++) {
      guests[i] =
          (struct guest){.pool = p, .pushes = i == 0, .job = {.number = 20}, .timeout = timeout};
      crew_add(&crew, guest_main, &guests[i]);
    }
    UNTIL(atomic_load(&sys.sleeping) == 2 || now_ns() > moment);
    if (atomic_load(&sys.sleeping) != 2) {
      crew_join(&crew); /* a guest who is late might come in after the end */
    }
    UNTIL(now_ns() > moment);
    atomic_store(&book.gate, true);
    CHECK(jobs_destroy(p, round % 2 == 0 ? FQ_DRAIN : FQ_CANCEL) == FQ_OK);
    memset(p, 0xDD, sizeof(*p));
    free(p);
    crew_join(&crew);
    size_t accepted = guests[0].status == FQ_OK ? 3 : 2;
    CHECK(guests[0].status == FQ_OK || guests[0].status == FQ_CLOSED ||
          (guests[0].status == FQ_TIMEOUT && guests[0].took >= timeout));
    CHECK(guests[1].status == FQ_OK ||
          (guests[1].status == FQ_TIMEOUT && guests[1].took >= timeout));
    book_check(&book, accepted);
    CHECK(sys_is_tidy());
  }
}

struct undertaker {
  jobs *pool;
  fq_status status;
  atomic_bool over;
};

static void *bury(void *arg) {
  struct undertaker *u = (struct undertaker *)arg;
  u->status = jobs_destroy(u->pool, FQ_DRAIN);
  atomic_store(&u->over, true);
  return NULL;
}

/* Time is up, but the thread has still to take a lock of the pool: destroy does not end before. */
static void destroy_waits_for_a_thread_that_leaves(void) {
  for (int pushes = 0; pushes < 2; pushes++) {
    static struct book book;
    struct crew crew = {0}, destroyer = {0};
    jobs p;
    if (!start_at_gate(&book, &p, 1)) {
      return;
    }
    CHECK(jobs_push(&p, (struct job){.number = 1}, FQ_FOREVER) == FQ_OK);
    struct undertaker undertaker = {.pool = &p};
    struct guest guest = {
        .pool = &p, .pushes = pushes != 0, .job = {.number = 20}, .timeout = MILLISECOND};
    sys_watch(&p, sizeof(p));
    atomic_store(&sys.detains, true);
    crew_add(&crew, guest_main, &guest);
    UNTIL(atomic_load(&sys.detained) == 1);
    crew_add(&destroyer, bury, &undertaker);
    UNTIL(jobs_push(&p, (struct job){.number = 2}, FQ_NOWAIT) == FQ_CLOSED);
    atomic_store(&book.gate, true);
    UNTIL(atomic_load(&sys.sleeping) == 1 || atomic_load(&undertaker.over));
    CHECK(!atomic_load(&undertaker.over));
    atomic_store(&sys.detains, false);
    crew_join(&crew);
    crew_join(&destroyer);
    CHECK(undertaker.status == FQ_OK);
    CHECK(guest.status == FQ_TIMEOUT || guest.status == (pushes != 0 ? FQ_CLOSED : FQ_OK));
    book_check(&book, 2);
    CHECK(sys_is_tidy());
  }
}

/* -- Wakes without a cause --------------------------------------------------------------------- */

static void stirred_pool_does_its_work(void) {
  for (size_t round = 0; round < 8; round++) {
    static struct book book;
    jobs p;
    fq_config config = {
        .threads = 1 + round % 3, .limit = round / 2 % 2 * 2, .batch = 1 + round % 2 * 7};
    atomic_store(&sys.restless, true);
    if (!book_start(&book, &p, config)) {
      return;
    }
    for (uint32_t i = 0; i < 1000; i++) {
      CHECK(jobs_push(&p, (struct job){.number = i}, FQ_FOREVER) == FQ_OK);
      CHECK(i % 100 != 0 || jobs_wait(&p, FQ_FOREVER) == FQ_OK);
      CHECK(i % 100 != 0 || atomic_load(&book.ended) == i + 1);
    }
    CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK && atomic_load(&book.ended) == 1000);
    CHECK(jobs_push(&p, (struct job){.number = 1000, .act = stop_at_gate}, FQ_FOREVER) == FQ_OK);
    int64_t start = now_ns();
    CHECK(jobs_wait(&p, 3 * MILLISECOND) == FQ_TIMEOUT && now_ns() - start >= 3 * MILLISECOND);
    atomic_store(&book.gate, true);
    CHECK(jobs_destroy(&p, round % 2 == 0 ? FQ_DRAIN : FQ_CANCEL) == FQ_OK);
    atomic_store(&sys.restless, false);
    book_check(&book, 1001);
    CHECK(sys_is_tidy());
  }
}

int main(void) {
  RUN(init_fails_whole);
  RUN(init_fails_with_its_allocator);
  RUN(workers_need_nothing_more);
  RUN(waits_that_cannot_be);
  RUN(no_memory_to_help_or_cancel);
  RUN(queue_that_cannot_grow);
  RUN(callbacks_hold_no_lock);
  RUN(tasks_do_not_allocate);
  RUN(no_wake_for_a_busy_worker);
  RUN(tasks_wake_workers);
  RUN(bulk_wakes_no_more_than_places);
  RUN(paused_workers_sleep);
  RUN(cancel_makes_room);
  RUN(idle_for_a_moment);
  RUN(at_rest_for_a_moment);
  RUN(destroy_with_threads_inside);
  RUN(destroy_when_time_is_up);
  RUN(destroy_waits_for_a_thread_that_leaves);
  RUN(stirred_pool_does_its_work);
  return test_end();
}
