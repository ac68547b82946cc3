/* pool_life.c: FQ_POOL: its threads and their hooks, the state callbacks, calls in callbacks that
 * would wait for themselves, and the end of a pool in every state. */
#define FASTQ_IMPLEMENTATION
#define FASTQ_MALLOC(size) sys_malloc(size)
#define FASTQ_FREE(p)      sys_free(p)
#include "system.h"

#include "pool_book.h"
#include "test.h"
#include "threads.h"

#include <stdio.h>

static void finish(struct book *book, size_t accepted) {
  CHECK(jobs_wait(book->pool, FQ_FOREVER) == FQ_OK);
  CHECK(jobs_destroy(book->pool, FQ_DRAIN) == FQ_OK);
  book_check(book, accepted);
  CHECK(sys_is_tidy());
}

/* -- Hooks ------------------------------------------------------------------------------------- */

enum { THREADS = 5 };

/* What one worker thread has seen. */
struct hand {
  pthread_t thread;
  atomic_int starts, stops, tasks;
  size_t index;
};

static struct crew_book {
  struct book book;
  jobs pool;
  struct hand hands[THREADS];
  bool own;         /* thread_start stores its hand; otherwise the ctx stays as it was */
  size_t fail_at;   /* the index whose thread_start fails, or SIZE_MAX */
  atomic_size_t up; /* thread_starts that have returned 0 */
} crew_book;

static int hand_start(size_t index, void *ctx, void **thread_ctx) {
  struct crew_book *all = (struct crew_book *)ctx;
  CHECK(ctx == &crew_book && *thread_ctx == ctx && sys_locks == 0);
  if (!CHECK(index < THREADS)) {
    return 1;
  }
  struct hand *hand = &all->hands[index];
  CHECK(atomic_fetch_add(&hand->starts, 1) == 0);
  hand->thread = pthread_self();
  hand->index = index;
  if (index == all->fail_at) {
    return -7;
  }
  if (all->own) {
    *thread_ctx = hand;
  }
  atomic_fetch_add(&all->up, 1);
  return 0;
}

static void hand_stop(size_t index, void *thread_ctx) {
  struct crew_book *all = &crew_book;
  CHECK(index < THREADS && index != all->fail_at && sys_locks == 0);
  CHECK(pthread_equal(pthread_self(), all->hands[index].thread));
  CHECK(thread_ctx == (all->own ? (void *)&all->hands[index] : (void *)all));
  CHECK(atomic_fetch_add(&all->hands[index].stops, 1) == 0);
}

static int hand_work(void *task, void *ctx) {
  struct hand *hand = (struct hand *)ctx;
  if (!crew_book.own) {
    CHECK(ctx == &crew_book);
  } else if (CHECK(hand >= crew_book.hands && hand < crew_book.hands + THREADS)) {
    CHECK(pthread_equal(pthread_self(), hand->thread));
    CHECK(atomic_load(&hand->starts) == 1 && atomic_load(&hand->stops) == 0);
    atomic_fetch_add(&hand->tasks, 1);
  }
  return book_work(task, &crew_book.book);
}

static void hand_done(void *task, int error, void *ctx) {
  CHECK(ctx == &crew_book);
  book_done(task, error, &crew_book.book);
}

static fq_status hands_init(size_t threads, bool own, size_t fail_at) {
  fq_config config = {.worker = hand_work,
                      .done = hand_done,
                      .ctx = &crew_book,
                      .threads = threads,
                      .thread_start = hand_start,
                      .thread_stop = hand_stop};
  memset((void *)&crew_book, 0, sizeof(crew_book));
  crew_book.own = own;
  crew_book.fail_at = fail_at;
  book_open(&crew_book.book, &crew_book.pool);
  return jobs_init(&crew_book.pool, &config);
}

static void help_one(struct book *book, const struct job *job) {
  (void)job;
  UNTIL(jobs_help(book->pool) || jobs_count(book->pool) == 0);
}

static void hooks_frame_each_thread(void) {
  for (size_t threads = 1; threads <= THREADS; threads++) {
    bool own = threads % 2 != 0;
    jobs *p = &crew_book.pool;
    size_t tasks = 0;
    CHECK(hands_init(threads, own, SIZE_MAX) == FQ_OK);
    CHECK(atomic_load(&crew_book.up) == threads);
    for (uint32_t i = 0; i < 200; i++) {
      struct job job = {.number = i, .act = i % 3 == 0 ? help_one : NULL};
      CHECK(jobs_push(p, job, FQ_FOREVER) == FQ_OK);
    }
    CHECK(jobs_destroy(p, FQ_DRAIN) == FQ_OK);
    for (size_t i = 0; i < THREADS; i++) {
      struct hand *hand = &crew_book.hands[i];
      CHECK(atomic_load(&hand->starts) == (i < threads ? 1 : 0));
      CHECK(atomic_load(&hand->stops) == atomic_load(&hand->starts));
      tasks += (size_t)atomic_load(&hand->tasks);
    }
    CHECK(tasks == (own ? 200 : 0));
    book_check(&crew_book.book, 200);
    CHECK(sys_is_tidy());
  }
}

static atomic_bool drain_is_held, drain_goes_on;

static void hold_drain(void *ctx) {
  CHECK(ctx == &crew_book);
  atomic_store(&drain_is_held, true);
  UNTIL(atomic_load(&drain_goes_on));
}

static int note_ctx(void *task, void *ctx) {
  void **seen = *(void ***)task;
  *seen = ctx;
  return 0;
}

FQ_POOL(notes, void **);

