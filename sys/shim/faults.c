/* Handles the faults of an exhausted stack that SBCL's own handlers do not handle, and that would
 * end the process or hang Lisp. Also contains the other functions of the shim that need the
 * headers of the linked runtime. */
#define _GNU_SOURCE
#include "faults.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
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
#include "genesis/unwind-block.h"

extern bool gc_active_p;
extern pthread_mutex_t all_threads_lock;
extern void unblock_signals_in_context_and_maybe_warn(os_context_t *context);

/* The hardware's page size; each of SBCL's guard pages consists of several. */
enum { HARDWARE_PAGE = 4096 };
/* The maximum size of a signal's frame on the stack, with all vector registers. */
enum { SIGNAL_FRAME = 16 << 10 };
/* The room that a function needs below its frame pointer to store the data for unwinding. */
enum { FRAME = 32 << 10 };

/* The size of the unmapped address space below a lane's stacks. A stack-allocated array of up to
 * this size that extends past the guard pages causes a fault, instead of overwriting other
 * memory. */
static const size_t RESERVE = (size_t)4 << 30;

/* The minimum room for a throw and a short cleanup form. */
enum { ROOM = 8 << 10 };

/* The start of the guard pages that are open for code that cannot be left, or NULL. */
static __thread char *opened_from;
static __thread int wants_reserve;
/* Whether signals could not be delivered for lack of room, and must be sent again. */
static __thread int signals_are_lost;
/* Lisp's function that makes a thread leave whatever it runs, and the tag that it throws to in a
 * call. */
static lispobj leave_function, call_tag;

static int is_inside(os_vm_address_t address, void *start, void *end) {
  return (char *)address >= (char *)start && (char *)address < (char *)end;
}

static int is_guarded(struct thread *thread) { return thread->state_word.control_stack_guard_page_protected; }

/* Returns whether the current code must not be left: it is a garbage collection or an atomic
 * section, such as an allocation. */
static int is_atomic(struct thread *thread) { return gc_active_p || arch_pseudo_atomic_atomic(thread); }

static int is_lisp_code(os_vm_address_t pc) {
  return is_inside(pc, (void *)DYNAMIC_SPACE_START, (char *)DYNAMIC_SPACE_START + dynamic_space_size) ||
         is_inside(pc, (void *)TEXT_SPACE_START, (char *)TEXT_SPACE_START + text_space_size);
}

static int set_access(char *start, char *end, int access) { return mprotect(start, end - start, access) == 0; }

/* Opens the guard pages from the page of `address` for code that cannot be left, except the
 * first page of the stack, because other memory is below it. Opens no more than needed, because
 * Lisp code could use that stack, and the next signal would have none. */
static int open_guard_pages(struct thread *thread, os_vm_address_t address) {
  char *first = (char *)thread->control_stack_start + HARDWARE_PAGE;
  char *end = (char *)CONTROL_STACK_GUARD_PAGE(thread) + os_vm_page_size;
  char *page = (char *)((uintptr_t)address & ~(uintptr_t)(HARDWARE_PAGE - 1));
  if (page < first) page = first;
  if (page >= (opened_from ? opened_from : end) || !set_access(page, end, PROT_READ | PROT_WRITE)) return 0;
  opened_from = page;
  return 1;
}

static void close_hard_guard(struct thread *thread) {
  if (opened_from) protect_control_stack_hard_guard_page(1, thread);
  opened_from = NULL;
}

static void restore_guards(struct thread *thread) {
  if (!is_guarded(thread)) {
    /* Do the same as SBCL's handler when the stack shrinks to the page above the guard page. A
     * throw can skip that page. */
    protect_control_stack_guard_page(1, thread);
    protect_control_stack_return_guard_page(0, thread);
    thread->state_word.control_stack_guard_page_protected = 1;
  } else if (opened_from) {
    protect_control_stack_guard_page(1, thread);
  }
  close_hard_guard(thread);
}

/* Returns the catch block of TAG, or the outermost catch block if TAG has none, as in a thread that
 * runs no call. */
static struct catch_block *catch_block_of(struct thread *thread, lispobj tag) {
  struct catch_block *block = (struct catch_block *)thread->current_catch_block;
  while (block && block->tag != tag && block->previous_catch) block = block->previous_catch;
  return block;
}

