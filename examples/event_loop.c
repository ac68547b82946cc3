/* event_loop.c: a channel as a source of events in a loop that also waits for other things.
 *
 * name_notify calls a function whenever the empty channel gets items and when it closes: here it
 * writes to an eventfd (a pipe where there is none) that epoll (poll) waits on beside a timer tick.
 * The loop then pops with FQ_NOWAIT until FQ_EMPTY: it never sleeps in the channel. */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/epoll.h>
#include <sys/eventfd.h>
#else
#include <fcntl.h>
#include <poll.h>
#endif

enum { JOBS = 1000, WORKERS = 3 };

FQ_CHAN(results, int);

/* The event: raised from any thread, waited for and taken back by the loop. */
#ifdef __linux__
typedef struct event {
  int fd, epoll;
} event;

static int event_open(event *e) {
  struct epoll_event in = {.events = EPOLLIN};
  e->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  e->epoll = epoll_create1(EPOLL_CLOEXEC);
  return epoll_ctl(e->epoll, EPOLL_CTL_ADD, e->fd, &in);
}

static void event_raise(void *ctx) {
  uint64_t one = 1;
  (void)!write(((event *)ctx)->fd, &one, sizeof(one)); /* fails only when it is raised already */
}

static int event_wait(event *e, int ms) {
  struct epoll_event ready;
  uint64_t times;
  int n = epoll_wait(e->epoll, &ready, 1, ms);
  return n > 0 ? (int)read(e->fd, &times, sizeof(times)) : n;
}
#else
typedef struct event {
  int ends[2];
} event;

static int event_open(event *e) {
  return pipe(e->ends) != 0 || fcntl(e->ends[0], F_SETFL, O_NONBLOCK) != 0 ||
         fcntl(e->ends[1], F_SETFL, O_NONBLOCK) != 0;
}

static void event_raise(void *ctx) {
  (void)!write(((event *)ctx)->ends[1], "", 1); /* fails only when it is raised already */
}

static int event_wait(event *e, int ms) {
  struct pollfd in = {.fd = e->ends[0], .events = POLLIN};
  char bytes[64];
  int n = poll(&in, 1, ms);
  return n > 0 ? (int)read(e->ends[0], bytes, sizeof(bytes)) : n;
}
#endif

static void *work(void *arg) {
  for (int i = 0; i < JOBS; i++) {
    results_push((results *)arg, i, FQ_FOREVER);
  }
  return NULL;
}

int main(void) {
  results queue;
  event arrived;
  pthread_t workers[WORKERS];
  int received = 0, wakes = 0, n;
  long sum = 0;
  if (results_init(&queue, 64) != FQ_OK || event_open(&arrived) != 0) {
    return 1;
  }
  results_notify(&queue, event_raise, &arrived);
  for (int i = 0; i < WORKERS; i++) {
    if (pthread_create(&workers[i], NULL, work, &queue) != 0) {
      return 1;
    }
  }
  while (received < WORKERS * JOBS && event_wait(&arrived, 10000) > 0) {
    wakes++;
    while (results_pop(&queue, &n, FQ_NOWAIT) == FQ_OK) {
      received++;
      sum += n;
    }
  }
  printf("%d results, sum %ld, in %d turns of the loop\n", received, sum, wakes);
  for (int i = 0; i < WORKERS; i++) {
    pthread_join(workers[i], NULL);
  }
  results_destroy(&queue);
  return received != WORKERS * JOBS;
}
