/* chan.c: what FQ_CHAN answers: every status, every wait with threads brought to a known place. */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"

#include "chan_call.h"
#include "chan_face.h"
#include "heap.h"
#include "items.h"
#include "test.h"
#include "threads.h"

/* -- Statuses, on one thread ------------------------------------------------------------------- */

static void nothing_happens(void *ctx) { (void)ctx; }

/* NULL, and an object without an open channel in it, answer FQ_INVALID and touch nothing. */
static void check_dead(numbers *c) {
  uint64_t item = 7;
  fq_status why = FQ_OK;
  size_t producers = 5, consumers = 5;
  fq_iter it = {0};
  CHECK(numbers_push(c, 1, FQ_FOREVER) == FQ_INVALID);
  CHECK(numbers_push_front(c, 1, FQ_FOREVER) == FQ_INVALID);
  CHECK(numbers_pop(c, &item, FQ_FOREVER) == FQ_INVALID);
  CHECK(numbers_push_n(c, &item, 1, FQ_FOREVER, &why) == 0 && why == FQ_INVALID);
  why = FQ_OK;
  CHECK(numbers_pop_n(c, &item, 1, 1, FQ_FOREVER, &why) == 0 && why == FQ_INVALID);
  CHECK(numbers_push_n(c, &item, 1, FQ_FOREVER, NULL) == 0);
  CHECK(numbers_set_limit(c, 5) == FQ_INVALID);
  CHECK(!numbers_next(c, &it, &item) && it.status == FQ_INVALID && it.count == 0);
  CHECK(numbers_count(c) == 0 && numbers_limit(c) == 0 && numbers_error(c) == 0);
  numbers_waiting(c, &producers, &consumers);
  CHECK(producers == 0 && consumers == 0);
  (void)numbers_closed(c);
  numbers_close(c);
  numbers_fail(c, 3);
  numbers_notify(c, nothing_happens, NULL);
  CHECK(item == 7);
  numbers_destroy(c);
}

static void dead_objects(void) {
  numbers c;
  check_dead(NULL);
  memset(&c, 0, sizeof(c));
  check_dead(&c);
  CHECK(numbers_init(&c, SIZE_MAX) == FQ_INVALID);
  check_dead(&c);
  CHECK(numbers_init(&c, 3) == FQ_OK);
  CHECK(numbers_push(&c, 1, FQ_NOWAIT) == FQ_OK);
  numbers_destroy(&c);
  numbers_destroy(&c);
  check_dead(&c);
  CHECK(numbers_init(NULL, 3) == FQ_INVALID);
  CHECK(numbers_init_with(NULL, 3, NULL) == FQ_INVALID);
}

static void null_arguments(void) {
  numbers c;
  fq_status why = FQ_OK;
  uint64_t item = 7;
  open_with(&c, 4, 2);
  CHECK(numbers_pop(&c, NULL, FQ_FOREVER) == FQ_INVALID);
  CHECK(numbers_push_n(&c, NULL, 1, FQ_FOREVER, &why) == 0 && why == FQ_INVALID);
  CHECK(numbers_pop_n(&c, NULL, 0, 1, FQ_FOREVER, &why) == 0 && why == FQ_INVALID);
  CHECK(!numbers_next(&c, NULL, &item));
  fq_iter it = {0};
  CHECK(!numbers_next(&c, &it, NULL) && it.status == FQ_INVALID && it.count == 0);
  numbers_waiting(&c, NULL, NULL);
  size_t n = 9;
  numbers_waiting(&c, &n, NULL);
  CHECK(n == 0);
  n = 9;
  numbers_waiting(&c, NULL, &n);
  CHECK(n == 0);
  CHECK(item == 7);
  holds(&c, 0, 2);
  numbers_destroy(&c);
}

static void bulk_of_nothing(void) {
  numbers c;
  fq_status why = FQ_SYSTEM;
  open_with(&c, 2, 2);
  for (int closed = 0; closed < 2; closed++) {
    CHECK(numbers_push_n(&c, NULL, 0, FQ_FOREVER, &why) == 0 && why == FQ_OK);
    why = FQ_SYSTEM;
    CHECK(numbers_pop_n(&c, NULL, 0, 0, FQ_FOREVER, &why) == 0 && why == FQ_OK);
    numbers_close(&c);
  }
  holds(&c, 0, 2);
  numbers_destroy(&c);
}

/* A bulk call that could not be right moves nothing, whatever there is. */
static void bulk_bounds(void) {
  static uint64_t items[4] = {7, 7, 7, 7};
  const size_t too_many[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2, SIZE_MAX / 8 + 1,
                             SIZE_MAX / 16 + 1};
  numbers c;
  fq_status why;
  open_with(&c, 3, 2);
  for (size_t i = 0; i < COUNT_OF(too_many); i++) {
    why = FQ_OK;
    CHECK(numbers_push_n(&c, items, too_many[i], FQ_NOWAIT, &why) == 0 && why == FQ_INVALID);
  }
  why = FQ_OK;
  CHECK(numbers_pop_n(&c, items, 2, 1, FQ_FOREVER, &why) == 0 && why == FQ_INVALID);
  why = FQ_OK;
  CHECK(numbers_pop_n(&c, items, 1, 0, FQ_FOREVER, &why) == 0 && why == FQ_INVALID);
  why = FQ_OK;
  CHECK(numbers_pop_n(&c, items, 4, 4, FQ_FOREVER, &why) == 0 && why == FQ_INVALID);
  CHECK(items[0] == 7);
  holds(&c, 0, 2);
  numbers_destroy(&c);
}

static void sizes_that_overflow(void) {
  struct heap heap = {.refuse = true};
  const fq_allocator memory = {heap_alloc, heap_free, &heap};
  const size_t limits[] = {SIZE_MAX,         SIZE_MAX - 1,         SIZE_MAX / 2 + 1,
                           SIZE_MAX / 2,     SIZE_MAX / 2 - 1,     SIZE_MAX / 8 + 1,
                           SIZE_MAX / 8,     SIZE_MAX / 16 + 1,    SIZE_MAX / 16,
                           SIZE_MAX / 2 / 3, SIZE_MAX / 2 / 3 + 1, SIZE_MAX / 400 + 1};
  for (size_t f = 0; f < FACES; f++) {
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
      union any_chan c;
      bool overflows = limits[i] > SIZE_MAX / 2 / faces[f]->size;
      fq_status expected = overflows ? FQ_INVALID : FQ_NOMEM;
      heap.refuse = true;
      CHECK(faces[f]->init_with(&c, limits[i], &memory) == expected);
      faces[f]->destroy(&c);
      heap.refuse = false;
      CHECK(faces[f]->init_with(&c, 2, &memory) == FQ_OK);
      heap.refuse = true;
      CHECK(faces[f]->set_limit(&c, limits[i]) == expected);
      CHECK(faces[f]->limit(&c) == 2 && faces[f]->count(&c) == 0);
      faces[f]->destroy(&c);
    }
  }
  CHECK(heap.live == 0 && !heap.damaged);
}

