/* sched.h: a deterministic scheduler in place of the platform part of fastq.h.
 *
 *   #define FQI_PLATFORM_HEADER "tests/sched.h"    (fastq.h looks for it from its own folder)
 *
 * The threads of a program are coroutines on one OS thread. At every operation on a lock, a
 * condition, an atomic, a thread or the clock the scheduler decides who goes on, so a run is a list
 * of decisions and nothing else: the same list gives the same run. Three drivers make the list:
 *
 *   sched_walk    depth first through every list with at most so many preemptions
 *   sched_random  from a seed
 *   sched_replay  given by hand, printing each step
 *
 * A switch away from a thread that cannot go on is free; one away from a thread that could is a
 * preemption. Time stands still until nobody can run; then it jumps to the earliest deadline. A
 * program may allow a number of ticks (time passes SCHED_TICK at any step), of wakes without cause,
 * and of faults (a lock, a condition, a thread or an allocation that is refused).
 *
 * What fails a run: an EXPECT that does not hold, nobody able to run (deadlock or a lost wake), a
 * run that does not end, a crash, a lock taken twice or released by another, a lock or condition
 * that is used before its init or after its destroy, destroyed while held or waited for, memory
 * used after it was freed, and anything left over at the end.
 *
 * Not for sanitizers: they do not follow coroutines. Sequential consistency only. */
#ifndef SCHED_H_INCLUDED
#define SCHED_H_INCLUDED

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>

#define SCHED_TICK INT64_C(1000) /* ns; timeouts of programs are multiples of it */

enum {
  SCHED_THREADS = 8, /* with main, which is thread 0 */
  SCHED_BODIES = 4,
  SCHED_STACK_BYTES = 64 * 1024,
  SCHED_HEAP_BYTES = 256 * 1024,
  SCHED_OBJECTS = 512, /* a power of two, far more than a run has */
  SCHED_GONE = 64,
  SCHED_STEPS = 4000,  /* of one run; more is taken for a run without end */
  SCHED_LEFT_BITS = 4, /* a walk may have 14 preemptions */
  SCHED_TEXT = 2048
};

#define SCHED_PRINTS __attribute__((format(printf, 1, 2)))

/* --- What fastq.h asks of its platform: types. What a lock is stands in the scheduler's table and
 * not in the lock, so that stray memory never passes for one. --- */

typedef struct fqi_lock {
  char unused;
} fqi_lock;

typedef struct fqi_cond {
  char unused;
} fqi_cond;

typedef struct fqi_thread {
  int id;
} fqi_thread;

/* --- Programs --- */

typedef struct sched_body {
  const char *name;
  void (*fn)(void);
} sched_body;

typedef struct sched_program {
  const char *name;
  void (*setup)(void); /* by main, before the threads start */
  sched_body threads[SCHED_BODIES];
  void (*check)(void);  /* by main, when all of them have ended; threads of a pool need not have */
  size_t limit;         /* for the setup; */
  const void *settings; /* this too */
  int ticks, spurious, faults;
  int preemptions; /* that a walk goes up to; 0: the usual number */
} sched_program;

typedef struct sched_result {
  bool failed;
  uint64_t runs; /* schedules tried */
  uint64_t cut;  /* of these, left early where a state came again that had been walked from */
} sched_result;