/* A worker gets what its thread_start stored, another thread that helps what the pool was given. */
static void helpers_get_the_pools_ctx(void) {
  void *seen = NULL;
  notes p;
  fq_config config = {.worker = note_ctx,
                      .ctx = &crew_book,
                      .threads = 1,
                      .thread_start = hand_start,
                      .thread_stop = hand_stop,
                      .on_drain = hold_drain};
  memset((void *)&crew_book, 0, sizeof(crew_book));
  crew_book.own = true;
  crew_book.fail_at = SIZE_MAX;
  CHECK(notes_init(&p, &config) == FQ_OK);
  CHECK(notes_push(&p, &seen, FQ_FOREVER) == FQ_OK);
  UNTIL(atomic_load(&drain_is_held));
  CHECK(seen == &crew_book.hands[0]);
  CHECK(notes_push(&p, &seen, FQ_FOREVER) == FQ_OK && notes_help(&p));
  CHECK(seen == &crew_book);
  atomic_store(&drain_goes_on, true);
  CHECK(notes_destroy(&p, FQ_DRAIN) == FQ_OK);
  CHECK(sys_is_tidy());
}

/* The ones that started are stopped, the one that failed is not, and nothing is left. */
static void failing_hooks_fail_init(void) {
  for (size_t threads = 1; threads <= THREADS; threads++) {
    for (size_t k = 0; k < threads; k++) {
      jobs *p = &crew_book.pool;
      CHECK(hands_init(threads, k % 2 != 0, k) == FQ_SYSTEM);
      CHECK(sys_is_tidy());
      for (size_t i = 0; i < threads; i++) {
        int starts = atomic_load(&crew_book.hands[i].starts);
        CHECK(starts <= 1 && (i != k || starts == 1));
        CHECK(atomic_load(&crew_book.hands[i].stops) == (i == k ? 0 : starts));
      }
      CHECK(jobs_push(p, (struct job){.number = 0}, FQ_FOREVER) == FQ_INVALID);
      CHECK(jobs_destroy(p, FQ_DRAIN) == FQ_OK && jobs_destroy(p, FQ_CANCEL) == FQ_OK);
    }
  }
}

/* The k-th request of the system is refused: whoever has started is stopped. */
static void refused_threads_fail_init(void) {
  size_t k = 0;
  int refused;
  do {
    sys_refuse(++k);
    fq_status status = hands_init(3, true, SIZE_MAX);
    refused = atomic_load(&sys.refused);
    sys_refuse(0);
    CHECK(status == (refused == SYS_NOTHING  ? FQ_OK
                     : refused == SYS_MEMORY ? FQ_NOMEM
                                             : FQ_SYSTEM));
    CHECK(jobs_destroy(&crew_book.pool, FQ_DRAIN) == FQ_OK);
    for (size_t i = 0; i < 3; i++) {
      struct hand *hand = &crew_book.hands[i];
      CHECK(atomic_load(&hand->starts) == atomic_load(&hand->stops));
      CHECK(refused != SYS_NOTHING || atomic_load(&hand->starts) == 1);
    }
    CHECK(sys_is_tidy());
  } while (refused != SYS_NOTHING);
  CHECK(k > 10);
}

/* -- Threads ----------------------------------------------------------------------------------- */

/* More than a thread usually has. */
static void use_stack(struct book *book, const struct job *job) {
  volatile unsigned char bytes[12 << 20];
  (void)job;
  for (size_t i = 0; i < sizeof(bytes); i += 512) {
    bytes[i] = (unsigned char)i;
  }
  CHECK(bytes[512 * 3] == 0);
  atomic_fetch_add(&book->children, 1);
}

static void stack_sizes(void) {
  static const size_t sizes[] = {1, 4096, 16385, 100001, 1 << 20, 16 << 20};
  static struct book book;
  jobs p;
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    if (!book_start(&book, &p, (fq_config){.threads = 2, .stack_size = sizes[i]})) {
      return;
    }
    bool large = sizes[i] == 16 << 20;
    CHECK(jobs_push(&p, (struct job){.act = large ? use_stack : NULL}, FQ_FOREVER) == FQ_OK);
    finish(&book, 1);
    CHECK(atomic_load(&book.children) == (large ? 1 : 0));
  }
  for (size_t k = 0; k < 5; k++) { /* more than any machine has */
    fq_config config = {.worker = book_work, .threads = 2, .stack_size = SIZE_MAX - k * k * 1025};
    CHECK(jobs_init(&p, &config) == FQ_SYSTEM);
    CHECK(sys_is_tidy());
    CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
  }
}

#ifdef __linux__
static char thread_names[2][64];

static void read_name(struct book *book, const struct job *job) {
  FILE *f = fopen("/proc/thread-self/comm", "r");
  (void)book;
  thread_names[job->number][0] = '\0';
  if (f != NULL) {
    (void)!fgets(thread_names[job->number], (int)sizeof(thread_names[0]), f);
    (void)fclose(f);
  }
}
#endif

static void threads_have_a_name(void) {
#ifdef __linux__
  static const char *const names[][2] = {{"crew", "crew\n"},
                                         {"fifteen letters", "fifteen letters\n"},
                                         {"a name that is too long", "a name that is \n"},
                                         {"", "\n"}};
  for (size_t i = 0; i < COUNT_OF(names); i++) {
    static struct book book;
    char name[64];
    jobs p;
    (void)snprintf(name, sizeof(name), "%s", names[i][0]);
    if (!book_start(&book, &p, (fq_config){.threads = 1, .name = name})) {
      return;
    }
    memset(name, 'x', sizeof(name) - 1);
    CHECK(jobs_push(&p, (struct job){.act = read_name}, FQ_FOREVER) == FQ_OK);
    finish(&book, 1);
    if (thread_names[0][0] == '\0') {
      SKIP("no /proc/thread-self/comm");
      return;
    }
    CHECK(strcmp(thread_names[0], names[i][1]) == 0);
    read_name(NULL, &(struct job){.number = 1}); /* the caller's own stays */
    CHECK(strcmp(thread_names[1], names[i][1]) != 0);
  }
#else
  SKIP("no /proc");
#endif
}

/* -- State callbacks --------------------------------------------------------------------------- */

/* What happened: a task starts (a), is done (A), is canceled (!a); saturated +, empty -, drain . */
static struct {
  atomic_size_t n;
  atomic_char text[100];
} trace;

