/* chan_fault.c: FQ_CHAN with the system watched: wakes and allocations are counted, requests
 * refused, waits end without a cause. */
#define FASTQ_IMPLEMENTATION
#include "system.h"

#include "chan_call.h"
#include "heap.h"
#include "test.h"
#include "threads.h"

/* -- What the system refuses ------------------------------------------------------------------- */

static void init_fails_whole(void) {
  for (size_t limit = 0; limit <= 4; limit += 4) {
    size_t k = 0;
    int refused;
    do {
      numbers c;
      sys_refuse(++k);
      fq_status status = numbers_init(&c, limit);
      refused = atomic_load(&sys.refused);
      sys_refuse(0);
      if (refused == SYS_NOTHING) {
        CHECK(status == FQ_OK && holds(&c, 0, 0));
      } else {
        CHECK(status == (refused == SYS_MEMORY ? FQ_NOMEM : FQ_SYSTEM));
        CHECK(sys_is_tidy());
        CHECK(numbers_push(&c, 1, FQ_NOWAIT) == FQ_INVALID);
      }
      numbers_destroy(&c);
      numbers_destroy(&c);
      CHECK(open_with(&c, limit, 1) && holds(&c, 0, 1));
      numbers_destroy(&c);
      CHECK(sys_is_tidy());
    } while (refused != SYS_NOTHING);
    CHECK(k > 1);
  }
}

/* A call that cannot sleep says so. What it moved stays moved and is told, nothing is lost. */
static void waits_that_cannot_be(void) {
  const enum kind kinds[] = {PUSH, PUSH_FRONT, PUSH_N, POP, POP_N};
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    bool reads = kinds[i] == POP || kinds[i] == POP_N;
    size_t before = kinds[i] == POP ? 0 : reads || kinds[i] == PUSH_N ? 1 : 3;
    size_t k = 0;
    int refused;
    do {
      numbers c;
      struct call call = {
          .chan = &c, .kind = kinds[i], .items = {1, 2, 3}, .min = 3, .n = 3, .timeout = 1};
      open_with(&c, 3, before);
      sys_refuse(++k);
      call_run(&call);
      refused = atomic_load(&sys.refused);
      sys_refuse(0);
      CHECK(call.status == (refused == SYS_NOTHING ? FQ_TIMEOUT : FQ_SYSTEM));
      CHECK(kinds[i] == PUSH_N ? call.moved == 2 : call.moved <= (reads ? before : 0));
      CHECK(waiting_in(&c) == 0);
      holds(&c, reads ? call.moved : 0, reads ? before - call.moved : before + call.moved);
      holds(&c, 0, 0);
      numbers_destroy(&c);
      CHECK(sys_is_tidy());
    } while (refused != SYS_NOTHING);
  }
}

static void growth_that_fails(void) {
  struct heap heap = {0};
  const fq_allocator memory = {heap_alloc, heap_free, &heap};
  numbers c;
  uint64_t items[100], pushed = 0;
  fq_status why = FQ_OK;
  for (uint64_t i = 0; i < COUNT_OF(items); i++) {
    items[i] = i;
  }
  CHECK(numbers_init_with(&c, 0, &memory) == FQ_OK);
  heap.refuse = true;
  CHECK(numbers_push(&c, 0, FQ_FOREVER) == FQ_NOMEM && numbers_count(&c) == 0);
  CHECK(numbers_push_front(&c, 0, FQ_FOREVER) == FQ_NOMEM);
  CHECK(numbers_push_n(&c, items, 9, FQ_FOREVER, &why) == 0 && why == FQ_NOMEM);
  heap.refuse = false;
  CHECK(numbers_push(&c, pushed++, FQ_NOWAIT) == FQ_OK);
  heap.refuse = true;
  pushed += numbers_push_n(&c, items + pushed, COUNT_OF(items) - pushed, FQ_FOREVER, &why);
  CHECK(pushed < COUNT_OF(items) && why == FQ_NOMEM && numbers_count(&c) == pushed);
  CHECK(numbers_push(&c, 99, FQ_FOREVER) == FQ_NOMEM);
  CHECK(numbers_push_front(&c, 99, FQ_FOREVER) == FQ_NOMEM);
  CHECK(numbers_set_limit(&c, 1000) == FQ_NOMEM && numbers_limit(&c) == 0);
  CHECK(numbers_count(&c) == pushed);
  heap.refuse = false;
  CHECK(numbers_push_n(&c, items + pushed, COUNT_OF(items) - pushed, FQ_FOREVER, &why) ==
            COUNT_OF(items) - pushed &&
        why == FQ_OK);
  holds(&c, 0, COUNT_OF(items));
  numbers_destroy(&c);
  CHECK(heap.live == 0 && !heap.damaged);
  CHECK(sys_is_tidy());
}

