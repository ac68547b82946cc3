/* dispatch_calls.c: FQ_DISPATCH: what it calls in which order, and what may be called from
 * there. */
#define FASTQ_NO_THREADS /* nothing here needs the system */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"

#include "dispatch_desk.h"

/* -- State callbacks: the whole story ---------------------------------------------------------- */

static void story_of_singles(void) {
  struct desk *d = desk_open(1, 0);
  CHECK(push_short(d, 0) == FQ_OK && push_short(d, 1) == FQ_OK);
  CHECK(did(d, "+A -A D +B -B D"));
  CHECK(push_long(d, 2) == FQ_OK && push_long(d, 3) == FQ_OK && push_long(d, 4) == FQ_OK);
  CHECK(did(d, "+C S"));
  CHECK(complete(d, 2) == FQ_OK);
  CHECK(did(d, "-C +D"));
  CHECK(complete(d, 3) == FQ_OK);
  CHECK(did(d, "-D E +E"));
  CHECK(complete(d, 4) == FQ_OK);
  CHECK(did(d, "-E D"));
  desk_close(d);
}

static void story_of_a_bulk(void) {
  struct desk *d = desk_open(2, 0);
  CHECK(push_many(d, 0, 2, true, NULL) == 2); /* as many as there are places: no backlog */
  CHECK(did(d, "+A +B"));
  settle(d);
  CHECK(did(d, "-A -B D"));
  CHECK(push_many(d, 0, 4, true, NULL) == 4);
  CHECK(did(d, "S +A +B"));
  settle(d);
  CHECK(did(d, "-A +C -B E +D -C -D D"));
  CHECK(push_many(d, 0, 4, false, NULL) == 4);
  CHECK(did(d, "S +A -A +B -B +C -C E +D -D D"));
  desk_close(d);
}

static void story_of_a_pause(void) {
  struct desk *d = desk_open(2, 0);
  jobs_pause(&d->queue);
  jobs_pause(&d->queue); /* not counted */
  CHECK(did(d, ""));
  CHECK(push_short(d, 0) == FQ_OK && push_short(d, 1) == FQ_OK && push_long(d, 2) == FQ_OK);
  CHECK(did(d, "S"));
  jobs_resume(&d->queue);
  CHECK(did(d, "+A -A +B -B E +C"));
  jobs_pause(&d->queue);
  CHECK(push_short(d, 3) == FQ_OK);
  CHECK(complete(d, 2) == FQ_OK); /* what runs runs on; nothing starts, nothing drains */
  CHECK(did(d, "S -C"));
  CHECK(!jobs_idle(&d->queue));
  jobs_resume(&d->queue);
  jobs_resume(&d->queue);
  CHECK(did(d, "E +D -D D"));
  desk_close(d);
}

/* The first worker pushes two, for which there are places, and takes the places away. */
static void push_and_pause(struct desk *d, struct job *job) {
  if (job->number == 0) {
    CHECK(push_short(d, 1) == FQ_OK && push_short(d, 2) == FQ_OK);
    CHECK(jobs_count(&d->queue) == 2);
    jobs_pause(&d->queue);
  }
}

static void push_and_lower(struct desk *d, struct job *job) {
  if (job->number == 0) {
    CHECK(push_short(d, 1) == FQ_OK && push_short(d, 2) == FQ_OK);
    CHECK(set_concurrency(d, 1) == FQ_OK);
  }
}

static void story_of_lost_places(void) {
  struct desk *d = desk_open(3, 0);
  d->at_worker = push_and_pause;
  CHECK(push_long(d, 0) == FQ_OK);
  CHECK(did(d, "+A S"));
  jobs_resume(&d->queue);
  CHECK(did(d, "+B -B E +C -C"));
  CHECK(complete(d, 0) == FQ_OK);
  CHECK(did(d, "-A D"));
  d->at_worker = push_and_lower;
  CHECK(push_long(d, 0) == FQ_OK);
  CHECK(did(d, "+A S"));
  CHECK(complete(d, 0) == FQ_OK);
  CHECK(did(d, "-A +B -B E +C -C D"));
  CHECK(set_concurrency(d, 3) == FQ_OK);
  d->at_worker = NULL;
  desk_close(d);
}

