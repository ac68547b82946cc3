/* fuzz_dispatch.c: FQ_DISPATCH against a model of it, driven by bytes.
 *
 * The bytes are a program: each is a verb, and the callbacks take their share of them. It is played
 * with the model, then with the dispatch, and whatever can be seen at any moment must be the same.
 *
 * With -DFUZZ it is a libFuzzer target ("make fuzz"); without, a test that plays all short programs
 * and some long ones. */
#define FASTQ_NO_THREADS /* nothing here needs the system */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"

#include "dispatch_model.h"
#include "heap.h"
#include "test.h"

FQ_DISPATCH(tasks, struct task);

enum letter {
  RETURN, /* ends a callback; nothing elsewhere */
  PUSH_SHORT,
  PUSH_LONG,
  PUSH_FAILING,
  FRONT_SHORT,
  FRONT_LONG,
  PUSH_3_LONG,
  PUSH_4_SHORT,
  COMPLETE_OLDEST,
  COMPLETE_NEWEST, /* with an error; inside a worker that is its own task */
  COMPLETE_ENDED,
  COMPLETE_NONE,
  RUN_0,
  RUN_1,
  RUN_3,
  PAUSE,
  RESUME,
  SET_0,
  SET_1,
  SET_2,
  SET_5,
  CANCEL_ALL,
  CANCEL_SOME, /* and pred tries the next letter */
  EACH,        /* and fn tries the next letter */
  CLOSE,
  DESTROY,
  LETTERS
};

static const char *const letter_names[] = {"return",
                                           "push short",
                                           "push long",
                                           "push failing",
                                           "push_front short",
                                           "push_front long",
                                           "push_n 3",
                                           "push_n 4 short",
                                           "complete oldest",
                                           "complete newest",
                                           "complete ended",
                                           "complete none",
                                           "run 0",
                                           "run 1",
                                           "run 3",
                                           "pause",
                                           "resume",
                                           "concurrency 0",
                                           "concurrency 1",
                                           "concurrency 2",
                                           "concurrency 5",
                                           "cancel all",
                                           "cancel some",
                                           "each",
                                           "close",
                                           "destroy"};

enum what { IN_WORKER, IN_DONE, IN_SATURATED, IN_EMPTY, IN_DRAIN, IN_PRED, IN_FN, VERB, ANSWER };

static const char *const what_names[] = {"worker", "done", "on_saturated", "on_empty", "on_drain",
                                         "pred",   "fn",   "verb",         "answer"};

/* What is seen: a callback with its task and error, a verb, or its answer. */
struct event {
  enum what what;
  uint32_t number;
  int64_t value;
  size_t count, running;
  bool idle;
  fq_stats stats;
};

enum {
  MAX_INPUT = 4096, /* the rest of a longer one is not read */
  MAX_EVENTS = 32768,
  MAX_TASKS = 4096,
  MAX_NESTING = 12, /* of callbacks that act */
  MAX_ACTS = 8      /* of a callback */
};

struct trace {
  size_t n;
  struct event events[MAX_EVENTS];
};

struct player {
  bool real; /* plays the dispatch, not the model */
  union {
    tasks queue;
    struct model model;
  } on;
  struct heap heap;
  size_t limit, concurrency;
  const uint8_t *bytes;
  size_t size, at;
  size_t silent;   /* callbacks do not act before that place */
  unsigned acting; /* a bit for each kind of callback that does */
  int nesting;
  bool failed, over;
  struct trace *trace;
  const struct trace *model; /* what must come out */
  uint32_t next;             /* task */
  uint32_t running[MODEL_RUNNING];
  size_t run;
  uint32_t last_ended;
  bool accepted[MAX_TASKS], done[MAX_TASKS];
  fq_id ids[MAX_TASKS];
  void *places[MAX_TASKS];
};

/* -- One call of the dispatch, or of the model ------------------------------------------------- */

static fq_status play_complete(struct player *p, uint32_t number, int error) {
  return p->real ? tasks_complete(&p->on.queue, p->ids[number], error)
                 : model_complete(&p->on.model, number, error);
}

static size_t play_push_n(struct player *p, const struct task *list, size_t n, fq_status *why) {
  size_t accepted = 0;
  if (p->real) {
    return tasks_push_n(&p->on.queue, list, n, why);
  }
  *why = model_push_some(&p->on.model, list, n, false, &accepted);
  return accepted;
}

