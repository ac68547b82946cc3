/* pool.cc: FQ_POOL against the thread pools that C and C++ programs use today. Two workers; the
 * thread that pushes is none of them. A peer that is not installed is named and left out. README.md
 * tells how to build and run it, the method and its bias.
 */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"

#include "bench.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <numeric>

#include <errno.h>

#if defined(__has_include)
#if __has_include(<glib.h>)
#include <glib.h>
#define HAVE_GLIB 1
#endif
#if __has_include(<tbb/task_group.h>) && !defined(BENCH_NO_TBB)
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#define HAVE_TBB 1
#endif
#if __has_include(<apr_thread_pool.h>)
#include <apr_general.h>
#include <apr_thread_pool.h>
#define HAVE_APR 1
#endif
#if __has_include(<uv.h>) && !defined(BENCH_NO_UV)
#include <uv.h>
#define HAVE_UV 1
#endif
#endif

FQ_POOL(pool64, uint64_t);

using bench::check;
using bench::column;
using bench::now_ns;
using bench::row;

static const size_t workers = 2;
static const size_t bulk = 256;

/* Allocations are counted by standing in for malloc, where the C library lets one. */
static std::atomic<bool> counting;
static std::atomic<uint64_t> allocations;

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 1

extern "C" {
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

static void count_allocation() {
  if (counting.load(std::memory_order_relaxed)) {
    allocations.fetch_add(1, std::memory_order_relaxed);
  }
}
void *malloc(size_t size) noexcept {
  count_allocation();
  return __libc_malloc(size);
}
void *calloc(size_t n, size_t size) noexcept {
  count_allocation();
  return __libc_calloc(n, size);
}
void *realloc(void *p, size_t size) noexcept {
  count_allocation();
  return __libc_realloc(p, size);
}
void *memalign(size_t align, size_t size) noexcept {
  count_allocation();
  return __libc_memalign(align, size);
}
void *aligned_alloc(size_t align, size_t size) noexcept { return memalign(align, size); }
int posix_memalign(void **p, size_t align, size_t size) noexcept {
  *p = memalign(align, size);
  return *p ? 0 : ENOMEM;
}
}
#endif

/* The task, the same for every pool: each thread adds up the items it gets, by itself. With a
 * length, the task computes for so long first, and the CPU time of that is noted.
 */
struct alignas(64) account {
  std::atomic<uint64_t> sum{0};
  std::atomic<int64_t> inside_ns{0};
};

static account accounts[8192]; /* one for each thread that ever ran a task */
static std::atomic<size_t> accounts_used;
static thread_local account *my_account;
static size_t task_spins; /* the length of a task; 0: none, and no clock */
static useconds_t poll_us = 1000;

static int64_t cpu_ns(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

static void spin(size_t n) {
  uint64_t x = n;
  for (size_t i = 0; i < n; i++) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    asm volatile("" : "+r"(x));
  }
}

