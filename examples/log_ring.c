/* log_ring.c: threads that log without ever waiting, and one that writes it all out in batches.
 *
 * A thread that logs takes no lock and makes no system call. When the writer cannot keep up, lines are
 * dropped and counted. The queue lives in a buffer of the program's. */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { THREADS = 4, LINES = 5000, PLACES = 4096, BATCH = 64 };

typedef struct line {
  unsigned thread, number;
  const char *text; /* a literal */
} line;

FQ_MPSC(lines, line); /* many push, one pops */

static unsigned char memory[PLACES * 32 + 256];
static lines queue;
static atomic_size_t dropped, ended;

static void *work(void *arg) {
  unsigned thread = (unsigned)(uintptr_t)arg;
  for (unsigned i = 1; i <= LINES; i++) {
    for (volatile int some_work = 0; some_work < 5000; some_work++) {
    }
    line l = {thread, i, i % 3 == 0 ? "cache miss" : "request served"};
    if (lines_push(&queue, l) != FQ_OK) {
      atomic_fetch_add(&dropped, 1);
    }
  }
  atomic_fetch_add(&ended, 1);
  return NULL;
}

int main(void) {
  pthread_t threads[THREADS];
  unsigned last[THREADS] = {0};
  size_t written = 0, batches = 0, disorder = 0;
  line batch[BATCH];
  FILE *file = tmpfile();
  if (file == NULL || lines_bytes(PLACES) > sizeof(memory) ||
      lines_init_fixed(&queue, memory, PLACES) != FQ_OK) {
    return 1;
  }
  for (unsigned i = 0; i < THREADS; i++) {
    if (pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i) != 0) {
      return 1;
    }
  }
  while (true) {
    bool last_look = atomic_load(&ended) == THREADS; /* asked before the look, not after */
    size_t n = lines_pop_n(&queue, batch, BATCH);
    for (size_t i = 0; i < n; i++) {
      disorder += batch[i].number <= last[batch[i].thread];
      last[batch[i].thread] = batch[i].number;
      fprintf(file, "%u.%u %s\n", batch[i].thread, batch[i].number, batch[i].text);
    }
    written += n;
    batches += n > 0;
    if (n == 0) {
      if (last_look) {
        break;
      }
      nanosleep(&(struct timespec){0, 200000}, NULL); /* let some lines come together */
    }
  }
  for (size_t i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
  }
  size_t lost = atomic_load(&dropped);
  printf("%d threads logged %d lines each: %zu written in %zu batches, %zu dropped\n", THREADS,
         LINES, written, batches, lost);
  printf("%zu out of order, %zu unaccounted for\n", disorder, THREADS * LINES - written - lost);
  return fclose(file) != 0 || disorder != 0 || written + lost != THREADS * LINES;
}
