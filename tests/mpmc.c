/* mpmc.c: FQ_MPMC, FQ_MPSC and FQ_SPMC on one thread, against a plain array from every small state,
 * and where things go wrong. lockfree_stress.c and its neighbours have them on several. */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"

#include "queue_model.h"

MPMC_FACE(mpmc1, struct item1);
MPMC_FACE(mpmc3, struct item3);
MPMC_FACE(mpmc7, struct item7);
MPMC_FACE(mpmc8, uint64_t);
MPMC_FACE(mpmc24, struct item24);
MPMC_FACE(mpmc4096, struct item4096);
MPMC_FACE(mpmc_line, struct item_line);
MPSC_FACE(mpsc3, struct item3);
MPSC_FACE(mpsc8, uint64_t);
SPMC_FACE(spmc3, struct item3);
SPMC_FACE(spmc8, uint64_t);

static const struct face *const faces[] = {
    &mpmc1_face,    &mpmc3_face,     &mpmc7_face, &mpmc8_face, &mpmc24_face, //
    &mpmc4096_face, &mpmc_line_face, &mpsc3_face, &mpsc8_face, &spmc3_face,  &spmc8_face};
enum { FACES = sizeof(faces) / sizeof(faces[0]) };
static const bool narrow = FQI_POSITIONS <= 0xffff;
static const size_t most_places = FQI_POSITIONS / 16;

#ifdef TEST_QUICK
enum { MAX_CAPACITY = 9, MAX_PAIRS = 3, LAPS = 100 };
#else
enum { MAX_CAPACITY = 9, MAX_PAIRS = 8, LAPS = 3000 };
#endif

static void agrees_with_array(void) {
  for (size_t i = 0; i < FACES; i++) {
    model_walk(faces[i], most_places < 16 ? 8 : MAX_CAPACITY, false);
  }
}

static void pairs_agree_with_array(void) {
  model_walk(&mpmc8_face, MAX_PAIRS, true);
  model_walk(&mpsc8_face, MAX_PAIRS / 2, true);
  model_walk(&spmc8_face, MAX_PAIRS / 2, true);
}

