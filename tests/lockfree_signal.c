/* lockfree_signal.c: queues between a signal handler and the program that it interrupts. Another
 * thread sends a storm of signals, so that the handler comes in anywhere, in the calls as well. */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"

#include "threads.h"

#include <signal.h>
#include <string.h>

FQ_SPSC(one_way, uint64_t);
FQ_MPMC(all_ways, uint64_t);

enum { CAPACITY = 8, BULK = 5 };

static _Alignas(64) uint64_t storage[CAPACITY];
static one_way spsc;
static all_ways mpmc;

/* Items are numbered by each side; those of the handler for itself carry a mark. */
#define FROM_HANDLER (UINT64_C(1) << 63)

static void (*handler_work)(void);
static atomic_size_t handled;
static atomic_bool over;

/* What the handler does and sees; the program reads it when no more signals come. */
static struct {
  uint64_t pushed, popped, next[2];
  bool wrong;
} in_handler;

static void on_signal(int number) {
  (void)number;
  handler_work();
  atomic_fetch_add(&handled, 1);
}

/* Sends the next signal when the last was handled. */
static void *storm(void *arg) {
  pthread_t *target = (pthread_t *)arg;
  for (size_t sent = 1; !atomic_load(&over); sent++) {
    pthread_kill(*target, SIGUSR1);
    UNTIL(atomic_load(&handled) == sent || atomic_load(&over));
  }
  return NULL;
}

/* Does program until it says that it is done, under the storm. */
static void under_storm(void (*work)(void), bool (*program)(uint64_t *seed)) {
  struct sigaction action, before;
  struct crew crew = {0};
  pthread_t self = pthread_self();
  uint64_t seed = 3;
  memset(&action, 0, sizeof(action));
  memset(&in_handler, 0, sizeof(in_handler));
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  handler_work = work;
  atomic_store(&handled, 0);
  atomic_store(&over, false);
  CHECK(sigaction(SIGUSR1, &action, &before) == 0);
  crew_add(&crew, storm, &self);
  while (!program(&seed)) {
  }
  atomic_store(&over, true);
  crew_join(&crew);
  CHECK(sigaction(SIGUSR1, &before, NULL) == 0);
  CHECK(atomic_load(&handled) > 0);
  CHECK(!in_handler.wrong);
}

/* -- FQ_SPSC: from the handler to the program -------------------------------------------------------- */

static const uint64_t enough = ROUNDS(12000);
static uint64_t arrived; /* at the program */

static void handler_pushes(void) {
  uint64_t items[BULK];
  size_t n = (size_t)(in_handler.pushed % BULK) + 1;
  for (size_t i = 0; i < n; i++) {
    items[i] = in_handler.pushed + i;
  }
  if (n > 1) {
    n = one_way_push_n(&spsc, items, n);
  } else if (one_way_push(&spsc, items[0]) != FQ_OK) {
    n = 0;
  }
  in_handler.pushed += n;
}

static bool program_pops(uint64_t *seed) {
  uint64_t items[BULK];
  size_t n = random_below(seed, BULK) + 1;
  const uint64_t *span = items;
  bool in_place = random_below(seed, 2) == 0;
  CHECK(one_way_count(&spsc) <= CAPACITY);
  if (in_place) {
    span = one_way_read_span(&spsc, &n);
  } else {
    n = one_way_pop_n(&spsc, items, n);
  }
  for (size_t i = 0; i < n; i++) {
    CHECK(span[i] == arrived + i);
  }
  if (in_place) {
    one_way_release(&spsc, n);
  }
  arrived += n;
  if (n == 0) {
    sched_yield();
  }
  return arrived >= enough;
}

static void from_handler(void) {
  arrived = 0;
  CHECK(one_way_init_fixed(&spsc, storage, CAPACITY) == FQ_OK);
  under_storm(handler_pushes, program_pops);
  CHECK(in_handler.pushed == arrived + one_way_count(&spsc));
  one_way_destroy(&spsc);
}

/* -- FQ_SPSC: from the program to the handler --------------------------------------------------------- */

static uint64_t sent; /* by the program */