static void story_of_cancels(void) {
  struct desk *d = desk_open(1, 0);
  CHECK(push_many(d, 0, 5, true, NULL) == 5);
  CHECK(cancel_number(d, 0) == 0); /* it runs */
  CHECK(cancel_number(d, 2) == 1);
  CHECK(cancel_number(d, 2) == 0);
  CHECK(did(d, "S +A xC"));
  CHECK(jobs_cancel_if(&d->queue, NULL, NULL) == 3);
  CHECK(did(d, "E xB xD xE"));
  CHECK(jobs_cancel_if(&d->queue, NULL, NULL) == 0);
  CHECK(did(d, ""));
  CHECK(push_long(d, 5) == FQ_OK);
  CHECK(complete(d, 0) == FQ_OK);
  CHECK(did(d, "S -A E +F"));
  CHECK(complete(d, 5) == FQ_OK);
  jobs_pause(&d->queue);
  CHECK(push_many(d, 6, 3, true, NULL) == 3);
  CHECK(jobs_cancel_if(&d->queue, NULL, NULL) == 3); /* all there was, so that it drains */
  CHECK(did(d, "-F D S E xG xH xI D"));
  desk_close(d);
}

static void push_one_more(struct desk *d) {
  unsigned number = (unsigned)d->starts;
  if (number < 3) {
    CHECK(push_short(d, number) == FQ_OK);
    CHECK(d->starts == number); /* not inside this callback */
  }
}

static void story_of_a_push_in_drain(void) {
  struct desk *d = desk_open(2, 0);
  d->at_drain = push_one_more;
  CHECK(push_short(d, 0) == FQ_OK);
  CHECK(did(d, "+A -A D +B -B D +C -C D"));
  desk_close(d);
}

static void push_next_in_done(struct desk *d, struct job *job, int error) {
  if (job->number < 2 && error == 0) {
    CHECK(push_short(d, job->number + 1) == FQ_OK);
  }
}

/* In done the task still has its place. */
static void story_of_a_push_in_done(void) {
  for (size_t concurrency = 1; concurrency <= 2; concurrency++) {
    struct desk *d = desk_open(concurrency, 0);
    d->at_done = push_next_in_done;
    CHECK(push_short(d, 0) == FQ_OK);
    CHECK(did(d, concurrency == 1 ? "+A -A S E +B -B S E +C -C D" : "+A -A +B -B +C -C D"));
    desk_close(d);
  }
}

static void push_and_complete(struct desk *d, struct job *job) {
  if (job->number == 1) {
    CHECK(push_long(d, 2) == FQ_OK);
    CHECK(complete(d, 0) == FQ_OK);
  }
}

/* What has ended is told before anything starts. */
static void story_of_a_push_and_a_completion(void) {
  struct desk *d = desk_open(3, 0);
  d->at_worker = push_and_complete;
  CHECK(push_long(d, 0) == FQ_OK && push_long(d, 1) == FQ_OK);
  CHECK(did(d, "+A +B -A +C"));
  settle(d);
  desk_close(d);
}

static void push_in_empty(struct desk *d) {
  if (d->starts < 4) {
    CHECK(push_short(d, (unsigned)d->starts + 1) == FQ_OK);
  }
}

/* on_empty comes before the task that emptied the backlog starts. */
static void story_of_a_push_in_empty(void) {
  struct desk *d = desk_open(1, 0);
  d->at_empty = push_in_empty;
  jobs_pause(&d->queue);
  CHECK(push_short(d, 0) == FQ_OK);
  jobs_resume(&d->queue);
  CHECK(did(d, "S E S +A -A E S +B -B E S +C -C E S +D -D E +E -E D"));
  desk_close(d);
}

