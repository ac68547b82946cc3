/* lockfree_yield.c: lockfree_stress.c once more, with threads that yield at some of their atomic
 * operations. */
#define _GNU_SOURCE /* sched_setaffinity */
#define FASTQ_NO_THREADS
#define FQI_PLATFORM_HEADER "tests/yield.h"
#include "lockfree_stress.c"
