/* What two units of one program share: a face, and functions of both languages. */
#include "../../faces.h"

#ifdef __cplusplus
extern "C" {
#endif
fq_status push_seven(ints *ring);
#ifdef __cplusplus
}
#endif
