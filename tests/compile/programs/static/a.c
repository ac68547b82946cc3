/* One of two copies of the library in a program. */
#define FASTQ_STATIC
#define FASTQ_IMPLEMENTATION
#include "../../faces.h"
#include "shared.h"

int main(void) {
  ints ring;
  int out = 0;
  fq_status status = ints_init(&ring, 0);
  if (status == FQ_OK) {
    status = ints_push(&ring, other_copy());
  }
  if (status == FQ_OK) {
    status = ints_pop(&ring, &out);
  }
  ints_destroy(&ring);
  return status == FQ_OK && out == 7 ? 0 : 1;
}
