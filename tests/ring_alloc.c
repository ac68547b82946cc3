/* ring_alloc.c: FQ_RING where things go wrong: no memory, arguments that cannot be right, sizes
 * that overflow, objects that are not alive; and where its memory comes from and goes. */
#include <stdlib.h>

static void *default_alloc(size_t size);
static void default_free(void *p);

#define FASTQ_NO_THREADS /* needs nothing of POSIX, so that another header may come first */
#define FASTQ_MALLOC(n)  default_alloc(n)
#define FASTQ_FREE(p)    default_free(p)
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"

#include "heap.h"
#include "test.h"

FQ_RING(words, uint64_t);
FQ_RING(bytes, uint8_t);

struct line {
  _Alignas(64) uint64_t word;
};
FQ_RING(lines, struct line);

/* What FASTQ_MALLOC and FASTQ_FREE use: rings without an allocator of their own. */
static size_t default_live, default_calls;

static void *default_alloc(size_t size) {
  void *p = malloc(size);
  default_calls++;
  default_live += p != NULL ? 1 : 0;
  return p;
}

static void default_free(void *p) {
  default_live -= p != NULL ? 1 : 0;
  free(p);
}

static struct heap heap; /* a fresh one for each test */
static const fq_allocator on_heap = {heap_alloc, heap_free, &heap};

static void fresh_heap(void) { memset(&heap, 0, sizeof(heap)); }

static void check_heap_is_empty(void) {
  CHECK(heap.live == 0);
  CHECK(!heap.damaged);
}

/* Does the ring hold first, first + 1, ...: count items? */
static bool holds(const words *r, uint64_t first, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const uint64_t *p = words_peek(r, i);
    if (p == NULL || *p != first + i) {
      return false;
    }
  }
  return words_count(r) == count && words_peek(r, count) == NULL;
}

static void push_numbers(words *r, uint64_t first, size_t count) {
  for (size_t i = 0; i < count; i++) {
    CHECK(words_push(r, first + i) == FQ_OK);
  }
}

/* -- Arguments that cannot be right -------------------------------------------------------------- */

static void null_ring(void) {
  uint64_t items[2] = {7, 8};
  size_t n = 2;
  CHECK(words_init(NULL, 1) == FQ_INVALID);
  CHECK(words_init_with(NULL, 1, &on_heap) == FQ_INVALID);
  CHECK(words_init_fixed(NULL, items, 2) == FQ_INVALID);
  CHECK(words_reserve(NULL, 1) == FQ_INVALID);
  CHECK(words_push(NULL, 1) == FQ_INVALID);
  CHECK(words_push_front(NULL, 1) == FQ_INVALID);
  CHECK(words_pop(NULL, items) == FQ_INVALID);
  CHECK(words_push_n(NULL, items, 2) == 0);
  CHECK(words_push_front_n(NULL, items, 2) == 0);
  CHECK(words_push_all(NULL, items, 2) == FQ_INVALID);
  CHECK(words_pop_n(NULL, items, 2) == 0);
  CHECK(words_peek(NULL, 0) == NULL);
  CHECK(words_count(NULL) == 0);
  CHECK(words_capacity(NULL) == 0);
  CHECK(words_write_span(NULL, &n) == NULL && n == 0);
  n = 2;
  CHECK(words_read_span(NULL, &n) == NULL && n == 0);
  words_commit(NULL, 1);
  words_release(NULL, 1);
  words_clear(NULL);
  words_destroy(NULL);
  CHECK(items[0] == 7 && items[1] == 8);
}

static void null_items(void) {
  words r;
  fresh_heap();
  CHECK(words_init_with(&r, 4, &on_heap) == FQ_OK);
  push_numbers(&r, 0, 3);
  CHECK(words_pop(&r, NULL) == FQ_INVALID);
  CHECK(words_push_n(&r, NULL, 2) == 0);
  CHECK(words_push_front_n(&r, NULL, 2) == 0);
  CHECK(words_push_all(&r, NULL, 2) == FQ_INVALID);
  CHECK(words_pop_n(&r, NULL, 2) == 0);
  CHECK(words_write_span(&r, NULL) == NULL);
  CHECK(words_read_span(&r, NULL) == NULL);
  CHECK(words_push_all(&r, NULL, 0) == FQ_OK); /* nothing of nowhere is fine */
  CHECK(words_push_n(&r, NULL, 0) == 0);
  CHECK(words_pop_n(&r, NULL, 0) == 0);
  CHECK(holds(&r, 0, 3));
  CHECK(words_capacity(&r) == 4);
  CHECK(heap.calls == 1);
  words_destroy(&r);
  check_heap_is_empty();
}

