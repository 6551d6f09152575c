#!/bin/sh
# SBCL 2.2.9: when a class is redefined without a slot, the slot's accessor stays as a generic function
# without methods. FBOUNDP is true, and a call signals that no method is applicable. Likely guess: the
# function is removed with the slot.
set -eu
. "$(dirname "$0")/debian-lisp"
fetch sbcl=2:2.2.9-1
cat >try.lisp <<'END'
(defclass account () ((owner :accessor account-owner)))
(defclass account () ())
(format t "~&seen: ~A ~D~%" (and (fboundp 'account-owner) t)
        (length (sb-mop:generic-function-methods #'account-owner)))
END
lisp --load try.lisp | expect 'seen: T 0'
