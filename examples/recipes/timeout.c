/* timeout.c: a deadline for each task, whether it waits or runs.
 *
 * The deadline drops a waiting task by name_cancel_if and ends a running one by name_complete. An
 * answer that comes later finds FQ_INVALID, though its place may run another task by then.
 * Limits: the work behind the task is not stopped, so close its socket in done. In a pool nothing
 * ends a running worker from outside: let it look at the deadline between its steps. */
#define FASTQ_IMPLEMENTATION
#include "../../fastq.h"
#include <poll.h>
#include <stdio.h>

typedef struct request {
  int answer, deadline; /* ms; the answer comes so long after the start */
  fq_id id;             /* once it runs */
} request;

FQ_DISPATCH(requests, request *);

static request list[] = {{10, 30, 0}, {50, 30, 0}, {30, 60, 0}, {10, 20, 0}, {25, 60, 0}};
static int now, answers, late; /* now in ms */

static int begin(void *task, void *ctx) {
  request *r = *(request **)task;
  r->id = requests_id(ctx, task);
  r->answer += now;
  return FQ_PENDING;
}

static void done(void *task, int error, void *ctx) {
  (void)ctx;
  answers += error == 0;
  printf("%2d ms  request %d %s\n", now, (int)(*(request **)task - list) + 1,
         error == 0            ? "is answered"
         : error == FQ_TIMEOUT ? "runs too long"
                               : "waits too long");
}

static bool expired(const void *task, void *arg) {
  return (*(request *const *)task)->deadline <= *(int *)arg;
}

int main(void) {
  request *const tasks[] = {&list[0], &list[1], &list[2], &list[3], &list[4]};
  requests queue;
  fq_config config = {.worker = begin, .done = done, .ctx = &queue, .concurrency = 2};
  bool ok = requests_init(&queue, &config) == FQ_OK && requests_push_n(&queue, tasks, 5, NULL) == 5;
  for (; now <= 60; now += 5, (void)poll(NULL, 0, 5)) {
    (void)requests_cancel_if(&queue, expired, &now);
    for (request *r = list; r < list + 5; r++) {
      if (r->id != 0 && r->answer == now) {
        late += requests_complete(&queue, r->id, 0) == FQ_INVALID;
      } else if (r->deadline == now) {
        (void)requests_complete(&queue, r->id, FQ_TIMEOUT); /* FQ_INVALID: it was done in time */
      }
    }
  }
  printf("%d answers in time, %d too late\n", answers, late);
  return requests_destroy(&queue) != FQ_OK || !ok || answers != 3 || late != 1;
}
