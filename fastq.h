/* fastq.h - fast first-in-first-out work queues in one C header.       version 0.1.0, MIT licence
 *
 * A ring for one thread, a channel for threads that wait for each other, and a pool that runs a
 * function on every task with bounded concurrency. No priority, no sorting, no scheduler: first in,
 * first out. C11 and later, C++17 and later; nothing but the C library and the system.
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
 *     @@ring       FQ_RING(name, T)    one thread, or your own lock
 *     @@chan       FQ_CHAN(name, T)    threads that wait for each other
 *     @@pool       FQ_POOL(name, T)    a function run on every task by worker threads
 *   Each mark stands twice: at the interface, and at the implementation further down.
 *
 * WHICH QUEUE?
 *     who uses it                                   take      when full           memory
 *     one thread, or threads under your own lock    FQ_RING   grows, or FQ_FULL   grows, or yours
 *     threads that wait for items or for room       FQ_CHAN   the pusher waits    bounded, or grows
 *     "run this function on each of these"          FQ_POOL   the pusher waits    queue + threads
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
 *     FASTQ_NO_THREADS        leave out FQ_CHAN and FQ_POOL; nothing of the system is needed then
 *     FASTQ_MALLOC(n) and     where memory comes from when no fq_allocator is given; both or
 *     FASTQ_FREE(p)             neither, in the unit with the implementation; aligned as malloc's
 *     FASTQ_CACHE_LINE        bytes that two threads should not share (64); the same in every unit
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
#define FQI_ALIGNOF(T) alignof(T)
#define FQI_CHECK_ITEM(T)                                                                          \
  static_assert(__is_trivially_copyable(T), "fastq.h: items are copied as bytes")
extern "C" {
#else
#define FQI_ALIGNOF(T)    _Alignof(T)
#define FQI_CHECK_ITEM(T) _Static_assert(sizeof(T) > 0, "fastq.h: items have a size")
#endif

/* Sizes of objects stay below this, so that the sum of two indices cannot overflow. */
#define FQI_SIZE_LIMIT (SIZE_MAX / 2)

/* n items of size bytes: false when no object can be that large. */
FQI_INLINE bool fqi_size_ok(size_t n, size_t size) { return n <= FQI_SIZE_LIMIT / size; }

/* n up to a multiple of step, a power of two. */
FQI_INLINE size_t fqi_round_up(size_t n, size_t step) { return (n + step - 1) & ~(step - 1); }

FQI_INLINE size_t fqi_min(size_t a, size_t b) { return a < b ? a : b; }

#ifndef FASTQ_NO_THREADS
#ifdef FQI_PLATFORM_HEADER /* a test's own atomics, clock, locks, conditions and threads */
#include FQI_PLATFORM_HEADER
#else

/* Room for the system's objects, so that no system header is needed here; the implementation checks
 * the sizes. */
typedef union fqi_lock {
  unsigned char bytes[64];
  uint64_t align;
  void *pointer;
} fqi_lock;

typedef union fqi_cond {
  unsigned char bytes[64];
  uint64_t align;
  void *pointer;
} fqi_cond;

typedef struct fqi_thread {
  union {
    unsigned char bytes[16];
    uint64_t align;
    struct {
      void *handle;
      unsigned number;
    } windows;
  } id;
  void (*fn)(void *arg);
  void *arg;
} fqi_thread;

#endif
#endif /* FASTQ_NO_THREADS */

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
  size_t first = fqi_min(n, capacity - at);
  memcpy(data + at * size, items, first * size);
  if (n > first) {
    memcpy(data, (const unsigned char *)items + first * size, (n - first) * size);
  }
}

