/* fastq.h - fast first-in-first-out work queues in one C header.       version 0.1.0, MIT licence
 *
 * A ring for one thread, lock-free queues for threads that must never wait, a channel for threads
 * that wait for each other, and a function run on every task with bounded concurrency, by an event
 * loop or by a pool of threads. No priority, no sorting, no scheduler: first in, first out. C11 and
 * later, C++17 and later; nothing but the C library and the system.
 *
 * Copy this file into your project. In exactly one .c file, before any other #include:
 *
 *     #define FASTQ_IMPLEMENTATION
 *     #include "fastq.h"
 *
 * Everywhere else a plain #include "fastq.h" will do.
 *
 * HELLO (examples/hello.c)
 *
 *     #define FASTQ_IMPLEMENTATION
 *     #include "fastq.h"
 *     #include <stdio.h>
 *
 *     FQ_POOL(squares, int);
 *
 *     static int square(void *task, void *ctx) {
 *       int n = *(int *)task;
 *       (void)ctx;
 *       return printf("%d squared is %d\n", n, n * n) < 0;
 *     }
 *
 *     int main(void) {
 *       squares pool;
 *       if (squares_init(&pool, &(fq_config){.worker = square, .threads = 2}) != FQ_OK) {
 *         return 1;
 *       }
 *       for (int i = 1; i <= 5; i++) {
 *         squares_push(&pool, i, FQ_FOREVER);
 *       }
 *       return squares_destroy(&pool, FQ_DRAIN) != FQ_OK;
 *     }
 *
 * CONTENTS (search for the mark)
 *     @@platform   attributes, size arithmetic, atomics, clock, lock, condition, thread
 *     @@status     fq_status, timeouts, fq_allocator
 *     @@ring       FQ_RING(name, T)      one thread, or your own lock
 *     @@spsc       FQ_SPSC(name, T)      from one thread, or interrupt, to one other
 *     @@mpmc       FQ_MPMC(name, T), FQ_MPSC, FQ_SPMC: many threads that must never wait
 *     @@tasks      fq_config, fq_stats and the verbs that dispatch and pool share
 *     @@dispatch   FQ_DISPATCH(name, T)  a function run on every task by your own event loop
 *     @@chan       FQ_CHAN(name, T)      threads that wait for each other
 *     @@pool       FQ_POOL(name, T)      a function run on every task by worker threads
 *     @@group      fq_group: wait for some of the tasks; fq_jobs: a ready pool of functions
 *   Each mark stands twice: at the interface, and at the implementation further down.
 *
 * WHICH QUEUE?
 *     who uses it                                   take         when full          memory
 *     one thread, or threads under your own lock    FQ_RING      grows, or FQ_FULL  grows, or yours
 *     one thread or interrupt to one other, that
 *       never wait                                  FQ_SPSC      FQ_FULL            fixed, or yours
 *     many threads that never wait                  FQ_MPMC      FQ_FULL            fixed, or yours
 *       and one that pops, or one that pushes       FQ_MPSC, FQ_SPMC: the same, a little faster
 *     threads that wait for items or for room       FQ_CHAN      the pusher waits   limit, or grows
 *     "run this function on each of these", on
 *       worker threads                              FQ_POOL      the pusher waits   queue + threads
 *       one thread, an event loop                   FQ_DISPATCH  FQ_FULL            queue + slots
 *     "run these functions", on worker threads      fq_jobs      the pusher waits   queue + threads
 *
 * HOW THE CALLS READ
 *   FQ_RING(jobs, struct job); stands at file scope and makes the type jobs and the functions
 *   jobs_init, jobs_push, ... for items of type struct job; below they are called name_init, ...
 *   - Items are copied by value; the queue never looks inside them. What a pointer in an item
 *     points to is yours, before and after.
 *   - A single-item call returns an fq_status; FQ_OK is 0. A bulk call (_n) returns how many items
 *     moved: always a prefix of what was given, in order; n = 0 does nothing.
 *   - A timeout is in nanoseconds: FQ_NOWAIT (0) never waits, FQ_FOREVER (any negative) never gives
 *     up. The clock is monotonic. A wait never ends early with FQ_TIMEOUT.
 *   - What goes wrong around the program (no memory, full, closed) is a status and changes nothing.
 *     What the caller did wrong (NULL, a size that overflows) is FQ_INVALID and touches nothing.
 *     Nothing aborts and nothing prints.
 *   - name_init gives an object that name_destroy accepts: after a failed init too, and twice.
 *   - Objects stay where they were initialised: do not copy or move them.
 *
 * CONFIGURATION (define before the #include)
 *     FASTQ_IMPLEMENTATION    compile the functions here; in exactly one unit of the program
 *     FASTQ_STATIC            compile them here as static functions: a private copy for this unit
 *     FASTQ_NO_THREADS        leave out FQ_CHAN, FQ_POOL, fq_group and fq_jobs: nothing of the
 *                               system is needed then
 *     FASTQ_MALLOC(n) and     where memory comes from when no fq_allocator is given; both or
 *     FASTQ_FREE(p)             neither, in the unit with the implementation; aligned as malloc's
 *     FASTQ_CACHE_LINE        bytes that two threads should not share (64): a number, the same in
 *                               every unit
 *     FASTQ_PAUSE()           the instruction for a spinning processor, where fastq.h has none
 *     FASTQ_INDEX_ORIGIN      where the indices of a new queue start; tests start near a wrap
 */
#ifndef FASTQ_WORKQUEUE_H_INCLUDED
#define FASTQ_WORKQUEUE_H_INCLUDED

#define FASTQ_VERSION        "0.1.0"
#define FASTQ_VERSION_NUMBER 100 /* major * 10000 + minor * 100 + patch */

#if defined(FASTQ_STATIC) && !defined(FASTQ_IMPLEMENTATION)
#define FASTQ_IMPLEMENTATION
#endif

/* A strict -std=c11 hides POSIX: the implementation asks for it, before the first system header. */
#if defined(FASTQ_IMPLEMENTATION) && !defined(FASTQ_NO_THREADS) && defined(__STRICT_ANSI__) &&     \
    !defined(_POSIX_C_SOURCE) && !defined(_XOPEN_SOURCE) && !defined(_GNU_SOURCE) &&               \
    !defined(_DEFAULT_SOURCE) && !defined(_WIN32) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(FASTQ_MALLOC) != defined(FASTQ_FREE)
#error "fastq.h: define both FASTQ_MALLOC and FASTQ_FREE, or neither"
#endif

#ifndef FASTQ_CACHE_LINE
#define FASTQ_CACHE_LINE 64
#endif

#ifndef FASTQ_INDEX_ORIGIN
#define FASTQ_INDEX_ORIGIN 0
#endif

#if FASTQ_CACHE_LINE < 16 || (FASTQ_CACHE_LINE & (FASTQ_CACHE_LINE - 1)) != 0
#error "fastq.h: FASTQ_CACHE_LINE must be a power of two"
#endif

/* Units that disagree on FASTQ_CACHE_LINE, and so on the layout, do not link. */
#define FQI_PASTE_(a, b)    a##b
#define FQI_PASTE(a, b)     FQI_PASTE_(a, b)
#define fqi_spsc_init       FQI_PASTE(fqi_spsc_init_, FASTQ_CACHE_LINE)
#define fqi_spsc_init_fixed FQI_PASTE(fqi_spsc_init_fixed_, FASTQ_CACHE_LINE)
#define fqi_mpmc_init       FQI_PASTE(fqi_mpmc_init_, FASTQ_CACHE_LINE)
#define fqi_mpmc_init_fixed FQI_PASTE(fqi_mpmc_init_fixed_, FASTQ_CACHE_LINE)
#define fqi_chan_init       FQI_PASTE(fqi_chan_init_, FASTQ_CACHE_LINE)
#define fqi_pool_init       FQI_PASTE(fqi_pool_init_, FASTQ_CACHE_LINE)

/* -------------------------------------------------------------------------------------------- */
/* @@platform: interface                                                                        */
/* -------------------------------------------------------------------------------------------- */

#if defined(__GNUC__) || defined(__clang__)
#define FQI_UNUSED  __attribute__((unused))
#define FQI_INLINE  static inline __attribute__((always_inline, unused))
#define FQI_RARE(x) __builtin_expect(!!(x), 0)
#elif defined(_MSC_VER)
#define FQI_UNUSED
#define FQI_INLINE  static __forceinline
#define FQI_RARE(x) (x)
#else
#define FQI_UNUSED
#define FQI_INLINE  static inline
#define FQI_RARE(x) (x)
#endif

/* Pauses before a thread that meets a held lock, a full or an empty channel goes to sleep. */
#ifndef FQI_PATIENCE
#define FQI_PATIENCE 16
#endif

#ifndef FASTQ_PAUSE
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
#define FASTQ_PAUSE() __builtin_ia32_pause()
#elif defined(__GNUC__) && defined(__aarch64__)
#define FASTQ_PAUSE() __asm__ __volatile__("isb")
#elif defined(_WIN32)
#define FASTQ_PAUSE() YieldProcessor()
#else
#define FASTQ_PAUSE() ((void)0)
#endif
#endif

#define FQI_FACE static inline FQI_UNUSED /* the typed one-liners that the FQ_ macros write */

#ifdef FASTQ_STATIC
#define FQI_API static FQI_UNUSED
#else
#define FQI_API extern
#endif

#ifdef __cplusplus
#define FQI_ALIGNOF(T)  alignof(T)
#define FQI_ASSERT      static_assert
#define FQI_IS_BYTES(T) __is_trivially_copyable(T)
extern "C" {
#else
#define FQI_ALIGNOF(T)  _Alignof(T)
#define FQI_ASSERT      _Static_assert
#define FQI_IS_BYTES(T) (sizeof(T) > 0)
#endif

/* Items are copied as bytes. An array is none, outside a struct: no function returns one. */
#define FQI_CHECK_ITEM(T)                                                                          \
  FQI_ASSERT(FQI_IS_BYTES(T) && sizeof(T(*)(void)) > 0, "fastq.h: items are copied as bytes")

/* Sizes of objects stay below this, so that the sum of two indices cannot overflow. */
#define FQI_SIZE_LIMIT (SIZE_MAX / 2)

/* n items of size bytes: false when no object can be that large. */
FQI_INLINE bool fqi_size_ok(size_t n, size_t size) { return n <= FQI_SIZE_LIMIT / size; }

/* n up to a multiple of step, a power of two. */
FQI_INLINE size_t fqi_round_up(size_t n, size_t step) { return (n + step - 1) & ~(step - 1); }

FQI_INLINE size_t fqi_min(size_t a, size_t b) { return a < b ? a : b; }

#ifdef FQI_PLATFORM_HEADER /* a test's own atomics, clock, locks, conditions and threads */
#include FQI_PLATFORM_HEADER
#else

/* fqi_load, fqi_store: acquire, release. fqi_cas: both; false when *p is not the expected. */
#if defined(__GNUC__) || defined(__clang__)
FQI_INLINE size_t fqi_load(const size_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }

FQI_INLINE void fqi_store(size_t *p, size_t value) { __atomic_store_n(p, value, __ATOMIC_RELEASE); }

FQI_INLINE bool fqi_cas(size_t *p, size_t expected, size_t desired) {
  return __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE);
}
#elif defined(_MSC_VER)
FQI_INLINE bool fqi_cas(size_t *p, size_t expected, size_t desired) {
  return InterlockedCompareExchangePointer((void *volatile *)p, (void *)desired,
                                           (void *)expected) == (void *)expected;
}

FQI_INLINE size_t fqi_load(const size_t *p) {
  return (size_t)InterlockedCompareExchangePointer((void *volatile *)(uintptr_t)p, NULL, NULL);
}

FQI_INLINE void fqi_store(size_t *p, size_t value) {
  (void)InterlockedExchangePointer((void *volatile *)p, (void *)value);
}
#else
#include <stdatomic.h>
FQI_INLINE size_t fqi_load(const size_t *p) {
  return atomic_load_explicit((const _Atomic size_t *)p, memory_order_acquire);
}

FQI_INLINE void fqi_store(size_t *p, size_t value) {
  atomic_store_explicit((_Atomic size_t *)p, value, memory_order_release);
}

FQI_INLINE bool fqi_cas(size_t *p, size_t expected, size_t desired) {
  return atomic_compare_exchange_strong((_Atomic size_t *)p, &expected, desired);
}
#endif

#ifndef FASTQ_NO_THREADS
/* Room for the system's objects, so that no system header is needed here; the implementation checks
 * the sizes. */
typedef union fqi_opaque {
  unsigned char bytes[64];
  uint64_t align;
  void *pointer;
} fqi_lock, fqi_cond;

typedef struct fqi_thread {
  union {
    unsigned char bytes[16];
    uint64_t align;
    void *handle;
  } id;
  void (*fn)(void *arg);
  void *arg;
} fqi_thread;

#endif /* FASTQ_NO_THREADS */
#endif /* FQI_PLATFORM_HEADER */

/* -------------------------------------------------------------------------------------------- */
/* @@status: interface                                                                          */
/* -------------------------------------------------------------------------------------------- */

/* What a call answers. The numbers are never reused. */
typedef enum fq_status {
  FQ_OK = 0,
  FQ_FULL = -1,      /* no room, and the call does not wait */
  FQ_EMPTY = -2,     /* no item, and the call does not wait */
  FQ_BUSY = -3,      /* the place is held by another thread that has not finished */
  FQ_TIMEOUT = -4,   /* the time was up first */
  FQ_CLOSED = -5,    /* closed (for a reader: and drained) */
  FQ_CANCELED = -6,  /* the task was dropped before it ran */
  FQ_PENDING = -7,   /* the task goes on after its worker has returned */
  FQ_NOMEM = -8,     /* memory could not be had */
  FQ_INVALID = -9,   /* the caller's arguments cannot be right */
  FQ_DEADLOCK = -10, /* the call would wait for itself */
  FQ_SYSTEM = -11    /* the system refused a lock, a condition or a thread */
} fq_status;

#define FQ_NOWAIT  ((int64_t)0)  /* a timeout: do not wait */
#define FQ_FOREVER ((int64_t)-1) /* a timeout: never give up */

/* Where an object's memory comes from; both functions or neither.
 *   alloc_fn   size bytes aligned for any ordinary type, or NULL
 *   free_fn    gets the size that alloc_fn was asked for; p is never NULL */
typedef struct fq_allocator {
  void *(*alloc_fn)(size_t size, void *ctx);
  void (*free_fn)(void *p, size_t size, void *ctx);
  void *ctx;
} fq_allocator;

/* fq_status_name: the status as it is spelled in C, "FQ_FULL"; "FQ_UNKNOWN" for anything else. */
FQI_API const char *fq_status_name(fq_status status);

/* fq_version: FASTQ_VERSION of the unit that holds the implementation. */
FQI_API const char *fq_version(void);

/* -------------------------------------------------------------------------------------------- */
/* @@ring: interface                                                                            */
/* -------------------------------------------------------------------------------------------- */

/* FQ_RING(name, T): a queue for one thread, or for threads that hold a lock of yours.
 *
 * It grows (name_init), or lives in your array and never allocates (name_init_fixed). Capacity
 * asked, usable and reported are one number, a power of two or not. Every call is O(1) but for the
 * items it copies; a growing push is O(1) amortised.
 *
 * Threads: one at a time. Blocks: never. Allocates: only where it says so. */

typedef struct fqi_block {
  void *memory; /* as the allocator gave it; NULL when there is nothing to free */
  size_t size;
} fqi_block;

typedef struct fq_ring {
  unsigned char *data; /* capacity places; the items are the count places from head on, wrapping */
  size_t capacity;
  size_t head; /* < capacity, or 0 */
  size_t count;
  size_t item_size; /* 0: not initialised */
  size_t item_align;
  fqi_block block; /* what data lies in when it is the ring's own */
  fq_allocator allocator;
  bool fixed;
} fq_ring;

FQI_API fq_status fqi_ring_init(fq_ring *r, size_t capacity, size_t size, size_t align,
                                const fq_allocator *allocator);
FQI_API fq_status fqi_ring_init_fixed(fq_ring *r, void *storage, size_t capacity, size_t size,
                                      size_t align);
FQI_API void fqi_ring_destroy(fq_ring *r);
FQI_API fq_status fqi_ring_reserve(fq_ring *r, size_t capacity);
FQI_API fq_status fqi_ring_grow(fq_ring *r, size_t n, fqi_block *old);
FQI_API void fqi_ring_free(const fq_ring *r, const fqi_block *block);

/* name_init: a ring that grows.
 *   capacity  places to allocate now; 0 allocates at the first push
 *   Returns   FQ_OK; FQ_NOMEM; FQ_INVALID for NULL or a size that overflows
 *   Allocates capacity items
 * name_init_with: the same with the memory of an allocator, which is copied (NULL: the default).
 * name_init_fixed: a ring of exactly capacity places in storage, which stays yours; it never
 *   allocates. FQ_INVALID for NULL or capacity 0. */

/* name_destroy: free what the ring allocated. The items are just forgotten. NULL is fine. */

/* name_clear: forget every item; the memory stays. */
FQI_INLINE void fqi_ring_clear(fq_ring *r) {
  if (r != NULL) {
    r->count = 0;
  }
}

/* name_reserve: make room for capacity items in all, so that pushes up to there need no memory.
 *   Returns   FQ_OK, also when there is room already; FQ_FULL for a fixed ring that is smaller;
 *             FQ_NOMEM; FQ_INVALID for NULL or a size that overflows
 *   Allocates capacity items when it has fewer; pointers and spans into the ring end then */

/* name_count: how many items are queued. */
FQI_INLINE size_t fqi_ring_count(const fq_ring *r) { return r != NULL ? r->count : 0; }

/* name_capacity: how many items fit; of a growing ring, before it grows. */
FQI_INLINE size_t fqi_ring_capacity(const fq_ring *r) { return r != NULL ? r->capacity : 0; }

/* The place n steps after at, in a storage that wraps; n <= capacity. */
FQI_INLINE size_t fqi_advance(size_t at, size_t n, size_t capacity) {
  at += n;
  return at >= capacity ? at - capacity : at;
}

/* Copies n items to, or from, the places from at on; n <= capacity. */
FQI_INLINE void fqi_copy_in(unsigned char *data, size_t capacity, size_t at, const void *items,
                            size_t n, size_t size) {
  size_t first = n == 1 ? 1 : fqi_min(n, capacity - at); /* a literal 1 is a plain move */
  memcpy(data + at * size, items, first * size);
  if (n > first) {
    memcpy(data, (const unsigned char *)items + first * size, (n - first) * size);
  }
}

FQI_INLINE void fqi_copy_out(const unsigned char *data, size_t capacity, size_t at, void *out,
                             size_t n, size_t size) {
  size_t first = n == 1 ? 1 : fqi_min(n, capacity - at);
  memcpy(out, data + at * size, first * size);
  if (n > first) {
    memcpy((unsigned char *)out + first * size, data, (n - first) * size);
  }
}

/* The index of the i-th place from head on, i <= capacity. */
FQI_INLINE size_t fqi_ring_index(const fq_ring *r, size_t i) {
  return fqi_advance(r->head, i, r->capacity);
}

FQI_INLINE unsigned char *fqi_ring_place(const fq_ring *r, size_t i, size_t size) {
  return r->data + fqi_ring_index(r, i) * size;
}

/* name_push: put one item at the tail.
 *   Returns   FQ_OK; FQ_FULL (fixed); FQ_NOMEM (growing: unchanged); FQ_INVALID for NULL
 *   Allocates when a growing ring is full: twice its capacity */
FQI_INLINE fq_status fqi_ring_push(fq_ring *r, const void *item, size_t size, bool front) {
  if (r == NULL) {
    return FQ_INVALID;
  }
  if (FQI_RARE(r->count == r->capacity)) {
    fq_status status = fqi_ring_grow(r, 1, NULL);
    if (status != FQ_OK) {
      return status;
    }
  }
  if (front) {
    r->head = (r->head == 0 ? r->capacity : r->head) - 1;
  }
  memcpy(fqi_ring_place(r, front ? 0 : r->count, size), item, size);
  r->count++;
  return FQ_OK;
}

/* name_pop: take the item at the head.
 *   out       gets the item; untouched unless FQ_OK
 *   Returns   FQ_OK; FQ_EMPTY; FQ_INVALID for NULL */
FQI_INLINE fq_status fqi_ring_pop(fq_ring *r, void *out, size_t size) {
  if (r == NULL || out == NULL) {
    return FQ_INVALID;
  }
  if (r->count == 0) {
    return FQ_EMPTY;
  }
  memcpy(out, r->data + r->head * size, size);
  r->head = fqi_ring_index(r, 1);
  r->count--;
  return FQ_OK;
}

/* Copies n items in before the head or behind the tail, growing if need be: all or as many as fit,
 * and n becomes their number. The items may lie in the storage that growth replaces. */
FQI_INLINE fq_status fqi_ring_put(fq_ring *r, const void *items, size_t *n, size_t size, bool front,
                                  bool all) {
  fqi_block old = {NULL, 0};
  fq_status status = FQ_OK;
  if (r == NULL || (items == NULL && *n > 0) || !fqi_size_ok(*n, size)) {
    *n = 0;
    return FQ_INVALID;
  }
  if (FQI_RARE(*n > r->capacity - r->count)) {
    status = fqi_ring_grow(r, *n, &old);
    if (status != FQ_OK) {
      *n = all ? 0 : r->capacity - r->count;
    }
  }
  if (*n > 0) {
    r->head = front ? fqi_ring_index(r, r->capacity - *n) : r->head;
    fqi_copy_in(r->data, r->capacity, front ? r->head : fqi_ring_index(r, r->count), items, *n,
                size);
    r->count += *n;
  }
  if (FQI_RARE(old.memory != NULL)) {
    fqi_ring_free(r, &old);
  }
  return status;
}

/* name_push_n: copy n items to the tail, in order.
 *   items     n items, yours again on return; they may lie in the ring itself
 *   Returns   how many were taken, a prefix: all of them, unless a fixed ring is full or a growing
 *             one gets no memory; 0 for NULL or a size that overflows
 *   Allocates when a growing ring has too little room
 * name_push_front_n: put n items before the head as they stand: the next pop returns items[0].
 * name_push_all: all of the n items to the tail, or none.
 *   Returns   FQ_OK, also for n = 0; FQ_FULL (fixed), FQ_NOMEM (growing): unchanged;
 *             FQ_INVALID for NULL or a size that overflows */
FQI_INLINE size_t fqi_ring_push_n(fq_ring *r, const void *items, size_t n, size_t size,
                                  bool front) {
  (void)fqi_ring_put(r, items, &n, size, front, false);
  return n;
}

/* name_pop_n: take up to n items from the head, in order.
 *   out       room for n items, outside the ring
 *   Returns   how many were taken: the smaller of n and name_count; 0 for NULL */
FQI_INLINE size_t fqi_ring_pop_n(fq_ring *r, void *out, size_t n, size_t size) {
  if (r == NULL || out == NULL) {
    return 0;
  }
  n = fqi_min(n, r->count);
  if (n > 0) {
    fqi_copy_out(r->data, r->capacity, r->head, out, n, size);
    r->head = fqi_ring_index(r, n);
    r->count -= n;
  }
  return n;
}

/* name_peek: look at the i-th item; i = 0 is the next pop.
 *   Returns   a pointer into the ring, good until the next call that pushes, pops or grows;
 *             NULL past the end */
FQI_INLINE void *fqi_ring_peek(const fq_ring *r, size_t i, size_t size) {
  return r != NULL && i < r->count ? fqi_ring_place(r, i, size) : NULL;
}

/* The contiguous free places at the tail, and the contiguous items at the head. */
FQI_INLINE size_t fqi_ring_free_run(const fq_ring *r) {
  return r->count == r->capacity
             ? 0
             : fqi_min(r->capacity - r->count, r->capacity - fqi_ring_index(r, r->count));
}

FQI_INLINE size_t fqi_ring_item_run(const fq_ring *r) {
  return fqi_min(r->count, r->capacity - r->head);
}

/* name_write_span: free places at the tail to write into, without a copy; name_commit queues them.
 *   n         in: how many are wanted; out: how many places lie there in one piece, at most that
 *   Returns   the first of them; NULL, and 0 in n, when there are none
 *   Allocates when a growing ring is full: room for the n wanted */
FQI_INLINE void *fqi_ring_write_span(fq_ring *r, size_t *n, size_t size) {
  size_t wanted = n != NULL ? *n : 0;
  if (n != NULL) {
    *n = 0;
  }
  if (r == NULL || wanted == 0) {
    return NULL;
  }
  if (FQI_RARE(r->count == r->capacity) && fqi_ring_grow(r, wanted, NULL) != FQ_OK &&
      fqi_ring_grow(r, 1, NULL) != FQ_OK) {
    return NULL;
  }
  *n = fqi_min(wanted, fqi_ring_free_run(r));
  return fqi_ring_place(r, r->count, size);
}