#define SCHED_BODY(fn)                                                                             \
  { #fn, fn }
#define EXPECT(cond) ((cond) ? (void)0 : sched_fail("%s:%d: EXPECT(%s)", __FILE__, __LINE__, #cond))

/* --- State of a run --- */

typedef enum sched_state {
  SCHED_READY,
  SCHED_ON_LOCK,
  SCHED_ON_COND,
  SCHED_ON_JOIN,
  SCHED_ON_ALL,
  SCHED_ENDED
} sched_state;

typedef enum sched_kind { SCHED_LOCK, SCHED_COND, SCHED_WORD } sched_kind;

typedef struct sched_object {
  const void *address;
  sched_kind kind;
  bool alive;
  int number; /* in the order of init: what the trace shows */
  int owner;  /* of a lock: a thread, or -1 */
  uint64_t past;
} sched_object;

typedef struct sched_thread {
  jmp_buf base, place; /* where its stack begins, where it was left */
  jmp_buf *resume;     /* one of these */
  const char *name;
  void (*fn)(void);
  void (*fn_arg)(void *);
  void *arg;
  sched_state state;
  bool yielding;
  sched_object *lock; /* ON_LOCK: wanted; ON_COND: to be taken again */
  sched_object *cond;
  int64_t deadline;
  int join;
  size_t signals;  /* sent by this thread */
  size_t acquired; /* locks it has taken so far */
  size_t held;     /* locks it has now */
  uint64_t past;
} sched_thread;

typedef struct sched_choice {
  unsigned char taken, options;
} sched_choice;

static struct {
  const sched_program *program;
  uint64_t runs; /* of all programs */
  jmp_buf driver;
  sched_thread threads[SCHED_THREADS];
  int thread_count;
  int self;
  int64_t now;
  uint64_t time_past;
  int steps;
  int preemptions, ticks, spurious, faults; /* what is left of them */
  size_t signals;                           /* that were sent to conditions, and of these, by a */
  size_t signals_locked;                    /* thread that had more locks than the condition's */
  bool ticked;                              /* time has passed while somebody could run */
  bool calm;                                /* see sched_calm */

  sched_object objects[SCHED_OBJECTS];
  sched_object *used[SCHED_OBJECTS];
  int used_count, numbers[3];
  struct {
    const unsigned char *from;
    size_t size;
  } gone[SCHED_GONE];
  int gone_count;
  size_t heap_used, heap_live;

  /* The decisions. The walk replays a path and goes on from its end. */
  bool walking, tracing, cut, failed;
  sched_choice path[SCHED_STEPS * 2];
  int path_length, path_at;
  uint64_t random;
  unsigned preempt_odds, event_odds;
  uint64_t *seen; /* a set of states; 0 is a free place */
  size_t seen_size, seen_count;
  char text[SCHED_TEXT];
} sched;

static _Alignas(16) unsigned char sched_stacks[SCHED_THREADS][SCHED_STACK_BYTES];
static _Alignas(16) unsigned char sched_heap[SCHED_HEAP_BYTES];

/* A thread in a text. */
#define SCHED_WHO_FORMAT "%d %s"
#define SCHED_WHO(id)    (id), sched.threads[id].name

static const char *const sched_kind_names[] = {"lock", "cond", "word"};

/* --- Failing and tracing --- */

/* Leaves the run for good; its threads are abandoned where they stand. */
static inline void sched_leave(void) { longjmp(sched.driver, 1); }

static inline void sched_add_text_list(const char *format, va_list args) {
  size_t used = strlen(sched.text);
  vsnprintf(sched.text + used, sizeof(sched.text) - used, format, args);
}

SCHED_PRINTS static inline void sched_add_text(const char *format, ...) {
  va_list args;
  va_start(args, format);
  sched_add_text_list(format, args);
  va_end(args);
}

SCHED_PRINTS static inline void sched_fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  sched_add_text_list(format, args);
  va_end(args);
  sched_add_text(" (in " SCHED_WHO_FORMAT ")", SCHED_WHO(sched.self));
  sched.failed = true;
  sched_leave();
}

/* A line for the reader of a trace; nothing otherwise. */
SCHED_PRINTS static inline void sched_note(const char *format, ...) {
  if (sched.tracing) {
    va_list args;
    va_start(args, format);
    printf("%5d  %d %-12s ", sched.steps, sched.self, sched.threads[sched.self].name);
    vprintf(format, args);
    printf("\n");
    va_end(args);
  }
}

/* --- Happened-before hashes. The past of a thread or an object is a hash of all that happened
 * before its last operation. Threads share data only under locks and through atomics, so when the
 * pasts of all threads are equal the states are, whatever the order in time was. --- */

static inline uint64_t sched_mix(uint64_t a, uint64_t b) {
  uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) ^ (b + UINT64_C(0x632be59bd9b4e019));
  x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
  return x ^ (x >> 29);
}

/* The running thread has looked at the object, or (sched_did) changed it. */
static inline void sched_saw(const char *op, const sched_object *object) {
  sched_thread *self = &sched.threads[sched.self];
  self->past = sched_mix(self->past, object->past);
  if (sched.tracing) {
    sched_note("%s %s %d", op, sched_kind_names[object->kind], object->number);
  }
}

static inline void sched_did(const char *op, sched_object *object) {
  sched_saw(op, object);
  object->past = sched.threads[sched.self].past;
}

static inline bool sched_goes_on(const sched_thread *thread);

/* The state, but for the preemptions that are left. Who ran matters only if it could go on. */
static inline uint64_t sched_signature(void) {
  const sched_thread *self = &sched.threads[sched.self];
  uint64_t sum = sched_mix(sched.time_past, sched_goes_on(self) ? (uint64_t)sched.self : 99);
  sum = sched_mix(sum, (uint64_t)(sched.ticks * 100 + sched.spurious * 10 + sched.faults));
  for (int i = 0; i < sched.thread_count; i++) {
    sum = sched_mix(sum, sched.threads[i].past);
  }
  return sum;
}

/* The set holds signatures with the preemptions that were left, plus 1, in the low bits. */
static inline uint64_t *sched_seen_find(uint64_t *set, size_t size, uint64_t signature) {
  size_t i = (size_t)(signature >> SCHED_LEFT_BITS) & (size - 1);
  while (set[i] != 0 && (set[i] ^ signature) >> SCHED_LEFT_BITS != 0) {
    i = (i + 1) & (size - 1);
  }
  return &set[i];
}

static inline void sched_seen_grow(void) {
  size_t size = sched.seen_size != 0 ? sched.seen_size * 2 : 4096;
  uint64_t *set = calloc(size, sizeof(*set));
  if (set == NULL) {
    abort();
  }
  for (size_t i = 0; i < sched.seen_size; i++) {
    if (sched.seen[i] != 0) {
      *sched_seen_find(set, size, sched.seen[i]) = sched.seen[i];
    }
  }
  free(sched.seen);
  sched.seen = set;
  sched.seen_size = size;
}