static void half_an_allocator(void) {
  struct heap heap = {0};
  const fq_allocator no_free = {heap_alloc, NULL, &heap}, no_alloc = {NULL, heap_free, &heap};
  numbers c;
  CHECK(numbers_init_with(&c, 2, &no_free) == FQ_INVALID);
  numbers_destroy(&c);
  CHECK(numbers_init_with(&c, 2, &no_alloc) == FQ_INVALID);
  numbers_destroy(&c);
  CHECK(heap.calls == 0);
}

static void full_and_empty(void) {
  numbers c;
  uint64_t item = 7, items[3] = {4, 5, 6};
  fq_status why = FQ_OK;
  open_with(&c, 2, 2);
  CHECK(numbers_limit(&c) == 2 && !numbers_closed(&c));
  CHECK(numbers_push(&c, 9, FQ_NOWAIT) == FQ_FULL);
  CHECK(numbers_push_front(&c, 9, FQ_NOWAIT) == FQ_FULL);
  CHECK(numbers_push_n(&c, items, 3, FQ_NOWAIT, &why) == 0 && why == FQ_FULL);
  holds(&c, 0, 2);
  CHECK(numbers_pop(&c, &item, FQ_NOWAIT) == FQ_EMPTY);
  CHECK(numbers_pop_n(&c, &item, 1, 1, FQ_NOWAIT, &why) == 0 && why == FQ_EMPTY);
  CHECK(numbers_pop_n(&c, &item, 0, 1, FQ_FOREVER, &why) == 0 && why == FQ_OK);
  CHECK(item == 7);
  CHECK(numbers_push_n(&c, items, 3, FQ_NOWAIT, &why) == 2 && why == FQ_FULL);
  CHECK(numbers_pop_n(&c, items, 3, 3, FQ_NOWAIT, &why) == 0 && why == FQ_INVALID);
  holds(&c, 4, 2);
  numbers_push(&c, 8, FQ_NOWAIT);
  CHECK(numbers_pop_n(&c, items, 2, 3, FQ_NOWAIT, &why) == 1 && why == FQ_EMPTY);
  CHECK(items[0] == 8 && items[1] == 5);
  numbers_destroy(&c);
  open_with(&c, 0, 5000);
  CHECK(numbers_limit(&c) == 0);
  holds(&c, 0, 5000);
  numbers_destroy(&c);
}

/* For a reader an item beats closed beats empty, for a writer closed beats full. */
static void what_beats_what(void) {
  const int64_t timeouts[] = {FQ_NOWAIT, 1, FQ_FOREVER};
  for (size_t t = 0; t < COUNT_OF(timeouts); t++) {
    numbers c;
    uint64_t item = 7, items[4] = {7, 7, 7, 7};
    fq_status why = FQ_OK;
    open_with(&c, 4, 4);
    numbers_close(&c);
    for (int again = 0; again < 2; again++) {
      CHECK(numbers_closed(&c));
      CHECK(numbers_push(&c, 9, timeouts[t]) == FQ_CLOSED);
      CHECK(numbers_push_front(&c, 9, timeouts[t]) == FQ_CLOSED);
      CHECK(numbers_push_n(&c, items, 2, timeouts[t], &why) == 0 && why == FQ_CLOSED);
      numbers_close(&c);
    }
    CHECK(numbers_pop(&c, &item, timeouts[t]) == FQ_OK && item == 0);
    CHECK(numbers_pop_n(&c, items, 1, 1, timeouts[t], &why) == 1 && why == FQ_OK);
    CHECK(numbers_push(&c, 9, timeouts[t]) == FQ_CLOSED); /* also when there is room */
    CHECK(numbers_pop_n(&c, items, 3, 4, timeouts[t], &why) == 2 && why == FQ_CLOSED);
    CHECK(items[0] == 2 && items[1] == 3 && items[2] == 7);
    for (int again = 0; again < 2; again++) {
      CHECK(numbers_pop(&c, &item, timeouts[t]) == FQ_CLOSED && item == 0);
      CHECK(numbers_pop_n(&c, items, 0, 4, timeouts[t], &why) == 0 && why == FQ_CLOSED);
      CHECK(numbers_pop_n(&c, items, 1, 4, timeouts[t], &why) == 0 && why == FQ_CLOSED);
      CHECK(numbers_closed(&c) && numbers_count(&c) == 0);
    }
    numbers_destroy(&c);
  }
}

static void first_end_decides(void) {
  numbers c;
  uint64_t item;
  open_with(&c, 2, 1);
  CHECK(numbers_error(&c) == 0);
  numbers_fail(&c, -5);
  CHECK(numbers_error(&c) == -5 && numbers_closed(&c));
  numbers_fail(&c, 6);
  numbers_close(&c);
  CHECK(numbers_error(&c) == -5);
  CHECK(numbers_push(&c, 1, FQ_FOREVER) == FQ_CLOSED);
  CHECK(numbers_pop(&c, &item, FQ_FOREVER) == FQ_OK && item == 0);
  CHECK(numbers_pop(&c, &item, FQ_FOREVER) == FQ_CLOSED);
  numbers_destroy(&c);
  open_with(&c, 2, 0);
  numbers_close(&c);
  numbers_fail(&c, 6);
  CHECK(numbers_error(&c) == 0);
  numbers_destroy(&c);
}

/* -- Against a plain array, on one thread ------------------------------------------------------ */

enum { MODEL_ITEMS = 512, MODEL_BULK = 9 };

struct model {
  const struct face *face;
  union any_chan chan;
  size_t limit; /* SIZE_MAX: unbounded */
  bool closed;
  uint64_t items[MODEL_ITEMS];
  size_t count;
  uint64_t next; /* the number of the next new item */
};

static void model_drop(struct model *m, size_t n) {
  m->count -= n;
  memmove(m->items, m->items + n, m->count * sizeof(m->items[0]));
}

static size_t model_room(const struct model *m) {
  return m->closed || m->count >= m->limit ? 0 : m->limit - m->count;
}

/* A call that can end at once ends the same with any timeout. */
static int64_t any_timeout(bool waits, uint64_t *seed) {
  const int64_t timeouts[] = {FQ_NOWAIT, 1, INT64_MAX, FQ_FOREVER};
  return waits ? FQ_NOWAIT : timeouts[random_below(seed, COUNT_OF(timeouts))];
}