/* Returns the stack pointer for a throw to TAG from the frame at `frame`. Sets `keeper` to the
 * frame that must then be the caller: that of the function that has the next cleanup form or
 * catches TAG. The frames below `keeper` are dead, but SBCL's UNWIND would run cleanup forms below
 * them, and the cleanup forms need the room of the dead frames. Returns NULL if there are no dead
 * frames or no catch block, or if the chain of frames does not lead to `keeper`. */
static char *dead_frames_end(struct thread *thread, char *frame, lispobj tag, char **keeper) {
  struct catch_block *target = catch_block_of(thread, tag);
  struct unwind_block *cleanup = (struct unwind_block *)thread->current_unwind_protect_block;
  if (!target) return NULL;
  *keeper = (char *)(cleanup && cleanup != target->uwp ? cleanup->cfp : target->cfp);
  while (is_inside(frame, thread->control_stack_start, thread->control_stack_end)) {
    char *caller = *(char **)frame;
    if (caller == *keeper) return frame + 2 * sizeof(lispobj);
    if (caller <= frame) break;
    frame = caller;
  }
  return NULL;
}

/* Unlinks the catch tags of dead frames, because THROW would read them. */
static void forget_catch_tags_below(struct thread *thread, char *stack_pointer) {
  struct catch_block *block = (struct catch_block *)thread->current_catch_block;
  while (block && (char *)block < stack_pointer) block = block->previous_catch;
  thread->current_catch_block = (lispobj)block;
}

void steelbank_leave(uint64_t function, uint64_t tag, char *frame) {
  struct thread *thread = get_sb_vm_thread();
  char *keeper, *stack_pointer = dead_frames_end(thread, frame, tag, &keeper);
  if (!stack_pointer) return;
  forget_catch_tags_below(thread, stack_pointer);
  stack_pointer = (char *)((uintptr_t)stack_pointer & ~(uintptr_t)15);
  __asm__ volatile(
      "mov %0, %%rsp\n\tmov %1, %%rbp\n\txor %%esi, %%esi\n\txor %%edx, %%edx\n\tcall call_into_lisp@PLT\n\tud2"
      :
      : "r"(stack_pointer), "r"(keeper), "D"(function)
      : "memory");
  __builtin_unreachable();
}

void steelbank_leave_by(uint64_t function, uint64_t tag) {
  leave_function = function;
  call_tag = tag;
}

/* Makes Lisp leave what it runs, after code that handles an overflow has exhausted the guard page,
 * too. Runs no handlers, and skips cleanup forms that have no room. Closes the hard guard page,
 * which may have been opened for a signal. */
static void force_unwind(struct thread *thread, os_context_t *context) {
  char *floor = (char *)CONTROL_STACK_GUARD_PAGE(thread);
  char *stack_pointer = (char *)*os_context_sp_addr(context), *frame = (char *)*os_context_fp_addr(context);
  if (is_guarded(thread)) lower_thread_control_stack_guard_page(thread);
  for (;;) {
    char *keeper, *end = dead_frames_end(thread, frame, call_tag, &keeper);
    if (end && end > stack_pointer) {
      stack_pointer = (char *)((uintptr_t)end & ~(uintptr_t)15);
      frame = keeper;
    }
    if (stack_pointer >= floor + ROOM) break;
    struct catch_block *target = catch_block_of(thread, call_tag);
    struct unwind_block *cleanup = (struct unwind_block *)thread->current_unwind_protect_block;
    if (!target) lose("Control stack exhausted, and no catch block handles it");
    if (cleanup == target->uwp) {
      frame = (char *)target->cfp;
      stack_pointer = frame - FRAME;
      if (stack_pointer < floor + ROOM) lose("Control stack exhausted, with no room left to unwind");
      break;
    }
    thread->current_catch_block = cleanup->current_catch;
    thread->current_unwind_protect_block = (lispobj)cleanup->uwp;
  }
  forget_catch_tags_below(thread, stack_pointer);
  /* Leave the pages open that contain the stack, and also the page above: a fault there would
   * report that the guard page was left. */
  if (stack_pointer >= (char *)CONTROL_STACK_GUARD_PAGE(thread) + os_vm_page_size + ROOM)
    restore_guards(thread);
  else
    protect_control_stack_return_guard_page(0, thread);
  close_hard_guard(thread);
  *os_context_sp_addr(context) = (os_context_register_t)stack_pointer;
  *os_context_fp_addr(context) = (os_context_register_t)frame;
  unblock_signals_in_context_and_maybe_warn(context);
  arrange_return_to_lisp_function(context, leave_function);
}

