#define FASTQ_IMPLEMENTATION
#include "faces.h"
