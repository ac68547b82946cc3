/* system.h: fastq.h with the system watched; include it in place of fastq.h.
 *
 * What fastq.h asks of malloc and of POSIX threads comes through here. It is counted, refused
 * when a test wants that, and a wait may end without a cause. The calls of the test itself do
 * not. */
#ifndef SYSTEM_H_INCLUDED
#define SYSTEM_H_INCLUDED

/* fastq.h comes after system headers here, so what it needs has to be asked for. */
#if !defined(__APPLE__) && !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200809L
#endif

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum sys_kind { SYS_NOTHING, SYS_MEMORY, SYS_OTHER };

static struct {
  atomic_size_t requests;     /* for memory, locks, conditions, threads */
  atomic_size_t refuse_at;    /* the request that is refused, counted from 1; 0: none */
  atomic_bool lasting;        /* and all after it */
  atomic_int refused;         /* what that was: a sys_kind */
  atomic_size_t live;         /* what was given and not given back */
  atomic_size_t allocations;  /* of memory */
  atomic_size_t sleeping;     /* threads in a wait */
  atomic_size_t wakes;        /* signals sent */
  atomic_size_t bad_wakes;    /* of these, under a lock of the watched object */
  atomic_size_t bad_destroys; /* of something in use */
  atomic_size_t open_starts;  /* threads started with SIGUSR1 not blocked */
  atomic_bool restless;       /* waits end at once, without a cause */
  atomic_bool detains;    /* who has timed out is kept before its next lock of the watched object */
  atomic_size_t detained; /* threads that are kept there */
  atomic_uintptr_t watched, watched_end;
} sys;

static _Thread_local int sys_locks;         /* held by this thread; */
static _Thread_local int sys_watched_locks; /* of these, of the watched object */
static _Thread_local bool sys_timed_out;    /* its last wait has */

static inline void sys_watch(const void *object, size_t size) {
  atomic_store(&sys.watched, (uintptr_t)object);
  atomic_store(&sys.watched_end, (uintptr_t)object + size);
  atomic_store(&sys.wakes, 0);
}

/* From now on, the k-th request is refused; 0: none. */
static inline void sys_refuse(size_t k) {
  atomic_store(&sys.lasting, false);
  atomic_store(&sys.refused, SYS_NOTHING);
  atomic_store(&sys.requests, 0);
  atomic_store(&sys.refuse_at, k);
}

/* The k-th and all that follow. */
static inline void sys_refuse_from(size_t k) {
  sys_refuse(k);
  atomic_store(&sys.lasting, true);
}

/* At the end of a test: everything was given back, nothing that was in use, and no rule was
 * broken. */
static inline bool sys_is_tidy(void) {
  size_t broken = atomic_exchange(&sys.live, 0) + atomic_exchange(&sys.bad_destroys, 0) +
                  atomic_exchange(&sys.bad_wakes, 0) + atomic_exchange(&sys.open_starts, 0);
  sys_watch(NULL, 0);
  return broken == 0;
}

static inline bool sys_refuses(enum sys_kind kind) {
  size_t n = atomic_fetch_add(&sys.requests, 1) + 1, at = atomic_load(&sys.refuse_at);
  if (n != at && (n < at || !atomic_load(&sys.lasting))) {
    return false;
  }
  atomic_store(&sys.refused, kind);
  return true;
}

static inline void *sys_malloc(size_t size) {
  atomic_fetch_add(&sys.allocations, 1);
  void *p = sys_refuses(SYS_MEMORY) ? NULL : malloc(size);
  atomic_fetch_add(&sys.live, p != NULL ? 1 : 0);
  return p;
}

static inline void sys_free(void *p) {
  atomic_fetch_sub(&sys.live, p != NULL ? 1 : 0);
  free(p);
}

static inline int sys_given(int error) {
  atomic_fetch_add(&sys.live, error == 0 ? 1 : 0);
  return error;
}

static inline int sys_given_back(int error) {
  atomic_fetch_sub(&sys.live, 1);
  atomic_fetch_add(&sys.bad_destroys, error != 0 ? 1 : 0);
  return error;
}

static inline int sys_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr) {
  return sys_refuses(SYS_OTHER) ? ENOMEM : sys_given(pthread_mutex_init(m, attr));
}

static inline int sys_mutex_destroy(pthread_mutex_t *m) {
  return sys_given_back(pthread_mutex_destroy(m));
}

static inline bool sys_is_watched(const void *p) {
  uintptr_t at = (uintptr_t)p;
  return at >= atomic_load(&sys.watched) && at < atomic_load(&sys.watched_end);
}

static inline int sys_locked(const pthread_mutex_t *m, int error) {
  sys_locks += error == 0 ? 1 : 0;
  sys_watched_locks += error == 0 && sys_is_watched(m) ? 1 : 0;
  return error;
}

static inline void sys_detain(const pthread_mutex_t *m) {
  if (!sys_timed_out || !sys_is_watched(m)) {
    return;
  }
  sys_timed_out = false;
  atomic_fetch_add(&sys.detained, 1);
  while (atomic_load(&sys.detains)) {
    sched_yield();
  }
  atomic_fetch_sub(&sys.detained, 1);
}