/* True when this state was walked from before with no fewer preemptions left; else remembers it. */
static inline bool sched_seen_before(void) {
  uint64_t left = (uint64_t)sched.preemptions + 1;
  uint64_t mask = (UINT64_C(1) << SCHED_LEFT_BITS) - 1;
  if (sched.seen_count >= sched.seen_size / 2) {
    sched_seen_grow();
  }
  uint64_t signature = sched_signature() & ~mask;
  uint64_t *place = sched_seen_find(sched.seen, sched.seen_size, signature);
  if ((*place & mask) >= left) {
    return true;
  }
  sched.seen_count += *place == 0;
  *place = signature | left;
  return false;
}

/* --- Decisions --- */

static inline uint64_t sched_random_next(void) {
  sched.random += UINT64_C(0x9e3779b97f4a7c15);
  return sched_mix(sched.random, sched.random >> 31);
}

/* One of 0..options-1, where 0 is what happens when nothing interferes. A random run takes another
 * one time in ODDS. */
static inline int sched_choose(int options, unsigned odds) {
  if (options < 2) {
    return 0;
  }
  if (sched.path_at < sched.path_length) {
    sched_choice *choice = &sched.path[sched.path_at++];
    if (choice->options == 0) { /* a replayed list names only what was taken */
      choice->options = (unsigned char)options;
    }
    if (choice->options != options || choice->taken >= options) {
      sched_fail("the decisions do not fit this program");
    }
    return choice->taken;
  }
  int taken = 0;
  if (!sched.walking && (odds <= 1 || sched_random_next() % odds == 0)) {
    taken = (int)(sched_random_next() % (uint64_t)options);
  }
  if (sched.path_length == SCHED_STEPS * 2) {
    sched_fail("more decisions than a run may have");
  }
  sched_choice *choice = &sched.path[sched.path_length++];
  sched.path_at = sched.path_length;
  choice->taken = (unsigned char)taken;
  choice->options = (unsigned char)options;
  return taken;
}

static inline bool sched_fault(void) {
  if (sched.faults == 0 || sched.calm || sched_choose(2, sched.event_odds) == 0) {
    return false;
  }
  sched_thread *self = &sched.threads[sched.self];
  sched.faults--;
  self->past = sched_mix(self->past, 2); /* unlike one that was granted */
  sched_note("-- refused");
  return true;
}

/* --- The scheduler --- */

static inline bool sched_runnable(const sched_thread *thread) {
  switch (thread->state) {
  case SCHED_READY:
    return true;
  case SCHED_ON_LOCK:
    return thread->lock->owner < 0;
  case SCHED_ON_JOIN:
    return sched.threads[thread->join].state == SCHED_ENDED;
  case SCHED_ON_ALL:
    for (int i = 1; i < sched.thread_count; i++) {
      if (sched.threads[i].fn != NULL && sched.threads[i].state != SCHED_ENDED) {
        return false;
      }
    }
    return true;
  case SCHED_ON_COND:
  case SCHED_ENDED:
    break;
  }
  return false;
}

/* Leaving this thread for another is a preemption. */
static inline bool sched_goes_on(const sched_thread *thread) {
  return sched_runnable(thread) && !thread->yielding;
}

/* A sleeper leaves its condition; it goes on when it has its lock again. */
static inline void sched_wake(sched_thread *thread, uint64_t why) {
  thread->state = SCHED_ON_LOCK;
  thread->past = sched_mix(thread->past, why);
}

static inline void sched_set_time(int64_t now) {
  sched.now = now;
  sched.time_past = sched_mix(sched.time_past, (uint64_t)now);
  if (sched.tracing) {
    printf("%5d  -- time +%" PRId64 "\n", sched.steps, now);
  }
  for (int i = 0; i < sched.thread_count; i++) {
    sched_thread *thread = &sched.threads[i];
    if (thread->state == SCHED_ON_COND && thread->deadline <= now) {
      sched_wake(thread, (uint64_t)now);
    }
  }
}

static inline void sched_deadlock(void) {
  sched_add_text("nobody can run:");
  for (int i = 1; i < sched.thread_count; i++) {
    const sched_thread *thread = &sched.threads[i];
    if (thread->state == SCHED_ON_LOCK) {
      sched_add_text(" " SCHED_WHO_FORMAT " wants lock %d of " SCHED_WHO_FORMAT ",", SCHED_WHO(i),
                     thread->lock->number, SCHED_WHO(thread->lock->owner));
    } else if (thread->state == SCHED_ON_COND) {
      sched_add_text(" " SCHED_WHO_FORMAT " sleeps on cond %d,", SCHED_WHO(i),
                     thread->cond->number);
    } else if (thread->state == SCHED_ON_JOIN) {
      sched_add_text(" " SCHED_WHO_FORMAT " joins " SCHED_WHO_FORMAT ",", SCHED_WHO(i),
                     SCHED_WHO(thread->join));
    }
  }
  sched_fail(" a deadlock or a lost wake");
}

