#!/bin/sh
# ASDF 3.3.1: COMPONENT-LOADED-P stays true after a source file of the system was edited, although
# LOAD-SYSTEM would compile the file again. Likely guess: it becomes false.
set -eu
. "$(dirname "$0")/debian-lisp"
fetch sbcl=2:2.2.9-1
one_file_system
cat >try.lisp <<'END'
(require :sb-posix)
(asdf:load-system "p")
(with-open-file (out "a.lisp" :direction :output :if-exists :supersede)
  (print '(defvar *b* 2) out))
;; ASDF compares dates in seconds.
(sb-posix:utime "a.lisp" (+ 10 (sb-ext:get-time-of-day)) (+ 10 (sb-ext:get-time-of-day)))
(let ((loaded (and (asdf:component-loaded-p "p") t)))
  (asdf:load-system "p")
  (format t "~&seen: ~A, then compiled ~A~%" loaded (boundp '*b*)))
END
lisp --load load.lisp --load try.lisp | expect 'seen: T, then compiled T'
