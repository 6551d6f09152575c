;;;; Tracks text that a user compiled from an editor's buffer through Swank or Slynk. Both pass
;;;; the text and its position to SBCL as properties of the compilation unit. SBCL records the
;;;; buffer's file as the source, but counts forms from the start of the text.

(in-package :steelbank)

;; The write date of a file is never this large.
(defconstant +first-text-version+ (expt 2 40)
  "The smallest number that identifies a text from a buffer in place of a file's write date.")

(sb-ext:define-load-time-global *buffer-texts* '()
  "Texts that VERSION-OR-TEXT has numbered, newest first: lists of file, position, text.")

(sb-ext:define-load-time-global *buffer-lock* (sb-thread:make-mutex :name "texts from buffers")
  "Protects *BUFFER-TEXTS*.")

(defun buffer-text-p (properties)
  "Return true if PROPERTIES are those of a text from a buffer."
  (and (proper-list-p properties)
       (evenp (length properties))
       (stringp (getf properties :emacs-string))))

(defun version-or-text (file created properties)
  "Return an identifier of the version of FILE that code was compiled from."
  ;; The identifier is CREATED, the file's write date, or a number for a text from a buffer, which
  ;; PROPERTIES describe. Return NIL if the buffer had no file.
  (if (buffer-text-p properties)
      (and (stringp (getf properties :emacs-filename))
           (let* ((position (getf properties :emacs-position))
                  (text (list file
                              (if (typep position '(unsigned-byte 31)) position 1)
                              (coerce (getf properties :emacs-string)
                                      '(simple-array character (*))))))
             (sb-thread:with-mutex (*buffer-lock*)
               (let ((known (member text *buffer-texts* :test #'equal)))
                 (unless known
                   (setf known (push text *buffer-texts*)))
                 (+ +first-text-version+ (length (rest known)))))))
      created))

(defun buffer-texts-json (known)
  "Return the texts from buffers, oldest first, except the KNOWN oldest ones, as JSON objects."
  (let ((texts (reverse *buffer-texts*)))
    (loop for (file position text) in (nthcdr known texts)
          for version from (+ +first-text-version+ known)
          collect (object "file" file "position" position "text" text "version" version))))
