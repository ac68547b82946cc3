#define FASTQ_IMPLEMENTATION
#include "../fastq.h"
#include <stdio.h>

FQ_POOL(squares, int);

static int square(void *task, void *ctx) {
  int n = *(int *)task;
  (void)ctx;
  return printf("%d squared is %d\n", n, n * n) < 0;
}

int main(void) {
  squares pool;
  if (squares_init(&pool, &(fq_config){.worker = square, .threads = 2}) != FQ_OK) {
    return 1;
  }
  for (int i = 1; i <= 5; i++) {
    squares_push(&pool, i, FQ_FOREVER);
  }
  return squares_destroy(&pool, FQ_DRAIN) != FQ_OK;
}