static fq_status play_push(struct player *p, struct task task, bool front) {
  size_t accepted = 0;
  if (p->real) {
    return front ? tasks_push_front(&p->on.queue, task) : tasks_push(&p->on.queue, task);
  }
  return model_push_some(&p->on.model, &task, 1, front, &accepted);
}

static size_t play_run(struct player *p, size_t budget) {
  return p->real ? tasks_run(&p->on.queue, budget) : model_run(&p->on.model, budget);
}

static void play_pause(struct player *p, bool paused) {
  if (!p->real) {
    model_pause(&p->on.model, paused);
  } else if (paused) {
    tasks_pause(&p->on.queue);
  } else {
    tasks_resume(&p->on.queue);
  }
}

/* With a limit nothing but a higher concurrency and a cancel may need memory after init. */
static fq_status play_set_concurrency(struct player *p, size_t concurrency) {
  bool refuse = p->heap.refuse;
  p->heap.refuse = false;
  fq_status status = p->real ? tasks_set_concurrency(&p->on.queue, concurrency)
                             : model_set_concurrency(&p->on.model, concurrency);
  p->heap.refuse = refuse;
  return status;
}

static size_t play_cancel_if(struct player *p, bool (*pred)(const void *task, void *arg)) {
  bool refuse = p->heap.refuse;
  p->heap.refuse = false;
  size_t n =
      p->real ? tasks_cancel_if(&p->on.queue, pred, p) : model_cancel_if(&p->on.model, pred, p);
  p->heap.refuse = refuse;
  return n;
}

static void play_each(struct player *p, bool (*fn)(const void *task, void *arg)) {
  if (p->real) {
    tasks_each(&p->on.queue, fn, p);
  } else {
    model_each(&p->on.model, fn, p);
  }
}

static void play_close(struct player *p) {
  if (p->real) {
    tasks_close(&p->on.queue);
  } else {
    model_close(&p->on.model);
  }
}

static fq_status play_destroy(struct player *p) {
  return p->real ? tasks_destroy(&p->on.queue) : model_destroy(&p->on.model);
}

/* -- What is seen ------------------------------------------------------------------------------ */

static void print_event(const char *who, const struct event *e) {
  printf("%s: %s ", who, what_names[e->what]);
  if (e->what == VERB) {
    printf("%s", letter_names[e->number]);
  } else {
    printf("%u, %lld", (unsigned)e->number, (long long)e->value);
  }
  printf("; count %zu running %zu idle %d; submitted %llu completed %llu failed %llu canceled %llu "
         "peak %llu\n",
         e->count, e->running, e->idle, (unsigned long long)e->stats.submitted,
         (unsigned long long)e->stats.completed, (unsigned long long)e->stats.failed,
         (unsigned long long)e->stats.canceled, (unsigned long long)e->stats.peak);
}

static bool same_event(const struct event *a, const struct event *b) {
  return a->what == b->what && a->number == b->number && a->value == b->value &&
         a->count == b->count && a->running == b->running && a->idle == b->idle &&
         a->stats.submitted == b->stats.submitted && a->stats.completed == b->stats.completed &&
         a->stats.failed == b->stats.failed && a->stats.canceled == b->stats.canceled &&
         a->stats.peak == b->stats.peak;
}

static void check_event(struct player *p, size_t i) {
  const struct trace *model = p->model;
  if (!CHECK(i < model->n && same_event(&p->trace->events[i], &model->events[i]))) {
    p->failed = true;
    for (size_t j = i > 12 ? i - 12 : 0; j < i; j++) {
      print_event("both", &model->events[j]);
    }
    if (i < model->n) {
      print_event("model", &model->events[i]);
    }
    print_event("dispatch", &p->trace->events[i]);
  }
}

static void see(struct player *p, enum what what, uint32_t number, int64_t value) {
  if (p->failed || p->trace->n == MAX_EVENTS) {
    return;
  }
  struct event *e = &p->trace->events[p->trace->n++];
  *e = (struct event){.what = what, .number = number, .value = value};
  if (p->real) {
    e->count = tasks_count(&p->on.queue);
    e->running = tasks_running(&p->on.queue);
    e->idle = tasks_idle(&p->on.queue);
    e->stats = tasks_stats(&p->on.queue);
    check_event(p, p->trace->n - 1);
  } else if (!p->on.model.dead) {
    e->count = p->on.model.count;
    e->running = p->on.model.run;
    e->idle = model_is_idle(&p->on.model);
    e->stats = model_stats(&p->on.model);
  } else {
    e->idle = true;
  }
}

