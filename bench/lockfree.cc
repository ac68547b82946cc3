/* lockfree.cc: FQ_SPSC and FQ_MPMC against the queues without waiting that C and C++ programs use
 * today. A peer that is not installed is named and left out. README.md tells how to build and run
 * it, the method and its bias.
 */
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"

#include "bench.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <numeric>

#if defined(__has_include)
#if __has_include(<rte_config.h>) && __has_include(<rte_ring.h>)
#include <rte_config.h>
#include <rte_ring.h>
#define HAVE_DPDK 1
#endif
#if __has_include(<ck_ring.h>)
#define false 0 /* one of its functions returns false for a null pointer, which is not C++ */
#include <ck_ring.h>
#undef false
#define HAVE_CK 1
#endif
#if __has_include(<boost/lockfree/queue.hpp>)
#include <boost/lockfree/queue.hpp>
#include <boost/lockfree/spsc_queue.hpp>
#define HAVE_BOOST 1
#endif
#if __has_include(<atomic_queue/atomic_queue.h>)
#include <atomic_queue/atomic_queue.h>
#define HAVE_ATOMIC_QUEUE 1
#endif
#if __has_include(<xenium/vyukov_bounded_queue.hpp>)
#include <xenium/ramalhete_queue.hpp>
#include <xenium/reclamation/generic_epoch_based.hpp>
#include <xenium/vyukov_bounded_queue.hpp>
#define HAVE_XENIUM 1
#endif
#if __has_include(<tbb/concurrent_queue.h>) && !defined(BENCH_NO_TBB)
#include <tbb/concurrent_queue.h>
#define HAVE_TBB 1
#endif
#if __has_include(<concurrentqueue/concurrentqueue.h>)
#include <concurrentqueue/concurrentqueue.h>
#define HAVE_MOODYCAMEL 1
#elif __has_include(<concurrentqueue/moodycamel/concurrentqueue.h>)
#include <concurrentqueue/moodycamel/concurrentqueue.h>
#define HAVE_MOODYCAMEL 1
#endif
#if __has_include(<readerwriterqueue/readerwritercircularbuffer.h>)
#include <readerwriterqueue/readerwritercircularbuffer.h>
#include <readerwriterqueue/readerwriterqueue.h>
#define HAVE_READERWRITERQUEUE 1
#endif
#endif

FQ_SPSC(spsc64, uint64_t);
FQ_MPMC(mpmc64, uint64_t);

using bench::check;
using bench::column;
using bench::row;

static const size_t capacity = 4096;
static const size_t batch = 32;

/* The same for every contender, and all of the waiting that there is: no call here waits. */
class backoff {
public:
  void wait() {
    if (tries_++ < 16) {
      for (int i = 0; i < 8; i++) {
        FASTQ_PAUSE();
      }
    } else {
      sched_yield();
    }
  }
  void reset() { tries_ = 0; }

private:
  unsigned tries_ = 0;
};

/* The contenders. Each has push and pop, which return false when the queue is full or empty, and
 * push_n and pop_n, which return how many items moved. The first argument is what a queue keeps per
 * thread: nothing, except for moodycamel.
 */
template <class Queue> struct queue_base {
  struct no_token {
    explicit no_token(Queue &) {}
  };
  using producer = no_token;
  using consumer = no_token;

  /* For those without bulk calls: a batch is a loop of singles. */
  template <class Token> size_t push_n(Token &token, const uint64_t *items, size_t n) {
    size_t i = 0;
    while (i < n && static_cast<Queue *>(this)->push(token, items[i])) {
      i++;
    }
    return i;
  }
  template <class Token> size_t pop_n(Token &token, uint64_t *out, size_t n) {
    size_t i = 0;
    while (i < n && static_cast<Queue *>(this)->pop(token, &out[i])) {
      i++;
    }
    return i;
  }
};

struct fastq_spsc : queue_base<fastq_spsc> {
  static constexpr const char *name = "fastq spsc";

