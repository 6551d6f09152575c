/* The functions of faults.c that steelbank.c calls. Only faults.c includes SBCL's headers. */
#ifndef STEELBANK_FAULTS_H
#define STEELBANK_FAULTS_H

#include <stdint.h>

/* Restores the guard pages of this Lisp thread's control stack, and repeats signals that were lost
 * for lack of room. The stack pointer must be far from the guard pages. */
void steelbank_restore_guard_page(void);
/* Returns whether this is a Lisp thread. */
int steelbank_is_lisp_thread(void);

#endif