/* Sends this thread again the signals that the kernel could not deliver: an interrupt, and, while
 * the list of threads is locked as for a collection, the collector's request to stop. */
static void repeat_lost_signals(void) {
  signals_are_lost = 0;
  pthread_kill(pthread_self(), SIGURG);
  if (pthread_mutex_trylock(&all_threads_lock) == 0)
    pthread_mutex_unlock(&all_threads_lock);
  else
    pthread_kill(pthread_self(), SIGUSR2);
}

bool __real_handle_guard_page_triggered(os_context_t *context, os_vm_address_t address);

/* Runs before SBCL's handler of memory faults, on the alternate stack of a Lisp thread. */
bool __wrap_handle_guard_page_triggered(os_context_t *context, os_vm_address_t address) {
  struct thread *thread = get_sb_vm_thread();
  os_vm_address_t stack_pointer = (os_vm_address_t)*os_context_sp_addr(context);
  os_vm_address_t guard = CONTROL_STACK_GUARD_PAGE(thread);
  void *start = thread->control_stack_start, *end = thread->control_stack_end;
  int may_leave = leave_function && !is_atomic(thread) && is_lisp_code((os_vm_address_t)os_context_pc(context));

  /* A fault in the handler itself would recur until the alternate stack is exhausted, which ends
   * the process. */
  stack_t alternate;
  if (sigaltstack(NULL, &alternate) == 0 &&
      is_inside(stack_pointer, alternate.ss_sp, (char *)alternate.ss_sp + alternate.ss_size))
    lose("Memory fault at %p in the runtime's own fault handler", address);

  if (is_guarded(thread) && is_atomic(thread) && is_inside(address, guard, guard + os_vm_page_size)) {
    /* SBCL would call lose, its fatal error. The atomic section is short, and the next fault
     * happens after it. */
    if (open_guard_pages(thread, address)) return 1;
  }

  if (address != NULL && signals_are_lost) repeat_lost_signals();
  if (address == NULL && is_inside(stack_pointer, start, guard + os_vm_page_size + SIGNAL_FRAME)) {
    /* The kernel could not write another signal's frame, and reports that as a fault at address
     * 0. */
    if (!may_leave && !open_guard_pages(thread, stack_pointer - SIGNAL_FRAME)) {
      /* There are no more pages to open. Continue without the signal. */
      signals_are_lost = 1;
      return 1;
    }
    repeat_lost_signals();
    if (!may_leave) return 1;
    if (is_guarded(thread)) {
      address = guard;
      /* SBCL protects the page above the guard page, and then writes to the stack, so the stack
       * pointer must not be in that page. */
      if (stack_pointer > guard + os_vm_page_size)
        *os_context_sp_addr(context) = (os_context_register_t)(guard + os_vm_page_size);
    } else {
      address = start;
    }
  } else if (!is_inside(stack_pointer, start, end)) {
    /* A stack-allocated array extends past the guard pages. With this stack pointer, the code that
     * follows would use memory outside of the stack. */
    os_vm_address_t frame = (os_vm_address_t)*os_context_fp_addr(context);
    if (!is_guarded(thread) || is_atomic(thread) || !is_inside(frame, guard + 2 * os_vm_page_size, end))
      lose("The stack pointer %p left the control stack, fault: %p", stack_pointer, address);
    *os_context_sp_addr(context) = (os_context_register_t)(frame - FRAME);
    address = guard;
  }
  if (is_inside(address, start, (char *)start + os_vm_page_size)) {
    /* SBCL would call lose. */
    if (may_leave)
      force_unwind(thread, context);
    else if (!open_guard_pages(thread, address))
      lose("Control stack exhausted, fault: %p, PC: %p", address, (void *)os_context_pc(context));
    return 1;
  }
  int was_guarded = is_guarded(thread);
  bool handled = __real_handle_guard_page_triggered(context, address);
  if (is_guarded(thread) && !was_guarded) close_hard_guard(thread);
  return handled;
}

void steelbank_restore_guard_page(void) {
  restore_guards(get_sb_vm_thread());
  if (signals_are_lost) repeat_lost_signals();
}

