/* Linked with SBCL's objects into one shared library: hands calls to the host, and turns the end of the runtime
 * into news for the host instead of the end of the process. */
#include "steelbank.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct steelbank_host host;
static char *executable;
static char reason[1024];
static int dead;

void steelbank_set_host(const struct steelbank_host *functions) { host = *functions; }

void steelbank_set_executable(const char *path) {
  free(executable);
  executable = strdup(path);
}

extern const unsigned char build_id[];
const char *steelbank_runtime_build(void) { return (const char *)build_id; }

/* A thread that waits in the host has Lisp's interrupts off, so a signal for the process that it took would lie there
 * until its next call, and timers and run-program would wait with it. It leaves such signals to Lisp's other threads. */
static void block_signals(int how) {
  static const int signals[] = {SIGALRM, SIGVTALRM, SIGPROF, SIGCHLD, SIGIO, SIGURG, SIGWINCH};
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaddset(&set, signals[i]);
  pthread_sigmask(how, &set, NULL);
}

static int64_t (*lisp_call)(uint64_t, int64_t, const struct steelbank_text *, size_t);

static int64_t call(uint64_t call, int64_t operation, const struct steelbank_text *arguments, size_t count) {
  block_signals(SIG_UNBLOCK);
  int64_t status = lisp_call(call, operation, arguments, count);
  block_signals(SIG_BLOCK);
  return status;
}

void steelbank_host_serve(const struct steelbank_entry_points *entry_points, uint64_t lane) {
  struct steelbank_entry_points wrapped = *entry_points;
  lisp_call = entry_points->call; /* the same for every lane */
  wrapped.call = call;
  block_signals(SIG_BLOCK);
  host.serve(&wrapped, lane);
  block_signals(SIG_UNBLOCK);
}
void steelbank_host_supervise(struct steelbank_order *order) { host.supervise(order); }
void steelbank_host_answer(const uint8_t *octets, size_t length) { host.answer(octets, length); }
void steelbank_host_output(const uint8_t *octets, size_t length, uint64_t dropped) {
  host.output(octets, length, dropped);
}
void steelbank_host_progress(const uint8_t *octets, size_t length) { host.progress(octets, length); }
void steelbank_host_report(const uint8_t *octets, size_t length) { host.report(octets, length); }
int64_t steelbank_host_contribs(char *buffer, size_t size) { return host.contribs(buffer, size); }

/* SBCL looks for a core in its executable. Only the host knows whether that core is the one to run. */
char *__wrap_os_get_runtime_executable_path(void) { return executable ? strdup(executable) : NULL; }

/* The first thread to arrive reports; every thread that arrives stays here. Signals are blocked, since no handler
 * of a dead runtime may run. */
static __attribute__((noreturn)) void end(int status, const char *otherwise) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  if (!__atomic_exchange_n(&dead, 1, __ATOMIC_SEQ_CST) && host.died)
    host.died(status, reason[0] ? reason : otherwise);
  for (;;) pause();
}

void __wrap_exit(int status) { end(status, "the runtime called exit"); }
void __wrap__exit(int status) { end(status, "the runtime called _exit"); }
void __wrap_abort(void) { end(128 + SIGABRT, "the runtime called abort"); }

void __wrap_lose(char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  end(1, "fatal error in the runtime");
}
