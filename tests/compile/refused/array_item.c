/* error: array */
/* As a parameter an array is a pointer: its items would be copied from anywhere. */
#include "../../../fastq.h"

typedef int four[4];

FQ_RING(fours, four);
