/* chan.cc: FQ_CHAN and FQ_RING against the blocking queues that C and C++ programs use today.
 * A peer that is not installed is named and left out. README.md tells how to build and run it, the
 * method and its bias.
 */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"

#include "bench.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <numeric>

#include <sys/resource.h>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__has_include)
#if __has_include(<glib.h>)
#include <glib.h>
#define HAVE_GLIB 1
#endif
#if __has_include(<tbb/concurrent_queue.h>) && !defined(BENCH_NO_TBB)
#include <tbb/concurrent_queue.h>
#define HAVE_TBB 1
#endif
#if __has_include(<concurrentqueue/blockingconcurrentqueue.h>)
#include <concurrentqueue/blockingconcurrentqueue.h>
#define HAVE_MOODYCAMEL 1
#elif __has_include(<concurrentqueue/moodycamel/blockingconcurrentqueue.h>)
#include <concurrentqueue/moodycamel/blockingconcurrentqueue.h>
#define HAVE_MOODYCAMEL 1
#endif
#endif

FQ_CHAN(chan64, uint64_t);
FQ_RING(ring64, uint64_t);

using bench::check;
using bench::column;
using bench::now_ns;
using bench::row;

static const size_t limit = 1024;
static const size_t batch = 32;

/* The contenders. Each has the four calls push, pop, push_n and pop_n, that wait; pop_n returns 1
 * to max items. The first argument is what a queue keeps per thread: nothing, except for
 * moodycamel.
 */
template <class Queue> struct no_token {
  explicit no_token(Queue &) {}
};

struct fastq_chan {
  static constexpr const char *name = "fastq chan";
  using producer = no_token<fastq_chan>;
  using consumer = no_token<fastq_chan>;

  explicit fastq_chan(size_t capacity) { check(chan64_init(&chan, capacity) == FQ_OK, "init"); }
  ~fastq_chan() { chan64_destroy(&chan); }

  void push(producer &, uint64_t item) {
    check(chan64_push(&chan, item, FQ_FOREVER) == FQ_OK, "push");
  }
  uint64_t pop(consumer &) {
    uint64_t item;
    check(chan64_pop(&chan, &item, FQ_FOREVER) == FQ_OK, "pop");
    return item;
  }
  void push_n(producer &, const uint64_t *items, size_t n) {
    check(chan64_push_n(&chan, items, n, FQ_FOREVER, nullptr) == n, "push_n");
  }
  size_t pop_n(consumer &, uint64_t *out, size_t max) {
    return chan64_pop_n(&chan, out, 1, max, FQ_FOREVER, nullptr);
  }

  chan64 chan;
};

/* The queue that everyone writes first. A bulk call takes the lock once for what fits, and wakes no
 * more threads than it has items or places for.
 */
struct deque_queue {
  static constexpr const char *name = "mutex+cond+deque";
  using producer = no_token<deque_queue>;
  using consumer = no_token<deque_queue>;

  explicit deque_queue(size_t capacity) : capacity_(capacity) {}

  void push(producer &token, uint64_t item) { push_n(token, &item, 1); }
  uint64_t pop(consumer &token) {
    uint64_t item;
    pop_n(token, &item, 1);
    return item;
  }
  void push_n(producer &, const uint64_t *items, size_t n) {
    for (size_t done = 0; done < n;) {
      std::unique_lock<std::mutex> lock(mutex_);
      writers_++;
      not_full_.wait(lock, [this] { return queue_.size() < capacity_; });
      writers_--;
      const size_t some = std::min(n - done, capacity_ - queue_.size());
      queue_.insert(queue_.end(), items + done, items + done + some);
      const size_t wakes = std::min(some, readers_);
      lock.unlock();
      wake(not_empty_, wakes);
      done += some;
    }
  }
  size_t pop_n(consumer &, uint64_t *out, size_t max) {
    std::unique_lock<std::mutex> lock(mutex_);
    readers_++;
    not_empty_.wait(lock, [this] { return !queue_.empty(); });
    readers_--;
    const size_t some = std::min(max, queue_.size());
    std::copy_n(queue_.begin(), some, out);
    queue_.erase(queue_.begin(), queue_.begin() + ptrdiff_t(some));
    const size_t wakes = std::min(some, writers_);
    lock.unlock();
    wake(not_full_, wakes);
    return some;
  }

private:
  static void wake(std::condition_variable &sleepers, size_t n) {
    while (n--) {
      sleepers.notify_one();
    }
  }

  const size_t capacity_;
  size_t readers_ = 0, writers_ = 0;
  std::mutex mutex_;
  std::condition_variable not_empty_, not_full_;
  std::deque<uint64_t> queue_;
};