static void cancel_all_in_saturated(struct desk *d) {
  CHECK(jobs_cancel_if(&d->queue, NULL, NULL) == 1);
}

static void story_of_a_cancel_in_saturated(void) {
  struct desk *d = desk_open(1, 0);
  d->at_saturated = cancel_all_in_saturated;
  CHECK(push_long(d, 0) == FQ_OK && push_long(d, 1) == FQ_OK && push_long(d, 2) == FQ_OK);
  CHECK(did(d, "+A S E xB S E xC"));
  CHECK(complete(d, 0) == FQ_OK);
  CHECK(did(d, "-A D"));
  desk_close(d);
}

static void push_when_canceled(struct desk *d, struct job *job, int error) {
  if (error == FQ_CANCELED && job->number < 10) {
    CHECK(push_short(d, job->number + 10) == FQ_OK);
  }
}

/* A canceled task that comes back: the drain waits for it. */
static void story_of_a_push_when_canceled(void) {
  struct desk *d = desk_open(1, 0);
  d->at_done = push_when_canceled;
  jobs_pause(&d->queue);
  CHECK(push_many(d, 0, 2, false, NULL) == 2);
  CHECK(jobs_cancel_if(&d->queue, NULL, NULL) == 2);
  CHECK(did(d, "S E xA S xB"));
  jobs_resume(&d->queue);
  CHECK(did(d, "+K -K E +L -L D"));
  desk_close(d);
}

static void story_of_a_close(void) {
  struct desk *d = desk_open(1, 0);
  CHECK(push_many(d, 0, 3, true, NULL) == 3);
  jobs_close(&d->queue);
  jobs_close(&d->queue);
  CHECK(push_long(d, 3) == FQ_CLOSED);
  CHECK(did(d, "S +A"));
  settle(d); /* what waits still runs */
  CHECK(did(d, "-A +B -B E +C -C D"));
  CHECK(push_long(d, 3) == FQ_CLOSED);
  CHECK(did(d, ""));
  desk_close(d);
  CHECK(did(d, ""));
}

static void story_of_the_end(void) {
  struct desk *d = desk_open(1, 0);
  jobs_pause(&d->queue);
  CHECK(push_many(d, 0, 3, true, NULL) == 3);
  desk_close(d);
  CHECK(did(d, "S E xA xB xC D"));
}

static void nothing_to_tell(void) {
  struct desk *d = desk_open(2, 2);
  jobs_pause(&d->queue);
  jobs_resume(&d->queue);
  CHECK(jobs_cancel_if(&d->queue, NULL, NULL) == 0);
  CHECK(set_concurrency(d, 4) == FQ_OK && set_concurrency(d, 1) == FQ_OK);
  CHECK(jobs_run(&d->queue, SIZE_MAX) == 0);
  jobs_close(&d->queue);
  CHECK(did(d, ""));
  desk_close(d);
  CHECK(did(d, ""));
}

/* -- run --------------------------------------------------------------------------------------- */

static void run_within_a_budget(void) {
  struct desk *d = desk_open(2, 0);
  jobs_pause(&d->queue);
  CHECK(push_many(d, 0, 5, false, NULL) == 5);
  CHECK(push_many(d, 5, 3, true, NULL) == 3);
  CHECK(jobs_run(&d->queue, 0) == 0);
  CHECK(did(d, "S"));
  CHECK(jobs_run(&d->queue, 1) == 1);
  CHECK(did(d, "+A -A"));
  CHECK(jobs_run(&d->queue, 3) == 3);
  CHECK(did(d, "+B -B +C -C +D -D"));
  CHECK(jobs_run(&d->queue, SIZE_MAX) == 3); /* then all places are taken */
  CHECK(did(d, "+E -E +F +G"));
  CHECK(jobs_run(&d->queue, 9) == 0);
  CHECK(complete(d, 5) == FQ_OK);
  CHECK(did(d, "-F")); /* still paused */
  CHECK(jobs_run(&d->queue, 9) == 1);
  CHECK(complete(d, 6) == FQ_OK && complete(d, 7) == FQ_OK);
  CHECK(did(d, "E +H -G -H D"));
  CHECK(jobs_run(&d->queue, 9) == 0);
  jobs_resume(&d->queue);
  CHECK(push_many(d, 8, 3, true, NULL) == 3);
  CHECK(jobs_run(&d->queue, 9) == 0); /* whatever may start has started */
  CHECK(did(d, "S +I +J"));
  settle(d);
  desk_close(d);
}

