/* What two units of one program share: a dispatch, and functions of both languages. */
#include "../../faces.h"

#ifdef __cplusplus
extern "C" {
#endif
struct desk {
  int_dispatch ints;
  line_dispatch lines;
  fq_id pending;
  int started, ended, sum;
};

fq_status push_to(struct desk *desk, int n);
int work(void *task, void *ctx);
void done(void *task, int error, void *ctx);
#ifdef __cplusplus
}
#endif