#ifdef HAVE_GLIB
/* Unbounded, and without bulk calls: a batch is a loop of singles. */
struct glib_queue {
  static constexpr const char *name = "GLib GAsyncQueue";
  using producer = no_token<glib_queue>;
  using consumer = no_token<glib_queue>;

  explicit glib_queue(size_t) : queue_(g_async_queue_new()) {}
  ~glib_queue() { g_async_queue_unref(queue_); }

  void push(producer &, uint64_t item) { g_async_queue_push(queue_, gpointer(item)); }
  uint64_t pop(consumer &) { return uint64_t(g_async_queue_pop(queue_)); }
  void push_n(producer &token, const uint64_t *items, size_t n) {
    for (size_t i = 0; i < n; i++) {
      push(token, items[i]);
    }
  }
  size_t pop_n(consumer &token, uint64_t *out, size_t max) {
    for (size_t i = 0; i < max; i++) {
      out[i] = pop(token);
    }
    return max;
  }

private:
  GAsyncQueue *queue_;
};
#endif

#ifdef HAVE_TBB
/* Bounded; no bulk calls either. */
struct tbb_queue {
  static constexpr const char *name = "oneTBB bounded_queue";
  using producer = no_token<tbb_queue>;
  using consumer = no_token<tbb_queue>;

  explicit tbb_queue(size_t capacity) { queue_.set_capacity(ptrdiff_t(capacity)); }

  void push(producer &, uint64_t item) { queue_.push(item); }
  uint64_t pop(consumer &) {
    uint64_t item;
    queue_.pop(item);
    return item;
  }
  void push_n(producer &token, const uint64_t *items, size_t n) {
    for (size_t i = 0; i < n; i++) {
      push(token, items[i]);
    }
  }
  size_t pop_n(consumer &token, uint64_t *out, size_t max) {
    for (size_t i = 0; i < max; i++) {
      out[i] = pop(token);
    }
    return max;
  }

private:
  tbb::concurrent_bounded_queue<uint64_t> queue_;
};
#endif

#ifdef HAVE_MOODYCAMEL
/* Unbounded, and FIFO only for the items of one producer. */
struct moodycamel_queue {
  static constexpr const char *name = "moodycamel Blocking";
  using queue = moodycamel::BlockingConcurrentQueue<uint64_t>;
  struct producer : moodycamel::ProducerToken {
    explicit producer(moodycamel_queue &q) : ProducerToken(q.queue_) {}
  };
  struct consumer : moodycamel::ConsumerToken {
    explicit consumer(moodycamel_queue &q) : ConsumerToken(q.queue_) {}
  };

  explicit moodycamel_queue(size_t capacity) : queue_(capacity) {}

  void push(producer &token, uint64_t item) { check(queue_.enqueue(token, item), "enqueue"); }
  uint64_t pop(consumer &token) {
    uint64_t item;
    queue_.wait_dequeue(token, item);
    return item;
  }
  void push_n(producer &token, const uint64_t *items, size_t n) {
    check(queue_.enqueue_bulk(token, items, n), "enqueue_bulk");
  }
  size_t pop_n(consumer &token, uint64_t *out, size_t max) {
    return queue_.wait_dequeue_bulk(token, out, max);
  }

private:
  queue queue_;
};
#endif

#ifdef __linux__
/* One word and two system calls: the floor for a push to a sleeping reader. Only for one item at a
 * time in flight.
 */
struct bare_futex {
  static constexpr const char *name = "bare futex";
  using producer = no_token<bare_futex>;
  using consumer = no_token<bare_futex>;

  explicit bare_futex(size_t) {}