  fastq_spsc() { check(spsc64_init(&queue_, capacity) == FQ_OK, "init"); }
  ~fastq_spsc() { spsc64_destroy(&queue_); }

  bool push(no_token &, uint64_t item) { return spsc64_push(&queue_, item) == FQ_OK; }
  bool pop(no_token &, uint64_t *out) { return spsc64_pop(&queue_, out) == FQ_OK; }
  size_t push_n(no_token &, const uint64_t *items, size_t n) {
    return spsc64_push_n(&queue_, items, n);
  }
  size_t pop_n(no_token &, uint64_t *out, size_t n) { return spsc64_pop_n(&queue_, out, n); }

private:
  spsc64 queue_;
};

struct fastq_mpmc : queue_base<fastq_mpmc> {
  static constexpr const char *name = "fastq mpmc";

  fastq_mpmc() { check(mpmc64_init(&queue_, capacity) == FQ_OK, "init"); }
  ~fastq_mpmc() { mpmc64_destroy(&queue_); }

  bool push(no_token &, uint64_t item) { return mpmc64_push(&queue_, item) == FQ_OK; }
  bool pop(no_token &, uint64_t *out) { return mpmc64_pop(&queue_, out) == FQ_OK; }
  size_t push_n(no_token &, const uint64_t *items, size_t n) {
    return mpmc64_push_n(&queue_, items, n);
  }
  size_t pop_n(no_token &, uint64_t *out, size_t n) { return mpmc64_pop_n(&queue_, out, n); }

private:
  mpmc64 queue_;
};

/* The queue that everyone writes first: a lock around a ring, once per call. */
struct mutex_ring : queue_base<mutex_ring> {
  static constexpr const char *name = "mutex ring (our baseline)";

  bool push(no_token &token, uint64_t item) { return push_n(token, &item, 1) == 1; }
  bool pop(no_token &token, uint64_t *out) { return pop_n(token, out, 1) == 1; }
  size_t push_n(no_token &, const uint64_t *items, size_t n) {
    const std::lock_guard<std::mutex> lock(mutex_);
    n = std::min(n, capacity - (in_ - out_));
    for (size_t i = 0; i < n; i++) {
      items_[in_++ % capacity] = items[i];
    }
    return n;
  }
  size_t pop_n(no_token &, uint64_t *out, size_t n) {
    const std::lock_guard<std::mutex> lock(mutex_);
    n = std::min(n, in_ - out_);
    for (size_t i = 0; i < n; i++) {
      out[i] = items_[out_++ % capacity];
    }
    return n;
  }

private:
  std::mutex mutex_;
  size_t in_ = 0, out_ = 0;
  std::array<uint64_t, capacity> items_;
};

#ifdef HAVE_DPDK
/* Holds one item less. Without the EAL: in memory of ours. */
template <unsigned flags> struct dpdk_ring : queue_base<dpdk_ring<flags>> {
  using token = typename queue_base<dpdk_ring>::no_token;
  static constexpr const char *name = flags & RING_F_SP_ENQ       ? "DPDK rte_ring SP/SC"
                                      : flags & RING_F_MP_RTS_ENQ ? "DPDK rte_ring RTS"
                                      : flags & RING_F_MP_HTS_ENQ ? "DPDK rte_ring HTS"
                                                                  : "DPDK rte_ring MP/MC";

  dpdk_ring() {
    const ssize_t size = rte_ring_get_memsize(capacity);
    check(size > 0, "rte_ring_get_memsize");
    const size_t line = RTE_CACHE_LINE_SIZE;
    ring_ = static_cast<rte_ring *>(aligned_alloc(line, (size_t(size) + line - 1) / line * line));
    check(ring_ && rte_ring_init(ring_, "bench", capacity, flags) == 0, "rte_ring_init");
  }
  ~dpdk_ring() { free(ring_); }

  bool push(token &, uint64_t item) {
    return rte_ring_enqueue(ring_, reinterpret_cast<void *>(item)) == 0;
  }
  bool pop(token &, uint64_t *out) {
    return rte_ring_dequeue(ring_, reinterpret_cast<void **>(out)) == 0;
  }
  size_t push_n(token &, const uint64_t *items, size_t n) {
    return rte_ring_enqueue_burst(ring_, reinterpret_cast<void *const *>(items), unsigned(n),
                                  nullptr);
  }
  size_t pop_n(token &, uint64_t *out, size_t n) {
    return rte_ring_dequeue_burst(ring_, reinterpret_cast<void **>(out), unsigned(n), nullptr);
  }

private:
  rte_ring *ring_;
};
using dpdk_spsc = dpdk_ring<RING_F_SP_ENQ | RING_F_SC_DEQ>;
using dpdk_mpmc = dpdk_ring<0>;
using dpdk_rts = dpdk_ring<RING_F_MP_RTS_ENQ | RING_F_MC_RTS_DEQ>;
using dpdk_hts = dpdk_ring<RING_F_MP_HTS_ENQ | RING_F_MC_HTS_DEQ>;
#endif