static void run_in_worker(struct desk *d, struct job *job) {
  size_t starts = d->starts;
  if (job->number < 3) {
    CHECK(push_short(d, job->number + 10) == FQ_OK);
  }
  CHECK(jobs_run(&d->queue, 5) == 0 && d->starts == starts);
}

static void run_inside_a_callback(void) {
  struct desk *d = desk_open(2, 0);
  d->at_worker = run_in_worker;
  jobs_pause(&d->queue);
  CHECK(push_many(d, 0, 3, false, NULL) == 3);
  CHECK(jobs_run(&d->queue, 2) == 2);
  CHECK(did(d, "S +A -A +B -B"));
  CHECK(jobs_run(&d->queue, 3) == 3);
  CHECK(did(d, "+C -C +K -K +L -L"));
  CHECK(jobs_run(&d->queue, 3) == 1);
  CHECK(did(d, "E +M -M D"));
  desk_close(d);
}

static void resume_in_worker(struct desk *d, struct job *job) {
  if (job->number == 1) {
    jobs_resume(&d->queue);
  }
}

/* The budget holds what is paused. Once resumed, whatever may start does: nothing else would come
 * to start it. */
static void resume_inside_run(void) {
  struct desk *d = desk_open(1, 0);
  d->at_worker = resume_in_worker;
  jobs_pause(&d->queue);
  CHECK(push_many(d, 0, 4, false, NULL) == 4);
  CHECK(jobs_run(&d->queue, 1) == 1);
  CHECK(did(d, "S +A -A"));
  (void)jobs_run(&d->queue, 1);
  CHECK(did(d, "+B -B +C -C E +D -D D"));
  desk_close(d);
}

/* -- cancel_if, each, stats -------------------------------------------------------------------- */

struct walk {
  struct desk *desk;
  char seen[64];
  size_t length;
  unsigned divisor, last; /* which are dropped, where it stops */
};

static bool walk_on(const void *task, void *arg) {
  struct walk *w = (struct walk *)arg;
  unsigned number = ((const struct job *)task)->number;
  w->seen[w->length++] = (char)('A' + number);
  desk_look(w->desk);
  CHECK(jobs_count(&w->desk->queue) == 8); /* they all wait until it has ended */
  return w->divisor > 0 ? number % w->divisor == 0 : number != w->last;
}

static void walks_in_order(void) {
  static const char *const dropped[] = {"E xB xC xD xE xF xG xH xI D", "xC xE xG xI", "xD xG",
                                        "xE xI", ""};
  static const char *const left[] = {"", "+B -B +D -D +F -F E +H -H D",
                                     "+B -B +C -C +E -E +F -F +H -H E +I -I D",
                                     "+B -B +C -C +D -D +F -F +G -G E +H -H D",
                                     "+B -B +C -C +D -D +E -E +F -F +G -G +H -H E +I -I D"};
  static const unsigned divisors[] = {1, 2, 3, 4, 9};
  for (size_t i = 0; i < COUNT_OF(divisors); i++) {
    struct desk *d = desk_open(1, 0);
    struct walk w = {.desk = d, .last = 3};
    jobs_pause(&d->queue);
    CHECK(push_many(d, 0, 5, false, NULL) == 5);
    CHECK(jobs_run(&d->queue, 5) == 5); /* so that the tasks lie around the end of the storage */
    CHECK(push_many(d, 1, 8, false, NULL) == 8);
    jobs_each(&d->queue, walk_on, &w);
    CHECK(strcmp(w.seen, "BCD") == 0);
    CHECK(did(d, "S +A -A +B -B +C -C +D -D E +E -E D S"));
    w = (struct walk){.desk = d, .divisor = divisors[i]};
    CHECK(jobs_cancel_if(&d->queue, walk_on, &w) == 8 / divisors[i]);
    CHECK(strcmp(w.seen, "BCDEFGHI") == 0); /* each was asked once, in order */
    CHECK(did(d, dropped[i]));
    CHECK(jobs_count(&d->queue) == 8 - 8 / divisors[i]);
    settle(d); /* the rest is whole and in order */
    CHECK(did(d, left[i]));
    desk_close(d);
  }
}