  void push(producer &, uint64_t item) {
    item_ = item;
    full_.store(1, std::memory_order_release);
    syscall(SYS_futex, &full_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
  uint64_t pop(consumer &) {
    while (!full_.load(std::memory_order_acquire)) {
      syscall(SYS_futex, &full_, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
    }
    full_.store(0, std::memory_order_relaxed);
    return item_;
  }

private:
  std::atomic<uint32_t> full_{0};
  uint64_t item_ = 0;
};
#endif

/* One contender for each queue, ours first. */
template <template <class> class Workload, class... Args> void add_all(row &r, Args... args) {
  auto add = [&](auto *queue) {
    using queue_type = std::remove_pointer_t<decltype(queue)>;
    r.add(queue_type::name, Workload<queue_type>::make(args...));
  };
  add(static_cast<fastq_chan *>(nullptr));
  add(static_cast<deque_queue *>(nullptr));
#ifdef HAVE_GLIB
  add(static_cast<glib_queue *>(nullptr));
#endif
#ifdef HAVE_TBB
  add(static_cast<tbb_queue *>(nullptr));
#endif
#ifdef HAVE_MOODYCAMEL
  add(static_cast<moodycamel_queue *>(nullptr));
#endif
}

/* Throughput: n producers and n consumers move a number of items. Each consumer stops at its share,
 * since not every peer can close.
 */
template <class Queue> struct traffic {
  static void produce(Queue &queue, size_t step, uint64_t first, size_t count) {
    typename Queue::producer token(queue);
    if (step == 1) {
      for (size_t i = 0; i < count; i++) {
        queue.push(token, first + i);
      }
      return;
    }
    uint64_t items[batch];
    for (size_t i = 0; i < count; i += step) {
      std::iota(items, items + step, first + i);
      queue.push_n(token, items, step);
    }
  }

  static uint64_t consume(Queue &queue, size_t step, size_t count) {
    typename Queue::consumer token(queue);
    uint64_t sum = 0;
    if (step == 1) {
      for (size_t i = 0; i < count; i++) {
        sum += queue.pop(token);
      }
      return sum;
    }
    uint64_t items[batch];
    for (size_t left = count; left > 0;) {
      const size_t got = queue.pop_n(token, items, std::min(step, left));
      sum = std::accumulate(items, items + got, sum);
      left -= got;
    }
    return sum;
  }

  static double seconds(size_t n, size_t step, size_t total) {
    Queue queue(limit);
    std::vector<uint64_t> sums(n);
    const size_t share = total / n;
    const double spent = bench::run_threads(2 * n, [&](size_t i) {
      if (i < n) {
        produce(queue, step, i * share + 1, share); /* from 1: GLib cannot carry a NULL */
      } else {
        sums[i - n] = consume(queue, step, share);
      }
    });
    const uint64_t sum = std::accumulate(sums.begin(), sums.end(), uint64_t{0});
    check(sum == uint64_t(total) * (total + 1) / 2, Queue::name);
    return spent;
  }

  /* The first round doubles the number of items until a run lasts long enough; the later ones keep
   * it.
   */
  static bench::row::run_fn make(size_t n, size_t step, double at_least) {
    return [=, total = size_t{1} << 16]() mutable -> std::vector<double> {
      double spent = seconds(n, step, total);
      while (spent < at_least) {
        total *= 2;
        spent = seconds(n, step, total);
      }
      return {double(total) / spent / 1e6};
    };
  }
};

static void traffic_rows(const bench::options &opt) {
  static const struct {
    const char *name;
    size_t n, step;
    double target;
  } rows[] = {
      {"1x1, singles", 1, 1, 1.1},
      {"2x2, singles", 2, 1, 1.1},
      {"4x4, singles", 4, 1, 0},
      {"1x1, batches of 32", 1, batch, 1.5},
      {"2x2, batches of 32", 2, batch, 1.5},
      {"4x4, batches of 32", 4, batch, 1.2},
      {"8x8, batches of 32", 8, batch, 0},
  };
  for (const auto &r : rows) {
    row measured(r.name, {{"M items/s", column::rate, r.target}});
    add_all<traffic>(measured, r.n, r.step, opt.quick ? 0.005 : 0.03);
    measured.measure(opt);
  }
}

/* Idle wake-up: two threads, two queues, one item that goes to and fro. Each item is the time of
 * its push, so one way is measured at the reader. The pause (a busy loop) before a push makes sure
 * that the reader is asleep also where it spins first; how often it really slept is the kernel's
 * count of voluntary switches. Two cores are what counts; on one core no idle core has to be
 * started, which hides the queue's own share on a virtual machine.
 */
template <class Queue> struct wake {
  struct side {
    std::vector<double> latency;
    uint64_t sent = 0, received = 0;
    long sleeps = 0;
  };

  static void push(Queue &queue, typename Queue::producer &token, int64_t pause_ns, side &me) {
    const int64_t start = now_ns();
    int64_t now = start;
    while (now - start < pause_ns) {
      now = now_ns();
    }
    me.sent += uint64_t(now);
    queue.push(token, uint64_t(now));
  }

  static void pop(Queue &queue, typename Queue::consumer &token, side &me) {
    const uint64_t pushed = queue.pop(token);
    me.latency.push_back(double(now_ns() - int64_t(pushed)));
    me.received += pushed;
  }

  static long voluntary_switches() {
#ifdef RUSAGE_THREAD
    rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
#else
    return 0;
#endif
  }

  static std::vector<double> run(size_t cores, int64_t pause_ns, size_t trips) {
    Queue there(limit), back(limit);
    side sides[2];
    bench::run_threads(2, [&](size_t i) {
      bench::pin(i % cores);
      Queue &out = i == 0 ? there : back;
      Queue &in = i == 0 ? back : there;
      typename Queue::producer to(out);
      typename Queue::consumer from(in);
      side &me = sides[i];
      me.latency.reserve(trips);
      me.sleeps = -voluntary_switches();
      for (size_t trip = 0; trip < trips; trip++) {
        if (i == 0) {
          push(out, to, pause_ns, me);
        }
        pop(in, from, me);
        if (i == 1) {
          push(out, to, pause_ns, me);
        }
      }
      me.sleeps += voluntary_switches();
    });
    check(sides[0].sent == sides[1].received && sides[1].sent == sides[0].received, Queue::name);
    std::vector<double> all = sides[0].latency;
    all.insert(all.end(), sides[1].latency.begin(), sides[1].latency.end());
    return {bench::quantile(all, 0.5) / 1e3, bench::quantile(all, 0.99) / 1e3,
            double(sides[0].sleeps + sides[1].sleeps) / double(2 * trips)};
  }

  static bench::row::run_fn make(size_t cores, int64_t pause_ns, size_t trips) {
    return [=] { return run(cores, pause_ns, trips); };
  }
};

static void wake_rows(const bench::options &opt) {
  static const struct {
    const char *name;
    size_t cores;
    int64_t pause_ns;
    size_t trips, quick_trips;
    double target;
  } rows[] = {{"wake-up, ping-pong", 2, 0, 3000, 1000, 1.25},
              {"wake-up, after 100 us", 2, 100000, 500, 100, 1.25},
              {"wake-up, ping-pong, one core", 1, 0, 10000, 1000, 0}};
  for (const auto &r : rows) {
    row measured(r.name,
                 {{"one way, p50 us", column::time, r.target, true},
                  {"p99 us", column::time, 0, true},
                  {"sleeps per push", column::plain}},
                 "bare futex");
    const size_t trips = opt.quick ? r.quick_trips : r.trips;
    add_all<wake>(measured, r.cores, r.pause_ns, trips);
#ifdef __linux__
    measured.add(bare_futex::name, wake<bare_futex>::make(r.cores, r.pause_ns, trips));
#endif
    measured.measure(opt);
  }
}

/* One thread pushes 1,000 items into a fresh unbounded channel; init and destroy are not timed.
 * Several channels a time reading, so that the clock does not count.
 */
static std::vector<double> fresh_push(bool bulk, size_t repeats) {
  const size_t n = 1000, group = 16;
  std::vector<uint64_t> items(n), out(n);
  std::iota(items.begin(), items.end(), uint64_t{1});
  int64_t spent = 0;
  for (size_t i = 0; i < repeats; i++) {
    chan64 chans[group];
    for (chan64 &c : chans) {
      check(chan64_init(&c, 0) == FQ_OK, "init");
    }
    const int64_t start = now_ns();
    for (chan64 &c : chans) {
      if (bulk) {
        chan64_push_n(&c, items.data(), n, FQ_FOREVER, nullptr);
      } else {
        for (uint64_t item : items) {
          chan64_push(&c, item, FQ_FOREVER);
        }
      }
    }
    spent += now_ns() - start;
    for (chan64 &c : chans) {
      check(chan64_pop_n(&c, out.data(), 0, n, FQ_NOWAIT, nullptr) == n && out == items, "items");
      chan64_destroy(&c);
    }
  }
  return {double(spent) / double(repeats * group * n)};
}

/* The same into a ring that is empty each time and has its memory already. */
static std::vector<double> ring_push(bool fixed, size_t repeats) {
  const size_t n = 1000;
  std::vector<uint64_t> items(n), out(n), storage(1024);
  std::iota(items.begin(), items.end(), uint64_t{1});
  ring64 ring;
  check((fixed ? ring64_init_fixed(&ring, storage.data(), storage.size())
               : ring64_init(&ring, 0)) == FQ_OK,
        "init");
  size_t pushed = ring64_push_n(&ring, items.data(), n); /* grows here, not in the loop */
  const int64_t start = now_ns();
  for (size_t i = 0; i < repeats; i++) {
    ring64_clear(&ring);
    pushed += ring64_push_n(&ring, items.data(), n);
    bench::keep();
  }
  const int64_t spent = now_ns() - start;
  check(pushed == n * (repeats + 1), "push_n");
  check(ring64_pop_n(&ring, out.data(), n) == n && out == items, "items");
  ring64_destroy(&ring);
  return {double(spent) / double(repeats * n)};
}

static void bulk_rows(const bench::options &opt) {
  const size_t repeats = opt.quick ? 20 : 100;
  row chan("bulk push of 1,000, fresh channel", {{"ns/item", column::time, 12.65}});
  chan.add("push_n", [=] { return fresh_push(true, repeats); });
  chan.add("1,000 times push", [=] { return fresh_push(false, repeats); });
  chan.measure(opt);
  for (bool fixed : {false, true}) {
    row ring(fixed ? "bulk push of 1,000, fixed ring" : "bulk push of 1,000, grown ring",
             {{"ns/item", column::time, 0.5}});
    ring.add("push_n", [=] { return ring_push(fixed, 100 * repeats); });
    ring.measure(opt);
  }
}

/* A push of many items to a bounded channel with a reader at work. Two times: until the last push
 * has returned, and until the last item was received. The channel was full once before, so that the
 * kernel's first-touch faults are not counted as the queue's time.
 */
static std::vector<double> bounded_push(bool bulk, size_t n, size_t bound, size_t take) {
  std::vector<uint64_t> items(n);
  std::iota(items.begin(), items.end(), uint64_t{1});
  chan64 chan;
  check(chan64_init(&chan, bound) == FQ_OK, "init");
  std::vector<uint64_t> once(bound);
  check(chan64_push_n(&chan, items.data(), bound, FQ_NOWAIT, nullptr) == bound, "fill");
  check(chan64_pop_n(&chan, once.data(), bound, bound, FQ_NOWAIT, nullptr) == bound, "drain");
  int64_t start = 0, pushed = 0, received = 0;
  uint64_t sum = 0;
  bench::run_threads(2, [&](size_t i) {
    if (i == 0) {
      start = now_ns();
      if (bulk) {
        check(chan64_push_n(&chan, items.data(), n, FQ_FOREVER, nullptr) == n, "push_n");
      } else {
        for (uint64_t item : items) {
          check(chan64_push(&chan, item, FQ_FOREVER) == FQ_OK, "push");
        }
      }
      pushed = now_ns();
      return;
    }
    std::vector<uint64_t> out(take);
    for (size_t got = 0; got < n;) {
      size_t some = 1;
      if (take == 1) {
        check(chan64_pop(&chan, out.data(), FQ_FOREVER) == FQ_OK, "pop");
      } else {
        some = chan64_pop_n(&chan, out.data(), 1, take, FQ_FOREVER, nullptr);
      }
      sum = std::accumulate(out.data(), out.data() + some, sum);
      got += some;
    }
    received = now_ns();
  });
  check(sum == uint64_t(n) * (n + 1) / 2, "sum");
  chan64_destroy(&chan);
  return {double(pushed - start) / double(n), double(received - start) / double(n)};
}

static void bounded_rows(const bench::options &opt) {
  const size_t all = opt.quick ? 10000 : 100000;
  for (size_t take : {size_t{256}, size_t{1}}) {
    for (size_t bound : {size_t{1}, all / 2, all}) {
      const size_t n = bound == 1 ? all / 20 : all; /* a sleep and a wake an item: slow enough */
      char name[80];
      snprintf(name, sizeof name, "bounded bulk, limit %zu, reader %zu", bound, take);
      row r(name, {{"pushed, ns/item", column::time, bound == n ? 10.0 : 1.0},
                   {"received, ns/item", column::time, 1}});
      r.add("push_n, one call", [=] { return bounded_push(true, n, bound, take); });
      r.add("push, one by one", [=] { return bounded_push(false, n, bound, take); });
      r.measure(opt);
    }
  }
}

int main(int argc, char **argv) {
  const bench::options opt = bench::parse(argc, argv);
#ifndef HAVE_GLIB
  fprintf(stderr, "left out: GLib (libglib2.0-dev, pkg-config)\n");
#endif
#ifndef HAVE_TBB
  fprintf(stderr, "left out: oneTBB (libtbb-dev)\n");
#endif
#ifndef HAVE_MOODYCAMEL
  fprintf(stderr, "left out: moodycamel (libconcurrentqueue-dev)\n");
#endif
  printf("%zu CPUs, load average %.1f, %zu rounds, median (min - max)\n\n", bench::cpus().size(),
         bench::load(), opt.rounds());
  traffic_rows(opt);
  bulk_rows(opt);
  wake_rows(opt);
  bounded_rows(opt);
  if (opt.csv) {
    fclose(opt.csv);
  }
  return 0;
}