static void note(char c) {
  CHECK(sys_locks == 0);
  size_t n = atomic_fetch_add(&trace.n, 1);
  if (CHECK(n < COUNT_OF(trace.text))) {
    atomic_store(&trace.text[n], c);
  }
}

/* Whether this has happened since the last time. */
static bool traced(const char *expected) {
  char got[COUNT_OF(trace.text) + 1] = {0};
  size_t n = atomic_exchange(&trace.n, 0);
  for (size_t i = 0; i < n && i < COUNT_OF(trace.text); i++) {
    got[i] = atomic_load(&trace.text[i]);
  }
  bool same = strcmp(got, expected) == 0;
  if (!same) {
    printf("expected %s\nbut got  %s\n", expected, got);
  }
  return same;
}

static void note_saturated(void *ctx) {
  (void)ctx;
  note('+');
}

static void note_empty(void *ctx) {
  (void)ctx;
  note('-');
}

static void note_drain(void *ctx) {
  (void)ctx;
  note('.');
}

static int trace_work(void *task, void *ctx) {
  note((char)('a' + ((const struct job *)task)->number));
  return book_work(task, ctx);
}

static void trace_done(void *task, int error, void *ctx) {
  const struct job *job = (const struct job *)task;
  if (error == FQ_CANCELED) {
    note('!');
    note((char)('a' + job->number));
    atomic_store(&((struct book *)ctx)->gate, true);
  } else {
    note((char)('A' + job->number));
  }
  book_done(task, error, ctx);
}

static bool start_traced(struct book *book, jobs *p, fq_config config) {
  config.worker = trace_work;
  config.done = trace_done;
  config.on_saturated = note_saturated;
  config.on_empty = note_empty;
  config.on_drain = note_drain;
  return book_start(book, p, config);
}

static void push_letters(jobs *p, const char *letters) {
  for (; *letters != '\0'; letters++) {
    struct job job = {.number = (uint32_t)(*letters - 'a')};
    CHECK(jobs_push(p, job, FQ_NOWAIT) == FQ_OK);
  }
}

/* The worker is in this task until it is opened. */
static void push_holding(jobs *p, struct book *book, char letter) {
  struct job job = {.number = (uint32_t)(letter - 'a'), .act = stop_until_opened};
  size_t before = atomic_load(&book->started);
  CHECK(jobs_push(p, job, FQ_NOWAIT) == FQ_OK);
  UNTIL(atomic_load(&book->started) == before + 1);
}

static void release(jobs *p, struct book *book, char letter) {
  atomic_store(&book->opened, (size_t)(letter - 'a') + 1);
  CHECK(jobs_wait(p, FQ_FOREVER) == FQ_OK);
}

static bool is_letter(const void *task, void *arg) {
  return ((const struct job *)task)->number == (uint32_t)(*(const char *)arg - 'a');
}

static void traces_of_one_worker(void) {
  static struct book book;
  char letter = 'g';
  jobs p;
  if (!start_traced(&book, &p, (fq_config){.threads = 1})) {
    return;
  }
  CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK && traced(""));
  push_holding(&p, &book, 'a');
  push_letters(&p, "bc");
  release(&p, &book, 'a');
  CHECK(traced("a+AbB-cC."));
  push_letters(&p, "d");
  CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK && traced("dD."));
  push_holding(&p, &book, 'e');
  push_letters(&p, "f");
  CHECK(jobs_cancel_if(&p, NULL, NULL) == 1 && traced("e+-!f"));
  CHECK(jobs_cancel_if(&p, NULL, NULL) == 0 && traced(""));
  release(&p, &book, 'e');
  CHECK(traced("E."));
  jobs_pause(&p);
  push_letters(&p, "gh");
  CHECK(jobs_cancel_if(&p, is_letter, &letter) == 1 && traced("+!g"));
  jobs_resume(&p);
  CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK && traced("-hH."));
  jobs_pause(&p);
  push_letters(&p, "i");
  CHECK(traced("+"));
  CHECK(jobs_cancel_if(&p, NULL, NULL) == 1 && traced("-!i."));
  CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK);
  push_letters(&p, "jkl");
  jobs_resume(&p);
  CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK && traced("+jJkK-lL."));
  push_holding(&p, &book, 'm');
  push_letters(&p, "n");
  jobs_pause(&p);
  atomic_store(&book.opened, 13);
  CHECK(jobs_wait_running(&p, FQ_FOREVER) == FQ_OK && traced("m+M"));
  jobs_resume(&p);
  CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK && traced("-nN."));
  push_holding(&p, &book, 'o');
  CHECK(jobs_push_front(&p, (struct job){.number = 'p' - 'a'}, FQ_NOWAIT) == FQ_OK);
  release(&p, &book, 'o');
  CHECK(traced("o+O-pP."));
  finish(&book, 16);
  CHECK(traced(""));
}

static void traces_of_the_end(void) {
  static struct book book;
  jobs p;
  for (int cancel = 0; cancel < 2; cancel++) {
    if (!start_traced(&book, &p, (fq_config){.threads = 1, .limit = 1})) {
      return;
    }
    CHECK(jobs_destroy(&p, cancel != 0 ? FQ_CANCEL : FQ_DRAIN) == FQ_OK && traced(""));
    if (!start_traced(&book, &p, (fq_config){.threads = 1, .limit = 1})) {
      return;
    }
    jobs_pause(&p);
    push_letters(&p, "a");
    CHECK(jobs_destroy(&p, cancel != 0 ? FQ_CANCEL : FQ_DRAIN) == FQ_OK);
    CHECK(traced(cancel != 0 ? "+-!a." : "+-aA."));
    book_check(&book, 1);
    if (!start_traced(&book, &p, (fq_config){.threads = 1, .limit = 1})) {
      return;
    }
    struct job first = {.act = cancel != 0 ? stop_at_gate : hold_until_closed};
    CHECK(jobs_push(&p, first, FQ_NOWAIT) == FQ_OK);
    UNTIL(atomic_load(&book.started) == 1);
    push_letters(&p, "b");
    atomic_store(&book.gate, cancel == 0); /* otherwise the canceled b opens it */
    CHECK(jobs_destroy(&p, cancel != 0 ? FQ_CANCEL : FQ_DRAIN) == FQ_OK);
    CHECK(traced(cancel != 0 ? "a+-!bA." : "a+A-bB."));
    book_check(&book, 2);
    CHECK(sys_is_tidy());
  }
}

