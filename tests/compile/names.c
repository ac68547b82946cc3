/* Types that are named as the macros might name a parameter. A parameter that hid the type would not
 * only warn: sizeof(T) would be the parameter's size. */
#include "../../fastq.h"

#ifdef FQ_CHAN
#define CHAN_OF(T) FQ_CHAN(chan_of_##T, T)
#else
#define CHAN_OF(T) struct no_chan_of_##T
#endif
#ifdef FQ_POOL
#define POOL_OF(T) FQ_POOL(pool_of_##T, T)
#else
#define POOL_OF(T) struct no_pool_of_##T
#endif

#define FACES_OF(T)                                                                                \
  typedef struct T {                                                                               \
    char text[21];                                                                                 \
  } T;                                                                                             \
  FQ_RING(ring_of_##T, T);                                                                         \
  FQ_DISPATCH(dispatch_of_##T, T);                                                                 \
  FQ_SPSC(spsc_of_##T, T);                                                                         \
  FQ_MPMC(mpmc_of_##T, T);                                                                         \
  CHAN_OF(T);                                                                                      \
  POOL_OF(T)

FACES_OF(item);
FACES_OF(items);
FACES_OF(out);
FACES_OF(storage);
FACES_OF(task);
FACES_OF(tasks);
FACES_OF(n);
FACES_OF(i);
FACES_OF(r);
FACES_OF(c);
FACES_OF(p);
FACES_OF(q);
FACES_OF(it);
FACES_OF(iter);
FACES_OF(fn);
FACES_OF(ctx);
FACES_OF(arg);
FACES_OF(why);
FACES_OF(min);
FACES_OF(max);
FACES_OF(how);
FACES_OF(cfg);
FACES_OF(config);
FACES_OF(limit);
FACES_OF(capacity);
FACES_OF(allocator);
FACES_OF(timeout);
FACES_OF(error);
FACES_OF(producers);
FACES_OF(consumers);
FACES_OF(ring);
FACES_OF(chan);
FACES_OF(pool);
FACES_OF(d);
FACES_OF(id);
FACES_OF(slot);
FACES_OF(budget);
FACES_OF(concurrency);
FACES_OF(pred);
FACES_OF(tally);
FACES_OF(dispatch);
FACES_OF(memory);