static void each_while_nothing_waits(void) {
  struct desk *d = desk_open(1, 0);
  bool called = false;
  CHECK(push_long(d, 0) == FQ_OK);
  jobs_each(&d->queue, note_call, &called);
  CHECK(jobs_cancel_if(&d->queue, note_call, &called) == 0);
  CHECK(!called);
  settle(d);
  desk_close(d);
}

static void cancel_more(struct desk *d, struct job *job, int error) {
  if (error == FQ_CANCELED && job->number == 1) {
    CHECK(cancel_number(d, 4) == 1); /* inside the done of another that was canceled */
    CHECK(push_short(d, 6) == FQ_OK);
    CHECK(cancel_number(d, 6) == 1);
  }
}

static void cancel_inside_cancel(void) {
  struct desk *d = desk_open(1, 0);
  d->at_done = cancel_more;
  jobs_pause(&d->queue);
  CHECK(push_many(d, 0, 6, false, NULL) == 6);
  CHECK(cancel_number(d, 1) == 1);
  CHECK(did(d, "S xB xE xG"));
  CHECK(jobs_cancel_if(&d->queue, NULL, NULL) == 4);
  CHECK(did(d, "E xA xC xD xF D"));
  desk_close(d);
}

static void stats_tell_it_all(void) {
  struct desk *d = desk_open(2, 4);
  CHECK(push_many(d, 0, 9, true, NULL) == 6);
  fq_stats s = jobs_stats(&d->queue);
  CHECK(s.submitted == 6 && s.completed == 0 && s.failed == 0 && s.canceled == 0 && s.peak == 4);
  CHECK(jobs_complete(&d->queue, d->ids[1], 3) == FQ_OK && complete(d, 0) == FQ_OK);
  CHECK(cancel_number(d, 4) == 1);
  s = jobs_stats(&d->queue);
  CHECK(s.submitted == 6 && s.completed == 2 && s.failed == 1 && s.canceled == 1 && s.peak == 4);
  CHECK(jobs_count(&d->queue) == 1 && jobs_running(&d->queue) == 2 && !jobs_idle(&d->queue));
  settle(d);
  CHECK(push_long(d, 0) == FQ_OK && push_long(d, 1) == FQ_OK && push_long(d, 2) == FQ_OK);
  s = jobs_stats(&d->queue);
  CHECK(s.submitted == 9 && s.completed == 5 && s.failed == 1 && s.canceled == 1 && s.peak == 4);
  settle(d);
  desk_close(d);
}

/* Tasks that find a place are no backlog. */
static void peak_is_the_longest_backlog(void) {
  struct desk *d = desk_open(3, 0);
  CHECK(push_many(d, 0, 3, true, NULL) == 3);
  CHECK(jobs_stats(&d->queue).peak == 0);
  settle(d);
  CHECK(push_many(d, 0, 5, false, NULL) == 5);
  CHECK(jobs_stats(&d->queue).peak == 2);
  CHECK(push_many(d, 0, 3, true, NULL) == 3 && push_many(d, 3, 3, true, NULL) == 3);
  CHECK(jobs_stats(&d->queue).peak == 3);
  settle(d);
  jobs_pause(&d->queue);
  CHECK(push_many(d, 6, 4, true, NULL) == 4);
  CHECK(jobs_stats(&d->queue).peak == 4);
  CHECK(jobs_cancel_if(&d->queue, NULL, NULL) == 4);
  CHECK(jobs_stats(&d->queue).peak == 4);
  desk_close(d);
}

