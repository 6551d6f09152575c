;;;; Look-ups by name: in a copy of the project in which a symbol has a new name, who still asks for the old one by a string that
;;;; is made when the code runs.

(in-package :steelbank)

(defvar *renamed* '()
  "The old name, the package and the new name of the symbol whose look-ups are noted; or NIL.")

(defvar *look-ups* '()
  "The calls that have looked up the old name, as frames, newest first.")

(defun looked-up-by-user-p ()
  "True if what looks a name up just now was called by the user's code or a library, and not by SBCL's printer and the like."
  (let ((own (own-folder)))
    (map-frames (lambda (frame)
                  (let* ((source (location-source (frame-location frame)))
                         (name (and source (debug-source-namestring source))))
                    (unless (and (stringp name) (prefix-p own name))
                      (return-from looked-up-by-user-p (and source (not (and (stringp name) (prefix-p "SYS:SRC;" name))))))))
                :count 20)))

(defun noted-look-up (function name &rest arguments)
  "Around INTERN and FIND-SYMBOL: note who looks up the old name where the new one is meant."
  (let ((renamed *renamed*))
    (when (and renamed (stringp name) (string= name (first renamed)))
      (let ((*renamed* '()))
        (reporting-own-errors ("noting a look-up")
          (destructuring-bind (home new) (rest renamed)
            (let* ((given (if arguments (first arguments) *package*))
                   ;; A constant package that has not been looked up yet is a cons of its name.
                   (package (find-package (if (consp given) (first given) given)))
                   (home (find-package home))
                   (symbol (and home (find-symbol new home))))
              (when (and symbol package (eq (find-symbol new package) symbol) (looked-up-by-user-p))
                (flet ((loaded-p (frame)
                         (gethash (cdr (assoc "file" (rest frame) :test #'string=)) *loaded-files*)))
                  ;; A function that looks up last, as a tail call, leaves no frame: then its caller is told.
                  (sb-ext:atomic-push (or (find-if #'loaded-p (user-frames 0 :locals nil)) (object "name" "Code"))
                                      (symbol-value '*look-ups*)))))))))
    (apply function name arguments)))

(define-question "note-look-ups" (old package new)
  "From now on, note who looks up the name OLD where the symbol called NEW of PACKAGE is meant."
  (setf *renamed* (list old package new)
        *look-ups* '())
  (dolist (name *look-up-functions*)
    (encapsulate name 'steelbank-look-ups #'noted-look-up))
  (object "status" "noting"))

(define-question "look-ups" ()
  "The calls that were noted, each place once. Nothing is noted any more."
  (dolist (name *look-up-functions*)
    (unencapsulate name 'steelbank-look-ups))
  (setf *renamed* '())
  (remove-duplicates (shiftf *look-ups* '()) :test #'same-frame-p))