static void model_push(struct model *m, bool front, uint64_t *seed) {
  unsigned char item[ITEM_SIZE_MAX];
  bool room = model_room(m) > 0;
  item_make(item, m->face->size, m->next);
  int64_t timeout = any_timeout(!room && !m->closed, seed);
  fq_status status =
      front ? m->face->push_front(&m->chan, item, timeout) : m->face->push(&m->chan, item, timeout);
  CHECK(status == (room ? FQ_OK : m->closed ? FQ_CLOSED : FQ_FULL));
  if (room && front) {
    memmove(m->items + 1, m->items, m->count * sizeof(m->items[0]));
  }
  if (room) {
    m->items[front ? 0 : m->count] = m->next++;
    m->count++;
  }
}

static void model_push_n(struct model *m, size_t n, uint64_t *seed) {
  unsigned char items[MODEL_BULK * ITEM_SIZE_MAX];
  size_t size = m->face->size;
  size_t expected = n < model_room(m) ? n : model_room(m);
  fq_status why = FQ_SYSTEM;
  for (size_t i = 0; i < n; i++) {
    item_make(items + i * size, size, m->next + i);
  }
  int64_t timeout = any_timeout(expected < n && !m->closed, seed);
  CHECK(m->face->push_n(&m->chan, items, n, timeout, &why) == expected);
  CHECK(why == (expected == n ? FQ_OK : m->closed ? FQ_CLOSED : FQ_FULL));
  for (size_t i = 0; i < expected; i++) {
    m->items[m->count++] = m->next++;
  }
}

/* Do the items at out carry the first n numbers, and are the bytes behind them as they were? */
static bool model_same(const struct model *m, const unsigned char *out, size_t n, size_t room) {
  size_t size = m->face->size;
  for (size_t i = 0; i < n; i++) {
    uint64_t number;
    if (!item_read(out + i * size, size, &number) || number != item_number_of(m->items[i], size)) {
      return false;
    }
  }
  return heap_is(out + n * size, (room - n) * size, HEAP_GUARD_BYTE);
}

static void model_pop(struct model *m, uint64_t *seed) {
  unsigned char out[ITEM_SIZE_MAX];
  bool some = m->count > 0;
  memset(out, HEAP_GUARD_BYTE, sizeof(out));
  fq_status status = m->face->pop(&m->chan, out, any_timeout(!some && !m->closed, seed));
  CHECK(status == (some ? FQ_OK : m->closed ? FQ_CLOSED : FQ_EMPTY));
  CHECK(model_same(m, out, some ? 1 : 0, 1));
  model_drop(m, some ? 1 : 0);
}

static void model_pop_n(struct model *m, size_t min, size_t max, uint64_t *seed) {
  unsigned char out[MODEL_BULK * ITEM_SIZE_MAX];
  fq_status why = FQ_SYSTEM, expected_why = FQ_OK;
  size_t expected = max < m->count ? max : m->count;
  if (min > max || (max > 0 && min > m->limit)) {
    expected = 0;
    expected_why = FQ_INVALID;
  } else if (max > 0 && m->closed && (expected < min || expected == 0)) {
    expected_why = FQ_CLOSED;
  } else if (expected < min) {
    expected_why = FQ_EMPTY;
  }
  memset(out, HEAP_GUARD_BYTE, sizeof(out));
  int64_t timeout = any_timeout(expected_why == FQ_EMPTY, seed);
  CHECK(m->face->pop_n(&m->chan, out, min, max, timeout, &why) == expected);
  CHECK(why == expected_why);
  CHECK(model_same(m, out, expected, MODEL_BULK));
  model_drop(m, expected);
}

static bool model_step(struct model *m, uint64_t *seed) {
  static const size_t limits[] = {0, 1, 2, 3, 7, 16};
  size_t what = random_below(seed, 64);
  if (m->count > MODEL_ITEMS - 2 * MODEL_BULK) {
    what = 24 + what % 36;
  }
  if (what < 6) {
    model_push(m, what < 3, seed);
  } else if (what < 24) {
    model_push_n(m, random_below(seed, MODEL_BULK), seed);
  } else if (what < 36) {
    model_pop(m, seed);
  } else if (what < 60) {
    model_pop_n(m, random_below(seed, MODEL_BULK), random_below(seed, MODEL_BULK), seed);
  } else if (what < 62) {
    size_t limit = limits[random_below(seed, COUNT_OF(limits))];
    CHECK(m->face->set_limit(&m->chan, limit) == FQ_OK);
    m->limit = limit != 0 ? limit : SIZE_MAX;
  } else if (random_below(seed, 8) == 0) {
    m->face->close(&m->chan);
    m->closed = true;
  }
  CHECK(m->face->count(&m->chan) == m->count);
  CHECK(m->face->limit(&m->chan) == (m->limit != SIZE_MAX ? m->limit : 0));
  CHECK(m->face->closed(&m->chan) == m->closed);
  return atomic_load(&test_failures) == 0;
}

static void agrees_with_array(void) {
  static const size_t limits[] = {0, 1, 2, 7, 16};
  for (size_t run = 0; run < 40 * FACES * COUNT_OF(limits); run++) {
    static struct model m;
    uint64_t seed = run;
    struct heap heap = {0};
    const fq_allocator memory = {heap_alloc, heap_free, &heap};
    memset(&m, 0, sizeof(m));
    m.face = faces[run % FACES];
    m.limit = limits[run / FACES % COUNT_OF(limits)];
    CHECK(m.face->init_with(&m.chan, m.limit, &memory) == FQ_OK);
    m.limit = m.limit != 0 ? m.limit : SIZE_MAX;
    for (int step = 0; step < 500 && model_step(&m, &seed); step++) {
    }
    m.face->destroy(&m.chan);
    if (!CHECK(heap.live == 0 && !heap.damaged) || atomic_load(&test_failures) > 0) {
      return; /* a model that does not agree any more would wait for what never comes */
    }
  }
}

/* -- Waiting ----------------------------------------------------------------------------------- */

static void push_waits_for_room(void) {
  for (int front = 0; front < 2; front++) {
    numbers c;
    struct crew crew = {0};
    uint64_t item;
    open_with(&c, 2, 2);
    struct call push = {
        .chan = &c, .kind = front != 0 ? PUSH_FRONT : PUSH, .items = {9}, .timeout = FQ_FOREVER};
    CHECK(call_waits(&crew, &push));
    CHECK(waiting_is(&c, 1, 0));
    CHECK(numbers_pop(&c, &item, FQ_NOWAIT) == FQ_OK && item == 0);
    crew_join(&crew);
    CHECK(push.status == FQ_OK);
    uint64_t out[2] = {0, 0};
    CHECK(numbers_pop_n(&c, out, 2, 2, FQ_NOWAIT, NULL) == 2);
    CHECK(out[front != 0 ? 0 : 1] == 9 && out[front != 0 ? 1 : 0] == 1);
    numbers_destroy(&c);
  }
}

