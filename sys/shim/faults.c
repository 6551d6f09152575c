/* Handles the faults that SBCL's handlers leave out: ways in which a stack that is used up would end the process, or
 * hang Lisp.
 * Compiled with the headers of the runtime that it is linked with. */
#define _GNU_SOURCE
#include "faults.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "genesis/sbcl.h"
#include "runtime.h"
#include "os.h"
#include "interrupt.h"
#include "arch.h"
#include "globals.h"
#include "validate.h"
#include "thread.h"
#include "interr.h"

extern bool gc_active_p;

/* The page that the processor protects; SBCL's guard pages are several of them. */
enum { HARDWARE_PAGE = 4096 };
/* The most that a signal's frame takes on the stack, with all vector registers. */
enum { SIGNAL_FRAME = 16 << 10 };
/* The room below its frame pointer in which a function keeps what it unwinds with. */
enum { FRAME = 32 << 10 };

/* The address space below a lane's stacks in which nothing is mapped: an array of up to this size that is allocated
 * past the guard pages meets a fault, and not the memory of somebody else. */
static const size_t RESERVE = (size_t)4 << 30;

static __thread int guard_is_open;
static __thread int wants_reserve;

static int is_inside(os_vm_address_t address, void *start, void *end) {
  return (char *)address >= (char *)start && (char *)address < (char *)end;
}

static int is_guarded(struct thread *thread) { return thread->state_word.control_stack_guard_page_protected; }

/* Code that must not be left now: the collector, or an allocation. */
static int is_atomic(struct thread *thread) { return gc_active_p || arch_pseudo_atomic_atomic(thread); }

bool __real_handle_guard_page_triggered(os_context_t *context, os_vm_address_t address);

/* Runs before SBCL's own handler of memory faults, on the alternate stack of a Lisp thread. */
bool __wrap_handle_guard_page_triggered(os_context_t *context, os_vm_address_t address) {
  struct thread *thread = get_sb_vm_thread();
  os_vm_address_t stack_pointer = (os_vm_address_t)*os_context_sp_addr(context);
  os_vm_address_t guard = CONTROL_STACK_GUARD_PAGE(thread);
  void *start = thread->control_stack_start, *end = thread->control_stack_end;

  /* A fault of the handler itself would fault again until the alternate stack is used up: the end of the process. */
  stack_t alternate;
  if (sigaltstack(NULL, &alternate) == 0 &&
      is_inside(stack_pointer, alternate.ss_sp, (char *)alternate.ss_sp + alternate.ss_size))
    lose("Memory fault at %p in the runtime's own fault handler", address);

  if (is_guarded(thread) && is_atomic(thread) && is_inside(address, guard, guard + os_vm_page_size)) {
    /* SBCL would lose. Lend a part of the guard page: the atomic section is short, and the next fault finds it over. */
    os_vm_address_t page = (os_vm_address_t)((uintptr_t)address & ~(uintptr_t)(HARDWARE_PAGE - 1));
    if (mprotect(page, HARDWARE_PAGE, PROT_READ | PROT_WRITE) == 0) {
      guard_is_open = 1;
      return 1;
    }
  }

  if (address == NULL && is_inside(stack_pointer, start, guard + os_vm_page_size + SIGNAL_FRAME)) {
    /* The kernel could not write another signal's frame, and says so with a fault at no address. */
    if (!is_guarded(thread) || is_atomic(thread)) lose("Control stack exhausted in a signal handler");
    address = guard;
  } else if (!is_inside(stack_pointer, start, end)) {
    /* A stack-allocated array went past the guard pages. What follows would run on a stack that is not there. */
    os_vm_address_t frame = (os_vm_address_t)*os_context_fp_addr(context);
    if (!is_guarded(thread) || is_atomic(thread) || !is_inside(frame, guard + 2 * os_vm_page_size, end))
      lose("The stack pointer %p left the control stack, fault: %p", stack_pointer, address);
    *os_context_sp_addr(context) = (os_context_register_t)(frame - FRAME);
    address = guard;
  }
  return __real_handle_guard_page_triggered(context, address);
}

