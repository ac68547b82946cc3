/* fqwc: counts lines, words and bytes of many files at once, and prints what GNU wc prints.
 *
 *   build/fqwc [-j workers] [-q limit] [FILE...]
 *
 * Without FILE the names come from standard input, one a line: find . -type f | build/fqwc
 *
 * The pattern to take away: a task is a pointer to the record its result goes to. Records never
 * move, workers fill them in any order, and they are printed in the order given at the end. The
 * queue is bounded, so a fast find waits for slow files instead of filling the memory with tasks.
 */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_SIZE = 64 * 1024, BLOCK_SIZE = 64 * 1024, DEFAULT_LIMIT = 1024 };

struct counts {
  uint64_t lines, words, bytes;
};

struct file {
  struct file *next;
  struct counts counts;
  int error;   /* an errno value; 0 when the whole file was counted */
  bool opened; /* wc shows counts for what it could open, even if it could not read it */
  bool stream; /* reading it uses it up, so it is read in turn and not by the pool */
  char name[];
};

FQ_POOL(file_pool, struct file *);

/* ---- Counting, eight bytes at a time ---- */

/* A lane is a byte. Questions about it are answered by its top bit. */
#define LANES(byte) (UINT64_C(0x0101010101010101) * (byte))

static uint64_t load_lanes(const unsigned char *p) {
  return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 |
         (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
}

/* x holds bytes below 0x80. The other bits of the answer mean nothing. */
static uint64_t at_least(uint64_t x, unsigned byte) { return x + LANES(0x80U - byte); }

static uint64_t sum_of_lanes(uint64_t x) {
  const uint64_t even = UINT64_C(0x00ff00ff00ff00ff);
  return ((x & even) + (x >> 8 & even)) * UINT64_C(0x0001000100010001) >> 48;
}

/* Adds n bytes at p, which has room for 8 more. in_word (0 or 1) goes from one piece to the next.
 *
 * In the C locale a printing byte puts wc inside a word, white space puts it outside, and any other
 * byte leaves it where it is. That is how a carry runs through an adder: 1 + 1 sets it, 0 + 0
 * clears it, 1 + 0 passes it on. So adding "is not white" and "is printing" walks all eight lanes
 * at once, and a word starts where a printing byte meets no carry. NUL changes nothing and pads
 * the end. */
static void count_bytes(struct counts *c, uint64_t *in_word, unsigned char *p, size_t n) {
  const unsigned char *end = p + (n + 7) / 8 * 8;
  memset(p + n, 0, 8);
  c->bytes += n;
  while (p < end) {
    uint64_t lines = 0;
    uint64_t words = 0;
    size_t left = (size_t)(end - p) / 8;
    /* A lane holds at most 255. */
    for (size_t steps = left < 255 ? left : 255; steps > 0; steps--, p += 8) {
      uint64_t x = load_lanes(p);
      uint64_t ascii = ~x & LANES(0x80);
      x &= LANES(0x7f);
      uint64_t newline = ascii & at_least(x, '\n') & ~at_least(x, '\n' + 1);
      uint64_t white = ascii & ((at_least(x, '\t') & ~at_least(x, '\r' + 1)) |
                                (at_least(x, ' ') & ~at_least(x, ' ' + 1)));
      uint64_t printing = ascii & at_least(x, ' ' + 1) & ~at_least(x, 0x7f);
      uint64_t sum = ~white + printing + *in_word;
      *in_word = (printing | ~(white | sum)) >> 63;
      words += (printing & ~sum) >> 7;
      lines += newline >> 7;
    }
    c->lines += sum_of_lanes(lines);
    c->words += sum_of_lanes(words);
  }
}

/* ---- What the threads share ---- */

struct progress {
  bool on;
  int64_t start;
  _Atomic int64_t next_draw;
  _Atomic uint64_t known, done, bytes;
};

struct run {
  file_pool pool;
  struct progress progress;
  int input; /* a copy of standard input: if that is closed, its number goes to some other file */
  struct file *first, **end;
  unsigned char *block; /* where the next record goes */
  size_t room;
  bool names_from_stdin;
  uint64_t regular_bytes; /* wc makes its columns as wide as the size of all regular files, ... */
  bool irregular;         /* ... and at least 7 wide when there is anything else */
};

/* ---- Progress: drawn by whoever reads, ten times a second, on a terminal only ---- */

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void progress_add(struct progress *p, uint64_t files, uint64_t bytes) {
  if (!p->on) {
    return;
  }
  uint64_t done = atomic_fetch_add(&p->done, files) + files;
  double megabytes = (double)(atomic_fetch_add(&p->bytes, bytes) + bytes) / 1e6;
  int64_t now = now_ns();
  int64_t due = atomic_load(&p->next_draw);
  if (now >= due && atomic_compare_exchange_strong(&p->next_draw, &due, now + 100000000)) {
    double seconds = (double)(now - p->start + 1) / 1e9;
    fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " files, %.0f MB/s\033[K", done,
            atomic_load(&p->known), megabytes / seconds);
    fflush(stderr);
  }
}