template <class Number> static void add(std::atomic<Number> &mine, Number n) {
  mine.store(mine.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

static void work(uint64_t item) {
  account *me = my_account;
  if (!me) {
    const size_t i = accounts_used++;
    check(i < sizeof accounts / sizeof accounts[0], "too many threads");
    me = my_account = &accounts[i];
  }
  if (task_spins > 0) {
    const int64_t start = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    spin(task_spins);
    add(me->inside_ns, cpu_ns(CLOCK_THREAD_CPUTIME_ID) - start);
  }
  add(me->sum, item);
}

static uint64_t total_sum() {
  uint64_t sum = 0;
  for (size_t i = 0; i < accounts_used; i++) {
    sum += accounts[i].sum.load(std::memory_order_relaxed);
  }
  return sum;
}

static int64_t total_inside_ns() {
  int64_t ns = 0;
  for (size_t i = 0; i < accounts_used; i++) {
    ns += accounts[i].inside_ns.load(std::memory_order_relaxed);
  }
  return ns;
}

/* The contenders. Each is made for a number of tasks and has push and push_n, that wait where the
 * pool has a limit, and wait, until all tasks are done. from_inside calls the function that does
 * all of this, from where the pool wants it.
 */
struct from_anywhere {
  template <class Body> void from_inside(Body body) { body(); }
};

/* Their push_n, where the pool has no bulk call. */
template <class Pool> struct one_by_one : from_anywhere {
  void push_n(const uint64_t *items, size_t n) {
    for (size_t i = 0; i < n; i++) {
      static_cast<Pool *>(this)->push(items[i]);
    }
  }
};

struct fastq_pool : from_anywhere {
  static constexpr const char *name = "fastq pool";

  static fq_config config(size_t batch = 1, size_t limit = 0) {
    fq_config c = {};
    c.worker = [](void *task, void *) {
      work(*static_cast<uint64_t *>(task));
      return 0;
    };
    c.threads = workers;
    c.batch = batch;
    c.limit = limit;
    return c;
  }

  explicit fastq_pool(size_t, fq_config c = config()) {
    check(pool64_init(&pool, &c) == FQ_OK, "init");
  }
  ~fastq_pool() { pool64_destroy(&pool, FQ_DRAIN); }

  void push(uint64_t item) { check(pool64_push(&pool, item, FQ_FOREVER) == FQ_OK, "push"); }
  void push_n(const uint64_t *items, size_t n) {
    check(pool64_push_n(&pool, items, n, FQ_FOREVER, nullptr) == n, "push_n");
  }
  void wait() { check(pool64_wait(&pool, FQ_FOREVER) == FQ_OK, "wait"); }

  pool64 pool;
};

struct fastq_batch : fastq_pool {
  static constexpr const char *name = "fastq pool, batch 32";
  explicit fastq_batch(size_t n) : fastq_pool(n, config(32)) {}
};

struct fastq_limit : fastq_pool {
  static constexpr const char *name = "fastq pool, limit 1024";
  explicit fastq_limit(size_t n) : fastq_pool(n, config(1, 1024)) {}
};

struct fastq_batch_limit : fastq_pool {
  static constexpr const char *name = "fastq pool, batch 32, limit 1024";
  explicit fastq_batch_limit(size_t n) : fastq_pool(n, config(32, 1024)) {}
};

struct fastq_drain : fastq_pool {
  static constexpr const char *name = "fastq pool, on_drain set";
  static fq_config watched() {
    fq_config c = config();
    c.on_drain = [](void *) {};
    return c;
  }
  explicit fastq_drain(size_t n) : fastq_pool(n, watched()) {}
};

struct fastq_callbacks : fastq_pool {
  static constexpr const char *name = "fastq pool, all callbacks set";
  static fq_config watched() {
    fq_config c = config();
    c.done = [](void *, int, void *) {};
    c.on_saturated = c.on_empty = c.on_drain = [](void *) {};
    return c;
  }
  explicit fastq_callbacks(size_t n) : fastq_pool(n, watched()) {}
};

/* The classic C pool: a node for each task, a list, a mutex and two conditions. */
struct list_pool : one_by_one<list_pool> {
  static constexpr const char *name = "list pool (malloc, mutex, cond)";

  explicit list_pool(size_t) {
    pthread_mutex_init(&mutex_, nullptr);
    pthread_cond_init(&not_empty_, nullptr);
    pthread_cond_init(&idle_, nullptr);
    for (pthread_t &thread : threads_) {
      check(pthread_create(&thread, nullptr, run, this) == 0, "thread");
    }
  }
  ~list_pool() {
    pthread_mutex_lock(&mutex_);
    ends_ = true;
    pthread_cond_broadcast(&not_empty_);
    pthread_mutex_unlock(&mutex_);
    for (pthread_t &thread : threads_) {
      pthread_join(thread, nullptr);
    }
    pthread_cond_destroy(&idle_);
    pthread_cond_destroy(&not_empty_);
    pthread_mutex_destroy(&mutex_);
  }

  void push(uint64_t item) {
    node *n = static_cast<node *>(malloc(sizeof(node)));
    check(n != nullptr, "malloc");
    n->next = nullptr;
    n->fn = [](void *arg) { work(reinterpret_cast<uintptr_t>(arg)); };
    n->arg = reinterpret_cast<void *>(uintptr_t(item));
    pthread_mutex_lock(&mutex_);
    *tail_ = n;
    tail_ = &n->next;
    open_++;
    pthread_cond_signal(&not_empty_);
    pthread_mutex_unlock(&mutex_);
  }
  void wait() {
    pthread_mutex_lock(&mutex_);
    while (open_ > 0) {
      pthread_cond_wait(&idle_, &mutex_);
    }
    pthread_mutex_unlock(&mutex_);
  }

private:
  struct node {
    node *next;
    void (*fn)(void *arg);
    void *arg;
  };

  static void *run(void *arg) {
    list_pool *p = static_cast<list_pool *>(arg);
    pthread_mutex_lock(&p->mutex_);
    for (;;) {
      while (!p->head_ && !p->ends_) {
        pthread_cond_wait(&p->not_empty_, &p->mutex_);
      }
      node *n = p->head_;
      if (!n) {
        break;
      }
      p->head_ = n->next;
      if (!p->head_) {
        p->tail_ = &p->head_;
      }
      pthread_mutex_unlock(&p->mutex_);
      n->fn(n->arg);
      free(n);
      pthread_mutex_lock(&p->mutex_);
      if (--p->open_ == 0) {
        pthread_cond_broadcast(&p->idle_);
      }
    }
    pthread_mutex_unlock(&p->mutex_);
    return nullptr;
  }

  pthread_mutex_t mutex_;
  pthread_cond_t not_empty_, idle_;
  node *head_ = nullptr, **tail_ = &head_;
  size_t open_ = 0;
  bool ends_ = false;
  pthread_t threads_[workers];
};

/* The usual C++ pool: a deque of std::function, and a bulk call that takes the lock once. */
struct deque_pool : from_anywhere {
  static constexpr const char *name = "deque pool (function, mutex, cond)";

  explicit deque_pool(size_t) {
    for (std::thread &thread : threads_) {
      thread = std::thread([this] { run(); });
    }
  }
  ~deque_pool() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ends_ = true;
    }
    not_empty_.notify_all();
    for (std::thread &thread : threads_) {
      thread.join();
    }
  }

  void push(uint64_t item) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      queue_.emplace_back([item] { work(item); });
    }
    not_empty_.notify_one();
  }
  void push_n(const uint64_t *items, size_t n) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      for (size_t i = 0; i < n; i++) {
        queue_.emplace_back([item = items[i]] { work(item); });
      }
    }
    not_empty_.notify_all();
  }
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    waits_ = true;
    idle_.wait(lock, [this] { return queue_.empty() && running_ == 0; });
    waits_ = false;
  }

