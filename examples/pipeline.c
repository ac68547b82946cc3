/* pipeline.c: three stages joined by bounded channels, with backpressure to see.
 *
 * make -> square -> add. The last stage is the slow one, so the channels before it fill up to their
 * limit and the first stages wait: memory stays bounded whatever the speeds are. Closing a channel
 * ends the stage that reads it, which closes the next one in turn. */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"
#include <pthread.h>
#include <stdio.h>

enum { NUMBERS = 2000, LIMIT = 16 };

FQ_CHAN(numbers, uint64_t);

typedef struct pipeline {
  numbers made, squared;
  size_t made_at_limit; /* how often the first stage found its channel full */
} pipeline;

static void *make(void *arg) {
  pipeline *p = (pipeline *)arg;
  for (uint64_t i = 1; i <= NUMBERS; i++) {
    if (numbers_push(&p->made, i, FQ_NOWAIT) == FQ_FULL) {
      p->made_at_limit++;
      numbers_push(&p->made, i, FQ_FOREVER);
    }
  }
  numbers_close(&p->made);
  return NULL;
}

static void *square(void *arg) {
  pipeline *p = (pipeline *)arg;
  uint64_t n[LIMIT];
  size_t got;
  while ((got = numbers_pop_n(&p->made, n, 1, LIMIT, FQ_FOREVER, NULL)) > 0) {
    for (size_t i = 0; i < got; i++) {
      n[i] *= n[i];
    }
    numbers_push_n(&p->squared, n, got, FQ_FOREVER, NULL);
  }
  numbers_close(&p->squared);
  return NULL;
}

/* Some work for each number, so that this stage is the slowest. */
static uint64_t digits(uint64_t n) {
  volatile uint64_t sum = 0;
  for (int round = 0; round < 200; round++) {
    sum = 0;
    for (uint64_t rest = n; rest > 0; rest /= 10) {
      sum += rest % 10;
    }
  }
  return sum;
}

int main(void) {
  pipeline p = {.made_at_limit = 0};
  pthread_t maker, squarer;
  uint64_t n, sum = 0;
  size_t fullest = 0;
  if (numbers_init(&p.made, LIMIT) != FQ_OK || numbers_init(&p.squared, LIMIT) != FQ_OK ||
      pthread_create(&maker, NULL, make, &p) != 0 ||
      pthread_create(&squarer, NULL, square, &p) != 0) {
    return 1;
  }
  while (numbers_pop(&p.squared, &n, FQ_FOREVER) == FQ_OK) {
    size_t waiting = numbers_count(&p.made) + numbers_count(&p.squared);
    fullest = waiting > fullest ? waiting : fullest;
    sum += digits(n);
  }
  pthread_join(maker, NULL);
  pthread_join(squarer, NULL);
  numbers_destroy(&p.made);
  numbers_destroy(&p.squared);
  printf("%d numbers, digit sum of their squares %llu\n", NUMBERS, (unsigned long long)sum);
  printf("at most %zu of %d places were in use; the first stage met a full channel %zu times\n",
         fullest, 2 * LIMIT, p.made_at_limit);
  return 0;
}
