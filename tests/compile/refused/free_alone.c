/* error: FASTQ_MALLOC */
#include <stdlib.h>
#define FASTQ_FREE(p) free(p)
#include "../../../fastq.h"
