/* A user's unit: the header first, twice, and its faces. */
#include "../../fastq.h"
#include "../../fastq.h"
#include "faces.h"