static inline int sys_mutex_lock(pthread_mutex_t *m) {
  sys_detain(m);
  return sys_locked(m, pthread_mutex_lock(m));
}

static inline int sys_mutex_trylock(pthread_mutex_t *m) {
  sys_detain(m);
  return sys_locked(m, pthread_mutex_trylock(m));
}

static inline int sys_mutex_unlock(pthread_mutex_t *m) {
  sys_locks--;
  sys_watched_locks -= sys_is_watched(m) ? 1 : 0;
  return pthread_mutex_unlock(m);
}

static inline int sys_condattr_init(pthread_condattr_t *attr) {
  return sys_refuses(SYS_OTHER) ? ENOMEM : sys_given(pthread_condattr_init(attr));
}

static inline int sys_condattr_destroy(pthread_condattr_t *attr) {
  return sys_given_back(pthread_condattr_destroy(attr));
}

static inline int sys_cond_init(pthread_cond_t *c, const pthread_condattr_t *attr) {
  return sys_refuses(SYS_OTHER) ? EAGAIN : sys_given(pthread_cond_init(c, attr));
}

static inline int sys_cond_destroy(pthread_cond_t *c) {
  return sys_given_back(pthread_cond_destroy(c));
}

/* A wake without a cause. */
static inline int sys_cond_stir(pthread_mutex_t *m) {
  pthread_mutex_unlock(m);
  sched_yield();
  return pthread_mutex_lock(m);
}

static inline int sys_cond_wait(pthread_cond_t *c, pthread_mutex_t *m) {
  atomic_fetch_add(&sys.sleeping, 1);
  int error = atomic_load(&sys.restless) ? sys_cond_stir(m) : pthread_cond_wait(c, m);
  atomic_fetch_sub(&sys.sleeping, 1);
  return error;
}

static inline int sys_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
                                     const struct timespec *until) {
  atomic_fetch_add(&sys.sleeping, 1);
  int error = atomic_load(&sys.restless) ? sys_cond_stir(m) : pthread_cond_timedwait(c, m, until);
  sys_timed_out = error == ETIMEDOUT;
  atomic_fetch_sub(&sys.sleeping, 1);
  return error;
}

/* A condition in the watched object itself goes with the object's lock; a wake of it has to hold
 * that, because the one that waits there is about to destroy both. */
static inline void sys_wakes(const pthread_cond_t *c) {
  atomic_fetch_add(&sys.wakes, 1);
  atomic_fetch_add(&sys.bad_wakes, sys_watched_locks > 0 && !sys_is_watched(c) ? 1 : 0);
}

static inline int sys_cond_signal(pthread_cond_t *c) {
  sys_wakes(c);
  return pthread_cond_signal(c);
}

static inline int sys_cond_broadcast(pthread_cond_t *c) {
  sys_wakes(c);
  return pthread_cond_broadcast(c);
}

static inline int sys_attr_init(pthread_attr_t *attr) {
  return sys_refuses(SYS_OTHER) ? ENOMEM : sys_given(pthread_attr_init(attr));
}

static inline int sys_attr_destroy(pthread_attr_t *attr) {
  return sys_given_back(pthread_attr_destroy(attr));
}

static inline int sys_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
                             void *arg) {
  sigset_t mask;
  (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
  atomic_fetch_add(&sys.open_starts, sigismember(&mask, SIGUSR1) == 1 ? 0 : 1);
  return sys_refuses(SYS_OTHER) ? EAGAIN : sys_given(pthread_create(thread, attr, fn, arg));
}

static inline int sys_join(pthread_t thread, void **result) {
  return sys_given_back(pthread_join(thread, result));
}

#define malloc                   sys_malloc
#define free                     sys_free
#define pthread_mutex_init       sys_mutex_init
#define pthread_mutex_destroy    sys_mutex_destroy
#define pthread_mutex_lock       sys_mutex_lock
#define pthread_mutex_trylock    sys_mutex_trylock
#define pthread_mutex_unlock     sys_mutex_unlock
#define pthread_condattr_init    sys_condattr_init
#define pthread_condattr_destroy sys_condattr_destroy
#define pthread_cond_init        sys_cond_init
#define pthread_cond_destroy     sys_cond_destroy
#define pthread_cond_wait        sys_cond_wait
#define pthread_cond_timedwait   sys_cond_timedwait
#define pthread_cond_signal      sys_cond_signal
#define pthread_cond_broadcast   sys_cond_broadcast
#define pthread_attr_init        sys_attr_init
#define pthread_attr_destroy     sys_attr_destroy
#define pthread_create           sys_create
#define pthread_join             sys_join
#include "../fastq.h"
#undef malloc
#undef free
#undef pthread_mutex_init
#undef pthread_mutex_destroy
#undef pthread_mutex_lock
#undef pthread_mutex_trylock
#undef pthread_mutex_unlock
#undef pthread_condattr_init
#undef pthread_condattr_destroy
#undef pthread_cond_init
#undef pthread_cond_destroy
#undef pthread_cond_wait
#undef pthread_cond_timedwait
#undef pthread_cond_signal
#undef pthread_cond_broadcast
#undef pthread_attr_init
#undef pthread_attr_destroy
#undef pthread_create
#undef pthread_join

#endif
