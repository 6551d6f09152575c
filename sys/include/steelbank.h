/* The boundary between the host (Rust) and the Lisp half: the one list of what crosses.
 *
 * Rust's side of it is src/bindings.rs, made from this file by bindgen; Lisp's side is lisp/boundary/boundary.lisp.
 * Tests compare both with this header. Raise STEELBANK_ABI with every change that an older half would misread.
 *
 * Text is UTF-8, given as (pointer, length in octets), never NUL-terminated unless a comment says so. */
#ifndef STEELBANK_H
#define STEELBANK_H

#include <stddef.h>
#include <stdint.h>

#define STEELBANK_ABI 2

/* How a call ended. With any of these the answer function has been called exactly once. */
enum steelbank_status {
  STEELBANK_STATUS_ANSWERED = 0,    /* the answer is the question's own */
  STEELBANK_STATUS_FAULT = 1,       /* code signalled an error or left by a non-local exit; the answer describes it */
  STEELBANK_STATUS_INTERRUPTED = 2, /* the host's interrupt stopped it */
  STEELBANK_STATUS_MISUSE = 3       /* an unknown question */
};

/* A piece of text or octets. The side that made it owns it; the other side copies what it wants to keep. */
struct steelbank_text {
  const uint8_t *octets;
  size_t length;
};

/* Lisp's functions, valid from the moment that the host's `serve` is called, on Lisp threads only. */
struct steelbank_entry_points {
  uint32_t abi; /* STEELBANK_ABI of the Lisp half */
  /* Returns its argument plus one: measures the crossing. */
  int64_t (*ping)(int64_t number);
  /* Answers the question of this name (`define-question` in lisp/) as call number `call` (never 0) on this thread, and reports
   * the answer through the host's `answer` before it returns. `arguments` is a JSON array. Returns a steelbank_status. Nothing
   * unwinds out of it. */
  int64_t (*call)(uint64_t call, const struct steelbank_text *question, const struct steelbank_text *arguments);
};

/* The commands to the supervisor thread. */
enum steelbank_command {
  STEELBANK_COMMAND_INTERRUPT = 1,   /* stop call number `argument`, if it still runs */
  STEELBANK_COMMAND_START_THREAD = 2, /* make a Lisp thread that calls `serve` with lane `argument` */
  STEELBANK_COMMAND_END = 3           /* stop supervising: the core is to be saved */
};

struct steelbank_order {
  int64_t command;
  uint64_t argument;
};

/* The host's functions. None of them unwinds or calls back into Lisp, `serve` excepted. */
struct steelbank_host {
  /* Called on a Lisp thread, which becomes the lane's. On the main thread it returns only for the core to be saved. */
  void (*serve)(const struct steelbank_entry_points *entry_points, uint64_t lane);
  /* Called on the supervisor thread: blocks until there is something to do. */
  void (*supervise)(struct steelbank_order *order);
  /* Takes the answer of the call that runs on this thread. The octets are Lisp's and valid until it returns. */
  void (*answer)(const uint8_t *octets, size_t length);
  /* Takes what the call that runs on this thread wrote to the standard streams (UTF-8), before its answer, if it wrote
   * anything; `dropped` characters more came after the limit. */
  void (*output)(const uint8_t *octets, size_t length, uint64_t dropped);
  /* Takes a progress report of the call that runs on this thread (UTF-8 JSON), such as a file that was compiled. */
  void (*progress)(const uint8_t *octets, size_t length);
  /* Takes a sentence for the log: something went wrong in a thread that runs no call. */
  void (*report)(const uint8_t *octets, size_t length);
  /* Writes the folder of the contrib modules, unpacked if need be, to `buffer`, NUL-terminated.
   * Returns its length in octets, or -1 if there is none or the buffer is too small. */
  int64_t (*contribs)(char *buffer, size_t size);
  /* Reports that the runtime is gone: `status` is its exit status, `reason` is NUL-terminated, never null.
   * Called at most once, on the thread that ended the runtime, which is parked when it returns. */
  void (*died)(int status, const char *reason);
};

/* Returns STEELBANK_ABI of this library. Call it before anything else of it is used. */
uint32_t steelbank_abi(void);
/* Sets the host's functions, which must stay valid for good. Call it once, before initialize_lisp. */
void steelbank_set_host(const struct steelbank_host *host);
/* Names the file that SBCL takes for its executable (NUL-terminated, copied). If that file has the core as an ELF
 * section, SBCL runs it, and must not be given another. Call it before initialize_lisp. */
void steelbank_set_executable(const char *path);
/* The build that the runtime belongs to; a core names the same one. NUL-terminated, static. */
const char *steelbank_runtime_build(void);
/* The version of SBCL, such as 2.5.2. NUL-terminated, static. */
const char *steelbank_sbcl_version(void);
/* Tries whether the system gives SBCL memory at the addresses that are compiled into it, writable and executable. Returns 0,
 * or the system's error: EEXIST if the `size` octets from `start`, which are told in any case, are in use. Nothing stays
 * mapped. */
int steelbank_try_static_space(uintptr_t *start, size_t *size);
/* Keeps address space free below the stacks of the Lisp thread that the calling thread makes next, by initialize_lisp or in
 * Lisp: an array that goes past the stack meets a fault there, and not memory that somebody else has mapped. */
void steelbank_reserve_below_stacks(void);
/* Has the programs that Lisp code runs from now on end with this process, however it ends; but not what they start. Call it before
 * initialize_lisp, once. */
void steelbank_end_children_with_process(void);

/* Called by the Lisp half, as is steelbank_reserve_below_stacks. */
void steelbank_host_serve(const struct steelbank_entry_points *entry_points, uint64_t lane);
void steelbank_host_supervise(struct steelbank_order *order);
void steelbank_host_answer(const uint8_t *octets, size_t length);
void steelbank_host_output(const uint8_t *octets, size_t length, uint64_t dropped);
void steelbank_host_progress(const uint8_t *octets, size_t length);
void steelbank_host_report(const uint8_t *octets, size_t length);
int64_t steelbank_host_contribs(char *buffer, size_t size);
/* Whether the code that the signal context shows may be left by a non-local exit: Lisp's own, or a call of the system that
 * waits. Foreign code may hold a lock of its own, such as malloc's. */
int64_t steelbank_may_unwind(const void *context);
/* Calls `function`, a Lisp object that throws to `tag`, where the frames that the throw leaves first were: from that of `frame`, the
 * caller's, up to the next clean-up form's or the tag's. Returns if there are none; else it does not return. */
void steelbank_leave(uint64_t function, uint64_t tag, char *frame);
/* Sets the function that a thread is made to call when code that runs after an overflow has used up the rest of the stack. It leaves
 * whatever the thread does, a call by throwing to `tag`. Both are objects of the core, which never move. */
void steelbank_leave_by(uint64_t function, uint64_t tag);
/* Attributes to `owner` the memory that is allocated from now on by steelbank_counted_malloc and the other functions that
 * stand in for those of the C library. */
void steelbank_own_memory(int64_t owner);
/* Returns how many octets of `owner`'s memory have not been freed. */
int64_t steelbank_held_memory(int64_t owner);

/* Stands in for SBCL's `spawn`, and returns what it does. */
int steelbank_spawn(char *program, char *argv[], int in, int out, int err, int search, char *envp[], char *pty, int channel[2],
                    char *folder, int *kept);

/* SBCL's own: starts the runtime on the calling thread and runs the core's toplevel function. */
int initialize_lisp(int argc, char *argv[], char *envp[]);

#endif
