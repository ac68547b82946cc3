/* pointers.c: items that are pointers. The text of their type, put into a face, must still mean an
 * array of items: `const T *` would be something else. */
#define FASTQ_STATIC
#include "../../fastq.h"

FQ_RING(names, char *);
FQ_CHAN(name_chan, char *);
FQ_DISPATCH(name_dispatch, const char *);
FQ_POOL(name_pool, const char *);

size_t push_names(names *r, name_chan *c, name_dispatch *d, name_pool *p, char **list, size_t n);
size_t push_names(names *r, name_chan *c, name_dispatch *d, name_pool *p, char **list, size_t n) {
  const char *fixed[2] = {"a", "b"};
  size_t pushed = names_push_n(r, list, n) + names_push_front_n(r, list, n);
  pushed += names_push_all(r, list, n) == FQ_OK;
  pushed += name_chan_push_n(c, list, n, FQ_NOWAIT, NULL);
  pushed += name_dispatch_push_n(d, fixed, 2, NULL);
  return pushed + name_pool_push_n(p, fixed, 2, FQ_NOWAIT, NULL);
}
