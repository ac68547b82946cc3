/* rate_limit.c: RATE starts a second, BURST at once after a pause: a token bucket.
 *
 * The dispatch is paused for good. The loop fills the bucket by the clock, and name_run starts as
 * many tasks as there are tokens in it. A late loop starts them later, never more than it holds.
 * Limits: it counts starts; how many run at once is concurrency. For a pool let worker be the push
 * into the pool: the dispatch gives the beat, the threads do the work. */
#define FASTQ_IMPLEMENTATION
#include "../../fastq.h"
#include <poll.h>
#include <stdio.h>
#include <time.h>

enum { REQUESTS = 12, RATE = 100, BURST = 5 };

static const int64_t TOKEN = 1000000000 / RATE; /* ns */

FQ_DISPATCH(requests, int);

typedef struct pace {
  int64_t start, now; /* ns */
  int started, too_early;
} pace;

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int begin(void *task, void *ctx) {
  pace *p = ctx;
  int64_t since = p->now - p->start;
  p->too_early += ++p->started > BURST + since / TOKEN;
  return printf("%3d ms  request %d\n", (int)(since / 1000000), *(int *)task) < 0;
}

int main(void) {
  pace p = {.start = now_ns()};
  requests queue;
  fq_config config = {.worker = begin, .ctx = &p, .concurrency = 1};
  bool ok = requests_init(&queue, &config) == FQ_OK;
  requests_pause(&queue);
  for (int i = 1; i <= REQUESTS; i++) {
    ok &= requests_push(&queue, i) == FQ_OK;
  }
  int64_t bucket = BURST * TOKEN; /* in ns: full */
  p.now = p.start;
  while (requests_count(&queue) > 0) {
    int64_t before = p.now;
    p.now = now_ns();
    bucket += p.now - before;
    bucket = bucket < BURST * TOKEN ? bucket : BURST * TOKEN;
    bucket -= (int64_t)requests_run(&queue, (size_t)(bucket / TOKEN)) * TOKEN;
    (void)poll(NULL, 0, (int)((TOKEN - bucket % TOKEN) / 1000000) + 1); /* until the next token */
  }
  printf("%d requests, %d at once and the others every %d ms\n", p.started, BURST, 1000 / RATE);
  return requests_destroy(&queue) != FQ_OK || !ok || p.started != REQUESTS || p.too_early != 0;
}