private:
  void run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      if (waits_ && queue_.empty() && running_ == 0) {
        idle_.notify_all();
      }
      not_empty_.wait(lock, [this] { return !queue_.empty() || ends_; });
      if (queue_.empty()) {
        return;
      }
      {
        const std::function<void()> task = std::move(queue_.front());
        queue_.pop_front();
        running_++;
        lock.unlock();
        task();
      }
      lock.lock();
      running_--;
    }
  }

  std::mutex mutex_;
  std::condition_variable not_empty_, idle_;
  std::deque<std::function<void()>> queue_;
  size_t running_ = 0;
  bool waits_ = false, ends_ = false;
  std::thread threads_[workers];
};

#if defined(HAVE_GLIB) || defined(HAVE_APR)
/* For a pool that has no call to wait with: looks at the tasks' sum now and then. */
template <class Pool> struct polled : one_by_one<Pool> {
  void wait() const {
    while (total_sum() != expected) {
      usleep(poll_us);
    }
  }

  uint64_t expected = total_sum();
};
#endif

#ifdef HAVE_GLIB
/* Exclusive: with threads of its own from the start. Its only way to wait is to end the pool. */
struct glib_pool : polled<glib_pool> {
  static constexpr const char *name = "GLib GThreadPool";

  explicit glib_pool(size_t) {
    const auto run = [](gpointer item, gpointer) { work(reinterpret_cast<uintptr_t>(item)); };
    pool_ = g_thread_pool_new(run, nullptr, gint(workers), TRUE, nullptr);
    check(pool_ != nullptr, "g_thread_pool_new");
  }
  ~glib_pool() { g_thread_pool_free(pool_, FALSE, TRUE); }

