/* fuzz_ring.c: FQ_RING against a plain array, driven by bytes.
 *
 * With -DFUZZ it is a libFuzzer target ("make fuzz"); without, a test that runs some fixed
 * inputs. */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"

#include "ring_model.h"

#include <stdlib.h>

/* The longest of the inputs that are worth while; the rest of one that is longer is not read. */
enum { MAX_INPUT = 4096 };

static bool run_bytes(const uint8_t *data, size_t size) {
  if (size < 3) {
    return true;
  }
  enum model_kind kind = data[0] % 2 == 0 ? MODEL_FIXED : MODEL_GROWING;
  size_t capacity = data[1] % 17u + (kind == MODEL_FIXED ? 1u : 0u);
  size_t head = capacity > 0 ? data[2] % capacity : 0;
  struct model m;
  bool good = model_open(&m, data[0] / 2 % FACES, kind, capacity, head, 0);
  for (size_t i = 3; good && i + 3 <= size && i < MAX_INPUT; i += 3) {
    struct op op = {.kind = (enum op_kind)(data[i] % OP_KINDS),
                    .from = (enum op_from)(data[i + 1] % FROMS),
                    .n = data[i + 1] / FROMS % MODEL_BULK,
                    .used = data[i + 2] % 64 == 0 ? OP_TOO_MANY : data[i + 2] % MODEL_BULK};
    if (kind == MODEL_GROWING) {
      m.heap.refuse = data[i + 2] >= 192;
      m.kind = m.heap.refuse ? MODEL_STARVED : MODEL_GROWING;
    }
    if (op.kind == OP_PUSH || op.kind == OP_PUSH_FRONT) {
      op.n = 1;
    }
    if (m.count + op.n <= MODEL_ITEMS) {
      good = model_step(&m, op);
    }
  }
  return model_close(&m) && good;
}

#ifdef FUZZ

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  model_prepare();
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!run_bytes(data, size)) {
    fflush(stdout); /* says which CHECK */
    abort();
  }
  return 0;
}

#else

static void short_inputs(void) {
  const uint8_t zeros[64] = {0};
  uint8_t ones[64];
  memset(ones, 0xFF, sizeof(ones));
  for (size_t size = 0; size <= sizeof(ones); size++) {
    CHECK(run_bytes(zeros, size));
    CHECK(run_bytes(ones, size));
  }
}

static void random_inputs(void) {
  uint8_t data[1024];
  uint64_t state = 1;
  for (int run = 0; run < 5000; run++) {
    for (size_t i = 0; i < sizeof(data); i++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      data[i] = (uint8_t)(state >> 56);
    }
    if (!CHECK(run_bytes(data, sizeof(data)))) {
      printf("in run %d\n", run);
      return;
    }
  }
}

int main(void) {
  model_prepare();
  RUN(short_inputs);
  RUN(random_inputs);
  return test_end();
}

#endif
