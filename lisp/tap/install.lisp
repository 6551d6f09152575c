;;;; Installs the tap in the reader and the compiler: begins and ends the record of each file.

(in-package :steelbank)

(defun finish-tap (tap complete)
  "Hand TAP and its sidecar to the sink, unless nothing was read."
  (declare (type tap tap))
  (when (and *tap-sink* (tap-stream tap) (tap-file-info tap))
    (setf (tap-count tap) 0)
    (funcall *tap-sink* tap (tap-sidecar tap (truename (tap-stream tap)) complete))))

(defun trim-tap (tap)
  "Drop what TAP holds but for the positions of forms, which late diagnostics need."
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

(defun tapped-find-source-paths (function form toplevel-form)
  "Around FIND-SOURCE-PATHS, which numbers the sub-forms of FORM: write the events of FORM to the tap."
  (funcall function form toplevel-form)
  (let ((tap (own-tap (current-source-info))))
    (when tap
      (let ((forms (file-info-forms (tap-file-info tap))))
        (when (and (< toplevel-form (length forms))
                   (eq form (aref forms toplevel-form)))
          (tap-toplevel-form tap form toplevel-form)))))
  (values))

(defun tapped-make-observer (function file-info)
  "Around MAKE-FORM-TRACKING-STREAM-OBSERVER: return an observer that reports to SBCL's and to the tap."
  (let ((tap *tap*)
        (observer (funcall function file-info)))
    (if (and tap (eq (tap-file-info tap) file-info))
        (let ((recorder (make-tap-observer tap)))
          (declare (type function observer recorder))
          (lambda (start end object)
            (funcall observer start end object)
            (funcall recorder start end object)))
        observer)))

(defun tapped-sub-compile-file (function source-info &rest arguments)
  "Around SUB-COMPILE-FILE: tap the file that it compiles."
  (if (null *tap-sink*)
      (apply function source-info arguments)
      (let* ((file-info (source-info-file-info source-info))
             (*tap* (%make-tap :file-info file-info)))
        (unwind-protect (apply function source-info arguments)
          (setf (tap-stream *tap*) (source-info-stream source-info))
          (finish-tap *tap* (at-end-p (tap-stream *tap*)))))))

(defun tapped-load-as-source (function stream &rest arguments)
  "Around LOAD-AS-SOURCE: tap the file that it loads."
  (if (or (null *tap-sink*) (not (form-tracking-stream-p stream)))
      (let ((*tap* nil))
        (apply function stream arguments))
      (let ((*tap* (%make-tap :stream stream)))
        (setf (stream-observer stream) (make-tap-observer *tap*))
        ;; A form that fails ends the load; what was loaded before it is known all the same.
        (unwind-protect (multiple-value-prog1 (apply function stream arguments)
                          (setf (tap-source-load *tap*) t))
          (finish-tap *tap* (at-end-p stream))))))

(defun at-end-p (stream)
  "True when STREAM has been read to its end."
  (and stream
       (open-stream-p stream)
       (eq (when-file-permits (peek-char nil stream nil :end)) :end)))

(defun install-tap ()
  "Put the tap into the reader and the compiler. It records only where *TAP-SINK* is bound."
  (loop for (name function)
          in `((,+make-observer+ tapped-make-observer)
               (,+sub-compile-file+ tapped-sub-compile-file)
               (,+load-as-source+ tapped-load-as-source)
               (,+find-source-paths+ tapped-find-source-paths)
               (,+record-component-xrefs+ tapped-record-component-xrefs))
        do (encapsulate name 'steelbank-tap (symbol-function function)))
  t)