static void hold_first_drain(void *ctx) {
  struct book *book = (struct book *)ctx;
  note('.');
  if (atomic_fetch_add(&book->children, 1) == 0) {
    UNTIL(atomic_load(&book->gate));
  }
}

static void *push_and_wait_for_room(void *arg) {
  struct job job = {.number = 2};
  CHECK(jobs_push((jobs *)arg, job, FQ_FOREVER) == FQ_OK);
  return NULL;
}

/* While the worker is in on_drain its place is free: one task is no backlog, the next one is, also
 * when it had to wait for room. */
static void free_place_and_room(void) {
  static struct book book;
  struct crew crew = {0};
  jobs p;
  fq_config config = {.threads = 1, .limit = 1, .worker = trace_work, .done = trace_done};
  config.on_saturated = note_saturated;
  config.on_empty = note_empty;
  config.on_drain = hold_first_drain;
  if (!book_start(&book, &p, config)) {
    return;
  }
  push_letters(&p, "a");
  UNTIL(atomic_load(&book.children) == 1);
  CHECK(jobs_push(&p, (struct job){.number = 1, .act = stop_until_opened}, FQ_NOWAIT) == FQ_OK);
  CHECK(jobs_stats(&p).peak == 0);
  crew_add(&crew, push_and_wait_for_room, &p);
  UNTIL(atomic_load(&sys.sleeping) == 1);
  CHECK(traced("aA."));
  atomic_store(&book.gate, true);
  crew_join(&crew);
  UNTIL(atomic_load(&book.started) == 2);
  CHECK(jobs_stats(&p).peak == 1 && jobs_count(&p) == 1);
  atomic_store(&book.opened, 2);
  CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK && jobs_stats(&p).peak == 1);
  CHECK(traced("+bB-cC."));
  finish(&book, 3);
}

static void drain_pushes(void *ctx) {
  struct book *book = (struct book *)ctx;
  note('.');
  size_t n = atomic_fetch_add(&book->children, 1);
  if (n == 0 || n == 2) {
    CHECK(jobs_push(book->pool, (struct job){.number = (uint32_t)n + 1}, FQ_NOWAIT) == FQ_OK);
    CHECK(!jobs_idle(book->pool));
    note(n == 0 ? '(' : '[');
    CHECK(n == 0 || jobs_cancel_if(book->pool, NULL, NULL) == 1);
    note(n == 0 ? ')' : ']');
  }
}

/* A task pushed in on_drain makes a busy period of its own, also if it is dropped there; and a
 * waiter sees none of the moments between. */
static void drain_may_push(void) {
  static struct book book;
  jobs p;
  fq_config config = {.threads = 1, .worker = trace_work, .done = trace_done};
  config.on_drain = drain_pushes;
  if (!book_start(&book, &p, config)) {
    return;
  }
  push_letters(&p, "a");
  CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK && traced("aA.()bB."));
  push_letters(&p, "c");
  CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK && traced("cC.[!d]."));
  finish(&book, 4);
}

/* Bursts pushed while paused: so much is known of what many workers, cancels and helpers do. */
static struct {
  size_t bursts, first, last; /* this burst's first number, and the one after it */
  atomic_size_t saturated, empty, drains, empty_over, drains_over;
} burst;

static void burst_saturated(void *ctx) {
  (void)ctx;
  CHECK(atomic_fetch_add(&burst.saturated, 1) + 1 == burst.bursts);
}

static void burst_empty(void *ctx) {
  const struct book *book = (const struct book *)ctx;
  CHECK(atomic_fetch_add(&burst.empty, 1) + 1 == burst.bursts);
  CHECK(atomic_load(&book->ran[burst.last - 1]) == 0);
  sched_yield();
  atomic_fetch_add(&burst.empty_over, 1);
}

static void burst_drain(void *ctx) {
  const struct book *book = (const struct book *)ctx;
  CHECK(atomic_fetch_add(&burst.drains, 1) + 1 == burst.bursts);
  CHECK(atomic_load(&book->ended) + atomic_load(&book->canceled) == burst.last);
  CHECK(jobs_running(book->pool) == 0 && jobs_count(book->pool) == 0);
  CHECK(jobs_wait_running(book->pool, FQ_NOWAIT) == FQ_TIMEOUT);
  sched_yield();
  atomic_fetch_add(&burst.drains_over, 1);
}

static void after_empty(struct book *book, const struct job *job) {
  (void)book;
  CHECK(job->number + 1 != burst.last || atomic_load(&burst.empty_over) == burst.bursts);
}

static bool is_odd(const void *task, void *arg) {
  (void)arg;
  return ((const struct job *)task)->number % 2 != 0;
}

static void *cancel_odd(void *arg) {
  (void)jobs_cancel_if((jobs *)arg, is_odd, NULL);
  return NULL;
}

static void *help_all(void *arg) {
  while (jobs_help((jobs *)arg)) {
  }
  return NULL;
}