/* Nobody can run: time passes until a deadline, if there is one. */
static inline void sched_pass_time(void) {
  int64_t earliest = INT64_MAX;
  for (int i = 0; i < sched.thread_count; i++) {
    const sched_thread *thread = &sched.threads[i];
    if (thread->state == SCHED_ON_COND && thread->deadline < earliest) {
      earliest = thread->deadline;
    }
  }
  if (earliest == INT64_MAX) {
    sched_deadlock();
  }
  sched_set_time(earliest);
}

/* What may happen beside the threads' own steps, as far as the program allows it. Time is seen only
 * by one who reads the clock or waits for a deadline: elsewhere a tick would change nothing. */
static inline void sched_events(bool reads_clock) {
  sched_thread *sleepers[SCHED_THREADS];
  int sleeping = 0;
  bool timed = reads_clock;
  for (int i = 0; i < sched.thread_count; i++) {
    if (sched.threads[i].state == SCHED_ON_COND) {
      sleepers[sleeping++] = &sched.threads[i];
      timed = timed || sched.threads[i].deadline != INT64_MAX;
    }
  }
  if (sched.ticks > 0 && timed && sched_choose(2, sched.event_odds) != 0) {
    sched.ticks--;
    sched.ticked = true;
    sched_set_time(sched.now + SCHED_TICK);
  }
  if (sched.spurious > 0 && sleeping > 0) {
    int taken = sched_choose(sleeping + 1, sched.event_odds);
    if (taken > 0 && sleepers[taken - 1]->state == SCHED_ON_COND) {
      sched.spurious--;
      sched_wake(sleepers[taken - 1], UINT64_C(77));
      if (sched.tracing) {
        printf("%5d  -- " SCHED_WHO_FORMAT " wakes without cause\n", sched.steps,
               SCHED_WHO((int)(sleepers[taken - 1] - sched.threads)));
      }
    }
  }
}

/* Who goes on. The thread that runs comes first, so that choice 0 leaves it running. */
static inline int sched_pick(bool reads_clock) {
  sched_thread *self = &sched.threads[sched.self];
  if (++sched.steps > SCHED_STEPS) {
    sched_fail("no end after %d steps", SCHED_STEPS);
  }
  bool matters = sched.preemptions > 0 || !sched_goes_on(self); /* elsewhere it costs more */
  matters = matters && !sched.calm;
  if (matters && sched.seen_size != 0 && sched.path_at == sched.path_length &&
      sched_seen_before()) {
    sched.cut = true;
    sched_leave();
  }
  if (!sched.calm) {
    sched_events(reads_clock);
  }
  for (;;) {
    int options[SCHED_THREADS];
    int count = 0;
    bool goes_on = sched_goes_on(self);
    if (goes_on) {
      options[count++] = sched.self;
    }
    for (int i = 0; i < sched.thread_count && (!goes_on || sched.preemptions > 0); i++) {
      if (i != sched.self && sched_runnable(&sched.threads[i])) {
        options[count++] = i;
      }
    }
    if (count == 0 && sched_runnable(self)) {
      options[count++] = sched.self;
    }
    if (count > 0 && sched.calm) {
      return options[0];
    }
    if (count > 0) {
      int taken = sched_choose(count, goes_on ? sched.preempt_odds : 1);
      sched.preemptions -= goes_on && taken > 0;
      return options[taken];
    }
    sched_pass_time();
  }
}

/* Away from the stack of one thread to that of another; comes back when somebody does the same. */
static inline void sched_switch(sched_thread *from, sched_thread *to) {
  from->resume = &from->place;
  if (setjmp(from->place) == 0) {
    longjmp(*to->resume, 1);
  }
}

/* The running thread stands before its next operation, its state says what that needs. Comes back
 * when the thread is to do it. */
static inline void sched_step(bool reads_clock) {
  int from = sched.self;
  int to = sched_pick(reads_clock);
  if (to != from) {
    sched.self = to;
    sched_switch(&sched.threads[from], &sched.threads[to]);
  }
  sched.threads[from].state = SCHED_READY;
  sched.threads[from].yielding = false;
}

/* A step without an operation: others may come between what is before it and after it. */
static inline void sched_pass(void) {
  sched_step(false);
  sched_thread *self = &sched.threads[sched.self];
  self->past = sched_mix(self->past, 1);
}

/* While this is on nothing interferes: a thread runs until it cannot go on, then the first that can.
 * For what comes before and after the part of a program that is to be walked. */
static inline void sched_calm(bool calm) { sched.calm = calm; }

/* How many locks the running thread has. */
static inline size_t sched_held(void) { return sched.threads[sched.self].held; }

/* --- Objects --- */

static inline void sched_check_memory(const void *address) {
  const unsigned char *at = address;
  for (int i = 0; i < sched.gone_count; i++) {
    if (at >= sched.gone[i].from && at < sched.gone[i].from + sched.gone[i].size) {
      sched_fail("used after it was freed or destroyed");
    }
  }
}

