/* retry.c: a task that failed goes again after a pause, which doubles each time.
 *
 * done lays the task aside with the time when it is due, and the loop pushes it again then: no
 * worker sleeps, other tasks go on. In a pool, let done send it to such a loop by an FQ_CHAN.
 * Limits: for work that may be done twice. Tasks that failed together come back together: where
 * that hurts, add a random part to the pause. */
#define FASTQ_IMPLEMENTATION
#include "../../fastq.h"
#include <poll.h>
#include <stdio.h>

enum { ATTEMPTS = 4, FIRST_PAUSE = 10 };

typedef struct call {
  int number, failures, attempt, due; /* fails so often; ms */
} call;

FQ_DISPATCH(calls, call);
FQ_RING(pauses, call);

typedef struct loop {
  calls calls;
  pauses pauses;
  int now, good; /* now in ms */
} loop;

static int try_it(void *task, void *ctx) {
  call *c = task;
  printf("%2d ms  call %d, attempt %d", ((loop *)ctx)->now, c->number, ++c->attempt);
  return c->attempt <= c->failures;
}

static void done(void *task, int error, void *ctx) {
  loop *l = ctx;
  call c = *(call *)task;
  c.due = l->now + (FIRST_PAUSE << c.attempt) / 2;
  bool again = error != 0 && error != FQ_CANCELED && c.attempt < ATTEMPTS &&
               pauses_push(&l->pauses, c) == FQ_OK;
  l->good += error == 0;
  puts(error == 0 ? ": good" : again ? ": failed" : ": failed, given up");
}

int main(void) {
  loop l = {.now = 0};
  fq_config config = {.worker = try_it, .done = done, .ctx = &l, .concurrency = 1};
  bool ok =
      pauses_init(&l.pauses, 0) == FQ_OK && calls_init(&l.calls, &config) == FQ_OK &&
      calls_push_n(&l.calls, (call[]){{1, 0, 0, 0}, {2, 2, 0, 0}, {3, 9, 0, 0}}, 3, NULL) == 3;
  for (; ok && pauses_count(&l.pauses) > 0; l.now++) {           /* at least 1 ms each */
    for (size_t n = pauses_count(&l.pauses); ok && n > 0; n--) { /* once around the ring */
      call c;
      ok = pauses_pop(&l.pauses, &c) == FQ_OK &&
           (c.due > l.now ? pauses_push(&l.pauses, c) : calls_push(&l.calls, c)) == FQ_OK;
    }
    (void)poll(NULL, 0, 1);
  }
  pauses_destroy(&l.pauses);
  return calls_destroy(&l.calls) != FQ_OK || !ok || l.good != 2;
}
