/* error: _POSIX_C_SOURCE */
#include <stdio.h>
#define FASTQ_IMPLEMENTATION
#include "../../../fastq.h"