#ifdef HAVE_CK
/* Holds one item less. */
template <bool many> struct ck : queue_base<ck<many>> {
  using token = typename queue_base<ck>::no_token;
  static constexpr const char *name = many ? "ck_ring mpmc" : "ck_ring spsc";

  ck() : buffer_(capacity) { ck_ring_init(&ring_, capacity); }

  bool push(token &, uint64_t item) {
    void *entry = reinterpret_cast<void *>(item);
    return many ? ck_ring_enqueue_mpmc(&ring_, buffer_.data(), entry)
                : ck_ring_enqueue_spsc(&ring_, buffer_.data(), entry);
  }
  bool pop(token &, uint64_t *out) {
    return many ? ck_ring_dequeue_mpmc(&ring_, buffer_.data(), out)
                : ck_ring_dequeue_spsc(&ring_, buffer_.data(), out);
  }

private:
  alignas(64) ck_ring ring_;
  std::vector<ck_ring_buffer> buffer_;
};
#endif

#ifdef HAVE_BOOST
struct boost_spsc : queue_base<boost_spsc> {
  static constexpr const char *name = "boost spsc_queue";

  bool push(no_token &, uint64_t item) { return queue_.push(item); }
  bool pop(no_token &, uint64_t *out) { return queue_.pop(*out); }
  size_t push_n(no_token &, const uint64_t *items, size_t n) { return queue_.push(items, n); }
  size_t pop_n(no_token &, uint64_t *out, size_t n) { return queue_.pop(out, n); }

private:
  boost::lockfree::spsc_queue<uint64_t> queue_{capacity};
};

struct boost_queue : queue_base<boost_queue> {
  static constexpr const char *name = "boost lockfree::queue";

  bool push(no_token &, uint64_t item) { return queue_.bounded_push(item); }
  bool pop(no_token &, uint64_t *out) { return queue_.pop(*out); }

private:
  boost::lockfree::queue<uint64_t> queue_{capacity};
};
#endif

#ifdef HAVE_ATOMIC_QUEUE
/* B keeps 8-byte items that are not 0 in atomics; B2 takes any and keeps a state beside them. */
template <bool states, bool one> struct atomic_ring : queue_base<atomic_ring<states, one>> {
  using token = typename queue_base<atomic_ring>::no_token;
  static constexpr const char *name = states ? one ? "AtomicQueueB2 SPSC" : "AtomicQueueB2"
                                      : one  ? "AtomicQueueB SPSC"
                                             : "AtomicQueueB";

  bool push(token &, uint64_t item) { return queue_.try_push(std::move(item)); }
  bool pop(token &, uint64_t *out) { return queue_.try_pop(*out); }

private:
  using memory = std::allocator<uint64_t>;
  std::conditional_t<states, atomic_queue::AtomicQueueB2<uint64_t, memory, true, false, one>,
                     atomic_queue::AtomicQueueB<uint64_t, memory, 0, true, false, one>>
      queue_{unsigned(capacity)};
};

/* The calls that claim a place first and then spin, without giving up the processor, until it is
 * ready: no try, so only where each thread has a core.
 */