/* -- The program ------------------------------------------------------------------------------- */

static void act(struct player *p, enum letter letter);

static enum letter next_letter(struct player *p) {
  bool silent = p->at >= p->size || p->failed || p->over || p->trace->n > MAX_EVENTS * 3 / 4;
  return silent ? RETURN : (enum letter)(p->bytes[p->at++] % LETTERS);
}

static void act_inside(struct player *p, enum what what) {
  if ((p->acting >> what) % 2 == 0 || p->at < p->silent || p->nesting == MAX_NESTING) {
    return;
  }
  p->nesting++;
  for (int i = 0; i < MAX_ACTS; i++) {
    enum letter letter = next_letter(p);
    if (letter == RETURN) {
      break;
    }
    act(p, letter);
  }
  p->nesting--;
}

static bool task_is_whole(const struct task *task) {
  return task->number < MAX_TASKS && task->secret == task->number * 2654435761u;
}

static int player_work(void *task, void *ctx) {
  struct player *p = (struct player *)ctx;
  struct task *t = (struct task *)task;
  if (!CHECK(task_is_whole(t))) {
    p->failed = true;
    return 0;
  }
  if (p->real) {
    p->places[t->number] = task;
    p->ids[t->number] = tasks_id(&p->on.queue, task);
    p->failed |= !CHECK(p->ids[t->number] != 0);
    p->failed |= !CHECK(tasks_task(&p->on.queue, p->ids[t->number]) == task);
  }
  p->running[p->run++] = t->number;
  see(p, IN_WORKER, t->number, 0);
  act_inside(p, IN_WORKER);
  return t->pending ? FQ_PENDING : t->error;
}

static void player_done(void *task, int error, void *ctx) {
  struct player *p = (struct player *)ctx;
  struct task *t = (struct task *)task;
  if (!CHECK(task_is_whole(t) && !p->done[t->number])) {
    p->failed = true;
    return;
  }
  p->done[t->number] = true;
  if (error != FQ_CANCELED) {
    size_t i = 0;
    while (i < p->run && p->running[i] != t->number) {
      i++;
    }
    p->failed |= !CHECK(i < p->run);
    p->run -= i < p->run ? 1 : 0;
    memmove(p->running + i, p->running + i + 1, (p->run - i) * sizeof(p->running[0]));
    p->last_ended = t->number;
    p->failed |= p->real && !CHECK(p->places[t->number] == task);
  }
  see(p, IN_DONE, t->number, error);
  act_inside(p, IN_DONE);
}

static void player_saturated(void *ctx) {
  see((struct player *)ctx, IN_SATURATED, 0, 0);
  act_inside((struct player *)ctx, IN_SATURATED);
}

static void player_empty(void *ctx) {
  see((struct player *)ctx, IN_EMPTY, 0, 0);
  act_inside((struct player *)ctx, IN_EMPTY);
}

static void player_drain(void *ctx) {
  see((struct player *)ctx, IN_DRAIN, 0, 0);
  act_inside((struct player *)ctx, IN_DRAIN);
}

static bool player_pred(const void *task, void *arg) {
  struct player *p = (struct player *)arg;
  uint32_t number = ((const struct task *)task)->number;
  see(p, IN_PRED, number, 0);
  act_inside(p, IN_PRED);
  return number % 2 == 0;
}

static bool player_fn(const void *task, void *arg) {
  struct player *p = (struct player *)arg;
  uint32_t number = ((const struct task *)task)->number;
  see(p, IN_FN, number, 0);
  act_inside(p, IN_FN);
  return number % 3 != 0;
}

static struct task new_task(struct player *p, bool pending, int error) {
  uint32_t number = p->next++;
  return (struct task){
      .number = number, .error = error, .pending = pending, .secret = number * 2654435761u};
}

static int64_t act_push(struct player *p, bool front, bool pending, int error) {
  struct task task = new_task(p, pending, error);
  fq_status status = play_push(p, task, front);
  p->accepted[task.number] = status == FQ_OK;
  return status;
}

static int64_t act_push_n(struct player *p, size_t n, bool pending) {
  struct task list[4];
  fq_status why = FQ_SYSTEM;
  uint32_t first = p->next;
  for (size_t i = 0; i < n; i++) {
    list[i] = new_task(p, pending, 0);
  }
  size_t accepted = play_push_n(p, list, n, &why);
  for (size_t i = 0; i < accepted; i++) {
    p->accepted[first + i] = true;
  }
  return (int64_t)accepted * 100 - why;
}

