/* jobs.c: run a few functions on other threads, wait for all of them, use what they found.
 *
 * fq_jobs is a pool that needs no macro and no worker: a job is a function and its argument. The
 * argument is yours, must live until the job has run, and takes the result. */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"
#include <stdio.h>

typedef struct range {
  long first, last;
  long found;
} range;

static void count_primes(void *arg) {
  range *r = arg;
  for (long n = r->first; n <= r->last; n++) {
    long divisor = 2;
    while (divisor * divisor <= n && n % divisor != 0) {
      divisor++;
    }
    r->found += n >= 2 && divisor * divisor > n;
  }
}

/* Halve it if it is even, else triple it and add 1: the number that is last to come to 1. */
static void find_longest_way_to_1(void *arg) {
  range *r = arg;
  int longest = -1;
  for (long n = r->first; n <= r->last; n++) {
    int steps = 0;
    for (int64_t at = n; at != 1; steps++) {
      at = at % 2 == 0 ? at / 2 : 3 * at + 1;
    }
    if (steps > longest) {
      longest = steps;
      r->found = n;
    }
  }
}

static void count_fridays_13th(void *arg) {
  range *r = arg;
  for (long year = r->first; year <= r->last; year++) {
    for (long month = 1; month <= 12; month++) {
      long m = month < 3 ? month + 12 : month; /* January and February end the year before */
      long y = month < 3 ? year - 1 : year;
      long weekday = (13 + 13 * (m + 1) / 5 + y + y / 4 - y / 100 + y / 400) % 7;
      r->found += weekday == 6; /* Zeller: Saturday is 0 */
    }
  }
}

int main(void) {
  range primes = {1, 100000, 0}, longest = {1, 50000, 0}, fridays = {2001, 2400, 0};
  fq_jobs jobs;
  if (fq_jobs_init(&jobs, &(fq_config){.threads = 2}) != FQ_OK) {
    return 1;
  }
  bool ran = fq_jobs_run(&jobs, count_primes, &primes) == FQ_OK &&
             fq_jobs_run(&jobs, find_longest_way_to_1, &longest) == FQ_OK &&
             fq_jobs_run(&jobs, count_fridays_13th, &fridays) == FQ_OK &&
             fq_jobs_wait(&jobs, FQ_FOREVER) == FQ_OK; /* more jobs could follow */
  if (ran) {
    printf("primes up to %ld: %ld\n", primes.last, primes.found);
    printf("longest way to 1 from %ld or less: from %ld\n", longest.last, longest.found);
    printf("Fridays the 13th in %ld to %ld: %ld\n", fridays.first, fridays.last, fridays.found);
  }
  return fq_jobs_destroy(&jobs, FQ_DRAIN) != FQ_OK || !ran || primes.found != 9592 ||
         longest.found != 35655 || fridays.found != 688;
}