/* ---- The task: one file ---- */

static bool is_stdin(const char *name) { return strcmp(name, "-") == 0; }

static int count_all(int fd, struct counts *c, struct progress *p) {
  unsigned char buffer[BUFFER_SIZE + 8];
  uint64_t in_word = 0;
  ssize_t n;
  while ((n = read(fd, buffer, BUFFER_SIZE)) > 0) {
    count_bytes(c, &in_word, buffer, (size_t)n);
    progress_add(p, 0, (uint64_t)n);
  }
  return n < 0 ? errno : 0;
}

static void count_file(struct file *f, struct run *r) {
  int fd = is_stdin(f->name) ? r->input : open(f->name, O_RDONLY);
  f->opened = fd >= 0 || is_stdin(f->name);
  f->error = f->opened ? count_all(fd, &f->counts, &r->progress) : errno;
  if (f->opened && !is_stdin(f->name)) {
    close(fd);
  }
  progress_add(&r->progress, 1, 0);
}

static int worker(void *task, void *ctx) {
  struct file *f = *(struct file **)task;
  count_file(f, ctx);
  return f->error;
}

/* ---- Names in ---- */

/* Records lie one after the other in big blocks, never move and live as long as the program. */
static struct file *new_file(struct run *r, const char *name) {
  size_t bytes = strlen(name) + 1;
  size_t align = _Alignof(struct file);
  size_t size = (sizeof(struct file) + bytes + align - 1) / align * align;
  if (r->room < size) {
    r->room = size > BLOCK_SIZE ? size : BLOCK_SIZE;
    r->block = malloc(r->room);
    if (r->block == NULL) {
      fputs("fqwc: memory exhausted\n", stderr);
      exit(EXIT_FAILURE);
    }
  }
  struct file *f = (void *)r->block;
  *f = (struct file){0};
  memcpy(f->name, name, bytes);
  r->block += size;
  r->room -= size;
  *r->end = f;
  r->end = &f->next;
  return f;
}

static void add_name(struct run *r, const char *name) {
  struct file *f = new_file(r, name);
  struct stat st;
  if (name[0] == '\0' || (is_stdin(name) && r->names_from_stdin)) {
    return; /* stays unopened without an error: print_error has the reason */
  }
  atomic_fetch_add(&r->progress.known, 1);
  if ((is_stdin(name) ? fstat(r->input, &st) : stat(name, &st)) == 0) {
    bool regular = S_ISREG(st.st_mode);
    r->regular_bytes += regular ? (uint64_t)st.st_size : 0;
    r->irregular |= !regular;
    f->stream = !regular && !S_ISDIR(st.st_mode);
  }
  f->stream |= is_stdin(name);
  if (!f->stream && file_pool_push(&r->pool, f, FQ_FOREVER) != FQ_OK) {
    count_file(f, r); /* no memory for the queue: slower, but just as right */
  }
}

static void add_names_from_stdin(struct run *r) {
  char *line = NULL;
  size_t size = 0;
  ssize_t n;
  while ((n = getline(&line, &size, stdin)) > 0) {
    if (line[n - 1] == '\n') {
      line[n - 1] = '\0';
    }
    add_name(r, line);
  }
  if (ferror(stdin)) {
    new_file(r, "-")->error = errno;
  }
  free(line);
}

/* ---- Names in messages: as wc shows them, ready for a shell: 'a b', "it's", 'a'$'\n'. ---- */

static void put_in_single_quotes(FILE *out, const char *name) {
  bool escaping = false;
  fputc('\'', out);
  for (const char *s = name; *s != '\0'; s++) {
    bool escape = !isprint((unsigned char)*s);
    if (escape != escaping && *s != '\'') {
      fputs(escape ? "'$'" : "''", out);
    }
    if (*s == '\'') {
      fputs("'\\''", out);
    } else if (*s >= '\a' && *s <= '\r') {
      fprintf(out, "\\%c", "abtnvfr"[*s - '\a']);
    } else {
      fprintf(out, escape ? "\\%03o" : "%c", (unsigned char)*s);
    }
    escaping = escape;
  }
  fputc('\'', out);
}

