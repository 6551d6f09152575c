/* Makes the programs that Lisp code runs end with this process, however it ends. SBCL's `spawn`
 * is called on a thread that lives as long as the process, because PR_SET_PDEATHSIG signals a
 * child when the thread that forked it ends. */
#define _GNU_SOURCE
#include "steelbank.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

/* SBCL's function. */
int spawn(char *program, char *argv[], int in, int out, int err, int search, char *envp[], char *pty, int channel[2], char *folder,
          int *kept);
pid_t __real_fork(void);

/* A call of `spawn`, and its result. */
struct call {
  char *program, **argv, **envp, *pty, *folder;
  int in, out, err, search, *channel, *kept;
  int pid, error, is_done;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct call *pending;
/* The process that has the spawner thread. Processes that Lisp code forks have no such thread. */
static pid_t has_thread;
static __thread int is_spawner;

/* Called by `spawn`. */
pid_t __wrap_fork(void) {
  pid_t parent = getpid();
  pid_t child = __real_fork();
  if (child == 0 && is_spawner) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* The parent may have ended before prctl took effect. */
    if (getppid() != parent) kill(getpid(), SIGKILL);
  }
  return child;
}

static void run_call(struct call *call) {
  call->pid = spawn(call->program, call->argv, call->in, call->out, call->err, call->search, call->envp, call->pty, call->channel,
                    call->folder, call->kept);
  call->error = errno;
  call->is_done = 1;
}

static void *spawner(void *unused) {
  is_spawner = 1;
  pthread_mutex_lock(&lock);
  for (;;) {
    while (!pending) pthread_cond_wait(&changed, &lock);
    run_call(pending);
    pending = NULL;
    pthread_cond_broadcast(&changed);
  }
  return unused;
}

void steelbank_end_children_with_process(void) {
  sigset_t all, before;
  pthread_t thread;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  if (!pthread_create(&thread, NULL, spawner, NULL)) has_thread = getpid();
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int steelbank_spawn(char *program, char *argv[], int in, int out, int err, int search, char *envp[], char *pty, int channel[2],
                    char *folder, int *kept) {
  struct call call = {program, argv, envp, pty, folder, in, out, err, search, channel, kept, -1, 0, 0};
  if (has_thread != getpid()) {
    run_call(&call);
  } else {
    pthread_mutex_lock(&lock);
    while (pending) pthread_cond_wait(&changed, &lock);
    pending = &call;
    pthread_cond_broadcast(&changed);
    while (!call.is_done) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
  }
  errno = call.error;
  return call.pid;
}