/* The limit goes, but there is no memory for what a waiting writer still has. */
static void writer_that_waits_and_gets_no_memory(void) {
  struct heap heap = {0};
  const fq_allocator memory = {heap_alloc, heap_free, &heap};
  struct crew crew = {0};
  numbers c;
  CHECK(numbers_init_with(&c, 2, &memory) == FQ_OK);
  struct call push = {
      .chan = &c, .kind = PUSH_N, .items = {0, 1, 2, 3, 4, 5}, .n = 6, .timeout = FQ_FOREVER};
  CHECK(call_waits(&crew, &push));
  heap.refuse = true;
  CHECK(numbers_set_limit(&c, 5) == FQ_NOMEM && numbers_limit(&c) == 2);
  CHECK(waiting_is(&c, 1, 0) && numbers_count(&c) == 2);
  CHECK(numbers_set_limit(&c, 0) == FQ_OK && waiting_is(&c, 0, 0));
  crew_join(&crew);
  CHECK(push.status == FQ_NOMEM && push.moved == 2);
  holds(&c, 0, push.moved);
  numbers_destroy(&c);
  CHECK(heap.live == 0 && !heap.damaged);
  CHECK(sys_is_tidy());
}

/* -- Wakes ------------------------------------------------------------------------------------- */

static void watch(const numbers *c) { sys_watch(c, sizeof(*c)); }

static size_t wakes(void) { return atomic_load(&sys.wakes); }

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static void no_wake_without_a_sleeper(void) {
  numbers c;
  uint64_t items[8] = {0};
  open_with(&c, 8, 0);
  watch(&c);
  for (int i = 0; i < 1000; i++) {
    CHECK(numbers_push(&c, 1, FQ_FOREVER) == FQ_OK && numbers_pop(&c, items, 1) == FQ_OK);
    CHECK(numbers_push_n(&c, items, 8, FQ_FOREVER, NULL) == 8);
    CHECK(numbers_push(&c, 1, FQ_NOWAIT) == FQ_FULL);
    CHECK(numbers_pop_n(&c, items, 1, 8, FQ_FOREVER, NULL) == 8);
    CHECK(numbers_pop(&c, items, FQ_NOWAIT) == FQ_EMPTY);
  }
  CHECK(numbers_pop(&c, items, 1) == FQ_TIMEOUT);
  CHECK(numbers_push(&c, 1, FQ_FOREVER) == FQ_OK);
  CHECK(numbers_set_limit(&c, 20) == FQ_OK);
  numbers_close(&c);
  CHECK(wakes() == 0);
  numbers_destroy(&c);
  CHECK(sys_is_tidy());
}

enum { SLEEPERS = 6 };

/* Starts n threads that wait with this call. */
static void put_to_sleep(numbers *c, struct crew *crew, struct call *calls, size_t n,
                         enum kind kind) {
  for (size_t i = 0; i < n; i++) {
    calls[i] = (struct call){.chan = c, .kind = kind, .min = 1, .n = 1, .timeout = FQ_FOREVER};
    CHECK(call_waits(crew, &calls[i]));
  }
}

static size_t count_status(const struct call *calls, size_t n, fq_status status) {
  size_t count = 0;
  for (size_t i = 0; i < n; i++) {
    count += calls[i].status == status ? 1 : 0;
  }
  return count;
}

