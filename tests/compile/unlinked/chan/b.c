/* undefined: fqi_chan_init_64 */
#include "../../../../fastq.h"

FQ_CHAN(ints, int);

int main(void) {
  ints c;
  return ints_init(&c, 1) != FQ_OK;
}