FQI_INLINE void fqi_copy_out(const unsigned char *data, size_t capacity, size_t at, void *out,
                             size_t n, size_t size) {
  size_t first = fqi_min(n, capacity - at);
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
FQI_INLINE fq_status fqi_ring_push(fq_ring *r, const void *item, size_t size) {
  if (r == NULL) {
    return FQ_INVALID;
  }
  if (FQI_RARE(r->count == r->capacity)) {
    fq_status status = fqi_ring_grow(r, 1, NULL);
    if (status != FQ_OK) {
      return status;
    }
  }
  memcpy(fqi_ring_place(r, r->count, size), item, size);
  r->count++;
  return FQ_OK;
}

/* name_push_front: put one item before the head: the next pop returns it. Otherwise as
 * name_push. */
FQI_INLINE fq_status fqi_ring_push_front(fq_ring *r, const void *item, size_t size) {
  if (r == NULL) {
    return FQ_INVALID;
  }
  if (FQI_RARE(r->count == r->capacity)) {
    fq_status status = fqi_ring_grow(r, 1, NULL);
    if (status != FQ_OK) {
      return status;
    }
  }
  r->head = (r->head == 0 ? r->capacity : r->head) - 1;
  memcpy(r->data + r->head * size, item, size);
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

/* Room for n more, if need be by growing: how many of the n fit now. A storage that growth replaced
 * is handed back in old, because the items may lie in it; the caller frees it when they are
 * copied. */
FQI_INLINE size_t fqi_ring_room(fq_ring *r, size_t n, size_t size, fqi_block *old) {
  old->memory = NULL;
  if (!fqi_size_ok(n, size)) {
    return 0;
  }
  if (FQI_RARE(n > r->capacity - r->count)) {
    (void)fqi_ring_grow(r, n, old);
  }
  return fqi_min(n, r->capacity - r->count);
}

/* name_push_n: copy n items to the tail, in order.
 *   items     n items, yours again on return; they may lie in the ring itself
 *   Returns   how many were taken, a prefix: all of them, unless a fixed ring is full or a growing
 *             one gets no memory; 0 for NULL or a size that overflows
 *   Allocates when a growing ring has too little room */
FQI_INLINE size_t fqi_ring_push_n(fq_ring *r, const void *items, size_t n, size_t size) {
  fqi_block old;
  if (r == NULL || items == NULL) {
    return 0;
  }
  n = fqi_ring_room(r, n, size, &old);
  if (n > 0) {
    fqi_copy_in(r->data, r->capacity, fqi_ring_index(r, r->count), items, n, size);
    r->count += n;
  }
  if (FQI_RARE(old.memory != NULL)) {
    fqi_ring_free(r, &old);
  }
  return n;
}

/* name_push_front_n: put n items before the head as they stand: the next pop returns items[0].
 * Otherwise as name_push_n. */
FQI_INLINE size_t fqi_ring_push_front_n(fq_ring *r, const void *items, size_t n, size_t size) {
  fqi_block old;
  if (r == NULL || items == NULL) {
    return 0;
  }
  n = fqi_ring_room(r, n, size, &old);
  if (n > 0) {
    r->head = fqi_ring_index(r, r->capacity - n);
    fqi_copy_in(r->data, r->capacity, r->head, items, n, size);
    r->count += n;
  }
  if (FQI_RARE(old.memory != NULL)) {
    fqi_ring_free(r, &old);
  }
  return n;
}

/* name_push_all: copy n items to the tail, all or none.
 *   Returns   FQ_OK, also for n = 0; FQ_FULL (fixed), FQ_NOMEM (growing): unchanged;
 *             FQ_INVALID for NULL or a size that overflows
 *   Allocates when a growing ring has too little room */
FQI_INLINE fq_status fqi_ring_push_all(fq_ring *r, const void *items, size_t n, size_t size) {
  fqi_block old = {NULL, 0};
  if (r == NULL || (items == NULL && n > 0) || !fqi_size_ok(n, size)) {
    return FQ_INVALID;
  }
  if (FQI_RARE(n > r->capacity - r->count)) {
    fq_status status = fqi_ring_grow(r, n, &old);
    if (status != FQ_OK) {
      return status;
    }
  }
  if (n > 0) {
    fqi_copy_in(r->data, r->capacity, fqi_ring_index(r, r->count), items, n, size);
    r->count += n;
  }
  if (FQI_RARE(old.memory != NULL)) {
    fqi_ring_free(r, &old);
  }
  return FQ_OK;
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
    return fqi_ring_push(FQI_RING(r_), &item_, sizeof(T));                                         \
  }                                                                                                \
  FQI_FACE fq_status name##_push_front(name *r_, T item_) {                                        \
    return fqi_ring_push_front(FQI_RING(r_), &item_, sizeof(T));                                   \
  }                                                                                                \
  FQI_FACE fq_status name##_pop(name *r_, T *out_) {                                               \
    return fqi_ring_pop(FQI_RING(r_), out_, sizeof(T));                                            \
  }                                                                                                \
  FQI_FACE size_t name##_push_n(name *r_, const T *items_, size_t n_) {                            \
    return fqi_ring_push_n(FQI_RING(r_), items_, n_, sizeof(T));                                   \
  }                                                                                                \
  FQI_FACE size_t name##_push_front_n(name *r_, const T *items_, size_t n_) {                      \
    return fqi_ring_push_front_n(FQI_RING(r_), items_, n_, sizeof(T));                             \
  }                                                                                                \
  FQI_FACE fq_status name##_push_all(name *r_, const T *items_, size_t n_) {                       \
    return fqi_ring_push_all(FQI_RING(r_), items_, n_, sizeof(T));                                 \
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
  size_t patience; /* how often to look again before going to sleep */
  size_t inside;   /* calls that have let go of the lock and will be back */
  bool awaited;    /* fqi_chan_destroy waits for calls to leave: */
  fqi_cond left;   /* one has; goes with lock */
} fqi_side;

typedef struct fq_chan {
  /* Written with both sides' locks held, so that either of them is enough to read it. */
  size_t fits;     /* items the ring may hold as it is: 0 once closed */
  size_t sleepers; /* waiters linked in the lists below */
  void (*notify)(void *ctx);
  fq_ring ring; /* its head and count are in force only while both locks are held */
  void *notify_ctx;
  size_t limit;  /* SIZE_MAX: unbounded */
  size_t wanted; /* the least number of items that lets a waiting reader go; SIZE_MAX: none */
  fqi_waiters readers, writers;
  fqi_waiters idlers; /* threads that wait for a pool to be idle */
  int error;
  bool closed;
  fqi_side push, pop;
  unsigned char apart[FASTQ_CACHE_LINE];
} fq_chan;

