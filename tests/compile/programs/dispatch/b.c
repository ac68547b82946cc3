/* A unit without it, and with the declarations of the threads. */
#include "shared.h"

fq_status push_to(struct desk *desk, int n) { return int_dispatch_push(&desk->ints, n); }

int work(void *task, void *ctx) {
  struct desk *desk = (struct desk *)ctx;
  desk->started++;
  desk->pending = int_dispatch_id(&desk->ints, task);
  return FQ_PENDING;
}

void done(void *task, int error, void *ctx) {
  struct desk *desk = (struct desk *)ctx;
  desk->ended++;
  desk->sum += *(int *)task + error;
}
