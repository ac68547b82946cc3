/* undefined: fqi_pool_init_64 */
#include "../../../../fastq.h"

FQ_POOL(ints, int);

int main(void) {
  ints p;
  return ints_init(&p, NULL) != FQ_INVALID;
}
