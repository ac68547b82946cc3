/* spsc.c: FQ_SPSC on one thread, against a plain array from every small state, and where things go
 * wrong. lockfree_stress.c has it on several. */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"

#include "queue_model.h"

SPSC_FACE(spsc1, struct item1);
SPSC_FACE(spsc3, struct item3);
SPSC_FACE(spsc7, struct item7);
SPSC_FACE(spsc8, uint64_t);
SPSC_FACE(spsc24, struct item24);
SPSC_FACE(spsc4096, struct item4096);
SPSC_FACE(spsc_line, struct item_line);

static const struct face *const faces[] = {&spsc1_face,    &spsc3_face,  &spsc7_face,
                                           &spsc8_face,    &spsc24_face, &spsc4096_face,
                                           &spsc_line_face};
enum { FACES = sizeof(faces) / sizeof(faces[0]) };

#ifdef TEST_QUICK
enum { MAX_CAPACITY = 9, MAX_PAIRS = 3, LAPS = 300 };
#else
enum { MAX_CAPACITY = 9, MAX_PAIRS = 6, LAPS = 1000 };
#endif

static void agrees_with_array(void) {
  for (size_t i = 0; i < FACES; i++) {
    model_walk(faces[i], MAX_CAPACITY, false);
  }
}

static void pairs_agree_with_array(void) {
  model_walk(&spsc8_face, MAX_PAIRS, true);
  model_walk(&spsc3_face, MAX_PAIRS - 2, true);
}

static void laps(void) {
  for (size_t capacity = 1; capacity <= 16; capacity++) {
    check_laps(&spsc8_face, capacity, LAPS * capacity);
  }
}

static void each(void (*check)(const struct face *f)) {
  for (size_t i = 0; i < FACES; i++) {
    check(faces[i]);
  }
}

static void null_queue(void) { each(check_null); }

static void null_items(void) { each(check_null_items); }

static void bad_init(void) { each(check_bad_init); }

static void too_large(void) { each(check_too_large); }

static void no_memory(void) { each(check_no_memory); }

static void default_memory(void) { each(check_default_memory); }

static void exact_memory(void) { each(check_exact_memory); }

/* Storage that the item type could not lie at. */
static void misaligned_storage(void) {
  union queue q;
  for (size_t i = 0; i < FACES; i++) {
    for (size_t offset = 1; offset < faces[i]->align; offset++) {
      CHECK(faces[i]->init_fixed(&q, model_memory + offset, 1) == FQ_INVALID);
      check_dead(faces[i], &q);
    }
  }
}

/* The items of an allocated queue lie as their type wants it, and begin on a line of their own. */
static void aligned_items(void) {
  struct heap heap = {0};
  const fq_allocator on_heap = {heap_alloc, heap_free, &heap};
  union queue q;
  for (size_t i = 0; i < FACES; i++) {
    for (size_t capacity = 1; capacity <= 5; capacity++) {
      CHECK(faces[i]->init_with(&q, capacity, &on_heap) == FQ_OK);
      CHECK((uintptr_t)q.spsc.data % faces[i]->align == 0);
      CHECK((uintptr_t)q.spsc.data % FASTQ_CACHE_LINE == 0);
      faces[i]->destroy(&q);
    }
  }
  CHECK(heap.live == 0 && !heap.damaged);
}

int main(void) {
  RUN(agrees_with_array);
  RUN(pairs_agree_with_array);
  RUN(laps);
  RUN(null_queue);
  RUN(null_items);
  RUN(bad_init);
  RUN(too_large);
  RUN(no_memory);
  RUN(default_memory);
  RUN(exact_memory);
  RUN(misaligned_storage);
  RUN(aligned_items);
  return test_end();
}