/* Of the positions, where they are narrow. */
static void laps(void) {
  const struct face *const words[] = {&mpmc8_face, &mpsc8_face, &spmc8_face};
  uint64_t positions = narrow ? (uint64_t)FQI_POSITIONS + 1 : 256;
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
    for (size_t capacity = 1; capacity <= 16 && capacity <= most_places; capacity *= 2) {
      uint64_t rounds = positions <= 256 ? LAPS : capacity == 16 ? LAPS / 3 : LAPS / 100;
      check_laps(words[i], capacity, rounds * positions);
    }
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

/* Asked, the next power of two of it reported, and exactly so many fit. */
static void capacities(void) {
  static _Alignas(64) unsigned char memory[4096];
  unsigned char item = 0;
  mpmc1 q;
  for (size_t asked = 1; asked <= 64 && asked <= (most_places + 1) / 2; asked++) {
    size_t capacity = face_capacity(&mpmc1_face, asked), fit = 0;
    CHECK(mpmc1_bytes(asked) > 0 && mpmc1_bytes(asked) <= sizeof(memory));
    CHECK(mpmc1_bytes(asked) == mpmc1_bytes(capacity));
    CHECK(mpmc1_init_fixed(&q, memory, asked) == FQ_OK);
    CHECK(mpmc1_capacity(&q) == capacity);
    while (mpmc1_push(&q, (struct item1){{item}}) == FQ_OK) {
      fit++;
    }
    CHECK(fit == capacity && mpmc1_count(&q) == capacity);
    mpmc1_destroy(&q);
  }
}

/* A capacity is refused, by all alike, or its bytes hold items and marks of so many; it never
 * wraps. */
static void bytes_never_wrap(void) {
  CHECK(mpmc8_bytes(0) == 0);
  for (unsigned bit = 0; bit < sizeof(size_t) * 8; bit++) {
    for (int around = -1; around <= 1; around++) {
      for (size_t i = 0; i < FACES; i++) {
        size_t asked = ((size_t)1 << bit) + (size_t)around;
        size_t bytes = faces[i]->bytes(asked);
        union queue q;
        if (bytes == 0) {
          CHECK(faces[i]->init(&q, asked) == FQ_INVALID);
          CHECK(faces[i]->init_fixed(&q, model_memory, asked) == FQ_INVALID);
        } else {
          size_t capacity = face_capacity(faces[i], asked);
          CHECK(bytes <= SIZE_MAX / 2);
          CHECK(capacity <= bytes / (faces[i]->size + sizeof(size_t)));
        }
      }
    }
  }
}

/* Positions as few as these are for tests, and hold no more than a sixteenth of them at once. */
static void capacity_within_positions(void) {
  size_t most = FQI_POSITIONS / 32 + 1;
  if (!narrow) {
    CHECK(mpmc1_bytes(FQI_POSITIONS) == 0);
    return;
  }
  CHECK(mpmc1_bytes(most) > 0);
  CHECK(mpmc1_bytes(most + 1) == 0);
}

/* Moves total items by pushes and pops of so many, from an empty queue to an empty one. */
static void move(mpmc8 *q, size_t capacity, size_t push, size_t pop, uint64_t total) {
  uint64_t items[MODEL_CAPACITY] = {0};
  for (uint64_t moved = 0; moved < total; moved += capacity) {
    for (size_t i = 0; i < capacity; i += push) {
      CHECK(mpmc8_push_n(q, items, push) == push);
    }
    for (size_t i = 0; i < capacity; i += pop) {
      CHECK(mpmc8_pop_n(q, items, pop) == pop);
    }
  }
}

/* What is left over in the queue's memory by calls of one kind, and by those of another is not
 * overwritten, must not pass for news when the positions come round again: then an empty queue would
 * give an item, or a full one take it. */
static void old_news(size_t capacity, const size_t *first, const size_t *then) {
  static unsigned char memory[1024];
  uint64_t item = 0;
  mpmc8 q;
  CHECK(mpmc8_bytes(capacity) <= sizeof(memory));
  CHECK(mpmc8_init_fixed(&q, memory, capacity) == FQ_OK);
  move(&q, capacity, first[0], first[1], capacity);
  move(&q, capacity, then[0], then[1], (uint64_t)FQI_POSITIONS + 1 - capacity);
  for (size_t i = 0; i < capacity; i++) {
    CHECK(mpmc8_pop(&q, &item) == FQ_EMPTY);
    CHECK(mpmc8_push(&q, i) == FQ_OK);
    CHECK(mpmc8_pop(&q, &item) == FQ_OK && item == i);
  }
  for (size_t i = 0; i < 3 * capacity; i++) {
    CHECK(mpmc8_push(&q, i) == FQ_OK);
    CHECK(mpmc8_count(&q) < capacity || mpmc8_push(&q, 99) == FQ_FULL);
    if (mpmc8_count(&q) == capacity) {
      CHECK(mpmc8_pop(&q, &item) == FQ_OK && item + capacity == i + 1);
    }
  }
  mpmc8_destroy(&q);
}

static void positions_come_round(void) {
  for (size_t capacity = 1; capacity <= 8; capacity *= 2) {
    size_t sizes[4];
    for (size_t i = 0; i < 256; i++) {
      for (size_t j = 0; j < 4; j++) {
        sizes[j] = (size_t)1 << (i >> 2 * j & 3);
      }
      if (sizes[0] <= capacity && sizes[1] <= capacity && sizes[2] <= capacity &&
          sizes[3] <= capacity && (FQI_POSITIONS <= 0xff || capacity == 8)) {
        old_news(capacity, sizes, sizes + 2);
      }
    }
  }
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
  RUN(capacities);
  RUN(bytes_never_wrap);
  RUN(capacity_within_positions);
  if (narrow) {
    RUN(positions_come_round);
  }
  return test_end();
}
