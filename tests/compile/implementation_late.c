/* The implementation where the interface was already included. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "faces.h"
#define FASTQ_IMPLEMENTATION
#include "../../fastq.h"