  void push(uint64_t item) {
    expected += item;
    check(g_thread_pool_push(pool_, reinterpret_cast<gpointer>(uintptr_t(item)), nullptr),
          "g_thread_pool_push");
  }

private:
  GThreadPool *pool_;
};
#endif

#ifdef HAVE_APR
struct apr_pool : polled<apr_pool> {
  static constexpr const char *name = "APR thread_pool";

  explicit apr_pool(size_t) {
    static const apr_status_t ready = apr_initialize();
    check(ready == APR_SUCCESS, "apr_initialize");
    check(apr_pool_create(&memory_, nullptr) == APR_SUCCESS, "apr_pool_create");
    check(apr_thread_pool_create(&pool_, workers, workers, memory_) == APR_SUCCESS,
          "apr_thread_pool_create");
  }
  ~apr_pool() {
    apr_thread_pool_destroy(pool_);
    apr_pool_destroy(memory_);
  }

  void push(uint64_t item) {
    const auto run = [](apr_thread_t *, void *arg) -> void * {
      work(reinterpret_cast<uintptr_t>(arg));
      return nullptr;
    };
    expected += item;
    check(apr_thread_pool_push(pool_, run, reinterpret_cast<void *>(uintptr_t(item)),
                               APR_THREAD_TASK_PRIORITY_NORMAL, nullptr) == APR_SUCCESS,
          "apr_thread_pool_push");
  }

private:
  apr_pool_t *memory_ = nullptr;
  apr_thread_pool_t *pool_ = nullptr;
};
#endif

#ifdef HAVE_UV
/* One set of threads for the program. A request for each task is the caller's: here from an array
 * that is there before. Pushes come from the loop's thread, and completions go back to it.
 */
struct uv_pool : one_by_one<uv_pool> {
  static constexpr const char *name = "libuv uv_queue_work";

  explicit uv_pool(size_t n) {
    if (requests().size() < n) {
      requests().resize(n);
    }
    check(uv_loop_init(&loop_) == 0, "uv_loop_init");
  }
  ~uv_pool() { check(uv_loop_close(&loop_) == 0, "uv_loop_close"); }

  void push(uint64_t item) {
    uv_work_t *request = &requests()[used_++];
    request->data = reinterpret_cast<void *>(uintptr_t(item));
    check(uv_queue_work(&loop_, request, run, after) == 0, "uv_queue_work");
  }
  void wait() {
    uv_run(&loop_, UV_RUN_DEFAULT);
    used_ = 0;
  }

private:
  static void run(uv_work_t *request) { work(reinterpret_cast<uintptr_t>(request->data)); }
  static void after(uv_work_t *, int) {}
  static std::vector<uv_work_t> &requests() {
    static std::vector<uv_work_t> all;
    return all;
  }

  uv_loop_t loop_;
  size_t used_ = 0;
};
#endif

#ifdef HAVE_TBB
/* Its waiting thread runs tasks too. Workers steal, so the order is not that of the pushes. */
struct tbb_pool : one_by_one<tbb_pool> {
  static constexpr const char *name = "oneTBB task_group";

  explicit tbb_pool(size_t) {
    static tbb::global_control threads(tbb::global_control::max_allowed_parallelism, workers + 1);
    arena_.initialize();
  }

  template <class Body> void from_inside(Body body) { arena_.execute(body); }
  void push(uint64_t item) {
    tasks_.run([item] { work(item); });
  }
  void wait() { tasks_.wait(); }

private:
  tbb::task_arena arena_{int(workers) + 1, 1};
  tbb::task_group tasks_;
};
#endif