/* The place of an object in the table, taken if it is new. */
static inline sched_object *sched_place(const void *address, sched_kind kind) {
  sched_check_memory(address);
  size_t i = (size_t)sched_mix((uint64_t)(uintptr_t)address, (uint64_t)kind);
  for (;; i++) {
    sched_object *object = &sched.objects[i & (SCHED_OBJECTS - 1)];
    if (object->address == address && object->kind == kind) {
      return object;
    }
    if (object->address == NULL) {
      if (sched.used_count == SCHED_OBJECTS / 2) {
        sched_fail("more objects than a run may have");
      }
      *object = (sched_object){.address = address, .kind = kind, .owner = -1};
      sched.used[sched.used_count++] = object;
      return object;
    }
  }
}

static inline sched_object *sched_find(const void *address, sched_kind kind) {
  sched_object *object = sched_place(address, kind);
  if (!object->alive && kind == SCHED_WORD) {
    object->alive = true; /* an atomic has no init */
    object->number = ++sched.numbers[kind];
  }
  if (!object->alive) {
    sched_fail("%s %d is used %s", sched_kind_names[kind], object->number,
               object->number == 0 ? "before its init" : "after its destroy");
  }
  return object;
}

static inline int sched_init_object(const void *address, sched_kind kind) {
  if (sched_fault()) {
    return ENOMEM;
  }
  sched_object *object = sched_place(address, kind);
  if (object->alive) {
    sched_fail("%s %d is initialised twice", sched_kind_names[kind], object->number);
  }
  object->alive = true;
  object->owner = -1;
  object->number = ++sched.numbers[kind];
  sched_did("init", object);
  return 0;
}

static inline void sched_destroy_object(const void *address, sched_kind kind) {
  sched_object *object = sched_find(address, kind);
  sched_did("destroy", object);
  for (int i = 0; i < sched.thread_count; i++) {
    const sched_thread *thread = &sched.threads[i];
    bool sleeps = thread->state == SCHED_ON_COND && thread->cond == object;
    bool wants = (thread->state == SCHED_ON_LOCK || thread->state == SCHED_ON_COND) &&
                 thread->lock == object;
    if (sleeps || wants) {
      sched_fail("%s %d is destroyed, but " SCHED_WHO_FORMAT " waits for it",
                 sched_kind_names[kind], object->number, SCHED_WHO(i));
    }
  }
  if (object->owner >= 0) {
    sched_fail("lock %d is destroyed, but " SCHED_WHO_FORMAT " holds it", object->number,
               SCHED_WHO(object->owner));
  }
  object->alive = false;
}

/* From here on no lock, condition or atomic in this memory may be used, nor a byte of it
 * written. */
static inline void sched_forbid(void *memory, size_t size) {
  if (sched.gone_count == SCHED_GONE) {
    sched_fail("more memory freed than a run may");
  }
  memset(memory, 0xdd, size);
  sched.gone[sched.gone_count].from = memory;
  sched.gone[sched.gone_count++].size = size;
}

/* --- Memory: never given out twice in a run, so that a late use is seen --- */

static inline void *sched_alloc(size_t size) {
  size_t rounded = (size + 15) & ~(size_t)15;
  if (sched_fault()) {
    return NULL;
  }
  if (rounded < size || rounded > SCHED_HEAP_BYTES - 16 - sched.heap_used) {
    sched_fail("more memory than a run may have");
  }
  unsigned char *block = sched_heap + sched.heap_used;
  memcpy(block, &rounded, sizeof(rounded));
  memset(block + 16, 0xcd, rounded);
  sched.heap_used += 16 + rounded;
  sched.heap_live++;
  return block + 16;
}

static inline void sched_free(void *memory) {
  if (memory != NULL) {
    size_t size;
    sched_check_memory(memory);
    memcpy(&size, (unsigned char *)memory - 16, sizeof(size));
    sched_forbid(memory, size);
    sched.heap_live--;
  }
}

static inline void sched_check_leftovers(void) {
  for (int i = 1; i < sched.thread_count; i++) {
    if (sched.threads[i].state != SCHED_ENDED) {
      sched_fail(SCHED_WHO_FORMAT " never ended", SCHED_WHO(i));
    }
  }
  for (int i = 0; i < sched.used_count; i++) {
    const sched_object *object = sched.used[i];
    if (object->alive && object->kind != SCHED_WORD) {
      sched_fail("%s %d was never destroyed", sched_kind_names[object->kind], object->number);
    }
  }
  if (sched.heap_live != 0) {
    sched_fail("%zu allocations were never freed", sched.heap_live);
  }
  for (int i = 0; i < sched.gone_count; i++) {
    for (size_t k = 0; k < sched.gone[i].size; k++) {
      if (sched.gone[i].from[k] != 0xdd) {
        sched_fail("memory was written after it was freed or destroyed");
      }
    }
  }
}

/* --- What fastq.h asks of its platform: functions --- */