static void handler_pops(void) {
  uint64_t item;
  const uint64_t *head = one_way_peek(&spsc);
  in_handler.wrong |= head != NULL && *head != in_handler.popped;
  for (size_t i = 0; i < BULK && one_way_pop(&spsc, &item) == FQ_OK; i++) {
    in_handler.wrong |= item != in_handler.popped;
    in_handler.popped++;
  }
}

static bool program_pushes(uint64_t *seed) {
  uint64_t items[BULK];
  size_t n = random_below(seed, BULK) + 1;
  uint64_t *span = items;
  bool in_place = random_below(seed, 2) == 0;
  CHECK(one_way_count(&spsc) <= CAPACITY);
  if (in_place) {
    span = one_way_write_span(&spsc, &n);
  }
  for (size_t i = 0; i < n; i++) {
    span[i] = sent + i;
  }
  if (in_place) {
    one_way_commit(&spsc, n);
  } else {
    n = one_way_push_n(&spsc, items, n);
  }
  sent += n;
  if (n == 0) {
    sched_yield();
  }
  return sent >= enough;
}

static void to_handler(void) {
  sent = 0;
  CHECK(one_way_init_fixed(&spsc, storage, CAPACITY) == FQ_OK);
  under_storm(handler_pops, program_pushes);
  CHECK(sent == in_handler.popped + one_way_count(&spsc));
  one_way_destroy(&spsc);
}

/* -- FQ_MPMC: both use both sides --------------------------------------------------------------------- */

static uint64_t program_next[2]; /* the least that may come from the program, from the handler */

/* Whether the item is none that came before it, and what may come next. */
static bool in_order(uint64_t item, uint64_t *next) {
  uint64_t *of = &next[item & FROM_HANDLER ? 1 : 0], number = item & ~FROM_HANDLER;
  bool good = number >= *of;
  *of = number + 1;
  return good;
}

static void handler_uses_both(void) {
  uint64_t item;
  fq_status status = all_ways_push(&mpmc, in_handler.pushed | FROM_HANDLER);
  in_handler.pushed += status == FQ_OK ? 1 : 0;
  in_handler.wrong |= status != FQ_OK && status != FQ_FULL && status != FQ_BUSY;
  if (in_handler.pushed % 3 == 0) {
    status = all_ways_pop(&mpmc, &item);
    in_handler.wrong |= status != FQ_OK && status != FQ_EMPTY && status != FQ_BUSY;
    if (status == FQ_OK) {
      in_handler.popped++;
      in_handler.wrong |= !in_order(item, in_handler.next);
    }
  }
}

/* The program may hear FQ_BUSY: the handler came, and was done, inside its call. */
static bool program_uses_both(uint64_t *seed) {
  uint64_t items[BULK];
  size_t n = random_below(seed, BULK) + 1;
  for (size_t i = 0; i < n; i++) {
    items[i] = sent + i;
  }
  fq_status status = all_ways_push_all(&mpmc, items, n);
  CHECK(status == FQ_OK || status == FQ_FULL || status == FQ_BUSY);
  sent += status == FQ_OK ? n : 0;
  CHECK(all_ways_count(&mpmc) <= CAPACITY);
  n = all_ways_pop_n(&mpmc, items, random_below(seed, BULK) + 1);
  for (size_t i = 0; i < n; i++) {
    CHECK(in_order(items[i], program_next));
  }
  arrived += n;
  return arrived >= enough && atomic_load(&handled) > 100;
}

static void both_use_both(void) {
  uint64_t item;
  sent = arrived = 0;
  memset(program_next, 0, sizeof(program_next));
  CHECK(all_ways_init(&mpmc, CAPACITY) == FQ_OK);
  under_storm(handler_uses_both, program_uses_both);
  while (all_ways_pop(&mpmc, &item) == FQ_OK) {
    arrived++;
  }
  CHECK(arrived + in_handler.popped == sent + in_handler.pushed);
  all_ways_destroy(&mpmc);
}

int main(void) {
  RUN(from_handler);
  RUN(to_handler);
  RUN(both_use_both);
  return test_end();
}
