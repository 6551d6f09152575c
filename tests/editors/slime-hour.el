;;; Plays a person with SLIME for an hour.  -*- lexical-binding: t -*-
;;; For each number on standard input, edits, saves and compiles (C-c C-c) the definition of `probe'
;;; in the Lisp that listens then, and prints "done NUMBER".
(require 'slime)
(setq slime-protocol-version 'ignore inhibit-message t make-backup-files nil create-lockfiles nil)

(defun wait-for (function)
  (let ((end (+ (float-time) 30)))
    (while (not (funcall function))
      (unless (and (slime-connected-p) (< (float-time) end)) (error "in vain"))
      (accept-process-output nil 0.01))))

(defun turn (number)
  "Compile `probe' as NUMBER has it, and return whether that succeeded."
  (unless (slime-connected-p)
    (slime-connect "127.0.0.1" (string-to-number (getenv "PORT")))
    ;; Do not interrupt SLIME's first requests.
    (accept-process-output nil 0.05)
    (wait-for (lambda () (not (slime-rex-continuations)))))
  (with-current-buffer (find-file-noselect (getenv "FILE"))
    (slime-mode 1)
    (goto-char (point-min))
    (search-forward "(defun probe")
    (beginning-of-defun)
    (kill-sexp)
    (insert (format "(defun probe ()\n  \"turn %d\"\n  (list %d (turn-%d)))" number number (mod number 10)))
    (save-buffer)
    (backward-char 2)
    (setq slime-last-compilation-result nil)
    (slime-compile-defun)
    (wait-for (lambda () slime-last-compilation-result))
    (slime-compilation-result.successp slime-last-compilation-result)))

(let (line)
  (while (setq line (ignore-errors (read-string "")))
    (let ((number (string-to-number line)))
      (while (not (ignore-errors (turn number)))
        (sleep-for 0.05))
      (send-string-to-terminal (format "done %d\n" number)))))
