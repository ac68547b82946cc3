/* dispatch.cc: FQ_DISPATCH against npm's fastq, the work queue of JavaScript programs, both with a
 * concurrency of 16. The peer is another program, run by node (see dispatch.js); where it cannot run
 * it is named and left out. README.md tells how to build and run it, the method and its bias.
 */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"

#include "bench.h"

#include <numeric>

FQ_DISPATCH(dispatch64, uint64_t);

using bench::check;
using bench::column;
using bench::now_ns;
using bench::row;

static const size_t concurrency = 16;
static const size_t bulk = 256;
static const size_t wave = bulk * 40; /* tasks that are pushed before the first one can end late */

/* When a task ends: when its worker returns, or later, by the event loop; in a chain, each task is
 * pushed when the one before has ended.
 */
enum way { at_once, later, chain };

struct loop {
  way ends;
  size_t total;
  uint64_t sum = 0, done = 0;
  size_t first = 0, running = 0;
  fq_id ids[concurrency]; /* what the loop has yet to complete, in order */
  dispatch64 dispatch;
};

static int work(void *task, void *ctx) {
  loop *l = static_cast<loop *>(ctx);
  l->sum += *static_cast<uint64_t *>(task);
  if (l->ends == at_once) {
    return 0;
  }
  l->ids[(l->first + l->running++) % concurrency] = dispatch64_id(&l->dispatch, task);
  return FQ_PENDING;
}

static void done(void *, int error, void *ctx) {
  loop *l = static_cast<loop *>(ctx);
  check(error == 0, "done");
  l->done++;
  if (l->ends == chain && l->done < l->total) {
    check(dispatch64_push(&l->dispatch, l->done % wave + 1) == FQ_OK, "push");
  }
}

static void push_wave(loop *l, size_t step) {
  uint64_t items[bulk];
  for (size_t i = 1; i <= wave; i += step) {
    if (step == 1) {
      check(dispatch64_push(&l->dispatch, i) == FQ_OK, "push");
    } else {
      std::iota(items, items + step, i);
      check(dispatch64_push_n(&l->dispatch, items, step, nullptr) == step, "push_n");
    }
  }
}

static void complete_all(loop *l) {
  while (l->running > 0) {
    const fq_id id = l->ids[l->first];
    l->first = (l->first + 1) % concurrency;
    l->running--;
    check(dispatch64_complete(&l->dispatch, id, 0) == FQ_OK, "complete");
  }
}

/* Seconds for so many waves of tasks. */
static double ours(way ends, size_t step, size_t waves) {
  loop l{};
  l.ends = ends;
  l.total = waves * wave;
  fq_config config = {};
  config.worker = work;
  config.done = done;
  config.ctx = &l;
  config.concurrency = concurrency;
  check(dispatch64_init(&l.dispatch, &config) == FQ_OK, "init");
  const int64_t start = now_ns();
  if (ends == chain) {
    check(dispatch64_push(&l.dispatch, 1) == FQ_OK, "push");
    complete_all(&l);
  } else {
    for (size_t w = 0; w < waves; w++) {
      push_wave(&l, step);
      complete_all(&l);
    }
  }
  const int64_t end = now_ns();
  check(l.done == l.total && l.sum == waves * (wave * (wave + 1) / 2), "fastq dispatch");
  check(dispatch64_destroy(&l.dispatch) == FQ_OK, "destroy");
  return double(end - start) / 1e9;
}

/* The same from dispatch.js, which lies beside this file; 0 if it cannot run. */
static double theirs(const char *ends, size_t waves) {
  const std::string file = __FILE__;
  const size_t slash = file.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : file.substr(0, slash + 1);
  const std::string command = "node '" + folder + "dispatch.js' " + ends + " " +
                              std::to_string(waves) + " " + std::to_string(wave) + " 2>/dev/null";
  FILE *pipe = popen(command.c_str(), "r");
  check(pipe != nullptr, "popen");
  double seconds = 0;
  unsigned long long done = 0, sum = 0;
  const bool ran = fscanf(pipe, "%lf %llu %llu", &seconds, &done, &sum) == 3;
  pclose(pipe);
  check(!ran || (done == waves * wave && sum == waves * (wave * (wave + 1) / 2)), "npm fastq");
  return ran ? seconds : 0;
}

/* The first round doubles the number of waves until a run lasts long enough. */
template <class Seconds> static row::run_fn rate(Seconds seconds, double at_least) {
  return [=, waves = size_t{1}]() mutable -> std::vector<double> {
    double spent = seconds(waves);
    while (spent < at_least) {
      waves *= 2;
      spent = seconds(waves);
    }
    const double tasks = double(waves * wave);
    return {tasks / spent / 1e6, spent * 1e9 / tasks};
  };
}

static void measure(const bench::options &opt, const char *name, way ends, double target,
                    const std::vector<std::pair<const char *, const char *>> &peers) {
  const double at_least = opt.quick ? 0.01 : 0.1;
  row measured(name, {{"M tasks/s", column::rate, peers.empty() ? 0 : target},
                      {"ns/task", column::plain, 25}});
  measured.add("fastq dispatch",
               rate([=](size_t waves) { return ours(ends, 1, waves); }, at_least));
  if (ends != chain) {
    measured.add_variant("fastq dispatch, bulk of 256",
                         rate([=](size_t waves) { return ours(ends, bulk, waves); }, at_least));
  }
  for (const auto &peer : peers) {
    const char *ends_theirs = peer.second;
    measured.add(peer.first, rate([=](size_t waves) { return theirs(ends_theirs, waves); }, 0.1));
  }
  measured.measure(opt);
}

int main(int argc, char **argv) {
  const bench::options opt = bench::parse(argc, argv);
  std::vector<std::pair<const char *, const char *>> now, late, one;
  if (theirs("now", 1) > 0) {
    now = {{"npm fastq", "now"}};
    late = {{"npm fastq, queueMicrotask", "microtask"}, {"npm fastq, setImmediate", "immediate"}};
    one = {{"npm fastq, setImmediate", "chain"}};
  } else {
    fprintf(stderr, "left out: npm's fastq (nodejs, and NODE_PATH to where npm installed it)\n");
  }
  printf("%zu CPUs, load average %.1f, %zu rounds, median (min - max)\n\n", bench::cpus().size(),
         bench::load(), opt.rounds());
  measure(opt, "dispatch, tasks end at once", at_once, 0, now);
  measure(opt, "dispatch, tasks end later", later, 0, late);
  measure(opt, "dispatch, one after the other", chain, 20, one);
  if (opt.csv) {
    fclose(opt.csv);
  }
  return 0;
}