static void pop_waits_for_item(void) {
  numbers c;
  struct crew crew = {0};
  open_with(&c, 2, 0);
  struct call pop = {.chan = &c, .kind = POP, .timeout = FQ_FOREVER};
  CHECK(call_waits(&crew, &pop));
  CHECK(waiting_is(&c, 0, 1));
  CHECK(numbers_push(&c, 9, FQ_NOWAIT) == FQ_OK);
  CHECK(numbers_count(&c) == 0 && waiting_is(&c, 0, 0)); /* handed over, not queued */
  crew_join(&crew);
  CHECK(pop.status == FQ_OK && pop.items[0] == 9);
  numbers_destroy(&c);
}

enum { LINE = 5 };

static void waiting_readers_keep_their_order(void) {
  numbers c;
  struct crew crew = {0};
  struct call calls[LINE] = {{0}};
  uint64_t items[LINE] = {0, 1, 2, 3, 4};
  open_with(&c, 0, 0);
  for (size_t i = 0; i < LINE; i++) {
    calls[i] = (struct call){.chan = &c, .kind = POP, .timeout = FQ_FOREVER};
    CHECK(call_waits(&crew, &calls[i]));
  }
  CHECK(numbers_push(&c, items[0], FQ_NOWAIT) == FQ_OK);
  CHECK(waiting_is(&c, 0, LINE - 1));
  CHECK(numbers_push_n(&c, items + 1, LINE - 1, FQ_NOWAIT, NULL) == LINE - 1);
  crew_join(&crew);
  for (size_t i = 0; i < LINE; i++) {
    CHECK(calls[i].status == FQ_OK && calls[i].items[0] == i);
  }
  numbers_destroy(&c);
}

/* Room goes to the writer that has waited longest; a newcomer finds the channel full. */
static void waiting_writers_keep_their_order(void) {
  numbers c;
  struct crew crew = {0};
  struct call calls[LINE] = {{0}};
  uint64_t item;
  open_with(&c, 1, 1);
  for (uint64_t i = 0; i < LINE; i++) {
    calls[i] = (struct call){.chan = &c, .kind = PUSH, .items = {i + 1}, .timeout = FQ_FOREVER};
    CHECK(call_waits(&crew, &calls[i]));
  }
  for (uint64_t i = 0; i <= LINE; i++) {
    CHECK(numbers_pop(&c, &item, FQ_NOWAIT) == FQ_OK && item == i);
    CHECK(numbers_push(&c, 99, FQ_NOWAIT) == (i < LINE ? FQ_FULL : FQ_OK));
  }
  crew_join(&crew);
  for (size_t i = 0; i < LINE; i++) {
    CHECK(calls[i].status == FQ_OK);
  }
  numbers_destroy(&c);
}

/* A waiting push_n goes on by portions, in order. */
static void push_n_waits_in_portions(void) {
  numbers c;
  struct crew crew = {0};
  uint64_t items[4];
  open_with(&c, 3, 1);
  struct call push = {
      .chan = &c, .kind = PUSH_N, .items = {1, 2, 3, 4, 5, 6, 7, 8}, .n = 8, .timeout = FQ_FOREVER};
  CHECK(call_waits(&crew, &push));
  CHECK(numbers_count(&c) == 3);
  for (uint64_t first = 0; first < 6; first += 2) {
    CHECK(numbers_pop_n(&c, items, 2, 2, FQ_NOWAIT, NULL) == 2);
    CHECK(items[0] == first && items[1] == first + 1);
    CHECK(numbers_count(&c) == 3);
  }
  crew_join(&crew);
  CHECK(push.moved == 8 && push.status == FQ_OK);
  holds(&c, 6, 3);
  numbers_destroy(&c);
}

/* One pop_n takes more than the limit when writers wait with the rest. */
static void pop_n_takes_what_writers_bring(void) {
  numbers c;
  struct crew crew = {0};
  uint64_t items[CALL_ITEMS];
  fq_status why;
  open_with(&c, 2, 2);
  struct call push = {
      .chan = &c, .kind = PUSH_N, .items = {2, 3, 4, 5, 6}, .n = 5, .timeout = FQ_FOREVER};
  CHECK(call_waits(&crew, &push));
  size_t n = numbers_pop_n(&c, items, 1, CALL_ITEMS, FQ_NOWAIT, &why);
  CHECK(why == FQ_OK && n >= 2);
  for (uint64_t i = 0; i < n; i++) {
    CHECK(items[i] == i);
  }
  while (n < 7) {
    CHECK(numbers_pop(&c, items, FQ_NOWAIT) == FQ_OK && items[0] == n);
    n++;
  }
  crew_join(&crew);
  CHECK(push.moved == 5 && push.status == FQ_OK);
  numbers_destroy(&c);
}

/* -- min and max ------------------------------------------------------------------------------- */

enum { READERS = 3 };

struct reader_model {
  size_t min, max, got;
  bool gone;
};

/* What waiting readers get when count items are there: in their order, each whose min is there. */
static size_t serve(struct reader_model *readers, size_t count) {
  for (size_t i = 0; i < READERS; i++) {
    if (!readers[i].gone && readers[i].min <= count) {
      readers[i].got = readers[i].max < count ? readers[i].max : count;
      readers[i].gone = true;
      count -= readers[i].got;
    }
  }
  return count;
}

static void check_different_mins(const size_t *mins, size_t limit, size_t portion) {
  numbers c;
  struct crew crew = {0};
  struct call calls[READERS];
  struct reader_model model[READERS];
  uint64_t items[CALL_ITEMS] = {0};
  size_t count = 0, left = READERS;
  open_with(&c, limit, 0);
  for (size_t i = 0; i < READERS; i++) {
    size_t max = mins[i] + 1;
    model[i] = (struct reader_model){.min = mins[i], .max = max};
    calls[i] =
        (struct call){.chan = &c, .kind = POP_N, .min = mins[i], .n = max, .timeout = FQ_FOREVER};
    CHECK(call_waits(&crew, &calls[i]));
  }
  while (left > 0) {
    size_t pushed = numbers_push_n(&c, items, portion, FQ_NOWAIT, NULL);
    CHECK(pushed == portion);
    count = serve(model, count + pushed);
    left = 0;
    for (size_t i = 0; i < READERS; i++) {
      left += model[i].gone ? 0 : 1;
    }
    if (!CHECK(waiting_is(&c, 0, left)) || !CHECK(numbers_count(&c) == count)) {
      numbers_close(&c);
      break;
    }
  }
  crew_join(&crew);
  for (size_t i = 0; i < READERS; i++) {
    CHECK(calls[i].status == FQ_OK && calls[i].moved == model[i].got);
  }
  numbers_destroy(&c);
}

