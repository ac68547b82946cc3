/* platform.h: what fastq.h runs on in a model: C11 atomics, mutexes, and no clock.
 *
 *   #define FQI_PLATFORM_HEADER "tests/model/platform.h"    (fastq.h looks for it from its own folder)
 *
 * PROGRAM is defined where a model checker reads this: it takes no copies of a length that it learns
 * only at run time, and no conditions. */
#ifndef PLATFORM_H_INCLUDED
#define PLATFORM_H_INCLUDED

#include <pthread.h>
#include <stdatomic.h>

typedef struct fqi_lock {
  pthread_mutex_t mutex;
} fqi_lock;

typedef struct fqi_cond {
  atomic_size_t signals;
} fqi_cond;

typedef struct fqi_thread {
  char unused;
} fqi_thread;

static inline size_t fqi_load(const size_t *p) {
  return atomic_load_explicit((const _Atomic size_t *)p, memory_order_acquire);
}

static inline void fqi_store(size_t *p, size_t value) {
  atomic_store_explicit((_Atomic size_t *)p, value, memory_order_release);
}

static inline bool fqi_cas(size_t *p, size_t expected, size_t desired) {
  return atomic_compare_exchange_strong_explicit((_Atomic size_t *)p, &expected, desired,
                                                 memory_order_acq_rel, memory_order_acquire);
}

#ifdef PROGRAM

/* What run.sh puts in the place of one of the above to make a twin that must be refused: less order, or
 * a claim that the line is never reached. */
#define model_relaxed_load(p)                                                                      \
  atomic_load_explicit((const _Atomic size_t *)(p), memory_order_relaxed)

#define model_relaxed_store(p, value)                                                              \
  atomic_store_explicit((_Atomic size_t *)(p), (value), memory_order_relaxed)

static inline bool model_acquire_cas(size_t *p, size_t expected, size_t desired) {
  return atomic_compare_exchange_strong_explicit((_Atomic size_t *)p, &expected, desired,
                                                 memory_order_acquire, memory_order_acquire);
}

static inline bool model_release_cas(size_t *p, size_t expected, size_t desired) {
  return atomic_compare_exchange_strong_explicit((_Atomic size_t *)p, &expected, desired,
                                                 memory_order_release, memory_order_relaxed);
}

#define model_never_store(p, value) assert(false)
#define model_never_cas(p, expected, desired)                                                      \
  (fqi_cas((p), (expected), (desired)) ? assert(false), true : false)

#endif

static inline int fqi_lock_init(fqi_lock *l) { return pthread_mutex_init(&l->mutex, NULL); }

static inline void fqi_lock_destroy(fqi_lock *l) { pthread_mutex_destroy(&l->mutex); }

static inline void fqi_lock_acquire(fqi_lock *l) { pthread_mutex_lock(&l->mutex); }

static inline void fqi_lock_release(fqi_lock *l) { pthread_mutex_unlock(&l->mutex); }

/* A condition counts its signals. Whoever waits spins on that, relaxed: only the lock gives
 * order. */
static inline int fqi_cond_init(fqi_cond *c) {
  atomic_init(&c->signals, 0);
  return 0;
}

static inline void fqi_cond_destroy(fqi_cond *c) { (void)c; }

static inline void fqi_cond_signal(fqi_cond *c) {
  atomic_fetch_add_explicit(&c->signals, 1, memory_order_relaxed);
}

static inline void fqi_cond_wait(fqi_cond *c, fqi_lock *l, int64_t deadline) {
  size_t before = atomic_load_explicit(&c->signals, memory_order_relaxed);
  (void)deadline;
  fqi_lock_release(l);
  while (atomic_load_explicit(&c->signals, memory_order_relaxed) == before) {
  }
  fqi_lock_acquire(l);
}

static inline int64_t fqi_now(void) { return 0; }

static inline void fqi_pause(void) {}

/* The pool's, which no model uses. */
static inline int fqi_thread_start(fqi_thread *t, void (*fn)(void *), void *arg,
                                   size_t stack_size) {
  (void)t, (void)fn, (void)arg, (void)stack_size;
  return -1;
}

static inline void fqi_thread_join(fqi_thread *t) { (void)t; }

static inline size_t fqi_self(void) { return 1; }

static inline void fqi_thread_name(const char *name) { (void)name; }

static inline size_t fqi_cpu_count(void) { return 1; }

#ifdef PROGRAM

/* Items of models are words. */
static inline void model_copy(void *to, const void *from, size_t size) {
  for (size_t i = 0; i < size / sizeof(size_t); i++) {
    ((size_t *)to)[i] = ((const size_t *)from)[i];
  }
}

#define memcpy(to, from, size)  model_copy(to, from, size)
#define memset(to, value, size) ((void)(to)) /* what models clear is static and used once */

#endif

#endif