static void put_quoted(FILE *out, const char *name) {
  bool plain = name[0] != '\0';
  bool in_double_quotes = strchr(name, '\'') != NULL;
  for (const char *s = name; *s != '\0'; s++) {
    bool safe = isalnum((unsigned char)*s) || strchr("%+,-./@]_", *s) != NULL;
    bool leading = s == name && (*s == '#' || *s == '~');
    bool lone = name[1] == '\0' && (*s == '{' || *s == '}');
    plain &= safe || (strchr("#~{}", *s) != NULL && !leading && !lone);
    in_double_quotes &= safe || leading || strchr(": '", *s) != NULL;
  }
  if (plain || in_double_quotes) {
    fprintf(out, plain ? "%s" : "\"%s\"", name);
  } else {
    put_in_single_quotes(out, name);
  }
}

/* ---- Output ---- */

static void print_error(const struct file *f) {
  fflush(stdout); /* keeps the order when both go to the same place */
  fputs("fqwc: ", stderr);
  if (f->error != 0) {
    put_quoted(stderr, f->name);
    fprintf(stderr, ": %s\n", strerror(f->error));
  } else if (is_stdin(f->name)) {
    fputs("when reading file names from stdin, no file name of '-' allowed\n", stderr);
  } else {
    fputs("invalid zero-length file name\n", stderr);
  }
}

static void print_counts(const struct counts *c, int width, const char *name) {
  printf("%*" PRIu64 " %*" PRIu64 " %*" PRIu64 " ", width, c->lines, width, c->words, width,
         c->bytes);
  if (strchr(name, '\n') != NULL) {
    put_quoted(stdout, name);
  } else {
    fputs(name, stdout);
  }
  putchar('\n');
}

static int column_width(const struct run *r) {
  int width = snprintf(NULL, 0, "%" PRIu64, r->regular_bytes);
  return r->irregular && width < 7 ? 7 : width;
}

/* Returns the program's exit status. */
static int print_all(const struct run *r) {
  struct counts total = {0};
  int status = EXIT_SUCCESS;
  int width = column_width(r);
  for (const struct file *f = r->first; f != NULL; f = f->next) {
    if (f->error != 0 || !f->opened) {
      print_error(f);
      status = EXIT_FAILURE;
    }
    if (f->opened) {
      print_counts(&f->counts, width, f->name);
      total.lines += f->counts.lines;
      total.words += f->counts.words;
      total.bytes += f->counts.bytes;
    }
  }
  if (r->first != NULL && r->first->next != NULL) {
    print_counts(&total, width, "total");
  }
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fprintf(stderr, "fqwc: write error: %s\n", strerror(errno));
    status = EXIT_FAILURE;
  }
  return status;
}

/* ---- Command line ---- */

/* Returns 0 for anything but a number of at least 1. */
static size_t parse_count(const char *text) {
  char *end;
  errno = 0;
  unsigned long long n = strtoull(text, &end, 10);
  bool ok = isdigit((unsigned char)text[0]) && *end == '\0' && errno == 0 && n <= SIZE_MAX;
  return ok ? (size_t)n : 0;
}

static bool parse_options(int argc, char **argv, fq_config *config) {
  int option;
  opterr = 0;
  while ((option = getopt(argc, argv, "j:q:")) != -1) {
    size_t n = option == '?' ? 0 : parse_count(optarg);
    if (n == 0) {
      return false;
    }
    *(option == 'j' ? &config->threads : &config->limit) = n;
  }
  return true;
}

static void count_everything(struct run *r, char **names) {
  if (r->names_from_stdin) {
    add_names_from_stdin(r);
  }
  for (; *names != NULL; names++) {
    add_name(r, *names);
  }
  for (struct file *f = r->first; f != NULL; f = f->next) {
    if (f->stream) {
      count_file(f, r);
    }
  }
  file_pool_destroy(&r->pool, FQ_DRAIN);
}

int main(int argc, char **argv) {
  static struct run r;
  fq_config config = {.worker = worker, .ctx = &r, .limit = DEFAULT_LIMIT};
  if (!parse_options(argc, argv, &config)) {
    fputs("usage: fqwc [-j workers] [-q limit] [FILE...]\n", stderr);
    return 2;
  }
  fq_status status = file_pool_init(&r.pool, &config);
  if (status != FQ_OK) {
    fprintf(stderr, "fqwc: cannot start the workers: %s\n", fq_status_name(status));
    return EXIT_FAILURE;
  }
  setvbuf(stderr, NULL, _IOLBF, BUFSIZ); /* a write a line, not one a character */
  r.input = fcntl(STDIN_FILENO, F_DUPFD, STDERR_FILENO + 1);
  r.end = &r.first;
  r.names_from_stdin = optind == argc;
  r.progress.start = now_ns();
  r.progress.on = isatty(STDERR_FILENO);
  count_everything(&r, argv + optind);
  if (r.progress.on) {
    fputs("\r\033[K", stderr);
  }
  return print_all(&r);
}
