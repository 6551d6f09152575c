/* The complete interface between the host (Rust) and the Lisp half.
 *
 * Rust's side is src/bindings.rs, generated from this file by bindgen; Lisp's side is
 * lisp/boundary/boundary.lisp. Tests compare both with this header. Increment STEELBANK_ABI with
 * every change that an older half would misread.
 *
 * Text is UTF-8, passed as (pointer, length in octets), and not NUL-terminated unless a comment
 * says otherwise. */
#ifndef STEELBANK_H
#define STEELBANK_H

#include <stddef.h>
#include <stdint.h>

#define STEELBANK_ABI 2

/* The outcome of a call. Before a call returns, it has called the host's `answer` exactly once. */
enum steelbank_status {
  STEELBANK_STATUS_ANSWERED = 0,    /* the answer is the question's result */
  STEELBANK_STATUS_FAULT = 1,       /* an error or a non-local exit; the answer describes it */
  STEELBANK_STATUS_INTERRUPTED = 2, /* an interrupt from the host stopped the call */
  STEELBANK_STATUS_MISUSE = 3       /* an unknown question */
};

/* A piece of text or octets. The side that created it frees it; the other side must copy it to
 * keep it. */
struct steelbank_text {
  const uint8_t *octets;
  size_t length;
};

/* Lisp's functions. Valid once the host's `serve` has been called, on Lisp threads only. */
struct steelbank_entry_points {
  uint32_t abi; /* STEELBANK_ABI of the Lisp half */
  /* Returns its argument plus one. Measures the cost of a call. */
  int64_t (*ping)(int64_t number);
  /* Runs the question of this name (`define-question` in lisp/) as call number `call` (never 0)
   * on this thread, and passes the answer to the host's `answer` before it returns. `arguments`
   * is a JSON array. Returns a steelbank_status. Never unwinds. */
  int64_t (*call)(uint64_t call, const struct steelbank_text *question, const struct steelbank_text *arguments);
};

/* The commands to the supervisor thread. */
enum steelbank_command {
  STEELBANK_COMMAND_INTERRUPT = 1,   /* interrupt call number `argument`, if it still runs */
  STEELBANK_COMMAND_START_THREAD = 2, /* start a Lisp thread that calls `serve` with lane `argument` */
  STEELBANK_COMMAND_END = 3           /* stop supervising, because the core will be saved */
};

struct steelbank_order {
  int64_t command;
  uint64_t argument;
};

/* The host's functions. They never unwind, and only code that runs under `serve` calls Lisp. */
struct steelbank_host {
  /* Called on a Lisp thread, to run the lane's jobs. On the main thread it returns only when the
   * core is to be saved; on another thread also when the thread was abandoned. */
  void (*serve)(const struct steelbank_entry_points *entry_points, uint64_t lane);
  /* Called on the supervisor thread. Blocks until there is an order. */
  void (*supervise)(struct steelbank_order *order);
  /* Receives the answer of the call that runs on this thread. The octets belong to Lisp, and are
   * valid until this function returns. */
  void (*answer)(const uint8_t *octets, size_t length);
  /* Receives the output of the call that runs on this thread to the standard streams (UTF-8),
   * before its answer. Not called without output. `dropped` is the number of characters beyond
   * the limit. */
  void (*output)(const uint8_t *octets, size_t length, uint64_t dropped);
  /* Receives a progress report of the call that runs on this thread (UTF-8 JSON), such as a file
   * that was compiled. */
  void (*progress)(const uint8_t *octets, size_t length);
  /* Receives a sentence for the log, such as an error in a thread that runs no call. */
  void (*report)(const uint8_t *octets, size_t length);
  /* Writes the path of the contrib modules' folder to `buffer`, NUL-terminated, after it has
   * unpacked them if necessary. Returns the path's length in octets. Returns -1 if there is no
   * folder, if unpacking fails, or if the buffer is too small. */
  int64_t (*contribs)(char *buffer, size_t size);
  /* Reports that the runtime has ended. `status` is its exit status; `reason` is NUL-terminated,
   * never null. Called at most once, on the thread that ended the runtime, which is parked after
   * it returns. */
  void (*died)(int status, const char *reason);
};

