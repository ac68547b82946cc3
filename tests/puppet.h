/* puppet.h: threads that stop before each atomic operation until the test lets them go on.
 *
 *   #define FASTQ_NO_THREADS
 *   #define FQI_PLATFORM_HEADER "tests/puppet.h"    (fastq.h looks for it from its own folder)
 *
 * Only one of them runs at a time, or the test itself, so a test says who does what when, to the
 * single operation, and a run is the same each time. The operations are the real ones. */
#ifndef PUPPET_H_INCLUDED
#define PUPPET_H_INCLUDED

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

enum { PUPPETS = 3, THE_TEST = PUPPETS };

struct puppet {
  pthread_t thread;
  void (*fn)(void *arg); /* NULL: end */
  void *arg;
  size_t steps; /* that it may still do before it stops */
  bool busy;    /* in fn */
};

static struct {
  pthread_mutex_t lock;
  pthread_cond_t turns[PUPPETS + 1];
  size_t turn; /* who runs */
  struct puppet puppets[PUPPETS];
} stage;

static _Thread_local size_t puppet_self = THE_TEST;

/* Lets another run, until it is the caller's turn again. */
static inline void stage_pass(size_t to) {
  pthread_mutex_lock(&stage.lock);
  stage.turn = to;
  pthread_cond_signal(&stage.turns[to]);
  while (stage.turn != puppet_self) {
    pthread_cond_wait(&stage.turns[puppet_self], &stage.lock);
  }
  pthread_mutex_unlock(&stage.lock);
}

static inline void puppet_step(void) {
  if (puppet_self != THE_TEST) {
    struct puppet *p = &stage.puppets[puppet_self];
    while (p->steps == 0) {
      stage_pass(THE_TEST);
    }
    p->steps--;
  }
}

static inline void *puppet_main(void *arg) {
  struct puppet *p = (struct puppet *)arg;
  puppet_self = (size_t)(p - stage.puppets);
  pthread_mutex_lock(&stage.lock);
  while (stage.turn != puppet_self) {
    pthread_cond_wait(&stage.turns[puppet_self], &stage.lock);
  }
  pthread_mutex_unlock(&stage.lock);
  while (p->fn != NULL) {
    p->fn(p->arg);
    p->busy = false;
    stage_pass(THE_TEST);
  }
  return NULL;
}

/* -- For the test -------------------------------------------------------------------------------- */

static inline void stage_open(void) {
  bool good = pthread_mutex_init(&stage.lock, NULL) == 0;
  stage.turn = THE_TEST;
  for (size_t i = 0; i <= PUPPETS; i++) {
    good &= pthread_cond_init(&stage.turns[i], NULL) == 0;
  }
  for (size_t i = 0; i < PUPPETS; i++) {
    struct puppet *p = &stage.puppets[i];
    good &= pthread_create(&p->thread, NULL, puppet_main, p) == 0;
  }
  if (!good) {
    abort();
  }
}

static inline void stage_close(void) {
  for (size_t i = 0; i < PUPPETS; i++) {
    stage.puppets[i].fn = NULL;
    pthread_mutex_lock(&stage.lock);
    stage.turn = i;
    pthread_cond_signal(&stage.turns[i]);
    pthread_mutex_unlock(&stage.lock);
    (void)pthread_join(stage.puppets[i].thread, NULL);
  }
}

/* Puppet i will call fn, but has not begun. */
static inline void puppet_call(size_t i, void (*fn)(void *arg), void *arg) {
  stage.puppets[i].fn = fn;
  stage.puppets[i].arg = arg;
  stage.puppets[i].steps = 0;
  stage.puppets[i].busy = true;
}

/* Lets puppet i do so many atomic operations, and all that lies before the next one. */
static inline void puppet_go(size_t i, size_t steps) {
  if (stage.puppets[i].busy) {
    stage.puppets[i].steps = steps;
    stage_pass(i);
  }
}

static inline void puppet_finish(size_t i) { puppet_go(i, SIZE_MAX); }

static inline bool puppet_busy(size_t i) { return stage.puppets[i].busy; }

/* -- What fastq.h asks of its platform ------------------------------------------------------------ */

static inline size_t fqi_load(const size_t *p) {
  puppet_step();
  return atomic_load_explicit((const _Atomic size_t *)p, memory_order_acquire);
}

static inline void fqi_store(size_t *p, size_t value) {
  puppet_step();
  atomic_store_explicit((_Atomic size_t *)p, value, memory_order_release);
}

static inline bool fqi_cas(size_t *p, size_t expected, size_t desired) {
  puppet_step();
  return atomic_compare_exchange_strong((_Atomic size_t *)p, &expected, desired);
}

#endif