/* Nobody sleeps on a count that is enough for him, in whatever order they came. */
static void different_mins(void) {
  static const size_t orders[][READERS] = {{1, 3, 10}, {1, 10, 3}, {3, 1, 10}, {3, 10, 1},
                                           {10, 1, 3}, {10, 3, 1}, {3, 3, 10}, {10, 10, 1}};
  for (size_t i = 0; i < COUNT_OF(orders); i++) {
    for (size_t portion = 1; portion <= 10; portion++) {
      check_different_mins(orders[i], 0, portion);
    }
    check_different_mins(orders[i], 10, 1);
  }
}

/* A reader that waits for more does not keep what is there from one that wants less. */
static void nothing_is_held_back(void) {
  numbers c;
  struct crew crew = {0};
  uint64_t item;
  open_with(&c, 0, 0);
  struct call big = {.chan = &c, .kind = POP_N, .min = 3, .n = 5, .timeout = FQ_FOREVER};
  CHECK(call_waits(&crew, &big));
  for (uint64_t i = 0; i < 2; i++) {
    CHECK(numbers_push(&c, i, FQ_NOWAIT) == FQ_OK);
  }
  CHECK(numbers_pop(&c, &item, FQ_NOWAIT) == FQ_OK && item == 0);
  for (uint64_t i = 2; i < 4; i++) {
    CHECK(waiting_is(&c, 0, 1));
    CHECK(numbers_push(&c, i, FQ_NOWAIT) == FQ_OK);
  }
  crew_join(&crew);
  CHECK(big.status == FQ_OK && big.moved == 3 && big.items[0] == 1 && big.items[2] == 3);
  numbers_destroy(&c);
}

/* When the reader with the least min gives up, the others are still found. */
static void others_wait_on_after_a_timeout(void) {
  numbers c;
  struct crew patient = {0}, hasty = {0};
  uint64_t items[3] = {0, 1, 2};
  open_with(&c, 0, 0);
  struct call three = {.chan = &c, .kind = POP_N, .min = 3, .n = 3, .timeout = FQ_FOREVER};
  struct call one = {.chan = &c, .kind = POP, .timeout = MILLISECOND};
  CHECK(call_waits(&patient, &three));
  crew_add(&hasty, call_main, &one);
  crew_join(&hasty);
  CHECK(one.status == FQ_TIMEOUT);
  CHECK(numbers_push_n(&c, items, 2, FQ_NOWAIT, NULL) == 2);
  CHECK(waiting_is(&c, 0, 1) && numbers_count(&c) == 2);
  CHECK(numbers_push(&c, 2, FQ_NOWAIT) == FQ_OK);
  CHECK(waiting_is(&c, 0, 0) && numbers_count(&c) == 0);
  crew_join(&patient);
  CHECK(three.status == FQ_OK && three.moved == 3);
  numbers_destroy(&c);
}

/* -- Timeouts ---------------------------------------------------------------------------------- */

static const int64_t short_waits[] = {1,           999,     MICROSECOND,     50 * MICROSECOND,
                                      MILLISECOND, 3000001, 7 * MILLISECOND, 20 * MILLISECOND};

static void timeouts_are_never_early(void) {
  for (size_t i = 0; i < COUNT_OF(short_waits); i++) {
    const enum kind kinds[] = {PUSH, PUSH_FRONT, PUSH_N, POP, POP_N};
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
      numbers c;
      bool reads = kinds[k] == POP || kinds[k] == POP_N;
      open_with(&c, 2, reads ? 0 : 2);
      struct call call = {
          .chan = &c, .kind = kinds[k], .min = 1, .n = 2, .timeout = short_waits[i]};
      call_run(&call);
      CHECK(call.status == FQ_TIMEOUT && call.moved == 0);
      CHECK(call.took >= short_waits[i]);
      CHECK(waiting_is(&c, 0, 0));
      CHECK(numbers_count(&c) == (reads ? 0 : 2));
      numbers_destroy(&c);
    }
  }
}

/* What was moved before the time was up stays moved and is told. */
static void timeouts_leave_a_prefix(void) {
  for (size_t i = 0; i < COUNT_OF(short_waits); i++) {
    numbers c;
    open_with(&c, 4, 1);
    struct call push = {
        .chan = &c, .kind = PUSH_N, .items = {1, 2, 3, 4, 5}, .n = 5, .timeout = short_waits[i]};
    call_run(&push);
    CHECK(push.status == FQ_TIMEOUT && push.moved == 3 && push.took >= short_waits[i]);
    holds(&c, 0, 4);
    CHECK(numbers_push(&c, 8, FQ_NOWAIT) == FQ_OK);
    struct call pop = {.chan = &c, .kind = POP_N, .min = 2, .n = 4, .timeout = short_waits[i]};
    call_run(&pop);
    CHECK(pop.status == FQ_TIMEOUT && pop.moved == 1 && pop.took >= short_waits[i]);
    CHECK(pop.items[0] == 8 && pop.items[1] == 0);
    CHECK(numbers_count(&c) == 0);
    numbers_destroy(&c);
  }
}

/* A push_n that got part of its room while it waited tells the sum when its time is up. (On a very
 * slow machine its time is up before.) */
static void timeout_after_a_portion(void) {
  numbers c;
  struct crew crew = {0};
  uint64_t item;
  open_with(&c, 2, 2);
  struct call push = {
      .chan = &c, .kind = PUSH_N, .items = {2, 3, 4}, .n = 3, .timeout = 300 * MILLISECOND};
  CHECK(call_waits(&crew, &push));
  CHECK(numbers_pop(&c, &item, FQ_NOWAIT) == FQ_OK && item == 0);
  crew_join(&crew);
  CHECK(push.status == FQ_TIMEOUT && push.moved <= 1 && push.took >= push.timeout);
  holds(&c, 1, 1 + push.moved);
  numbers_destroy(&c);
}

static void long_timeouts_do_not_return(void) {
  const int64_t now = now_ns();
  const int64_t timeouts[] = {FQ_FOREVER,    -2,
                              INT64_MIN,     INT64_MAX,
                              INT64_MAX - 1, INT64_MAX - now,
                              INT64_MAX / 2, INT64_MAX - now - 60000 * MILLISECOND};
  for (size_t i = 0; i < COUNT_OF(timeouts); i++) {
    numbers c;
    struct crew crew = {0};
    uint64_t item;
    open_with(&c, 1, 0);
    struct call pop = {.chan = &c, .kind = POP, .timeout = timeouts[i]};
    CHECK(call_waits(&crew, &pop));
    for (int spin = 0; spin < 100; spin++) {
      sched_yield();
    }
    CHECK(!atomic_load(&pop.over));
    CHECK(numbers_push(&c, 5, FQ_NOWAIT) == FQ_OK);
    crew_join(&crew);
    CHECK(pop.status == FQ_OK && pop.items[0] == 5);

    CHECK(numbers_push(&c, 6, FQ_NOWAIT) == FQ_OK);
    struct call push = {.chan = &c, .kind = PUSH, .items = {7}, .timeout = timeouts[i]};
    CHECK(call_waits(&crew, &push));
    CHECK(numbers_pop(&c, &item, FQ_NOWAIT) == FQ_OK && item == 6);
    crew_join(&crew);
    CHECK(push.status == FQ_OK);
    holds(&c, 7, 1);
    numbers_destroy(&c);
  }
}