static inline size_t fqi_load(const size_t *p) {
  sched_step(false);
  sched_saw("load", sched_find(p, SCHED_WORD));
  return *p;
}

/* How many locks another thread has taken, for a test's own bookkeeping: not a step. */
static inline size_t sched_acquired(int id) {
  sched_thread *self = &sched.threads[sched.self];
  self->past = sched_mix(self->past, sched.threads[id].past);
  return sched.threads[id].acquired;
}

/* A load by a test's own bookkeeping: not a step. */
static inline size_t sched_look(const size_t *p) {
  sched_saw("look", sched_find(p, SCHED_WORD));
  return *p;
}

/* The threads of a test look at what they share, or change it, without a lock, for the test's own
 * bookkeeping: not a step. p stands for all of it; without this the walk would take two states for
 * one that differ in nothing else. */
static inline void sched_mark(const size_t *p) { sched_did("mark", sched_find(p, SCHED_WORD)); }

static inline void fqi_store(size_t *p, size_t v) {
  sched_step(false);
  sched_did("store", sched_find(p, SCHED_WORD));
  *p = v;
}

static inline bool fqi_cas(size_t *p, size_t expected, size_t desired) {
  sched_step(false);
  sched_did("cas", sched_find(p, SCHED_WORD));
  if (*p != expected) {
    return false;
  }
  *p = desired;
  return true;
}

static inline int fqi_lock_init(fqi_lock *l) { return sched_init_object(l, SCHED_LOCK); }

static inline void fqi_lock_destroy(fqi_lock *l) { sched_destroy_object(l, SCHED_LOCK); }

static inline void fqi_lock_acquire(fqi_lock *l) {
  sched_thread *self = &sched.threads[sched.self];
  self->lock = sched_find(l, SCHED_LOCK);
  if (self->lock->owner == sched.self) {
    sched_fail("lock %d is taken by the thread that holds it", self->lock->number);
  }
  self->state = SCHED_ON_LOCK;
  sched_step(false);
  sched_object *lock = sched_find(l, SCHED_LOCK); /* again: it may have been destroyed meanwhile */
  lock->owner = sched.self;
  self->acquired++;
  self->held++;
  sched_did("acquire", lock);
}

static inline bool fqi_lock_try(fqi_lock *l) {
  sched_step(false);
  sched_object *lock = sched_find(l, SCHED_LOCK);
  bool taken = lock->owner < 0;
  if (taken) {
    lock->owner = sched.self;
    sched.threads[sched.self].held++;
    sched_did("try, got", lock);
  } else {
    sched_saw("try, missed", lock);
  }
  return taken;
}

/* The step is after it: what a thread still does without the lock is then a step of its own. */
static inline void fqi_lock_release(fqi_lock *l) {
  sched_object *lock = sched_find(l, SCHED_LOCK);
  if (lock->owner != sched.self) {
    sched_fail("lock %d is released by a thread that does not hold it", lock->number);
  }
  lock->owner = -1;
  sched.threads[sched.self].held--;
  sched_did("release", lock);
  sched_pass();
}

static inline int fqi_cond_init(fqi_cond *c) { return sched_init_object(c, SCHED_COND); }

static inline void fqi_cond_destroy(fqi_cond *c) { sched_destroy_object(c, SCHED_COND); }

static inline void fqi_cond_signal(fqi_cond *c) {
  sched_step(false);
  sched_object *cond = sched_find(c, SCHED_COND);
  sched_thread *sleepers[SCHED_THREADS];
  int sleeping = 0;
  for (int i = 0; i < sched.thread_count; i++) {
    if (sched.threads[i].state == SCHED_ON_COND && sched.threads[i].cond == cond) {
      sleepers[sleeping++] = &sched.threads[i];
    }
  }
  sched_did(sleeping > 0 ? "signal" : "signal, nobody sleeps:", cond);
  sched.signals++;
  sched.signals_locked += sched_held() > 1;
  sched.threads[sched.self].signals++;
  if (sleeping > 0) {
    sched_wake(sleepers[sched_choose(sleeping, 1)], cond->past);
  }
}

static inline void fqi_cond_wait(fqi_cond *c, fqi_lock *l, int64_t deadline) {
  sched_step(true);
  sched_thread *self = &sched.threads[sched.self];
  sched_object *cond = sched_find(c, SCHED_COND);
  sched_object *lock = sched_find(l, SCHED_LOCK);
  if (lock->owner != sched.self) {
    sched_fail("a wait with lock %d, which the thread does not hold", lock->number);
  }
  sched_did("wait", cond);
  sched_did("release", lock);
  lock->owner = -1;
  self->cond = cond;
  self->lock = lock;
  self->deadline = deadline;
  self->state = deadline <= sched.now ? SCHED_ON_LOCK : SCHED_ON_COND;
  sched_step(false);
  lock->owner = sched.self;
  sched_did("woke and acquired", lock);
}

