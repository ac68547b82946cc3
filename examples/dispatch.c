/* dispatch.c: bounded concurrency on one thread, beside whatever else your event loop does.
 *
 * Six fetches, at most two at once. A worker only begins a fetch: it sets a timer, where a real one
 * would send a request, and returns FQ_PENDING. When the timer fires, name_complete ends the fetch
 * and starts the next one. */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"
#include <poll.h>
#include <stdio.h>

enum { CONCURRENCY = 2, FETCHES = 6 };

typedef struct fetch {
  const char *page;
  int ms, error; /* how it is going to end */
} fetch;

FQ_DISPATCH(fetches, fetch);

typedef struct timer {
  int due;
  fq_id id; /* of the fetch that it ends; 0 when it is not set */
} timer;

typedef struct loop {
  fetches queue;
  timer timers[CONCURRENCY]; /* one for each fetch that can run */
  int now;     /* ms; what the timer was set for, so the output is the same on a slow day */
  size_t most; /* fetches that ran at once */
} loop;

static int begin(void *task, void *ctx) {
  const fetch *f = task;
  loop *l = ctx;
  timer *t = l->timers;
  while (t->id != 0) {
    t++;
  }
  *t = (timer){l->now + f->ms, fetches_id(&l->queue, task)};
  size_t running = fetches_running(&l->queue);
  l->most = running > l->most ? running : l->most;
  printf("%2d ms  begin %-5s  %zu running\n", l->now, f->page, running);
  return FQ_PENDING;
}

static void done(void *task, int error, void *ctx) {
  printf("%2d ms  end   %-5s  error %d\n", ((loop *)ctx)->now, ((fetch *)task)->page, error);
}

/* Waits for the next timer and ends its fetch. A loop with sockets has them in the same poll. */
static void turn(loop *l) {
  timer *next = NULL;
  for (timer *t = l->timers; t < l->timers + CONCURRENCY; t++) {
    next = t->id != 0 && (next == NULL || t->due < next->due) ? t : next;
  }
  while (poll(NULL, 0, next->due - l->now) != 0) { /* a signal came: wait again */
  }
  fq_id id = next->id;
  next->id = 0; /* the next fetch may take it */
  l->now = next->due;
  (void)fetches_complete(&l->queue, id, ((fetch *)fetches_task(&l->queue, id))->error);
}

int main(void) {
  const fetch list[FETCHES] = {{"index", 30, 0}, {"style", 10, 0}, {"logo", 40, 0},
                               {"map", 10, 404}, {"news", 25, 0},  {"mail", 5, 0}};
  loop l = {.now = 0};
  fq_config config = {.worker = begin, .done = done, .ctx = &l, .concurrency = CONCURRENCY};
  bool ok = fetches_init(&l.queue, &config) == FQ_OK &&
            fetches_push_n(&l.queue, list, FETCHES, NULL) == FETCHES;
  while (!fetches_idle(&l.queue)) {
    turn(&l);
  }
  fq_stats s = fetches_stats(&l.queue);
  printf("%d fetches, %d failed, at most %zu at once\n", (int)s.completed, (int)s.failed, l.most);
  ok &= s.completed == FETCHES && s.failed == 1 && l.most == CONCURRENCY;
  return fetches_destroy(&l.queue) != FQ_OK || !ok;
}