/* -- Every verb inside every callback ---------------------------------------------------------- */

enum where { IN_WORKER, IN_DONE, IN_CANCELED, IN_SATURATED, IN_EMPTY, IN_DRAIN, WHERES };

enum verb {
  PUSH,
  PUSH_FRONT,
  PUSH_N,
  COMPLETE,
  RUN,
  PAUSE,
  RESUME,
  RAISE,
  LOWER,
  CANCEL,
  EACH,
  CLOSE,
  DESTROY,
  LOOK,
  VERBS
};

static struct {
  enum where where;
  enum verb verb;
  bool called;
  size_t starts; /* when it was called */
} inside;

enum { HOLDER = 0, NEW = 40 }; /* the job that runs throughout, and those that the verbs push */

static bool count_walk(const void *task, void *arg) {
  (void)task;
  ++*(size_t *)arg;
  return true;
}

/* In pred and fn nothing but looking does anything. */
static void forbidden(struct desk *d) {
  size_t walked = 0;
  fq_status why = FQ_OK;
  jobs before;
  memcpy(&before, &d->queue, sizeof(before)); /* its padding, too */
  CHECK(push_short(d, NEW) == FQ_DEADLOCK);
  CHECK(push_job(d, (struct job){.number = NEW}, true) == FQ_DEADLOCK);
  CHECK(push_many(d, NEW, 2, false, &why) == 0 && why == FQ_DEADLOCK);
  CHECK(complete(d, HOLDER) == FQ_DEADLOCK);
  CHECK(jobs_run(&d->queue, 9) == 0);
  jobs_pause(&d->queue);
  jobs_resume(&d->queue);
  CHECK(set_concurrency(d, 9) == FQ_DEADLOCK);
  CHECK(jobs_cancel_if(&d->queue, NULL, NULL) == 0);
  jobs_each(&d->queue, count_walk, &walked);
  CHECK(walked == 0);
  jobs_close(&d->queue);
  CHECK(jobs_destroy(&d->queue) == FQ_DEADLOCK);
  CHECK(memcmp(&before, &d->queue, sizeof(before)) == 0);
}

/* Does the verb, and checks what it says and that it starts and ends nothing here. */
static void do_verb(struct desk *d) {
  size_t count = jobs_count(&d->queue), walked = 0;
  bool holder_runs = jobs_task(&d->queue, d->ids[HOLDER]) != NULL;
  size_t starts = d->starts, ends = d->ends, canceled = (size_t)jobs_stats(&d->queue).canceled;
  fq_status why = FQ_INVALID;
  jobs before;
  memcpy(&before, &d->queue, sizeof(before)); /* its padding, too */
  inside.called = true;
  inside.starts = starts;
  switch (inside.verb) {
  case PUSH:
    CHECK(push_long(d, NEW) == FQ_OK);
    CHECK(jobs_count(&d->queue) == count + 1);
    break;
  case PUSH_FRONT:
    CHECK(push_job(d, (struct job){.number = NEW, .error = 3}, true) == FQ_OK);
    CHECK(jobs_count(&d->queue) == count + 1);
    break;
  case PUSH_N:
    CHECK(push_many(d, NEW, 20, false, &why) == 20 && why == FQ_OK);
    CHECK(jobs_count(&d->queue) == count + 20);
    break;
  case COMPLETE:
    CHECK(complete(d, HOLDER) == (holder_runs ? FQ_OK : FQ_INVALID));
    CHECK(complete(d, HOLDER) == FQ_INVALID);
    CHECK(jobs_task(&d->queue, d->ids[HOLDER]) == NULL);
    break;
  case RUN:
    CHECK(jobs_run(&d->queue, 9) == 0);
    break;
  case PAUSE:
    jobs_pause(&d->queue);
    break;
  case RESUME:
    jobs_pause(&d->queue);
    jobs_resume(&d->queue);
    break;
  case RAISE:
    CHECK(set_concurrency(d, 100) == FQ_OK);
    break;
  case LOWER:
    CHECK(set_concurrency(d, 1) == FQ_OK);
    break;
  case CANCEL:
    CHECK(jobs_cancel_if(&d->queue, NULL, NULL) == count);
    CHECK(jobs_count(&d->queue) == 0);
    CHECK(jobs_stats(&d->queue).canceled == canceled + count);
    break;
  case EACH:
    jobs_each(&d->queue, count_walk, &walked);
    CHECK(walked == count);
    break;
  case CLOSE:
    jobs_close(&d->queue);
    CHECK(push_short(d, NEW) == FQ_CLOSED);
    break;
  case DESTROY:
    CHECK(jobs_destroy(&d->queue) == FQ_DEADLOCK);
    CHECK(memcmp(&before, &d->queue, sizeof(before)) == 0);
    break;
  default:
    desk_look(d);
    CHECK(memcmp(&before, &d->queue, sizeof(before)) == 0);
    break;
  }
  CHECK(d->starts == starts && d->ends == ends);
  desk_look(d);
}