static void counts_of_many_workers(void) {
  for (size_t threads = 1; threads <= 4; threads++) {
    static struct book book;
    jobs p;
    memset((void *)&burst, 0, sizeof(burst));
    fq_config config = {
        .threads = threads, .batch = threads == 3 ? 4 : 1, .limit = threads % 2 * 9};
    config.on_saturated = burst_saturated;
    config.on_empty = burst_empty;
    config.on_drain = burst_drain;
    if (!book_start(&book, &p, config)) {
      return;
    }
    for (size_t round = 0; round < ROUNDS(300); round++) {
      struct crew crew = {0};
      jobs_pause(&p);
      burst.bursts++;
      burst.first = burst.last;
      burst.last += 1 + round % 9;
      for (size_t i = burst.first; i < burst.last; i++) {
        struct job job = {.number = (uint32_t)i, .act = after_empty};
        CHECK(jobs_push(&p, job, FQ_NOWAIT) == FQ_OK);
      }
      CHECK(atomic_load(&burst.saturated) == burst.bursts);
      if (round % 3 == 1) {
        crew_add(&crew, cancel_odd, &p);
        crew_add(&crew, cancel_odd, &p);
      } else if (round % 3 == 2) {
        crew_add(&crew, help_all, &p);
      }
      jobs_resume(&p);
      CHECK(jobs_wait(&p, FQ_FOREVER) == FQ_OK);
      CHECK(atomic_load(&burst.drains_over) == burst.bursts);
      CHECK(atomic_load(&burst.empty_over) == burst.bursts);
      crew_join(&crew);
    }
    finish(&book, burst.last);
    CHECK(atomic_load(&burst.drains) == burst.bursts);
  }
}

/* -- Calls that would wait for themselves ------------------------------------------------------ */

/* Every kind of callback, on every kind of thread that can come to call it: the one worker, or the
 * test's own in the named call. */
enum kind { IN_WORKER, IN_DONE, IN_SATURATED, IN_EMPTY, IN_DRAIN, IN_START, IN_STOP, KINDS };
enum role { BY_WORKER, BY_PUSH, BY_CANCEL, BY_HELP, BY_DESTROY, ROLES };

enum { PROBE_LIMIT = 3, PROBES = 2, FILLING = 1000 };

static struct {
  struct book book;
  jobs pool;
  atomic_uint tried[KINDS][ROLES];
  atomic_uint asked, answered; /* of another thread, whose calls must return meanwhile */
  atomic_bool over;            /* the other thread may go */
  atomic_bool ending;          /* destroy has begun */
  atomic_bool drain_held;      /* on_drain waits until the gate opens; */
  atomic_bool in_drain;        /*   it does now */
  atomic_uint number;          /* of the last job */
  atomic_size_t accepted;
} probe;

static _Thread_local enum role probe_role; /* BY_WORKER: so it is for the workers */
static _Thread_local bool probe_inside;    /* what the calls of a probe bring about is not probed */

static bool is_filling(const void *task, void *arg) {
  (void)arg;
  return ((const struct job *)task)->number >= FILLING;
}

static bool is_none(const void *task, void *arg) {
  (void)task;
  (void)arg;
  return false;
}

static fq_status probe_push(bool front, int64_t timeout) {
  struct job job = {.number = FILLING + atomic_fetch_add(&probe.number, 1)};
  jobs *p = &probe.pool;
  fq_status status = front ? jobs_push_front(p, job, timeout) : jobs_push(p, job, timeout);
  atomic_fetch_add(&probe.accepted, status == FQ_OK ? 1 : 0);
  return status;
}

/* The other thread: a callback that held a lock would wait for it in vain. */
static void *answer_main(void *arg) {
  jobs *p = &probe.pool;
  (void)arg;
  probe_inside = true;
  while (!atomic_load(&probe.over)) {
    if (atomic_load(&probe.asked) != atomic_load(&probe.answered)) {
      fq_status status = probe_push(false, FQ_NOWAIT);
      CHECK(status == FQ_OK || status == FQ_FULL || status == FQ_CLOSED);
      CHECK(!jobs_idle(p) && jobs_count(p) <= PROBE_LIMIT);
      CHECK(jobs_wait(p, FQ_NOWAIT) == FQ_TIMEOUT);
      jobs_each(p, is_filling, NULL);
      (void)jobs_cancel_if(p, is_none, NULL);
      atomic_fetch_add(&probe.answered, 1);
    }
    sched_yield();
  }
  return NULL;
}

static void try_calls_that_wait(void) {
  jobs *p = &probe.pool;
  CHECK(jobs_wait(p, FQ_FOREVER) == FQ_DEADLOCK && jobs_wait(p, MILLISECOND) == FQ_DEADLOCK);
  CHECK(jobs_wait_running(p, FQ_FOREVER) == FQ_DEADLOCK);
  CHECK(jobs_wait_running(p, MILLISECOND) == FQ_DEADLOCK);
  CHECK(jobs_destroy(p, FQ_DRAIN) == FQ_DEADLOCK && jobs_destroy(p, FQ_CANCEL) == FQ_DEADLOCK);
}

static void try_pushes(void) {
  jobs *p = &probe.pool;
  const struct job two[2] = {{.number = 1}, {.number = 2}};
  bool ending = atomic_load(&probe.ending);
  fq_status why = FQ_OK, refused = ending ? FQ_CLOSED : FQ_DEADLOCK;
  fq_status last;
  while ((last = probe_push(false, FQ_NOWAIT)) == FQ_OK) {
  }
  CHECK(last == (ending ? FQ_CLOSED : FQ_FULL));
  CHECK(ending || jobs_count(p) == PROBE_LIMIT);
  CHECK(probe_push(false, FQ_FOREVER) == refused && probe_push(false, MILLISECOND) == refused);
  CHECK(probe_push(true, FQ_FOREVER) == refused && probe_push(true, FQ_NOWAIT) == last);
  CHECK(jobs_push_n(p, two, 2, FQ_FOREVER, &why) == 0 && why == refused);
  CHECK(jobs_push_n(p, two, 2, FQ_NOWAIT, &why) == 0 && why == last);
}

