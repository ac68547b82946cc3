#define FASTQ_CACHE_LINE 128
#define FASTQ_IMPLEMENTATION
#include "../../../../fastq.h"
