/* yield.h: threads that give up the processor at some of their atomic operations, so that others get
 * in between two of them; for windows that real runs hardly ever hit.
 *
 *   #define FASTQ_NO_THREADS
 *   #define FQI_PLATFORM_HEADER "tests/yield.h"    (fastq.h looks for it from its own folder) */
#ifndef YIELD_H_INCLUDED
#define YIELD_H_INCLUDED

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef YIELD_ODDS
#define YIELD_ODDS 8 /* one in so many */
#endif

static inline void yield_some(void) {
  static _Thread_local uint32_t seed;
  seed = seed * 1664525 + 1013904223 + (uint32_t)(uintptr_t)&seed;
  if ((seed >> 16) % YIELD_ODDS == 0) {
    (void)sched_yield();
  }
}

static inline size_t fqi_load(const size_t *p) {
  yield_some();
  return atomic_load_explicit((const _Atomic size_t *)p, memory_order_acquire);
}

static inline void fqi_store(size_t *p, size_t value) {
  yield_some();
  atomic_store_explicit((_Atomic size_t *)p, value, memory_order_release);
}

static inline bool fqi_cas(size_t *p, size_t expected, size_t desired) {
  yield_some();
  return atomic_compare_exchange_strong_explicit((_Atomic size_t *)p, &expected, desired,
                                                 memory_order_acq_rel, memory_order_acquire);
}

#endif
