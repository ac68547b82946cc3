/* dispatch_model.h: what FQ_DISPATCH promises, as a plain program over plain arrays.
 *
 * A task is known by its number, which is its handle, too. The model calls the same callbacks as
 * the dispatch would; model_verb does what name_verb does. */
#ifndef DISPATCH_MODEL_H_INCLUDED
#define DISPATCH_MODEL_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct task {
  uint32_t number;
  int error;       /* what its worker returns, unless */
  bool pending;    /*   it is completed later */
  uint32_t secret; /* of the number, to see that it is whole */
};

enum { MODEL_WAITING = 8192, MODEL_RUNNING = 64 };

struct model_place {
  struct task task;
  bool in_worker;
  bool ended; /* no longer to be completed; done is due, or under way */
  int error;
};

struct model {
  fq_config config;
  struct task waiting[MODEL_WAITING];
  size_t count;
  struct model_place running[MODEL_RUNNING];
  size_t run;
  uint32_t ended[MODEL_RUNNING]; /* those whose done is due, in order */
  size_t ends;
  fq_stats stats;
  size_t depth; /* callbacks under way */
  bool paused, closed, walking, dead;
  bool backlog; /* on_saturated was called last, not on_empty */
  bool drained; /* nothing has ended since on_drain */
};

static void model_open(struct model *m, const fq_config *config) {
  m->config = *config;
  m->count = m->run = m->ends = m->depth = 0;
  memset(&m->stats, 0, sizeof(m->stats));
  m->paused = m->closed = m->walking = m->dead = m->backlog = false;
  m->drained = true;
}

/* -- What it looks at -------------------------------------------------------------------------- */

static struct model_place *model_find(struct model *m, uint32_t number) {
  for (size_t i = 0; i < m->run; i++) {
    if (m->running[i].task.number == number) {
      return &m->running[i];
    }
  }
  return NULL;
}

static bool model_has_place(const struct model *m) { return m->run < m->config.concurrency; }

/* The tasks that wait, beyond those for which there is a place. */
static size_t model_backlog(const struct model *m) {
  size_t places = model_has_place(m) && !m->paused ? m->config.concurrency - m->run : 0;
  return m->count > places ? m->count - places : 0;
}

static bool model_is_idle(const struct model *m) { return m->count == 0 && m->run == 0; }

/* -- What it calls ----------------------------------------------------------------------------- */

static void model_call(struct model *m, void (*fn)(void *ctx)) {
  m->depth++;
  fn(m->config.ctx);
  m->depth--;
}

static void model_saturate(struct model *m) {
  size_t backlog = model_backlog(m);
  m->stats.peak = backlog > m->stats.peak ? backlog : m->stats.peak;
  if (backlog > 0 && !m->backlog) {
    m->backlog = true;
    model_call(m, m->config.on_saturated);
  }
}

static void model_empty(struct model *m) {
  if (m->count == 0 && m->backlog) {
    m->backlog = false;
    model_call(m, m->config.on_empty);
  }
}

/* done, while the task still has its place. */
static void model_finish(struct model *m, uint32_t number, int error) {
  struct model_place *place = model_find(m, number);
  struct task task = place->task;
  place->ended = true;
  m->config.done(&task, error, m->config.ctx);
  m->run--;
  *place = m->running[m->run];
  m->stats.completed++;
  m->stats.failed += error != 0;
  m->drained = false;
}

static void model_start(struct model *m) {
  struct task task = m->waiting[0];
  m->count--;
  memmove(m->waiting, m->waiting + 1, m->count * sizeof(task));
  m->running[m->run++] = (struct model_place){.task = task, .in_worker = true};
  model_empty(m);
  int error = m->config.worker(&task, m->config.ctx);
  struct model_place *place = model_find(m, task.number);
  place->in_worker = false;
  if (place->ended) { /* completed by then: that decides */
    model_finish(m, task.number, place->error);
  } else if (error != FQ_PENDING) {
    model_finish(m, task.number, error);
  }
}

/* Whatever is due, until nothing is; in a callback, the outermost call does it. While paused only
 * run starts something, and at most budget. */
static size_t model_go(struct model *m, size_t budget) {
  size_t started = 0;
  if (m->depth > 0) {
    return 0;
  }
  m->depth = 1;
  for (;;) {
    if (m->ends > 0) {
      uint32_t number = m->ended[0];
      m->ends--;
      memmove(m->ended, m->ended + 1, m->ends * sizeof(m->ended[0]));
      model_finish(m, number, model_find(m, number)->error);
    } else if (m->count > 0 && model_has_place(m) && (!m->paused || started < budget)) {
      started++;
      model_start(m);
    } else if (model_backlog(m) > 0 && !m->backlog) {
      model_saturate(m);
    } else if (model_is_idle(m) && !m->drained) {
      m->drained = true;
      model_call(m, m->config.on_drain);
    } else {
      break;
    }
  }
  m->stats.peak = model_backlog(m) > m->stats.peak ? model_backlog(m) : m->stats.peak;
  m->depth = 0;
  return started;
}

