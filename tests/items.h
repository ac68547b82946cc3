/* items.h: items of several sizes that carry a number, and show when they are torn. */
#ifndef ITEMS_H_INCLUDED
#define ITEMS_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ITEM_SIZE_MAX = 200 };

struct item3 {
  unsigned char bytes[3];
};
struct item24 {
  uint64_t words[3];
};
struct item200 {
  unsigned char bytes[ITEM_SIZE_MAX];
};

/* The j-th byte of item number i. Each eight bytes hold the whole number, in another disguise. */
static inline unsigned char item_byte(uint64_t number, size_t j) {
  return (unsigned char)((number >> (j % 8 * 8)) ^ (j / 8 * 0x35));
}

/* Small items hold what fits of their number. */
static inline uint64_t item_number_of(uint64_t number, size_t size) {
  return size >= 8 ? number : number & ((UINT64_C(1) << (size * 8)) - 1);
}

static inline void item_make(void *item, size_t size, uint64_t number) {
  for (size_t j = 0; j < size; j++) {
    ((unsigned char *)item)[j] = item_byte(number, j);
  }
}

/* The number of an item; false when its bytes belong to different items. */
static inline bool item_read(const void *item, size_t size, uint64_t *number) {
  const unsigned char *bytes = (const unsigned char *)item;
  *number = 0;
  for (size_t j = 0; j < size && j < 8; j++) {
    *number |= (uint64_t)bytes[j] << (j * 8);
  }
  for (size_t j = 8; j < size; j++) {
    if (bytes[j] != item_byte(*number, j)) {
      return false;
    }
  }
  return true;
}

#endif
