/* The other copy: its ring is a different one. */
#define FASTQ_STATIC
#define FASTQ_IMPLEMENTATION
#include "../../faces.h"
#include "shared.h"

int other_copy(void) {
  ints ring;
  int out = 0;
  fq_status status = ints_init(&ring, 0);
  if (status == FQ_OK) {
    status = ints_push(&ring, 7);
  }
  if (status == FQ_OK) {
    status = ints_pop(&ring, &out);
  }
  ints_destroy(&ring);
  return status == FQ_OK ? out : -1;
}
