/* error: FASTQ_FREE */
#include <stdlib.h>
#define FASTQ_MALLOC(n) malloc(n)
#include "../../../fastq.h"