static void try_everything(enum kind kind) {
  enum role role = probe_role;
  jobs *p = &probe.pool;
  CHECK(sys_locks == 0);
  if (probe_inside || atomic_fetch_add(&probe.tried[kind][role], 1) >= PROBES) {
    return;
  }
  probe_inside = true;
  try_calls_that_wait();
  if (kind != IN_START && kind != IN_STOP) {
    atomic_fetch_add(&probe.asked, 1);
    UNTIL(atomic_load(&probe.asked) == atomic_load(&probe.answered));
    jobs_pause(p); /* nobody makes room */
    try_pushes();
    CHECK(jobs_wait(p, FQ_NOWAIT) == FQ_TIMEOUT && !jobs_idle(p));
    CHECK(jobs_set_concurrency(p, 1) == FQ_OK);
    jobs_each(p, is_filling, NULL);
    CHECK(jobs_cancel_if(p, is_filling, NULL) <= PROBE_LIMIT);
    jobs_resume(p);
    try_calls_that_wait(); /* as inside as before, after all that */
  }
  probe_inside = false;
}

static int probe_work(void *task, void *ctx) {
  try_everything(IN_WORKER);
  return book_work(task, ctx);
}

static void probe_done(void *task, int error, void *ctx) {
  try_everything(IN_DONE);
  book_done(task, error, ctx);
}

static void probe_saturated(void *ctx) {
  (void)ctx;
  try_everything(IN_SATURATED);
}

static void probe_empty(void *ctx) {
  (void)ctx;
  try_everything(IN_EMPTY);
}

static void probe_drain(void *ctx) {
  struct book *book = (struct book *)ctx;
  try_everything(IN_DRAIN);
  if (atomic_load(&probe.drain_held)) {
    atomic_store(&probe.in_drain, true);
    UNTIL(atomic_load(&book->gate));
    atomic_store(&probe.in_drain, false);
  }
}

static int probe_start(size_t index, void *ctx, void **thread_ctx) {
  (void)index;
  (void)ctx;
  (void)thread_ctx;
  try_everything(IN_START);
  return 0;
}

static void probe_stop(size_t index, void *thread_ctx) {
  (void)index;
  (void)thread_ctx;
  try_everything(IN_STOP);
}

static void push_probed(uint32_t number, void (*act)(struct book *book, const struct job *job)) {
  probe_role = BY_PUSH;
  CHECK(jobs_push(&probe.pool, (struct job){.number = number, .act = act}, FQ_FOREVER) == FQ_OK);
  atomic_fetch_add(&probe.accepted, 1);
}

/* A push from a task that leaves a backlog. */
static void push_from_task(struct book *book, const struct job *job) {
  CHECK(jobs_push(book->pool, (struct job){.number = job->number + 1}, FQ_FOREVER) == FQ_OK);
  atomic_fetch_add(&probe.accepted, 1);
}

/* The worker is back from on_drain, and asleep, when this ends on the helping thread. */
static void let_worker_sleep(struct book *book, const struct job *job) {
  (void)job;
  atomic_store(&probe.drain_held, false);
  atomic_store(&book->gate, true);
  UNTIL(atomic_load(&sys.sleeping) == 1);
}

/* Ends when destroy has begun: the queue is full, or closed. */
static void *open_when_closed(void *arg) {
  struct book *book = (struct book *)arg;
  probe_inside = true;
  UNTIL(probe_push(false, FQ_NOWAIT) == FQ_CLOSED);
  atomic_store(&book->gate, true);
  return NULL;
}

static bool start_probed(void) {
  fq_config config = {.threads = 1,
                      .limit = PROBE_LIMIT,
                      .worker = probe_work,
                      .done = probe_done,
                      .on_saturated = probe_saturated,
                      .on_empty = probe_empty,
                      .on_drain = probe_drain,
                      .thread_start = probe_start,
                      .thread_stop = probe_stop};
  memset((void *)&probe, 0, sizeof(probe));
  return book_start(&probe.book, &probe.pool, config);
}

static void callbacks_do_not_wait_for_themselves(void) {
  struct book *book = &probe.book;
  struct crew crew = {0}, opener = {0};
  jobs *p = &probe.pool;
  if (!start_probed()) {
    return;
  }
  crew_add(&crew, answer_main, NULL);
  push_probed(0, stop_until_opened); /* worker and done on the worker; */
  UNTIL(atomic_load(&book->started) == 1);
  push_probed(1, push_from_task); /* saturated, here, and in the task that is number 1; */
  atomic_store(&book->opened, 1);
  CHECK(jobs_wait(p, FQ_FOREVER) == FQ_OK); /* empty and drain on the worker */
  push_probed(3, stop_until_opened);
  UNTIL(atomic_load(&book->ran[3]) != 0);
  push_probed(4, NULL);
  push_probed(5, NULL);
  probe_role = BY_CANCEL; /* empty and done here, */
  CHECK(jobs_cancel_if(p, NULL, NULL) == 2);
  atomic_store(&book->opened, 4);
  CHECK(jobs_wait(p, FQ_FOREVER) == FQ_OK);
  jobs_pause(p);
  push_probed(6, NULL);
  probe_role = BY_CANCEL; /* and drain */
  CHECK(jobs_cancel_if(p, NULL, NULL) == 1);
  jobs_resume(p);
  atomic_store(&probe.drain_held, true);
  push_probed(7, NULL);
  UNTIL(atomic_load(&probe.in_drain)); /* the worker; its place is free */
  push_probed(8, NULL);
  push_probed(9, let_worker_sleep);
  probe_role = BY_HELP; /* worker, done, empty and drain here */
  CHECK(jobs_help(p) && jobs_help(p) && !jobs_help(p));
  CHECK(jobs_wait(p, FQ_FOREVER) == FQ_OK);
  atomic_store(&book->gate, false);
  push_probed(10, stop_at_gate);
  UNTIL(atomic_load(&book->ran[10]) != 0);
  push_probed(11, NULL);
  atomic_store(&probe.ending, true);
  crew_add(&opener, open_when_closed, book);
  probe_role = BY_DESTROY; /* empty and done */
  CHECK(jobs_destroy(p, FQ_CANCEL) == FQ_OK);
  crew_join(&opener);
  atomic_store(&probe.over, true);
  crew_join(&crew);
  static const struct {
    enum kind kind;
    enum role role;
  } due[] = {{IN_WORKER, BY_WORKER},  {IN_WORKER, BY_HELP},      {IN_DONE, BY_WORKER},
             {IN_DONE, BY_CANCEL},    {IN_DONE, BY_HELP},        {IN_DONE, BY_DESTROY},
             {IN_SATURATED, BY_PUSH}, {IN_SATURATED, BY_WORKER}, {IN_EMPTY, BY_WORKER},
             {IN_EMPTY, BY_CANCEL},   {IN_EMPTY, BY_HELP},       {IN_EMPTY, BY_DESTROY},
             {IN_DRAIN, BY_WORKER},   {IN_DRAIN, BY_CANCEL},     {IN_DRAIN, BY_HELP},
             {IN_START, BY_WORKER},   {IN_STOP, BY_WORKER}};
  for (size_t i = 0; i < COUNT_OF(due); i++) {
    CHECK(atomic_load(&probe.tried[due[i].kind][due[i].role]) > 0);
  }
  book_check(book, atomic_load(&probe.accepted));
  CHECK(sys_is_tidy());
  probe_role = BY_WORKER;
}

