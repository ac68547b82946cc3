/* pool_book.h: a pool of jobs, and a book that keeps what became of each of them. */
#ifndef POOL_BOOK_H_INCLUDED
#define POOL_BOOK_H_INCLUDED

#include "test.h"
#include "threads.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct book;

struct job {
  void (*act)(struct book *book, const struct job *job);   /* what the worker does, or NULL */
  void (*after)(struct book *book, const struct job *job); /* what done does, or NULL */
  uint32_t number;
  int error; /* what the worker returns */
};

FQ_POOL(jobs, struct job);

enum { MAX_JOBS = 8000 };

struct book {
  jobs *pool;
  struct book *other;
  size_t threads, batch;
  size_t meeting;     /* who meets waits for so many tasks to have started */
  bool limited, ends; /* the queue may be full; the pool may be closed */
  bool in_order;    /* done must come in the order of the numbers; only number 0 runs, or all do */
  atomic_bool gate; /* open? */
  atomic_size_t opened;           /* tasks with a lower number may go on */
  atomic_size_t at_once, at_most; /* tasks that run now, and how many may, if that is not 0 */
  atomic_size_t started, ended, canceled, children;
  atomic_uchar ran[MAX_JOBS], done[MAX_JOBS];
};

static inline void book_open(struct book *book, jobs *pool) {
  memset((void *)book, 0, sizeof(*book));
  book->pool = pool;
}

static inline int book_work(void *task, void *ctx) {
  const struct job *job = (const struct job *)task;
  struct book *book = (struct book *)ctx;
  if (CHECK(job->number < MAX_JOBS)) {
    CHECK(atomic_exchange(&book->ran[job->number], 1) == 0);
  }
  size_t at_once = atomic_fetch_add(&book->at_once, 1) + 1, at_most = atomic_load(&book->at_most);
  CHECK(at_most == 0 || at_once <= at_most);
  atomic_fetch_add(&book->started, 1);
  if (job->act != NULL) {
    job->act(book, job);
  }
  return job->error;
}

static inline void book_done(void *task, int error, void *ctx) {
  const struct job *job = (const struct job *)task;
  struct book *book = (struct book *)ctx;
  if (!CHECK(job->number < MAX_JOBS)) {
    return;
  }
  bool ran = atomic_load(&book->ran[job->number]) != 0;
  CHECK(error == (ran ? job->error : FQ_CANCELED));
  CHECK(atomic_exchange(&book->done[job->number], 1) == 0);
  if (book->in_order) {
    CHECK(atomic_load(&book->ended) == job->number ||
          atomic_load(&book->canceled) + 1 == job->number);
  }
  if (ran && job->after != NULL) {
    job->after(book, job);
  }
  atomic_fetch_sub(&book->at_once, ran ? 1 : 0);
  atomic_fetch_add(ran ? &book->ended : &book->canceled, 1);
}

/* A pool that does these jobs; what else it is like stands in config. */
static inline bool book_start(struct book *book, jobs *pool, fq_config config) {
  book_open(book, pool);
  config.worker = config.worker != NULL ? config.worker : book_work;
  config.done = config.done != NULL ? config.done : book_done;
  config.ctx = book;
  return CHECK(jobs_init(pool, &config) == FQ_OK);
}

/* Each of the accepted jobs has met done once, after it ran or because it was canceled. */
static inline void book_check(struct book *book, size_t accepted) {
  size_t ran = 0, done = 0;
  for (size_t i = 0; i < MAX_JOBS; i++) {
    ran += atomic_load(&book->ran[i]);
    done += atomic_load(&book->done[i]);
  }
  CHECK(done == accepted);
  CHECK(atomic_load(&book->started) == ran && atomic_load(&book->ended) == ran);
  CHECK(atomic_load(&book->ended) + atomic_load(&book->canceled) == accepted);
}

static inline void stop_at_gate(struct book *book, const struct job *job) {
  (void)job;
  UNTIL(atomic_load(&book->gate));
}

static inline void stop_until_opened(struct book *book, const struct job *job) {
  UNTIL(atomic_load(&book->opened) > job->number);
}

/* The queue is full when the gate opens: a push that does not say so tells that destroy has
 * begun. */
static inline void hold_until_closed(struct book *book, const struct job *job) {
  fq_status status;
  UNTIL(atomic_load(&book->gate));
  UNTIL((status = jobs_push(book->pool, *job, FQ_NOWAIT)) != FQ_FULL);
  CHECK(status == FQ_CLOSED);
}

#endif