/* -- Close ------------------------------------------------------------------------------------- */

static void end(numbers *c, int error) {
  if (error != 0) {
    numbers_fail(c, error);
  } else {
    numbers_close(c);
  }
}

static void close_frees_readers(void) {
  for (int error = 0; error < 2; error++) {
    numbers c;
    struct crew crew = {0};
    struct call calls[LINE];
    open_with(&c, 10, 0);
    for (size_t i = 0; i < LINE; i++) {
      calls[i] = (struct call){.chan = &c, .kind = i == 0 ? POP : POP_N, .timeout = FQ_FOREVER};
      calls[i].min = i + 3;
      calls[i].n = 10;
    }
    CHECK(call_waits(&crew, &calls[0]));
    CHECK(numbers_push(&c, 8, FQ_NOWAIT) == FQ_OK);
    for (size_t i = 1; i < LINE; i++) {
      CHECK(call_waits(&crew, &calls[i]));
    }
    CHECK(numbers_push(&c, 9, FQ_NOWAIT) == FQ_OK && numbers_push(&c, 10, FQ_NOWAIT) == FQ_OK);
    CHECK(waiting_is(&c, 0, LINE - 1));
    end(&c, error);
    CHECK(waiting_is(&c, 0, 0) && numbers_count(&c) == 0);
    crew_join(&crew);
    CHECK(calls[0].status == FQ_OK && calls[0].items[0] == 8);
    CHECK(calls[1].moved == 2 && calls[1].items[0] == 9 && calls[1].items[1] == 10);
    for (size_t i = 1; i < LINE; i++) {
      CHECK(calls[i].status == FQ_CLOSED && calls[i].moved == (i == 1 ? 2 : 0));
    }
    CHECK(numbers_error(&c) == error);
    numbers_destroy(&c);
  }
}

static void close_frees_writers(void) {
  for (int error = 0; error < 2; error++) {
    numbers c;
    struct crew crew = {0};
    struct call calls[LINE];
    open_with(&c, 3, 2);
    for (size_t i = 0; i < LINE; i++) {
      calls[i] = (struct call){.chan = &c, .kind = PUSH_N, .n = 4, .timeout = FQ_FOREVER};
      calls[i].items[0] = 2;
      calls[i].kind = i == 3 ? PUSH : i == 4 ? PUSH_FRONT : PUSH_N;
      CHECK(call_waits(&crew, &calls[i]));
    }
    end(&c, error);
    CHECK(waiting_is(&c, 0, 0));
    crew_join(&crew);
    for (size_t i = 0; i < LINE; i++) {
      CHECK(calls[i].status == FQ_CLOSED && calls[i].moved == (i == 0 ? 1 : 0));
    }
    holds(&c, 0, 3);
    numbers_destroy(&c);
  }
}

/* -- set_limit --------------------------------------------------------------------------------- */

static void raising_frees_writers(void) {
  const size_t raised[] = {2, 3, 6, 0};
  for (size_t i = 0; i < COUNT_OF(raised); i++) {
    numbers c;
    struct crew crew = {0};
    open_with(&c, 1, 1);
    struct call one = {.chan = &c, .kind = PUSH, .items = {1}, .timeout = FQ_FOREVER};
    struct call more = {
        .chan = &c, .kind = PUSH_N, .items = {2, 3, 4, 5}, .n = 4, .timeout = FQ_FOREVER};
    CHECK(call_waits(&crew, &one));
    CHECK(call_waits(&crew, &more));
    size_t room = raised[i] != 0 && raised[i] < 6 ? raised[i] : 6;
    CHECK(numbers_set_limit(&c, raised[i]) == FQ_OK && numbers_limit(&c) == raised[i]);
    CHECK(numbers_count(&c) == room && waiting_is(&c, room < 6 ? 1 : 0, 0));
    numbers_close(&c);
    crew_join(&crew);
    CHECK(one.status == FQ_OK);
    CHECK(more.moved == room - 2 && more.status == (room < 6 ? FQ_CLOSED : FQ_OK));
    holds(&c, 0, room);
    numbers_destroy(&c);
  }
}

static void lowering_drops_nothing(void) {
  numbers c;
  uint64_t item;
  open_with(&c, 5, 5);
  CHECK(numbers_set_limit(&c, 2) == FQ_OK);
  CHECK(numbers_limit(&c) == 2 && numbers_count(&c) == 5);
  for (uint64_t i = 0; i < 4; i++) {
    CHECK(numbers_push(&c, 9, FQ_NOWAIT) == FQ_FULL);
    CHECK(numbers_pop(&c, &item, FQ_NOWAIT) == FQ_OK && item == i);
  }
  CHECK(numbers_push(&c, 5, FQ_NOWAIT) == FQ_OK);
  CHECK(numbers_push(&c, 9, FQ_NOWAIT) == FQ_FULL);
  holds(&c, 4, 2);
  numbers_destroy(&c);
}

static void unbounded_and_back(void) {
  numbers c;
  open_with(&c, 2, 2);
  CHECK(numbers_set_limit(&c, 0) == FQ_OK && numbers_limit(&c) == 0);
  for (uint64_t i = 2; i < 100; i++) {
    CHECK(numbers_push(&c, i, FQ_NOWAIT) == FQ_OK);
  }
  CHECK(numbers_set_limit(&c, 3) == FQ_OK && numbers_limit(&c) == 3);
  CHECK(numbers_push(&c, 100, FQ_NOWAIT) == FQ_FULL);
  holds(&c, 0, 100);
  for (uint64_t i = 0; i < 3; i++) {
    CHECK(numbers_push(&c, i, FQ_NOWAIT) == FQ_OK);
  }
  CHECK(numbers_push(&c, 3, FQ_NOWAIT) == FQ_FULL);
  holds(&c, 0, 3);
  numbers_destroy(&c);
}

