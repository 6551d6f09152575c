/* The part of the shim that knows SBCL's own headers, for the part that does not. */
#ifndef STEELBANK_FAULTS_H
#define STEELBANK_FAULTS_H

#include <stdint.h>

/* Makes the guard page of this Lisp thread's control stack whole again. The stack must be far from it. */
void steelbank_restore_guard_page(void);
/* Whether this thread is one of Lisp's. */
int steelbank_is_lisp_thread(void);

#endif
