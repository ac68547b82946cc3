/* ring.c: FQ_RING against a plain array, from every small state, by every operation and every
 * pair. */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"

#include "ring_model.h"

#ifdef TEST_QUICK
enum { MAX_CAPACITY = 6 };
#else
enum { MAX_CAPACITY = 9 };
#endif
enum { MAX_OPS = 128 };

struct ops {
  struct op op[MAX_OPS];
  size_t n;
};

static void add(struct ops *ops, enum op_kind kind, enum op_from from, size_t n, size_t used) {
  if (CHECK(ops->n < MAX_OPS)) {
    ops->op[ops->n++] = (struct op){kind, from, n, used};
  }
}

/* Every operation that means something different to a ring of this capacity. */
static void list_ops(struct ops *ops, size_t capacity) {
  size_t most = capacity + 2;
  ops->n = 0;
  add(ops, OP_POP, FROM_OUTSIDE, 1, 0);
  add(ops, OP_CLEAR, FROM_OUTSIDE, 0, 0);
  for (enum op_from from = FROM_OUTSIDE; from < FROMS; from++) {
    add(ops, OP_PUSH, from, 1, 0);
    add(ops, OP_PUSH_FRONT, from, 1, 0);
  }
  for (size_t n = 0; n <= most; n++) {
    add(ops, OP_PUSH_N, FROM_OUTSIDE, n, 0);
    add(ops, OP_PUSH_FRONT_N, FROM_OUTSIDE, n, 0);
    add(ops, OP_PUSH_ALL, FROM_OUTSIDE, n, 0);
    add(ops, OP_POP_N, FROM_OUTSIDE, n, 0);
    add(ops, OP_RESERVE, FROM_OUTSIDE, n, 0);
    add(ops, OP_WRITE_SPAN, FROM_OUTSIDE, n, n);
    add(ops, OP_READ_SPAN, FROM_OUTSIDE, n, n);
  }
  for (size_t n = 2; n <= most; n += most - 2) {
    add(ops, OP_PUSH_N, FROM_HEAD, n, 0);
    add(ops, OP_PUSH_FRONT_N, FROM_HEAD, n, 0);
    add(ops, OP_PUSH_ALL, FROM_HEAD, n, 0);
  }
  const size_t used[] = {0, 1, OP_TOO_MANY};
  for (size_t i = 0; i < sizeof(used) / sizeof(used[0]); i++) {
    add(ops, OP_WRITE_SPAN, FROM_OUTSIDE, most, used[i]);
    add(ops, OP_READ_SPAN, FROM_OUTSIDE, most, used[i]);
  }
}

/* Each first operation alone is part of the pairs: the model is checked after every step. */
static bool walk_pairs(size_t f, enum model_kind kind, const struct ops *ops, size_t capacity,
                       size_t head, size_t count) {
  struct model m;
  for (size_t a = 0; a < ops->n; a++) {
    for (size_t b = 0; b < ops->n; b++) {
      bool good = model_open(&m, f, kind, capacity, head, count) && model_step(&m, ops->op[a]) &&
                  model_step(&m, ops->op[b]);
      if (!(model_close(&m) && good)) {
        printf("ring of %s, kind %d: capacity %zu, head %zu, count %zu; operations %d (%zu), %d "
               "(%zu)\n",
               faces[f]->name, (int)kind, capacity, head, count, (int)ops->op[a].kind, ops->op[a].n,
               (int)ops->op[b].kind, ops->op[b].n);
        return false;
      }
    }
  }
  return true;
}

static void walk(enum model_kind kind) {
  struct ops ops;
  for (size_t f = 0; f < FACES; f++) {
    for (size_t capacity = 1; capacity <= MAX_CAPACITY; capacity++) {
      list_ops(&ops, capacity);
      for (size_t head = 0; head < capacity; head++) {
        for (size_t count = 0; count <= capacity; count++) {
          if (!walk_pairs(f, kind, &ops, capacity, head, count)) {
            return;
          }
        }
      }
    }
  }
}

static void fixed_agrees_with_array(void) { walk(MODEL_FIXED); }

static void growing_agrees_with_array(void) { walk(MODEL_GROWING); }

static void starved_agrees_with_array(void) { walk(MODEL_STARVED); }

int main(void) {
  model_prepare();
  RUN(fixed_agrees_with_array);
  RUN(growing_agrees_with_array);
  RUN(starved_agrees_with_array);
  return test_end();
}
