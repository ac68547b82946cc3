/* heap.h: an fq_allocator that counts, fails when told to, and notices what it must not happen: a
 * write outside a block, a read after free, a size that is not the one asked for, a block freed
 * twice. */
#ifndef HEAP_H_INCLUDED
#define HEAP_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { HEAP_GUARD = 32, HEAP_GUARD_BYTE = 0xA5, HEAP_FREED_BYTE = 0xDD };

struct heap {
  size_t live;         /* blocks that were not freed */
  size_t calls;        /* of alloc_fn */
  size_t fail_at;      /* the call that fails, counted from 1; 0: none */
  bool refuse;         /* every call fails */
  bool damaged;        /* a rule was broken */
  unsigned char *last; /* the newest block */
};

/* Before each block lies its size, and a guard; behind it a guard. */
struct heap_header {
  size_t size;
  unsigned char guard[HEAP_GUARD];
};

enum { HEAP_FRONT = (sizeof(struct heap_header) + 15) / 16 * 16 };

static inline bool heap_is(const unsigned char *p, size_t n, unsigned char byte) {
  return n == 0 || (p[0] == byte && memcmp(p, p + 1, n - 1) == 0);
}

static inline void *heap_alloc(size_t size, void *ctx) {
  struct heap *heap = (struct heap *)ctx;
  if (heap->refuse || ++heap->calls == heap->fail_at || size > SIZE_MAX / 4) {
    return NULL;
  }
  unsigned char *p = (unsigned char *)malloc(HEAP_FRONT + size + HEAP_GUARD);
  if (p == NULL) {
    return NULL;
  }
  memset(p, HEAP_GUARD_BYTE, HEAP_FRONT);
  memcpy(p, &size, sizeof(size));
  memset(p + HEAP_FRONT + size, HEAP_GUARD_BYTE, HEAP_GUARD);
  heap->live++;
  heap->last = p + HEAP_FRONT;
  return heap->last;
}

static inline bool heap_guards_hold(const void *block, size_t size) {
  const unsigned char *p = (const unsigned char *)block;
  return memcmp(p - HEAP_FRONT, &size, sizeof(size)) == 0 &&
         heap_is(p - HEAP_GUARD, HEAP_GUARD, HEAP_GUARD_BYTE) &&
         heap_is(p + size, HEAP_GUARD, HEAP_GUARD_BYTE);
}

static inline void heap_free(void *block, size_t size, void *ctx) {
  struct heap *heap = (struct heap *)ctx;
  if (heap->live == 0 || block == NULL || !heap_guards_hold(block, size)) {
    heap->damaged = true; /* freeing it as well would only crash the report */
    return;
  }
  heap->live--;
  unsigned char *p = (unsigned char *)block - HEAP_FRONT;
  memset(p, HEAP_FREED_BYTE, HEAP_FRONT + size + HEAP_GUARD);
  free(p);
}

#endif
