/* parallel_map.c: apply a function to every number of an array, on a pool that others use too.
 *
 * The array is cut into pieces, which go into the pool in one call. Each writes its results to
 * their place, so they are in order whoever computed them. A group waits for just these pieces,
 * where name_wait would wait for all that the pool has to do. */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"
#include <stdio.h>

enum { PIECES = 16, NUMBERS = 1000 };

typedef struct piece {
  long (*fn)(long n);
  const long *in;
  long *out;
  size_t n;
  fq_group *group;
} piece;

static void map_piece(void *arg) {
  const piece *p = arg;
  for (size_t i = 0; i < p->n; i++) {
    p->out[i] = p->fn(p->in[i]);
  }
  fq_group_done(p->group); /* the last touch of the piece: the map may return now */
}

/* Not from a job of the same pool: if all its threads wait here, none is left for the pieces. */
static fq_status map(fq_jobs *pool, long (*fn)(long n), const long *in, long *out, size_t n) {
  fq_group group;
  piece pieces[PIECES];
  fq_job jobs[PIECES];
  fq_status status = fq_group_init(&group);
  if (status != FQ_OK) {
    return status;
  }
  for (size_t i = 0; i < PIECES; i++) {
    size_t from = n * i / PIECES, to = n * (i + 1) / PIECES;
    pieces[i] = (piece){fn, in + from, out + from, to - from, &group};
    jobs[i] = (fq_job){map_piece, &pieces[i]};
  }
  fq_group_add(&group, PIECES);
  size_t pushed = fq_jobs_push_n(pool, jobs, PIECES, FQ_FOREVER, NULL);
  for (size_t i = pushed; i < PIECES; i++) {
    map_piece(&pieces[i]); /* what a closed pool did not take is done here */
  }
  status = fq_group_wait(&group, FQ_FOREVER);
  fq_group_destroy(&group);
  return status;
}

static long cube(long n) { return n * n * n; }

static void wait_for_gate(void *arg) { (void)fq_group_wait(arg, FQ_FOREVER); }

int main(void) {
  static long in[NUMBERS], out[NUMBERS];
  fq_jobs pool;
  fq_group gate;
  for (size_t i = 0; i < NUMBERS; i++) {
    in[i] = (long)i;
  }
  if (fq_group_init(&gate) != FQ_OK || fq_jobs_init(&pool, &(fq_config){.threads = 3}) != FQ_OK) {
    return 1;
  }
  fq_group_add(&gate, 1); /* somebody else's job, which lasts longer than the map */
  bool right = fq_jobs_run(&pool, wait_for_gate, &gate) == FQ_OK &&
               map(&pool, cube, in, out, NUMBERS) == FQ_OK && !fq_jobs_idle(&pool);
  fq_group_done(&gate);
  for (size_t i = 0; i < NUMBERS; i++) {
    right &= out[i] == cube(in[i]);
  }
  printf("%d cubes in %d pieces, %s; the last is %ld\n", NUMBERS, PIECES,
         right ? "each in its place" : "NOT AS THEY SHOULD BE", out[NUMBERS - 1]);
  right &= fq_jobs_destroy(&pool, FQ_DRAIN) == FQ_OK;
  fq_group_destroy(&gate);
  return !right;
}