void steelbank_restore_guard_page(void) {
  struct thread *thread = get_sb_vm_thread();
  if (!is_guarded(thread)) {
    /* As SBCL does it when a return meets the page above, which a throw can miss. */
    protect_control_stack_guard_page(1, thread);
    protect_control_stack_return_guard_page(0, thread);
    thread->state_word.control_stack_guard_page_protected = 1;
  } else if (guard_is_open) {
    protect_control_stack_guard_page(1, thread);
  }
  guard_is_open = 0;
}

/* SBCL protects the hard guard pages, where it loses, in its first thread only. In any other, code that goes on past the
 * opened guard page would run off the stack into the memory below: the stack of a thread of the host. This is the first
 * call of every thread; that of a foreign one has a stack which outlives its time with Lisp, and guards of its own. */
int __real_arch_os_thread_init(struct thread *thread);
int __wrap_arch_os_thread_init(struct thread *thread) {
  if ((char *)thread->control_stack_start == (char *)PTR_ALIGN_UP(thread->os_address, THREAD_ALIGNMENT_BYTES)) {
    protect_control_stack_hard_guard_page(1, thread);
    protect_binding_stack_hard_guard_page(1, thread);
    protect_alien_stack_hard_guard_page(1, thread);
  }
  return __real_arch_os_thread_init(thread);
}

void steelbank_reserve_below_stacks(void) { wants_reserve = 1; }

/* Allocates the stacks of a thread. SBCL puts them where there is room, right above what is mapped next. A reserve is never
 * unmapped: lanes last as long as the process. Under a limit of the address space there is none, as it would count. */
os_vm_address_t __real_os_alloc_gc_space(int space, int attributes, os_vm_address_t address, os_vm_size_t size);
os_vm_address_t __wrap_os_alloc_gc_space(int space, int attributes, os_vm_address_t address, os_vm_size_t size) {
  struct rlimit limit;
  int is_stack = space == THREAD_STRUCT_CORE_SPACE_ID;
  if (is_stack && wants_reserve && getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY) {
    wants_reserve = 0;
    char *base = mmap(NULL, RESERVE + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base != MAP_FAILED) {
      if (mprotect(base + RESERVE, size, OS_VM_PROT_ALL) == 0) return base + RESERVE;
      munmap(base, RESERVE + size);
    }
  }
  return __real_os_alloc_gc_space(space, attributes, address, size);
}

int steelbank_try_static_space(uintptr_t *start, size_t *size) {
  *start = STATIC_SPACE_START;
  *size = STATIC_SPACE_SIZE;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  void *at = mmap((void *)*start, *size, OS_VM_PROT_ALL, flags, -1, 0);
  if (at == MAP_FAILED) return errno;
  munmap(at, *size);
  /* Linux before 4.17 takes the address for a hint. */
  return at == (void *)*start ? 0 : EEXIST;
}

/* Only the collector of this process may stop a thread. SBCL would wait for a collection that nobody makes. */
void __real_sig_stop_for_gc_handler(int signal, siginfo_t *info, os_context_t *context);
void __wrap_sig_stop_for_gc_handler(int signal, siginfo_t *info, os_context_t *context) {
  if (info && (info->si_code != SI_TKILL || info->si_pid != getpid())) return;
  __real_sig_stop_for_gc_handler(signal, info, context);
}

int steelbank_is_lisp_thread(void) { return get_sb_vm_thread() != NULL; }

static int is_lisp_code(os_vm_address_t pc) {
  return is_inside(pc, (void *)DYNAMIC_SPACE_START, (char *)DYNAMIC_SPACE_START + dynamic_space_size) ||
         is_inside(pc, (void *)TEXT_SPACE_START, (char *)TEXT_SPACE_START + text_space_size);
}

/* Whether the instruction is a system call. */
static int is_system_call(const unsigned char *code) { return code[0] == 0x0f && code[1] == 0x05; }

int64_t steelbank_may_unwind(const void *interrupted) {
  os_context_t *context = (os_context_t *)interrupted;
  const unsigned char *pc = (const unsigned char *)os_context_pc(context);
  if (is_lisp_code((os_vm_address_t)pc)) return 1;
  /* A call that waits is begun again, or has ended with EINTR: nothing is half done. */
  return is_system_call(pc) ||
         (is_system_call(pc - 2) && context->uc_mcontext.gregs[REG_RAX] == -EINTR);
}