/* Calls add with a null pointer to each pool that is not ours. */
template <class Add> static void each_peer(Add add_peer) {
  add_peer(static_cast<list_pool *>(nullptr));
  add_peer(static_cast<deque_pool *>(nullptr));
#ifdef HAVE_GLIB
  add_peer(static_cast<glib_pool *>(nullptr));
#endif
#ifdef HAVE_APR
  add_peer(static_cast<apr_pool *>(nullptr));
#endif
#ifdef HAVE_UV
  add_peer(static_cast<uv_pool *>(nullptr));
#endif
#ifdef HAVE_TBB
  add_peer(static_cast<tbb_pool *>(nullptr));
#endif
}

/* A row of the workload for Ours, other settings of it, and all peers. */
template <template <class> class Workload, class Ours, class... Variants, class... Args>
static void measure(row measured, const bench::options &opt, Args... args) {
  measured.add(Ours::name, Workload<Ours>::make(args...));
  (measured.add_variant(Variants::name, Workload<Variants>::make(args...)), ...);
  each_peer([&](auto *pool) {
    using pool_type = std::remove_pointer_t<decltype(pool)>;
    measured.add(pool_type::name, Workload<pool_type>::make(args...));
  });
  measured.measure(opt);
}

/* Pushes the items 1 to total, in steps, and waits until they are done. */
template <class Pool> static void push_and_wait(Pool &pool, size_t total, size_t step) {
  const uint64_t had = total_sum();
  if (step == 1) {
    for (size_t i = 1; i <= total; i++) {
      pool.push(i);
    }
  } else {
    uint64_t items[bulk];
    for (size_t i = 0; i < total; i += step) {
      std::iota(items, items + step, i + 1);
      pool.push_n(items, step);
    }
  }
  pool.wait();
  check(total_sum() - had == uint64_t(total) * (total + 1) / 2, Pool::name);
}

/* Tasks that do nothing. They come in waves, so that the length of the queue has a bound where the
 * pool sets none, and is the same for all. The first round doubles the number of waves until a run
 * lasts long enough.
 */
template <class Pool> struct throughput {
  static double seconds(size_t waves, size_t wave, size_t step) {
    Pool pool(wave);
    int64_t start = 0, end = 0;
    pool.from_inside([&] {
      start = now_ns();
      for (size_t i = 0; i < waves; i++) {
        push_and_wait(pool, wave, step);
      }
      end = now_ns();
    });
    return double(end - start) / 1e9;
  }

  static row::run_fn make(size_t wave, size_t step, double at_least) {
    return [=, waves = size_t{1}]() mutable -> std::vector<double> {
      double spent = seconds(waves, wave, step);
      while (spent < at_least) {
        waves *= 2;
        spent = seconds(waves, wave, step);
      }
      return {double(waves * wave) / spent / 1e6};
    };
  }
};

static void throughput_rows(const bench::options &opt) {
  const size_t wave = opt.quick ? size_t{1} << 16 : size_t{1} << 18;
  const double at_least = opt.quick ? 0.005 : 0.1;
  measure<throughput, fastq_pool, fastq_batch, fastq_limit, fastq_drain, fastq_callbacks>(
      row("pool of 2, singles", {{"M tasks/s", column::rate, 1.5}}), opt, wave, size_t{1},
      at_least);
  measure<throughput, fastq_batch, fastq_pool, fastq_batch_limit>(
      row("pool of 2, bulk of 256", {{"M tasks/s", column::rate, 4}}), opt, wave, bulk, at_least);
}

#ifdef COUNTS_ALLOCATIONS
/* Calls of malloc and its kin between the first push and the end of the last task. */
template <class Pool> struct allocation {
  static row::run_fn make(size_t total) {
    return [=]() -> std::vector<double> {
      Pool pool(total);
      allocations = 0;
      pool.from_inside([&] {
        counting = true;
        push_and_wait(pool, total, 1);
        counting = false;
      });
      check(allocations == 0 || !std::is_same<Pool, fastq_limit>::value, "fastq allocates");
      return {double(allocations) / double(total)};
    };
  }
};