static inline int64_t fqi_now(void) {
  sched_step(true);
  sched_thread *self = &sched.threads[sched.self];
  self->past = sched_mix(self->past, sched.time_past);
  sched_note("clock +%" PRId64, sched.now);
  return sched.now;
}

static inline void fqi_pause(void) {
  sched.threads[sched.self].yielding = true;
  sched_pass();
}

static inline void fqi_thread_name(const char *name) { (void)name; }

static inline size_t fqi_cpu_count(void) { return 2; }

/* --- Threads --- */

/* The bottom of each stack. It is never left: each run begins here anew, whatever the last one left
 * above it. */
static inline void sched_thread_main(void) {
  if (setjmp(sched.threads[sched.self].base) == 0) {
    sched_leave();
  }
  sched_thread *self = &sched.threads[sched.self];
  if (self->fn_arg != NULL) {
    self->fn_arg(self->arg);
  } else {
    self->fn();
  }
  self->state = SCHED_ENDED;
  sched_note("ends");
  sched.self = sched_pick(false);
  longjmp(*sched.threads[sched.self].resume, 1);
}

/* Once for all runs. Contexts serve only to get onto the stacks: to switch by them costs a system
 * call. */
static inline void sched_make_stack(int id) {
  static ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = sched_stacks[id];
  context.uc_stack.ss_size = SCHED_STACK_BYTES;
  context.uc_link = NULL;
  makecontext(&context, sched_thread_main, 0);
  sched.self = id;
  if (setjmp(sched.driver) == 0) {
    setcontext(&context);
  }
}

static inline sched_thread *sched_new_thread(const char *name) {
  if (sched.thread_count == SCHED_THREADS) {
    sched_fail("more threads than a run may have");
  }
  int id = sched.thread_count++;
  sched_thread *thread = &sched.threads[id];
  thread->name = name;
  thread->fn = NULL;
  thread->fn_arg = NULL;
  thread->resume = &thread->base;
  thread->state = SCHED_READY;
  thread->yielding = false;
  thread->signals = thread->acquired = thread->held = 0;
  thread->past = sched_mix((uint64_t)id, 1);
  return thread;
}

static inline int fqi_thread_start(fqi_thread *t, void (*fn)(void *), void *arg,
                                   size_t stack_size) {
  (void)stack_size;
  sched_step(false);
  if (sched_fault()) {
    return EAGAIN;
  }
  t->id = sched.thread_count;
  sched_thread *thread = sched_new_thread("started");
  thread->fn_arg = fn;
  thread->arg = arg;
  thread->past = sched_mix(thread->past, sched.threads[sched.self].past);
  sched_note("starts thread %d", t->id);
  return 0;
}

static inline void fqi_thread_join(fqi_thread *t) {
  sched_thread *self = &sched.threads[sched.self];
  self->join = t->id;
  self->state = SCHED_ON_JOIN;
  sched_step(false);
  self->past = sched_mix(self->past, sched.threads[t->id].past);
  sched_note("joined thread %d", t->id);
}

static inline size_t fqi_self(void) { return (size_t)sched.self + 1; }

/* --- Runs and drivers --- */

static inline void sched_main(void) {
  const sched_program *program = sched.program;
  program->setup();
  for (int i = 0; i < SCHED_BODIES && program->threads[i].fn != NULL; i++) {
    sched_new_thread(program->threads[i].name)->fn = program->threads[i].fn;
  }
  sched.threads[0].state = SCHED_ON_ALL;
  sched_step(false);
  program->check();
  sched_check_leftovers();
  sched_leave();
}

/* One run with the decisions of the path and the driver's after its end. */
static inline void sched_run(void) {
  sched.runs++;
  for (int i = 0; i < sched.used_count; i++) {
    sched.used[i]->address = NULL;
    sched.used[i]->alive = false;
  }
  sched.used_count = sched.gone_count = sched.thread_count = sched.self = sched.steps = 0;
  sched.heap_used = sched.heap_live = sched.signals = sched.signals_locked = 0;
  memset(sched.numbers, 0, sizeof(sched.numbers));
  sched.now = 0;
  sched.time_past = 1;
  sched.path_at = 0;
  sched.cut = sched.failed = sched.ticked = sched.calm = false;
  sched.text[0] = '\0';
  sched_new_thread("main")->fn = sched_main;
  if (setjmp(sched.driver) == 0) {
    longjmp(*sched.threads[0].resume, 1);
  }
}

/* A crash fails the run as any other fault does. So does a run that takes seconds of processor
 * time: they are over in microseconds, so it goes round and round between two steps. */
static inline void sched_on_signal(int number) {
  static uint64_t runs_then, crashed;
  if (number != SIGVTALRM && crashed == sched.runs) { /* the scheduler itself was written over */
    printf("%s: signal %d, and again\n", sched.program->name, number);
    fflush(stdout);
    _Exit(1);
  }
  if (number != SIGVTALRM) {
    crashed = sched.runs;
    sched_fail("signal %d", number);
  }
  if (sched.runs == runs_then) {
    sched_fail("no end and no step any more");
  }
  runs_then = sched.runs;
}