template <bool one> struct optimist_ring : queue_base<optimist_ring<one>> {
  using token = typename queue_base<optimist_ring>::no_token;
  static constexpr const char *name = one ? "OptimistAtomicQueueB SPSC" : "OptimistAtomicQueueB";

  bool push(token &, uint64_t item) {
    queue_.push(std::move(item));
    return true;
  }
  bool pop(token &, uint64_t *out) {
    *out = queue_.pop();
    return true;
  }

private:
  atomic_queue::AtomicQueueB<uint64_t, std::allocator<uint64_t>, 0, true, false, one> queue_{
      unsigned(capacity)};
};
#endif

#ifdef HAVE_XENIUM
struct xenium_vyukov : queue_base<xenium_vyukov> {
  static constexpr const char *name = "xenium vyukov";

  bool push(no_token &, uint64_t item) { return queue_.try_push(item); }
  bool pop(no_token &, uint64_t *out) { return queue_.try_pop(*out); }

private:
  xenium::vyukov_bounded_queue<uint64_t> queue_{capacity};
};

/* The calls that give up where a place is not finished, like FQ_BUSY. */
struct xenium_weak : queue_base<xenium_weak> {
  static constexpr const char *name = "xenium vyukov, weak";

  bool push(no_token &, uint64_t item) { return queue_.try_push_weak(item); }
  bool pop(no_token &, uint64_t *out) { return queue_.try_pop_weak(*out); }

private:
  xenium::vyukov_bounded_queue<uint64_t> queue_{capacity};
};
#endif

#ifdef HAVE_TBB
struct tbb_queue : queue_base<tbb_queue> {
  static constexpr const char *name = "oneTBB bounded_queue";

  tbb_queue() { queue_.set_capacity(ptrdiff_t(capacity)); }

  bool push(no_token &, uint64_t item) { return queue_.try_push(item); }
  bool pop(no_token &, uint64_t *out) { return queue_.try_pop(*out); }

private:
  tbb::concurrent_bounded_queue<uint64_t> queue_;
};
#endif

#ifdef HAVE_MOODYCAMEL
/* Unbounded, and FIFO only for the items of one producer. */
struct moodycamel_queue : queue_base<moodycamel_queue> {
  static constexpr const char *name = "moodycamel, not FIFO";

  bool push(no_token &, uint64_t item) { return queue_.try_enqueue(item) || queue_.enqueue(item); }
  bool pop(no_token &, uint64_t *out) { return queue_.try_dequeue(*out); }
  size_t push_n(no_token &, const uint64_t *items, size_t n) {
    return queue_.enqueue_bulk(items, n) ? n : 0;
  }
  size_t pop_n(no_token &, uint64_t *out, size_t n) { return queue_.try_dequeue_bulk(out, n); }

private:
  moodycamel::ConcurrentQueue<uint64_t> queue_{capacity};
};

struct moodycamel_tokens : queue_base<moodycamel_tokens> {
  static constexpr const char *name = "moodycamel with tokens, not FIFO";
  struct producer : moodycamel::ProducerToken {
    explicit producer(moodycamel_tokens &q) : ProducerToken(q.queue_) {}
  };
  struct consumer : moodycamel::ConsumerToken {
    explicit consumer(moodycamel_tokens &q) : ConsumerToken(q.queue_) {}
  };

  bool push(producer &token, uint64_t item) { return queue_.enqueue(token, item); }
  bool pop(consumer &token, uint64_t *out) { return queue_.try_dequeue(token, *out); }
  size_t push_n(producer &token, const uint64_t *items, size_t n) {
    return queue_.enqueue_bulk(token, items, n) ? n : 0;
  }
  size_t pop_n(consumer &token, uint64_t *out, size_t n) {
    return queue_.try_dequeue_bulk(token, out, n);
  }

private:
  moodycamel::ConcurrentQueue<uint64_t> queue_{capacity};
};
#endif

#ifdef HAVE_READERWRITERQUEUE
struct reader_writer : queue_base<reader_writer> {
  static constexpr const char *name = "moodycamel ReaderWriterQueue";