/* -- The end ----------------------------------------------------------------------------------- */

enum state {
  FRESH,
  IDLE,
  BUSY,
  FULL,
  PAUSED,
  PAUSED_BUSY,
  PUSHED_TO,
  WAITED_FOR,
  WAITED_FOR_RUNNING,
  PAUSED_WAITED_FOR,
  CLOSED,
  CLOSED_IDLE,
  PAUSED_CLOSED,
  LOWERED,
  CANCELED,
  HELPED,
  STATES
};

enum { END_LIMIT = 6, GUESTS = 4 };

struct guest {
  jobs *pool;
  struct job job;
  enum state state;
  fq_status status;
};

static void *guest_main(void *arg) {
  struct guest *g = (struct guest *)arg;
  if (g->state == PUSHED_TO) {
    g->status = g->job.number % 2 == 0 ? jobs_push(g->pool, g->job, FQ_FOREVER)
                                       : jobs_push_front(g->pool, g->job, INT64_MAX);
  } else if (g->state == WAITED_FOR_RUNNING) {
    g->status = jobs_wait_running(g->pool, FQ_FOREVER);
  } else {
    g->status = jobs_wait(g->pool, FQ_FOREVER);
  }
  return NULL;
}

/* Opens the gate when destroy has begun: then a push is refused because the pool is closed. In a
 * pool that was closed before, whenever. */
static void *open_gate(void *arg) {
  struct book *book = (struct book *)arg;
  struct job job = {.number = 100};
  fq_status status;
  while ((status = jobs_push(book->pool, job, FQ_NOWAIT)) != FQ_CLOSED) {
    job.number += status == FQ_OK ? 1 : 0;
  }
  atomic_store(&book->children, job.number - 100);
  atomic_store(&book->gate, true);
  return NULL;
}

/* Brings a new pool into that state: how many tasks it has accepted. */
static uint32_t bring_to(enum state state, struct book *book, size_t threads, bool *busy) {
  static const bool paused[STATES] = {
      [PAUSED] = true, [PAUSED_CLOSED] = true, [PAUSED_WAITED_FOR] = true};
  jobs *p = book->pool;
  uint32_t n = 0;
  *busy = state != FRESH && state != IDLE && state != CLOSED_IDLE && !paused[state];
  if (paused[state]) {
    jobs_pause(p);
  }
  for (; *busy && n < threads; n++) {
    CHECK(jobs_push(p, (struct job){.number = n, .act = stop_at_gate}, FQ_NOWAIT) == FQ_OK);
    UNTIL(atomic_load(&book->started) == n + 1);
  }
  size_t waiting = state == FRESH || state == BUSY       ? 0
                   : state == FULL || state == PUSHED_TO ? END_LIMIT
                                                         : END_LIMIT / 2;
  for (size_t i = 0; i < waiting; i++) {
    CHECK(jobs_push(p, (struct job){.number = n++}, FQ_NOWAIT) == FQ_OK);
  }
  if (state == PAUSED_BUSY || state == WAITED_FOR_RUNNING) {
    jobs_pause(p);
  } else if (state == CLOSED || state == PAUSED_CLOSED) {
    jobs_close(p);
  } else if (state == CLOSED_IDLE || state == IDLE) {
    CHECK(jobs_wait(p, FQ_FOREVER) == FQ_OK);
    state == CLOSED_IDLE ? jobs_close(p) : (void)0;
  } else if (state == LOWERED) {
    CHECK(jobs_set_concurrency(p, 1) == FQ_OK);
  } else if (state == CANCELED) {
    CHECK(jobs_cancel_if(p, is_odd, NULL) > 0);
  } else if (state == HELPED) {
    CHECK(!jobs_help(p));
  }
  return n;
}

static void check_end(enum state state, fq_how how, size_t threads, size_t batch) {
  static struct book book;
  struct guest guests[GUESTS];
  struct crew crew = {0}, opener = {0};
  bool waited = state == PUSHED_TO || state == WAITED_FOR || state == WAITED_FOR_RUNNING ||
                state == PAUSED_WAITED_FOR;
  bool busy = false;
  jobs *p = (jobs *)malloc(sizeof(*p));
  fq_config config = {.threads = threads, .limit = END_LIMIT, .batch = batch};
  if (!CHECK(p != NULL) || !book_start(&book, p, config)) {
    abort();
  }
  size_t accepted = bring_to(state, &book, threads, &busy);
  size_t before = atomic_load(&book.canceled), waiting = jobs_count(p);
  for (uint32_t i = 0; waited && i < GUESTS; i++) {
    guests[i] = (struct guest){.pool = p, .job = {.number = 50 + i}, .state = state};
    crew_add(&crew, guest_main, &guests[i]);
  }
  UNTIL(!waited || atomic_load(&sys.sleeping) == crew.count + (busy ? 0 : threads));
  if (busy) {
    crew_add(&opener, open_gate, &book);
  }
  CHECK(jobs_destroy(p, how) == FQ_OK);
  size_t ended = atomic_load(&book.ended) + atomic_load(&book.canceled);
  CHECK(jobs_destroy(p, how) == FQ_OK && jobs_wait(p, FQ_FOREVER) == FQ_INVALID);
  memset(p, 0xDD, sizeof(*p));
  free(p);
  crew_join(&opener);
  crew_join(&crew);
  accepted += atomic_load(&book.children);
  CHECK(ended == accepted);
  for (size_t i = 0; waited && i < GUESTS; i++) {
    CHECK(guests[i].status == (state == PUSHED_TO ? FQ_CLOSED : FQ_OK));
  }
  size_t canceled = atomic_load(&book.canceled) - before;
  CHECK(canceled == 0 || how == FQ_CANCEL);
  if (how == FQ_CANCEL && state != CLOSED) {
    CHECK(canceled == waiting + atomic_load(&book.children));
  }
  book_check(&book, accepted);
  CHECK(sys_is_tidy());
}