/* name_commit: queue the first n places of the span that name_write_span gave.
 * name_release: drop the first n items of the span that name_read_span gave.
 *   n         at most what the span gave; more than lies there in one piece is ignored whole */
FQI_INLINE void fqi_ring_commit(fq_ring *r, size_t n) {
  if (r != NULL && n <= fqi_ring_free_run(r)) {
    r->count += n;
  }
}

/* name_read_span: the items at the head to read in place; name_release drops them.
 *   n         in: how many are wanted; out: how many items lie there in one piece, at most that
 *   Returns   the first of them; NULL, and 0 in n, when there are none */
FQI_INLINE void *fqi_ring_read_span(const fq_ring *r, size_t *n, size_t size) {
  size_t wanted = n != NULL ? *n : 0;
  if (n != NULL) {
    *n = 0;
  }
  if (r == NULL || wanted == 0 || r->count == 0) {
    return NULL;
  }
  *n = fqi_min(wanted, fqi_ring_item_run(r));
  return r->data + r->head * size;
}

FQI_INLINE void fqi_ring_release(fq_ring *r, size_t n) {
  if (r != NULL && n > 0 && n <= fqi_ring_item_run(r)) {
    r->head = fqi_ring_index(r, n);
    r->count -= n;
  }
}

/* A face is a struct whose first member is the core: the cast is as good as &q->ring, and NULL
 * too. */
#define FQI_RING(q)  ((fq_ring *)(void *)(q))
#define FQI_CRING(q) ((const fq_ring *)(const void *)(q))

#define FQ_RING(name, T)                                                                           \
  typedef struct name {                                                                            \
    fq_ring ring;                                                                                  \
  } name;                                                                                          \
  FQI_FACE fq_status name##_init(name *r_, size_t capacity_) {                                     \
    return fqi_ring_init(FQI_RING(r_), capacity_, sizeof(T), FQI_ALIGNOF(T), NULL);                \
  }                                                                                                \
  FQI_FACE fq_status name##_init_with(name *r_, size_t capacity_,                                  \
                                      const fq_allocator *allocator_) {                            \
    return fqi_ring_init(FQI_RING(r_), capacity_, sizeof(T), FQI_ALIGNOF(T), allocator_);          \
  }                                                                                                \
  FQI_FACE fq_status name##_init_fixed(name *r_, T *storage_, size_t capacity_) {                  \
    return fqi_ring_init_fixed(FQI_RING(r_), storage_, capacity_, sizeof(T), FQI_ALIGNOF(T));      \
  }                                                                                                \
  FQI_FACE void name##_destroy(name *r_) { fqi_ring_destroy(FQI_RING(r_)); }                       \
  FQI_FACE void name##_clear(name *r_) { fqi_ring_clear(FQI_RING(r_)); }                           \
  FQI_FACE fq_status name##_reserve(name *r_, size_t capacity_) {                                  \
    return fqi_ring_reserve(FQI_RING(r_), capacity_);                                              \
  }                                                                                                \
  FQI_FACE size_t name##_count(const name *r_) { return fqi_ring_count(FQI_CRING(r_)); }           \
  FQI_FACE size_t name##_capacity(const name *r_) { return fqi_ring_capacity(FQI_CRING(r_)); }     \
  FQI_FACE fq_status name##_push(name *r_, T item_) {                                              \
    return fqi_ring_push(FQI_RING(r_), &item_, sizeof(T), false);                                  \
  }                                                                                                \
  FQI_FACE fq_status name##_push_front(name *r_, T item_) {                                        \
    return fqi_ring_push(FQI_RING(r_), &item_, sizeof(T), true);                                   \
  }                                                                                                \
  FQI_FACE fq_status name##_pop(name *r_, T *out_) {                                               \
    return fqi_ring_pop(FQI_RING(r_), out_, sizeof(T));                                            \
  }                                                                                                \
  FQI_FACE size_t name##_push_n(name *r_, T const *items_, size_t n_) {                            \
    return fqi_ring_push_n(FQI_RING(r_), items_, n_, sizeof(T), false);                            \
  }                                                                                                \
  FQI_FACE size_t name##_push_front_n(name *r_, T const *items_, size_t n_) {                      \
    return fqi_ring_push_n(FQI_RING(r_), items_, n_, sizeof(T), true);                             \
  }                                                                                                \
  FQI_FACE fq_status name##_push_all(name *r_, T const *items_, size_t n_) {                       \
    return fqi_ring_put(FQI_RING(r_), items_, &n_, sizeof(T), false, true);                        \
  }                                                                                                \
  FQI_FACE size_t name##_pop_n(name *r_, T *out_, size_t n_) {                                     \
    return fqi_ring_pop_n(FQI_RING(r_), out_, n_, sizeof(T));                                      \
  }                                                                                                \
  FQI_FACE T *name##_peek(const name *r_, size_t i_) {                                             \
    return (T *)fqi_ring_peek(FQI_CRING(r_), i_, sizeof(T));                                       \
  }                                                                                                \
  FQI_FACE T *name##_write_span(name *r_, size_t *n_) {                                            \
    return (T *)fqi_ring_write_span(FQI_RING(r_), n_, sizeof(T));                                  \
  }                                                                                                \
  FQI_FACE void name##_commit(name *r_, size_t n_) { fqi_ring_commit(FQI_RING(r_), n_); }          \
  FQI_FACE T *name##_read_span(name *r_, size_t *n_) {                                             \
    return (T *)fqi_ring_read_span(FQI_CRING(r_), n_, sizeof(T));                                  \
  }                                                                                                \
  FQI_FACE void name##_release(name *r_, size_t n_) { fqi_ring_release(FQI_RING(r_), n_); }        \
  FQI_CHECK_ITEM(T)

/* -------------------------------------------------------------------------------------------- */
/* @@spsc: interface                                                                            */
/* -------------------------------------------------------------------------------------------- */

/* FQ_SPSC(name, T): from exactly one thread to exactly one other, neither of which ever waits.
 *
 * Either may be an interrupt or a signal handler. Its size is fixed, and any number is good; it may
 * lie in your array. Each side remembers what it last saw of the other and looks again only when
 * that is used up: as long as there is something to do, the sides touch no line of each other but
 * those of the items.
 *
 * Threads: one pushes, one pops; name_count from any. Blocks: never. Allocates: name_init only. */

typedef struct fqi_end {
  unsigned char apart[FASTQ_CACHE_LINE]; /* from the neighbour before it */
  size_t count; /* items that went through this end since init; wraps: atomic, the other reads it */
  size_t at;    /* the place of the next one */
  size_t seen;  /* the other end's count when it was last read */
} fqi_end;

typedef struct fq_spsc {
  unsigned char *data;
  size_t capacity; /* 0: not initialised */
  fqi_block block;
  fq_allocator allocator;
  fqi_end in, out;
  unsigned char apart[FASTQ_CACHE_LINE];
} fq_spsc;

FQI_API fq_status fqi_spsc_init(fq_spsc *q, size_t capacity, size_t size, size_t align,
                                const fq_allocator *allocator);
FQI_API fq_status fqi_spsc_init_fixed(fq_spsc *q, void *storage, size_t capacity, size_t size,
                                      size_t align);
FQI_API void fqi_spsc_destroy(fq_spsc *q);

/* name_init: an empty queue of exactly capacity places.
 *   capacity  1 or more
 *   Returns   FQ_OK; FQ_NOMEM; FQ_INVALID for NULL, 0 or a size that overflows
 *   Allocates capacity items
 * name_init_with: the same with the memory of an allocator, which is copied (NULL: the default).
 * name_init_fixed: the same in storage, which stays yours; it allocates nothing. */

/* name_destroy: free what name_init allocated. Items are just forgotten. NULL is fine. */

/* name_capacity: how many items fit. */
FQI_INLINE size_t fqi_spsc_capacity(const fq_spsc *q) { return q != NULL ? q->capacity : 0; }

/* name_count: how many items are queued. Exact for either side as a bound: at least so many are
 * there to pop, at most so many places are taken. Never more than the capacity.
*/
FQI_INLINE size_t fqi_spsc_count(const fq_spsc *q) {
  if (q == NULL) {
    return 0;
  }
  size_t out = fqi_load(&q->out.count); /* [S5], pairs with [S3]: in.count is not older */
  return fqi_min(fqi_load(&q->in.count) - out, q->capacity);
}

/* How many places are free, and items are there. The other side is looked at if they seem fewer
 * than n. */
FQI_INLINE size_t fqi_spsc_room(fq_spsc *q, size_t n) {
  size_t room = q->capacity - (q->in.count - q->in.seen);
  if (room < n) {
    q->in.seen = fqi_load(&q->out.count); /* [S4], pairs with [S3] */
    room = q->capacity - (q->in.count - q->in.seen);
  }
  return room;
}

FQI_INLINE size_t fqi_spsc_items(fq_spsc *q, size_t n) {
  size_t items = q->out.seen - q->out.count;
  if (items < n) {
    q->out.seen = fqi_load(&q->in.count); /* [S2], pairs with [S1] */
    items = q->out.seen - q->out.count;
  }
  return items;
}

/* name_commit: queue the first n places of the span that name_write_span gave.
 * name_release: drop the first n items of the span that name_read_span gave.
 *   n         at most what the span gave; more than lies there in one piece is ignored whole
 *   Order     release on the side's count; pairs with the other side's acquire */
FQI_INLINE void fqi_spsc_commit(fq_spsc *q, size_t n) {
  if (q != NULL && n <= q->capacity - q->in.at && n <= fqi_spsc_room(q, n)) {
    q->in.at = fqi_advance(q->in.at, n, q->capacity);
    fqi_store(&q->in.count, q->in.count + n); /* [S1], pairs with [S2] */
  }
}

FQI_INLINE void fqi_spsc_release(fq_spsc *q, size_t n) {
  if (q != NULL && n <= q->capacity - q->out.at && n <= fqi_spsc_items(q, n)) {
    q->out.at = fqi_advance(q->out.at, n, q->capacity);
    fqi_store(&q->out.count, q->out.count + n); /* [S3], pairs with [S4] */
  }
}

/* name_push_n: copy up to n items to the tail, in order.
 *   items     n items, yours again on return
 *   Returns   how many were taken: a prefix, as many as fit; 0 for NULL
 *   Order     release on the count; pairs with the acquire of the pop that takes them */
FQI_INLINE size_t fqi_spsc_push_n(fq_spsc *q, const void *items, size_t n, size_t size) {
  if (q == NULL || items == NULL) {
    return 0;
  }
  n = fqi_min(n, fqi_spsc_room(q, n));
  if (n > 0) {
    size_t at = q->in.at, count = q->in.count; /* read once: items may lie anywhere */
    size_t capacity = q->capacity;
    fqi_copy_in(q->data, capacity, at, items, n, size);
    q->in.at = fqi_advance(at, n, capacity);
    fqi_store(&q->in.count, count + n); /* [S1], pairs with [S2] */
  }
  return n;
}

/* name_pop_n: take up to n items from the head, in order.
 *   out       room for n items
 *   Returns   how many were taken: as many as are there; 0 for NULL
 *   Order     acquire of the push; release on the count, which gives the places back */
FQI_INLINE size_t fqi_spsc_pop_n(fq_spsc *q, void *out, size_t n, size_t size) {
  if (q == NULL || out == NULL) {
    return 0;
  }
  n = fqi_min(n, fqi_spsc_items(q, n));
  if (n > 0) {
    size_t at = q->out.at, count = q->out.count, capacity = q->capacity;
    fqi_copy_out(q->data, capacity, at, out, n, size);
    q->out.at = fqi_advance(at, n, capacity);
    fqi_store(&q->out.count, count + n); /* [S3], pairs with [S4] */
  }
  return n;
}

FQI_INLINE fq_status fqi_spsc_push(fq_spsc *q, const void *item, size_t size) {
  if (fqi_spsc_push_n(q, item, 1, size) == 1) {
    return FQ_OK;
  }
  return q == NULL || q->capacity == 0 ? FQ_INVALID : FQ_FULL;
}

/* name_push: put one item at the tail.          Returns  FQ_OK; FQ_FULL; FQ_INVALID for NULL
 * name_push_all: put n items there, all or none. Returns as name_push; FQ_INVALID if n never fits
 * name_pop: take the item at the head.          Returns  FQ_OK; FQ_EMPTY; FQ_INVALID for NULL */
FQI_INLINE fq_status fqi_spsc_push_all(fq_spsc *q, const void *items, size_t n, size_t size) {
  if (q == NULL || (items == NULL && n > 0) || n > q->capacity) {
    return FQ_INVALID;
  }
  if (n > fqi_spsc_room(q, n)) {
    return FQ_FULL;
  }
  (void)fqi_spsc_push_n(q, items, n, size);
  return FQ_OK;
}

FQI_INLINE fq_status fqi_spsc_pop(fq_spsc *q, void *out, size_t size) {
  if (fqi_spsc_pop_n(q, out, 1, size) == 1) {
    return FQ_OK;
  }
  return q == NULL || out == NULL || q->capacity == 0 ? FQ_INVALID : FQ_EMPTY;
}

/* name_peek: look at the item at the head, from the thread that pops.
 *   Returns   a pointer into the queue, good until it is popped; NULL when there is none */
FQI_INLINE void *fqi_spsc_peek(fq_spsc *q, size_t size) {
  return q != NULL && fqi_spsc_items(q, 1) > 0 ? q->data + q->out.at * size : NULL;
}

/* name_write_span: free places at the tail to write into, without a copy; name_commit queues them.
 * name_read_span: the items at the head to read in place; name_release drops them.
 *   n         in: how many are wanted; out: how many lie there in one piece, at most that
 *   Returns   the first of them; NULL, and 0 in n, when there are none */
FQI_INLINE void *fqi_spsc_span(fq_spsc *q, size_t *n, bool write, size_t size) {
  if (n == NULL) {
    return NULL;
  }
  size_t wanted = *n;
  *n = 0;
  if (q == NULL) {
    return NULL;
  }
  size_t at = write ? q->in.at : q->out.at;
  size_t there = write ? fqi_spsc_room(q, wanted) : fqi_spsc_items(q, wanted);
  *n = fqi_min(fqi_min(wanted, there), q->capacity - at);
  return *n > 0 ? q->data + at * size : NULL;
}

#define FQI_SPSC(q)  ((fq_spsc *)(void *)(q))
#define FQI_CSPSC(q) ((const fq_spsc *)(const void *)(q))

#define FQ_SPSC(name, T)                                                                           \
  typedef struct name {                                                                            \
    fq_spsc spsc;                                                                                  \
  } name;                                                                                          \
  FQI_FACE fq_status name##_init_with(name *q_, size_t capacity_,                                  \
                                      const fq_allocator *allocator_) {                            \
    return fqi_spsc_init(FQI_SPSC(q_), capacity_, sizeof(T), FQI_ALIGNOF(T), allocator_);          \
  }                                                                                                \
  FQI_FACE fq_status name##_init(name *q_, size_t capacity_) {                                     \
    return name##_init_with(q_, capacity_, NULL);                                                  \
  }                                                                                                \
  FQI_FACE fq_status name##_init_fixed(name *q_, T *storage_, size_t capacity_) {                  \
    return fqi_spsc_init_fixed(FQI_SPSC(q_), storage_, capacity_, sizeof(T), FQI_ALIGNOF(T));      \
  }                                                                                                \
  FQI_FACE void name##_destroy(name *q_) { fqi_spsc_destroy(FQI_SPSC(q_)); }                       \
  FQI_FACE size_t name##_count(const name *q_) { return fqi_spsc_count(FQI_CSPSC(q_)); }           \
  FQI_FACE size_t name##_capacity(const name *q_) { return fqi_spsc_capacity(FQI_CSPSC(q_)); }     \
  FQI_FACE fq_status name##_push(name *q_, T item_) {                                              \
    return fqi_spsc_push(FQI_SPSC(q_), &item_, sizeof(T));                                         \
  }                                                                                                \
  FQI_FACE fq_status name##_pop(name *q_, T *out_) {                                               \
    return fqi_spsc_pop(FQI_SPSC(q_), out_, sizeof(T));                                            \
  }                                                                                                \
  FQI_FACE size_t name##_push_n(name *q_, T const *items_, size_t n_) {                            \
    return fqi_spsc_push_n(FQI_SPSC(q_), items_, n_, sizeof(T));                                   \
  }                                                                                                \
  FQI_FACE fq_status name##_push_all(name *q_, T const *items_, size_t n_) {                       \
    return fqi_spsc_push_all(FQI_SPSC(q_), items_, n_, sizeof(T));                                 \
  }                                                                                                \
  FQI_FACE size_t name##_pop_n(name *q_, T *out_, size_t n_) {                                     \
    return fqi_spsc_pop_n(FQI_SPSC(q_), out_, n_, sizeof(T));                                      \
  }                                                                                                \
  FQI_FACE T *name##_peek(name *q_) { return (T *)fqi_spsc_peek(FQI_SPSC(q_), sizeof(T)); }        \
  FQI_FACE T *name##_write_span(name *q_, size_t *n_) {                                            \
    return (T *)fqi_spsc_span(FQI_SPSC(q_), n_, true, sizeof(T));                                  \
  }                                                                                                \
  FQI_FACE void name##_commit(name *q_, size_t n_) { fqi_spsc_commit(FQI_SPSC(q_), n_); }          \
  FQI_FACE T *name##_read_span(name *q_, size_t *n_) {                                             \
    return (T *)fqi_spsc_span(FQI_SPSC(q_), n_, false, sizeof(T));                                 \
  }                                                                                                \
  FQI_FACE void name##_release(name *q_, size_t n_) { fqi_spsc_release(FQI_SPSC(q_), n_); }        \
  FQI_CHECK_ITEM(T)

/* -------------------------------------------------------------------------------------------- */
/* @@mpmc: interface                                                                            */
/* -------------------------------------------------------------------------------------------- */

/* FQ_MPMC(name, T): any number of threads on both sides, none of which ever waits for another.
 * FQ_MPSC(name, T): many push, one thread pops; FQ_SPMC(name, T): one pushes, many pop. The same
 * calls; the side with one thread needs no atomic read-modify-write.
 *
 * First in, first out. A call claims a run of places by one compare-and-swap, however long the run,
 * copies, and marks the run as finished at its first place. So a thread that is stopped between its
 * claim and its mark delays nobody but those who come to its very places: they hear FQ_BUSY, and
 * what they hear is honest:
 *   FQ_EMPTY   the queue was empty at some moment inside the call; FQ_FULL likewise
 *   FQ_BUSY    the next place is claimed by another thread that had not finished
 *
 * The capacity is rounded up to a power of two; name_capacity tells it, and exactly so many fit.
 *
 * Threads: as the name says; name_count from any. A signal handler may use either side too: it may
 * hear FQ_BUSY because of the call that it interrupts. Blocks: never. Allocates: name_init only. */

/* One side. Positions count places since init and wrap; both are atomic. */
typedef struct fqi_lane {
  unsigned char apart[FASTQ_CACHE_LINE]; /* from the neighbour before it */
  size_t next;                           /* the first place that is not claimed */
  size_t seen; /* places before it are ready to be claimed, if it is not behind next */
} fqi_lane;

typedef struct fq_mpmc {
  unsigned char *groups; /* of places: the marks of a group, which are atomic, then its items */
  size_t capacity;       /* 0: not initialised */
  fqi_block block;
  fq_allocator allocator;
  fqi_lane in, out;
  unsigned char apart[FASTQ_CACHE_LINE];
} fq_mpmc;

/* The positions there are; two bits less than a word, for the marks. Tests make them few. */
#ifndef FQI_POSITIONS
#define FQI_POSITIONS (SIZE_MAX >> 2)
#endif

enum { FQI_IN = 1, FQI_OUT = 2 }; /* whose mark it is */

FQI_API fq_status fqi_mpmc_init(fq_mpmc *q, size_t capacity, size_t size, size_t align,
                                const fq_allocator *allocator);
FQI_API fq_status fqi_mpmc_init_fixed(fq_mpmc *q, void *memory, size_t capacity, size_t size,
                                      size_t align);
FQI_API void fqi_mpmc_destroy(fq_mpmc *q);
FQI_API size_t fqi_mpmc_bytes(size_t capacity, size_t size, size_t align);
FQI_API bool fqi_mpmc_show(fq_mpmc *q, fqi_lane *lane, size_t next, size_t end);
FQI_API fq_status fqi_mpmc_why(const fq_mpmc *q, const fqi_lane *lane, size_t at, size_t least);

/* name_init: an empty queue.
 *   capacity  1 or more, rounded up to a power of two
 *   Returns   FQ_OK; FQ_NOMEM; FQ_INVALID for NULL, 0 or a size that overflows
 *   Allocates name_bytes(capacity)
 * name_init_with: the same with the memory of an allocator, which is copied (NULL: the default).
 * name_init_fixed: the same in memory of yours, name_bytes(capacity) bytes at any address, which
 *   stays yours; it allocates nothing.
 * name_bytes: how much that is; 0 when it overflows or capacity is 0. */

/* name_destroy: free what name_init allocated. Items are just forgotten. NULL is fine. */

/* name_capacity: how many items fit. */
FQI_INLINE size_t fqi_mpmc_capacity(const fq_mpmc *q) { return q != NULL ? q->capacity : 0; }

FQI_INLINE size_t fqi_step(size_t position, size_t n) { return (position + n) & FQI_POSITIONS; }
FQI_INLINE size_t fqi_gap(size_t from, size_t to) { return (to - from) & FQI_POSITIONS; }

/* How places lie in memory: in groups, as many as a cache line holds with their marks. So an item
 * and its mark go from thread to thread in one line, and the items of a group are copied in one
 * piece. */
typedef struct fqi_shape {
  size_t size;   /* of an item */
  size_t group;  /* places in a group */
  size_t items;  /* from the beginning of a group to its items, in bytes */
  size_t stride; /* from group to group */
  size_t capacity;
  unsigned char *groups;
} fqi_shape;

FQI_INLINE fqi_shape fqi_mpmc_shape(size_t size, size_t align) {
  fqi_shape s;
  size_t slot = sizeof(size_t) + size;
  size_t least = align > sizeof(size_t) ? align : sizeof(size_t);
  s.size = size;
  s.group = slot <= FASTQ_CACHE_LINE / 4 ? 4 : slot <= FASTQ_CACHE_LINE / 2 ? 2 : 1;
  s.items = fqi_round_up(s.group * sizeof(size_t), align);
  s.stride = fqi_round_up(s.items + s.group * size, s.group > 1 ? FASTQ_CACHE_LINE : least);
  s.capacity = 0;
  s.groups = NULL;
  return s;
}

/* The same with what q says: read once, as the compiler must think that items lie anywhere. */
FQI_INLINE fqi_shape fqi_mpmc_shape_of(const fq_mpmc *q, fqi_shape s) {
  s.capacity = q->capacity;
  s.groups = q->groups;
  return s;
}

/* The mark of the place at a position. */
FQI_INLINE size_t *fqi_mpmc_mark(fqi_shape s, size_t at) {
  size_t place = at & (s.capacity - 1);
  return (size_t *)(void *)(s.groups + place / s.group * s.stride) + place % s.group;
}

/* Its item, and how many of the n from there on lie in one piece: a group, or one. */
FQI_INLINE unsigned char *fqi_mpmc_item(fqi_shape s, size_t at, size_t *n) {
  size_t place = at & (s.capacity - 1), within = place % s.group;
  *n = within == 0 && *n >= s.group ? s.group : 1;
  return s.groups + place / s.group * s.stride + s.items + within * s.size;
}

/* Copies them; by literal sizes, which the compiler makes plain moves. */
FQI_INLINE void fqi_mpmc_move(fqi_shape s, unsigned char *to, const unsigned char *from, size_t n) {
  if (n == s.group) {
    memcpy(to, from, s.group * s.size);
  } else {
    memcpy(to, from, s.size);
  }
}

/* In the first laps of each quarter of the positions, marks and seen are renewed: what is older
 * than half of the positions would look good again. */
FQI_INLINE bool fqi_mpmc_renews(fqi_shape s, size_t at) {
  return FQI_RARE((at & FQI_POSITIONS >> 2) < 2 * s.capacity);
}

/* name_count: how many places are claimed by pushes and not yet by pops: exact when nobody is in a
 * call, and never more than the capacity. */
FQI_INLINE size_t fqi_mpmc_count(const fq_mpmc *q) {
  if (q == NULL) {
    return 0;
  }
  size_t out = fqi_load(&q->out.next); /* [L6], pairs with [L5]: in.next is not older */
  return fqi_min(fqi_gap(out, fqi_load(&q->in.next)), q->capacity);
}

/* How many places from at on are ready for a side, as far as most, by what it has seen and by the
 * marks of the other side, whose positions at these places are a capacity less for pushes. */
