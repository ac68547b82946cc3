/* bench.h: the method that the benchmark programs share (C++17, because peers are C++).
 *
 * A row is one workload, a contender is one queue that runs it. The contenders of a row take turns,
 * round by round, in one process, and each round starts with another one: what drifts (the clock of
 * the CPU, the neighbours of a virtual machine) then drifts for all of them. A figure is the median
 * of its rounds; ratios are ratios of medians, of one run.
 */
#ifndef FASTQ_BENCH_H
#define FASTQ_BENCH_H

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

namespace bench {

struct options {
  bool quick = false;
  const char *only = "";
  FILE *csv = nullptr;

  size_t rounds() const { return quick ? 3 : 9; }
};

inline options parse(int argc, char **argv) {
  options opt;
  for (int i = 1; i < argc; i++) {
    const bool has_value = i + 1 < argc;
    if (!strcmp(argv[i], "--quick")) {
      opt.quick = true;
    } else if (!strcmp(argv[i], "--only") && has_value) {
      opt.only = argv[++i];
    } else if (!strcmp(argv[i], "--csv") && has_value) {
      opt.csv = fopen(argv[++i], "w");
      if (!opt.csv) {
        perror(argv[i]);
        exit(2);
      }
      fprintf(opt.csv, "row,contender,column,round,value\n");
    } else {
      fprintf(stderr, "usage: %s [--quick] [--only WORD] [--csv FILE]\n", argv[0]);
      exit(2);
    }
  }
  return opt;
}

/* A run that lost or invented an item must not end in a table. */
inline void check(bool ok, const char *what) {
  if (!ok) {
    fprintf(stderr, "\nbench: wrong result: %s\n", what);
    exit(1);
  }
}

inline int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

/* The CPUs this process may use, not those the machine has. */
inline const std::vector<size_t> &cpus() {
  static const std::vector<size_t> list = [] {
    std::vector<size_t> allowed;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
      for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &set)) {
          allowed.push_back(cpu);
        }
      }
    }
    check(!allowed.empty(), "no CPU to run on");
    return allowed;
  }();
  return list;
}

inline void pin(size_t index) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpus()[index % cpus().size()], &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

/* Run body(0..n-1) on n pinned threads that start together. Returns seconds from the first start to
 * the last end, by the threads' own clocks: their creation and the join do not count.
 */
template <class Body> double run_threads(size_t n, Body body) {
  std::vector<int64_t> start(n), end(n);
  std::vector<std::thread> threads;
  pthread_barrier_t gate;
  check(pthread_barrier_init(&gate, nullptr, unsigned(n)) == 0, "barrier");
  for (size_t i = 0; i < n; i++) {
    threads.emplace_back([&, i] {
      pin(i);
      pthread_barrier_wait(&gate);
      start[i] = now_ns();
      body(i);
      end[i] = now_ns();
    });
  }
  for (std::thread &t : threads) {
    t.join();
  }
  pthread_barrier_destroy(&gate);
  return double(*std::max_element(end.begin(), end.end()) -
                *std::min_element(start.begin(), start.end())) /
         1e9;
}

/* Keeps the compiler from dropping or moving work on memory that nobody seems to read. */
inline void keep() { asm volatile("" ::: "memory"); }

inline double load() {
  double average = 0;
  return getloadavg(&average, 1) == 1 ? average : 0;
}

inline double quantile(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  return v[size_t(q * double(v.size() - 1) + 0.5)];
}

inline std::string text(double value) {
  char buffer[40];
  snprintf(buffer, sizeof buffer, value < 1000 ? "%.3g" : "%.0f", value);
  return buffer;
}

/* What a row measures, and what the first contender (ours) shall reach against the reference. */
struct column {
  const char *name;
  enum { rate, time, plain } kind; /* more is better, less is better, no ratio */
  double target = 0;               /* of the ratio; without one, the most ours may be; 0 = none */
  bool at_most = false;            /* the ratio is ours / reference and has an upper bound */
};

class row {
public:
  using run_fn = std::function<std::vector<double>()>; /* one value per column */

  row(std::string name, std::vector<column> columns, const char *reference = "")
      : name_(std::move(name)), columns_(std::move(columns)), reference_(reference) {}