static void allocation_rows(const bench::options &opt) {
  measure<allocation, fastq_limit, fastq_pool>(
      row("pool of 2, allocations", {{"per task", column::plain}}), opt, size_t{100000});
}
#endif

/* A pool's own cost: the CPU time of the process outside the task function, less what the clocks in
 * the task function cost there; that is measured on a bare loop of tasks just before. Everything is
 * pushed one by one at the beginning, so the workers always find a task.
 */
template <class Pool> struct own_cost {
  static double bare_ns_per_task(size_t n) {
    std::vector<int64_t> spent(workers);
    const int64_t inside = total_inside_ns();
    bench::run_threads(workers, [&](size_t i) {
      void (*volatile task)(uint64_t) = work;
      const int64_t start = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
      for (size_t k = 0; k < n; k++) {
        task(k);
      }
      spent[i] = cpu_ns(CLOCK_THREAD_CPUTIME_ID) - start;
    });
    const int64_t all = std::accumulate(spent.begin(), spent.end(), int64_t{0});
    return double(all - (total_inside_ns() - inside)) / double(workers * n);
  }

  static row::run_fn make(size_t spins, size_t total) {
    return [=]() -> std::vector<double> {
      task_spins = spins;
      poll_us =
          20000; /* a look costs more than some tasks' queueing, and nobody looks at the time */
      const double clocks = bare_ns_per_task(total / 8);
      Pool pool(total);
      int64_t inside = total_inside_ns();
      int64_t spent = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
      pool.from_inside([&] { push_and_wait(pool, total, 1); });
      usleep(10000); /* only a thread that sleeps has all its time in the process's clock */
      spent = cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - spent;
      inside = total_inside_ns() - inside;
      poll_us = 1000;
      task_spins = 0;
      const double own = double(spent - inside) - clocks * double(total);
      return {100 * own / double(spent), own / double(total)};
    };
  }
};

static double spins_per_ns() {
  double best = 0;
  for (int i = 0; i < 20; i++) {
    const int64_t start = now_ns();
    spin(100000);
    best = std::max(best, 1e5 / double(now_ns() - start));
  }
  return best;
}

static void own_cost_rows(const bench::options &opt) {
  const double rate = spins_per_ns();
  static const struct {
    const char *name;
    double ns;
    size_t total;
    double target;
  } rows[] = {{"pool of 2, own cost, tasks of 1.6 ms", 1.6e6, 200, 0.1},
              {"pool of 2, own cost, tasks of 10 us", 1e4, 20000, 2}};
  for (const auto &r : rows) {
    measure<own_cost, fastq_pool>(
        row(r.name, {{"% of CPU time", column::plain, r.target}, {"ns/task", column::plain}}), opt,
        size_t(rate * r.ns), opt.quick ? r.total / 5 : r.total);
  }
}

int main(int argc, char **argv) {
  const bench::options opt = bench::parse(argc, argv);
#ifndef HAVE_GLIB
  fprintf(stderr, "left out: GLib (libglib2.0-dev, pkg-config)\n");
#endif
#ifndef HAVE_APR
  fprintf(stderr, "left out: APR (libaprutil1-dev, pkg-config)\n");
#endif
#ifdef HAVE_UV
  setenv("UV_THREADPOOL_SIZE", std::to_string(workers).c_str(), 1);
#else
  fprintf(stderr, "left out: libuv (libuv1-dev)\n");
#endif
#ifndef HAVE_TBB
  fprintf(stderr, "left out: oneTBB (libtbb-dev)\n");
#endif
  printf("%zu CPUs, load average %.1f, %zu rounds, median (min - max)\n\n", bench::cpus().size(),
         bench::load(), opt.rounds());
  throughput_rows(opt);
#ifdef COUNTS_ALLOCATIONS
  allocation_rows(opt);
#else
  fprintf(stderr, "left out: allocations (glibc without sanitizers)\n");
#endif
  own_cost_rows(opt);
  if (opt.csv) {
    fclose(opt.csv);
  }
  return 0;
}