FQI_INLINE size_t fqi_mpmc_ready(const fqi_lane *lane, bool in, size_t at, size_t most,
                                 fqi_shape s) {
  size_t ready = 0;
  do {
    size_t place = fqi_step(at, ready);
    size_t mark = fqi_load(fqi_mpmc_mark(s, place)); /* [L2], pairs with [L1] */
    size_t run = fqi_gap(in ? place - s.capacity : place, mark >> 2);
    bool good = (mark & 3) == (in ? FQI_OUT : FQI_IN);
    if (!good || run - 1 >= s.capacity - ready) {
      run = ready == 0 ? fqi_gap(at, fqi_load(&lane->seen)) : 0; /* [L4], pairs with [L3] */
      if (run - 1 >= s.capacity) {
        break;
      }
    }
    ready += run;
  } while (ready < most && ready < s.capacity);
  return ready;
}

/* Claims up to most places, at least least of them or none: how many, from *at on.
 *   in        the side that pushes
 *   alone     this side has one thread */
FQI_INLINE size_t fqi_mpmc_claim(fq_mpmc *q, bool in, bool alone, size_t least, size_t most,
                                 size_t *at, fqi_shape s) {
  fqi_lane *lane = in ? &q->in : &q->out;
  while (s.capacity > 0) {
    size_t next = fqi_load(&lane->next); /* [L6], pairs with [L5] */
    size_t ready = fqi_mpmc_ready(lane, in, next, most, s);
    size_t n = fqi_min(ready, most);
    *at = next;
    if (n < least || n == 0) {
      if (alone || fqi_load(&lane->next) == next) {
        break;
      }
    } else if ((n < ready || fqi_mpmc_renews(s, next)) &&
               !fqi_mpmc_show(q, lane, next, fqi_step(next, ready))) {
      /* others got on */
    } else if (alone) {
      fqi_store(&lane->next, fqi_step(next, n)); /* [L5], pairs with [L6] */
      return n;
    } else if (fqi_cas(&lane->next, next, fqi_step(next, n))) { /* [L5], pairs with [L6] */
      return n;
    }
  }
  return 0;
}

/* Finishes the n places from at on. */
FQI_INLINE void fqi_mpmc_finish(fqi_shape s, size_t side, size_t at, size_t n) {
  if (fqi_mpmc_renews(s, at)) {
    for (size_t i = n; i-- > 1;) { /* inside a run: marks that are never good */
      fqi_store(fqi_mpmc_mark(s, fqi_step(at, i)), fqi_step(at, i) << 2 | side);
    }
  }
  fqi_store(fqi_mpmc_mark(s, at), fqi_step(at, n) << 2 | side); /* [L1], pairs with [L2] */
}

/* Pushes least to most items, or none: how many, from position *at on. */
FQI_INLINE size_t fqi_mpmc_put(fq_mpmc *q, const void *items, size_t least, size_t most, bool alone,
                               size_t *at, fqi_shape shape) {
  fqi_shape s = fqi_mpmc_shape_of(q, shape);
  const unsigned char *from = (const unsigned char *)items;
  size_t n = fqi_mpmc_claim(q, true, alone, least, most, at, s);
  for (size_t done = 0, some; done < n; done += some) {
    some = n - done;
    unsigned char *place = fqi_mpmc_item(s, fqi_step(*at, done), &some);
    fqi_mpmc_move(s, place, from + done * s.size, some);
  }
  if (n > 0) {
    fqi_mpmc_finish(s, FQI_IN, *at, n);
  }
  return n;
}

FQI_INLINE size_t fqi_mpmc_take(fq_mpmc *q, void *out, size_t least, size_t most, bool alone,
                                size_t *at, fqi_shape shape) {
  fqi_shape s = fqi_mpmc_shape_of(q, shape);
  unsigned char *to = (unsigned char *)out;
  size_t n = fqi_mpmc_claim(q, false, alone, least, most, at, s);
  for (size_t done = 0, some; done < n; done += some) {
    some = n - done;
    const unsigned char *place = fqi_mpmc_item(s, fqi_step(*at, done), &some);
    fqi_mpmc_move(s, to + done * s.size, place, some);
  }
  if (n > 0) {
    fqi_mpmc_finish(s, FQI_OUT, *at, n);
  }
  return n;
}

/* name_push_n: copy up to n items to the tail, in one piece.
 *   items     n items, yours again on return
 *   Returns   how many were taken: a prefix; 0 too when the next place is busy, or for NULL
 *   Order     release when it finishes; pairs with the acquire of the pop that takes them
 * name_pop_n: take up to n items from the head, in one piece, in order.
 *   out       room for n items
 *   Returns   how many were taken; 0 too when the next item is busy, or for NULL */
FQI_INLINE size_t fqi_mpmc_push_n(fq_mpmc *q, const void *items, size_t n, bool alone,
                                  fqi_shape s) {
  size_t at;
  return q != NULL && items != NULL ? fqi_mpmc_put(q, items, 1, n, alone, &at, s) : 0;
}

FQI_INLINE size_t fqi_mpmc_pop_n(fq_mpmc *q, void *out, size_t n, bool alone, fqi_shape s) {
  size_t at;
  return q != NULL && out != NULL ? fqi_mpmc_take(q, out, 1, n, alone, &at, s) : 0;
}

/* name_push_all: put n items at the tail in one piece, all or none.
 *   Returns   FQ_OK, also for n = 0; FQ_FULL; FQ_BUSY; FQ_INVALID for NULL or n > capacity
 * name_pop_all: take exactly n items from the head, or none.
 *   Returns   FQ_OK, also for n = 0; FQ_EMPTY: fewer are there; FQ_BUSY; FQ_INVALID likewise
 * name_push, name_pop: the same for one item. */
FQI_INLINE fq_status fqi_mpmc_push_all(fq_mpmc *q, const void *items, size_t n, bool alone,
                                       fqi_shape s) {
  size_t at = 0;
  if (q == NULL || (items == NULL && n > 0) || n > q->capacity) {
    return FQ_INVALID;
  }
  return n == 0 || fqi_mpmc_put(q, items, n, n, alone, &at, s) > 0 ? FQ_OK
                                                                   : fqi_mpmc_why(q, &q->in, at, n);
}

FQI_INLINE fq_status fqi_mpmc_pop_all(fq_mpmc *q, void *out, size_t n, bool alone, fqi_shape s) {
  size_t at = 0;
  if (q == NULL || (out == NULL && n > 0) || n > q->capacity) {
    return FQ_INVALID;
  }
  return n == 0 || fqi_mpmc_take(q, out, n, n, alone, &at, s) > 0 ? FQ_OK
                                                                  : fqi_mpmc_why(q, &q->out, at, n);
}

#define FQI_MPMC(q)  ((fq_mpmc *)(void *)(q))
#define FQI_CMPMC(q) ((const fq_mpmc *)(const void *)(q))
#define FQI_SHAPE(T) fqi_mpmc_shape(sizeof(T), FQI_ALIGNOF(T))

#define FQ_MPMC(name, T) FQI_MPMC_FACE(name, T, false, false)
#define FQ_MPSC(name, T) FQI_MPMC_FACE(name, T, false, true)
#define FQ_SPMC(name, T) FQI_MPMC_FACE(name, T, true, false)

#define FQI_MPMC_FACE(name, T, one_in, one_out)                                                    \
  typedef struct name {                                                                            \
    fq_mpmc mpmc;                                                                                  \
  } name;                                                                                          \
  FQI_FACE fq_status name##_init_with(name *q_, size_t capacity_,                                  \
                                      const fq_allocator *allocator_) {                            \
    return fqi_mpmc_init(FQI_MPMC(q_), capacity_, sizeof(T), FQI_ALIGNOF(T), allocator_);          \
  }                                                                                                \
  FQI_FACE fq_status name##_init(name *q_, size_t capacity_) {                                     \
    return name##_init_with(q_, capacity_, NULL);                                                  \
  }                                                                                                \
  FQI_FACE fq_status name##_init_fixed(name *q_, void *memory_, size_t capacity_) {                \
    return fqi_mpmc_init_fixed(FQI_MPMC(q_), memory_, capacity_, sizeof(T), FQI_ALIGNOF(T));       \
  }                                                                                                \
  FQI_FACE size_t name##_bytes(size_t capacity_) {                                                 \
    return fqi_mpmc_bytes(capacity_, sizeof(T), FQI_ALIGNOF(T));                                   \
  }                                                                                                \
  FQI_FACE void name##_destroy(name *q_) { fqi_mpmc_destroy(FQI_MPMC(q_)); }                       \
  FQI_FACE size_t name##_count(const name *q_) { return fqi_mpmc_count(FQI_CMPMC(q_)); }           \
  FQI_FACE size_t name##_capacity(const name *q_) { return fqi_mpmc_capacity(FQI_CMPMC(q_)); }     \
  FQI_FACE fq_status name##_push(name *q_, T item_) {                                              \
    return fqi_mpmc_push_all(FQI_MPMC(q_), &item_, 1, one_in, FQI_SHAPE(T));                       \
  }                                                                                                \
  FQI_FACE fq_status name##_pop(name *q_, T *out_) {                                               \
    return fqi_mpmc_pop_all(FQI_MPMC(q_), out_, 1, one_out, FQI_SHAPE(T));                         \
  }                                                                                                \
  FQI_FACE size_t name##_push_n(name *q_, T const *items_, size_t n_) {                            \
    return fqi_mpmc_push_n(FQI_MPMC(q_), items_, n_, one_in, FQI_SHAPE(T));                        \
  }                                                                                                \
  FQI_FACE size_t name##_pop_n(name *q_, T *out_, size_t n_) {                                     \
    return fqi_mpmc_pop_n(FQI_MPMC(q_), out_, n_, one_out, FQI_SHAPE(T));                          \
  }                                                                                                \
  FQI_FACE fq_status name##_push_all(name *q_, T const *items_, size_t n_) {                       \
    return fqi_mpmc_push_all(FQI_MPMC(q_), items_, n_, one_in, FQI_SHAPE(T));                      \
  }                                                                                                \
  FQI_FACE fq_status name##_pop_all(name *q_, T *out_, size_t n_) {                                \
    return fqi_mpmc_pop_all(FQI_MPMC(q_), out_, n_, one_out, FQI_SHAPE(T));                        \
  }                                                                                                \
  FQI_CHECK_ITEM(T)

/* -------------------------------------------------------------------------------------------- */
/* @@tasks: interface                                                                           */
/* -------------------------------------------------------------------------------------------- */

/* What FQ_DISPATCH and FQ_POOL share: the same configuration, the same verbs, and one account of
 * who may start and when saturated, empty and drain fall. An event loop drives the first, threads
 * drive the second.
 *
 * A task is a value: push copies it in, and the worker and done get a pointer to the queue's copy,
 * which lies still until done returns. Nothing is allocated for a task, unless the queue must grow.
 * Tasks start in the order they were pushed, and done is called exactly once for every accepted
 * task.
 *
 * Callbacks run without any lock and may call every verb (pred and fn of name_cancel_if and
 * name_each: some, see there); a call that would wait for itself says FQ_DEADLOCK and touches
 * nothing. They return: leaving one by longjmp, pthread_exit or a C++ exception is an error of the
 * caller. The backlog is the tasks that wait and find no free place:
 *   on_saturated   it went from 0 to 1
 *   on_empty       it went back to 0: the last of it was handed out, or dropped
 *   on_drain       nothing waits and nothing runs: once per busy period, after the last done */

typedef struct fq_config {
  int (*worker)(void *task, void *ctx);           /* returns 0, an error, dispatch: or FQ_PENDING */
  void (*done)(void *task, int error, void *ctx); /* error: the worker's, or FQ_CANCELED */
  void *ctx;                                      /* for all the callbacks */
  size_t concurrency; /* tasks that run at once: dispatch 1 or more; pool 0 = threads */
  size_t limit;       /* tasks that wait at most; 0 = unbounded */
  void (*on_saturated)(void *ctx);
  void (*on_empty)(void *ctx);
  void (*on_drain)(void *ctx);
  const fq_allocator *allocator; /* NULL = FASTQ_MALLOC */

  /* For a pool only. A larger batch is faster for tiny tasks, but while one of its tasks runs, the
   * others wait for it. What thread_start stores in *thread_ctx is the ctx of worker on its thread
   * (otherwise the ctx above); anything but 0 from it fails name_init. thread_stop is the last that
   * runs on each thread whose thread_start returned 0. */
  size_t threads;    /* 0 = one per CPU */
  size_t batch;      /* tasks a worker takes at once; 0 = 1 */
  size_t stack_size; /* bytes for each thread, or more if the system demands; 0 = its default */
  const char *name;  /* of the threads, for debuggers, cut to what the system takes; NULL = none */
  int (*thread_start)(size_t index, void *ctx, void **thread_ctx);
  void (*thread_stop)(size_t index, void *thread_ctx);
} fq_config;

/* One consistent look. submitted = completed + canceled + running + waiting. */
typedef struct fq_stats {
  uint64_t submitted; /* accepted */
  uint64_t completed; /* ran to their end; */
  uint64_t failed;    /*   with an error other than 0, among these */
  uint64_t canceled;  /* dropped before they ran */
  uint64_t peak;      /* the longest backlog; a pool's may count tasks on their way to a worker */
} fq_stats;

/* The account. Whoever drives it holds what guards it. */
typedef struct fqi_tally {
  size_t concurrency;
  size_t busy;    /* places taken: by a running task, in a pool by a worker with its batch */
  size_t running; /* tasks that started and have not ended */
  size_t held;    /* what else keeps it from being idle: on_drain or done for dropped tasks under
                     way, threads that have not arrived */
  size_t peak;
  uint64_t completed, failed, canceled;
  uint64_t drained; /* completed + canceled at the last drain */
  bool paused;
  bool backlog; /* on_saturated was due and on_empty not since */
  bool watched; /* a pool: every step must look at the account, not only at the queue */
} fqi_tally;

typedef struct fqi_view {
  fq_stats stats;
  size_t count, running;
  bool idle;
} fqi_view;

/* name_pause: start nothing more; the running tasks run on. Again is fine: pauses are not counted.
 * name_resume: start what waits, as far as the concurrency allows.
 * name_set_concurrency: at once. Raising it starts tasks, lowering it lets the running ones end.
 *   Returns   FQ_OK; or unchanged: FQ_INVALID for NULL, 0, a pool's more than its threads and a
 *             dispatch's more than 16777215; FQ_NOMEM (dispatch); FQ_DEADLOCK in pred or fn
 *   Allocates dispatch: room for the tasks that run more than ever before */

/* name_cancel_if: drop the waiting tasks for which pred(task, arg) is true (pred NULL: all), in
 * order; then call done with FQ_CANCELED for each, in order, on this thread.
 *   Returns   how many were dropped: fewer than matched if memory is short, the rest stays
 *   Allocates room for the dropped tasks
 * name_each: call fn(task, arg) for the waiting tasks in order, until it returns false.
 *   pred and fn only look at the tasks: a pool's stand still meanwhile. Of this queue's calls they
 *   may use name_count, name_running, name_idle and name_stats; others do nothing (FQ_DEADLOCK). */

/* name_close: accept no more tasks; those that wait still run. Again is fine.
 * name_count: tasks that wait.
 * name_running: tasks that run now; with batch > 1, all that the workers have taken.
 * name_idle: nothing waits and nothing runs; in a pool: name_wait would return at once.
 * name_stats: all of it, at one moment. */
#define FQI_TASKS_FACE(name, T, core, q)                                                           \
  FQI_FACE void name##_pause(name *q_) { core##_pause(q(q_), true); }                              \
  FQI_FACE void name##_resume(name *q_) { core##_pause(q(q_), false); }                            \
  FQI_FACE fq_status name##_set_concurrency(name *q_, size_t concurrency_) {                       \
    return core##_set_concurrency(q(q_), concurrency_);                                            \
  }                                                                                                \
  FQI_FACE size_t name##_cancel_if(name *q_, bool (*pred_)(const void *task_, void *arg_),         \
                                   void *arg_) {                                                   \
    return core##_cancel_if(q(q_), pred_, arg_);                                                   \
  }                                                                                                \
  FQI_FACE void name##_each(name *q_, bool (*fn_)(const void *task_, void *arg_), void *arg_) {    \
    core##_each(q(q_), fn_, arg_);                                                                 \
  }                                                                                                \
  FQI_FACE void name##_close(name *q_) { core##_close(q(q_)); }                                    \
  FQI_FACE size_t name##_count(name *q_) { return core##_view(q(q_)).count; }                      \
  FQI_FACE size_t name##_running(name *q_) { return core##_view(q(q_)).running; }                  \
  FQI_FACE bool name##_idle(name *q_) { return core##_view(q(q_)).idle; }                          \
  FQI_FACE fq_stats name##_stats(name *q_) { return core##_view(q(q_)).stats; }                    \
  FQI_CHECK_ITEM(T)

/* -------------------------------------------------------------------------------------------- */
/* @@dispatch: interface                                                                        */
/* -------------------------------------------------------------------------------------------- */

/* FQ_DISPATCH(name, T): bounded concurrency on your own event loop, without threads.
 *
 * A push starts the worker at once while fewer than concurrency tasks run. A worker that is not
 * finished when it returns (it has begun a read, set a timer) keeps name_id, returns FQ_PENDING,
 * and the program calls name_complete later. Inside a callback, pushes and completions only queue:
 * the outermost call goes on with them, so nothing recurses however many tasks finish at once.
 *
 * What users of such queues in JavaScript know, and what is different here on purpose:
 *     JavaScript         here                     different
 *     push(task, cb)     name_push                one done for all; a push inside a callback starts
 *                                                 later, by the outermost call
 *     unshift            name_push_front
 *     pause, resume      name_pause, name_resume
 *     concurrency = n    name_set_concurrency     starts what it allows at once; 0 is refused
 *     idle()             name_idle
 *     length()           name_count               the running ones are name_running
 *     getQueue()         name_each                no copy
 *     kill, abort        name_cancel_if(NULL)     done is always called, with FQ_CANCELED; on_drain
 *     killAndDrain         or with a predicate      stays set, and falls
 *     callback(error)    done's error             an int
 *     saturated          on_saturated             when the first task must wait
 *     empty              on_empty                 when none waits any more; before drain, always
 *     drain              on_drain                 once per busy period, after the last done
 *     drained()          name_wait of FQ_POOL     here: on_drain, or name_idle in the loop
 *
 * Threads: one at a time. Blocks: never. Allocates: when the backlog grows, and where it says
 * so. */

typedef uint64_t fq_id; /* of a running task: no other task of the dispatch ever has the same */

typedef struct fqi_slot fqi_slot;
typedef struct fqi_chunk fqi_chunk;

typedef struct fq_dispatch {
  fq_ring ring; /* the waiting tasks */
  fq_config config;
  fqi_tally tally;
  fqi_chunk *chunks; /* of slots, one for each task that may run */
  fqi_slot *unused;
  fqi_slot *completed, **completed_end; /* tasks whose done is due, in order */
  size_t slots, task_offset, slot_size;
  size_t depth; /* callbacks under way */
  bool closed;
  bool walking; /* in pred or fn */
} fq_dispatch;

FQI_API fq_status fqi_dispatch_init(fq_dispatch *d, const fq_config *config, size_t size,
                                    size_t align);
FQI_API fq_status fqi_dispatch_destroy(fq_dispatch *d);
FQI_API fq_status fqi_dispatch_push(fq_dispatch *d, const void *task, bool front);
FQI_API size_t fqi_dispatch_push_n(fq_dispatch *d, const void *tasks, size_t n, fq_status *why);
FQI_API fq_id fqi_dispatch_id(fq_dispatch *d, const void *task);
FQI_API fq_status fqi_dispatch_complete(fq_dispatch *d, fq_id id, int error);
FQI_API void *fqi_dispatch_task(fq_dispatch *d, fq_id id);
FQI_API size_t fqi_dispatch_run(fq_dispatch *d, size_t budget);
FQI_API void fqi_dispatch_pause(fq_dispatch *d, bool paused);
FQI_API fq_status fqi_dispatch_set_concurrency(fq_dispatch *d, size_t concurrency);
FQI_API size_t fqi_dispatch_cancel_if(fq_dispatch *d, bool (*pred)(const void *task, void *arg),
                                      void *arg);
FQI_API void fqi_dispatch_each(fq_dispatch *d, bool (*fn)(const void *task, void *arg), void *arg);
FQI_API void fqi_dispatch_close(fq_dispatch *d);
FQI_API fqi_view fqi_dispatch_view(const fq_dispatch *d);

/* name_init: an open dispatch with nothing to do.
 *   config    is copied; what ctx and the allocator's ctx point to must outlive the dispatch
 *   Returns   FQ_OK; FQ_NOMEM; FQ_INVALID for NULL, no worker, a concurrency of 0 or above
 *             16777215, or sizes that overflow
 *   Allocates room for limit waiting and concurrency running tasks */

/* name_destroy: drop what waits, as name_cancel_if does, then free all. Again is fine.
 *   Returns   FQ_OK; FQ_DEADLOCK inside a callback or while a task runs: nothing is touched;
 *             FQ_INVALID for NULL */

/* name_push: queue one task and start what may start.
 *   Returns   FQ_OK; FQ_FULL; FQ_CLOSED; FQ_NOMEM; FQ_INVALID; FQ_DEADLOCK in pred or fn
 * name_push_front: the same before all that waits.
 * name_push_n: queue n tasks in order, as name_push.
 *   why       FQ_OK when all n were accepted; may be NULL
 *   Returns   how many were accepted: a prefix. With a limit, those that start make room for more,
 *             so state callbacks may be called several times within the call. */

/* name_id: the handle of a running task, asked by its worker with the pointer it got.
 *   Returns   never 0 for a running task; 0 for any other pointer */

/* name_complete: a task that said FQ_PENDING, or will say so, has come to its end. The call is good
 * before its worker has returned, too, and then decides, whatever the worker returns.
 *   error     for done
 *   Returns   FQ_OK; FQ_INVALID when that task does not run (any more), however often its place
 *             has been used since */

/* name_task: the queue's copy of a running task; NULL when it does not run (any more). */

/* name_run: start at most budget tasks of a paused dispatch: for a loop that hands out the time
 * itself. One that is not paused, or is resumed meanwhile, starts all that may start.
 *   Returns   how many were started; 0 inside a callback */

#define FQI_DISPATCH(q) ((fq_dispatch *)(void *)(q))

#define FQ_DISPATCH(name, T)                                                                       \
  typedef struct name {                                                                            \
    fq_dispatch dispatch;                                                                          \
  } name;                                                                                          \
  FQI_FACE fq_status name##_init(name *d_, const fq_config *config_) {                             \
    return fqi_dispatch_init(FQI_DISPATCH(d_), config_, sizeof(T), FQI_ALIGNOF(T));                \
  }                                                                                                \
  FQI_FACE fq_status name##_destroy(name *d_) { return fqi_dispatch_destroy(FQI_DISPATCH(d_)); }   \
  FQI_FACE fq_status name##_push(name *d_, T task_) {                                              \
    return fqi_dispatch_push(FQI_DISPATCH(d_), &task_, false);                                     \
  }                                                                                                \
  FQI_FACE fq_status name##_push_front(name *d_, T task_) {                                        \
    return fqi_dispatch_push(FQI_DISPATCH(d_), &task_, true);                                      \
  }                                                                                                \
  FQI_FACE size_t name##_push_n(name *d_, T const *tasks_, size_t n_, fq_status *why_) {           \
    return fqi_dispatch_push_n(FQI_DISPATCH(d_), tasks_, n_, why_);                                \
  }                                                                                                \
  FQI_FACE fq_id name##_id(name *d_, void *task_) {                                                \
    return fqi_dispatch_id(FQI_DISPATCH(d_), task_);                                               \
  }                                                                                                \
  FQI_FACE fq_status name##_complete(name *d_, fq_id id_, int error_) {                            \
    return fqi_dispatch_complete(FQI_DISPATCH(d_), id_, error_);                                   \
  }                                                                                                \
  FQI_FACE void *name##_task(name *d_, fq_id id_) {                                                \
    return fqi_dispatch_task(FQI_DISPATCH(d_), id_);                                               \
  }                                                                                                \
  FQI_FACE size_t name##_run(name *d_, size_t budget_) {                                           \
    return fqi_dispatch_run(FQI_DISPATCH(d_), budget_);                                            \
  }                                                                                                \
  FQI_TASKS_FACE(name, T, fqi_dispatch, FQI_DISPATCH)

#ifndef FASTQ_NO_THREADS

/* -------------------------------------------------------------------------------------------- */
/* @@chan: interface                                                                            */
/* -------------------------------------------------------------------------------------------- */

