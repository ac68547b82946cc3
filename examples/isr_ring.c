/* isr_ring.c: bytes from an interrupt to the main loop; no heap, no threads, no locked sections.
 *
 * A timer signal stands for the receive interrupt of a serial port, whose sender stops while there
 * is no room. FASTQ_NO_THREADS leaves fastq.h nothing that needs a system: on bare metal only the
 * lines about signals differ. The handler never waits, and the main loop reads the bytes where they
 * lie. */
#define _XOPEN_SOURCE 700 /* sigaction, setitimer */
#define FASTQ_NO_THREADS
#define FASTQ_IMPLEMENTATION
#include "../fastq.h"
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

enum { PLACES = 24, PER_INTERRUPT = 7 };

FQ_SPSC(bytes, char);

static char storage[PLACES];
static bytes received;

static const char wire[] = "$GPTXT,the ring wraps within this text\n"
                           "$GPTXT,and nobody notices\n"
                           "$GPTXT,end\n";
static const char *arriving = wire;

static void on_interrupt(int number) {
  (void)number;
  for (int i = 0; i < PER_INTERRUPT && *arriving != '\0'; i++) {
    if (bytes_push(&received, *arriving) != FQ_OK) {
      return; /* the rest comes with the next interrupt */
    }
    arriving++;
  }
}

/* Interrupts on, every 200 us. asleep: what to block while the main loop sleeps: nothing. */
static int start(sigset_t *asleep) {
  struct sigaction action = {.sa_handler = on_interrupt};
  struct itimerval timer = {{0, 200}, {0, 200}};
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  return sigprocmask(SIG_BLOCK, &alarm, asleep) != 0 || sigaction(SIGALRM, &action, NULL) != 0 ||
         setitimer(ITIMER_REAL, &timer, NULL) != 0;
}

int main(void) {
  sigset_t asleep, awake;
  size_t total = 0, lines = 0;
  if (bytes_init_fixed(&received, storage, PLACES) != FQ_OK || start(&asleep) != 0) {
    return 1;
  }
  while (lines < 3) {
    sigprocmask(SIG_SETMASK, &asleep, &awake);
    size_t n = PLACES; /* interrupts come in from here on */
    const char *piece = bytes_read_span(&received, &n);
    for (size_t i = 0; i < n; i++) {
      lines += piece[i] == '\n';
      putchar(piece[i]);
    }
    bytes_release(&received, n);
    total += n;
    sigprocmask(SIG_SETMASK, &awake, NULL);
    if (lines < 3 && bytes_count(&received) == 0) {
      sigsuspend(&asleep); /* until the next interrupt, which cannot slip in before */
    }
  }
  printf("%zu bytes through a ring of %d\n", total, PLACES);
  return total != sizeof(wire) - 1;
}