/* A push of n items wakes as many readers as get one; close wakes the rest. */
static void items_wake_readers(void) {
  for (size_t sleepers = 0; sleepers <= SLEEPERS; sleepers++) {
    for (size_t n = 1; n <= SLEEPERS + 2; n++) {
      numbers c;
      struct crew crew = {0};
      struct call calls[SLEEPERS];
      uint64_t items[SLEEPERS + 2] = {0};
      size_t served = least(n, sleepers);
      open_with(&c, 0, 0);
      put_to_sleep(&c, &crew, calls, sleepers, n % 2 == 0 ? POP : POP_N);
      watch(&c);
      CHECK(numbers_push_n(&c, items, n, FQ_FOREVER, NULL) == n);
      CHECK(wakes() == served);
      CHECK(waiting_is(&c, 0, sleepers - served) && numbers_count(&c) == n - served);
      numbers_close(&c);
      CHECK(wakes() == sleepers);
      crew_join(&crew);
      CHECK(count_status(calls, sleepers, FQ_OK) == served);
      CHECK(count_status(calls, sleepers, FQ_CLOSED) == sleepers - served);
      numbers_destroy(&c);
      CHECK(wakes() == sleepers);
      CHECK(sys_is_tidy());
    }
  }
}

/* A pop of n items wakes as many writers as have room now. */
static void room_wakes_writers(void) {
  for (size_t sleepers = 0; sleepers <= SLEEPERS; sleepers++) {
    for (size_t n = 1; n <= SLEEPERS; n++) {
      numbers c;
      struct crew crew = {0};
      struct call calls[SLEEPERS];
      uint64_t items[SLEEPERS];
      size_t served = least(n, sleepers);
      open_with(&c, SLEEPERS, SLEEPERS);
      put_to_sleep(&c, &crew, calls, sleepers, n % 2 == 0 ? PUSH : PUSH_N);
      watch(&c);
      CHECK(numbers_pop_n(&c, items, n, n, FQ_FOREVER, NULL) == n);
      CHECK(wakes() == served);
      CHECK(waiting_is(&c, sleepers - served, 0));
      CHECK(numbers_count(&c) == SLEEPERS - n + served);
      numbers_fail(&c, 1);
      CHECK(wakes() == sleepers);
      crew_join(&crew);
      CHECK(count_status(calls, sleepers, FQ_OK) == served);
      CHECK(count_status(calls, sleepers, FQ_CLOSED) == sleepers - served);
      numbers_destroy(&c);
      CHECK(sys_is_tidy());
    }
  }
}

/* No wake for less than min, none for a portion: one when the call is through. */
static void one_wake_for_a_bulk_call(void) {
  numbers c;
  struct crew crew = {0};
  uint64_t item;
  open_with(&c, 4, 0);
  struct call pop = {.chan = &c, .kind = POP_N, .min = 4, .n = 4, .timeout = FQ_FOREVER};
  CHECK(call_waits(&crew, &pop));
  watch(&c);
  for (size_t i = 0; i < 4; i++) {
    CHECK(wakes() == 0);
    CHECK(numbers_push(&c, 0, FQ_NOWAIT) == FQ_OK);
  }
  CHECK(wakes() == 1);
  crew_join(&crew);
  struct call push = {.chan = &c, .kind = PUSH_N, .n = 8, .timeout = FQ_FOREVER};
  CHECK(call_waits(&crew, &push));
  for (size_t i = 0; i < 4; i++) {
    CHECK(wakes() == 1);
    CHECK(numbers_pop(&c, &item, FQ_NOWAIT) == FQ_OK);
  }
  CHECK(wakes() == 2);
  crew_join(&crew);
  numbers_destroy(&c);
  CHECK(sys_is_tidy());
}

/* Whoever gave up is not woken, and the item is for another. */
static void no_wake_for_a_thread_that_left(void) {
  numbers c;
  struct crew crew = {0}, gone = {0};
  open_with(&c, 4, 0);
  struct call hasty = {.chan = &c, .kind = POP, .timeout = MILLISECOND};
  struct call patient = {.chan = &c, .kind = POP, .timeout = FQ_FOREVER};
  crew_add(&gone, call_main, &hasty);
  crew_join(&gone);
  CHECK(call_waits(&crew, &patient));
  watch(&c);
  CHECK(numbers_push(&c, 5, FQ_NOWAIT) == FQ_OK && wakes() == 1);
  CHECK(numbers_push(&c, 6, FQ_NOWAIT) == FQ_OK && wakes() == 1);
  crew_join(&crew);
  CHECK(hasty.status == FQ_TIMEOUT && patient.status == FQ_OK && patient.items[0] == 5);
  numbers_destroy(&c);
  CHECK(sys_is_tidy());
}