  bool push(no_token &, uint64_t item) { return queue_.try_enqueue(item); }
  bool pop(no_token &, uint64_t *out) { return queue_.try_dequeue(*out); }

private:
  moodycamel::ReaderWriterQueue<uint64_t> queue_{capacity};
};

struct reader_writer_circular : queue_base<reader_writer_circular> {
  static constexpr const char *name = "moodycamel RW CircularBuffer";

  bool push(no_token &, uint64_t item) { return queue_.try_enqueue(item); }
  bool pop(no_token &, uint64_t *out) { return queue_.try_dequeue(*out); }

private:
  moodycamel::BlockingReaderWriterCircularBuffer<uint64_t> queue_{capacity};
};
#endif

/* n producers and n consumers move a number of items. Each consumer stops at its share. */
template <class Queue> struct traffic {
  static void produce(Queue &queue, size_t step, uint64_t first, size_t count) {
    typename Queue::producer token(queue);
    backoff full;
    if (step == 1) {
      for (size_t i = 0; i < count; i++) {
        while (!queue.push(token, first + i)) {
          full.wait();
        }
        full.reset();
      }
      return;
    }
    uint64_t items[batch];
    for (size_t i = 0; i < count; i += step) {
      std::iota(items, items + step, first + i);
      for (size_t done = 0; done < step;) {
        const size_t some = queue.push_n(token, items + done, step - done);
        some > 0 ? full.reset() : full.wait();
        done += some;
      }
    }
  }

  static uint64_t consume(Queue &queue, size_t step, size_t count) {
    typename Queue::consumer token(queue);
    backoff empty;
    uint64_t items[batch], sum = 0;
    for (size_t left = count; left > 0;) {
      const size_t some = step == 1 ? size_t{queue.pop(token, items)}
                                    : queue.pop_n(token, items, std::min(step, left));
      some > 0 ? empty.reset() : empty.wait();
      sum = std::accumulate(items, items + some, sum);
      left -= some;
    }
    return sum;
  }

  static double seconds(size_t n, size_t cores, size_t step, size_t total) {
    const auto queue = std::make_unique<Queue>();
    std::vector<uint64_t> sums(n);
    const size_t share = total / n;
    const double spent = bench::run_threads(2 * n, [&](size_t i) {
      if (cores > 0) {
        bench::pin(i % cores);
      }
      if (i < n) {
        produce(*queue, step, i * share + 1, share); /* from 1: AtomicQueueB cannot carry a 0 */
      } else {
        sums[i - n] = consume(*queue, step, share);
      }
    });
    const uint64_t sum = std::accumulate(sums.begin(), sums.end(), uint64_t{0});
    check(sum == uint64_t(total) * (total + 1) / 2, Queue::name);
    return spent;
  }

  /* The first round doubles the number of items until a run lasts long enough; the later ones keep
   * it. It starts low, and falls again where a run took far too long: some contenders spin through
   * whole time slices where threads share a core.
   *   cores   on how many to put the threads; 0: all
   */
  static row::run_fn make(size_t n, size_t cores, size_t step, double at_least) {
    return [=, total = size_t{1} << 12]() mutable -> std::vector<double> {
      double spent = seconds(n, cores, step, total);
      while (spent < at_least) {
        total *= 2;
        spent = seconds(n, cores, step, total);
      }
      const double rate = double(total) / spent / 1e6;
      if (spent > 10 * at_least && total > size_t{1} << 12) {
        total /= 8;
      }
      return {rate};
    };
  }
};

