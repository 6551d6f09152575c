;;;; Installs the tap in the reader and the compiler, and begins and ends the record of each file.

(in-package :steelbank)

(defun finish-tap (tap complete)
  "Pass TAP and its sidecar to the sink, unless nothing was read or this was already done."
  (declare (type tap tap))
  (when (and *tap-sink* (tap-stream tap) (tap-file-info tap) (not (tap-finished tap)))
    (setf (tap-count tap) 0
          (tap-finished tap) t)
    (funcall *tap-sink* tap (tap-sidecar tap (truename (tap-stream tap)) complete))))

(defun trim-tap (tap)
  "Discard the contents of TAP except the positions of forms, which late diagnostics need."
  (declare (type tap tap))
  (setf (tap-starts tap) (make-array 0 :element-type 'fixnum)
        (tap-ends tap) (make-array 0 :element-type 'fixnum)
        (tap-objects tap) (vector)
        (tap-buffer tap) (make-array 0 :element-type '(unsigned-byte 8))
        (tap-fill tap) 0
        (tap-names tap) (make-hash-table :test 'equal :size 7)
        (tap-name-list tap) '()
        (tap-locals tap) (make-hash-table :size 7)
        (tap-uses tap) '()
        (tap-context tap) nil))

(defun note-tap-stream (tap stream)
  "Store in TAP the STREAM of its file, and information on the stream."
  ;; A closed stream provides neither its external format nor the newlines read so far.
  (unless (tap-stream tap)
    (setf (tap-stream tap) stream
          (tap-external-format tap) (external-format-name stream)))
  (newline-positions stream))

(defun tapped-find-source-paths (function form toplevel-form)
  "Wrap FIND-SOURCE-PATHS, which numbers the sub-forms of FORM: write FORM's events to the tap."
  (funcall function form toplevel-form)
  (let* ((source-info (current-source-info))
         (tap (own-tap source-info)))
    (when tap
      (note-tap-stream tap (source-info-stream source-info))
      (let ((forms (file-info-forms (tap-file-info tap))))
        (when (and (< toplevel-form (length forms))
                   (eq form (aref forms toplevel-form)))
          (tap-toplevel-form tap form toplevel-form)))))
  (values))

(defun tapped-make-observer (function file-info)
  "Wrap MAKE-FORM-TRACKING-STREAM-OBSERVER, which is called for the file that COMPILE-FILE opens."
  ;; Return an observer that reports to both SBCL's observer and the tap.
  (let ((tap *tap*)
        (observer (funcall function file-info)))
    (when (and tap (not (tap-source-load tap)) (null (tap-file-info tap)))
      (setf (tap-file-info tap) file-info))
    (if (and tap (eq (tap-file-info tap) file-info))
        (let ((recorder (make-tap-observer tap)))
          (declare (type function observer recorder))
          (lambda (start end object)
            (funcall observer start end object)
            (funcall recorder start end object)))
        observer)))

(defun tapped-fasl-dump-source-info (function source-info &rest arguments)
  "Wrap FASL-DUMP-SOURCE-INFO, which is called when a file has been read: finish its tap."
  (multiple-value-prog1 (apply function source-info arguments)
    (let ((tap (own-tap source-info)))
      (when tap
        (note-tap-stream tap (source-info-stream source-info))
        (finish-tap tap t)))))

(defun tapped-compile-file (function &rest arguments)
  "Wrap COMPILE-FILE, which closes its stream at the end, to tap the file that it compiles."
  (let ((*tap* (and *tap-sink* (%make-tap))))
    (unwind-protect (apply function arguments)
      (when *tap*
        ;; No effect if the file was read completely.
        (finish-tap *tap* nil)))))

(defun tapped-load-as-source (function stream &rest arguments)
  "Wrap LOAD-AS-SOURCE to tap the file that it loads."
  (if (or (null *tap-sink*) (not (form-tracking-stream-p stream)))
      (let ((*tap* nil))
        (apply function stream arguments))
      (let ((*tap* (%make-tap :source-load t :failed t)))
        (note-tap-stream *tap* stream)
        (setf (stream-observer stream) (make-tap-observer *tap*))
        ;; A form that fails ends the load, but the forms before it are still recorded.
        (unwind-protect (multiple-value-prog1 (apply function stream arguments)
                          (setf (tap-failed *tap*) nil))
          (finish-tap *tap* (at-end-p stream))))))

(defun at-end-p (stream)
  "Return true if STREAM has been read to its end."
  (and stream
       (open-stream-p stream)
       (eq (when-file-permits (peek-char nil stream nil :end)) :end)))

(defun install-tap ()
  "Install the tap in the reader and the compiler. It records only while *TAP-SINK* is not NIL."
  (loop for (name function)
          in `((,+make-observer+ tapped-make-observer)
               (compile-file tapped-compile-file)
               (,+fasl-dump-source-info+ tapped-fasl-dump-source-info)
               (,+load-as-source+ tapped-load-as-source)
               (,+find-source-paths+ tapped-find-source-paths)
               (,+record-component-xrefs+ tapped-record-component-xrefs))
        do (encapsulate name 'steelbank-tap (symbol-function function)))
  t)