static void limits_wake_whom_they_concern(void) {
  numbers c;
  struct crew crew = {0};
  struct call calls[SLEEPERS];
  open_with(&c, 1, 1);
  put_to_sleep(&c, &crew, calls, SLEEPERS, PUSH);
  watch(&c);
  CHECK(numbers_set_limit(&c, 4) == FQ_OK && wakes() == 3);
  CHECK(numbers_set_limit(&c, 2) == FQ_OK && wakes() == 3);
  CHECK(numbers_set_limit(&c, 0) == FQ_OK && wakes() == SLEEPERS);
  crew_join(&crew);
  CHECK(count_status(calls, SLEEPERS, FQ_OK) == SLEEPERS);
  numbers_destroy(&c);
  open_with(&c, 9, 0);
  struct call pop = {.chan = &c, .kind = POP_N, .min = 5, .n = 9, .timeout = FQ_FOREVER};
  CHECK(call_waits(&crew, &pop));
  watch(&c);
  CHECK(numbers_set_limit(&c, 5) == FQ_OK && wakes() == 0);
  CHECK(numbers_set_limit(&c, 4) == FQ_OK && wakes() == 1);
  crew_join(&crew);
  CHECK(pop.status == FQ_INVALID);
  numbers_destroy(&c);
  CHECK(sys_is_tidy());
}

/* -- A thread on its way out ------------------------------------------------------------------- */

/* A call whose time is up, and which has still to take the channel's lock in order to leave. */
static void detain(numbers *c, struct crew *crew, struct call *call) {
  watch(c);
  atomic_store(&sys.detains, true);
  crew_add(crew, call_main, call);
  UNTIL(atomic_load(&sys.detained) == 1);
}

static void release(struct crew *crew) {
  atomic_store(&sys.detains, false);
  crew_join(crew);
}

/* It gets the item or it times out, never both and never neither; and it is not woken. */
static void item_for_a_thread_that_leaves(void) {
  numbers c;
  struct crew crew = {0};
  uint64_t item = 0;
  open_with(&c, 2, 0);
  struct call pop = {.chan = &c, .kind = POP, .timeout = MILLISECOND};
  detain(&c, &crew, &pop);
  CHECK(numbers_push(&c, 7, FQ_NOWAIT) == FQ_OK);
  CHECK(wakes() == 0);
  fq_status status = numbers_pop(&c, &item, FQ_NOWAIT);
  release(&crew);
  CHECK(pop.status == FQ_OK || pop.status == FQ_TIMEOUT);
  CHECK(pop.status == FQ_OK ? pop.items[0] == 7 : pop.items[0] == 0);
  CHECK(status == FQ_OK ? item == 7 : status == FQ_EMPTY);
  CHECK((pop.status == FQ_OK) != (status == FQ_OK) || numbers_count(&c) == 1);
  CHECK(waiting_is(&c, 0, 0));
  numbers_destroy(&c);
  CHECK(sys_is_tidy());
}

/* It is told what the channel holds of its items, exactly. */
static void room_for_a_thread_that_leaves(void) {
  numbers c;
  struct crew crew = {0};
  uint64_t item;
  open_with(&c, 2, 2);
  struct call push = {
      .chan = &c, .kind = PUSH_N, .items = {2, 3, 4}, .n = 3, .timeout = MILLISECOND};
  detain(&c, &crew, &push);
  CHECK(numbers_pop(&c, &item, FQ_NOWAIT) == FQ_OK && item == 0);
  CHECK(wakes() == 0);
  release(&crew);
  CHECK(push.status == FQ_TIMEOUT && push.moved <= 1);
  holds(&c, 1, 1 + push.moved);
  CHECK(waiting_is(&c, 0, 0));
  numbers_destroy(&c);
  CHECK(sys_is_tidy());
}

