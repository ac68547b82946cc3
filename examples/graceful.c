/* graceful.c: end on Ctrl-C and lose track of nothing: take no more requests, give those that are
 * there a while to finish, drop the rest, account for each.
 *
 * graceful: interrupts itself. graceful wait: you do it, by Ctrl-C.
 *
 * SIGINT is blocked and sigwait takes it, so there is no handler that only few functions are safe
 * in. The threads of the pool have it blocked in any case. */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { REQUESTS = 10, LONG_1 = 4, LONG_2 = 5, GRACE_MS = 50 };

FQ_POOL(server, int);

typedef struct state {
  bool by_hand;
  atomic_bool stopping; /* long requests look at it: nothing else ends a running one */
  atomic_int served, cut_short, dropped;
} state;

static int serve(void *task, void *ctx) {
  int number = *(int *)task;
  state *s = ctx;
  if (number == LONG_2 && !s->by_hand) {
    kill(getpid(), SIGINT);
  }
  while (number == LONG_1 || number == LONG_2) { /* a stream that has no end of its own */
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (atomic_load(&s->stopping)) {
      return EINTR;
    }
  }
  return 0;
}

static void done(void *task, int error, void *ctx) {
  state *s = ctx;
  (void)task;
  atomic_fetch_add(error == 0 ? &s->served : error == EINTR ? &s->cut_short : &s->dropped, 1);
}

int main(int argc, char **argv) {
  (void)argv;
  state s = {.by_hand = argc > 1};
  server pool;
  fq_config config = {.worker = serve, .done = done, .ctx = &s, .threads = 2};
  sigset_t interrupt;
  int signal_number, numbers[REQUESTS] = {1, 2, 3, LONG_1, LONG_2, 6, 7, 8, 9, 10};
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  if (pthread_sigmask(SIG_BLOCK, &interrupt, NULL) != 0 || server_init(&pool, &config) != FQ_OK) {
    return 1;
  }
  bool ok = server_push_n(&pool, numbers, REQUESTS, FQ_FOREVER, NULL) == REQUESTS &&
            sigwait(&interrupt, &signal_number) == 0 &&
            pthread_sigmask(SIG_UNBLOCK, &interrupt, NULL) == 0; /* a second Ctrl-C ends it */
  puts("interrupted: no more requests");
  server_close(&pool);
  fq_status status = server_wait(&pool, GRACE_MS * INT64_C(1000000));
  printf("after %d ms: %s, %zu run, %zu wait\n", GRACE_MS, fq_status_name(status),
         server_running(&pool), server_count(&pool));
  server_cancel_if(&pool, NULL, NULL); /* before the running ones end and these would start */
  atomic_store(&s.stopping, true);
  ok &= server_wait(&pool, FQ_FOREVER) == FQ_OK;
  fq_stats t = server_stats(&pool);
  printf("%d accepted: %d served, %d cut short, %d dropped\n", (int)t.submitted, s.served,
         s.cut_short, s.dropped);
  ok &= t.submitted == REQUESTS && s.served + s.cut_short + s.dropped == REQUESTS &&
        (int)t.canceled == s.dropped && (int)t.failed == s.cut_short;
  return server_destroy(&pool, FQ_DRAIN) != FQ_OK || !ok;
}
