/* lines.c: read a file as a stream of lines. One thread splits it and pushes the lines in bulk,
 * another iterates over them; both wait by sleeping in the channel, never by polling.
 *
 * lines [FILE]: without a FILE it makes up 9,074 lines. Prints the lines, the bytes and the
 * time. */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BULK = 256, MADE_UP = 9074 };

typedef struct line {
  const char *text; /* in the buffer that main holds, not terminated */
  size_t length;
} line;

FQ_CHAN(lines, line);

typedef struct source {
  lines *out;
  FILE *file;
  char *text; /* the whole file, for the lines to point into */
} source;

/* Reads all of the file: a failure is passed on through the channel. */
static size_t read_all(source *s) {
  size_t size = 0, room = 0, got;
  do {
    if (size == room) {
      room = room * 2 + 65536;
      char *larger = (char *)realloc(s->text, room);
      if (larger == NULL) {
        lines_fail(s->out, ENOMEM);
        return 0;
      }
      s->text = larger;
    }
    got = fread(s->text + size, 1, room - size, s->file);
    size += got;
  } while (got > 0);
  if (ferror(s->file)) {
    lines_fail(s->out, EIO);
  }
  return size;
}

static void *split(void *arg) {
  source *s = (source *)arg;
  line bulk[BULK];
  size_t n = 0, size = read_all(s);
  for (const char *at = s->text, *end = at + size; at < end;) {
    const char *newline = (const char *)memchr(at, '\n', (size_t)(end - at));
    const char *stop = newline != NULL ? newline : end;
    bulk[n++] = (line){at, (size_t)(stop - at)};
    at = stop + (newline != NULL);
    if (n == BULK || at == end) {
      lines_push_n(s->out, bulk, n, FQ_FOREVER, NULL);
      n = 0;
    }
  }
  lines_close(s->out);
  return NULL;
}

static FILE *open_file(const char *name) {
  if (name != NULL) {
    return fopen(name, "rb");
  }
  FILE *file = tmpfile();
  for (int i = 1; file != NULL && i <= MADE_UP; i++) {
    fprintf(file, "this is line %d of a file that was made up\n", i);
  }
  if (file != NULL) {
    rewind(file);
  }
  return file;
}

int main(int argc, char **argv) {
  lines stream;
  source s = {.out = &stream, .file = open_file(argc > 1 ? argv[1] : NULL)};
  if (s.file == NULL || lines_init(&stream, 1024) != FQ_OK) {
    perror(argc > 1 ? argv[1] : "lines");
    return 1;
  }
  struct timespec start, end;
  pthread_t splitter;
  clock_gettime(CLOCK_MONOTONIC, &start);
  if (pthread_create(&splitter, NULL, split, &s) != 0) {
    return 1;
  }
  fq_iter it = FQ_ITER(.between_timeout_ns = 5000000000); /* a reader that is left alone gives up */
  line l;
  size_t bytes = 0;
  while (lines_next(&stream, &it, &l)) {
    bytes += l.length + 1;
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  pthread_join(splitter, NULL);
  double ms =
      (double)(end.tv_sec - start.tv_sec) * 1e3 + (double)(end.tv_nsec - start.tv_nsec) / 1e6;
  printf("%zu lines, %zu bytes in %.2f ms; ended with %s, error %d\n", it.count, bytes, ms,
         fq_status_name(it.status), it.error);
  lines_destroy(&stream);
  fclose(s.file);
  free(s.text);
  return it.status != FQ_CLOSED || it.error != 0;
}
