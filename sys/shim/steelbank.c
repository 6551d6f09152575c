/* The part of the shared library that connects SBCL's runtime to the host: forwards calls,
 * shares signals, and reports the end of the runtime to the host instead of ending the process. */
#define _GNU_SOURCE
#include "steelbank.h"
#include "faults.h"

#include <errno.h>
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
static pid_t host_process;

void __wrap_abort(void);

uint32_t steelbank_abi(void) { return STEELBANK_ABI; }

static int has_handler(const struct sigaction *action) {
  return (action->sa_flags & SA_SIGINFO) || (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

/* The process's signal handlers before Lisp installed its own. */
static struct sigaction before[NSIG];

void steelbank_set_host(const struct steelbank_host *functions) {
  host = *functions;
  host_process = getpid();
  for (int signal = 1; signal < NSIG; signal++) sigaction(signal, NULL, &before[signal]);
  /* If SBCL's handler runs on a thread that is not Lisp's, it takes the action that was set before
   * it, and calls lose if that was the default. Therefore set the action to ignore the signal. Only
   * SBCL uses this signal. */
  if (!has_handler(&before[SIGUSR2])) signal(SIGUSR2, SIG_IGN);
}

void steelbank_set_executable(const char *path) {
  free(executable);
  executable = strdup(path);
}

extern const unsigned char build_id[];
const char *steelbank_runtime_build(void) { return (const char *)build_id; }

/* The version of SBCL, which link.sh reads from SBCL's tree. */
#ifndef SBCL_VERSION
#define SBCL_VERSION ""
#endif
const char *steelbank_sbcl_version(void) { return SBCL_VERSION; }

/* True while the host's code runs on this Lisp thread. */
static __thread int in_host;

/* The signal mask that this thread has in Lisp. While an interrupt is deferred, SBCL has blocked
 * all of its signals, and calls lose if it finds some of them unblocked. */
static __thread sigset_t in_lisp;

/* A thread that waits in the host has Lisp's interrupts disabled. A process signal delivered to
 * it would be deferred until its next call, which would delay timers and run-program. Therefore
 * it blocks such signals, so that Lisp's other threads get them. */
static void mask(int how, sigset_t *before) {
  static const int signals[] = {SIGALRM, SIGVTALRM, SIGPROF, SIGCHLD, SIGIO, SIGURG, SIGWINCH};
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaddset(&set, signals[i]);
  pthread_sigmask(how, &set, before);
}
static void enter_host(void) {
  mask(SIG_BLOCK, &in_lisp);
  in_host = 1;
}
static void leave_host(void) {
  in_host = 0;
  pthread_sigmask(SIG_SETMASK, &in_lisp, NULL);
}

/* Lisp's handlers of the signals that it shares with the host. */
static struct sigaction lisp_actions[NSIG];

static void for_both(int signal, siginfo_t *info, void *context) {
  const struct sigaction *actions[] = {&before[signal], &lisp_actions[signal]};
  /* If a thread that is not Lisp's receives such a signal, Lisp's handler sends it to a Lisp
   * thread. By then, the host's handler has already run. */
  int is_sent_on = info->si_code == SI_TKILL && info->si_pid == getpid();
  for (size_t i = is_sent_on; i < 2; i++) {
    if (actions[i]->sa_flags & SA_SIGINFO)
      actions[i]->sa_sigaction(signal, info, context);
    else
      actions[i]->sa_handler(signal);
  }
}

/* An abort in Lisp code, or in code that Lisp calls, ends only Lisp. Any other abort ends the
 * process, as without Lisp. */
static void aborted(int signal, siginfo_t *info, void *context) {
  (void)context;
  if (info->si_code == SI_TKILL && steelbank_is_lisp_thread() && !in_host) __wrap_abort();
  sigaction(signal, &before[signal], NULL);
  raise(signal);
}

/* Called after Lisp has installed its signal handlers. Restores the host's handlers of SIGINT,
 * SIGTERM and SIGPIPE. If both host and Lisp handle SIGALRM, SIGCHLD or SIGURG, installs a handler
 * that calls both. SIGABRT gets the handler `aborted`; other signals keep Lisp's handlers. */
static void restore_signals(void) {
  static const int hosts[] = {SIGINT, SIGTERM, SIGPIPE};
  for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) sigaction(hosts[i], &before[hosts[i]], NULL);
  static const int shared[] = {SIGALRM, SIGCHLD, SIGURG};
  for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
    int signal = shared[i];
    sigaction(signal, NULL, &lisp_actions[signal]);
    if (!has_handler(&before[signal]) || !has_handler(&lisp_actions[signal])) continue;
    struct sigaction both = lisp_actions[signal];
    both.sa_flags |= SA_SIGINFO;
    both.sa_sigaction = for_both;
    sigaction(signal, &both, NULL);
  }
  struct sigaction end = {.sa_sigaction = aborted, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigemptyset(&end.sa_mask);
  sigaction(SIGABRT, &end, NULL);
}

typedef int64_t (*call_function)(uint64_t, const struct steelbank_text *, const struct steelbank_text *);
static call_function lisp_call;

/* Clears the stack below, where the last call has left data. Otherwise the host's frames would
 * cover the data, and the conservative collector would take words that these frames have not
 * overwritten for references. */
static __attribute__((noinline)) void clear_stack_below(void) {
  char left[32 << 10];
  memset(left, 0, sizeof left);
  __asm__ volatile("" : : "r"(left) : "memory");
}

static int64_t call(uint64_t call, const struct steelbank_text *question, const struct steelbank_text *arguments) {
  call_function function = __atomic_load_n(&lisp_call, __ATOMIC_ACQUIRE);
  steelbank_restore_guard_page();
  leave_host();
  int64_t status = function(call, question, arguments);
  /* A call that was left near the end of the stack has opened guard pages, and may have lost a
   * signal. */
  steelbank_restore_guard_page();
  clear_stack_below();
  enter_host();
  return status;
}

void steelbank_host_serve(const struct steelbank_entry_points *entry_points, uint64_t lane) {
  struct steelbank_entry_points wrapped = *entry_points;
  static int ready;
  static sigset_t main_mask;
  if (!__atomic_exchange_n(&ready, 1, __ATOMIC_SEQ_CST)) {
    restore_signals();
    pthread_sigmask(SIG_BLOCK, NULL, &main_mask);
  } else {
    /* This thread has inherited the mask of the supervisor, which may have blocked signals while an
     * interrupt was deferred for it. */
    pthread_sigmask(SIG_SETMASK, &main_mask, NULL);
  }
  __atomic_store_n(&lisp_call, entry_points->call, __ATOMIC_RELEASE); /* the same for every lane */
  wrapped.call = call;
  enter_host();
  host.serve(&wrapped, lane);
  leave_host();
}
void steelbank_host_supervise(struct steelbank_order *order) {
  enter_host();
  host.supervise(order);
  leave_host();
}
void steelbank_host_answer(const uint8_t *octets, size_t length) { host.answer(octets, length); }
void steelbank_host_output(const uint8_t *octets, size_t length, uint64_t dropped) {
  host.output(octets, length, dropped);
}
void steelbank_host_progress(const uint8_t *octets, size_t length) { host.progress(octets, length); }
void steelbank_host_report(const uint8_t *octets, size_t length) { host.report(octets, length); }
int64_t steelbank_host_contribs(char *buffer, size_t size) { return host.contribs(buffer, size); }

/* SBCL looks for a core in its executable. Only the host can decide whether that core is the one
 * to run. */
char *__wrap_os_get_runtime_executable_path(void) { return executable ? strdup(executable) : NULL; }
/* SBCL also looks for a core in the program that PATH contains under this program's name. The
 * program found there may be this one, although the host has chosen another core. */
off_t __real_search_for_embedded_core(char *path, void *sizes);
off_t __wrap_search_for_embedded_core(char *path, void *sizes) {
  return executable && strcmp(path, executable) == 0 ? __real_search_for_embedded_core(path, sizes) : -1;
}

/* If its addresses are in use, SBCL changes the personality and re-executes its program, which
 * here is the host. Only forked processes, such as those of RUN-PROGRAM, may execute a program. */
int __real_execv(const char *path, char *const arguments[]);
int __wrap_execv(const char *path, char *const arguments[]) {
  if (getpid() != host_process) return __real_execv(path, arguments);
  errno = EPERM;
  return -1;
}
int __real_personality(unsigned long persona);
int __wrap_personality(unsigned long persona) {
  (void)persona;
  return __real_personality(0xffffffff); /* only queries it */
}

void __real__exit(int status) __attribute__((noreturn));
/* The first thread to arrive reports the death, and every thread that arrives stays here.
 * Signals are blocked, because no handler of a dead runtime may run. A forked child process ends
 * instead, for example RUN-PROGRAM's child if the program does not exist. */
static __attribute__((noreturn)) void end(int status, const char *why) {
  if (getpid() != host_process) __real__exit(status);
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  if (!__atomic_exchange_n(&dead, 1, __ATOMIC_SEQ_CST) && host.died) {
    snprintf(reason, sizeof reason, "%s", why);
    host.died(status, reason);
  }
  for (;;) pause();
}

void __wrap_exit(int status) { end(status, "the runtime called exit"); }
void __wrap__exit(int status) { end(status, "the runtime called _exit"); }
void __wrap_abort(void) { end(128 + SIGABRT, "the runtime called abort"); }

void __wrap_lose(char *format, ...) {
  char message[sizeof reason];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  end(1, message[0] ? message : "fatal error in the runtime");
}
