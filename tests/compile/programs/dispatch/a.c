/* The unit that holds the implementation: without threads, so that nothing of the system is
 * needed. */
#define FASTQ_NO_THREADS
#define FASTQ_IMPLEMENTATION
#include "shared.h"

static int work_on_line(void *task, void *ctx) {
  struct desk *desk = (struct desk *)ctx;
  desk->started++;
  return ((struct faces_line *)task)->text[20];
}

static fq_config config_of(struct desk *desk) {
  fq_config config;
  memset(&config, 0, sizeof(config));
  config.worker = work;
  config.done = done;
  config.ctx = desk;
  config.concurrency = 1;
  return config;
}

int main(void) {
  struct desk desk;
  struct faces_line line;
  memset(&desk, 0, sizeof(desk));
  memset(&line, 7, sizeof(line));
  fq_config config = config_of(&desk);
  bool good = int_dispatch_init(&desk.ints, &config) == FQ_OK;
  config.worker = work_on_line;
  config.done = NULL;
  good = good && line_dispatch_init(&desk.lines, &config) == FQ_OK;
  good = good && line_dispatch_push(&desk.lines, line) == FQ_OK;
  good = good && push_to(&desk, 3) == FQ_OK && push_to(&desk, 4) == FQ_OK;
  good = good && int_dispatch_count(&desk.ints) == 1 && int_dispatch_running(&desk.ints) == 1;
  good = good && int_dispatch_complete(&desk.ints, desk.pending, 10) == FQ_OK;
  good = good && int_dispatch_complete(&desk.ints, desk.pending, 20) == FQ_OK;
  good = good && desk.started == 3 && desk.ended == 2 && desk.sum == 3 + 10 + 4 + 20;
  good = good && line_dispatch_stats(&desk.lines).failed == 1;
  good = good && int_dispatch_destroy(&desk.ints) == FQ_OK;
  good = good && line_dispatch_destroy(&desk.lines) == FQ_OK;
  return good ? 0 : 1;
}