/* Reads the items of a channel as a stream; see name_next. Zero is the default of every member. */
typedef struct fq_iter {
  int64_t first_timeout_ns;   /* how long to wait for the first item; 0 or negative: for ever */
  int64_t between_timeout_ns; /* how long for each item after it; 0 or negative: for ever */
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
FQI_API fq_status fqi_chan_pop(fq_chan *c, void *out, int64_t timeout);
FQI_API size_t fqi_chan_push_n(fq_chan *c, const void *items, size_t n, int64_t timeout,
                               fq_status *why);
FQI_API size_t fqi_chan_pop_n(fq_chan *c, void *out, size_t min, size_t max, int64_t timeout,
                              fq_status *why);
FQI_API void fqi_chan_fail(fq_chan *c, int error);
FQI_API int fqi_chan_error(const fq_chan *c);
FQI_API bool fqi_chan_closed(fq_chan *c);
FQI_API size_t fqi_chan_count(fq_chan *c);
FQI_API size_t fqi_chan_limit(fq_chan *c);
FQI_API fq_status fqi_chan_set_limit(fq_chan *c, size_t limit);
FQI_API void fqi_chan_waiting(fq_chan *c, size_t *producers, size_t *consumers);
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
    return fqi_chan_pop(FQI_CHAN(c_), out_, timeout_);                                             \
  }                                                                                                \
  FQI_FACE size_t name##_push_n(name *c_, const T *items_, size_t n_, int64_t timeout_,            \
                                fq_status *why_) {                                                 \
    return fqi_chan_push_n(FQI_CHAN(c_), items_, n_, timeout_, why_);                              \
  }                                                                                                \
  FQI_FACE size_t name##_pop_n(name *c_, T *out_, size_t min_, size_t max_, int64_t timeout_,      \
                               fq_status *why_) {                                                  \
    return fqi_chan_pop_n(FQI_CHAN(c_), out_, min_, max_, timeout_, why_);                         \
  }                                                                                                \
  FQI_FACE void name##_close(name *c_) { fqi_chan_fail(FQI_CHAN(c_), 0); }                         \
  FQI_FACE void name##_fail(name *c_, int error_) { fqi_chan_fail(FQI_CHAN(c_), error_); }         \
  FQI_FACE int name##_error(const name *c_) { return fqi_chan_error(FQI_CCHAN(c_)); }              \
  FQI_FACE bool name##_closed(name *c_) { return fqi_chan_closed(FQI_CHAN(c_)); }                  \
  FQI_FACE size_t name##_count(name *c_) { return fqi_chan_count(FQI_CHAN(c_)); }                  \
  FQI_FACE size_t name##_limit(name *c_) { return fqi_chan_limit(FQI_CHAN(c_)); }                  \
  FQI_FACE fq_status name##_set_limit(name *c_, size_t limit_) {                                   \
    return fqi_chan_set_limit(FQI_CHAN(c_), limit_);                                               \
  }                                                                                                \
  FQI_FACE void name##_waiting(name *c_, size_t *producers_, size_t *consumers_) {                 \
    fqi_chan_waiting(FQI_CHAN(c_), producers_, consumers_);                                        \
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
 * Tasks are values: push copies the task in, nothing is allocated for it. The worker and done get a
 * pointer to the pool's copy, good until done returns. Every accepted task meets done exactly once.
 * With batch 1 tasks start strictly in the order they were pushed.
 *
 * Callbacks run on the workers, and for dropped tasks on the thread in name_destroy, without any
 * lock. They may call everything but what would wait for themselves: that says FQ_DEADLOCK. They
 * return; leaving one by pthread_exit or longjmp is an error. The workers have all asynchronous
 * signals blocked. After fork the child has no workers: it may only exec or _exit. */

typedef struct fq_config {
  int (*worker)(void *task, void *ctx);           /* required; 0 or an error code of its own */
  void (*done)(void *task, int error, void *ctx); /* error: the worker's, or FQ_CANCELED */
  void *ctx;                                      /* for both */
  size_t limit;                                   /* waiting tasks at most; 0 = unbounded */
  const fq_allocator *allocator;                  /* NULL = FASTQ_MALLOC */
  size_t threads;                                 /* 0 = one per CPU */
  size_t batch; /* tasks a worker takes at once; 0 = 1. More is faster for tiny tasks; while one of
                   them runs, the others of its batch wait for it */
} fq_config;

typedef enum fq_how {
  FQ_DRAIN = 0, /* run what is queued, then end */
  FQ_CANCEL = 1 /* drop what is queued: done gets FQ_CANCELED; let the running tasks end */
} fq_how;

typedef struct fqi_worker fqi_worker;

typedef struct fq_pool {
  fq_chan queue;
  fq_config config;
  fqi_worker *workers;
  size_t threads; /* that were started */
  fqi_block block;
  size_t finished;     /* tasks whose done has returned; wraps; under queue.pop.lock */
  fqi_thread canceler; /* the thread in name_destroy that calls done for the dropped tasks, */
  size_t canceling;    /* if this is 1: atomic */
} fq_pool;

FQI_API fq_status fqi_pool_init(fq_pool *p, const fq_config *config, size_t size, size_t align);
FQI_API fq_status fqi_pool_destroy(fq_pool *p, fq_how how);
FQI_API fq_status fqi_pool_push(fq_pool *p, const void *task, int64_t timeout);
FQI_API size_t fqi_pool_push_n(fq_pool *p, const void *tasks, size_t n, int64_t timeout,
                               fq_status *why);
FQI_API fq_status fqi_pool_wait(fq_pool *p, int64_t timeout);

/* name_init: start the workers.
 *   config    is copied; what ctx and the allocator's ctx point to must outlive the pool
 *   Returns   FQ_OK; FQ_NOMEM; FQ_SYSTEM when a lock or any of the threads cannot be had;
 *             FQ_INVALID for NULL, no worker, or sizes that overflow. On failure nothing is left.
 *   Allocates the queue, and batch tasks for each worker */

/* name_push: queue one task, waiting for room if need be.
 *   Returns   FQ_OK; FQ_CLOSED; FQ_FULL with FQ_NOWAIT; FQ_TIMEOUT; FQ_NOMEM; FQ_SYSTEM;
 *             FQ_INVALID; FQ_DEADLOCK in a callback of this pool that would have to wait for room
 * name_push_n: queue n tasks in order; as name_push_n of FQ_CHAN, and why may be FQ_DEADLOCK. */

/* name_wait: until nothing is queued and nothing runs, if only for a moment.
 *   Returns   FQ_OK; FQ_TIMEOUT; FQ_DEADLOCK in a callback of this pool; FQ_SYSTEM; FQ_INVALID
 *   Threads   any number may wait */

/* name_destroy: accept no more tasks, run or drop the queued ones, join every thread, free all.
 * Threads that wait to push leave with FQ_CLOSED, those in name_wait when all is done. After it
 * returned nothing of the pool runs. Again is fine.
 *   Returns   FQ_OK; FQ_DEADLOCK in a callback of this pool: nothing is touched; FQ_INVALID
 *   Blocks    until the running tasks end; with FQ_DRAIN the queued ones too */

#define FQI_POOL(q) ((fq_pool *)(void *)(q))

