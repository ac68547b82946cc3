/* future.c: start a computation now, ask for its value later.
 *
 * A future is the argument, the value and a group of one. done fills the group, so a dropped task
 * ends the wait as well, and whoever waited sees what the worker wrote.
 * Limits: a future belongs to the caller and must live until its task is done. A worker of the same
 * pool must not wait for it, for the task may need its thread: name_help runs tasks instead. */
#define FASTQ_IMPLEMENTATION
#include "../../fastq.h"
#include <stdio.h>

typedef struct future {
  long (*fn)(long n);
  long n, value;
  int error;
  fq_group ready;
} future;

FQ_POOL(futures, future *);

static int compute(void *task, void *ctx) {
  future *f = *(future **)task;
  (void)ctx;
  f->value = f->fn(f->n);
  return 0;
}

static void done(void *task, int error, void *ctx) {
  future *f = *(future **)task;
  (void)ctx;
  f->error = error;
  fq_group_done(&f->ready); /* last: the future may be gone after it */
}

static fq_status start(futures *pool, future *f) {
  fq_status status = fq_group_init(&f->ready);
  fq_group_add(&f->ready, 1);
  return status == FQ_OK ? futures_push(pool, f, FQ_FOREVER) : status;
}

static int await(future *f) {
  fq_status status = fq_group_wait(&f->ready, FQ_FOREVER);
  fq_group_destroy(&f->ready);
  return status == FQ_OK ? f->error : status;
}

static long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

int main(void) {
  futures pool;
  future a = {.fn = fib, .n = 20}, b = {.fn = fib, .n = 25}, c = b;
  fq_config config = {.worker = compute, .done = done, .threads = 2};
  bool ok = futures_init(&pool, &config) == FQ_OK && start(&pool, &a) == FQ_OK &&
            start(&pool, &b) == FQ_OK && await(&b) == 0 && await(&a) == 0;
  futures_pause(&pool);
  ok = ok && start(&pool, &c) == FQ_OK && futures_cancel_if(&pool, NULL, NULL) == 1 &&
       await(&c) == FQ_CANCELED;
  printf("fib(20) = %ld, fib(25) = %ld; a dropped one ends its wait too\n", a.value, b.value);
  return futures_destroy(&pool, FQ_DRAIN) != FQ_OK || !ok || a.value != 6765 || b.value != 75025;
}
