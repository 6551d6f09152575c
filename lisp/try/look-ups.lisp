;;;; Detects look-ups by name at run time. In a copy of the project in which a symbol was renamed,
;;;; it records calls that still look up the old name by a string built at run time.

(in-package :steelbank)

(defvar *renamed* '()
  "The old name, the package and the new name of the symbol whose look-ups are recorded, or NIL.")

(defvar *look-ups* '()
  "The calls that looked up the old name, as frames, newest first.")

(defun looked-up-by-user-p ()
  "Return true if the current look-up was called by the user's code or a library, rather than by
SBCL, such as its printer."
  (let ((own (own-folder)))
    (map-frames (lambda (frame)
                  (let* ((source (location-source (frame-location frame)))
                         (name (and source (debug-source-namestring source))))
                    (unless (and (stringp name) (prefix-p own name))
                      (return-from looked-up-by-user-p (and source (not (and (stringp name) (prefix-p "SYS:SRC;" name))))))))
                :count 20)))

(defun noted-look-up (function name &rest arguments)
  "Wrap INTERN and FIND-SYMBOL: record the caller if it looks up the old name of the renamed
symbol."
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
                (flet ((loaded-p (frame)
                         (gethash (cdr (assoc "file" (rest frame) :test #'string=)) *loaded-files*)))
                  ;; A function that looks up the name in a tail call leaves no frame, so its caller
                  ;; is recorded.
                  (sb-ext:atomic-push (or (find-if #'loaded-p (user-frames 0 :locals nil)) (object "name" "Code"))
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
