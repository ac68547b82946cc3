/* interleave.h: what the programs under the scheduler of sched.h share: how they are built and run.
 *
 * Arguments:
 *   none          every program: all schedules up to a number of preemptions, then random ones;
 *                 FASTQ_SEEDS is how many of these in all (50,000)
 *   NAME          one program
 *   NAME SEED     one schedule again, step by step; as a failure prints it
 *   NAME @LIST
 *   -v            with the number of schedules and the time of each walk
 *   -pN           up to N preemptions (3, where a program does not say otherwise; 14 at most)
 *   -x            walk on from states that were met before, too: slow, and shows that this finds no
 *                 more
 *
 * Includes fastq.h with its implementation, so it comes first. Plain builds with glibc only:
 * sanitizers do not go with coroutines, musl has no makecontext; elsewhere UNFIT says why. */
#ifndef INTERLEAVE_H_INCLUDED
#define INTERLEAVE_H_INCLUDED

/* What a compiler for this test must have, asked before any header. The checked longjmp of
 * _FORTIFY_SOURCE refuses to change stacks. */
#undef _FORTIFY_SOURCE
#define _XOPEN_SOURCE 700
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define UNFIT "coroutines do not go with sanitizers"
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNFIT "coroutines do not go with sanitizers"
#endif
#if defined(__has_include)
#if !__has_include(<gnu/libc-version.h>)
#define UNFIT "made for glibc"
#endif
#endif

#ifdef UNFIT
#include "test.h"

static void interleave(void) { SKIP(UNFIT); }

int main(void) {
  RUN(interleave);
  return test_end();
}

#else

#define FQI_PLATFORM_HEADER "tests/sched.h"
#define FQI_PATIENCE        0 /* a second look before sleeping is only more of the same */
#define FASTQ_INDEX_ORIGIN  ((size_t)-2) /* the counts wrap within the programs */
#define FASTQ_MALLOC(n)     sched_alloc(n)
#define FASTQ_FREE(p)       sched_free(p)
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"
#include "test.h"
#include <time.h>

#define T(fn) SCHED_BODY(fn)
#define PROGRAM(name_, before, after, ...)                                                         \
  { .name = name_, .setup = before, .check = after, __VA_ARGS__ }

static const sched_program *program;
static int bound = -1; /* preemptions; -1: as the program says */
static bool verbose, exact;
static uint64_t seeds, walked, drawn;

static inline void walk(void) {
  int usual = program->preemptions != 0 ? program->preemptions : 3;
  for (int i = 0; i <= (bound >= 0 ? bound : usual); i++) {
    clock_t start = clock();
    sched_result result = sched_walk(program, i, !exact);
    walked += result.runs;
    if (verbose) {
      printf("%-20s %d preemptions: %9" PRIu64 " schedules, %9" PRIu64 " left early, %6.2f s\n",
             program->name, i, result.runs, result.cut, (double)(clock() - start) / CLOCKS_PER_SEC);
      fflush(stdout);
    }
    if (!CHECK(!result.failed)) {
      return;
    }
  }
}

static inline void draw(void) {
  sched_result result = sched_random(program, seeds);
  drawn += result.runs;
  CHECK(!result.failed);
}

static inline void run_program(const sched_program *p) {
  char name[64];
  program = p;
  snprintf(name, sizeof(name), "walk %s", p->name);
  test_run(walk, name);
  snprintf(name, sizeof(name), "seeds %s", p->name);
  test_run(draw, name);
}

/* The main of a test that has these programs. */
static inline int run_programs(int argc, char **argv, const sched_program *programs, size_t n) {
  const char *in_all = getenv("FASTQ_SEEDS");
  const char *name = NULL, *how = NULL;
  bool found = false;
  for (int i = 1; i < argc; i++) {
    verbose = verbose || strcmp(argv[i], "-v") == 0;
    exact = exact || strcmp(argv[i], "-x") == 0;
    bound = strncmp(argv[i], "-p", 2) == 0 ? atoi(argv[i] + 2) : bound;
    if (argv[i][0] != '-') {
      how = name != NULL ? argv[i] : NULL;
      name = name != NULL ? name : argv[i];
    }
  }
  seeds = (in_all != NULL ? strtoull(in_all, NULL, 10) : 50000) / n + 1;
  for (size_t i = 0; i < n; i++) {
    if (name == NULL || strcmp(name, programs[i].name) == 0) {
      found = true;
      if (how != NULL) {
        return sched_replay(&programs[i], how).failed;
      }
      run_program(&programs[i]);
    }
  }
  if (!found) {
    printf("%s: no program %s\n", argv[0], name);
    return 2;
  }
  printf("%s: %" PRIu64 " schedules walked, %" PRIu64 " drawn\n", argv[0], walked, drawn);
  return test_end();
}

#endif /* UNFIT */
#endif
