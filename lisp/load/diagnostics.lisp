;;;; Diagnostics of a load: what the compiler, the reader and running code signal, with positions.

(in-package :steelbank)

(defun innermost-condition (condition)
  "Return the innermost condition that CONDITION encapsulates, or CONDITION itself."
  (if (typep condition 'encapsulated-condition)
      (innermost-condition (encapsulated-condition condition))
      condition))

(defun input-error (condition)
  "Return the input error that CONDITION is or encapsulates, or NIL."
  (typecase condition
    (source-input-error condition)
    (encapsulated-condition (input-error (encapsulated-condition condition)))))

(defun severity (condition)
  "Return the severity of CONDITION as a keyword, or NIL if it should not be shown."
  (typecase condition
    ;; Do not show notes, harmless redefinitions, and ASDF's summaries, which repeat earlier
    ;; diagnostics.
    ((or sb-ext:compiler-note uninteresting-redefinition
         uiop:compile-warned-warning uiop:compile-failed-warning)
     nil)
    ((or compiler-error fatal-compiler-error source-input-error)
     (if (input-error condition) :read-error :error))
    (reader-error :read-error)
    ;; SBCL is certain that the definition should precede the call.
    ((or late-inline-definition late-compiler-macro) :warning)
    (style-warning :style-warning)
    (warning :warning)
    (serious-condition :error)))

(deftype simple-reader-error ()
  "A reader error with a separate message."
  ;; Its full report would repeat the position and the stream.
  '(and reader-error simple-condition))

(defun source-end-p (condition)
  "Return true if CONDITION reports that a source file ended inside a form."
  (and (typep (innermost-condition condition) 'end-of-file)
       (input-error condition)))

(defun no-input-p (condition)
  "Return true if CONDITION reports that code tried to read from standard input."
  (and (typep condition 'end-of-file)
       (typep (stream-error-stream condition)
              '(or empty-input (and two-way-stream (not file-stream))))))

(defun file-stream-name (stream)
  "Return the native name of the file that STREAM reads, or NIL if it has none."
  (let ((path (around-user-code (pathname stream))))
    (and path (sb-ext:native-namestring path))))

(defun condition-text (condition)
  "Return the report of CONDITION as a string of bounded length."
  (let* ((inner (innermost-condition condition))
         (*print-length* 20) (*print-level* 6) (*print-pretty* nil)
         ;; A deprecation report mentions some names twice; print them in full, without circularity
         ;; labels.
         (*print-circle* (not (typep inner 'sb-ext:deprecation-condition)))
         (text
           (cond ((source-end-p condition)
                  "The file ends inside a form: a closing parenthesis, quote or bar is missing.")
                 ((typep inner 'decoding-error)
                  (format nil "Octets ~{~2,'0X~^ ~} are not valid in ~A. Save the file in ~
                               UTF-8, or set :ENCODING in the system definition."
                          (coerce (decoding-error-octets inner) 'list)
                          (stream-external-format (stream-error-stream inner))))
                 ((typep inner 'comment-decoding-error)
                  "Octets of a comment are invalid in the file's encoding and were ignored.")
                 ((no-input-p inner)
                  "The code tried to read from standard input, but there is no terminal.")
                 ((and (typep inner 'end-of-file) (typep (stream-error-stream inner) 'file-stream)
                       (file-stream-name (stream-error-stream inner)))
                  (format nil "Unexpected end of file in ~A."
                          (file-stream-name (stream-error-stream inner))))
                 ((typep inner 'simple-reader-error)
                  (around-user-code (apply #'format nil (simple-condition-format-control inner)
                                           (simple-condition-format-arguments inner))))
                 (t (around-user-code (princ-to-string inner))))))
    (format nil "~A~@[~%~A~]"
            (bounded-text (or text (format nil "a condition of type ~A that cannot be printed"
                                           (type-of inner)))
                          2000)
            (and (carriage-return-directive-in-p inner)
                 "The file has CR LF line ends, but FORMAT's ~ skips only LF. Use LF line ends."))))

(defun carriage-return-directive-in-p (condition)
  "Return true if CONDITION, or a condition in its message, is due to a tilde before CR LF."
  (or (carriage-return-directive-p condition)
      (and (typep condition 'simple-condition)
           (proper-list-p (simple-condition-format-arguments condition))
           (some #'carriage-return-directive-p (simple-condition-format-arguments condition)))))

(defun bounded-text (text limit)
  "Return TEXT without surrounding white space, truncated to LIMIT characters."
  (let ((text (string-trim '(#\Space #\Newline #\Tab) text)))
    (if (> (length text) limit)
        (concatenate 'string (subseq text 0 limit) "…")
        text)))

(defun session-tap (file)
  "Return the tap of FILE, a pathname as the compiler names it, in this load, or NIL."
  (let ((tap *tap*))
    (if (and tap (tap-file-info tap)
             (equal file (file-info-pathname (tap-file-info tap))))
        tap
        (gethash (namestring file) (load-session-taps *load-session*)))))

(defun stream-place (stream position)
  "Return line and column, from 1, of character POSITION of STREAM."
  ;; If POSITION is NIL, use the current read position. Return NIL if STREAM does not record lines.
  (when (form-tracking-stream-p stream)
    (multiple-value-bind (line column) (stream-line-and-column stream position)
      (list :line line :column column))))

(defun reader-error-place (input-error stream)
  "Return the start of the form that INPUT-ERROR reports, if any, else STREAM's read position."
  (let ((place (and input-error (source-input-error-place input-error))))
    (if place
        (list :line (car place) :column (1+ (cdr place)))
        (stream-place stream nil))))

(defun compiler-place (context)
  "Return path, line, column and form of CONTEXT, an error context, as far as they are known."
  (let* ((file (error-context-file context))
         (path (error-context-path context))
         (number (and path (source-path-form-number path)))
         (tap (and number (pathnamep file) (session-tap file)))
         (position (and tap
                        (let ((stream (or (tap-stream tap)
                                          (and (current-source-info)
                                               (source-info-stream (current-source-info))))))
                          (unless (tap-stream tap)
                            (setf (tap-stream tap) stream))
                          (tap-position tap (source-path-toplevel-form path) number)))))
    (append (when (pathnamep file)
              (list :path (native-truename file)))
            (when position
              (multiple-value-bind (line column) (tap-line-and-column tap position)
                (list :line line :column column)))
            ;; This may run the user's print methods.
            (list :form (bounded-text (or (around-user-code (error-context-form context))
                                          "")
                                      300)))))

(defun file-of-stream (stream)
  "Return the native truename of the file that STREAM reads, or NIL."
  (and (stream-pathname stream)
       (when-file-permits (sb-ext:native-namestring (truename stream)))))

(defun reading-place ()
  "Return the compiler's read position, for errors in code that the reader evaluates, or NIL."
  (let ((stream (and (current-source-info)
                     (source-info-stream (current-source-info)))))
    (when (and stream (equal (file-of-stream stream) *file*))
      (append (list :path *file*) (stream-place stream nil)))))

(defun source-load-place ()
  "Return the position of the form being evaluated in a file that is loaded as source, or NIL."
  (let ((stream (and *tap* (tap-source-load *tap*) (tap-stream *tap*))))
    (when (and stream (open-stream-p stream) (equal (file-of-stream stream) *file*))
      (append (list :path *file*)
              (stream-place stream (form-start-position stream))))))

(defun diagnostic-place (condition)
  "Return the position of CONDITION as a property list."
  (let* ((context (compiler-error-context))
         (input-error (input-error condition))
         (inner (innermost-condition condition))
         (stream (and (typep inner 'stream-error)
                      (around-user-code (stream-error-stream inner)))))
    (cond ((typep inner 'comment-decoding-error)
           (let ((stream (comment-decoding-error-stream inner)))
             (append (list :path (or (file-of-stream stream) *file*))
                     ;; The recorded position is after the comment's first character. It counts
                     ;; octets, so the place is inexact after characters of several octets.
                     (stream-place stream (max 0 (1- (comment-decoding-error-position inner)))))))
          ((and (streamp stream) (or input-error (typep inner 'reader-error)))
           (append (list :path (or (file-of-stream stream) *file*))
                   (reader-error-place input-error stream)))
          (context (compiler-place context))
          ((frame-place))
          ((source-load-place))
          ((reading-place))
          (t (list :path *file*)))))

(defun frame-position (location source file)
  "Return the position in FILE of code LOCATION with debug SOURCE, as a property list, or NIL."
  ;; FILE is a native name; return NIL if we did not load FILE. If FILE was read in this load, the
  ;; position is a line and column. Otherwise it is form numbers, which the host looks up in the
  ;; sidecar of FILE.
  (let* ((toplevel (location-toplevel-form location))
         (number (location-form-number location))
         (tap (gethash (debug-source-namestring source) (load-session-taps *load-session*)))
         (position (and tap toplevel number (tap-position tap toplevel number))))
    (cond (position
           (multiple-value-bind (line column) (tap-line-and-column tap position)
             (list :path file :line line :column column)))
          ((and toplevel number
                (or (gethash file *loaded-files*) (equal file *file*)))
           (list :path file
                 :at (list (debug-source-created source) toplevel number))))))

(defvar *copied-stack* nil
  "The return addresses of the unwound stack on which the condition was signalled, or NIL.")

(defun asdf-file ()
  "Return the name of the file that the image's ASDF was compiled from, or NIL."
  (let ((source (code-source (function-code (entry-function #'asdf:asdf-version)))))
    (and source (debug-source-namestring source))))

(defun frame-place ()
  "Return the position of the innermost frame in a file that we loaded, except ASDF, or NIL."
  (let ((asdf (asdf-file)))
    (flet ((look (location)
             (let* ((source (location-source location))
                    (name (and source (debug-source-namestring source)))
                    (file (and (stringp name)
                               (not (equal name asdf))
                               (when-file-permits (sb-ext:native-namestring (truename name)))))
                    (place (and file (frame-position location source file))))
               (when place
                 (return-from frame-place place)))))
      (if *copied-stack*
          (map-return-addresses (lambda (debug-fun location times)
                                  (declare (ignore debug-fun times))
                                  (look location))
                                *copied-stack*)
          (map-frames (lambda (frame) (look (frame-location frame)))))
      nil)))

(defun note-undefined-names ()
  "Add the warnings that the abandoned compilation unit would have given at its end."
  ;; They concern undefined variables and types, and functions that no file has defined so far.
  (let ((files '()))
    (dolist (undefined (undefined-names))
      (let ((name (undefined-name undefined))
            (kind (undefined-name-kind undefined)))
        (unless (and (eq kind :function) (fboundp name) (not (macro-name-p name)))
          (dolist (context (undefined-name-contexts undefined))
            (let ((place (compiler-place context)))
              (pushnew (getf place :path) files :test #'equal)
              (push (list* :severity (if (eq kind :variable) :warning :style-warning)
                           :message (format nil "undefined ~(~A~): ~S~:[~; (it may be defined in a ~
                                                 file that the load did not reach)~]"
                                            kind name (not (eq kind :variable)))
                           (append (subject-place name)
                                   (and (eq kind :function) (list :called (called-name name)))
                                   place))
                    (load-session-diagnostics *load-session*)))))))
    (setf (load-session-unreported *load-session*) files)))

(defun undefined-subject (condition)
  "Return the name that CONDITION reports as undefined, unused or defined late, as a plist, or NIL."
  (let ((said (innermost-condition condition)))
    (when (typep said 'simple-condition)
      (let ((arguments (simple-condition-format-arguments said)))
        (cond ((typep arguments '(cons (eql :function) (cons t null)))
               (list* :called (called-name (second arguments)) (subject-place (second arguments))))
              ((typep arguments '(cons (member :variable :type) (cons t null)))
               (subject-place (second arguments)))
              ;; "N more uses of undefined function"
              ((typep arguments '(cons integer (cons (eql :function) (cons t null))))
               (list :called (called-name (third arguments))))
              ;; A macro that was assumed to be a function. If only an earlier load or evaluation
              ;; assumed so, the order of the files may be right.
              ((typep arguments '(cons symbol (cons (eql :assumed) null)))
               (when (find-if (lambda (undefined)
                                (and (eq (undefined-name-kind undefined) :function)
                                     (eq (undefined-name undefined) (first arguments))))
                              (undefined-names))
                 (list* :called (called-name (first arguments)) (subject-place (first arguments)))))
              ;; A variable that is unused, or read before it is bound.
              ((and (typep said 'style-warning) (typep arguments '(cons symbol null)))
               (subject-place (first arguments))))))))

(defun subject-place (name)
  "Return a property list with the name of NAME's symbol. NAME is a symbol or (SETF symbol)."
  (let ((symbol (if (consp name) (second name) name)))
    (and symbol (symbolp symbol) (list :subject (symbol-name symbol)))))

(defun macro-name-p (name)
  "Return true if NAME, a symbol or (SETF symbol), names a macro or a place with a SETF expander."
  (typecase name
    (symbol (macro-function name))
    ((cons (eql setf) (cons symbol null)) (setf-expander (second name)))))

(defun called-name (name)
  "Return the names of package and symbol of NAME, and a third element if it is (SETF symbol)."
  (let* ((setf (typep name '(cons (eql setf) (cons symbol null))))
         (symbol (if setf (second name) name))
         (package (and (symbolp symbol) (symbol-package symbol))))
    (when package
      (list* (package-name package) (symbol-name symbol) (and setf '(:setf))))))

(defun raise-late-macros (diagnostics)
  "Return DIAGNOSTICS, in which a call of an undefined function that is a macro by now is an error."
  ;; The call may have been compiled by an earlier process, before the macro was written.
  (loop for diagnostic in diagnostics
        for (package-name name setf) = (getf diagnostic :called)
        for package = (and package-name (find-package package-name))
        for symbol = (and package (find-symbol name package))
        collect (if (and symbol (macro-name-p (if setf `(setf ,symbol) symbol)))
                    (list* :severity :error
                           :message (format nil "~A~%~A is a macro, so calls that were compiled ~
                                                 before its definition fail when they run."
                                            (getf diagnostic :message) name)
                           diagnostic)
                    diagnostic)))

(defun note-diagnostic (condition &optional (severity (severity condition)))
  "Unless SEVERITY is NIL, add CONDITION to this load's diagnostics, once. Return its position."
  (let ((session *load-session*))
    (when (and severity session)
      (let* ((place (reporting-own-errors ("locating a diagnostic")
                      (diagnostic-place condition)))
             (text (condition-text condition))
             (key (list severity text place)))
        (unless (gethash key (load-session-seen session))
          (setf (gethash key (load-session-seen session)) t)
          (let ((diagnostic (list* :severity severity :message text
                                   (append (undefined-subject condition) place))))
            (push diagnostic (load-session-diagnostics session))
            (unless (or *loading* (member severity '(:error :read-error)))
              (push diagnostic (load-session-compile-diagnostics session)))))
        place))))

(defun undefined-contexts ()
  "Return a table with the error contexts of names undefined so far in this unit as keys."
  (let ((contexts (make-hash-table :test 'eq)))
    (dolist (undefined (undefined-names) contexts)
      (dolist (context (undefined-name-contexts undefined))
        (setf (gethash context contexts) t)))))

(defun diagnostics-of-file (session file)
  "Return the compiler's diagnostics of FILE, a native name, in SESSION."
  (remove file (reverse (load-session-compile-diagnostics session))
          :key (lambda (diagnostic) (getf diagnostic :path)) :test-not #'equal))

(defun diagnostics-so-far (session file contexts)
  "Return the diagnostics to store in the fasl record of FILE, which was just compiled."
  ;; Return :PENDING if undefined names have error contexts that are not in CONTEXTS: the compiler
  ;; reports those names at the end of the compilation unit.
  (if (loop for context being the hash-keys of (undefined-contexts)
            thereis (not (gethash context contexts)))
      :pending
      (diagnostics-of-file session file)))

(defun store-diagnostics (session)
  "Store the diagnostics of each file that SESSION compiled in the file's fasl record."
  ;; If the load was abandoned, skip the files for which the compiler had more to report.
  (let ((unreported (load-session-unreported session)))
    (when (listp unreported)
      (loop for file being the hash-keys of (load-session-fasls session) using (hash-value fasl)
            for said = (diagnostics-of-file session file)
            for record = (read-record fasl)
            when (and record
                      (not (member file unreported :test #'equal))
                      (not (equal said (fasl-record-diagnostics record))))
              do (setf (fasl-record-diagnostics record) said)
                 (write-record fasl record)))))

(defun add-stored-diagnostics (session record)
  "Add the diagnostics stored in RECORD to SESSION, unless this load already has them."
  (dolist (diagnostic (record-diagnostics record))
    (destructuring-bind (&key severity message &allow-other-keys) diagnostic
      (let ((place (list :path (getf diagnostic :path) :line (getf diagnostic :line)
                         :column (getf diagnostic :column))))
        (unless (find-if (lambda (other)
                           (and (eq (getf other :severity) severity)
                                (equal (getf other :message) message)
                                (loop for (key value) on place by #'cddr
                                      always (equal (getf other key) value))))
                         (load-session-diagnostics session))
          (push (list* :kept t diagnostic) (load-session-diagnostics session)))))))

(defun diagnostic-json (diagnostic)
  "Return DIAGNOSTIC as a JSON object."
  (destructuring-bind (&key severity message path line column form at kept subject
                       &allow-other-keys) diagnostic
    (object "severity" (word severity) "path" path "line" line "column" column "message" message
            "form" form "kept" (and kept :true) "subject" subject
            "at" (and at (destructuring-bind (write-date toplevel number) at
                           (object "write_date" write-date "form" toplevel "number" number))))))