/* FQ_CHAN(name, T): a queue for threads that wait for each other.
 *
 * Any number of threads push and pop. A push waits while the channel is at its limit, a pop while
 * it is empty, as long as the timeout allows. First in, first out, and waiting threads are served
 * in the order they came: whoever makes a wait end, by an item or by room, moves the items itself
 * before it wakes the thread, so nobody takes what a sleeping thread waits for, and no wake is in
 * vain.
 *
 * Close is final: pushes end with FQ_CLOSED, pops drain what is left and then end with FQ_CLOSED.
 * For a reader an item beats closed beats empty; for a writer closed beats full.
 *
 * Threads: any, unless a call says otherwise; what a thread wrote before its push is visible to the
 * thread that pops the item. Not for signal handlers. A waiting thread is not a cancellation point.
 * Blocks: for the short time another call holds a lock, and as the timeout says. A thread looks a
 * few times more before it goes to sleep, fewer times where that was in vain.
 * Allocates: a bounded channel at init and set_limit only; an unbounded one when it grows. */

typedef struct fqi_waiter fqi_waiter;
typedef struct fqi_guest fqi_guest;

typedef struct fqi_waiters {
  fqi_waiter *head, *tail;
  size_t count;
} fqi_waiters;

/* One side of a channel: what only those who push touch, or only those who pop. */
typedef struct fqi_side {
  unsigned char apart[FASTQ_CACHE_LINE]; /* from the neighbour before it */
  fqi_lock lock;
  size_t count;    /* items that came in, or went out, since init; wraps; the other side reads it */
  size_t at;       /* the place of the next one */
  size_t seen;     /* the other side's count when it was last read */
  size_t peak;     /* the most items that were queued; SIZE_MAX: nobody asks */
  size_t patience; /* how often to look again before going to sleep */
  size_t inside;   /* calls that have let go of the lock and will be back */
  bool awaited;    /* fqi_chan_destroy waits for calls to leave: */
  fqi_cond left;   /* one has; goes with lock */
} fqi_side;

typedef struct fq_chan {
  /* Written with both sides' locks held, so that either of them is enough to read it. */
  size_t fits; /* items the ring may hold as it is: 0 once closed */
  size_t slow; /* not 0: nothing may be done under one lock, as somebody must be looked after */
  void (*notify)(void *ctx);
  fq_ring ring; /* its head and count are in force only while both locks are held */
  void *notify_ctx;
  size_t limit;  /* SIZE_MAX: unbounded */
  size_t wanted; /* the least number of items that lets a waiting reader go; SIZE_MAX: none */
  fqi_waiters readers, writers;
  fqi_waiters idlers; /* threads that wait for a pool to be idle */
  fqi_waiters wakes;  /* served in this step, and woken at its end */
  fqi_tally *tally;   /* the pool's whose workers are the readers; NULL in a channel */
  fqi_guest *guests;  /* threads that run callbacks of that pool and are no workers, */
  size_t visited;     /* and how many they are: atomic */
  int error;
  bool closed;
  fqi_side push, pop;
  unsigned char apart[FASTQ_CACHE_LINE];
} fq_chan;

/* What fqi_chan_look sees. */
typedef struct fqi_chan_state {
  size_t count, limit, producers, consumers;
  int error;
  bool closed;
} fqi_chan_state;

/* Reads the items of a channel as a stream; see name_next. Zero is the default of every member. */
typedef struct fq_iter {
  int64_t first_timeout_ns;   /* for the first item; 0 or negative: for ever (no FQ_NOWAIT) */
  int64_t between_timeout_ns; /* for each item after it; 0 or negative: for ever */
  size_t limit;               /* end after so many items; 0: none */
  size_t count;               /* result: items read */
  fq_status status;           /* result: why name_next returned false */
  int error;                  /* result: the code given to name_fail */
} fq_iter;

/* FQ_ITER(.limit = 10, .between_timeout_ns = 1000000): an fq_iter with these members, others zero.
 * C++ before C++20 has no such initialiser: there write fq_iter it = {}; it.limit = 10; */
#ifdef __cplusplus
#define FQ_ITER(...)                                                                               \
  fq_iter { __VA_ARGS__ }
#else
#define FQ_ITER(...) ((fq_iter){.status = FQ_OK, __VA_ARGS__})
#endif

FQI_API fq_status fqi_chan_init(fq_chan *c, size_t limit, size_t size, size_t align,
                                const fq_allocator *allocator);
FQI_API void fqi_chan_destroy(fq_chan *c);
FQI_API fq_status fqi_chan_push(fq_chan *c, const void *item, bool front, int64_t timeout);
FQI_API fq_status fqi_chan_pop(fq_chan *c, void *out, int64_t timeout, int *error);
FQI_API size_t fqi_chan_push_n(fq_chan *c, const void *items, size_t n, int64_t timeout,
                               fq_status *why);
FQI_API size_t fqi_chan_pop_n(fq_chan *c, void *out, size_t min, size_t max, int64_t timeout,
                              fq_status *why);
FQI_API void fqi_chan_fail(fq_chan *c, int error);
FQI_API fq_status fqi_chan_set_limit(fq_chan *c, size_t limit);
FQI_API fqi_chan_state fqi_chan_look(const fq_chan *c);
FQI_API void fqi_chan_notify(fq_chan *c, void (*fn)(void *ctx), void *ctx);
FQI_API bool fqi_chan_next(fq_chan *c, fq_iter *it, void *out);

/* name_init: an open channel.
 *   limit     items it holds at most; 0 = unbounded
 *   Returns   FQ_OK; FQ_NOMEM; FQ_SYSTEM; FQ_INVALID for NULL or a size that overflows
 *   Allocates room for limit items
 * name_init_with: the same with the memory of an allocator, which is copied (NULL: the default). It
 *   is called under the channel's locks. */

/* name_destroy: close the channel, wait until the threads that wait in it have left, and free it.
 * Items still in it are just forgotten. No thread may come in any more. A thread that has received
 * an item may destroy the channel even if the push that sent the item has not returned yet. */

/* name_push: put one item at the tail, waiting for room if need be.
 *   Returns   FQ_OK; FQ_CLOSED; FQ_FULL with FQ_NOWAIT; FQ_TIMEOUT; FQ_NOMEM (unbounded:
 *             unchanged); FQ_SYSTEM when it would have to wait and cannot; FQ_INVALID for NULL
 * name_push_front: the same before the head: the next pop returns it. */

/* name_pop: take the item at the head, waiting for one if need be.
 *   out       gets the item; untouched unless FQ_OK
 *   Returns   FQ_OK; FQ_CLOSED (and nothing is left); FQ_EMPTY with FQ_NOWAIT; FQ_TIMEOUT;
 *             FQ_SYSTEM when it would have to wait and cannot; FQ_INVALID for NULL */

/* name_push_n: put n items at the tail in order: as many as fit, then wait for room for more.
 *   items     n items; those that were not accepted are still yours
 *   why       FQ_OK when all n were accepted, otherwise as name_push; may be NULL
 *   Returns   how many were accepted: a prefix. What fits when the call comes goes in as one piece;
 *             the rest in pieces, as room appears, and items of others may come between those. */

/* name_pop_n: wait until min items are there, then take up to max, in order.
 *   min       0 never waits; more than the limit is FQ_INVALID
 *   why       FQ_OK when min was reached; otherwise as name_pop, and except for FQ_SYSTEM and
 *             FQ_INVALID what is there has been taken; with min 0 and nothing there, FQ_CLOSED if
 *             that is for good; may be NULL
 *   Returns   how many were taken. Nothing is held back while waiting for more: a call that is
 *             content with fewer may pass one that waits for many. */

/* name_close: no push is accepted from now on, and everyone who waits leaves at once. Again is
 * fine.
 * name_fail: the same, with a code for the readers to see. Whichever came first decides.
 * name_error: that code; 0 while the channel is open or was just closed. */

/* name_closed, name_count, name_limit: a look at this moment; a limit of 0 is unbounded. */

/* name_set_limit: change the limit at once. Raising it lets waiting writers go on. Lowering it
 * drops nothing: pushes wait until there is room again. A reader that waits for more items than the
 * new limit leaves with FQ_INVALID, as the same call would now.
 *   Returns   FQ_OK; FQ_NOMEM (unchanged); FQ_INVALID for NULL or a size that overflows
 *   Allocates room for limit items */

/* name_waiting: how many threads wait to push and to pop at this moment. Either may be NULL. */

/* name_notify: call fn(ctx) whenever an empty channel gets items, and when it closes: for an event
 * loop, which fn wakes (writes an eventfd, say) and which then pops with FQ_NOWAIT until FQ_EMPTY
 * or FQ_CLOSED. fn runs outside the lock on the thread that pushed or closed, and right here if
 * there are items already or it is closed. NULL ends it; a call under way on another thread may
 * still be. */

/* name_next: the next item of the stream; false when it ends, and it->status tells how.
 *   it        starts as fq_iter it = {0} or FQ_ITER(...)
 *   Returns   true with the item in out; false with it->status
 *               FQ_CLOSED   the end: it->error is 0, or what name_fail gave
 *               FQ_TIMEOUT  nothing came in time: the first item if it->count is 0, else the next
 *               FQ_OK       it->limit items have been read
 *             or as name_pop. Items queued before a close or a failure are read first. The time is
 *             counted from the call, so a slow reader does not time itself out. */

#define FQI_CHAN(q)  ((fq_chan *)(void *)(q))
#define FQI_CCHAN(q) ((const fq_chan *)(const void *)(q))

#define FQ_CHAN(name, T)                                                                           \
  typedef struct name {                                                                            \
    fq_chan chan;                                                                                  \
  } name;                                                                                          \
  FQI_FACE fq_status name##_init(name *c_, size_t limit_) {                                        \
    return fqi_chan_init(FQI_CHAN(c_), limit_, sizeof(T), FQI_ALIGNOF(T), NULL);                   \
  }                                                                                                \
  FQI_FACE fq_status name##_init_with(name *c_, size_t limit_, const fq_allocator *allocator_) {   \
    return fqi_chan_init(FQI_CHAN(c_), limit_, sizeof(T), FQI_ALIGNOF(T), allocator_);             \
  }                                                                                                \
  FQI_FACE void name##_destroy(name *c_) { fqi_chan_destroy(FQI_CHAN(c_)); }                       \
  FQI_FACE fq_status name##_push(name *c_, T item_, int64_t timeout_) {                            \
    return fqi_chan_push(FQI_CHAN(c_), &item_, false, timeout_);                                   \
  }                                                                                                \
  FQI_FACE fq_status name##_push_front(name *c_, T item_, int64_t timeout_) {                      \
    return fqi_chan_push(FQI_CHAN(c_), &item_, true, timeout_);                                    \
  }                                                                                                \
  FQI_FACE fq_status name##_pop(name *c_, T *out_, int64_t timeout_) {                             \
    return fqi_chan_pop(FQI_CHAN(c_), out_, timeout_, NULL);                                       \
  }                                                                                                \
  FQI_FACE size_t name##_push_n(name *c_, T const *items_, size_t n_, int64_t timeout_,            \
                                fq_status *why_) {                                                 \
    return fqi_chan_push_n(FQI_CHAN(c_), items_, n_, timeout_, why_);                              \
  }                                                                                                \
  FQI_FACE size_t name##_pop_n(name *c_, T *out_, size_t min_, size_t max_, int64_t timeout_,      \
                               fq_status *why_) {                                                  \
    return fqi_chan_pop_n(FQI_CHAN(c_), out_, min_, max_, timeout_, why_);                         \
  }                                                                                                \
  FQI_FACE void name##_close(name *c_) { fqi_chan_fail(FQI_CHAN(c_), 0); }                         \
  FQI_FACE void name##_fail(name *c_, int error_) { fqi_chan_fail(FQI_CHAN(c_), error_); }         \
  FQI_FACE int name##_error(const name *c_) { return fqi_chan_look(FQI_CCHAN(c_)).error; }         \
  FQI_FACE bool name##_closed(name *c_) { return fqi_chan_look(FQI_CHAN(c_)).closed; }             \
  FQI_FACE size_t name##_count(name *c_) { return fqi_chan_look(FQI_CHAN(c_)).count; }             \
  FQI_FACE size_t name##_limit(name *c_) { return fqi_chan_look(FQI_CHAN(c_)).limit; }             \
  FQI_FACE fq_status name##_set_limit(name *c_, size_t limit_) {                                   \
    return fqi_chan_set_limit(FQI_CHAN(c_), limit_);                                               \
  }                                                                                                \
  FQI_FACE void name##_waiting(name *c_, size_t *producers_, size_t *consumers_) {                 \
    fqi_chan_state state_ = fqi_chan_look(FQI_CHAN(c_));                                           \
    if (producers_ != NULL) {                                                                      \
      *producers_ = state_.producers;                                                              \
    }                                                                                              \
    if (consumers_ != NULL) {                                                                      \
      *consumers_ = state_.consumers;                                                              \
    }                                                                                              \
  }                                                                                                \
  FQI_FACE void name##_notify(name *c_, void (*fn_)(void *ctx_), void *ctx_) {                     \
    fqi_chan_notify(FQI_CHAN(c_), fn_, ctx_);                                                      \
  }                                                                                                \
  FQI_FACE bool name##_next(name *c_, fq_iter *it_, T *out_) {                                     \
    return fqi_chan_next(FQI_CHAN(c_), it_, out_);                                                 \
  }                                                                                                \
  FQI_CHECK_ITEM(T)

/* -------------------------------------------------------------------------------------------- */
/* @@pool: interface                                                                            */
/* -------------------------------------------------------------------------------------------- */

/* FQ_POOL(name, T): worker threads that run a function on every task.
 *
 * With batch 1 tasks start strictly in the order they were pushed. A pause, a lower concurrency or
 * a cancel does not reach tasks that a worker has already taken with its batch.
 *
 * worker and done run on the workers, done(FQ_CANCELED) and the state callbacks on the thread whose
 * call brought it about. State callbacks of different threads may overlap, but on_empty has
 * returned before the task that emptied the backlog starts, and on_drain before name_wait does.
 * With one of them set, each push and each task takes a little longer. In a callback of the pool
 * name_wait, name_wait_running and name_destroy say FQ_DEADLOCK, and so does a push that would have
 * to wait for room.
 *
 * Threads: any. The workers have all asynchronous signals blocked. After fork the child has no
 * workers: it may only exec or _exit. Allocates: at name_init, when an unbounded queue grows, and
 * where it says so. */

typedef enum fq_how {
  FQ_DRAIN = 0, /* run what is queued, then end */
  FQ_CANCEL = 1 /* drop what is queued: done gets FQ_CANCELED; let the running tasks end */
} fq_how;

typedef struct fqi_worker fqi_worker;

typedef struct fq_pool {
  fq_chan queue;
  fqi_tally tally; /* under queue.pop.lock */
  fq_config config;
  fqi_worker *workers;
  size_t threads; /* that were started */
  fqi_block block;
  size_t helpers; /* guests that take up a place */
  size_t walker;  /* the thread that runs pred or fn, under both locks, or 0: atomic */
  bool hooks;     /* any state callback is set */
  bool broken;    /* a thread or its thread_start failed */
  bool ending;    /* in name_destroy: a pause has no effect */
} fq_pool;

FQI_API fq_status fqi_pool_init(fq_pool *p, const fq_config *config, size_t size, size_t align,
                                int (*worker)(void *task, void *ctx));
FQI_API fq_status fqi_pool_destroy(fq_pool *p, fq_how how);
FQI_API fq_status fqi_pool_push(fq_pool *p, const void *task, bool front, int64_t timeout);
FQI_API size_t fqi_pool_push_n(fq_pool *p, const void *tasks, size_t n, int64_t timeout,
                               fq_status *why);
FQI_API fq_status fqi_pool_wait(fq_pool *p, size_t waiting, int64_t timeout);
FQI_API bool fqi_pool_help(fq_pool *p);
FQI_API void fqi_pool_pause(fq_pool *p, bool paused);
FQI_API fq_status fqi_pool_set_concurrency(fq_pool *p, size_t concurrency);
FQI_API size_t fqi_pool_cancel_if(fq_pool *p, bool (*pred)(const void *task, void *arg), void *arg);
FQI_API void fqi_pool_each(fq_pool *p, bool (*fn)(const void *task, void *arg), void *arg);
FQI_API void fqi_pool_close(fq_pool *p);
FQI_API fqi_view fqi_pool_view(fq_pool *p);

/* name_init: start the workers; on return they wait for tasks.
 *   config    is copied, name too; what ctx and the allocator's ctx point to must outlive the pool
 *   Returns   FQ_OK; FQ_NOMEM; FQ_SYSTEM when a lock or any of the threads cannot be had, or a
 *             thread_start fails; FQ_INVALID for NULL, no worker, concurrency above threads, or
 *             sizes that overflow. On failure nothing is left.
 *   Allocates room for limit tasks, and for batch tasks for each worker. The allocator may be
 *             called by several threads at once, and under the pool's locks. */

/* name_push: queue one task, waiting for room if need be.
 *   Returns   FQ_OK; FQ_CLOSED; FQ_FULL with FQ_NOWAIT; FQ_TIMEOUT; FQ_NOMEM; FQ_SYSTEM;
 *             FQ_INVALID; FQ_DEADLOCK in a callback of this pool that would have to wait for room
 * name_push_front: the same before all that waits.
 * name_push_n: queue n tasks in order; as name_push_n of FQ_CHAN, and why may be FQ_DEADLOCK. It
 * wakes as many workers as there are tasks and places for, and no more. */

/* name_wait: until nothing is queued and nothing runs, if only for a moment.
 * name_wait_running: until nothing runs, whatever is queued: after name_pause, a checkpoint.
 *   Returns   FQ_OK; FQ_TIMEOUT; FQ_DEADLOCK in a callback of this pool; FQ_SYSTEM; FQ_INVALID
 *   Threads   any number may wait */

/* name_help: run the next task here, worker and done, if one may start. Inside a task it runs in
 * the place of that task, so a task can wait for others without holding up the pool. On a thread
 * that is no worker, the worker function gets the config's ctx. Helping in a task that was helped
 * nests on the caller's stack.
 *   Returns   true when it ran one; false when none waits, or none may start, or no memory for it
 *   Allocates room for the task, if it has more than 256 bytes */

/* name_destroy: accept no more tasks, run or drop the queued ones, join every thread, free all.
 * A paused pool goes on for that. Threads that wait to push leave with FQ_CLOSED, those in
 * name_wait when all is done, and it waits for those that help or cancel; no thread may come in any
 * more. After it returned nothing of the pool runs. Again is fine.
 *   Returns   FQ_OK; FQ_DEADLOCK in a callback of this pool: nothing is touched; FQ_INVALID
 *   Blocks    until the running tasks end; with FQ_DRAIN the queued ones too */

#define FQI_POOL(q) ((fq_pool *)(void *)(q))

#define FQ_POOL(name, T) FQI_POOL_FACE(name, T, NULL)

#define FQI_POOL_FACE(name, T, worker_)                                                            \
  typedef struct name {                                                                            \
    fq_pool pool;                                                                                  \
  } name;                                                                                          \
  FQI_FACE fq_status name##_init(name *p_, const fq_config *config_) {                             \
    return fqi_pool_init(FQI_POOL(p_), config_, sizeof(T), FQI_ALIGNOF(T), worker_);               \
  }                                                                                                \
  FQI_FACE fq_status name##_destroy(name *p_, fq_how how_) {                                       \
    return fqi_pool_destroy(FQI_POOL(p_), how_);                                                   \
  }                                                                                                \
  FQI_FACE fq_status name##_push(name *p_, T task_, int64_t timeout_) {                            \
    return fqi_pool_push(FQI_POOL(p_), &task_, false, timeout_);                                   \
  }                                                                                                \
  FQI_FACE fq_status name##_push_front(name *p_, T task_, int64_t timeout_) {                      \
    return fqi_pool_push(FQI_POOL(p_), &task_, true, timeout_);                                    \
  }                                                                                                \
  FQI_FACE size_t name##_push_n(name *p_, T const *tasks_, size_t n_, int64_t timeout_,            \
                                fq_status *why_) {                                                 \
    return fqi_pool_push_n(FQI_POOL(p_), tasks_, n_, timeout_, why_);                              \
  }                                                                                                \
  FQI_FACE fq_status name##_wait(name *p_, int64_t timeout_) {                                     \
    return fqi_pool_wait(FQI_POOL(p_), 0, timeout_);                                               \
  }                                                                                                \
  FQI_FACE fq_status name##_wait_running(name *p_, int64_t timeout_) {                             \
    return fqi_pool_wait(FQI_POOL(p_), SIZE_MAX, timeout_);                                        \
  }                                                                                                \
  FQI_FACE bool name##_help(name *p_) { return fqi_pool_help(FQI_POOL(p_)); }                      \
  FQI_TASKS_FACE(name, T, fqi_pool, FQI_POOL)

/* -------------------------------------------------------------------------------------------- */
/* @@group: interface                                                                           */
/* -------------------------------------------------------------------------------------------- */

/* fq_group: waits for some of the tasks: add before the push, done at the end of the task, wait. It
 * can be used again, also while threads still return from a wait.
 *
 * Threads: any. Allocates: never. */
typedef struct fq_group {
  fqi_lock lock;
  fqi_waiters waiters;
  size_t count;
  bool open;
} fq_group;

/* fq_group_init: an empty group.
 *   Returns   FQ_OK; FQ_SYSTEM; FQ_INVALID for NULL */
FQI_API fq_status fq_group_init(fq_group *g);

/* fq_group_add: n more are to be waited for.
 * fq_group_done: one of them has ended; a call too many does nothing. What a thread wrote before it
 * is visible to whoever waited. */
FQI_API void fq_group_add(fq_group *g, size_t n);
FQI_API void fq_group_done(fq_group *g);

/* fq_group_wait: until as many are done as were added, if only for a moment; at once if so. A
 * worker that waits for tasks of its own pool needs a free worker for them: name_help runs them
 * instead.
 *   Returns   FQ_OK; FQ_TIMEOUT; FQ_SYSTEM; FQ_INVALID */
FQI_API fq_status fq_group_wait(fq_group *g, int64_t timeout);

/* fq_group_destroy: whoever waited may do it, though the last fq_group_done has not returned yet.
 * No thread may wait any more. Again is fine. */
FQI_API void fq_group_destroy(fq_group *g);

/* fq_jobs: a pool for "run this function": its tasks are functions with an argument. All of FQ_POOL
 * is there, fq_jobs_init, fq_jobs_wait, ... Without a worker in the fq_config it calls fn(arg). */
typedef struct fq_job {
  void (*fn)(void *arg);
  void *arg;
} fq_job;

FQI_API int fqi_job_run(void *job, void *ctx);

FQI_POOL_FACE(fq_jobs, fq_job, fqi_job_run);

/* fq_jobs_run: queue fn(arg), waiting while the pool is full.
 *   Returns   as fq_jobs_push; FQ_INVALID when fn is NULL */
FQI_API fq_status fq_jobs_run(fq_jobs *p, void (*fn)(void *arg), void *arg);

#endif /* FASTQ_NO_THREADS */

#ifdef __cplusplus
}
#endif
#endif /* FASTQ_WORKQUEUE_H_INCLUDED */

/* ============================================================================================ */
/* Implementation                                                                               */
/* ============================================================================================ */

#if defined(FASTQ_IMPLEMENTATION) && !defined(FASTQ_IMPLEMENTATION_INCLUDED)
#define FASTQ_IMPLEMENTATION_INCLUDED

#ifdef FASTQ_MALLOC
#define FQI_MALLOC(n) FASTQ_MALLOC(n)
#define FQI_FREE(p)   FASTQ_FREE(p)
#else
#include <stdlib.h>
#define FQI_MALLOC(n) malloc(n)
#define FQI_FREE(p)   free(p)
#endif

#if !defined(FASTQ_NO_THREADS) && !defined(FQI_PLATFORM_HEADER)
#ifdef _WIN32
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#include <limits.h>
#include <process.h>
#else
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#elif defined(__FreeBSD__) || defined(__OpenBSD__)
#include <pthread_np.h>
#endif
#if !defined(CLOCK_MONOTONIC) || (defined(__GLIBC__) && !defined(__USE_XOPEN2K))
#error "fastq.h: include it before any system header, or define _POSIX_C_SOURCE=200809L"
#endif
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* -------------------------------------------------------------------------------------------- */
/* @@platform: implementation                                                                   */
/* -------------------------------------------------------------------------------------------- */

#if !defined(FASTQ_NO_THREADS) && !defined(FQI_PLATFORM_HEADER)

/* What both systems below offer:
 *   fqi_lock_init, fqi_cond_init, fqi_thread_start   0 or the system's error number
 *   fqi_cond_wait   until signalled or the deadline has passed; it may end early for no reason, so
 *                   the caller looks at its condition and at fqi_now() again
 *   fqi_now         monotonic nanoseconds; a deadline is a fqi_now(), INT64_MAX is never
 *   fqi_thread_start  the thread has every asynchronous signal blocked from its first instruction
 *   fqi_thread_name   names the calling thread
 *   fqi_self        a number of the calling thread that no other living thread has, not 0 */
