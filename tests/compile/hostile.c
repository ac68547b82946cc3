/* Macros that well-known headers leak must do no harm. */
#define min(a, b) hostile min(a b)
#define max(a, b) hostile max(a b)
#define near      hostile near
#define far       hostile far
#define small     hostile small
#define interface hostile interface
#define I         hostile I
#define FASTQ_IMPLEMENTATION
#include "faces.h"