#define FQ_POOL(name, T)                                                                           \
  typedef struct name {                                                                            \
    fq_pool pool;                                                                                  \
  } name;                                                                                          \
  FQI_FACE fq_status name##_init(name *p_, const fq_config *config_) {                             \
    return fqi_pool_init(FQI_POOL(p_), config_, sizeof(T), FQI_ALIGNOF(T));                        \
  }                                                                                                \
  FQI_FACE fq_status name##_destroy(name *p_, fq_how how_) {                                       \
    return fqi_pool_destroy(FQI_POOL(p_), how_);                                                   \
  }                                                                                                \
  FQI_FACE fq_status name##_push(name *p_, T task_, int64_t timeout_) {                            \
    return fqi_pool_push(FQI_POOL(p_), &task_, timeout_);                                          \
  }                                                                                                \
  FQI_FACE size_t name##_push_n(name *p_, const T *tasks_, size_t n_, int64_t timeout_,            \
                                fq_status *why_) {                                                 \
    return fqi_pool_push_n(FQI_POOL(p_), tasks_, n_, timeout_, why_);                              \
  }                                                                                                \
  FQI_FACE fq_status name##_wait(name *p_, int64_t timeout_) {                                     \
    return fqi_pool_wait(FQI_POOL(p_), timeout_);                                                  \
  }                                                                                                \
  FQI_CHECK_ITEM(T)

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
#include <windows.h>
#include <process.h>
#else
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#if !defined(CLOCK_MONOTONIC) || (defined(__GLIBC__) && !defined(__USE_XOPEN2K))
#error "fastq.h: include it before any system header, or define _POSIX_C_SOURCE=200809L"
#endif
#endif
#endif

#ifdef __cplusplus
#define FQI_ASSERT(what, message) static_assert(what, message)
extern "C" {
#else
#define FQI_ASSERT(what, message) _Static_assert(what, message)
#endif

/* -------------------------------------------------------------------------------------------- */
/* @@platform: implementation                                                                   */
/* -------------------------------------------------------------------------------------------- */

#if !defined(FASTQ_NO_THREADS) && !defined(FQI_PLATFORM_HEADER)

/* fqi_load, fqi_store: acquire, release. fqi_cas: both; false when *p is not the expected. */
#if defined(__GNUC__) || defined(__clang__)
static size_t fqi_load(const size_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }

static void fqi_store(size_t *p, size_t value) { __atomic_store_n(p, value, __ATOMIC_RELEASE); }

static bool fqi_cas(size_t *p, size_t expected, size_t desired) {
  return __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE);
}
#elif defined(_MSC_VER)
static bool fqi_cas(size_t *p, size_t expected, size_t desired) {
  return InterlockedCompareExchangePointer((void *volatile *)p, (void *)desired,
                                           (void *)expected) == (void *)expected;
}

static size_t fqi_load(const size_t *p) {
  return (size_t)InterlockedCompareExchangePointer((void *volatile *)(uintptr_t)p, NULL, NULL);
}

static void fqi_store(size_t *p, size_t value) {
  (void)InterlockedExchangePointer((void *volatile *)p, (void *)value);
}
#else
#include <stdatomic.h>
static size_t fqi_load(const size_t *p) {
  return atomic_load_explicit((const _Atomic size_t *)p, memory_order_acquire);
}

static void fqi_store(size_t *p, size_t value) {
  atomic_store_explicit((_Atomic size_t *)p, value, memory_order_release);
}

static bool fqi_cas(size_t *p, size_t expected, size_t desired) {
  return atomic_compare_exchange_strong((_Atomic size_t *)p, &expected, desired);
}
#endif

/* What both systems below offer:
 *   fqi_lock_init, fqi_cond_init, fqi_thread_start   0 or the system's error number
 *   fqi_cond_wait   until signalled or the deadline has passed; it may end early for no reason, so
 *                   the caller looks at its condition and at fqi_now() again
 *   fqi_now         monotonic nanoseconds; a deadline is a fqi_now(), INT64_MAX is never
 *   fqi_thread_start  the thread has every asynchronous signal blocked from its first instruction
 *   fqi_thread_self   makes t the calling thread, for fqi_thread_is_self only */
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
  t->id.windows.handle = (void *)_beginthreadex(NULL, (unsigned)stack_size, fqi_thread_main, t, 0,
                                                &t->id.windows.number);
  return t->id.windows.handle != NULL ? 0 : 1;
}

static void fqi_thread_join(fqi_thread *t) {
  WaitForSingleObject((HANDLE)t->id.windows.handle, INFINITE);
  CloseHandle((HANDLE)t->id.windows.handle);
}

static void fqi_thread_self(fqi_thread *t) { t->id.windows.number = GetCurrentThreadId(); }

