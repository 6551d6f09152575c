;;;; Detects look-ups by name at run time. It runs in a copy of the project where a symbol was
;;;; renamed, and records calls that still look up the old name, for example because the code builds
;;;; the name at run time.

(in-package :steelbank)

(defvar *renamed* '()
  "The old name, package and new name of the renamed symbol while look-ups are recorded, or NIL.")

(defvar *look-ups* '()
  "The calls that looked up the old name, as frames, newest first.")

(defun looked-up-by-user-p ()
  "Return true if user code or a library, rather than SBCL, called the current look-up."
  ;; For example, SBCL's printer looks up symbols.
  (let ((own (own-folder)))
    (map-frames (lambda (frame)
                  (let* ((source (location-source (frame-location frame)))
                         (name (and source (debug-source-namestring source))))
                    (unless (and (stringp name) (prefix-p own name))
                      (return-from looked-up-by-user-p
                        (and source (not (and (stringp name) (prefix-p "SYS:SRC;" name))))))))
                :count 20)))

(defun noted-look-up (function name &rest arguments)
  "Wrap INTERN and FIND-SYMBOL: record the caller that looks up the renamed symbol's old name."
  (let ((renamed *renamed*))
    (when (and renamed (stringp name) (string= name (first renamed)))
      (let ((*renamed* '()))
        (reporting-own-errors ("noting a look-up")
          (destructuring-bind (home new) (rest renamed)
            (let* ((given (if arguments (first arguments) *package*))
                   ;; A constant package that has not been looked up yet is a cons with its name.
                   (package (find-package (if (consp given) (first given) given)))
                   (home (find-package home))
                   (symbol (and home (find-symbol new home))))
              (when (and symbol package (eq (find-symbol new package) symbol) (looked-up-by-user-p))
                (flet ((loaded-p (frame) (gethash (object-field frame "file") *loaded-files*)))
                  ;; A function that looks up the name in a tail call leaves no frame, so its caller
                  ;; is recorded.
                  (sb-ext:atomic-push (or (find-if #'loaded-p (user-frames 0 :locals nil))
                                          (object "name" "Code"))
                                      (symbol-value '*look-ups*)))))))))
    (apply function name arguments)))

(define-question "note-look-ups" (old package new)
  "Start recording the callers that look up the name OLD of the symbol now called NEW in PACKAGE."
  (setf *renamed* (list old package new)
        *look-ups* '())
  (dolist (name *look-up-functions*)
    (encapsulate name 'steelbank-look-ups #'noted-look-up))
  (object "status" "noting"))

(define-question "look-ups" ()
  "Return the recorded calls, each position once, and stop recording."
  (dolist (name *look-up-functions*)
    (unencapsulate name 'steelbank-look-ups))
  (setf *renamed* '())
  (remove-duplicates (shiftf *look-ups* '()) :test #'same-frame-p))