#ifdef _WIN32

FQI_ASSERT(sizeof(SRWLOCK) <= sizeof(fqi_lock), "fastq.h: fqi_lock is too small");
FQI_ASSERT(sizeof(CONDITION_VARIABLE) <= sizeof(fqi_cond), "fastq.h: fqi_cond is too small");

static int fqi_lock_init(fqi_lock *l) {
  InitializeSRWLock((SRWLOCK *)l);
  return 0;
}

static void fqi_lock_destroy(fqi_lock *l) { (void)l; }

static bool fqi_lock_try(fqi_lock *l) { return TryAcquireSRWLockExclusive((SRWLOCK *)l) != 0; }

static void fqi_lock_wait(fqi_lock *l) { AcquireSRWLockExclusive((SRWLOCK *)l); }

static void fqi_lock_release(fqi_lock *l) { ReleaseSRWLockExclusive((SRWLOCK *)l); }

static int64_t fqi_now(void) {
  LARGE_INTEGER ticks, per_second;
  QueryPerformanceCounter(&ticks);
  QueryPerformanceFrequency(&per_second);
  return ticks.QuadPart / per_second.QuadPart * 1000000000 +
         ticks.QuadPart % per_second.QuadPart * 1000000000 / per_second.QuadPart;
}

static int fqi_cond_init(fqi_cond *c) {
  InitializeConditionVariable((CONDITION_VARIABLE *)c);
  return 0;
}

static void fqi_cond_destroy(fqi_cond *c) { (void)c; }

static void fqi_cond_wait(fqi_cond *c, fqi_lock *l, int64_t deadline) {
  DWORD milliseconds = INFINITE;
  if (deadline != INT64_MAX) {
    int64_t left = deadline - fqi_now();
    int64_t rounded = left <= 0 ? 0 : (left - 1) / 1000000 + 1;
    milliseconds = rounded < 86400000 ? (DWORD)rounded : 86400000;
  }
  SleepConditionVariableSRW((CONDITION_VARIABLE *)c, (SRWLOCK *)l, milliseconds, 0);
}

static void fqi_cond_signal(fqi_cond *c) { WakeConditionVariable((CONDITION_VARIABLE *)c); }

static unsigned __stdcall fqi_thread_main(void *arg) {
  fqi_thread *t = (fqi_thread *)arg;
  t->fn(t->arg);
  return 0;
}