  /* The first contender is the one that the ratios are about. */
  void add(const char *name, run_fn run) {
    contenders_.push_back({name, std::move(run), {}, true});
  }

  /* Shown beside the others, but never what the ratios refer to: another setting of ours. */
  void add_variant(const char *name, run_fn run) {
    contenders_.push_back({name, std::move(run), {}, false});
  }

  void measure(const options &opt) {
    if (name_.find(opt.only) == std::string::npos) {
      return;
    }
    fprintf(stderr, "%s ", name_.c_str());
    const int64_t began = now_ns();
    alarm(120); /* a lost item leaves its reader waiting for ever */
    for (size_t round = 0; round < opt.rounds(); round++) {
      for (size_t i = 0; i < contenders_.size(); i++) {
        contender &who = contenders_[(round + i) % contenders_.size()];
        who.rounds.push_back(who.run());
      }
      fputc('.', stderr);
    }
    alarm(0);
    fprintf(stderr, " %.1f s\n", double(now_ns() - began) / 1e9);
    print();
    if (opt.csv) {
      record(opt.csv);
    }
  }

private:
  struct contender {
    const char *name;
    run_fn run;
    std::vector<std::vector<double>> rounds;
    bool peer;

    double at(size_t col, double q) const {
      std::vector<double> values;
      for (const std::vector<double> &r : rounds) {
        values.push_back(r[col]);
      }
      return quantile(values, q);
    }
    double median(size_t col) const { return at(col, 0.5); }
  };

  const contender *reference(size_t col) const {
    const contender *best = nullptr;
    for (size_t i = 1; i < contenders_.size(); i++) {
      const contender &c = contenders_[i];
      if (*reference_) {
        if (!strcmp(reference_, c.name)) {
          return &c;
        }
      } else if (!c.peer) {
        continue;
      } else if (!best ||
                 (columns_[col].kind == column::rate ? c.median(col) > best->median(col)
                                                     : c.median(col) < best->median(col))) {
        best = &c;
      }
    }
    return best;
  }

  void print() const {
    printf("%-40s", name_.c_str());
    for (const column &col : columns_) {
      printf("  %24s", col.name);
    }
    printf("\n");
    for (const contender &c : contenders_) {
      printf("  %-38s", c.name);
      for (size_t i = 0; i < columns_.size(); i++) {
        const std::string range = "(" + text(c.at(i, 0)) + " - " + text(c.at(i, 1)) + ")";
        printf("  %7s %16s", text(c.median(i)).c_str(), range.c_str());
      }
      printf("\n");
    }
    for (size_t i = 0; i < columns_.size(); i++) {
      print_ratio(i);
    }
    printf("\n");
    fflush(stdout);
  }

  void print_ratio(size_t i) const {
    const column &col = columns_[i];
    const contender *ref = reference(i);
    const double ours = contenders_[0].median(i);
    if (col.kind == column::plain || !ref) {
      if (col.target > 0) {
        printf("  = %s: target at most %g: %s\n", col.name, col.target,
               ours <= col.target ? "met" : "MISSED");
      }
      return;
    }
    const bool ours_on_top = col.kind == column::rate || col.at_most;
    const double ratio = ours_on_top ? ours / ref->median(i) : ref->median(i) / ours;
    printf("  = %s: %s %.2fx %s", col.name, contenders_[0].name, ratio, ref->name);
    if (!col.at_most && col.kind == column::time) {
      printf(" in speed");
    }
    if (col.target > 0) {
      const bool met = col.at_most ? ratio <= col.target : ratio >= col.target;
      printf(", target at %s %g: %s", col.at_most ? "most" : "least", col.target,
             met ? "met" : "MISSED");
    }
    printf("\n");
  }

  void record(FILE *csv) const {
    for (const contender &c : contenders_) {
      for (size_t r = 0; r < c.rounds.size(); r++) {
        for (size_t i = 0; i < columns_.size(); i++) {
          fprintf(csv, "\"%s\",\"%s\",\"%s\",%zu,%.6g\n", name_.c_str(), c.name, columns_[i].name,
                  r + 1, c.rounds[r][i]);
        }
      }
    }
    fflush(csv);
  }

  std::string name_;
  std::vector<column> columns_;
  const char *reference_;
  std::vector<contender> contenders_;
};

} /* namespace bench */

#endif