/* SBCL protects the hard guard pages, where it calls lose, only in its first thread. In any other
 * thread, code that continues past the open guard page would overflow into the memory below: the
 * stack of a host thread.
 *
 * Every thread calls this function first. Foreign threads are excluded: their stacks have other
 * guard pages and outlive their time with Lisp. SBCL reuses the stacks of ended threads: after an
 * overflow, the page above the guard page is still protected there, and SBCL calls lose when a new
 * thread reaches it. */
int __real_arch_os_thread_init(struct thread *thread);
int __wrap_arch_os_thread_init(struct thread *thread) {
  if ((char *)thread->control_stack_start == (char *)PTR_ALIGN_UP(thread->os_address, THREAD_ALIGNMENT_BYTES)) {
    protect_control_stack_hard_guard_page(1, thread);
    protect_control_stack_guard_page(1, thread);
    protect_control_stack_return_guard_page(0, thread);
    protect_binding_stack_hard_guard_page(1, thread);
    protect_alien_stack_hard_guard_page(1, thread);
  }
  return __real_arch_os_thread_init(thread);
}

void steelbank_reserve_below_stacks(void) { wants_reserve = 1; }

/* Allocates a space of SBCL. If it is the stacks of a thread that wants a reserve, puts unmapped
 * address space below them; SBCL would put them directly above other mappings. The reserve is never
 * unmapped, because lanes last as long as the process. If the address space is limited, there is no
 * reserve, because it would count against the limit. */
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
  /* If SBCL can relocate its static space, the address is 0 until a core is mapped, and only root
   * may map address 0. */
  int fixed = *start != 0;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (fixed ? MAP_FIXED_NOREPLACE : 0);
  void *at = mmap((void *)*start, *size, OS_VM_PROT_ALL, flags, -1, 0);
  if (at == MAP_FAILED) return errno;
  munmap(at, *size);
  /* Linux before 4.17 takes the address as a hint. */
  return !fixed || at == (void *)*start ? 0 : EEXIST;
}

/* Only the collector of this process may stop a thread. After a signal from elsewhere, SBCL would
 * wait for a collection that never starts. */
void __real_sig_stop_for_gc_handler(int signal, siginfo_t *info, os_context_t *context);
void __wrap_sig_stop_for_gc_handler(int signal, siginfo_t *info, os_context_t *context) {
  if (info && (info->si_code != SI_TKILL || info->si_pid != getpid())) return;
  __real_sig_stop_for_gc_handler(signal, info, context);
}

/* Counts the allocation of each thread by the regions that it opens and the large objects that it
 * allocates outside of them, because SBCL counts all threads together. The counter is a field that
 * SBCL uses only when built to measure its allocator. */
lispobj *__real_lisp_alloc(int flags, struct alloc_region *region, sword_t size, int page_type, struct thread *thread);
lispobj *__wrap_lisp_alloc(int flags, struct alloc_region *region, sword_t size, int page_type, struct thread *thread) {
  char *end = region->end_addr;
  int fits = (char *)region->free_pointer + size <= end;
  char *object = (char *)__real_lisp_alloc(flags, region, size, page_type, thread);
  if (!fits) thread->et_find_freeish_page += (char *)region->end_addr == end ? size : (char *)region->end_addr - object;
  return (lispobj *)object;
}

int steelbank_is_lisp_thread(void) { return get_sb_vm_thread() != NULL; }

/* Machine-specific: the code of a system call, and its result. */
#if defined __x86_64__
static const unsigned char SYSTEM_CALL[] = {0x0f, 0x05};
#define RESULT(context) ((context)->uc_mcontext.gregs[REG_RAX])
#elif defined __aarch64__
static const unsigned char SYSTEM_CALL[] = {0x01, 0x00, 0x00, 0xd4};
#define RESULT(context) ((int64_t)(context)->uc_mcontext.regs[0])
#endif

static int is_system_call(const unsigned char *code) {
  return memcmp(code, SYSTEM_CALL, sizeof SYSTEM_CALL) == 0;
}

int64_t steelbank_may_unwind(const void *interrupted) {
  os_context_t *context = (os_context_t *)interrupted;
  const unsigned char *pc = (const unsigned char *)os_context_pc(context);
  if (is_lisp_code((os_vm_address_t)pc)) return 1;
  /* A blocking call is restarted, or has returned EINTR: nothing is half done. */
  return is_system_call(pc) ||
         (is_system_call(pc - sizeof SYSTEM_CALL) && RESULT(context) == -EINTR);
}