static void bad_storage(void) {
  uint64_t storage[3] = {1, 2, 3};
  words r;
  CHECK(words_init_fixed(&r, NULL, 3) == FQ_INVALID);
  words_destroy(&r);
  CHECK(words_init_fixed(&r, storage, 0) == FQ_INVALID);
  words_destroy(&r);
  CHECK(words_init_fixed(&r, storage, SIZE_MAX) == FQ_INVALID);
  words_destroy(&r);
  CHECK(words_init_fixed(&r, storage, SIZE_MAX / sizeof(uint64_t) + 2) == FQ_INVALID);
  words_destroy(&r);
  CHECK(storage[0] == 1 && storage[1] == 2 && storage[2] == 3);
}

static void half_an_allocator(void) {
  const fq_allocator no_free = {heap_alloc, NULL, &heap};
  const fq_allocator no_alloc = {NULL, heap_free, &heap};
  words r;
  fresh_heap();
  CHECK(words_init_with(&r, 1, &no_free) == FQ_INVALID);
  words_destroy(&r);
  CHECK(words_init_with(&r, 1, &no_alloc) == FQ_INVALID);
  words_destroy(&r);
  CHECK(heap.calls == 0);
}

/* Counts whose size in bytes is more than a size_t holds, or than an object can have. */
static const size_t too_many[] = {SIZE_MAX,
                                  SIZE_MAX - 1,
                                  SIZE_MAX / 2,
                                  SIZE_MAX / sizeof(uint64_t) + 3,
                                  SIZE_MAX / sizeof(uint64_t) + 1,
                                  SIZE_MAX / sizeof(uint64_t),
                                  SIZE_MAX / 2 / sizeof(uint64_t) + 1};
enum { TOO_MANY = sizeof(too_many) / sizeof(too_many[0]) };

static void sizes_that_overflow(void) {
  uint64_t storage[4], items[4] = {0, 0, 0, 0};
  words rings[2];
  fresh_heap();
  for (size_t i = 0; i < TOO_MANY; i++) {
    CHECK(words_init_with(&rings[0], too_many[i], &on_heap) == FQ_INVALID);
    words_destroy(&rings[0]);
  }
  CHECK(heap.calls == 0);

  CHECK(words_init_with(&rings[0], 4, &on_heap) == FQ_OK);
  CHECK(words_init_fixed(&rings[1], storage, 4) == FQ_OK);
  for (size_t r = 0; r < 2; r++) {
    push_numbers(&rings[r], 0, 3);
    for (size_t i = 0; i < TOO_MANY; i++) {
      size_t n = too_many[i];
      CHECK(words_reserve(&rings[r], n) == FQ_INVALID);
      CHECK(words_push_n(&rings[r], items, n) == 0);
      CHECK(words_push_front_n(&rings[r], items, n) == 0);
      CHECK(words_push_all(&rings[r], items, n) == FQ_INVALID);
      CHECK(words_peek(&rings[r], n) == NULL);
      words_commit(&rings[r], n);
      words_release(&rings[r], n);
      CHECK(holds(&rings[r], 0, 3));
      CHECK(words_capacity(&rings[r]) == 4);
    }
  }
  CHECK(heap.calls == 1);
  words_destroy(&rings[0]);
  words_destroy(&rings[1]);
  check_heap_is_empty();
}

