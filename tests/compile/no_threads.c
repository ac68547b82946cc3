#define FASTQ_NO_THREADS
#define FASTQ_IMPLEMENTATION
#include "faces.h"
