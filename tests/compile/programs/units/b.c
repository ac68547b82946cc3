/* A unit without it. */
#include "shared.h"

fq_status push_seven(ints *ring) { return ints_push(ring, 7); }
