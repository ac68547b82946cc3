/* faces.h: one face of each part, in a header that many units include. */
#ifndef FACES_H_INCLUDED
#define FACES_H_INCLUDED

#include "../../fastq.h"

struct faces_line {
  char text[21];
};

FQ_RING(ints, int);
FQ_RING(lines, struct faces_line);
FQ_DISPATCH(int_dispatch, int);
FQ_DISPATCH(line_dispatch, struct faces_line);

FQ_SPSC(int_spsc, int);
FQ_SPSC(line_spsc, struct faces_line);
FQ_MPMC(int_mpmc, int);
FQ_MPMC(line_mpmc, struct faces_line);
FQ_MPSC(int_mpsc, int);
FQ_SPMC(int_spmc, int);

/* FASTQ_NO_THREADS leaves these out. */
#ifdef FQ_CHAN
FQ_CHAN(int_chan, int);
FQ_CHAN(line_chan, struct faces_line);
#endif
#ifdef FQ_POOL
FQ_POOL(int_pool, int);
FQ_POOL(line_pool, struct faces_line);
#endif

#endif