static void maybe_do(struct desk *d, enum where where) {
  if (where == inside.where && !inside.called) {
    do_verb(d);
  }
}

static void verb_in_worker(struct desk *d, struct job *job) {
  if (job->number != HOLDER) {
    maybe_do(d, IN_WORKER);
  }
}

static void verb_in_done(struct desk *d, struct job *job, int error) {
  (void)job;
  maybe_do(d, error == FQ_CANCELED ? IN_CANCELED : IN_DONE);
}

static void verb_in_saturated(struct desk *d) { maybe_do(d, IN_SATURATED); }
static void verb_in_empty(struct desk *d) { maybe_do(d, IN_EMPTY); }
static void verb_in_drain(struct desk *d) { maybe_do(d, IN_DRAIN); }

/* After the outermost call: what waits has a reason to. */
static void check_rest(struct desk *d) {
  bool paused = inside.called && inside.verb == PAUSE;
  if (jobs_count(&d->queue) > 0 && !paused) {
    CHECK(jobs_running(&d->queue) >= d->concurrency);
  }
  if (paused) { /* in on_empty one has its place already */
    CHECK(d->starts == inside.starts + (inside.where == IN_EMPTY ? 1 : 0));
  }
}

/* Goes through every callback, with the holder running and places for two. */
static void go_through(enum where where, enum verb verb) {
  struct desk *d = desk_open(2, 0);
  inside.where = where;
  inside.verb = verb;
  inside.called = false;
  CHECK(push_long(d, HOLDER) == FQ_OK);
  d->at_worker = verb_in_worker;
  d->at_done = verb_in_done;
  d->at_saturated = verb_in_saturated;
  d->at_empty = verb_in_empty;
  d->at_drain = verb_in_drain;
  for (unsigned number = 1; number < 5; number++) {
    fq_status closed = inside.called && verb == CLOSE ? FQ_CLOSED : FQ_OK;
    CHECK(push_job(d, (struct job){.number = number, .pending = number > 1}, false) == closed);
    check_rest(d);
  }
  (void)cancel_number(d, 4);
  check_rest(d);
  (void)complete(d, 2);
  check_rest(d);
  if (inside.called) {
    settle(d);
  } else { /* only on_drain is left */
    (void)complete(d, 3);
    (void)complete(d, HOLDER);
    check_rest(d);
  }
  CHECK(inside.called);
  settle(d);
  desk_close(d);
}

static void every_verb_in_every_callback(void) {
  for (int where = 0; where < WHERES; where++) {
    for (int verb = 0; verb < VERBS; verb++) {
      int before = atomic_load(&test_failures);
      go_through((enum where)where, (enum verb)verb);
      if (atomic_load(&test_failures) != before) {
        printf("that was verb %d in callback %d\n", verb, where);
        return;
      }
    }
  }
}

