/* undefined: fqi_spsc_init_64 */
#include "../../../../fastq.h"

FQ_SPSC(ints, int);

int main(void) {
  ints c;
  return ints_init(&c, 1) != FQ_OK;
}