/* A reader that could never be served any more leaves as the same call would now. */
static void lowering_below_a_min(void) {
  numbers c;
  struct crew crew = {0};
  open_with(&c, 10, 4);
  struct call five = {.chan = &c, .kind = POP_N, .min = 5, .n = 9, .timeout = FQ_FOREVER};
  struct call six = {.chan = &c, .kind = POP_N, .min = 6, .n = 9, .timeout = FQ_FOREVER};
  CHECK(call_waits(&crew, &six));
  CHECK(call_waits(&crew, &five));
  CHECK(numbers_set_limit(&c, 5) == FQ_OK);
  CHECK(waiting_is(&c, 0, 1) && numbers_count(&c) == 4);
  CHECK(numbers_push(&c, 4, FQ_NOWAIT) == FQ_OK);
  crew_join(&crew);
  CHECK(six.status == FQ_INVALID && six.moved == 0);
  CHECK(five.status == FQ_OK && five.moved == 5 && five.items[4] == 4);
  numbers_destroy(&c);
}

static void set_limit_on_a_closed_channel(void) {
  numbers c;
  open_with(&c, 2, 2);
  numbers_close(&c);
  CHECK(numbers_set_limit(&c, 8) == FQ_OK && numbers_limit(&c) == 8);
  CHECK(numbers_push(&c, 9, FQ_FOREVER) == FQ_CLOSED);
  holds(&c, 0, 2);
  numbers_destroy(&c);
}

/* -- notify ------------------------------------------------------------------------------------ */

struct listener {
  numbers *chan;
  size_t calls;
  size_t count; /* what the channel held at the last call */
  bool closed, pops;
};

static void on_notify(void *ctx) {
  struct listener *l = (struct listener *)ctx;
  uint64_t item;
  l->calls++;
  l->count = numbers_count(l->chan);
  l->closed = numbers_closed(l->chan);
  while (l->pops && numbers_pop(l->chan, &item, FQ_NOWAIT) == FQ_OK) {
  }
}

static void notify_tells_each_edge_once(void) {
  numbers c;
  uint64_t items[4] = {0, 1, 2, 3};
  open_with(&c, 8, 0);
  struct listener l = {.chan = &c};
  numbers_notify(&c, on_notify, &l);
  CHECK(l.calls == 0);
  for (size_t edge = 1; edge <= 3; edge++) {
    CHECK(numbers_push(&c, 1, FQ_NOWAIT) == FQ_OK && l.calls == edge && l.count == 1);
    CHECK(numbers_push(&c, 1, FQ_NOWAIT) == FQ_OK && numbers_push_front(&c, 1, 0) == FQ_OK);
    CHECK(numbers_pop(&c, items, FQ_NOWAIT) == FQ_OK && l.calls == edge);
    CHECK(numbers_push_n(&c, items, 4, FQ_NOWAIT, NULL) == 4 && l.calls == edge);
    CHECK(numbers_pop_n(&c, items, 4, 4, FQ_NOWAIT, NULL) == 4);
    CHECK(numbers_pop_n(&c, items, 2, 2, FQ_NOWAIT, NULL) == 2);
    CHECK(numbers_pop(&c, items, FQ_NOWAIT) == FQ_EMPTY && l.calls == edge);
  }
  CHECK(numbers_push_n(&c, items, 3, FQ_NOWAIT, NULL) == 3 && l.calls == 4 && l.count == 3);
  numbers_close(&c);
  CHECK(l.calls == 5 && l.closed && l.count == 3);
  numbers_close(&c);
  numbers_fail(&c, 2);
  CHECK(numbers_push(&c, 1, FQ_NOWAIT) == FQ_CLOSED && l.calls == 5);
  numbers_destroy(&c);
  CHECK(l.calls == 5);
}

static void notify_tells_what_is_there_already(void) {
  numbers c;
  open_with(&c, 8, 2);
  struct listener l = {.chan = &c}, other = {.chan = &c};
  numbers_notify(&c, on_notify, &l);
  CHECK(l.calls == 1 && l.count == 2 && !l.closed);
  numbers_notify(&c, on_notify, &other);
  CHECK(l.calls == 1 && other.calls == 1);
  numbers_notify(&c, NULL, NULL);
  holds(&c, 0, 2);
  CHECK(numbers_push(&c, 1, FQ_NOWAIT) == FQ_OK && l.calls == 1 && other.calls == 1);
  holds(&c, 1, 1);
  numbers_close(&c);
  CHECK(l.calls == 1 && other.calls == 1);
  numbers_notify(&c, on_notify, &l);
  CHECK(l.calls == 2 && l.closed);
  numbers_destroy(&c);
}

/* The callback may pop; so the next push is an edge again. */
static void notify_callback_may_pop(void) {
  numbers c;
  open_with(&c, 2, 0);
  struct listener l = {.chan = &c, .pops = true};
  numbers_notify(&c, on_notify, &l);
  for (size_t i = 1; i <= 5; i++) {
    CHECK(numbers_push(&c, i, FQ_NOWAIT) == FQ_OK && l.calls == i && numbers_count(&c) == 0);
  }
  numbers_destroy(&c);
  CHECK(l.calls == 6 && l.closed); /* destroy closes */
}

static void set_limit_in_notify(void *ctx) {
  CHECK(numbers_set_limit((numbers *)ctx, 5) == FQ_OK);
  CHECK(numbers_push((numbers *)ctx, 8, FQ_NOWAIT) == FQ_OK);
  numbers_notify((numbers *)ctx, NULL, NULL);
  numbers_close((numbers *)ctx);
}

static void notify_callback_may_do_anything(void) {
  numbers c;
  open_with(&c, 1, 0);
  numbers_notify(&c, set_limit_in_notify, &c);
  CHECK(numbers_push(&c, 7, FQ_NOWAIT) == FQ_OK);
  CHECK(numbers_closed(&c) && numbers_limit(&c) == 5);
  holds(&c, 7, 2);
  numbers_destroy(&c);
}

/* An item that goes to a waiting reader never makes the channel non-empty. */
static void notify_ignores_items_handed_over(void) {
  numbers c;
  struct crew crew = {0};
  uint64_t items[3] = {1, 2, 3};
  open_with(&c, 8, 0);
  struct listener l = {.chan = &c};
  numbers_notify(&c, on_notify, &l);
  struct call one = {.chan = &c, .kind = POP, .timeout = FQ_FOREVER}, two = one, three = one;
  CHECK(call_waits(&crew, &one));
  CHECK(call_waits(&crew, &two));
  CHECK(numbers_push(&c, 0, FQ_NOWAIT) == FQ_OK && l.calls == 0);
  CHECK(numbers_push_n(&c, items, 1, FQ_NOWAIT, NULL) == 1 && l.calls == 0);
  crew_join(&crew);
  CHECK(call_waits(&crew, &three));
  CHECK(numbers_push_n(&c, items, 3, FQ_NOWAIT, NULL) == 3 && l.calls == 1 && l.count == 2);
  crew_join(&crew);
  numbers_destroy(&c);
}

