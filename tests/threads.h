/* threads.h: what the tests with threads share.
 *
 * No test sleeps in order to pass. A thread that has to get somewhere is waited for by asking,
 * again and again, whether it is there; one that never gets there ends in the time limit of
 * run.sh. */
#ifndef THREADS_H_INCLUDED
#define THREADS_H_INCLUDED

#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#ifdef __has_feature
#define TEST_HAS(what) __has_feature(what)
#else
#define TEST_HAS(what) 0
#endif

/* A test that repeats itself does so less often where the sanitizers make it slow. */
#if defined(__SANITIZE_THREAD__) || TEST_HAS(thread_sanitizer)
#define ROUNDS(n) ((size_t)(n) / 10 + 1)
#elif defined(__SANITIZE_ADDRESS__) || TEST_HAS(address_sanitizer)
#define ROUNDS(n) ((size_t)(n) / 2 + 1)
#else
#define ROUNDS(n) ((size_t)(n))
#endif

#define UNTIL(cond)                                                                                \
  do {                                                                                             \
    while (!(cond)) {                                                                              \
      sched_yield();                                                                               \
    }                                                                                              \
  } while (0)

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define MICROSECOND INT64_C(1000)
#define MILLISECOND INT64_C(1000000)

enum { CREW_MAX = 32 };

/* Threads that a test starts and joins. Start from {0}. */
struct crew {
  pthread_t threads[CREW_MAX];
  size_t count;
};

static inline void crew_add(struct crew *crew, void *(*fn)(void *arg), void *arg) {
  if (crew->count == CREW_MAX || pthread_create(&crew->threads[crew->count], NULL, fn, arg) != 0) {
    printf("the test cannot start a thread\n");
    abort();
  }
  crew->count++;
}

static inline void crew_join(struct crew *crew) {
  for (size_t i = 0; i < crew->count; i++) {
    CHECK(pthread_join(crew->threads[i], NULL) == 0);
  }
  crew->count = 0;
}

static inline int64_t now_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Numbers that look random; the same seed gives the same ones. */
static inline uint32_t random_next(uint64_t *seed) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*seed >> 33);
}

static inline size_t random_below(uint64_t *seed, size_t n) { return random_next(seed) % n; }

#endif
