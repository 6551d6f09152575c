;;;; Text that a person has compiled from an editor's buffer, through Swank or Slynk, which say in the properties of the compilation unit
;;;; which it was and where it stood. SBCL records the buffer's file, and counts forms from the text's own beginning.

(in-package :steelbank)

(defconstant +first-text-version+ (expt 2 40)
  "The least number that stands for a text from a buffer where a file's write date would stand: no file has such a date.")

(sb-ext:define-load-time-global *buffer-texts* '()
  "The texts from buffers that answers have told of, the last one first: lists of file, position and text.")

(sb-ext:define-load-time-global *buffer-lock* (sb-thread:make-mutex :name "texts from buffers")
  "Protects *BUFFER-TEXTS*.")

(defun buffer-text-p (properties)
  "True if PROPERTIES are those of a text from a buffer."
  (and (proper-list-p properties)
       (evenp (length properties))
       (stringp (getf properties :emacs-string))))

(defun version-or-text (file created properties)
  "What tells versions of FILE apart of which code was compiled: CREATED, its write date; or if PROPERTIES are those of a text from a
buffer a number for that. NIL if its buffer had no file."
  (if (buffer-text-p properties)
      (and (stringp (getf properties :emacs-filename))
           (let ((text (list file
                             (let ((position (getf properties :emacs-position)))
                               (if (typep position '(unsigned-byte 31)) position 1))
                             (coerce (getf properties :emacs-string) '(simple-array character (*))))))
             (sb-thread:with-mutex (*buffer-lock*)
               (let ((known (member text *buffer-texts* :test #'equal)))
                 (unless known
                   (setf known (push text *buffer-texts*)))
                 (+ +first-text-version+ (length (rest known)))))))
      created))

(defun buffer-texts-json (known)
  "The texts from buffers but for the first KNOWN, as objects."
  (let ((texts (reverse *buffer-texts*)))
    (loop for (file position text) in (nthcdr known texts)
          for version from (+ +first-text-version+ known)
          collect (object "file" file "position" position "text" text "version" version))))