static bool look_in_walk(const void *task, void *arg) {
  struct desk *d = (struct desk *)arg;
  (void)task;
  desk_look(d);
  forbidden(d);
  return true;
}

static void no_verb_inside_a_walk(void) {
  struct desk *d = desk_open(1, 0);
  CHECK(push_long(d, HOLDER) == FQ_OK && push_long(d, 1) == FQ_OK && push_long(d, 2) == FQ_OK);
  jobs_each(&d->queue, look_in_walk, d);
  CHECK(did(d, "+A S"));
  CHECK(jobs_cancel_if(&d->queue, look_in_walk, d) == 2);
  CHECK(did(d, "E xB xC"));
  CHECK(push_long(d, 3) == FQ_OK); /* it is neither closed nor paused */
  CHECK(complete(d, HOLDER) == FQ_OK);
  CHECK(did(d, "S -A E +D"));
  settle(d);
  desk_close(d);
}

static void destroy_while_a_task_runs(void) {
  struct desk *d = desk_open(1, 0);
  CHECK(push_long(d, 0) == FQ_OK && push_long(d, 1) == FQ_OK);
  jobs before;
  memcpy(&before, &d->queue, sizeof(before)); /* its padding, too */
  CHECK(jobs_destroy(&d->queue) == FQ_DEADLOCK);
  CHECK(memcmp(&before, &d->queue, sizeof(before)) == 0);
  CHECK(complete(d, 0) == FQ_OK);
  CHECK(jobs_destroy(&d->queue) == FQ_DEADLOCK);
  CHECK(push_short(d, 2) == FQ_OK); /* it was not closed */
  CHECK(complete(d, 1) == FQ_OK);
  CHECK(did(d, "+A S -A E +B S -B E +C -C D"));
  desk_close(d);
}

static void try_in_the_end(struct desk *d) {
  CHECK(push_short(d, 9) == FQ_CLOSED);
  CHECK(jobs_destroy(&d->queue) == FQ_DEADLOCK);
  CHECK(jobs_cancel_if(&d->queue, NULL, NULL) == 0);
  CHECK(set_concurrency(d, d->concurrency * 2) == FQ_OK);
  jobs_resume(&d->queue);
  CHECK(jobs_run(&d->queue, 9) == 0);
}

static void try_when_canceled(struct desk *d, struct job *job, int error) {
  (void)job;
  (void)error;
  try_in_the_end(d);
}

/* The callbacks of destroy itself find a closed dispatch that is about to end. */
static void verbs_inside_destroy(void) {
  struct desk *d = desk_open(1, 0);
  d->at_done = try_when_canceled;
  d->at_empty = d->at_drain = try_in_the_end;
  jobs_pause(&d->queue);
  CHECK(push_many(d, 0, 3, false, NULL) == 3);
  desk_close(d);
  CHECK(did(d, "S E xA xB xC D"));
}

int main(void) {
  RUN(story_of_singles);
  RUN(story_of_a_bulk);
  RUN(story_of_a_pause);
  RUN(story_of_lost_places);
  RUN(story_of_cancels);
  RUN(story_of_a_push_in_drain);
  RUN(story_of_a_push_in_done);
  RUN(story_of_a_push_and_a_completion);
  RUN(story_of_a_push_in_empty);
  RUN(story_of_a_cancel_in_saturated);
  RUN(story_of_a_push_when_canceled);
  RUN(story_of_a_close);
  RUN(story_of_the_end);
  RUN(nothing_to_tell);
  RUN(run_within_a_budget);
  RUN(run_inside_a_callback);
  RUN(resume_inside_run);
  RUN(walks_in_order);
  RUN(each_while_nothing_waits);
  RUN(cancel_inside_cancel);
  RUN(stats_tell_it_all);
  RUN(peak_is_the_longest_backlog);
  RUN(every_verb_in_every_callback);
  RUN(no_verb_inside_a_walk);
  RUN(destroy_while_a_task_runs);
  RUN(verbs_inside_destroy);
  return test_end();
}