/* One thread pushes a batch and pops it: what the calls cost when no other core is near. */
template <class Queue> struct alone {
  static double seconds(size_t step, size_t total) {
    const auto queue = std::make_unique<Queue>();
    uint64_t sum = 0;
    const double spent = bench::run_threads(1, [&](size_t) {
      typename Queue::producer in(*queue);
      typename Queue::consumer out(*queue);
      uint64_t items[batch], got[batch];
      for (size_t i = 0; i < total; i += step) {
        if (step == 1) {
          check(queue->push(in, i + 1) && queue->pop(out, got), "push and pop");
          sum += got[0];
        } else {
          std::iota(items, items + step, i + 1);
          check(queue->push_n(in, items, step) == step, "push_n");
          check(queue->pop_n(out, got, step) == step, "pop_n");
          sum = std::accumulate(got, got + step, sum);
        }
      }
    });
    check(sum == uint64_t(total) * (total + 1) / 2, Queue::name);
    return spent;
  }

  static row::run_fn make(size_t step, double at_least) {
    return [=, total = size_t{1} << 16]() mutable -> std::vector<double> {
      double spent = seconds(step, total);
      while (spent < at_least) {
        total *= 2;
        spent = seconds(step, total);
      }
      return {double(total) / spent / 1e6};
    };
  }
};

template <template <class> class Workload, class... Args> class adder {
public:
  adder(row &r, Args... args) : row_(r), args_(args...) {}

  template <class Queue> adder &peer() {
    row_.add(Queue::name, run<Queue>());
    return *this;
  }
  template <class Queue> adder &variant() {
    row_.add_variant(Queue::name, run<Queue>());
    return *this;
  }

private:
  template <class Queue> row::run_fn run() { return std::apply(Workload<Queue>::make, args_); }

  row &row_;
  std::tuple<Args...> args_;
};

/* Ours first. */
template <template <class> class Workload, class... Args>
static void add_spsc(row &r, bool threads, Args... args) {
  adder<Workload, Args...> add(r, args...);
  add.template peer<fastq_spsc>();
  add.template variant<fastq_mpmc>();
  add.template peer<mutex_ring>();
#ifdef HAVE_DPDK
  add.template peer<dpdk_spsc>();
#endif
#ifdef HAVE_CK
  add.template peer<ck<false>>();
#endif
#ifdef HAVE_BOOST
  add.template peer<boost_spsc>();
#endif
#ifdef HAVE_ATOMIC_QUEUE
  add.template peer<atomic_ring<false, true>>();
  add.template peer<atomic_ring<true, true>>();
  if (threads && bench::cpus().size() > 1) {
    add.template peer<optimist_ring<true>>();
  }
#endif
#ifdef HAVE_READERWRITERQUEUE
  add.template peer<reader_writer>();
  add.template peer<reader_writer_circular>();
#endif
}

/* Contenders that spin until another thread has finished are left out where more than two threads
 * share a core: one run can take minutes.
 */
template <template <class> class Workload, class... Args>
static void add_mpmc(row &r, size_t threads, Args... args) {
  adder<Workload, Args...> add(r, args...);
  [[maybe_unused]] const bool may_spin = threads <= 2 * bench::cpus().size();
  add.template peer<fastq_mpmc>();
  add.template peer<mutex_ring>();
#ifdef HAVE_DPDK
  if (may_spin) {
    add.template peer<dpdk_mpmc>();
    add.template peer<dpdk_hts>();
  }
  add.template peer<dpdk_rts>();
#endif
#ifdef HAVE_CK
  if (may_spin) {
    add.template peer<ck<true>>();
  }
#endif
#ifdef HAVE_BOOST
  add.template peer<boost_queue>();
#endif
#ifdef HAVE_ATOMIC_QUEUE
  if (may_spin) {
    add.template peer<atomic_ring<false, false>>();
    add.template peer<atomic_ring<true, false>>();
  }
  if (threads > 1 && threads <= bench::cpus().size()) {
    add.template peer<optimist_ring<false>>();
  }
#endif
#ifdef HAVE_XENIUM
  if (may_spin) {
    add.template peer<xenium_vyukov>();
  }
  add.template peer<xenium_weak>();
#endif
#ifdef HAVE_TBB
  add.template peer<tbb_queue>();
#endif
#ifdef HAVE_MOODYCAMEL
  add.template variant<moodycamel_queue>();
  add.template variant<moodycamel_tokens>();
#endif
}

