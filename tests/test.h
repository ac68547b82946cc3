/* test.h: what the test programs share.
 *
 * One program per file. main calls RUN(fn) for each test and returns test_end(), which prints the
 * line that run.sh adds up. A program that succeeds prints nothing else.
 *
 * TEST_QUICK is defined where a sanitizer makes everything slower: a long test may do less then. */
#ifndef TEST_H_INCLUDED
#define TEST_H_INCLUDED

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

/* CHECK may fail in a hot loop: the first lines of a test say enough. */
#define TEST_MAX_REPORTS 10

static atomic_int test_failures; /* of the running test; any of its threads may add to it */
static const char *test_skip_why;
static int test_passed, test_failed, test_skipped;

/* Evaluates to the condition, so that a test can leave early: if (!CHECK(p != NULL)) { return; } */
#define CHECK(cond) test_check((cond), __FILE__, __LINE__, #cond)
#define RUN(fn)     test_run(fn, #fn)
#define SKIP(why)   (test_skip_why = (why))

static inline void test_report(const char *file, int line, const char *text) {
  int earlier = atomic_fetch_add(&test_failures, 1);
  if (earlier < TEST_MAX_REPORTS) {
    printf("%s:%d: CHECK(%s)\n", file, line, text);
  } else if (earlier == TEST_MAX_REPORTS) {
    printf("%s:%d: further failures are not shown\n", file, line);
  }
  fflush(stdout); /* a hang may follow, and run.sh end it */
}

static inline bool test_check(bool good, const char *file, int line, const char *text) {
  if (!good) {
    test_report(file, line, text);
  }
  return good;
}

static inline void test_run(void (*fn)(void), const char *name) {
  atomic_store(&test_failures, 0);
  test_skip_why = NULL;
  fn();
  if (atomic_load(&test_failures) != 0) {
    test_failed++;
    printf("FAILED: %s\n", name);
  } else if (test_skip_why != NULL) {
    test_skipped++;
    printf("skipped: %s: %s\n", name, test_skip_why);
  } else {
    test_passed++;
  }
  fflush(stdout); /* a later test may crash */
}

static inline int test_end(void) {
  printf("%d passed, %d failed", test_passed, test_failed);
  if (test_skipped != 0) {
    printf(", %d skipped", test_skipped);
  }
  printf("\n");
  return test_failed == 0 ? 0 : 1;
}

#endif