static int fqi_thread_start(fqi_thread *t, void (*fn)(void *arg), void *arg, size_t stack_size) {
  t->fn = fn;
  t->arg = arg;
  if (stack_size > UINT_MAX) {
    return ERROR_NOT_ENOUGH_MEMORY;
  }
  t->id.handle = (void *)_beginthreadex(NULL, (unsigned)stack_size, fqi_thread_main, t,
                                        STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
  return t->id.handle != NULL ? 0 : ERROR_NOT_ENOUGH_MEMORY;
}

static void fqi_thread_join(fqi_thread *t) {
  WaitForSingleObject((HANDLE)t->id.handle, INFINITE);
  CloseHandle((HANDLE)t->id.handle);
}

static size_t fqi_self(void) { return GetCurrentThreadId(); }

/* SetThreadDescription, which older systems do not have. */
static void fqi_thread_name(const char *name) {
  typedef HRESULT(WINAPI * describe_fn)(HANDLE thread, PCWSTR name);
  WCHAR wide[64];
  HMODULE module = GetModuleHandleA("kernel32.dll");
  describe_fn describe = NULL;
  if (module != NULL) {
    describe = (describe_fn)(void (*)(void))GetProcAddress(module, "SetThreadDescription");
  }
  int n = (int)strnlen(name, 63);
  if (describe != NULL) {
    wide[MultiByteToWideChar(CP_UTF8, 0, name, n, wide, 63)] = 0;
    (void)describe(GetCurrentThread(), wide);
  }
}

static size_t fqi_cpu_count(void) {
  SYSTEM_INFO info;
  GetSystemInfo(&info);
  return info.dwNumberOfProcessors;
}

#else /* POSIX */

FQI_ASSERT(sizeof(pthread_mutex_t) <= sizeof(fqi_lock), "fastq.h: fqi_lock is too small");
FQI_ASSERT(sizeof(pthread_cond_t) <= sizeof(fqi_cond), "fastq.h: fqi_cond is too small");
FQI_ASSERT(sizeof(pthread_t) <= 16, "fastq.h: fqi_thread is too small");

static int fqi_lock_init(fqi_lock *l) { return pthread_mutex_init((pthread_mutex_t *)l, NULL); }

static void fqi_lock_destroy(fqi_lock *l) { (void)pthread_mutex_destroy((pthread_mutex_t *)l); }

static bool fqi_lock_try(fqi_lock *l) { return pthread_mutex_trylock((pthread_mutex_t *)l) == 0; }

static void fqi_lock_wait(fqi_lock *l) { (void)pthread_mutex_lock((pthread_mutex_t *)l); }

static void fqi_lock_release(fqi_lock *l) { (void)pthread_mutex_unlock((pthread_mutex_t *)l); }

static int64_t fqi_now(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* macOS cannot tie a condition to the monotonic clock, but it can wait for a span of time. */
static int fqi_cond_init(fqi_cond *c) {
#ifdef __APPLE__
  return pthread_cond_init((pthread_cond_t *)c, NULL);
#else
  pthread_condattr_t attr;
  int error = pthread_condattr_init(&attr);
  if (error != 0) {
    return error;
  }
  error = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  if (error == 0) {
    error = pthread_cond_init((pthread_cond_t *)c, &attr);
  }
  (void)pthread_condattr_destroy(&attr);
  return error;
#endif
}

static void fqi_cond_destroy(fqi_cond *c) { (void)pthread_cond_destroy((pthread_cond_t *)c); }

static struct timespec fqi_timespec(int64_t ns) {
  struct timespec t;
  int64_t seconds = ns / 1000000000;
  t.tv_sec = sizeof(t.tv_sec) > 4 || seconds < INT32_MAX ? (time_t)seconds : (time_t)INT32_MAX;
  t.tv_nsec = (long)(ns % 1000000000);
  return t;
}

/* A thread that waits here is linked in a list of its object: it must not be cancelled out of
 * it. */
static int fqi_cancel_disable(void) {
  int state = 0;
#ifndef __ANDROID__
  (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
#endif
  return state;
}

static void fqi_cancel_restore(int state) {
#ifndef __ANDROID__
  (void)pthread_setcancelstate(state, &state);
#else
  (void)state;
#endif
}

static void fqi_cond_wait(fqi_cond *c, fqi_lock *l, int64_t deadline) {
  pthread_cond_t *cond = (pthread_cond_t *)c;
  pthread_mutex_t *mutex = (pthread_mutex_t *)l;
  int cancel = fqi_cancel_disable();
  if (deadline == INT64_MAX) {
    (void)pthread_cond_wait(cond, mutex);
  } else {
#ifdef __APPLE__
    int64_t left = deadline - fqi_now();
    struct timespec span = fqi_timespec(left > 0 ? left : 0);
    (void)pthread_cond_timedwait_relative_np(cond, mutex, &span);
#else
    struct timespec until = fqi_timespec(deadline);
    (void)pthread_cond_timedwait(cond, mutex, &until);
#endif
  }
  fqi_cancel_restore(cancel);
}

static void fqi_cond_signal(fqi_cond *c) { (void)pthread_cond_signal((pthread_cond_t *)c); }

static void *fqi_thread_main(void *arg) {
  fqi_thread *t = (fqi_thread *)arg;
  t->fn(t->arg);
  return NULL;
}

/* As large as the system demands, in whole pages. */
static size_t fqi_stack_size(size_t size) {
  long page = sysconf(_SC_PAGESIZE), least = 16384;
#ifdef _SC_THREAD_STACK_MIN
  least = sysconf(_SC_THREAD_STACK_MIN);
#endif
  size_t step = page > 0 ? (size_t)page : 4096;
  size = least > 0 && size < (size_t)least ? (size_t)least : size;
  return size < FQI_SIZE_LIMIT ? (size + step - 1) / step * step : size;
}

static int fqi_thread_start(fqi_thread *t, void (*fn)(void *arg), void *arg, size_t stack_size) {
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
  sigset_t all, before;
  pthread_attr_t attr;
  int error = pthread_attr_init(&attr);
  if (error != 0) {
    return error;
  }
  if (stack_size > 0) {
    error = pthread_attr_setstacksize(&attr, fqi_stack_size(stack_size));
  }
  if (error == 0) {
    (void)sigfillset(&all);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
      (void)sigdelset(&all, faults[i]);
    }
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    t->fn = fn;
    t->arg = arg;
    error = pthread_create((pthread_t *)(void *)&t->id, &attr, fqi_thread_main, t);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  (void)pthread_attr_destroy(&attr);
  return error;
}

static void fqi_thread_join(fqi_thread *t) {
  int cancel = fqi_cancel_disable();
  (void)pthread_join(*(pthread_t *)(void *)&t->id, NULL);
  fqi_cancel_restore(cancel);
}

/* pthread_t need not be a number, but each thread has its errno. */
static size_t fqi_self(void) { return (size_t)(uintptr_t)&errno; }

/* The calling thread's name, cut to what the system takes. */
static void fqi_thread_name(const char *name) {
#if defined(__linux__)
  (void)prctl(PR_SET_NAME, name, 0, 0, 0);
#elif defined(__APPLE__)
  char cut[64];
  strncpy(cut, name, sizeof(cut) - 1);
  cut[sizeof(cut) - 1] = 0;
  (void)pthread_setname_np(cut);
#elif defined(__FreeBSD__) || defined(__OpenBSD__)
  pthread_set_name_np(pthread_self(), name);
#else
  (void)name;
#endif
}

static size_t fqi_cpu_count(void) {
#ifdef _SC_NPROCESSORS_ONLN
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? (size_t)n : 1;
#else
  return 1;
#endif
}

#endif /* POSIX */

/* A few microseconds off the cache lines of others, who run on at full speed meanwhile. What is to
 * be had after that is worth fetching them: shorter pauses measured slower in every way. */
static void fqi_pause(void) {
  int64_t until = fqi_now() + 1500;
  while (fqi_now() < until) {
    FASTQ_PAUSE();
  }
}

/* Whoever meets a held lock tries again after a pause, and sleeps only if that goes on. */
static void fqi_lock_acquire(fqi_lock *l) {
  for (int tries = 0; tries < FQI_PATIENCE; tries++) {
    if (fqi_lock_try(l)) {
      return;
    }
    fqi_pause();
  }
  fqi_lock_wait(l);
}

#endif /* threads */

/* -------------------------------------------------------------------------------------------- */
/* @@status: implementation                                                                     */
/* -------------------------------------------------------------------------------------------- */

FQI_API const char *fq_status_name(fq_status status) {
  static const char *const names[] = {"FQ_OK",      "FQ_FULL",    "FQ_EMPTY",    "FQ_BUSY",
                                      "FQ_TIMEOUT", "FQ_CLOSED",  "FQ_CANCELED", "FQ_PENDING",
                                      "FQ_NOMEM",   "FQ_INVALID", "FQ_DEADLOCK", "FQ_SYSTEM"};
  size_t i = (size_t)0 - (size_t)status;
  return i < sizeof(names) / sizeof(names[0]) ? names[i] : "FQ_UNKNOWN";
}

FQI_API const char *fq_version(void) { return FASTQ_VERSION; }

static void *fqi_alloc(const fq_allocator *a, size_t size) {
  return a->alloc_fn != NULL ? a->alloc_fn(size, a->ctx) : FQI_MALLOC(size);
}

static void fqi_free(const fq_allocator *a, void *p, size_t size) {
  if (a->free_fn != NULL) {
    a->free_fn(p, size, a->ctx);
  } else {
    FQI_FREE(p);
  }
}

/* Allocates size bytes at an alignment, which allocators give for ordinary types only. */
static void *fqi_alloc_aligned(const fq_allocator *a, size_t size, size_t align, fqi_block *block) {
  size_t slack = align > 2 * sizeof(void *) ? align - 1 : 0;
  block->size = size + slack;
  block->memory = slack <= FQI_SIZE_LIMIT - size ? fqi_alloc(a, block->size) : NULL;
  if (block->memory == NULL || slack == 0) {
    return block->memory;
  }
  size_t past = (size_t)((uintptr_t)block->memory & slack);
  return (unsigned char *)block->memory + (past != 0 ? align - past : 0);
}

/* Copies the allocator, NULL for the default: false when only half of it is there. */
static bool fqi_allocator_copy(fq_allocator *to, const fq_allocator *from) {
  if (from == NULL) {
    memset(to, 0, sizeof(*to));
    return true;
  }
  *to = *from;
  return (from->alloc_fn == NULL) == (from->free_fn == NULL);
}

/* -------------------------------------------------------------------------------------------- */
/* @@ring: implementation                                                                       */
/* -------------------------------------------------------------------------------------------- */

FQI_API void fqi_ring_free(const fq_ring *r, const fqi_block *block) {
  fqi_free(&r->allocator, block->memory, block->size);
}

/* Moves the items to a new storage. The old one goes to *old if the caller wants to free it. */
static fq_status fqi_ring_resize(fq_ring *r, size_t capacity, fqi_block *old) {
  fqi_block block;
  unsigned char *data = (unsigned char *)fqi_alloc_aligned(&r->allocator, capacity * r->item_size,
                                                           r->item_align, &block);
  if (data == NULL) {
    return FQ_NOMEM;
  }
  if (r->count > 0) {
    fqi_copy_out(r->data, r->capacity, r->head, data, r->count, r->item_size);
  }
  if (old != NULL) {
    *old = r->block;
  } else if (r->block.memory != NULL) {
    fqi_ring_free(r, &r->block);
  }
  r->block = block;
  r->data = data;
  r->capacity = capacity;
  r->head = 0;
  return FQ_OK;
}

/* Makes room for n more items, at least doubling. */
FQI_API fq_status fqi_ring_grow(fq_ring *r, size_t n, fqi_block *old) {
  if (r->fixed) {
    return FQ_FULL;
  }
  if (r->item_size == 0) {
    return FQ_INVALID;
  }
  size_t most = FQI_SIZE_LIMIT / r->item_size;
  if (n > most - r->count) {
    return FQ_NOMEM;
  }
  size_t doubled = r->capacity < 8 ? 8 : r->capacity * 2;
  size_t needed = r->count + n;
  return fqi_ring_resize(r, fqi_min(doubled > needed ? doubled : needed, most), old);
}

FQI_API fq_status fqi_ring_init(fq_ring *r, size_t capacity, size_t size, size_t align,
                                const fq_allocator *allocator) {
  if (r == NULL) {
    return FQ_INVALID;
  }
  memset(r, 0, sizeof(*r));
  if (!fqi_size_ok(capacity, size) || !fqi_allocator_copy(&r->allocator, allocator)) {
    return FQ_INVALID;
  }
  r->item_size = size;
  r->item_align = align;
  if (capacity > 0 && fqi_ring_resize(r, capacity, NULL) != FQ_OK) {
    memset(r, 0, sizeof(*r));
    return FQ_NOMEM;
  }
  r->head = capacity > 0 ? (size_t)FASTQ_INDEX_ORIGIN % capacity : 0;
  return FQ_OK;
}

FQI_API fq_status fqi_ring_init_fixed(fq_ring *r, void *storage, size_t capacity, size_t size,
                                      size_t align) {
  if (r == NULL) {
    return FQ_INVALID;
  }
  memset(r, 0, sizeof(*r));
  if (storage == NULL || capacity == 0 || !fqi_size_ok(capacity, size) ||
      ((uintptr_t)storage & (align - 1)) != 0) {
    return FQ_INVALID;
  }
  r->data = (unsigned char *)storage;
  r->capacity = capacity;
  r->head = (size_t)FASTQ_INDEX_ORIGIN % capacity;
  r->item_size = size;
  r->item_align = align;
  r->fixed = true;
  return FQ_OK;
}

FQI_API void fqi_ring_destroy(fq_ring *r) {
  if (r == NULL) {
    return;
  }
  if (r->block.memory != NULL) {
    fqi_ring_free(r, &r->block);
  }
  memset(r, 0, sizeof(*r));
}

FQI_API fq_status fqi_ring_reserve(fq_ring *r, size_t capacity) {
  if (r == NULL || r->item_size == 0 || !fqi_size_ok(capacity, r->item_size)) {
    return FQ_INVALID;
  }
  if (capacity <= r->capacity) {
    return FQ_OK;
  }
  return r->fixed ? FQ_FULL : fqi_ring_resize(r, capacity, NULL);
}

/* -------------------------------------------------------------------------------------------- */
/* @@spsc: implementation                                                                       */
/* -------------------------------------------------------------------------------------------- */

static void fqi_spsc_start(fq_spsc *q, void *data, size_t capacity) {
  q->data = (unsigned char *)data;
  q->capacity = capacity;
  q->in.count = q->in.seen = q->out.count = q->out.seen = (size_t)FASTQ_INDEX_ORIGIN;
  q->in.at = q->out.at = (size_t)FASTQ_INDEX_ORIGIN % capacity;
}

FQI_API fq_status fqi_spsc_init(fq_spsc *q, size_t capacity, size_t size, size_t align,
                                const fq_allocator *allocator) {
  if (q == NULL) {
    return FQ_INVALID;
  }
  memset(q, 0, sizeof(*q));
  if (capacity == 0 || !fqi_size_ok(capacity, size) ||
      !fqi_allocator_copy(&q->allocator, allocator)) {
    return FQ_INVALID;
  }
  align = align > FASTQ_CACHE_LINE ? align : FASTQ_CACHE_LINE;
  size_t bytes = fqi_round_up(capacity * size, FASTQ_CACHE_LINE);
  void *data = fqi_alloc_aligned(&q->allocator, bytes, align, &q->block);
  if (data == NULL) {
    memset(q, 0, sizeof(*q));
    return FQ_NOMEM;
  }
  fqi_spsc_start(q, data, capacity);
  return FQ_OK;
}

FQI_API fq_status fqi_spsc_init_fixed(fq_spsc *q, void *storage, size_t capacity, size_t size,
                                      size_t align) {
  if (q == NULL) {
    return FQ_INVALID;
  }
  memset(q, 0, sizeof(*q));
  if (storage == NULL || capacity == 0 || !fqi_size_ok(capacity, size) ||
      ((uintptr_t)storage & (align - 1)) != 0) {
    return FQ_INVALID;
  }
  fqi_spsc_start(q, storage, capacity);
  return FQ_OK;
}

FQI_API void fqi_spsc_destroy(fq_spsc *q) {
  if (q != NULL) {
    if (q->block.memory != NULL) {
      fqi_free(&q->allocator, q->block.memory, q->block.size);
    }
    memset(q, 0, sizeof(*q));
  }
}

/* -------------------------------------------------------------------------------------------- */
/* @@mpmc: implementation                                                                       */
/* -------------------------------------------------------------------------------------------- */

/* Each side has one position, next, up to which its places are claimed. Who has claimed a run of
 * places and is done with them says so by one mark at the run's first place, which holds the run's
 * end [L1]. Whoever comes to that place from the other side [L2] knows by it that all places up to
 * the end are ready, and claims some of them by moving its own next. That succeeds only if nobody
 * has claimed them meanwhile, and only the owner of a place changes its mark: what the marks said
 * is still true then.
 *
 * A place inside a run has no mark. Whoever claims a part of a run first stores its end in seen, so
 * that those who come to the rest know that it is ready: [L3], [L4]. A seen that is behind next
 * says nothing. It is never moved back: it is stored by a compare-and-swap, after a look that next
 * has not moved; a seen from later on would have been stored by one who had found a later next.
 * Who finds the next that was moved so finds the seen too: [L5], [L6].
 *
 * A mark is good for a side if it is of the other side and its run begins at this very position:
 * it ends at most a capacity after it. An old mark ends at or before the position, as long as it is
 * not as old as all the positions there are: see fqi_mpmc_renews. */

/* Rounds up to a power of two; 0 when there is none. */
static size_t fqi_mpmc_round(size_t capacity) {
  size_t rounded = 1;
  while (rounded < capacity && rounded <= FQI_POSITIONS / 16) {
    rounded *= 2;
  }
  return capacity > 0 && rounded >= capacity && rounded <= FQI_POSITIONS / 16 ? rounded : 0;
}

FQI_API size_t fqi_mpmc_bytes(size_t capacity, size_t size, size_t align) {
  if (size > FQI_SIZE_LIMIT / 4 || align > FQI_SIZE_LIMIT / 4) {
    return 0;
  }
  fqi_shape s = fqi_mpmc_shape(size, align);
  size_t line = align > FASTQ_CACHE_LINE ? align : FASTQ_CACHE_LINE;
  size_t groups = (fqi_mpmc_round(capacity) + s.group - 1) / s.group;
  return groups <= (FQI_SIZE_LIMIT - 2 * line) / s.stride && groups > 0
             ? line - 1 + fqi_round_up(groups * s.stride, FASTQ_CACHE_LINE)
             : 0;
}

FQI_API fq_status fqi_mpmc_init_fixed(fq_mpmc *q, void *memory, size_t capacity, size_t size,
                                      size_t align) {
  if (q == NULL) {
    return FQ_INVALID;
  }
  memset(q, 0, sizeof(*q));
  if (memory == NULL || fqi_mpmc_bytes(capacity, size, align) == 0) {
    return FQ_INVALID;
  }
  size_t line = align > FASTQ_CACHE_LINE ? align : FASTQ_CACHE_LINE;
  size_t past = (size_t)((uintptr_t)memory & (line - 1));
  size_t origin = (size_t)FASTQ_INDEX_ORIGIN & FQI_POSITIONS;
  q->groups = (unsigned char *)memory + (past != 0 ? line - past : 0);
  q->capacity = fqi_mpmc_round(capacity);
  fqi_shape s = fqi_mpmc_shape_of(q, fqi_mpmc_shape(size, align));
  for (size_t i = 0; i < q->capacity; i++) {
    *fqi_mpmc_mark(s, i) = 0;
  }
  q->in.next = q->out.next = q->out.seen = origin;
  q->in.seen = fqi_step(origin, q->capacity);
  return FQ_OK;
}

FQI_API fq_status fqi_mpmc_init(fq_mpmc *q, size_t capacity, size_t size, size_t align,
                                const fq_allocator *allocator) {
  fq_allocator from;
  fqi_block block = {NULL, fqi_mpmc_bytes(capacity, size, align)};
  bool valid = fqi_allocator_copy(&from, allocator) && block.size > 0;
  if (valid && q != NULL) {
    block.memory = fqi_alloc(&from, block.size);
  }
  fq_status status = fqi_mpmc_init_fixed(q, block.memory, capacity, size, align);
  if (status == FQ_OK) {
    q->allocator = from;
    q->block = block;
  }
  return status == FQ_OK || !valid || q == NULL ? status : FQ_NOMEM;
}

FQI_API void fqi_mpmc_destroy(fq_mpmc *q) {
  if (q != NULL) {
    if (q->block.memory != NULL) {
      fqi_free(&q->allocator, q->block.memory, q->block.size);
    }
    memset(q, 0, sizeof(*q));
  }
}

/* Shows the others of a side that places up to end are ready, while next is its position; false
 * when it is not any more. */
FQI_API bool fqi_mpmc_show(fq_mpmc *q, fqi_lane *lane, size_t next, size_t end) {
  for (;;) {
    size_t seen = fqi_load(&lane->seen);
    if (fqi_load(&lane->next) != next) {
      return false;
    }
    size_t shown = fqi_gap(next, seen);
    if (shown <= q->capacity && shown >= fqi_gap(next, end)) {
      return true;
    }
    if (fqi_cas(&lane->seen, seen, end)) { /* [L3], pairs with [L4] */
      return true;
    }
  }
}

/* Why fewer than least places were ready from at on: nobody has even claimed them on the other
 * side, or somebody had not finished them when they were looked at, and by now they are claimed. */
FQI_API fq_status fqi_mpmc_why(const fq_mpmc *q, const fqi_lane *lane, size_t at, size_t least) {
  bool in = lane == &q->in;
  size_t end = in ? fqi_step(fqi_load(&q->out.next), q->capacity) : fqi_load(&q->in.next);
  if (fqi_gap(at, end) >= least) {
    return FQ_BUSY;
  }
  return in ? FQ_FULL : FQ_EMPTY;
}

/* -------------------------------------------------------------------------------------------- */
/* @@tasks: implementation                                                                      */
/* -------------------------------------------------------------------------------------------- */

static size_t fqi_tally_places(const fqi_tally *t) {
  return t->paused || t->busy >= t->concurrency ? 0 : t->concurrency - t->busy;
}

/* n tasks start, and take up a place. */
static void fqi_tally_start(fqi_tally *t, size_t n) {
  t->busy++;
  t->running += n;
}

/* The n tasks of one place have ended, failed of them with an error. */
static void fqi_tally_end(fqi_tally *t, size_t n, size_t failed) {
  t->busy -= n > 0;
  t->running -= n;
  t->completed += n;
  t->failed += failed;
}

/* Whether on_saturated, on_empty, on_drain is due, with so many tasks waiting; each of these says
 * so once. A task that only waits for a place that is free is no backlog. */
static bool fqi_tally_saturates(fqi_tally *t, size_t waiting) {
  size_t places = fqi_tally_places(t);
  if (waiting > places && waiting - places > t->peak) {
    t->peak = waiting - places;
  }
  bool due = !t->backlog && waiting > places;
  t->backlog = t->backlog || due;
  return due;
}

static bool fqi_tally_empties(fqi_tally *t, size_t waiting) {
  bool due = t->backlog && waiting == 0;
  t->backlog = t->backlog && !due;
  return due;
}

static bool fqi_tally_idle(const fqi_tally *t, size_t waiting) {
  return waiting == 0 && t->running == 0 && t->held == 0;
}

static bool fqi_tally_drains(fqi_tally *t, size_t waiting) {
  uint64_t ended = t->completed + t->canceled;
  bool due = fqi_tally_idle(t, waiting) && ended != t->drained;
  t->drained = due ? ended : t->drained;
  return due;
}

/* NULL: of what is no object. */
static fqi_view fqi_tally_view(const fqi_tally *t, size_t waiting) {
  fqi_view view = {{0, 0, 0, 0, 0}, waiting, 0, true};
  if (t != NULL) {
    fq_stats stats = {t->completed + t->canceled + t->running + waiting, t->completed, t->failed,
                      t->canceled, t->peak};
    view.stats = stats;
    view.running = t->running;
    view.idle = fqi_tally_idle(t, waiting);
  }
  return view;
}

/* Moves the tasks that pred matches to dropped, as far as there is memory for them, in order. */
static void fqi_tasks_drop(fq_ring *tasks, fq_ring *dropped,
                           bool (*pred)(const void *task, void *arg), void *arg) {
  size_t size = tasks->item_size, n = tasks->count, kept = 0;
  (void)fqi_ring_init(dropped, 0, size, tasks->item_align, &tasks->allocator);
  for (size_t i = 0; i < n; i++) {
    void *task = fqi_ring_place(tasks, i, size);
    if ((pred == NULL || pred(task, arg)) && fqi_ring_push(dropped, task, size, false) == FQ_OK) {
      continue;
    }
    if (kept != i) {
      memcpy(fqi_ring_place(tasks, kept, size), task, size);
    }
    kept++;
  }
  tasks->count = kept;
}

/* Makes dropped all of the tasks, with their storage. */
static void fqi_tasks_steal(fq_ring *tasks, fq_ring *dropped) {
  *dropped = *tasks;
  tasks->data = NULL;
  tasks->capacity = tasks->head = tasks->count = 0;
  tasks->block.memory = NULL;
}

static void fqi_tasks_each(const fq_ring *tasks, bool (*fn)(const void *task, void *arg),
                           void *arg) {
  for (size_t i = 0; i < tasks->count; i++) {
    if (!fn(fqi_ring_place(tasks, i, tasks->item_size), arg)) {
      return;
    }
  }
}

static void fqi_tasks_done(const fq_config *config, void *task, int error) {
  if (config->done != NULL) {
    config->done(task, error, config->ctx);
  }
}

/* -------------------------------------------------------------------------------------------- */
/* @@dispatch: implementation                                                                   */
/* -------------------------------------------------------------------------------------------- */

/* A running task lies in a slot, which stays where it is. Slots come in chunks, each at least as
 * large as all before it together. An id is the number of the slot, from 1 on, in the low bits, and
 * above it how often the slot has been used. */

#define FQI_SLOTS_MAX ((size_t)0xffffff)

enum { FQI_UNUSED_SLOT, FQI_IN_WORKER, FQI_PENDING, FQI_COMPLETED };

struct fqi_slot { /* followed by the task */
  fqi_slot *next;
  fq_id id;
  int error; /* once completed */
  unsigned state;
};

struct fqi_chunk { /* followed by the slots */
  fqi_chunk *next;
  size_t count;
  unsigned char *slots;
  fqi_block block;
};

static bool fqi_dispatch_ok(const fq_dispatch *d) { return d != NULL && d->ring.item_size != 0; }

static void *fqi_dispatch_place(const fq_dispatch *d, fqi_slot *slot) {
  return (unsigned char *)slot + d->task_offset;
}

/* The running task of that id. */
static fqi_slot *fqi_dispatch_find(const fq_dispatch *d, fq_id id) {
  size_t i = (size_t)(id & FQI_SLOTS_MAX) - 1;
  if (!fqi_dispatch_ok(d) || i >= d->slots) {
    return NULL;
  }
  const fqi_chunk *chunk = d->chunks;
  while (i >= chunk->count) {
    i -= chunk->count;
    chunk = chunk->next;
  }
  fqi_slot *slot = (fqi_slot *)(void *)(chunk->slots + i * d->slot_size);
  bool runs = slot->state == FQI_IN_WORKER || slot->state == FQI_PENDING;
  return runs && slot->id == id ? slot : NULL;
}

FQI_API fq_id fqi_dispatch_id(fq_dispatch *d, const void *task) {
  if (!fqi_dispatch_ok(d)) {
    return 0;
  }
  for (const fqi_chunk *chunk = d->chunks; chunk != NULL; chunk = chunk->next) {
    uintptr_t first = (uintptr_t)chunk->slots + d->task_offset, at = (uintptr_t)task;
    if (at >= first && (at - first) / d->slot_size < chunk->count &&
        (at - first) % d->slot_size == 0) {
      const fqi_slot *slot = (const fqi_slot *)(const void *)(at - d->task_offset);
      return slot->state != FQI_UNUSED_SLOT ? slot->id : 0;
    }
  }
  return 0;
}

FQI_API void *fqi_dispatch_task(fq_dispatch *d, fq_id id) {
  fqi_slot *slot = fqi_dispatch_find(d, id);
  return slot != NULL ? fqi_dispatch_place(d, slot) : NULL;
}

/* Makes slots for so many running tasks in all. */
static fq_status fqi_dispatch_reserve(fq_dispatch *d, size_t concurrency) {
  if (concurrency <= d->slots) {
    return FQ_OK;
  }
  size_t doubled = fqi_min(d->slots * 2, FQI_SLOTS_MAX);
  size_t n = (doubled > concurrency ? doubled : concurrency) - d->slots;
  size_t align = d->ring.item_align > sizeof(fq_id) ? d->ring.item_align : sizeof(fq_id);
  size_t header = fqi_round_up(sizeof(fqi_chunk), align);
  if (concurrency > FQI_SLOTS_MAX || n > (FQI_SIZE_LIMIT - header) / d->slot_size) {
    return FQ_INVALID;
  }
  fqi_block block;
  fqi_chunk *chunk =
      (fqi_chunk *)fqi_alloc_aligned(&d->ring.allocator, header + n * d->slot_size, align, &block);
  if (chunk == NULL) {
    return FQ_NOMEM;
  }
  chunk->next = NULL;
  chunk->count = n;
  chunk->slots = (unsigned char *)chunk + header;
  chunk->block = block;
  for (size_t i = n; i-- > 0;) {
    fqi_slot *slot = (fqi_slot *)(void *)(chunk->slots + i * d->slot_size);
    slot->id = (fq_id)(d->slots + i + 1);
    slot->state = FQI_UNUSED_SLOT;
    slot->next = d->unused;
    d->unused = slot;
  }
  fqi_chunk **end = &d->chunks;
  while (*end != NULL) {
    end = &(*end)->next;
  }
  *end = chunk;
  d->slots += n;
  return FQ_OK;
}

static void fqi_dispatch_free(fq_dispatch *d) {
  for (fqi_chunk *chunk = d->chunks, *next; chunk != NULL; chunk = next) {
    next = chunk->next;
    fqi_block block = chunk->block;
    fqi_free(&d->ring.allocator, block.memory, block.size);
  }
  fqi_ring_destroy(&d->ring);
  memset(d, 0, sizeof(*d));
}

FQI_API fq_status fqi_dispatch_init(fq_dispatch *d, const fq_config *config, size_t size,
                                    size_t align) {
  if (d == NULL) {
    return FQ_INVALID;
  }
  memset(d, 0, sizeof(*d));
  if (config == NULL || config->worker == NULL || config->concurrency == 0 ||
      size > FQI_SIZE_LIMIT / 2 || !fqi_size_ok(config->limit, size)) {
    return FQ_INVALID;
  }
  fq_status status = fqi_ring_init(&d->ring, 0, size, align, config->allocator);
  if (status != FQ_OK) {
    return status;
  }
  d->config = *config;
  d->tally.concurrency = config->concurrency;
  d->completed_end = &d->completed;
  d->task_offset = fqi_round_up(sizeof(fqi_slot), align);
  d->slot_size = fqi_round_up(d->task_offset + size, align > sizeof(fq_id) ? align : sizeof(fq_id));
  status = fqi_dispatch_reserve(d, config->concurrency);
  if (status == FQ_OK) {
    status = fqi_ring_reserve(&d->ring, config->limit);
    d->ring.head = config->limit > 0 ? (size_t)FASTQ_INDEX_ORIGIN % config->limit : 0;
  }
  if (status != FQ_OK) {
    fqi_dispatch_free(d);
  }
  return status;
}

/* Calls one of the state callbacks. */
static void fqi_dispatch_call(fq_dispatch *d, bool due, void (*fn)(void *ctx)) {
  if (due && fn != NULL) {
    d->depth++;
    fn(d->config.ctx);
    d->depth--;
  }
}

/* Ends a task: done, and its slot is free. */
static void fqi_dispatch_finish(fq_dispatch *d, fqi_slot *slot, int error) {
  slot->state = FQI_COMPLETED;
  fqi_tasks_done(&d->config, fqi_dispatch_place(d, slot), error);
  slot->state = FQI_UNUSED_SLOT;
  slot->id += (fq_id)FQI_SLOTS_MAX + 1;
  slot->next = d->unused;
  d->unused = slot;
  fqi_tally_end(&d->tally, 1, error != 0);
}

/* Starts the task at the head. */
static void fqi_dispatch_start(fq_dispatch *d) {
  fqi_slot *slot = d->unused;
  d->unused = slot->next;
  slot->state = FQI_IN_WORKER;
  (void)fqi_ring_pop(&d->ring, fqi_dispatch_place(d, slot), d->ring.item_size);
  fqi_tally_start(&d->tally, 1);
  fqi_dispatch_call(d, fqi_tally_empties(&d->tally, d->ring.count), d->config.on_empty);
  int error = d->config.worker(fqi_dispatch_place(d, slot), d->config.ctx);
  if (slot->state == FQI_COMPLETED) {
    error = slot->error;
  } else if (error == FQ_PENDING) {
    slot->state = FQI_PENDING;
    return;
  }
  fqi_dispatch_finish(d, slot, error);
}

/* The loop that everything ends in: done for what has completed, then starts, while it is paused at
 * most budget of them, then on_drain. Whatever the callbacks add, it goes on with. */
static size_t fqi_dispatch_pump(fq_dispatch *d, size_t budget) {
  size_t started = 0;
  if (d->depth > 0) {
    return 0; /* in a callback: the outermost call does it */
  }
  d->depth = 1;
  for (;;) {
    fqi_tally *t = &d->tally;
    if (d->completed != NULL) {
      fqi_slot *slot = d->completed;
      d->completed = slot->next;
      if (d->completed == NULL) {
        d->completed_end = &d->completed;
      }
      fqi_dispatch_finish(d, slot, slot->error);
    } else if (d->ring.count > 0 && t->busy < t->concurrency && (!t->paused || started < budget)) {
      started++;
      fqi_dispatch_start(d);
    } else if (fqi_tally_saturates(t, d->ring.count)) {
      fqi_dispatch_call(d, true, d->config.on_saturated);
    } else if (fqi_tally_drains(t, d->ring.count)) {
      fqi_dispatch_call(d, true, d->config.on_drain);
    } else {
      break;
    }
  }
  d->depth = 0;
  return started;
}

/* What a push must not begin with. */
static fq_status fqi_dispatch_refuses(const fq_dispatch *d, const void *tasks, size_t n) {
  if (!fqi_dispatch_ok(d) || (tasks == NULL && n > 0) || !fqi_size_ok(n, d->ring.item_size)) {
    return FQ_INVALID;
  }
  return d->walking ? FQ_DEADLOCK : FQ_OK;
}

/* Queues as many of the n tasks as the limit and the memory allow. */
static size_t fqi_dispatch_queue(fq_dispatch *d, const void *tasks, size_t n, bool front,
                                 fq_status *status) {
  size_t limit = d->config.limit, size = d->ring.item_size;
  size_t room = limit == 0 ? n : limit - fqi_min(limit, d->ring.count);
  size_t fits = fqi_min(room, n);
  size_t queued = 0;
  if (d->closed) {
    *status = FQ_CLOSED;
  } else if (room == 0) {
    *status = FQ_FULL;
  } else {
    queued = fqi_ring_push_n(&d->ring, tasks, fits, size, front);
    *status = queued < fits ? FQ_NOMEM : FQ_OK;
  }
  if (queued > 0) {
    fqi_dispatch_call(d, fqi_tally_saturates(&d->tally, d->ring.count), d->config.on_saturated);
    (void)fqi_dispatch_pump(d, 0);
  }
  return queued;
}

FQI_API fq_status fqi_dispatch_push(fq_dispatch *d, const void *task, bool front) {
  fq_status status = fqi_dispatch_refuses(d, task, 1);
  if (status == FQ_OK) {
    (void)fqi_dispatch_queue(d, task, 1, front, &status);
  }
  return status;
}

FQI_API size_t fqi_dispatch_push_n(fq_dispatch *d, const void *tasks, size_t n, fq_status *why) {
  size_t queued = 0;
  fq_status status = fqi_dispatch_refuses(d, tasks, n);
  while (queued < n && status == FQ_OK) { /* again: those that started made room */
    queued += fqi_dispatch_queue(d, (const unsigned char *)tasks + queued * d->ring.item_size,
                                 n - queued, false, &status);
  }
  if (why != NULL) {
    *why = status;
  }
  return queued;
}

FQI_API fq_status fqi_dispatch_complete(fq_dispatch *d, fq_id id, int error) {
  fqi_slot *slot = fqi_dispatch_find(d, id);
  if (slot == NULL || d->walking) {
    return slot == NULL ? FQ_INVALID : FQ_DEADLOCK;
  }
  slot->error = error;
  if (slot->state == FQI_PENDING) { /* otherwise its worker is about to return */
    slot->next = NULL;
    *d->completed_end = slot;
    d->completed_end = &slot->next;
  }
  slot->state = FQI_COMPLETED;
  (void)fqi_dispatch_pump(d, 0);
  return FQ_OK;
}

FQI_API size_t fqi_dispatch_run(fq_dispatch *d, size_t budget) {
  return fqi_dispatch_ok(d) ? fqi_dispatch_pump(d, budget) : 0;
}

FQI_API void fqi_dispatch_pause(fq_dispatch *d, bool paused) {
  if (fqi_dispatch_ok(d) && !d->walking) {
    d->tally.paused = paused;
    (void)fqi_dispatch_pump(d, 0);
  }
}

FQI_API fq_status fqi_dispatch_set_concurrency(fq_dispatch *d, size_t concurrency) {
  fq_status status = fqi_dispatch_refuses(d, NULL, 0);
  if (status == FQ_OK) {
    status = concurrency > 0 ? fqi_dispatch_reserve(d, concurrency) : FQ_INVALID;
  }
  if (status == FQ_OK) {
    d->tally.concurrency = concurrency;
    (void)fqi_dispatch_pump(d, 0);
  }
  return status;
}

/* Calls done for tasks that are out of the queue. */
static size_t fqi_dispatch_dismiss(fq_dispatch *d, fq_ring *dropped) {
  size_t n = dropped->count;
  d->depth++;
  d->tally.canceled += n;
  fqi_dispatch_call(d, fqi_tally_empties(&d->tally, d->ring.count), d->config.on_empty);
  for (size_t i = 0; i < n; i++) {
    fqi_tasks_done(&d->config, fqi_ring_place(dropped, i, dropped->item_size), FQ_CANCELED);
  }
  fqi_ring_destroy(dropped);
  d->depth--;
  (void)fqi_dispatch_pump(d, 0);
  return n;
}

FQI_API size_t fqi_dispatch_cancel_if(fq_dispatch *d, bool (*pred)(const void *task, void *arg),
                                      void *arg) {
  if (fqi_dispatch_refuses(d, NULL, 0) != FQ_OK) {
    return 0;
  }
  fq_ring dropped;
  d->walking = true;
  d->depth++;
  fqi_tasks_drop(&d->ring, &dropped, pred, arg);
  d->depth--;
  d->walking = false;
  return fqi_dispatch_dismiss(d, &dropped);
}

FQI_API void fqi_dispatch_each(fq_dispatch *d, bool (*fn)(const void *task, void *arg), void *arg) {
  if (fqi_dispatch_refuses(d, NULL, 0) == FQ_OK && fn != NULL) {
    d->walking = true;
    d->depth++;
    fqi_tasks_each(&d->ring, fn, arg);
    d->depth--;
    d->walking = false;
    (void)fqi_dispatch_pump(d, 0);
  }
}

FQI_API void fqi_dispatch_close(fq_dispatch *d) {
  if (fqi_dispatch_refuses(d, NULL, 0) == FQ_OK) {
    d->closed = true;
  }
}

FQI_API fqi_view fqi_dispatch_view(const fq_dispatch *d) {
  return fqi_dispatch_ok(d) ? fqi_tally_view(&d->tally, d->ring.count) : fqi_tally_view(NULL, 0);
}

FQI_API fq_status fqi_dispatch_destroy(fq_dispatch *d) {
  if (!fqi_dispatch_ok(d)) {
    return d != NULL ? FQ_OK : FQ_INVALID;
  }
  if (d->depth > 0 || d->tally.running > 0) {
    return FQ_DEADLOCK;
  }
  fq_ring dropped;
  d->closed = true;
  fqi_tasks_steal(&d->ring, &dropped);
  (void)fqi_dispatch_dismiss(d, &dropped);
  fqi_dispatch_free(d);
  return FQ_OK;
}

#ifndef FASTQ_NO_THREADS

/* -------------------------------------------------------------------------------------------- */
/* @@chan: implementation                                                                       */
/* -------------------------------------------------------------------------------------------- */

/* Two locks, one for each side. As long as nobody waits, a push needs only push.lock and a pop only
 * pop.lock: the sides meet in the two counts, each of which is written by its own side with release
 * and read by the other with acquire, and read seldom, because each side remembers what it saw:
 *   [C1] a push publishes its items in push.count     [C2] a pop that seems short reads push.count
 *   [C3] a pop gives its places back in pop.count     [C4] a push that seems short reads pop.count
 * Everything else, first of all waiting, is done with both locks held, push.lock first. What is
 * written only then can be read under either lock, so whoever comes after a waiter has linked
 * itself sees it, and whoever came before it has been seen: no wake is lost.
 *
 * With both locks held the channel is a plain state machine over its ring. A call that cannot
 * finish links a waiter, which lies on its own stack, and parks. Whoever changes the state serves
 * the waiters that this lets finish: it moves their items, unlinks them, releases the locks, and
 * only then wakes them. So:
 *   - while a writer waits, the channel is full; while a reader waits, fewer items are there than
 *     it wants (wanted is the least of these numbers);
 *   - a waiter that was served is done: it returns without another look at the channel;
 *   - one wake per served waiter, none for anyone else.
 * A waiter whose time is up races with who serves it. Its state decides, by one compare-and-swap:
 * either it is served and waits for the wake that is on its way, or it is leaving, stays linked
 * until it holds the locks, and gets no wake.
 *
 * A call that lets go of its lock before it is done, and is no waiter, counts itself as inside. So
 * fqi_chan_destroy knows whom to wait for, and a call that is done never touches the channel. */

#define FQI_SPIN_NS 100000 /* who has less time left does not spend it on pauses */
#define FQI_PORTION 32     /* items a look should find room for, to be worth another one */

enum { FQI_WAITING, FQI_SERVED, FQI_LEAVING };

struct fqi_waiter {
  fqi_waiter *next, *prev;
  const unsigned char *from; /* a writer's next item */
  unsigned char *to;         /* a reader's next place */
  size_t min, max, count;    /* done from min on; at most max; moved so far. An idler: go when
                                at most min tasks run and max wait */
  fq_status status;
  int error;     /* with FQ_CLOSED: the channel's */
  bool front;    /* a writer's item goes before the head */
  bool inside;   /* counted in the side's inside */
  bool emptied;  /* a worker: it got the last of a backlog */
  bool finished; /* nothing more is moved for it */
  size_t state;
  fqi_lock lock; /* guards woken */
  fqi_cond cond;
  bool woken;
};

struct fqi_guest {
  size_t thread;
  bool runs; /* a task, in a place of its own or of one around it */
  fqi_guest *next;
};

static void fqi_waiter_init(fqi_waiter *w, const void *from, void *to, size_t min, size_t max) {
  w->from = (const unsigned char *)from;
  w->to = (unsigned char *)to;
  w->min = min;
  w->max = max;
  w->count = 0;
  w->status = FQ_OK;
  w->error = 0;
  w->front = false;
  w->inside = true;
  w->emptied = false;
  w->finished = false;
}

static void fqi_waiters_append(fqi_waiters *list, fqi_waiter *w) {
  w->next = NULL;
  w->prev = list->tail;
  if (list->tail != NULL) {
    list->tail->next = w;
  } else {
    list->head = w;
  }
  list->tail = w;
  list->count++;
}

static void fqi_waiters_remove(fqi_waiters *list, fqi_waiter *w) {
  if (w->prev != NULL) {
    w->prev->next = w->next;
  } else {
    list->head = w->next;
  }
  if (w->next != NULL) {
    w->next->prev = w->prev;
  } else {
    list->tail = w->prev;
  }
  list->count--;
}

/* What a thread needs to sleep; false when the system has no lock or condition for it. */
static bool fqi_monitor_init(fqi_lock *lock, fqi_cond *cond) {
  if (fqi_lock_init(lock) != 0) {
    return false;
  }
  if (fqi_cond_init(cond) != 0) {
    fqi_lock_destroy(lock);
    return false;
  }
  return true;
}

static void fqi_monitor_destroy(fqi_lock *lock, fqi_cond *cond) {
  fqi_cond_destroy(cond);
  fqi_lock_destroy(lock);
}

/* Makes w, which is open, a member of list; fqi_chan_sleep comes next, without the lock. */
static void fqi_waiter_link(fqi_waiter *w, fqi_waiters *list) {
  w->state = FQI_WAITING;
  w->woken = false;
  fqi_waiters_append(list, w);
}

/* Ends the wait of w, a member of list: it moves over to wakes, unless it is leaving by itself. */
static void fqi_waiter_serve(fqi_waiter *w, fqi_waiters *list, fq_status status,
                             fqi_waiters *wakes) {
  w->status = status;
  w->finished = true;
  if (fqi_cas(&w->state, FQI_WAITING, FQI_SERVED)) {
    fqi_waiters_remove(list, w);
    fqi_waiters_append(wakes, w);
  }
}

/* Sleeps until woken (true) or until the deadline. */
static bool fqi_waiter_park(fqi_waiter *w, int64_t deadline) {
  fqi_lock_acquire(&w->lock);
  while (!w->woken && (deadline == INT64_MAX || fqi_now() < deadline)) {
    fqi_cond_wait(&w->cond, &w->lock, deadline);
  }
  bool woken = w->woken;
  fqi_lock_release(&w->lock);
  return woken;
}

/* Wakes all from w on; no lock is held. The signal is sent under the waiter's own lock, because the
 * waiter returns, and its stack goes, as soon as it can have that lock. */
static void fqi_waiters_wake(fqi_waiter *w) {
  while (w != NULL) {
    fqi_waiter *next = w->next;
    fqi_lock_acquire(&w->lock);
    w->woken = true;
    fqi_cond_signal(&w->cond);
    fqi_lock_release(&w->lock);
    w = next;
  }
}

/* The end of a timeout that begins now: INT64_MAX is never, 0 is not to wait at all. */
static int64_t fqi_deadline(int64_t timeout) {
  if (timeout <= 0) {
    return timeout < 0 ? INT64_MAX : 0;
  }
  int64_t now = fqi_now();
  return timeout < INT64_MAX - now ? now + timeout : INT64_MAX;
}

static bool fqi_chan_ok(const fq_chan *c) { return c != NULL && c->ring.item_size != 0; }

/* Moves items of a writer in, as many as fit. */
static void fqi_chan_admit(fq_chan *c, fqi_waiter *w) {
  size_t size = c->ring.item_size;
  size_t room = c->limit > c->ring.count ? c->limit - c->ring.count : 0;
  size_t n = fqi_min(room, w->max - w->count);
  size_t moved = fqi_ring_push_n(&c->ring, w->from, n, size, w->front);
  w->from += moved * size;
  w->count += moved;
  if (moved < n) {
    w->status = FQ_NOMEM;
  }
}

/* Moves items out to a reader, as many as are there. */
static void fqi_chan_hand(fq_chan *c, fqi_waiter *w) {
  size_t size = c->ring.item_size;
  size_t n = fqi_ring_pop_n(&c->ring, w->to, w->max - w->count, size);
  w->to += n * size;
  w->count += n;
  c->pop.count += n;
}

/* The same for a worker of a pool, who takes up a place with what it gets: a fair share, if there
 * are workers and places for more than one. */
static void fqi_chan_hand_worker(fq_chan *c, fqi_waiter *w) {
  size_t sharers = fqi_min(fqi_tally_places(c->tally), c->readers.count);
  w->max = fqi_min(w->max, (c->ring.count - 1) / sharers + 1);
  fqi_chan_hand(c, w);
  fqi_tally_start(c->tally, w->count);
}

static void fqi_chan_find_wanted(fq_chan *c) {
  c->wanted = SIZE_MAX;
  for (fqi_waiter *w = c->readers.head; w != NULL && c->wanted > 1; w = w->next) {
    if (!w->finished) {
      c->wanted = fqi_min(c->wanted, w->min);
    }
  }
}

/* Serves the waiting readers that have enough now; the last of them, or NULL. */
static fqi_waiter *fqi_chan_serve_readers(fq_chan *c) {
  fqi_waiter *last = NULL;
  for (fqi_waiter *w = c->readers.head, *next; w != NULL && c->ring.count > 0; w = next) {
    next = w->next;
    if (c->tally != NULL && fqi_tally_places(c->tally) == 0) {
      break;
    }
    if (!w->finished && w->min <= c->ring.count) {
      if (c->tally != NULL) {
        fqi_chan_hand_worker(c, w);
      } else {
        fqi_chan_hand(c, w);
      }
      fqi_waiter_serve(w, &c->readers, FQ_OK, &c->wakes);
      last = w;
    }
  }
  fqi_chan_find_wanted(c);
  return last;
}

/* Lets waiting writers go on into the room there is; true when anything moved. */
static bool fqi_chan_serve_writers(fq_chan *c) {
  bool moved = false;
  fqi_waiter *w = c->writers.head;
  while (w != NULL && c->ring.count < c->limit) {
    fqi_waiter *next = w->next;
    if (!w->finished) {
      fqi_chan_admit(c, w);
      moved = true;
      if (w->count == w->max || w->status != FQ_OK) {
        fqi_waiter_serve(w, &c->writers, w->status, &c->wakes);
      }
    }
    w = next;
  }
  return moved;
}

/* Gives a reader what is there, and what waiting writers add to it meanwhile. */
static void fqi_chan_take(fq_chan *c, fqi_waiter *w) {
  do {
    fqi_chan_hand(c, w);
  } while (fqi_chan_serve_writers(c) && w->count < w->max);
}

/* Takes a writer's items, and passes them on to waiting readers, as far as they fit. */
static void fqi_chan_put(fq_chan *c, fqi_waiter *w) {
  do {
    fqi_chan_admit(c, w);
    if (c->ring.count >= c->wanted) {
      (void)fqi_chan_serve_readers(c);
    }
  } while (w->count < w->max && w->status == FQ_OK && c->ring.count < c->limit);
}

/* Takes both locks and gives the ring its items: from here on the plain state machine. */
static void fqi_chan_enter(fq_chan *c) {
  fqi_lock_acquire(&c->push.lock);
  fqi_lock_acquire(&c->pop.lock);
  c->ring.head = c->pop.at;
  c->ring.count = c->push.count - c->pop.count;
}

/* Hands the ring's items back to the two sides. */
static void fqi_chan_settle(fq_chan *c) {
  c->pop.at = c->ring.head;
  c->push.at = c->ring.capacity > 0 ? fqi_ring_index(&c->ring, c->ring.count) : 0;
  c->push.count = c->pop.count + c->ring.count;
  c->push.seen = c->pop.count;
  c->pop.seen = c->push.count;
  c->fits = c->closed ? 0 : fqi_min(c->limit, c->ring.capacity);
  c->slow = c->readers.count + c->writers.count + (c->tally != NULL && c->tally->watched);
}

/* A thread that is going to run callbacks of a pool, and has run them. */
static void fqi_guest_arrive(fq_chan *c, fqi_guest *guest, bool runs) {
  guest->thread = fqi_self();
  guest->runs = runs;
  guest->next = c->guests;
  c->guests = guest;
  fqi_store(&c->visited, c->visited + 1); /* [P2] */
}

static void fqi_guest_depart(fq_chan *c) {
  fqi_guest **at = &c->guests;
  while ((*at)->thread != fqi_self()) {
    at = &(*at)->next;
  }
  *at = (*at)->next;
  fqi_store(&c->visited, c->visited - 1);
  if (c->push.awaited) {
    fqi_cond_signal(&c->push.left);
  }
}

/* Ends what fqi_chan_enter began; then, without a lock, it wakes and notifies; a pool's notify ends
 * the visit that begins here. */
static void fqi_chan_leave(fq_chan *c, bool notify) {
  fqi_guest guest;
  void (*fn)(void *ctx) = notify ? c->notify : NULL;
  if (fn != NULL && c->tally != NULL) {
    fqi_guest_arrive(c, &guest, false);
  }
  void *ctx = c->notify_ctx;
  fqi_waiter *served = c->wakes.head;
  c->wakes.head = c->wakes.tail = NULL;
  fqi_chan_settle(c);
  fqi_lock_release(&c->pop.lock);
  fqi_lock_release(&c->push.lock);
  fqi_waiters_wake(served);
  if (fn != NULL) {
    fn(ctx);
  }
}

/* Sleeps as a member of list until served (true) or until the time is up: then both locks are held
 * again, w is unlinked, and the caller ends the call. */
static bool fqi_chan_sleep(fq_chan *c, fqi_waiters *list, fqi_waiter *w, int64_t deadline) {
  if (fqi_waiter_park(w, deadline)) {
    return true;
  }
  if (!fqi_cas(&w->state, FQI_WAITING, FQI_LEAVING)) {
    return fqi_waiter_park(w, INT64_MAX);
  }
  fqi_chan_enter(c);
  fqi_waiters_remove(list, w);
  w->status = w->finished ? w->status : FQ_TIMEOUT;
  if (c->push.awaited) {
    fqi_cond_signal(&c->push.left);
  }
  return false;
}

/* With push.lock held: as many of the n items as fit, if nobody waits and no storage must grow. */
static size_t fqi_chan_push_fast(fq_chan *c, const void *items, size_t n, bool *notify) {
  fqi_side *push = &c->push;
  size_t count = push->count;
  if (c->slow != 0) {
    return 0;
  }
  if (n > c->fits || count - push->seen > c->fits - n) {
    push->seen = fqi_load(&c->pop.count); /* [C4], pairs with [C3] */
    size_t used = count - push->seen;
    size_t room = used < c->fits ? c->fits - used : 0;
    if (room == 0 || (room < n && c->limit == SIZE_MAX)) {
      return 0;
    }
    n = fqi_min(n, room);
  }
  /* Whoever was told that the channel is empty held push.lock for that: it is still so. */
  *notify = c->notify != NULL && fqi_load(&c->pop.count) == count;
  if (count + n - push->seen > push->peak) { /* perhaps: what was seen is old */
    push->seen = fqi_load(&c->pop.count);
    size_t used = count + n - push->seen;
    push->peak = used > push->peak ? used : push->peak;
  }
  fqi_copy_in(c->ring.data, c->ring.capacity, push->at, items, n, c->ring.item_size);
  push->at = fqi_advance(push->at, n, c->ring.capacity);
  fqi_store(&push->count, count + n); /* [C1], pairs with [C2] */
  return n;
}

/* With pop.lock held: up to max items, if nobody waits and min of them, at least one, are there. */
static size_t fqi_chan_pop_fast(fq_chan *c, void *out, size_t min, size_t max) {
  fqi_side *pop = &c->pop;
  size_t count = pop->count;
  if (c->slow != 0) {
    return 0;
  }
  if (pop->seen - count < max) {
    pop->seen = fqi_load(&c->push.count); /* [C2], pairs with [C1] */
  }
  size_t n = fqi_min(pop->seen - count, max);
  if (n < min || n == 0 || min > c->limit) {
    return 0;
  }
  fqi_copy_out(c->ring.data, c->ring.capacity, pop->at, out, n, c->ring.item_size);
  pop->at = fqi_advance(pop->at, n, c->ring.capacity);
  fqi_store(&pop->count, count + n); /* [C3], pairs with [C4] */
  return n;
}

/* Whether to look again after a pause before going to sleep, for the tries-th time. */
static bool fqi_side_again(const fq_chan *c, fqi_side *side, size_t tries, int64_t deadline) {
  if (c->slow != 0 || c->closed || deadline == 0) {
    return false;
  }
  if (tries >= side->patience) {
    side->patience -= side->patience / 2;
    return false;
  }
  return deadline == INT64_MAX || deadline - fqi_now() > FQI_SPIN_NS;
}

/* With the side's lock held: a call that is done, or a waiter now, is no longer inside. */
static void fqi_side_leave(fqi_side *side) {
  side->inside--;
  if (side->awaited) {
    fqi_cond_signal(&side->left);
  }
}

/* Pushes without sleeping, if need be with a few more looks: how many items went in. A long call
 * goes on like this as long as there is room for a fair portion each time. A call that is not done
 * then is inside, and has its deadline, which counts from the first look. */
static size_t fqi_chan_try_push(fq_chan *c, const void *items, size_t n, int64_t timeout,
                                int64_t *deadline) {
  const unsigned char *from = (const unsigned char *)items;
  fqi_side *push = &c->push;
  size_t done = 0;
  for (size_t tries = 0, looks = 0;; tries++, looks++) {
    bool notify = false, again = false;
    fqi_lock_acquire(&push->lock);
    size_t moved = fqi_chan_push_fast(c, from + done * c->ring.item_size, n - done, &notify);
    done += moved;
    if (looks > 0 && (done == n || (moved >= FQI_PORTION && timeout < 0))) {
      push->patience = FQI_PATIENCE;
      tries = 0;
    }
    if (done < n) {
      if (looks == 0) {
        push->inside++;
        *deadline = fqi_deadline(timeout);
      }
      again = c->limit != SIZE_MAX && fqi_side_again(c, push, tries, *deadline);
    } else if (looks > 0) {
      fqi_side_leave(push);
    }
    void (*fn)(void *ctx) = notify ? c->notify : NULL;
    void *ctx = c->notify_ctx;
    fqi_lock_release(&push->lock);
    if (fn != NULL) {
      fn(ctx);
    }
    if (!again) {
      return done;
    }
    fqi_pause();
  }
}

/* Pops without sleeping, if need be with a few more looks: how many items came out. A call that got
 * none is inside then, and has its deadline. */
static size_t fqi_chan_try_pop(fq_chan *c, void *out, size_t min, size_t max, int64_t timeout,
                               int64_t *deadline) {
  fqi_side *pop = &c->pop;
  for (size_t looks = 0;; looks++) {
    bool again = false;
    fqi_lock_acquire(&pop->lock);
    size_t n = fqi_chan_pop_fast(c, out, min, max);
    if (n == 0) {
      if (looks == 0) {
        pop->inside++;
        *deadline = fqi_deadline(timeout);
      }
      again = fqi_side_again(c, pop, looks, *deadline);
    } else if (looks > 0) {
      pop->patience = FQI_PATIENCE;
      fqi_side_leave(pop);
    }
    fqi_lock_release(&pop->lock);
    if (!again) {
      return n;
    }
    fqi_pause();
  }
}

/* Whether items came in that somebody is to be told of. */
static bool fqi_chan_filled(const fq_chan *c, bool was_empty) {
  return c->tally != NULL ? fqi_tally_saturates(c->tally, c->ring.count)
                          : was_empty && c->ring.count > 0;
}

/* Runs a writer's call to its end, with both locks. */
static void fqi_chan_write(fq_chan *c, fqi_waiter *w, int64_t deadline) {
  bool waits = false;
  fqi_chan_enter(c);
  bool was_empty = c->ring.count == 0;
  if (w->inside) {
    fqi_side_leave(&c->push);
  }
  if (c->closed) {
    w->status = FQ_CLOSED;
  } else {
    (void)fqi_chan_serve_writers(c);
    fqi_chan_put(c, w);
    if (w->count == w->max || w->status != FQ_OK) {
      /* done */
    } else if (deadline == 0) {
      w->status = FQ_FULL;
    } else if (!fqi_monitor_init(&w->lock, &w->cond)) {
      w->status = FQ_SYSTEM;
    } else {
      fqi_waiter_link(w, &c->writers);
      waits = true;
    }
  }
  fqi_chan_leave(c, fqi_chan_filled(c, was_empty));
  if (!waits) {
    return;
  }
  if (!fqi_chan_sleep(c, &c->writers, w, deadline)) {
    fqi_chan_leave(c, false);
  }
  fqi_monitor_destroy(&w->lock, &w->cond);
}

/* Runs a reader's call to its end, with both locks. */
static void fqi_chan_read(fq_chan *c, fqi_waiter *w, int64_t deadline) {
  bool waits = false;
  fqi_chan_enter(c);
  fqi_side_leave(&c->pop);
  if (w->min > c->limit) {
    w->status = FQ_INVALID;
  } else if (c->ring.count >= w->min || c->closed || deadline == 0) {
    fqi_chan_take(c, w);
    if (c->closed && (w->count < w->min || w->count == 0)) {
      w->status = FQ_CLOSED;
      w->error = c->error;
    } else if (w->count < w->min) {
      w->status = FQ_EMPTY;
    }
  } else if (!fqi_monitor_init(&w->lock, &w->cond)) {
    w->status = FQ_SYSTEM;
  } else {
    fqi_waiter_link(w, &c->readers);
    c->wanted = fqi_min(c->wanted, w->min);
    waits = true;
  }
  fqi_chan_leave(c, false);
  if (!waits) {
    return;
  }
  if (!fqi_chan_sleep(c, &c->readers, w, deadline)) {
    if (!w->finished) {
      fqi_chan_find_wanted(c);
      fqi_chan_take(c, w);
    }
    fqi_chan_leave(c, false);
  }
  fqi_monitor_destroy(&w->lock, &w->cond);
}

static bool fqi_side_init(fqi_side *side) {
  side->count = (size_t)FASTQ_INDEX_ORIGIN;
  side->seen = side->count;
  side->peak = SIZE_MAX;
  side->patience = FQI_PATIENCE;
  return fqi_monitor_init(&side->lock, &side->left);
}

FQI_API fq_status fqi_chan_init(fq_chan *c, size_t limit, size_t size, size_t align,
                                const fq_allocator *allocator) {
  if (c == NULL) {
    return FQ_INVALID;
  }
  memset(c, 0, sizeof(*c));
  fq_status status = fqi_ring_init(&c->ring, limit, size, align, allocator);
  if (status != FQ_OK) {
    return status;
  }
  c->limit = limit != 0 ? limit : SIZE_MAX;
  c->wanted = SIZE_MAX;
  if (fqi_side_init(&c->push)) {
    if (fqi_side_init(&c->pop)) {
      fqi_chan_settle(c);
      return FQ_OK;
    }
    fqi_monitor_destroy(&c->push.lock, &c->push.left);
  }
  fqi_ring_destroy(&c->ring);
  return FQ_SYSTEM;
}

FQI_API void fqi_chan_destroy(fq_chan *c) {
  if (!fqi_chan_ok(c)) {
    return;
  }
  fqi_chan_fail(c, 0);
  fqi_lock_acquire(&c->pop.lock);
  c->pop.awaited = true;
  while (c->pop.inside > 0) {
    fqi_cond_wait(&c->pop.left, &c->pop.lock, INT64_MAX);
  }
  fqi_lock_release(&c->pop.lock);
  fqi_lock_acquire(&c->push.lock); /* last, as who holds both locks lets go of it last */
  c->push.awaited = true;
  while (c->push.inside + c->readers.count + c->writers.count + c->idlers.count + c->visited > 0) {
    fqi_cond_wait(&c->push.left, &c->push.lock, INT64_MAX);
  }
  fqi_lock_release(&c->push.lock);
  fqi_monitor_destroy(&c->push.lock, &c->push.left);
  fqi_monitor_destroy(&c->pop.lock, &c->pop.left);
  fqi_ring_destroy(&c->ring);
}

FQI_API size_t fqi_chan_push_n(fq_chan *c, const void *items, size_t n, int64_t timeout,
                               fq_status *why) {
  fqi_waiter w;
  size_t done = 0;
  fqi_waiter_init(&w, items, NULL, n, n);
  if (!fqi_chan_ok(c) || (items == NULL && n > 0) || !fqi_size_ok(n, c->ring.item_size)) {
    w.status = FQ_INVALID;
  } else if (n > 0) {
    int64_t deadline = 0;
    done = fqi_chan_try_push(c, items, n, timeout, &deadline);
    if (done < n) {
      w.from += done * c->ring.item_size;
      w.min = w.max = n - done;
      fqi_chan_write(c, &w, deadline);
    }
  }
  if (why != NULL) {
    *why = w.status;
  }
  return done + w.count;
}

FQI_API fq_status fqi_chan_push(fq_chan *c, const void *item, bool front, int64_t timeout) {
  if (!fqi_chan_ok(c)) {
    return FQ_INVALID;
  }
  int64_t deadline = 0;
  if (front) {
    deadline = fqi_deadline(timeout);
  } else if (fqi_chan_try_push(c, item, 1, timeout, &deadline) > 0) {
    return FQ_OK;
  }
  fqi_waiter w;
  fqi_waiter_init(&w, item, NULL, 1, 1);
  w.front = front;
  w.inside = !front;
  fqi_chan_write(c, &w, deadline);
  return w.status;
}

FQI_API size_t fqi_chan_pop_n(fq_chan *c, void *out, size_t min, size_t max, int64_t timeout,
                              fq_status *why) {
  fqi_waiter w;
  fqi_waiter_init(&w, NULL, out, min, max);
  if (!fqi_chan_ok(c) || min > max || (out == NULL && max > 0)) {
    w.status = FQ_INVALID;
  } else if (max > 0) {
    int64_t deadline = 0;
    w.count = fqi_chan_try_pop(c, out, min, max, min > 0 ? timeout : FQ_NOWAIT, &deadline);
    if (w.count == 0) {
      fqi_chan_read(c, &w, deadline);
    }
  }
  if (why != NULL) {
    *why = w.status;
  }
  return w.count;
}

FQI_API fq_status fqi_chan_pop(fq_chan *c, void *out, int64_t timeout, int *error) {
  if (!fqi_chan_ok(c) || out == NULL) {
    return FQ_INVALID;
  }
  int64_t deadline = 0;
  if (fqi_chan_try_pop(c, out, 1, 1, timeout, &deadline) > 0) {
    return FQ_OK;
  }
  fqi_waiter w;
  fqi_waiter_init(&w, NULL, out, 1, 1);
  fqi_chan_read(c, &w, deadline);
  if (error != NULL) {
    *error = w.error;
  }
  return w.status;
}

/* Lets the readers go with what is there. */
static void fqi_chan_release_readers(fq_chan *c) {
  for (fqi_waiter *w = c->readers.head, *next; w != NULL; w = next) {
    next = w->next;
    if (!w->finished) {
      fqi_chan_hand(c, w);
      w->error = c->error;
      fqi_waiter_serve(w, &c->readers, FQ_CLOSED, &c->wakes);
    }
  }
}

/* With both locks held: close, if it is not closed yet, and let everyone go; true: it was not. */
static bool fqi_chan_shut(fq_chan *c, int error) {
  if (c->closed) {
    return false;
  }
  c->closed = true;
  c->error = error;
  c->wanted = SIZE_MAX;
  for (fqi_waiter *w = c->writers.head, *next; w != NULL; w = next) {
    next = w->next;
    if (!w->finished) {
      fqi_waiter_serve(w, &c->writers, FQ_CLOSED, &c->wakes);
    }
  }
  if (c->tally == NULL) { /* a pool lets its workers go itself, when all is done */
    fqi_chan_release_readers(c);
  }
  return true;
}

FQI_API void fqi_chan_fail(fq_chan *c, int error) {
  if (fqi_chan_ok(c)) {
    fqi_chan_enter(c);
    bool first = fqi_chan_shut(c, error);
    fqi_chan_leave(c, first);
  }
}

FQI_API fqi_chan_state fqi_chan_look(const fq_chan *constant) {
  fqi_chan_state state;
  fq_chan *c = (fq_chan *)(uintptr_t)constant; /* the locks are no part of the value */
  if (!fqi_chan_ok(c)) {
    memset(&state, 0, sizeof(state));
    state.closed = true;
    return state;
  }
  fqi_chan_enter(c);
  state.count = c->ring.count;
  state.limit = c->limit != SIZE_MAX ? c->limit : 0;
  state.producers = c->writers.count;
  state.consumers = c->readers.count;
  state.error = c->error;
  state.closed = c->closed;
  fqi_chan_leave(c, false);
  return state;
}

FQI_API fq_status fqi_chan_set_limit(fq_chan *c, size_t limit) {
  if (!fqi_chan_ok(c)) {
    return FQ_INVALID;
  }
  fqi_chan_enter(c);
  bool was_empty = c->ring.count == 0;
  fq_status status = fqi_ring_reserve(&c->ring, limit);
  if (status == FQ_OK) {
    c->limit = limit != 0 ? limit : SIZE_MAX;
    for (fqi_waiter *w = c->readers.head, *next; w != NULL; w = next) {
      next = w->next;
      if (!w->finished && w->min > c->limit) {
        fqi_waiter_serve(w, &c->readers, FQ_INVALID, &c->wakes);
      }
    }
    fqi_chan_find_wanted(c);
    (void)fqi_chan_serve_writers(c);
  }
  fqi_chan_leave(c, was_empty && c->ring.count > 0);
  return status;
}

FQI_API void fqi_chan_notify(fq_chan *c, void (*fn)(void *ctx), void *ctx) {
  if (!fqi_chan_ok(c)) {
    return;
  }
  fqi_chan_enter(c);
  c->notify = fn;
  c->notify_ctx = ctx;
  fqi_chan_leave(c, c->ring.count > 0 || c->closed);
}

FQI_API bool fqi_chan_next(fq_chan *c, fq_iter *it, void *out) {
  if (it == NULL) {
    return false;
  }
  if (it->limit != 0 && it->count >= it->limit) {
    it->status = FQ_OK;
    return false;
  }
  int64_t timeout = it->count == 0 ? it->first_timeout_ns : it->between_timeout_ns;
  it->status = fqi_chan_pop(c, out, timeout > 0 ? timeout : FQ_FOREVER, &it->error);
  it->count += it->status == FQ_OK;
  return it->status == FQ_OK;
}

/* -------------------------------------------------------------------------------------------- */
/* @@pool: implementation                                                                       */
/* -------------------------------------------------------------------------------------------- */

/* The queue is a channel whose readers are the workers, and both its locks are the pool's: a step
 * is what happens between fqi_pool_enter and fqi_pool_leave. At the end of each step no worker
 * sleeps that could start a task, none of a closed pool that has nothing left to do, and no thread
 * that waits for what has come about. The account is under pop.lock, so that as long as nothing is
 * watched (no state callbacks, not paused, concurrency for all) a worker reports its finished tasks
 * and takes the next ones in one step under that lock alone.
 *
 * Other threads that run callbacks (they help, or call done for what they dropped) are guests as
 * long as they do, to know that they are inside. */

struct fqi_worker {
  fqi_thread thread;
  fqi_waiter waiter; /* open as long as the pool lives, so that a worker can always wait */
  fq_pool *pool;
  void *ctx;            /* for the worker function */
  unsigned char *tasks; /* room for a batch */
  size_t self;          /* its fqi_self: atomic */
  size_t held;          /* 1 until it has arrived */
  bool runs;            /* tasks: it has a place */
};

/* FQ_OK; FQ_INVALID; FQ_DEADLOCK when this thread is in pred or fn and holds the locks. */
static fq_status fqi_pool_refuses(fq_pool *p) {
  if (p == NULL || p->workers == NULL) {
    return FQ_INVALID;
  }
  return fqi_load(&p->walker) == fqi_self() ? FQ_DEADLOCK : FQ_OK; /* pairs with [P1] */
}

static fqi_worker *fqi_pool_self(fq_pool *p) {
  for (size_t i = 0; i < p->threads; i++) {
    if (fqi_load(&p->workers[i].self) == fqi_self()) { /* pairs with [P3] */
      return &p->workers[i];
    }
  }
  return NULL;
}

/* In a callback of the pool. */
static bool fqi_pool_inside(fq_pool *p) {
  if (fqi_pool_self(p) != NULL) {
    return true;
  }
  bool found = false;
  if (fqi_load(&p->queue.visited) != 0) { /* pairs with [P2], which is its own if it is a guest */
    fqi_lock_acquire(&p->queue.pop.lock);
    for (const fqi_guest *g = p->queue.guests; g != NULL && !found; g = g->next) {
      found = g->thread == fqi_self();
    }
    fqi_lock_release(&p->queue.pop.lock);
  }
  return found;
}

static void fqi_pool_enter(fq_pool *p) { fqi_chan_enter(&p->queue); }

/* Whether the idler w may go: at most min tasks run and max wait. */
static bool fqi_pool_rests(const fq_pool *p, const fqi_waiter *w) {
  return p->tally.held == 0 && p->queue.guests == NULL && p->tally.running <= w->min &&
         p->queue.ring.count <= w->max;
}

/* Ends a step. The backlog's last task went to a worker that slept, to the taker, or was dropped;
 * whose it is to call on_empty is told so: true when it is the caller. */
static bool fqi_pool_leave(fq_pool *p, fqi_waiter *taker) {
  fq_chan *c = &p->queue;
  fqi_waiter *last = NULL;
  do {
    fqi_waiter *served = fqi_chan_serve_readers(c);
    last = served != NULL ? served : last;
  } while (fqi_chan_serve_writers(c));
  bool emptied = fqi_tally_empties(&p->tally, c->ring.count);
  taker = last != NULL ? last : taker;
  if (emptied && taker != NULL) {
    taker->emptied = true;
  }
  if (c->closed && c->ring.count == 0) {
    fqi_chan_release_readers(c);
  }
  for (fqi_waiter *w = c->idlers.head, *next; w != NULL; w = next) {
    next = w->next;
    if (!w->finished && fqi_pool_rests(p, w)) {
      fqi_waiter_serve(w, &c->idlers, FQ_OK, &c->wakes);
    }
  }
  p->tally.watched =
      p->hooks || p->tally.paused || p->helpers > 0 || p->tally.concurrency < p->threads;
  fqi_chan_leave(c, fqi_tally_saturates(&p->tally, c->ring.count));
  return emptied && taker == NULL;
}

static void fqi_pool_call(const fq_pool *p, bool due, void (*fn)(void *ctx)) {
  if (due && fn != NULL) {
    fn(p->config.ctx);
  }
}

/* In a step of a thread that is inside: calls on_drain if that is due. The pool is not idle before
 * that has returned; and then it may be due again. */
static void fqi_pool_drain(fq_pool *p) {
  while (p->config.on_drain != NULL && fqi_tally_drains(&p->tally, p->queue.ring.count)) {
    p->tally.held++;
    (void)fqi_pool_leave(p, NULL);
    p->config.on_drain(p->config.ctx);
    fqi_pool_enter(p);
    p->tally.held--;
  }
}

/* The whole step of a worker: it reports n finished tasks, then takes the next ones or sleeps until
 * it is handed some; 0: there will be none any more. */
static size_t fqi_pool_await(fqi_worker *worker, size_t n, size_t failed) {
  fq_pool *p = worker->pool;
  fq_chan *c = &p->queue;
  fqi_waiter *w = &worker->waiter;
  bool waits = false;
  fqi_waiter_init(w, NULL, worker->tasks, 1, p->config.batch);
  fqi_pool_enter(p);
  p->tally.held -= worker->held;
  worker->held = 0;
  worker->runs = false;
  fqi_tally_end(&p->tally, n, failed);
  fqi_pool_drain(p);
  if (c->ring.count > 0 && fqi_tally_places(&p->tally) > 0) {
    fqi_chan_take(c, w);
    fqi_tally_start(&p->tally, w->count);
  } else if (c->ring.count > 0 || !c->closed) {
    fqi_waiter_link(w, &c->readers);
    waits = true;
  }
  (void)fqi_pool_leave(p, w);
  if (waits) {
    (void)fqi_chan_sleep(c, &c->readers, w, INT64_MAX);
  }
  worker->runs = w->count > 0;
  fqi_pool_call(p, w->emptied, p->config.on_empty);
  return w->count;
}

/* The same under pop.lock alone, as far as that goes, with a few looks before the worker sleeps. */
static size_t fqi_pool_next(fqi_worker *worker, size_t n, size_t failed) {
  fq_pool *p = worker->pool;
  fq_chan *c = &p->queue;
  for (size_t looks = 0;; looks++) {
    fqi_lock_acquire(&c->pop.lock);
    size_t got = fqi_chan_pop_fast(c, worker->tasks, 1, p->config.batch);
    bool again = got == 0 && c->idlers.count == 0 && fqi_side_again(c, &c->pop, looks, INT64_MAX);
    if (got > 0 || again) { /* otherwise the report belongs to a whole step */
      fqi_tally_end(&p->tally, n, failed);
      n = failed = 0;
    }
    if (got > 0) {
      fqi_tally_start(&p->tally, got);
      c->pop.patience = looks > 0 ? FQI_PATIENCE : c->pop.patience;
    }
    fqi_lock_release(&c->pop.lock);
    if (got > 0) {
      return got;
    }
    if (!again) {
      return fqi_pool_await(worker, n, failed);
    }
    fqi_pause();
  }
}

/* The first step of a worker, once all threads are there: its hook; false if it is not to go on. */
static bool fqi_pool_arrive(fqi_worker *worker) {
  fq_pool *p = worker->pool;
  fqi_lock_acquire(&p->queue.pop.lock); /* held by name_init while it starts the threads */
  bool broken = p->broken;
  fqi_lock_release(&p->queue.pop.lock);
  fqi_store(&worker->self, fqi_self()); /* [P3] */
  if (broken) {
    return false;
  }
  size_t index = (size_t)(worker - p->workers);
  worker->ctx = p->config.ctx;
  if (p->config.name != NULL) {
    fqi_thread_name(p->config.name);
  }
  return p->config.thread_start == NULL ||
         p->config.thread_start(index, p->config.ctx, &worker->ctx) == 0;
}

static void fqi_pool_work(void *arg) {
  fqi_worker *worker = (fqi_worker *)arg;
  fq_pool *p = worker->pool;
  if (!fqi_pool_arrive(worker)) {
    fqi_pool_enter(p);
    p->tally.held--;
    p->broken = true;
    (void)fqi_pool_leave(p, NULL);
    return;
  }
  size_t n = fqi_pool_await(worker, 0, 0);
  while (n > 0) {
    size_t failed = 0;
    for (size_t i = 0; i < n; i++) {
      void *task = worker->tasks + i * p->queue.ring.item_size;
      int error = p->config.worker(task, worker->ctx);
      failed += error != 0;
      fqi_tasks_done(&p->config, task, error);
    }
    n = fqi_pool_next(worker, n, failed);
  }
  if (p->config.thread_stop != NULL) {
    p->config.thread_stop((size_t)(worker - p->workers), worker->ctx);
  }
}

/* Bytes of the workers, and of a batch of tasks on cache lines of its own; 0 when a block of them
 * all would overflow. */
static size_t fqi_pool_head(size_t threads, size_t line) {
  return fqi_round_up(threads * sizeof(fqi_worker), line);
}

static size_t fqi_pool_stride(size_t threads, size_t batch, size_t size, size_t line) {
  if (threads > FQI_SIZE_LIMIT / 4 / sizeof(fqi_worker) || line > FQI_SIZE_LIMIT / 4 ||
      batch > FQI_SIZE_LIMIT / 4 / size) {
    return 0;
  }
  size_t stride = fqi_round_up(batch * size, line);
  return threads <= (FQI_SIZE_LIMIT - fqi_pool_head(threads, line)) / stride ? stride : 0;
}

/* Waits until at most so many tasks run and wait. */
static fq_status fqi_pool_rest(fq_pool *p, size_t running, size_t waiting, int64_t timeout) {
  fq_chan *c = &p->queue;
  int64_t deadline = fqi_deadline(timeout);
  fqi_waiter w;
  fqi_waiter_init(&w, NULL, NULL, running, waiting);
  fqi_pool_enter(p);
  bool waits = !fqi_pool_rests(p, &w) && timeout != 0 && fqi_monitor_init(&w.lock, &w.cond);
  if (waits) {
    fqi_waiter_link(&w, &c->idlers);
  } else if (!fqi_pool_rests(p, &w)) {
    w.status = timeout == 0 ? FQ_TIMEOUT : FQ_SYSTEM;
  }
  (void)fqi_pool_leave(p, NULL);
  if (waits) {
    if (!fqi_chan_sleep(c, &c->idlers, &w, deadline)) {
      fqi_chan_leave(c, false);
    }
    fqi_monitor_destroy(&w.lock, &w.cond);
  }
  return w.status;
}

/* Starts the workers and waits until all of them have arrived; p->threads is how many there are to
 * join. They go nowhere before all are started, because pop.lock is held here. */
static fq_status fqi_pool_start(fq_pool *p, size_t threads, unsigned char *tasks, size_t stride) {
  fqi_pool_enter(p);
  while (p->threads < threads && !p->broken) {
    fqi_worker *worker = &p->workers[p->threads];
    worker->pool = p;
    worker->tasks = tasks + p->threads * stride;
    worker->self = 0;
    worker->held = 1;
    worker->runs = false;
    p->broken = !fqi_monitor_init(&worker->waiter.lock, &worker->waiter.cond);
    if (!p->broken &&
        fqi_thread_start(&worker->thread, fqi_pool_work, worker, p->config.stack_size) != 0) {
      fqi_monitor_destroy(&worker->waiter.lock, &worker->waiter.cond);
      p->broken = true;
    }
    p->threads += !p->broken;
    p->tally.held += !p->broken;
  }
  (void)fqi_pool_leave(p, NULL);
  fq_status status = fqi_pool_rest(p, SIZE_MAX, SIZE_MAX, FQ_FOREVER);
  return status == FQ_OK && p->broken ? FQ_SYSTEM : status;
}

/* The queue's notify: it has a backlog now. */
static void fqi_pool_saturated(void *ctx) {
  fq_pool *p = (fq_pool *)ctx;
  p->config.on_saturated(p->config.ctx);
  fqi_pool_enter(p);
  fqi_guest_depart(&p->queue);
  (void)fqi_pool_leave(p, NULL);
}

FQI_API fq_status fqi_pool_init(fq_pool *p, const fq_config *config, size_t size, size_t align,
                                int (*worker)(void *task, void *ctx)) {
  if (p == NULL) {
    return FQ_INVALID;
  }
  memset(p, 0, sizeof(*p));
  if (config == NULL || (config->worker == NULL && worker == NULL)) {
    return FQ_INVALID;
  }
  size_t threads = config->threads != 0 ? config->threads : fqi_cpu_count();
  size_t batch = config->batch != 0 ? config->batch : 1;
  size_t line = align > FASTQ_CACHE_LINE ? align : FASTQ_CACHE_LINE;
  size_t stride = fqi_pool_stride(threads, batch, size, line);
  if (stride == 0 || (config->threads != 0 && config->concurrency > threads)) {
    return FQ_INVALID;
  }
  fq_status status = fqi_chan_init(&p->queue, config->limit, size, align, config->allocator);
  if (status != FQ_OK) {
    return status;
  }
  size_t head = fqi_pool_head(threads, line);
  void *memory =
      fqi_alloc_aligned(&p->queue.ring.allocator, head + threads * stride, line, &p->block);
  if (memory == NULL) {
    fqi_chan_destroy(&p->queue);
    return FQ_NOMEM;
  }
  p->workers = (fqi_worker *)memory;
  p->config = *config;
  p->config.worker = config->worker != NULL ? config->worker : worker;
  p->config.batch = batch;
  p->tally.concurrency = config->concurrency != 0 ? fqi_min(config->concurrency, threads) : threads;
  p->queue.tally = &p->tally;
  p->hooks = config->on_saturated != NULL || config->on_empty != NULL || config->on_drain != NULL;
  p->queue.push.peak = 0;
  p->queue.notify = config->on_saturated != NULL ? fqi_pool_saturated : NULL;
  p->queue.notify_ctx = p;
  status = fqi_pool_start(p, threads, (unsigned char *)memory + head, stride);
  if (status != FQ_OK) {
    (void)fqi_pool_destroy(p, FQ_CANCEL);
  }
  return status;
}

/* In a step, with the dropped tasks out of the queue: ends it, calls done for each, and has them
 * counted as ended. */
static void fqi_pool_finish(fq_pool *p, fq_ring *dropped) {
  fqi_guest guest;
  p->queue.pop.count += dropped->count;
  p->tally.canceled += dropped->count;
  p->tally.held++;
  fqi_guest_arrive(&p->queue, &guest, false);
  fqi_pool_call(p, fqi_pool_leave(p, NULL), p->config.on_empty);
  for (size_t i = 0; i < dropped->count; i++) {
    fqi_tasks_done(&p->config, fqi_ring_place(dropped, i, dropped->item_size), FQ_CANCELED);
  }
  fqi_ring_destroy(dropped);
  fqi_pool_enter(p);
  p->tally.held--;
  fqi_pool_drain(p);
  fqi_guest_depart(&p->queue);
  (void)fqi_pool_leave(p, NULL);
}

FQI_API size_t fqi_pool_cancel_if(fq_pool *p, bool (*pred)(const void *task, void *arg),
                                  void *arg) {
  if (fqi_pool_refuses(p) != FQ_OK) {
    return 0;
  }
  fq_ring dropped;
  fqi_pool_enter(p);
  fqi_store(&p->walker, fqi_self()); /* [P1] */
  fqi_tasks_drop(&p->queue.ring, &dropped, pred, arg);
  fqi_store(&p->walker, 0);
  size_t n = dropped.count;
  fqi_pool_finish(p, &dropped);
  return n;
}

FQI_API void fqi_pool_each(fq_pool *p, bool (*fn)(const void *task, void *arg), void *arg) {
  if (fqi_pool_refuses(p) == FQ_OK && fn != NULL) {
    fqi_pool_enter(p);
    fqi_store(&p->walker, fqi_self()); /* [P1] */
    fqi_tasks_each(&p->queue.ring, fn, arg);
    fqi_store(&p->walker, 0);
    (void)fqi_pool_leave(p, NULL);
  }
}

FQI_API void fqi_pool_pause(fq_pool *p, bool paused) {
  if (fqi_pool_refuses(p) == FQ_OK) {
    fqi_pool_enter(p);
    p->tally.paused = paused && !p->ending;
    (void)fqi_pool_leave(p, NULL);
  }
}

FQI_API fq_status fqi_pool_set_concurrency(fq_pool *p, size_t concurrency) {
  fq_status status = fqi_pool_refuses(p);
  if (status == FQ_OK && (concurrency == 0 || concurrency > p->threads)) {
    status = FQ_INVALID;
  }
  if (status == FQ_OK) {
    fqi_pool_enter(p);
    p->tally.concurrency = concurrency;
    (void)fqi_pool_leave(p, NULL);
  }
  return status;
}

FQI_API void fqi_pool_close(fq_pool *p) {
  if (fqi_pool_refuses(p) == FQ_OK) {
    fqi_pool_enter(p);
    (void)fqi_chan_shut(&p->queue, 0);
    (void)fqi_pool_leave(p, NULL);
  }
}

FQI_API fqi_view fqi_pool_view(fq_pool *p) {
  fq_status refused = fqi_pool_refuses(p);
  if (refused == FQ_INVALID) {
    return fqi_tally_view(NULL, 0);
  }
  if (refused == FQ_OK) {
    fqi_pool_enter(p);
  }
  fqi_view view = fqi_tally_view(&p->tally, p->queue.ring.count);
  if (view.stats.peak < p->queue.push.peak) {
    view.stats.peak = p->queue.push.peak;
  }
  view.idle = view.idle && p->queue.guests == NULL;
  if (refused == FQ_OK) {
    (void)fqi_pool_leave(p, NULL);
  }
  return view;
}

/* Runs the next task here, in its room, if one may start: in a place of its own, unless this thread
 * is in a task and has one. */
static bool fqi_pool_run_next(fq_pool *p, void *room) {
  fq_chan *c = &p->queue;
  fqi_worker *self = fqi_pool_self(p);
  bool nested = self != NULL && self->runs;
  fqi_guest guest;
  fqi_waiter w;
  fqi_waiter_init(&w, NULL, room, 1, 1);
  fqi_pool_enter(p);
  for (const fqi_guest *g = c->guests; g != NULL; g = g->next) {
    nested = nested || (g->thread == fqi_self() && g->runs);
  }
  if (c->ring.count > 0 && !p->tally.paused && (nested || fqi_tally_places(&p->tally) > 0)) {
    fqi_chan_take(c, &w);
    fqi_tally_start(&p->tally, 1);
    p->tally.busy -= nested;
    p->helpers += !nested;
    fqi_guest_arrive(c, &guest, true);
  }
  (void)fqi_pool_leave(p, &w);
  if (w.count == 0) {
    return false;
  }
  fqi_pool_call(p, w.emptied, p->config.on_empty);
  int error = p->config.worker(room, self != NULL ? self->ctx : p->config.ctx);
  fqi_tasks_done(&p->config, room, error);
  fqi_pool_enter(p);
  p->tally.busy += nested;
  p->helpers -= !nested;
  fqi_tally_end(&p->tally, 1, error != 0);
  guest.runs = false;
  fqi_pool_drain(p);
  fqi_guest_depart(c);
  (void)fqi_pool_leave(p, NULL);
  return true;
}

FQI_API bool fqi_pool_help(fq_pool *p) {
  union fqi_room {
    unsigned char bytes[256];
    long double number;
    void *pointer;
  } room;
  if (fqi_pool_refuses(p) != FQ_OK) {
    return false;
  }
  size_t size = p->queue.ring.item_size, align = p->queue.ring.item_align;
  if (size <= sizeof(room) && align <= FQI_ALIGNOF(union fqi_room)) {
    return fqi_pool_run_next(p, &room);
  }
  fq_allocator allocator = p->queue.ring.allocator; /* the pool may be gone afterwards */
  fqi_block block;
  void *task = fqi_alloc_aligned(&allocator, size, align, &block);
  bool ran = task != NULL && fqi_pool_run_next(p, task);
  if (task != NULL) {
    fqi_free(&allocator, block.memory, block.size);
  }
  return ran;
}

FQI_API fq_status fqi_pool_destroy(fq_pool *p, fq_how how) {
  if (p == NULL || (how != FQ_DRAIN && how != FQ_CANCEL)) {
    return FQ_INVALID;
  }
  if (p->workers == NULL) {
    return FQ_OK;
  }
  if (fqi_pool_refuses(p) != FQ_OK || fqi_pool_inside(p)) {
    return FQ_DEADLOCK;
  }
  fq_ring dropped;
  fqi_pool_enter(p);
  (void)fqi_chan_shut(&p->queue, 0);
  p->ending = true;
  p->tally.paused = false;
  if (how == FQ_CANCEL) {
    fqi_tasks_steal(&p->queue.ring, &dropped);
    fqi_pool_finish(p, &dropped);
  } else {
    (void)fqi_pool_leave(p, NULL);
  }
  for (size_t i = 0; i < p->threads; i++) {
    fqi_thread_join(&p->workers[i].thread);
    fqi_monitor_destroy(&p->workers[i].waiter.lock, &p->workers[i].waiter.cond);
  }
  fq_allocator allocator = p->queue.ring.allocator;
  fqi_chan_destroy(&p->queue); /* when the guests have left */
  fqi_free(&allocator, p->block.memory, p->block.size);
  memset(p, 0, sizeof(*p));
  return FQ_OK;
}

FQI_API size_t fqi_pool_push_n(fq_pool *p, const void *tasks, size_t n, int64_t timeout,
                               fq_status *why) {
  fq_status status = fqi_pool_refuses(p);
  size_t pushed = 0;
  if (status == FQ_OK) {
    bool stuck = timeout != 0 && p->queue.limit != SIZE_MAX && fqi_pool_inside(p);
    pushed = fqi_chan_push_n(&p->queue, tasks, n, stuck ? FQ_NOWAIT : timeout, &status);
    status = stuck && status == FQ_FULL ? FQ_DEADLOCK : status;
  }
  if (why != NULL) {
    *why = status;
  }
  return pushed;
}

FQI_API fq_status fqi_pool_push(fq_pool *p, const void *task, bool front, int64_t timeout) {
  fq_status status = fqi_pool_refuses(p);
  if (status == FQ_OK) {
    bool stuck = timeout != 0 && p->queue.limit != SIZE_MAX && fqi_pool_inside(p);
    status = fqi_chan_push(&p->queue, task, front, stuck ? FQ_NOWAIT : timeout);
    status = stuck && status == FQ_FULL ? FQ_DEADLOCK : status;
  }
  return status;
}

FQI_API fq_status fqi_pool_wait(fq_pool *p, size_t waiting, int64_t timeout) {
  fq_status status = fqi_pool_refuses(p);
  if (status == FQ_OK && timeout != 0 && fqi_pool_inside(p)) {
    status = FQ_DEADLOCK;
  }
  return status == FQ_OK ? fqi_pool_rest(p, 0, waiting, timeout) : status;
}

/* -------------------------------------------------------------------------------------------- */
/* @@group: implementation                                                                      */
/* -------------------------------------------------------------------------------------------- */

FQI_API fq_status fq_group_init(fq_group *g) {
  if (g == NULL) {
    return FQ_INVALID;
  }
  memset(g, 0, sizeof(*g));
  g->open = fqi_lock_init(&g->lock) == 0;
  return g->open ? FQ_OK : FQ_SYSTEM;
}

FQI_API void fq_group_destroy(fq_group *g) {
  if (g != NULL && g->open) {
    fqi_lock_acquire(&g->lock); /* until the last fq_group_done has let go of it */
    fqi_lock_release(&g->lock);
    fqi_lock_destroy(&g->lock);
    memset(g, 0, sizeof(*g));
  }
}

FQI_API void fq_group_add(fq_group *g, size_t n) {
  if (g != NULL && g->open) {
    fqi_lock_acquire(&g->lock);
    g->count += n;
    fqi_lock_release(&g->lock);
  }
}

FQI_API void fq_group_done(fq_group *g) {
  fqi_waiters wakes = {NULL, NULL, 0};
  if (g == NULL || !g->open) {
    return;
  }
  fqi_lock_acquire(&g->lock);
  if (g->count > 0 && --g->count == 0) {
    for (fqi_waiter *w = g->waiters.head, *next; w != NULL; w = next) {
      next = w->next;
      fqi_waiter_serve(w, &g->waiters, FQ_OK, &wakes);
    }
  }
  fqi_lock_release(&g->lock);
  fqi_waiters_wake(wakes.head);
}

FQI_API fq_status fq_group_wait(fq_group *g, int64_t timeout) {
  if (g == NULL || !g->open) {
    return FQ_INVALID;
  }
  int64_t deadline = fqi_deadline(timeout);
  fqi_waiter w;
  fqi_waiter_init(&w, NULL, NULL, 0, 0);
  fqi_lock_acquire(&g->lock);
  bool waits = g->count > 0 && timeout != 0 && fqi_monitor_init(&w.lock, &w.cond);
  if (waits) {
    fqi_waiter_link(&w, &g->waiters);
  } else if (g->count > 0) {
    w.status = timeout == 0 ? FQ_TIMEOUT : FQ_SYSTEM;
  }
  fqi_lock_release(&g->lock);
  if (!waits) {
    return w.status;
  }
  if (!fqi_waiter_park(&w, deadline)) {
    if (fqi_cas(&w.state, FQI_WAITING, FQI_LEAVING)) {
      fqi_lock_acquire(&g->lock);
      fqi_waiters_remove(&g->waiters, &w);
      w.status = w.finished ? FQ_OK : FQ_TIMEOUT;
      fqi_lock_release(&g->lock);
    } else {
      (void)fqi_waiter_park(&w, INT64_MAX);
    }
  }
  fqi_monitor_destroy(&w.lock, &w.cond);
  return w.status;
}

FQI_API int fqi_job_run(void *job, void *ctx) {
  const fq_job *j = (const fq_job *)job;
  (void)ctx;
  j->fn(j->arg);
  return 0;
}

FQI_API fq_status fq_jobs_run(fq_jobs *p, void (*fn)(void *arg), void *arg) {
  fq_job job = {fn, arg};
  return fn != NULL ? fq_jobs_push(p, job, FQ_FOREVER) : FQ_INVALID;
}

#endif /* FASTQ_NO_THREADS */

#ifdef __cplusplus
}
#endif
#endif /* FASTQ_IMPLEMENTATION */