static void destroy_in_every_state(void) {
  for (size_t state = FRESH; state < STATES; state++) {
    for (size_t i = 0; i < 8 * ROUNDS(8); i++) {
      fq_how how = i % 2 == 0 ? FQ_DRAIN : FQ_CANCEL;
      check_end((enum state)state, how, 1 + i / 2 % 2 * 2, 1 + i / 4 % 2 * 3);
    }
  }
}

static void pause_when_closed(struct book *book, const struct job *job) {
  hold_until_closed(book, job);
  jobs_pause(book->pool);
}

static void pause_does_not_stop_the_end(void) {
  static struct book book;
  jobs p;
  if (!book_start(&book, &p, (fq_config){.threads = 1, .limit = 2})) {
    return;
  }
  CHECK(jobs_push(&p, (struct job){.act = pause_when_closed}, FQ_NOWAIT) == FQ_OK);
  UNTIL(atomic_load(&book.started) == 1);
  for (uint32_t i = 1; i <= 2; i++) {
    CHECK(jobs_push(&p, (struct job){.number = i, .after = pause_when_closed}, FQ_NOWAIT) == FQ_OK);
  }
  atomic_store(&book.gate, true);
  CHECK(jobs_destroy(&p, FQ_DRAIN) == FQ_OK);
  book_check(&book, 3);
  CHECK(sys_is_tidy());
}

/* Threads that run callbacks of the pool in a call of their own, help or cancel_if, end that before
 * destroy does, and then it touches nothing. */
static struct {
  jobs *pool;
  atomic_bool inside, goes_on, left;
} visit;

static void visit_done(void *task, int error, void *ctx) {
  book_done(task, error, ctx);
  if (probe_role != BY_WORKER) {
    atomic_store(&visit.inside, true);
    UNTIL(atomic_load(&visit.goes_on));
    sched_yield();
    atomic_store(&visit.left, true);
  }
}

static void *visit_main(void *arg) {
  probe_role = *(const enum role *)arg;
  if (probe_role == BY_HELP) {
    CHECK(jobs_help(visit.pool));
  } else {
    CHECK(jobs_cancel_if(visit.pool, NULL, NULL) == 1);
  }
  return NULL;
}

static void *end_visit(void *arg) {
  (void)arg;
  UNTIL(jobs_push(visit.pool, (struct job){.number = 9}, FQ_NOWAIT) == FQ_CLOSED);
  atomic_store(&visit.goes_on, true);
  return NULL;
}

static void destroy_waits_for_guests(void) {
  for (size_t round = 0; round < 2 * ROUNDS(100); round++) {
    static struct book book;
    struct crew guest = {0}, ender = {0};
    enum role role = round % 2 == 0 ? BY_HELP : BY_CANCEL;
    jobs *p = (jobs *)malloc(sizeof(*p));
    fq_config config = {.threads = 1, .limit = 1, .done = visit_done};
    config.on_drain = hold_first_drain;
    if (!CHECK(p != NULL) || !book_start(&book, p, config)) {
      abort();
    }
    memset((void *)&visit, 0, sizeof(visit));
    visit.pool = p;
    atomic_store(&trace.n, 0);
    CHECK(jobs_push(p, (struct job){.number = 0}, FQ_NOWAIT) == FQ_OK);
    UNTIL(atomic_load(&book.children) == 1); /* in on_drain the worker leaves its place free */
    CHECK(jobs_push(p, (struct job){.number = 1}, FQ_NOWAIT) == FQ_OK);
    crew_add(&guest, visit_main, &role);
    UNTIL(atomic_load(&visit.inside));
    jobs_pause(p); /* so that the queue is full until destroy begins */
    CHECK(jobs_push(p, (struct job){.number = 2}, FQ_NOWAIT) == FQ_OK);
    atomic_store(&book.gate, true);
    crew_add(&ender, end_visit, NULL);
    CHECK(jobs_destroy(p, round / 2 % 2 == 0 ? FQ_DRAIN : FQ_CANCEL) == FQ_OK);
    CHECK(atomic_load(&visit.left));
    book_check(&book, 3);
    memset(p, 0xDD, sizeof(*p));
    free(p);
    crew_join(&guest);
    crew_join(&ender);
    CHECK(sys_is_tidy());
  }
}

int main(void) {
  RUN(hooks_frame_each_thread);
  RUN(helpers_get_the_pools_ctx);
  RUN(failing_hooks_fail_init);
  RUN(refused_threads_fail_init);
  RUN(stack_sizes);
  RUN(threads_have_a_name);
  RUN(traces_of_one_worker);
  RUN(traces_of_the_end);
  RUN(free_place_and_room);
  RUN(drain_may_push);
  RUN(counts_of_many_workers);
  RUN(callbacks_do_not_wait_for_themselves);
  RUN(destroy_in_every_state);
  RUN(pause_does_not_stop_the_end);
  RUN(destroy_waits_for_guests);
  return test_end();
}