/* Another reader waits for the item that comes now: one of the two has it. */
static void two_readers_one_leaves(void) {
  numbers c;
  struct crew crew = {0}, other = {0};
  open_with(&c, 2, 0);
  struct call leaves = {.chan = &c, .kind = POP, .timeout = MILLISECOND};
  struct call stays = {.chan = &c, .kind = POP, .timeout = FQ_FOREVER};
  detain(&c, &crew, &leaves);
  CHECK(call_waits(&other, &stays));
  CHECK(numbers_push(&c, 7, FQ_NOWAIT) == FQ_OK);
  release(&crew);
  if (leaves.status == FQ_OK) {
    CHECK(numbers_push(&c, 7, FQ_NOWAIT) == FQ_OK);
  } else {
    CHECK(leaves.status == FQ_TIMEOUT);
  }
  crew_join(&other);
  CHECK(stays.status == FQ_OK && stays.items[0] == 7);
  holds(&c, 0, 0);
  numbers_destroy(&c);
  CHECK(sys_is_tidy());
}

struct undertaker {
  numbers *chan;
  atomic_bool over;
};

static void *bury(void *arg) {
  struct undertaker *u = (struct undertaker *)arg;
  numbers_destroy(u->chan);
  atomic_store(&u->over, true);
  return NULL;
}

/* destroy does not end before that thread is out. */
static void destroy_waits_for_a_thread_that_leaves(void) {
  for (int writes = 0; writes < 2; writes++) {
    numbers c;
    struct crew guest = {0}, destroyer = {0};
    struct undertaker undertaker = {.chan = &c};
    open_with(&c, 1, writes != 0 ? 1 : 0);
    struct call call = {.chan = &c, .kind = writes != 0 ? PUSH : POP, .timeout = MILLISECOND};
    detain(&c, &guest, &call);
    crew_add(&destroyer, bury, &undertaker);
    UNTIL(atomic_load(&sys.sleeping) == 1 || atomic_load(&undertaker.over));
    CHECK(!atomic_load(&undertaker.over));
    release(&guest);
    crew_join(&destroyer);
    CHECK(call.status == FQ_CLOSED || call.status == FQ_TIMEOUT);
    CHECK(sys_is_tidy());
  }
}

/* -- Wakes without a cause --------------------------------------------------------------------- */

static void stirring_is_no_timeout(void) {
  const enum kind kinds[] = {PUSH, PUSH_N, POP, POP_N};
  atomic_store(&sys.restless, true);
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    numbers c;
    bool reads = kinds[i] == POP || kinds[i] == POP_N;
    open_with(&c, 2, reads ? 0 : 2);
    struct call call = {.chan = &c, .kind = kinds[i], .min = 1, .n = 2, .timeout = 5 * MILLISECOND};
    call_run(&call);
    CHECK(call.status == FQ_TIMEOUT && call.moved == 0 && call.took >= call.timeout);
    CHECK(numbers_count(&c) == (reads ? 0 : 2));
    numbers_destroy(&c);
  }
  atomic_store(&sys.restless, false);
  CHECK(sys_is_tidy());
}

static void stirring_is_no_item(void) {
  struct crew crew = {0};
  numbers c;
  atomic_store(&sys.restless, true);
  open_with(&c, 3, 0);
  struct call pop = {.chan = &c, .kind = POP_N, .min = 2, .n = 3, .timeout = FQ_FOREVER};
  CHECK(call_waits(&crew, &pop));
  CHECK(numbers_push(&c, 7, FQ_NOWAIT) == FQ_OK);
  for (int spin = 0; spin < 100; spin++) {
    sched_yield();
  }
  CHECK(waiting_is(&c, 0, 1) && !atomic_load(&pop.over));
  CHECK(numbers_push(&c, 8, FQ_NOWAIT) == FQ_OK);
  crew_join(&crew);
  CHECK(pop.status == FQ_OK && pop.moved == 2 && pop.items[1] == 8);
  atomic_store(&sys.restless, false);
  numbers_destroy(&c);
  CHECK(sys_is_tidy());
}

static void *count_up(void *arg) {
  numbers *c = (numbers *)arg;
  for (uint64_t i = 0; i < ROUNDS(5000); i++) {
    CHECK(numbers_push(c, i, i % 2 == 0 ? FQ_FOREVER : 60000 * MILLISECOND) == FQ_OK);
  }
  return NULL;
}

static void stirring_threads_meet(void) {
  struct crew crew = {0};
  numbers c;
  uint64_t item;
  atomic_store(&sys.restless, true);
  open_with(&c, 1, 0);
  crew_add(&crew, count_up, &c);
  for (uint64_t i = 0; i < ROUNDS(5000); i++) {
    CHECK(numbers_pop(&c, &item, FQ_FOREVER) == FQ_OK && item == i);
  }
  crew_join(&crew);
  atomic_store(&sys.restless, false);
  numbers_destroy(&c);
  CHECK(sys_is_tidy());
}