static inline void sched_catch_signals(void) {
  static unsigned char stack[SCHED_STACK_BYTES];
  static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGVTALRM};
  struct sigaction action = {.sa_handler = sched_on_signal, .sa_flags = SA_ONSTACK | SA_NODEFER};
  sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof(stack)}, NULL);
  for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
    sigaction(numbers[i], &action, NULL);
  }
  setitimer(ITIMER_VIRTUAL, &(struct itimerval){.it_interval = {2, 0}, .it_value = {2, 0}}, NULL);
}

static inline void sched_prepare(const sched_program *program) {
  static bool prepared;
  if (!prepared) {
    for (int i = 0; i < SCHED_THREADS; i++) {
      sched_make_stack(i);
    }
    sched_catch_signals();
    prepared = true;
  }
  sched.program = program;
  sched.path_length = 0;
  sched.walking = sched.tracing = false;
  sched.ticks = sched.spurious = sched.faults = 0;
}

static inline void sched_set_budgets(int preemptions, int ticks, int spurious, int faults) {
  sched.preemptions = preemptions;
  sched.ticks = ticks;
  sched.spurious = spurious;
  sched.faults = faults;
}

/* The list of decisions as an argument of sched_replay: the bounds, then number=choice. */
static inline void sched_print_path(int preemptions) {
  const sched_program *program = sched.program;
  printf("@%d,%d,%d,%d", preemptions, program->ticks, program->spurious, program->faults);
  for (int i = 0; i < sched.path_length; i++) {
    if (sched.path[i].taken != 0) {
      printf(",%d=%d", i, sched.path[i].taken);
    }
  }
}

/* The next path in depth-first order: the last decision that had another choice takes it. */
static inline bool sched_next_path(void) {
  while (sched.path_length > 0) {
    sched_choice *last = &sched.path[sched.path_length - 1];
    if (last->taken + 1 < last->options) {
      last->taken++;
      return true;
    }
    sched.path_length--;
  }
  return false;
}

static inline sched_result sched_walk(const sched_program *program, int preemptions, bool cutting) {
  sched_result result = {0};
  sched_prepare(program);
  sched.walking = true;
  if (cutting) {
    sched_seen_grow();
  }
  do {
    sched_set_budgets(preemptions, program->ticks, program->spurious, program->faults);
    sched_run();
    result.runs++;
    result.cut += sched.cut;
    if (sched.failed) {
      result.failed = true;
      printf("%s: %s\nafter %" PRIu64 " schedules with at most %d preemptions; again with the "
             "arguments '%s' ",
             program->name, sched.text, result.runs, preemptions, program->name);
      sched_print_path(preemptions);
      printf("\n");
    }
  } while (!result.failed && sched_next_path());
  free(sched.seen);
  sched.seen = NULL;
  sched.seen_size = sched.seen_count = 0;
  return result;
}

/* Preemptions without bound; how often depends on the seed. */
static inline void sched_run_seed(const sched_program *program, uint64_t seed) {
  sched_prepare(program);
  sched_set_budgets(SCHED_STEPS, program->ticks * 2, program->spurious + 2, program->faults);
  sched.random = sched_mix(seed, UINT64_C(0x5eed));
  sched.preempt_odds = 2u << sched_random_next() % 5;
  sched.event_odds = 4u << sched_random_next() % 4;
}

static inline sched_result sched_random(const sched_program *program, uint64_t seeds) {
  sched_result result = {0};
  for (uint64_t seed = 1; seed <= seeds && !result.failed; seed++) {
    sched_run_seed(program, seed);
    sched_run();
    result.runs++;
    if (sched.failed) {
      result.failed = true;
      printf("%s: %s\nwith seed %" PRIu64 "; again with the arguments '%s' %" PRIu64 "\n",
             program->name, sched.text, seed, program->name, seed);
    }
  }
  return result;
}

/* HOW is a seed, or a list as sched_print_path prints it. */
static inline sched_result sched_replay(const sched_program *program, const char *how) {
  sched_result result = {.runs = 1};
  if (how[0] != '@') {
    sched_run_seed(program, strtoull(how, NULL, 10));
  } else {
    int bounds[4] = {0};
    char *at = NULL;
    sched_prepare(program);
    sched.walking = true;
    for (int i = 0; i < 4; i++) {
      bounds[i] = (int)strtol(i == 0 ? how + 1 : at + (*at == ','), &at, 10);
    }
    memset(sched.path, 0, sizeof(sched.path));
    while (*at == ',') {
      long i = strtol(at + 1, &at, 10);
      long taken = strtol(at + (*at == '='), &at, 10);
      if (i >= 0 && i < SCHED_STEPS * 2) {
        sched.path[i].taken = (unsigned char)taken;
        sched.path_length = (int)i + 1;
      }
    }
    sched_set_budgets(bounds[0], bounds[1], bounds[2], bounds[3]);
  }
  sched.tracing = true;
  sched_run();
  result.failed = sched.failed;
  printf("%s: %s\n", program->name, sched.failed ? sched.text : "no fault");
  return result;
}

#endif