/* Returns STEELBANK_ABI of this library. Call it before any other function of the library. */
uint32_t steelbank_abi(void);
/* Sets the host's functions, which must stay valid for the lifetime of the process. Call it
 * once, before initialize_lisp. */
void steelbank_set_host(const struct steelbank_host *host);
/* Sets the file that SBCL uses as its executable (NUL-terminated, copied). If that file has a core
 * as an ELF section, SBCL runs that core; then pass no other core to initialize_lisp. Call it
 * before initialize_lisp. */
void steelbank_set_executable(const char *path);
/* Returns the runtime's build ID, NUL-terminated, static. It begins with the build ID of the cores
 * that the runtime can run. */
const char *steelbank_runtime_build(void);
/* Returns the version of SBCL, such as 2.5.2. NUL-terminated, static. */
const char *steelbank_sbcl_version(void);
/* Tests whether the system grants SBCL writable and executable memory at its fixed addresses.
 * Returns 0, or the system's error: EEXIST if the `size` octets from `start` are in use. Always
 * sets `start` and `size`. Leaves nothing mapped. */
int steelbank_try_static_space(uintptr_t *start, size_t *size);
/* Reserves address space below the stacks of the next Lisp thread that the calling thread
 * creates, through initialize_lisp or in Lisp. An array that extends past the stack then causes
 * a fault, instead of overwriting other memory. No effect if the process's address space is
 * limited. */
void steelbank_reserve_below_stacks(void);
/* Makes the programs that Lisp code runs from now on end with this process, however it ends.
 * This does not include the processes that those programs start. Call it once, before
 * initialize_lisp. */
void steelbank_end_children_with_process(void);

/* The Lisp half calls the functions below, and also steelbank_reserve_below_stacks. */
void steelbank_host_serve(const struct steelbank_entry_points *entry_points, uint64_t lane);
void steelbank_host_supervise(struct steelbank_order *order);
void steelbank_host_answer(const uint8_t *octets, size_t length);
void steelbank_host_output(const uint8_t *octets, size_t length, uint64_t dropped);
void steelbank_host_progress(const uint8_t *octets, size_t length);
void steelbank_host_report(const uint8_t *octets, size_t length);
int64_t steelbank_host_contribs(char *buffer, size_t size);
/* Returns whether a non-local exit may leave the code that the signal with this context has
 * interrupted: Lisp code, or a blocking system call. Other foreign code may hold a lock, such as
 * malloc's. */
int64_t steelbank_may_unwind(const void *context);
/* Moves the stack pointer and calls `function`, a Lisp object that throws to `tag`. The throw first
 * leaves the frames from `frame` (the caller's) up to the frame with the next cleanup form or the
 * tag. The stack pointer is moved above these frames, so that the throw can use their room. Returns
 * if there are no such frames; otherwise does not return. */
void steelbank_leave(uint64_t function, uint64_t tag, char *frame);
/* Sets the function that a thread must call when code that handles a stack overflow has exhausted
 * the remaining stack, too. The function makes the thread leave whatever it runs; in a call, it
 * throws to `tag`. Both are objects of the core, which do not move. */
void steelbank_leave_by(uint64_t function, uint64_t tag);
/* Attributes to `owner` the memory that is allocated from now on by steelbank_counted_malloc and
 * the other replacements of C library functions. */
void steelbank_own_memory(int64_t owner);
/* Returns the number of blocks that have not been freed. Writes address, size and owner of at most
 * `most` blocks to `into`. */
int64_t steelbank_held_blocks(uint64_t *into, int64_t most);

/* Replaces SBCL's `spawn`, and returns the same result. Calls `spawn` on a permanent thread if
 * steelbank_end_children_with_process was called. */
int steelbank_spawn(char *program, char *argv[], int in, int out, int err, int search, char *envp[], char *pty, int channel[2],
                    char *folder, int *kept);

/* SBCL's function: starts the runtime on the calling thread and runs the core's toplevel
 * function. */
int initialize_lisp(int argc, char *argv[], char *envp[]);

#endif