static double at_least(const bench::options &opt) { return opt.quick ? 0.005 : 0.03; }

static void spsc_rows(const bench::options &opt) {
  for (size_t step : {size_t{1}, batch}) {
    row two(step == 1 ? "spsc, singles" : "spsc, batches of 32",
            {{"M items/s", column::rate, step == 1 ? 1.5 : 1.0}});
    add_spsc<traffic>(two, true, size_t{1}, size_t{0}, step, at_least(opt));
    two.measure(opt);
  }
  for (size_t step : {size_t{1}, batch}) {
    row one(step == 1 ? "spsc, one thread, singles" : "spsc, one thread, batches of 32",
            {{"M items/s", column::rate, 1.0}});
    add_spsc<alone>(one, false, step, at_least(opt));
    one.measure(opt);
  }
}

static void mpmc_rows(const bench::options &opt) {
  for (size_t n : {size_t{1}, size_t{2}, size_t{4}}) {
    for (size_t step : {size_t{1}, batch}) {
      char name[80];
      snprintf(name, sizeof name, "mpmc %zux%zu, %s", n, n,
               step == 1 ? "singles" : "batches of 32");
      row r(name, {{"M items/s", column::rate, step == 1 ? 1.0 : 1.5}});
      add_mpmc<traffic>(r, 2 * n, n, size_t{0}, step, at_least(opt));
      r.measure(opt);
    }
  }
  for (size_t step : {size_t{1}, batch}) {
    row one(step == 1 ? "mpmc, one thread, singles" : "mpmc, one thread, batches of 32",
            {{"M items/s", column::rate, 1.0}});
    add_mpmc<alone>(one, 1, step, at_least(opt));
    one.measure(opt);
  }
}

/* More threads than cores: ours beside ours one to one. */
static void crowd_rows(const bench::options &opt) {
  using ours = traffic<fastq_mpmc>;
  for (size_t cores : {size_t{0}, size_t{1}}) {
    for (size_t step : {size_t{1}, batch}) {
      row r(std::string(cores == 0 ? "8x8, all cores, " : "8x8, one core, ") +
                (step == 1 ? "singles" : "batches of 32"),
            {{"M items/s", column::rate, 0.5}});
      r.add("fastq mpmc 8x8", ours::make(8, cores, step, at_least(opt)));
      r.add("fastq mpmc 1x1, all cores", ours::make(1, 0, step, at_least(opt)));
      r.measure(opt);
    }
  }
}

int main(int argc, char **argv) {
  const bench::options opt = bench::parse(argc, argv);
#ifndef HAVE_DPDK
  fprintf(stderr, "left out: DPDK (libdpdk-dev, pkg-config)\n");
#endif
#ifndef HAVE_CK
  fprintf(stderr, "left out: Concurrency Kit (libck-dev)\n");
#endif
#ifndef HAVE_BOOST
  fprintf(stderr, "left out: Boost.Lockfree (libboost-dev)\n");
#endif
#ifndef HAVE_ATOMIC_QUEUE
  fprintf(stderr, "left out: atomic_queue (libatomic-queue-dev)\n");
#endif
#ifndef HAVE_XENIUM
  fprintf(stderr, "left out: xenium (libxenium-dev)\n");
#endif
#ifndef HAVE_TBB
  fprintf(stderr, "left out: oneTBB (libtbb-dev)\n");
#endif
#ifndef HAVE_MOODYCAMEL
  fprintf(stderr, "left out: moodycamel (libconcurrentqueue-dev)\n");
#endif
#ifndef HAVE_READERWRITERQUEUE
  fprintf(stderr, "left out: ReaderWriterQueue (libreaderwriterqueue-dev)\n");
#endif
  printf("%zu CPUs, load average %.1f, %zu rounds, median (min - max)\n\n", bench::cpus().size(),
         bench::load(), opt.rounds());
  spsc_rows(opt);
  mpmc_rows(opt);
  crowd_rows(opt);
  if (opt.csv) {
    fclose(opt.csv);
  }
  return 0;
}
