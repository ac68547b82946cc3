#define FASTQ_STATIC
#define FASTQ_IMPLEMENTATION
#include "faces.h"