/* Task 0 is never pushed. */
static int64_t act_complete(struct player *p, enum letter letter) {
  uint32_t number = 0;
  if (letter == COMPLETE_ENDED) {
    number = p->last_ended;
  } else if (letter != COMPLETE_NONE && p->run > 0) {
    number = p->running[letter == COMPLETE_OLDEST ? 0 : p->run - 1];
  }
  return play_complete(p, number, letter == COMPLETE_NEWEST ? 7 : 0);
}

static int64_t do_letter(struct player *p, enum letter letter) {
  switch (letter) {
  case PUSH_SHORT:
  case PUSH_LONG:
  case PUSH_FAILING:
    return act_push(p, false, letter == PUSH_LONG, letter == PUSH_FAILING ? 5 : 0);
  case FRONT_SHORT:
  case FRONT_LONG:
    return act_push(p, true, letter == FRONT_LONG, 0);
  case PUSH_3_LONG:
    return act_push_n(p, 3, true);
  case PUSH_4_SHORT:
    return act_push_n(p, 4, false);
  case COMPLETE_OLDEST:
  case COMPLETE_NEWEST:
  case COMPLETE_ENDED:
  case COMPLETE_NONE:
    return act_complete(p, letter);
  case RUN_0:
    return (int64_t)play_run(p, 0);
  case RUN_1:
    return (int64_t)play_run(p, 1);
  case RUN_3:
    return (int64_t)play_run(p, 3);
  case PAUSE:
  case RESUME:
    play_pause(p, letter == PAUSE);
    return 0;
  case SET_0:
    return play_set_concurrency(p, 0);
  case SET_1:
    return play_set_concurrency(p, 1);
  case SET_2:
    return play_set_concurrency(p, 2);
  case SET_5:
    return play_set_concurrency(p, 5);
  case CANCEL_ALL:
    return (int64_t)play_cancel_if(p, NULL);
  case CANCEL_SOME:
    return (int64_t)play_cancel_if(p, player_pred);
  case EACH:
    play_each(p, player_fn);
    return 0;
  case CLOSE:
    play_close(p);
    return 0;
  case DESTROY: {
    fq_status status = play_destroy(p);
    p->over = p->over || status == FQ_OK;
    return status;
  }
  default:
    return 0;
  }
}

static void act(struct player *p, enum letter letter) {
  if (p->next + 4 <= MAX_TASKS) {
    see(p, VERB, (uint32_t)letter, 0);
    int64_t answer = do_letter(p, letter);
    see(p, ANSWER, (uint32_t)letter, answer);
  }
}

static void player_open(struct player *p, const uint8_t *data) {
  p->next = 1;
  p->last_ended = 0;
  p->run = p->at = 0;
  p->nesting = 0;
  p->failed = p->over = false;
  p->trace->n = 0;
  p->acting = data[0];
  p->limit = data[2] % 5u;
  p->silent = data[3] % 16u;
  memset(&p->heap, 0, sizeof(p->heap));
  const fq_allocator memory = {heap_alloc, heap_free, &p->heap};
  fq_config config = {.worker = player_work,
                      .done = player_done,
                      .ctx = p,
                      .concurrency = data[1] % 3u + 1,
                      .limit = p->limit,
                      .on_saturated = player_saturated,
                      .on_empty = player_empty,
                      .on_drain = player_drain,
                      .allocator = &memory};
  if (p->real) {
    p->failed |= !CHECK(tasks_init(&p->on.queue, &config) == FQ_OK);
    p->heap.refuse = p->limit > 0;
  } else {
    model_open(&p->on.model, &config);
  }
}

/* Lets everything come to its end. */
static void player_close(struct player *p) {
  p->at = p->size;
  for (enum letter letter = RESUME; !p->over && !p->failed; letter = COMPLETE_OLDEST) {
    p->next = p->next + 4 <= MAX_TASKS ? p->next : MAX_TASKS - 4;
    act(p, p->run > 0 || letter == RESUME ? letter : DESTROY);
  }
  for (uint32_t i = 1; i < p->next; i++) {
    p->failed |= !CHECK(p->done[i] == p->accepted[i]);
    p->done[i] = p->accepted[i] = false;
    p->ids[i] = 0;
  }
  if (p->real && !p->failed) {
    p->failed |= !CHECK(p->trace->n == p->model->n);
    p->failed |= !CHECK(p->heap.live == 0 && !p->heap.damaged);
  }
}