/* -- The verbs --------------------------------------------------------------------------------- */

static fq_status model_push_some(struct model *m, const struct task *tasks, size_t n, bool front,
                                 size_t *accepted) {
  *accepted = 0;
  while (*accepted < n) { /* those that start make room for more */
    size_t limit = m->config.limit;
    size_t room = limit > 0 ? limit - m->count : n;
    size_t k = room < n - *accepted ? room : n - *accepted;
    if (m->walking) {
      return FQ_DEADLOCK;
    }
    if (m->closed) {
      return FQ_CLOSED;
    }
    if (room == 0) {
      return FQ_FULL;
    }
    if (front) {
      memmove(m->waiting + k, m->waiting, m->count * sizeof(tasks[0]));
    }
    memcpy(m->waiting + (front ? 0 : m->count), tasks + *accepted, k * sizeof(tasks[0]));
    m->count += k;
    *accepted += k;
    model_saturate(m);
    (void)model_go(m, 0);
  }
  return FQ_OK;
}

static fq_status model_complete(struct model *m, uint32_t number, int error) {
  struct model_place *place = model_find(m, number);
  if (m->walking && place != NULL && !place->ended) {
    return FQ_DEADLOCK;
  }
  if (place == NULL || place->ended) {
    return FQ_INVALID;
  }
  place->ended = true;
  place->error = error;
  if (!place->in_worker) {
    m->ended[m->ends++] = number;
  }
  (void)model_go(m, 0);
  return FQ_OK;
}

static size_t model_run(struct model *m, size_t budget) { return model_go(m, budget); }

static void model_pause(struct model *m, bool paused) {
  if (!m->walking) {
    m->paused = paused;
    (void)model_go(m, 0);
  }
}

static fq_status model_set_concurrency(struct model *m, size_t concurrency) {
  if (m->walking) {
    return FQ_DEADLOCK;
  }
  if (concurrency == 0) {
    return FQ_INVALID;
  }
  m->config.concurrency = concurrency;
  (void)model_go(m, 0);
  return FQ_OK;
}

static size_t model_cancel_if(struct model *m, bool (*pred)(const void *task, void *arg),
                              void *arg) {
  if (m->walking) {
    return 0;
  }
  struct task *dropped = (struct task *)malloc((m->count + 1) * sizeof(*dropped));
  size_t n = 0, left = 0, kept = 0;
  if (dropped == NULL) {
    return 0;
  }
  m->walking = true;
  m->depth++;
  for (size_t i = 0; i < m->count; i++) {
    if (pred == NULL || pred(&m->waiting[i], arg)) {
      dropped[n++] = m->waiting[i];
    }
  }
  m->depth--;
  m->walking = false;
  for (size_t i = 0; i < m->count; i++) {
    if (left < n && dropped[left].number == m->waiting[i].number) {
      left++;
    } else {
      m->waiting[kept++] = m->waiting[i];
    }
  }
  m->count = kept;
  m->stats.canceled += n;
  m->drained = m->drained && n == 0;
  m->depth++;
  model_empty(m);
  for (size_t i = 0; i < n; i++) {
    m->config.done(&dropped[i], FQ_CANCELED, m->config.ctx);
  }
  m->depth--;
  free(dropped);
  (void)model_go(m, 0);
  return n;
}

static void model_each(struct model *m, bool (*fn)(const void *task, void *arg), void *arg) {
  if (m->walking) {
    return;
  }
  m->walking = true;
  m->depth++;
  for (size_t i = 0; i < m->count && fn(&m->waiting[i], arg); i++) {
  }
  m->depth--;
  m->walking = false;
}

static void model_close(struct model *m) { m->closed = m->closed || !m->walking; }

static fq_status model_destroy(struct model *m) {
  if (m->depth > 0 || m->run > 0) {
    return FQ_DEADLOCK;
  }
  m->closed = true;
  (void)model_cancel_if(m, NULL, NULL);
  m->dead = true;
  return FQ_OK;
}

static fq_stats model_stats(const struct model *m) {
  fq_stats stats = m->stats;
  stats.submitted = stats.completed + stats.canceled + m->run + m->count;
  return stats;
}

#endif
