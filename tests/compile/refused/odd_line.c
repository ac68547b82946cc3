/* error: FASTQ_CACHE_LINE must be a power of two */
#define FASTQ_CACHE_LINE 100
#include "../../../fastq.h"