/* -- The stream -------------------------------------------------------------------------------- */

static void next_reads_to_the_end(void) {
  for (int error = 0; error < 2; error++) {
    numbers c;
    uint64_t item = 99, n = 0;
    open_with(&c, 8, 5);
    end(&c, error);
    fq_iter it = {0};
    while (numbers_next(&c, &it, &item)) {
      CHECK(item == n);
      n++;
    }
    CHECK(n == 5 && it.count == 5 && it.status == FQ_CLOSED && it.error == error);
    CHECK(!numbers_next(&c, &it, &item) && it.status == FQ_CLOSED && it.count == 5);
    CHECK(item == 4);
    numbers_destroy(&c);
  }
}

static void next_stops_at_its_limit(void) {
  numbers c;
  uint64_t item = 99;
  open_with(&c, 8, 5);
  fq_iter it = FQ_ITER(.limit = 3);
  for (uint64_t i = 0; i < 3; i++) {
    CHECK(numbers_next(&c, &it, &item) && item == i && it.count == i + 1);
  }
  for (int again = 0; again < 2; again++) {
    CHECK(!numbers_next(&c, &it, &item) && it.status == FQ_OK && it.count == 3);
  }
  holds(&c, 3, 2);
  numbers_close(&c);
  CHECK(!numbers_next(&c, &it, &item) && it.status == FQ_OK && it.error == 0);
  numbers_destroy(&c);
}

static void next_times_out(void) {
  numbers c;
  uint64_t item = 99;
  open_with(&c, 8, 0);
  fq_iter it = FQ_ITER(.first_timeout_ns = 5 * MILLISECOND, .between_timeout_ns = MILLISECOND);
  int64_t start = now_ns();
  CHECK(!numbers_next(&c, &it, &item) && it.status == FQ_TIMEOUT && it.count == 0);
  CHECK(now_ns() - start >= 5 * MILLISECOND);
  CHECK(numbers_push(&c, 4, FQ_NOWAIT) == FQ_OK);
  CHECK(numbers_next(&c, &it, &item) && item == 4 && it.count == 1); /* it goes on */
  start = now_ns();
  CHECK(!numbers_next(&c, &it, &item) && it.status == FQ_TIMEOUT && it.count == 1);
  CHECK(now_ns() - start >= MILLISECOND);
  numbers_fail(&c, 3);
  CHECK(!numbers_next(&c, &it, &item) && it.status == FQ_CLOSED && it.error == 3);
  numbers_destroy(&c);
}

struct stream {
  numbers *chan;
  fq_iter it;
  atomic_size_t read;
};

static void *stream_main(void *arg) {
  struct stream *s = (struct stream *)arg;
  uint64_t item;
  while (numbers_next(s->chan, &s->it, &item)) {
    atomic_fetch_add(&s->read, 1);
  }
  return NULL;
}

/* A zero timeout waits for ever, for the first item and between, and each only where it is
 * asked. */
static void next_waits(void) {
  const fq_iter iters[] = {{0},
                           {.first_timeout_ns = -1, .between_timeout_ns = -1},
                           {.first_timeout_ns = INT64_MAX},
                           {.between_timeout_ns = INT64_MAX - 1}};
  for (size_t i = 0; i < COUNT_OF(iters); i++) {
    numbers c;
    struct crew crew = {0};
    open_with(&c, 8, 0);
    struct stream s = {.chan = &c, .it = iters[i]};
    crew_add(&crew, stream_main, &s);
    for (size_t n = 0; n < 3; n++) {
      UNTIL(waiting_is(&c, 0, 1));
      CHECK(numbers_push(&c, n, FQ_NOWAIT) == FQ_OK);
      UNTIL(atomic_load(&s.read) == n + 1);
    }
    UNTIL(waiting_is(&c, 0, 1));
    numbers_fail(&c, 7);
    crew_join(&crew);
    CHECK(s.it.status == FQ_CLOSED && s.it.error == 7 && s.it.count == 3);
    numbers_destroy(&c);
  }
}

/* A short first timeout says nothing about the wait between items, and the other way round. */
static void next_keeps_its_timeouts_apart(void) {
  numbers c;
  struct crew crew = {0};
  open_with(&c, 8, 1);
  struct stream first = {.chan = &c, .it = {.first_timeout_ns = 1}};
  crew_add(&crew, stream_main, &first);
  UNTIL(atomic_load(&first.read) == 1 && waiting_is(&c, 0, 1));
  numbers_close(&c);
  crew_join(&crew);
  CHECK(first.it.status == FQ_CLOSED && first.it.count == 1);
  numbers_destroy(&c);
  open_with(&c, 8, 0);
  struct stream between = {.chan = &c, .it = {.between_timeout_ns = 1}};
  crew_add(&crew, stream_main, &between);
  UNTIL(waiting_is(&c, 0, 1));
  CHECK(numbers_push(&c, 1, FQ_NOWAIT) == FQ_OK);
  crew_join(&crew);
  CHECK(between.it.status == FQ_TIMEOUT && between.it.count == 1);
  numbers_destroy(&c);
}

int main(void) {
  RUN(dead_objects);
  RUN(null_arguments);
  RUN(bulk_of_nothing);
  RUN(bulk_bounds);
  RUN(sizes_that_overflow);
  RUN(half_an_allocator);
  RUN(full_and_empty);
  RUN(what_beats_what);
  RUN(first_end_decides);
  RUN(agrees_with_array);
  RUN(push_waits_for_room);
  RUN(pop_waits_for_item);
  RUN(waiting_readers_keep_their_order);
  RUN(waiting_writers_keep_their_order);
  RUN(push_n_waits_in_portions);
  RUN(pop_n_takes_what_writers_bring);
  RUN(different_mins);
  RUN(nothing_is_held_back);
  RUN(others_wait_on_after_a_timeout);
  RUN(timeouts_are_never_early);
  RUN(timeouts_leave_a_prefix);
  RUN(timeout_after_a_portion);
  RUN(long_timeouts_do_not_return);
  RUN(close_frees_readers);
  RUN(close_frees_writers);
  RUN(raising_frees_writers);
  RUN(lowering_drops_nothing);
  RUN(unbounded_and_back);
  RUN(lowering_below_a_min);
  RUN(set_limit_on_a_closed_channel);
  RUN(notify_tells_each_edge_once);
  RUN(notify_tells_what_is_there_already);
  RUN(notify_callback_may_pop);
  RUN(notify_callback_may_do_anything);
  RUN(notify_ignores_items_handed_over);
  RUN(next_reads_to_the_end);
  RUN(next_stops_at_its_limit);
  RUN(next_times_out);
  RUN(next_waits);
  RUN(next_keeps_its_timeouts_apart);
  return test_end();
}