/* The count alone is a size, but not together with the items that are there. */
static void sums_that_overflow(void) {
  const size_t most = SIZE_MAX / 2;
  uint8_t items[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  bytes r;
  fresh_heap();
  CHECK(bytes_init_with(&r, 2, &on_heap) == FQ_OK);
  CHECK(bytes_push_n(&r, items, 2) == 2);
  for (size_t less = 0; less < 2; less++) {
    CHECK(bytes_push_all(&r, items, most - less) == FQ_NOMEM);
    CHECK(bytes_push_n(&r, items, most - less) == 0); /* it is full */
    CHECK(bytes_push_front_n(&r, items, most - less) == 0);
  }
  CHECK(heap.calls == 1);
  CHECK(bytes_push_all(&r, items, most - 2) == FQ_NOMEM);
  CHECK(heap.calls == 2); /* this could be, so that the allocator was asked */
  CHECK(bytes_count(&r) == 2 && bytes_capacity(&r) == 2);
  CHECK(*bytes_peek(&r, 0) == 1 && *bytes_peek(&r, 1) == 2);
  bytes_destroy(&r);
  check_heap_is_empty();
}

/* "As many as there are" is a fair wish for a span. */
static void spans_without_bound(void) {
  words r;
  size_t n = SIZE_MAX;
  CHECK(words_init(&r, 4) == FQ_OK);
  CHECK(words_read_span(&r, &n) == NULL && n == 0);
  n = SIZE_MAX;
  CHECK(words_write_span(&r, &n) != NULL && n >= 1 && n <= 4);
  push_numbers(&r, 0, 4);
  n = SIZE_MAX;
  const uint64_t *p = words_read_span(&r, &n);
  CHECK(p == words_peek(&r, 0) && n >= 1 && n <= 4);
  n = SIZE_MAX;
  CHECK(words_write_span(&r, &n) != NULL && n >= 1 && n <= words_capacity(&r) - 4);
  CHECK(holds(&r, 0, 4));
  words_destroy(&r);
}

/* -- Life ---------------------------------------------------------------------------------------- */

/* All zero bytes, destroyed, or failed in init: a ring that is empty and takes nothing. */
static void check_is_dead(words *r) {
  uint64_t items[2] = {7, 8};
  size_t n = 2;
  CHECK(words_count(r) == 0);
  CHECK(words_capacity(r) == 0);
  CHECK(words_push(r, 1) != FQ_OK);
  CHECK(words_push_front(r, 1) != FQ_OK);
  CHECK(words_push_n(r, items, 2) == 0);
  CHECK(words_push_front_n(r, items, 2) == 0);
  CHECK(words_push_all(r, items, 2) != FQ_OK);
  CHECK(words_reserve(r, 2) != FQ_OK);
  CHECK(words_pop(r, items) == FQ_EMPTY);
  CHECK(words_pop_n(r, items, 2) == 0);
  CHECK(words_peek(r, 0) == NULL);
  CHECK(words_write_span(r, &n) == NULL && n == 0);
  n = 2;
  CHECK(words_read_span(r, &n) == NULL && n == 0);
  words_commit(r, 1);
  words_release(r, 1);
  words_clear(r);
  CHECK(words_count(r) == 0);
  CHECK(items[0] == 7 && items[1] == 8);
  words_destroy(r);
}

static void dead_rings(void) {
  words r;
  fresh_heap();
  memset(&r, 0, sizeof(r));
  check_is_dead(&r);

  CHECK(words_init_with(&r, 4, &on_heap) == FQ_OK);
  push_numbers(&r, 0, 3);
  words_destroy(&r);
  check_is_dead(&r);
  words_destroy(&r);

  uint64_t storage[2];
  CHECK(words_init_fixed(&r, storage, 2) == FQ_OK);
  push_numbers(&r, 0, 2);
  words_destroy(&r);
  check_is_dead(&r);

  memset(&r, 0x5A, sizeof(r)); /* init takes memory as it comes */
  heap.refuse = true;
  CHECK(words_init_with(&r, 4, &on_heap) == FQ_NOMEM);
  check_is_dead(&r);
  memset(&r, 0x5A, sizeof(r));
  CHECK(words_init_with(&r, SIZE_MAX, &on_heap) == FQ_INVALID);
  check_is_dead(&r);
  memset(&r, 0x5A, sizeof(r));
  CHECK(words_init_fixed(&r, storage, 0) == FQ_INVALID);
  check_is_dead(&r);
  check_heap_is_empty();
}

/* -- Memory -------------------------------------------------------------------------------------- */

static void default_memory(void) {
  words r;
  default_calls = 0;
  CHECK(words_init(&r, 0) == FQ_OK);
  CHECK(default_calls == 0);
  push_numbers(&r, 0, 100);
  CHECK(holds(&r, 0, 100));
  CHECK(default_calls > 1 && default_live == 1);
  words_destroy(&r);
  CHECK(words_init_with(&r, 5, NULL) == FQ_OK);
  CHECK(default_live == 1 && words_capacity(&r) == 5);
  words_destroy(&r);
  CHECK(default_live == 0);
}

static void allocator_is_copied(void) {
  fq_allocator mine = on_heap;
  words r;
  fresh_heap();
  default_calls = 0;
  CHECK(words_init_with(&r, 0, &mine) == FQ_OK);
  memset(&mine, 0, sizeof(mine));
  push_numbers(&r, 0, 100);
  CHECK(heap.live == 1 && default_calls == 0);
  words_destroy(&r);
  check_heap_is_empty();
}

static void fixed_never_allocates(void) {
  uint64_t storage[5], items[7] = {0, 1, 2, 3, 4, 5, 6};
  size_t n = 3;
  words r;
  default_calls = 0;
  CHECK(words_init_fixed(&r, storage, 5) == FQ_OK);
  CHECK(words_push_n(&r, items, 7) == 5);
  CHECK(words_push(&r, 9) == FQ_FULL);
  CHECK(words_push_front(&r, 9) == FQ_FULL);
  CHECK(words_push_all(&r, items, 1) == FQ_FULL);
  CHECK(words_push_front_n(&r, items, 7) == 0);
  CHECK(words_write_span(&r, &n) == NULL && n == 0);
  CHECK(words_reserve(&r, 5) == FQ_OK);
  CHECK(words_reserve(&r, 6) == FQ_FULL);
  CHECK(holds(&r, 0, 5));
  words_destroy(&r);
  CHECK(default_calls == 0);
}

/* Traffic that the capacity holds needs no memory, in whatever way it goes. */
static void steady_traffic_allocates_nothing(void) {
  uint64_t items[7], next = 0, expected = 0;
  words r;
  fresh_heap();
  CHECK(words_init_with(&r, 7, &on_heap) == FQ_OK);
  for (size_t round = 0; round < 10000; round++) {
    size_t n = round % 8;
    for (size_t i = 0; i < n; i++) {
      items[i] = next++;
    }
    if (round % 3 == 0) {
      CHECK(words_push_n(&r, items, n) == n);
    } else if (round % 3 == 1) {
      CHECK(words_push_all(&r, items, n) == FQ_OK);
    } else {
      CHECK(words_push_front_n(&r, items, n) == n);
    }
    for (uint64_t item; words_pop(&r, &item) == FQ_OK;) {
      CHECK(item == expected);
      expected++;
    }
  }
  CHECK(expected == next);
  CHECK(heap.calls == 1);
  CHECK(words_capacity(&r) == 7);
  words_destroy(&r);
  check_heap_is_empty();
}

/* A million items one by one need a few dozen allocations, not a million. */
static void growth_is_amortised(void) {
  enum { MANY = 1000000 };
  words r;
  fresh_heap();
  CHECK(words_init_with(&r, 0, &on_heap) == FQ_OK);
  CHECK(heap.calls == 0);
  for (uint64_t i = 0; i < MANY && CHECK(heap.calls <= 40); i++) {
    CHECK(words_push(&r, i) == FQ_OK);
  }
  CHECK(words_capacity(&r) <= 4 * MANY);
  for (uint64_t i = 0, item; words_pop(&r, &item) == FQ_OK; i++) {
    CHECK(item == i);
  }
  words_destroy(&r);
  check_heap_is_empty();
}

static void storage_is_aligned(void) {
  for (size_t capacity = 0; capacity < 10; capacity++) {
    lines r;
    fresh_heap();
    CHECK(lines_init_with(&r, capacity, &on_heap) == FQ_OK);
    for (uint64_t i = 0; i < 40; i++) {
      CHECK(lines_push(&r, (struct line){.word = i}) == FQ_OK);
      for (uint64_t j = 0; j <= i; j++) {
        const struct line *p = lines_peek(&r, (size_t)j);
        CHECK((uintptr_t)p % 64 == 0 && p->word == j);
      }
    }
    lines_destroy(&r);
    check_heap_is_empty();
  }
}

static void unaligned_storage_is_refused(void) {
  static _Alignas(64) unsigned char storage[64 * 3];
  void *odd = storage + 8;
  lines r;
  CHECK(lines_init_fixed(&r, (struct line *)odd, 2) == FQ_INVALID);
  lines_destroy(&r);
}

/* -- The k-th allocation fails, for every k ------------------------------------------------------ */

/* A ring and what it must hold; next is the next new item. */
struct tracked {
  words ring;
  uint64_t items[600];
  size_t count;
  uint64_t next;
};

static void check_tracked(const struct tracked *t) {
  CHECK(words_count(&t->ring) == t->count);
  CHECK(words_capacity(&t->ring) >= t->count);
  for (size_t i = 0; i < t->count; i++) {
    const uint64_t *p = words_peek(&t->ring, i);
    CHECK(p != NULL && *p == t->items[i]);
  }
  CHECK(!heap.damaged && heap.live <= 1);
}

/* n items that were offered, of which so many were taken: all, unless there was no memory. */
static void taken(struct tracked *t, const uint64_t *items, size_t n, size_t accepted,
                  bool no_memory) {
  CHECK(accepted == n || no_memory);
  CHECK(accepted <= n);
  memcpy(t->items + t->count, items, accepted * sizeof(*items));
  t->count += accepted;
  check_tracked(t);
}

static void push_some(struct tracked *t, size_t n, bool one_by_one) {
  uint64_t items[200] = {0};
  for (size_t i = 0; i < n; i++) {
    items[i] = t->next++;
  }
  if (!one_by_one) {
    size_t accepted = words_push_n(&t->ring, items, n);
    taken(t, items, n, accepted, accepted < n && heap.calls >= heap.fail_at);
    return;
  }
  for (size_t i = 0; i < n; i++) {
    fq_status status = words_push(&t->ring, items[i]);
    CHECK(status == FQ_OK || (status == FQ_NOMEM && heap.calls == heap.fail_at));
    taken(t, items + i, 1, status == FQ_OK ? 1 : 0, status == FQ_NOMEM);
  }
}

static void push_all_or_nothing(struct tracked *t, size_t n) {
  uint64_t items[200];
  for (size_t i = 0; i < n; i++) {
    items[i] = t->next++;
  }
  fq_status status = words_push_all(&t->ring, items, n);
  CHECK(status == FQ_OK || (status == FQ_NOMEM && heap.calls == heap.fail_at));
  taken(t, items, n, status == FQ_OK ? n : 0, status == FQ_NOMEM);
}

static void push_own_items(struct tracked *t) {
  size_t n = SIZE_MAX;
  const uint64_t *items = words_read_span(&t->ring, &n);
  uint64_t copy[200];
  memcpy(copy, items, n * sizeof(*items));
  size_t accepted = words_push_n(&t->ring, items, n);
  taken(t, copy, n, accepted, heap.calls == heap.fail_at);
}

static void drop_some(struct tracked *t, size_t n) {
  uint64_t out[200];
  n = n < t->count ? n : t->count;
  CHECK(words_pop_n(&t->ring, out, n) == n);
  CHECK(memcmp(out, t->items, n * sizeof(out[0])) == 0);
  t->count -= n;
  memmove(t->items, t->items + n, t->count * sizeof(t->items[0]));
  check_tracked(t);
}

static void fill_span(struct tracked *t, size_t wanted) {
  size_t n = wanted;
  uint64_t *span = words_write_span(&t->ring, &n);
  CHECK((span != NULL) == (n > 0));
  CHECK(n <= wanted && (n > 0 || heap.calls >= heap.fail_at));
  for (size_t i = 0; i < n; i++) {
    span[i] = t->next;
    t->items[t->count++] = t->next++;
  }
  words_commit(&t->ring, n);
  check_tracked(t);
}

/* Every way in which a ring gets memory, from places that wrap. */
static void use_memory(struct tracked *t, size_t capacity) {
  fq_status status = words_init_with(&t->ring, capacity, &on_heap);
  if (status != FQ_OK) {
    CHECK(status == FQ_NOMEM && heap.calls == heap.fail_at);
    CHECK(words_init_with(&t->ring, capacity, &on_heap) == FQ_OK); /* the memory is back */
  }
  push_some(t, 20, true);
  drop_some(t, 7);
  push_some(t, 40, false);
  drop_some(t, 20);
  push_own_items(t);
  push_all_or_nothing(t, 50);
  drop_some(t, 30);
  size_t before = words_capacity(&t->ring);
  status = words_reserve(&t->ring, before + 10);
  CHECK(status == FQ_OK || (status == FQ_NOMEM && heap.calls == heap.fail_at));
  CHECK(words_capacity(&t->ring) == (status == FQ_OK ? before + 10 : before));
  check_tracked(t);
  push_some(t, words_capacity(&t->ring) - t->count, false);
  fill_span(t, 60);
  words_destroy(&t->ring);
}

static void each_allocation_fails_once(void) {
  struct tracked t;
  size_t k = 0;
  do {
    fresh_heap();
    heap.fail_at = ++k;
    memset(&t, 0, sizeof(t));
    use_memory(&t, 3);
    check_heap_is_empty();
  } while (heap.calls >= k);
  CHECK(k > 7); /* init, four pushes that grow, reserve, span */
}

int main(void) {
  RUN(null_ring);
  RUN(null_items);
  RUN(bad_storage);
  RUN(half_an_allocator);
  RUN(sizes_that_overflow);
  RUN(sums_that_overflow);
  RUN(spans_without_bound);
  RUN(dead_rings);
  RUN(default_memory);
  RUN(allocator_is_copied);
  RUN(fixed_never_allocates);
  RUN(steady_traffic_allocates_nothing);
  RUN(growth_is_amortised);
  RUN(storage_is_aligned);
  RUN(unaligned_storage_is_refused);
  RUN(each_allocation_fails_once);
  return test_end();
}