/* -- Locks and memory -------------------------------------------------------------------------- */

static void check_no_lock(void *ctx) {
  CHECK(sys_locks == 0);
  atomic_fetch_add((atomic_size_t *)ctx, 1);
}

static void notify_holds_no_lock(void) {
  numbers c;
  atomic_size_t calls = 0;
  uint64_t item;
  open_with(&c, 2, 1);
  numbers_notify(&c, check_no_lock, &calls);
  CHECK(numbers_pop(&c, &item, FQ_NOWAIT) == FQ_OK);
  CHECK(numbers_push(&c, 1, FQ_NOWAIT) == FQ_OK);
  numbers_close(&c);
  CHECK(atomic_load(&calls) == 3);
  CHECK(sys_locks == 0);
  numbers_destroy(&c);
  CHECK(sys_is_tidy());
}

static void *push_bulks(void *arg) {
  numbers *c = (numbers *)arg;
  const uint64_t items[10] = {0};
  for (size_t i = 0; i < ROUNDS(10000); i++) {
    CHECK(numbers_push_n(c, items, COUNT_OF(items), FQ_FOREVER, NULL) == COUNT_OF(items));
  }
  return NULL;
}

/* Two threads and 100,000 items that wait for each other, and not one allocation. */
static void bounded_channel_does_not_allocate(void) {
  struct heap heap = {0};
  const fq_allocator memory = {heap_alloc, heap_free, &heap};
  for (int own = 0; own < 2; own++) {
    struct crew crew = {0};
    numbers c;
    uint64_t item;
    CHECK(numbers_init_with(&c, 16, own != 0 ? &memory : NULL) == FQ_OK);
    size_t before = heap.calls + atomic_load(&sys.allocations);
    CHECK(before > 0);
    crew_add(&crew, push_bulks, &c);
    for (size_t i = 0; i < 10 * ROUNDS(10000); i++) {
      CHECK(numbers_pop(&c, &item, FQ_FOREVER) == FQ_OK);
    }
    crew_join(&crew);
    CHECK(heap.calls + atomic_load(&sys.allocations) == before);
    numbers_destroy(&c);
  }
  CHECK(heap.live == 0 && !heap.damaged);
  CHECK(sys_is_tidy());
}

static void unbounded_channel_allocates_to_grow(void) {
  numbers c;
  uint64_t items[100] = {0};
  open_with(&c, 0, 100);
  size_t before = atomic_load(&sys.allocations);
  CHECK(before > 0);
  for (size_t i = 0; i < ROUNDS(1000); i++) {
    CHECK(numbers_pop_n(&c, items, 100, 100, FQ_NOWAIT, NULL) == 100);
    CHECK(numbers_push_n(&c, items, 99, FQ_NOWAIT, NULL) == 99);
    CHECK(numbers_push(&c, 0, FQ_NOWAIT) == FQ_OK);
  }
  CHECK(atomic_load(&sys.allocations) == before);
  numbers_destroy(&c);
  CHECK(sys_is_tidy());
}

int main(void) {
  RUN(init_fails_whole);
  RUN(waits_that_cannot_be);
  RUN(growth_that_fails);
  RUN(writer_that_waits_and_gets_no_memory);
  RUN(no_wake_without_a_sleeper);
  RUN(items_wake_readers);
  RUN(room_wakes_writers);
  RUN(one_wake_for_a_bulk_call);
  RUN(no_wake_for_a_thread_that_left);
  RUN(limits_wake_whom_they_concern);
  RUN(item_for_a_thread_that_leaves);
  RUN(room_for_a_thread_that_leaves);
  RUN(two_readers_one_leaves);
  RUN(destroy_waits_for_a_thread_that_leaves);
  RUN(stirring_is_no_timeout);
  RUN(stirring_is_no_item);
  RUN(stirring_threads_meet);
  RUN(notify_holds_no_lock);
  RUN(bounded_channel_does_not_allocate);
  RUN(unbounded_channel_allocates_to_grow);
  return test_end();
}