static struct trace traces[2];
static struct player players[2] = {{.real = false, .trace = &traces[0]},
                                   {.real = true, .trace = &traces[1], .model = &traces[0]}};

/* The first four bytes say who acts, the concurrency, the limit, and how many letters go before
 * callbacks act. */
static bool run_bytes(const uint8_t *data, size_t size) {
  if (size < 4) {
    return true;
  }
  for (size_t i = 0; i < 2; i++) {
    struct player *p = &players[i];
    player_open(p, data);
    p->bytes = data + 4;
    p->size = size < MAX_INPUT ? size - 4 : MAX_INPUT - 4;
    while (p->at < p->size && !p->over && !p->failed) {
      act(p, next_letter(p));
    }
    player_close(p);
    if (p->failed) {
      return false;
    }
  }
  return true;
}

#ifdef FUZZ

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!run_bytes(data, size)) {
    fflush(stdout); /* says which CHECK */
    abort();
  }
  return 0;
}

#else

static void print_program(const uint8_t *data, size_t size) {
  printf("acting %02x, concurrency %u, limit %u, silent %u:", data[0], data[1] % 3u + 1,
         data[2] % 5u, data[3] % 16u);
  for (size_t i = 4; i < size; i++) {
    printf(" %s%s", letter_names[data[i] % LETTERS], i + 1 < size ? "," : "\n");
  }
}

/* All programs of length letters after those that are there. */
static bool walk(uint8_t *data, size_t size, size_t length) {
  if (length == 0) {
    bool good = run_bytes(data, size);
    if (!good) {
      print_program(data, size);
    }
    return good;
  }
  for (uint8_t letter = 0; letter < LETTERS; letter++) {
    data[size] = letter;
    if (!walk(data, size + 1, length - 1)) {
      return false;
    }
  }
  return true;
}

/* Where the walks begin. */
static const struct {
  size_t n;
  uint8_t letters[4];
} beginnings[] = {{0, {0}},
                  {1, {PUSH_3_LONG}},
                  {2, {PUSH_3_LONG, PAUSE}},
                  {2, {PAUSE, PUSH_4_SHORT}},
                  {3, {PUSH_LONG, PUSH_4_SHORT, PUSH_FAILING}}};

enum { BEGINNINGS = sizeof(beginnings) / sizeof(beginnings[0]) };

static bool walk_all(uint8_t acting, uint8_t concurrency, uint8_t limit, size_t length) {
  for (size_t i = 0; i < BEGINNINGS; i++) {
    uint8_t data[32] = {acting, (uint8_t)(concurrency - 1), limit, (uint8_t)beginnings[i].n};
    memcpy(data + 4, beginnings[i].letters, beginnings[i].n);
    if (!walk(data, 4 + beginnings[i].n, length)) {
      return false;
    }
  }
  return true;
}

#ifdef TEST_QUICK
enum { LENGTH = 2, PROGRAMS = 300 };
#else
enum { LENGTH = 3, PROGRAMS = 3000 };
#endif

/* At top level alone, in one kind of callback alone, and wherever there is one. */
static void all_short_programs(void) {
  for (uint8_t concurrency = 1; concurrency <= 2; concurrency++) {
    for (uint8_t limit = 0; limit <= 2; limit += 2) {
      for (int kind = -1; kind <= IN_FN; kind++) {
        uint8_t acting = (uint8_t)(kind < 0 ? 0 : 1 << kind);
        if (!CHECK(walk_all(acting, concurrency, limit, LENGTH))) {
          return;
        }
      }
      if (!CHECK(walk_all(0xFF, concurrency, limit, LENGTH))) {
        return;
      }
    }
  }
}

static void random_programs(void) {
  uint8_t data[1024];
  uint64_t state = 1;
  for (int program = 0; program < PROGRAMS; program++) {
    for (size_t i = 0; i < sizeof(data); i++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      data[i] = (uint8_t)(state >> 56);
    }
    /* The calls that end it are rare, so that it gets somewhere. */
    for (size_t i = 4; i < sizeof(data); i++) {
      if (data[i] % LETTERS >= CLOSE && program % 8 != 0) {
        data[i] = PUSH_LONG;
      }
    }
    if (!CHECK(run_bytes(data, program % 2 == 0 ? sizeof(data) : 64))) {
      print_program(data, sizeof(data));
      printf("in program %d\n", program);
      return;
    }
  }
}

int main(void) {
  RUN(all_short_programs);
  RUN(random_programs);
  return test_end();
}

#endif