static bool fqi_thread_is_self(const fqi_thread *t) {
  return t->id.windows.number == GetCurrentThreadId();
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

static int fqi_thread_start(fqi_thread *t, void (*fn)(void *arg), void *arg, size_t stack_size) {
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
  sigset_t all, before;
  pthread_attr_t attr;
  int error = pthread_attr_init(&attr);
  if (error != 0) {
    return error;
  }
  if (stack_size > 0) {
    error = pthread_attr_setstacksize(&attr, stack_size);
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

static void fqi_thread_self(fqi_thread *t) { *(pthread_t *)(void *)&t->id = pthread_self(); }

static bool fqi_thread_is_self(const fqi_thread *t) {
  return pthread_equal(*(const pthread_t *)(const void *)&t->id, pthread_self()) != 0;
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
  size_t min, max, count;    /* done from min on; at most max; moved so far */
  fq_status status;
  bool front;    /* a writer's item goes before the head */
  bool inside;   /* counted in the side's inside */
  bool finished; /* nothing more is moved for it */
  size_t state;
  fqi_lock lock; /* guards woken */
  fqi_cond cond;
  bool woken;
};

static void fqi_waiter_init(fqi_waiter *w, const void *from, void *to, size_t min, size_t max) {
  w->from = (const unsigned char *)from;
  w->to = (unsigned char *)to;
  w->min = min;
  w->max = max;
  w->count = 0;
  w->status = FQ_OK;
  w->front = false;
  w->inside = true;
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

/* What a waiter needs to sleep; false when the system has no lock or condition for it. */
static bool fqi_waiter_open(fqi_waiter *w) {
  if (fqi_lock_init(&w->lock) != 0) {
    return false;
  }
  if (fqi_cond_init(&w->cond) != 0) {
    fqi_lock_destroy(&w->lock);
    return false;
  }
  return true;
}

static void fqi_waiter_close(fqi_waiter *w) {
  fqi_cond_destroy(&w->cond);
  fqi_lock_destroy(&w->lock);
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

/* Wakes all of them; no lock is held. The signal is sent under the waiter's own lock, because the
 * waiter returns, and its stack goes, as soon as it can have that lock. */
static void fqi_waiters_wake(fqi_waiters *wakes) {
  fqi_waiter *w = wakes->head;
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
  size_t moved = w->front ? fqi_ring_push_front_n(&c->ring, w->from, n, size)
                          : fqi_ring_push_n(&c->ring, w->from, n, size);
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

static void fqi_chan_find_wanted(fq_chan *c) {
  c->wanted = SIZE_MAX;
  for (fqi_waiter *w = c->readers.head; w != NULL && c->wanted > 1; w = w->next) {
    if (!w->finished) {
      c->wanted = fqi_min(c->wanted, w->min);
    }
  }
}

/* Serves the waiting readers that have enough now. */
static void fqi_chan_serve_readers(fq_chan *c, fqi_waiters *wakes) {
  fqi_waiter *w = c->readers.head;
  while (w != NULL && c->ring.count > 0) {
    fqi_waiter *next = w->next;
    if (!w->finished && w->min <= c->ring.count) {
      fqi_chan_hand(c, w);
      fqi_waiter_serve(w, &c->readers, FQ_OK, wakes);
    }
    w = next;
  }
  fqi_chan_find_wanted(c);
}

/* Lets waiting writers go on into the room there is; true when anything moved. */
static bool fqi_chan_serve_writers(fq_chan *c, fqi_waiters *wakes) {
  bool moved = false;
  fqi_waiter *w = c->writers.head;
  while (w != NULL && c->ring.count < c->limit) {
    fqi_waiter *next = w->next;
    if (!w->finished) {
      fqi_chan_admit(c, w);
      moved = true;
      if (w->count == w->max || w->status != FQ_OK) {
        fqi_waiter_serve(w, &c->writers, w->status, wakes);
      }
    }
    w = next;
  }
  return moved;
}

/* Gives a reader what is there, and what waiting writers add to it meanwhile. */
static void fqi_chan_take(fq_chan *c, fqi_waiter *w, fqi_waiters *wakes) {
  do {
    fqi_chan_hand(c, w);
  } while (fqi_chan_serve_writers(c, wakes) && w->count < w->max);
}

/* Takes a writer's items, and passes them on to waiting readers, as far as they fit. */
static void fqi_chan_put(fq_chan *c, fqi_waiter *w, fqi_waiters *wakes) {
  do {
    fqi_chan_admit(c, w);
    if (c->ring.count >= c->wanted) {
      fqi_chan_serve_readers(c, wakes);
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
  c->sleepers = c->readers.count + c->writers.count + c->idlers.count;
}

/* Ends what fqi_chan_enter began; then, without a lock, it wakes and notifies. */
static void fqi_chan_leave(fq_chan *c, fqi_waiters *wakes, bool notify) {
  void (*fn)(void *ctx) = notify ? c->notify : NULL;
  void *ctx = c->notify_ctx;
  fqi_chan_settle(c);
  fqi_lock_release(&c->pop.lock);
  fqi_lock_release(&c->push.lock);
  if (wakes != NULL) {
    fqi_waiters_wake(wakes);
  }
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
  if (c->push.awaited) {
    fqi_cond_signal(&c->push.left);
  }
  return false;
}

/* With push.lock held: as many of the n items as fit, if nobody waits and no storage must grow. */
static size_t fqi_chan_push_fast(fq_chan *c, const void *items, size_t n, bool *notify) {
  fqi_side *push = &c->push;
  size_t count = push->count;
  if (c->sleepers != 0) {
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
  fqi_copy_in(c->ring.data, c->ring.capacity, push->at, items, n, c->ring.item_size);
  push->at = fqi_advance(push->at, n, c->ring.capacity);
  fqi_store(&push->count, count + n); /* [C1], pairs with [C2] */
  return n;
}

/* With pop.lock held: up to max items, if nobody waits and min of them, at least one, are there. */
static size_t fqi_chan_pop_fast(fq_chan *c, void *out, size_t min, size_t max) {
  fqi_side *pop = &c->pop;
  size_t count = pop->count;
  if (c->sleepers != 0) {
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
  if (c->sleepers != 0 || c->closed || deadline == 0) {
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

/* Runs a writer's call to its end, with both locks. */
static void fqi_chan_write(fq_chan *c, fqi_waiter *w, int64_t deadline) {
  fqi_waiters wakes = {NULL, NULL, 0};
  bool waits = false;
  fqi_chan_enter(c);
  bool was_empty = c->ring.count == 0;
  if (w->inside) {
    fqi_side_leave(&c->push);
  }
  if (c->closed) {
    w->status = FQ_CLOSED;
  } else {
    (void)fqi_chan_serve_writers(c, &wakes);
    fqi_chan_put(c, w, &wakes);
    if (w->count == w->max || w->status != FQ_OK) {
      /* done */
    } else if (deadline == 0) {
      w->status = FQ_FULL;
    } else if (!fqi_waiter_open(w)) {
      w->status = FQ_SYSTEM;
    } else {
      fqi_waiter_link(w, &c->writers);
      waits = true;
    }
  }
  fqi_chan_leave(c, &wakes, was_empty && c->ring.count > 0);
  if (!waits) {
    return;
  }
  if (!fqi_chan_sleep(c, &c->writers, w, deadline)) {
    w->status = w->finished ? w->status : FQ_TIMEOUT;
    fqi_chan_leave(c, NULL, false);
  }
  fqi_waiter_close(w);
}

/* Runs a reader's call to its end, with both locks. */
static void fqi_chan_read(fq_chan *c, fqi_waiter *w, int64_t deadline) {
  fqi_waiters wakes = {NULL, NULL, 0};
  bool waits = false;
  fqi_chan_enter(c);
  fqi_side_leave(&c->pop);
  if (w->min > c->limit) {
    w->status = FQ_INVALID;
  } else if (c->ring.count >= w->min || c->closed || deadline == 0) {
    fqi_chan_take(c, w, &wakes);
    if (c->closed && (w->count < w->min || w->count == 0)) {
      w->status = FQ_CLOSED;
    } else if (w->count < w->min) {
      w->status = FQ_EMPTY;
    }
  } else if (!fqi_waiter_open(w)) {
    w->status = FQ_SYSTEM;
  } else {
    fqi_waiter_link(w, &c->readers);
    c->wanted = fqi_min(c->wanted, w->min);
    waits = true;
  }
  fqi_chan_leave(c, &wakes, false);
  if (!waits) {
    return;
  }
  if (!fqi_chan_sleep(c, &c->readers, w, deadline)) {
    if (!w->finished) {
      fqi_chan_find_wanted(c);
      fqi_chan_take(c, w, &wakes);
      w->status = FQ_TIMEOUT;
    }
    fqi_chan_leave(c, &wakes, false);
  }
  fqi_waiter_close(w);
}

static bool fqi_side_init(fqi_side *side) {
  side->count = (size_t)FASTQ_INDEX_ORIGIN;
  side->seen = side->count;
  side->patience = FQI_PATIENCE;
  if (fqi_lock_init(&side->lock) != 0) {
    return false;
  }
  if (fqi_cond_init(&side->left) != 0) {
    fqi_lock_destroy(&side->lock);
    return false;
  }
  return true;
}

static void fqi_side_destroy(fqi_side *side) {
  fqi_cond_destroy(&side->left);
  fqi_lock_destroy(&side->lock);
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
    fqi_side_destroy(&c->push);
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
  while (c->push.inside > 0 || c->sleepers > 0) {
    fqi_cond_wait(&c->push.left, &c->push.lock, INT64_MAX);
  }
  fqi_lock_release(&c->push.lock);
  fqi_side_destroy(&c->push);
  fqi_side_destroy(&c->pop);
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
    w.count = fqi_chan_try_pop(c, out, min, max, timeout, &deadline);
    if (w.count == 0) {
      fqi_chan_read(c, &w, deadline);
    }
  }
  if (why != NULL) {
    *why = w.status;
  }
  return w.count;
}

FQI_API fq_status fqi_chan_pop(fq_chan *c, void *out, int64_t timeout) {
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
  return w.status;
}

/* With both locks held: close, if it is not closed yet, and let everyone go; true: it was not. */
static bool fqi_chan_shut(fq_chan *c, int error, fqi_waiters *wakes) {
  if (c->closed) {
    return false;
  }
  c->closed = true;
  c->error = error;
  c->wanted = SIZE_MAX;
  for (fqi_waiter *w = c->writers.head, *next; w != NULL; w = next) {
    next = w->next;
    if (!w->finished) {
      fqi_waiter_serve(w, &c->writers, FQ_CLOSED, wakes);
    }
  }
  for (fqi_waiter *w = c->readers.head, *next; w != NULL; w = next) {
    next = w->next;
    if (!w->finished) {
      fqi_chan_hand(c, w);
      fqi_waiter_serve(w, &c->readers, FQ_CLOSED, wakes);
    }
  }
  return true;
}

FQI_API void fqi_chan_fail(fq_chan *c, int error) {
  fqi_waiters wakes = {NULL, NULL, 0};
  if (fqi_chan_ok(c)) {
    fqi_chan_enter(c);
    bool first = fqi_chan_shut(c, error, &wakes);
    fqi_chan_leave(c, &wakes, first);
  }
}

FQI_API bool fqi_chan_closed(fq_chan *c) {
  if (!fqi_chan_ok(c)) {
    return true;
  }
  fqi_chan_enter(c);
  bool closed = c->closed;
  fqi_chan_leave(c, NULL, false);
  return closed;
}

FQI_API int fqi_chan_error(const fq_chan *constant) {
  fq_chan *c = (fq_chan *)(uintptr_t)constant; /* the lock is not part of the value */
  if (!fqi_chan_ok(c)) {
    return 0;
  }
  fqi_chan_enter(c);
  int error = c->error;
  fqi_chan_leave(c, NULL, false);
  return error;
}

FQI_API size_t fqi_chan_count(fq_chan *c) {
  if (!fqi_chan_ok(c)) {
    return 0;
  }
  fqi_chan_enter(c);
  size_t count = c->ring.count;
  fqi_chan_leave(c, NULL, false);
  return count;
}

FQI_API size_t fqi_chan_limit(fq_chan *c) {
  if (!fqi_chan_ok(c)) {
    return 0;
  }
  fqi_chan_enter(c);
  size_t limit = c->limit != SIZE_MAX ? c->limit : 0;
  fqi_chan_leave(c, NULL, false);
  return limit;
}

FQI_API void fqi_chan_waiting(fq_chan *c, size_t *producers, size_t *consumers) {
  size_t writers = 0, readers = 0;
  if (fqi_chan_ok(c)) {
    fqi_chan_enter(c);
    writers = c->writers.count;
    readers = c->readers.count;
    fqi_chan_leave(c, NULL, false);
  }
  if (producers != NULL) {
    *producers = writers;
  }
  if (consumers != NULL) {
    *consumers = readers;
  }
}

FQI_API fq_status fqi_chan_set_limit(fq_chan *c, size_t limit) {
  fqi_waiters wakes = {NULL, NULL, 0};
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
        fqi_waiter_serve(w, &c->readers, FQ_INVALID, &wakes);
      }
    }
    fqi_chan_find_wanted(c);
    (void)fqi_chan_serve_writers(c, &wakes);
  }
  fqi_chan_leave(c, &wakes, was_empty && c->ring.count > 0);
  return status;
}

FQI_API void fqi_chan_notify(fq_chan *c, void (*fn)(void *ctx), void *ctx) {
  if (!fqi_chan_ok(c)) {
    return;
  }
  fqi_chan_enter(c);
  c->notify = fn;
  c->notify_ctx = ctx;
  fqi_chan_leave(c, NULL, c->ring.count > 0 || c->closed);
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
  it->status = fqi_chan_pop(c, out, timeout > 0 ? timeout : FQ_FOREVER);
  if (it->status == FQ_OK) {
    it->count++;
    return true;
  }
  if (it->status == FQ_CLOSED) {
    it->error = fqi_chan_error(c);
  }
  return false;
}

/* -------------------------------------------------------------------------------------------- */
/* @@pool: implementation                                                                       */
/* -------------------------------------------------------------------------------------------- */

/* The queue's pop.lock guards the accounting too: tasks that went out (pop.count) less tasks
 * finished are the running ones. A worker reports its finished tasks and gets the next ones in one
 * step. */

struct fqi_worker {
  fqi_thread thread;
  fqi_waiter waiter; /* open as long as the pool lives, so that a worker can always wait */
  fq_pool *pool;
  unsigned char *tasks; /* room for a batch */
};

static bool fqi_pool_ok(const fq_pool *p) { return p != NULL && p->workers != NULL; }

/* On a thread that the pool would wait for: a worker, or the one that calls done for dropped
 * tasks. */
static bool fqi_pool_inside(const fq_pool *p) {
  if (fqi_load(&p->canceling) != 0 && fqi_thread_is_self(&p->canceler)) { /* pairs with [P1] */
    return true;
  }
  for (size_t i = 0; i < p->threads; i++) {
    if (fqi_thread_is_self(&p->workers[i].thread)) {
      return true;
    }
  }
  return false;
}

static bool fqi_pool_is_idle(const fq_pool *p) {
  return p->queue.ring.count == 0 && p->queue.pop.count == p->finished;
}

/* With both locks held: serves the threads that wait for the pool to be idle, if it is. */
static void fqi_pool_serve_idlers(fq_pool *p, fqi_waiters *wakes) {
  fqi_waiters *idlers = &p->queue.idlers;
  if (idlers->count == 0 || !fqi_pool_is_idle(p)) {
    return;
  }
  for (fqi_waiter *w = idlers->head, *next; w != NULL; w = next) {
    next = w->next;
    if (!w->finished) {
      fqi_waiter_serve(w, idlers, FQ_OK, wakes);
    }
  }
}

/* Reports n finished tasks and waits for the next batch; 0: there is none any more. Where somebody
 * waits for the pool, the report and the look whether it is idle now are one step. */
static size_t fqi_pool_next(fq_pool *p, fqi_worker *worker, size_t n) {
  fq_chan *c = &p->queue;
  fqi_waiter *w = &worker->waiter;
  fqi_waiters wakes = {NULL, NULL, 0};
  bool waits = false;
  fqi_lock_acquire(&c->pop.lock);
  if (c->sleepers == 0) {
    p->finished += n;
    n = 0;
  }
  size_t got = fqi_chan_pop_fast(c, worker->tasks, 1, p->config.batch);
  fqi_lock_release(&c->pop.lock);
  bool tried = got == 0 && n == 0;
  if (tried) {
    int64_t never = 0;
    got = fqi_chan_try_pop(c, worker->tasks, 1, p->config.batch, FQ_FOREVER, &never);
  }
  if (got > 0) {
    return got;
  }
  fqi_waiter_init(w, NULL, worker->tasks, 1, p->config.batch);
  fqi_chan_enter(c);
  if (tried) {
    fqi_side_leave(&c->pop);
  }
  p->finished += n;
  fqi_pool_serve_idlers(p, &wakes);
  fqi_chan_take(c, w, &wakes);
  if (w->count == 0 && !c->closed) {
    fqi_waiter_link(w, &c->readers);
    c->wanted = 1;
    waits = true;
  }
  fqi_chan_leave(c, &wakes, false);
  if (waits) {
    (void)fqi_chan_sleep(c, &c->readers, w, INT64_MAX);
  }
  return w->count;
}

static void fqi_pool_done(const fq_pool *p, void *task, int error) {
  if (p->config.done != NULL) {
    p->config.done(task, error, p->config.ctx);
  }
}

static void fqi_pool_work(void *arg) {
  fqi_worker *worker = (fqi_worker *)arg;
  fq_pool *p = worker->pool;
  size_t n = 0;
  while ((n = fqi_pool_next(p, worker, n)) > 0) {
    for (size_t i = 0; i < n; i++) {
      void *task = worker->tasks + i * p->queue.ring.item_size;
      fqi_pool_done(p, task, p->config.worker(task, p->config.ctx));
    }
  }
}

/* One block: the workers, then their batches, each on its own cache lines. */
static fq_status fqi_pool_alloc(fq_pool *p, size_t threads, size_t align) {
  size_t line = align > FASTQ_CACHE_LINE ? align : FASTQ_CACHE_LINE;
  size_t size = p->queue.ring.item_size, batch = p->config.batch;
  if (batch > FQI_SIZE_LIMIT / 4 / size || threads > FQI_SIZE_LIMIT / 4 / sizeof(fqi_worker)) {
    return FQ_INVALID;
  }
  size_t head = fqi_round_up(threads * sizeof(fqi_worker), line);
  size_t stride = fqi_round_up(batch * size, line);
  if (threads > (FQI_SIZE_LIMIT - head) / stride) {
    return FQ_INVALID;
  }
  size_t bytes = head + threads * stride;
  unsigned char *memory =
      (unsigned char *)fqi_alloc_aligned(&p->queue.ring.allocator, bytes, line, &p->block);
  if (memory == NULL) {
    return FQ_NOMEM;
  }
  p->workers = (fqi_worker *)(void *)memory;
  for (size_t i = 0; i < threads; i++) {
    p->workers[i].pool = p;
    p->workers[i].tasks = memory + head + i * stride;
  }
  return FQ_OK;
}

/* Starts the workers. They come to their first task only when all of them are there, because
 * pop.lock is held here; p->threads is how many there are to join. */
static fq_status fqi_pool_start(fq_pool *p, size_t threads) {
  fq_status status = FQ_OK;
  fqi_lock_acquire(&p->queue.pop.lock);
  while (p->threads < threads && status == FQ_OK) {
    fqi_worker *worker = &p->workers[p->threads];
    if (!fqi_waiter_open(&worker->waiter)) {
      status = FQ_SYSTEM;
    } else if (fqi_thread_start(&worker->thread, fqi_pool_work, worker, 0) != 0) {
      fqi_waiter_close(&worker->waiter);
      status = FQ_SYSTEM;
    } else {
      p->threads++;
    }
  }
  fqi_lock_release(&p->queue.pop.lock);
  return status;
}

FQI_API fq_status fqi_pool_init(fq_pool *p, const fq_config *config, size_t size, size_t align) {
  if (p == NULL) {
    return FQ_INVALID;
  }
  memset(p, 0, sizeof(*p));
  if (config == NULL || config->worker == NULL) {
    return FQ_INVALID;
  }
  fq_status status = fqi_chan_init(&p->queue, config->limit, size, align, config->allocator);
  if (status != FQ_OK) {
    return status;
  }
  p->finished = p->queue.pop.count;
  p->config = *config;
  p->config.batch = config->batch != 0 ? config->batch : 1;
  size_t threads = config->threads != 0 ? config->threads : fqi_cpu_count();
  status = fqi_pool_alloc(p, threads, align);
  if (status == FQ_OK) {
    status = fqi_pool_start(p, threads);
    if (status == FQ_OK) {
      return FQ_OK;
    }
    (void)fqi_pool_destroy(p, FQ_CANCEL);
  } else {
    fqi_chan_destroy(&p->queue);
  }
  return status;
}

/* Closes the queue and drops what is in it: the workers find it empty, and done gets the tasks. */
static void fqi_pool_cancel(fq_pool *p) {
  fq_chan *c = &p->queue;
  fqi_waiters wakes = {NULL, NULL, 0};
  fqi_chan_enter(c);
  (void)fqi_chan_shut(c, 0, &wakes);
  fq_ring dropped = c->ring;
  c->ring.data = NULL;
  c->ring.capacity = c->ring.head = c->ring.count = 0;
  c->ring.block.memory = NULL;
  c->pop.count += dropped.count;
  fqi_chan_leave(c, &wakes, false);
  fqi_thread_self(&p->canceler);
  fqi_store(&p->canceling, 1); /* [P1] */
  for (size_t i = 0; i < dropped.count; i++) {
    fqi_pool_done(p, fqi_ring_place(&dropped, i, dropped.item_size), FQ_CANCELED);
  }
  fqi_store(&p->canceling, 0);
  wakes.head = wakes.tail = NULL;
  fqi_chan_enter(c);
  p->finished += dropped.count;
  fqi_pool_serve_idlers(p, &wakes);
  fqi_chan_leave(c, &wakes, false);
  fqi_ring_destroy(&dropped);
}

FQI_API fq_status fqi_pool_destroy(fq_pool *p, fq_how how) {
  if (p == NULL || (how != FQ_DRAIN && how != FQ_CANCEL)) {
    return FQ_INVALID;
  }
  if (!fqi_pool_ok(p)) {
    return FQ_OK;
  }
  if (fqi_pool_inside(p)) {
    return FQ_DEADLOCK;
  }
  if (how == FQ_CANCEL) {
    fqi_pool_cancel(p);
  }
  fqi_chan_fail(&p->queue, 0);
  for (size_t i = 0; i < p->threads; i++) {
    fqi_thread_join(&p->workers[i].thread);
    fqi_waiter_close(&p->workers[i].waiter);
  }
  fqi_free(&p->queue.ring.allocator, p->block.memory, p->block.size);
  fqi_chan_destroy(&p->queue);
  memset(p, 0, sizeof(*p));
  return FQ_OK;
}

FQI_API size_t fqi_pool_push_n(fq_pool *p, const void *tasks, size_t n, int64_t timeout,
                               fq_status *why) {
  fq_status status = FQ_INVALID;
  size_t pushed = 0;
  if (fqi_pool_ok(p)) {
    bool stuck = timeout != 0 && p->queue.limit != SIZE_MAX && fqi_pool_inside(p);
    pushed = fqi_chan_push_n(&p->queue, tasks, n, stuck ? FQ_NOWAIT : timeout, &status);
    status = stuck && status == FQ_FULL ? FQ_DEADLOCK : status;
  }
  if (why != NULL) {
    *why = status;
  }
  return pushed;
}

FQI_API fq_status fqi_pool_push(fq_pool *p, const void *task, int64_t timeout) {
  fq_status status;
  (void)fqi_pool_push_n(p, task, 1, timeout, &status);
  return status;
}

FQI_API fq_status fqi_pool_wait(fq_pool *p, int64_t timeout) {
  if (!fqi_pool_ok(p)) {
    return FQ_INVALID;
  }
  if (timeout != 0 && fqi_pool_inside(p)) {
    return FQ_DEADLOCK;
  }
  fq_chan *c = &p->queue;
  fqi_waiter w;
  fqi_waiter_init(&w, NULL, NULL, 0, 0);
  bool waits = false;
  fqi_chan_enter(c);
  if (fqi_pool_is_idle(p)) {
    w.status = FQ_OK;
  } else if (timeout == 0) {
    w.status = FQ_TIMEOUT;
  } else if (!fqi_waiter_open(&w)) {
    w.status = FQ_SYSTEM;
  } else {
    fqi_waiter_link(&w, &c->idlers);
    waits = true;
  }
  fqi_chan_leave(c, NULL, false);
  if (waits) {
    if (!fqi_chan_sleep(c, &c->idlers, &w, fqi_deadline(timeout))) {
      w.status = w.finished ? w.status : FQ_TIMEOUT;
      fqi_chan_leave(c, NULL, false);
    }
    fqi_waiter_close(&w);
  }
  return w.status;
}

#endif /* FASTQ_NO_THREADS */

#ifdef __cplusplus
}
#endif
#endif /* FASTQ_IMPLEMENTATION */
