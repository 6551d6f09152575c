;;;; Lists the stack frames of the user's code, with positions and local variables, before the stack
;;;; unwinds.

(in-package :steelbank)

(defparameter *frames-shown* 30
  "The maximum number of user frames in an answer.")

(defparameter *frames-with-locals* 10
  "The number of innermost frames that an answer lists with local variables.")

(defparameter *locals-shown* 12
  "The maximum number of local variables listed for one frame.")

(defparameter *frames-walked* 20000
  "The maximum number of frames that are searched for user frames.")

(defun own-folder ()
  "Return the common prefix of the names of the Lisp half's source files."
  (let ((name (debug-source-namestring (code-source (function-code #'run-call)))))
    (subseq name 0 (search "boundary/boundary" name :from-end t))))

(defun prefix-p (prefix string)
  "Return true if STRING begins with PREFIX."
  (let ((mismatch (mismatch prefix string)))
    (or (null mismatch) (= mismatch (length prefix)))))

(defun own-frame-p (name own)
  "Return true if NAME is the name of a source file of SBCL, or of a file below the folder OWN."
  (and (stringp name)
       (or (prefix-p "SYS:" name) (prefix-p own name)
           ;; The source files of SBCL's contrib modules have names from the build of SBCL.
           (search "/contrib/" name) (search "obj/asdf-cache" name))))

(defun code-location-place (location)
  "Return the position of LOCATION as a property list of :FORM and :NUMBER."
  ;; Return NIL if the compiler did not record the position.
  (let ((form (and location (location-toplevel-form location)))
        (number (and location (location-form-number location))))
    (and form number
         (list :form form :number number))))

(defun heap-value (value)
  "Return VALUE, or a substitute if it is allocated on the stack and would not outlive the frame."
  (cond ((not (sb-ext:stack-allocated-p value)) value)
        ((and (consp value) (proper-list-p value)) (copy-list value))
        (t (format nil "(an object of type ~a on the stack)" (type-name-text value)))))

(defun frame-locals (frame)
  "Return the local variables of FRAME that have values, as conses of the name and a handle."
  (let ((location (frame-location frame)))
    (loop for variable across (debug-function-variables (frame-function frame))
          for name = (symbol-name (debug-variable-symbol variable))
          repeat *locals-shown*
          when (and (symbol-package (debug-variable-symbol variable))
                    (debug-variable-valid-p variable location))
            collect (let ((value (handler-case (debug-variable-value variable frame)
                                   (error () "(unknown)"))))
                      (cons name (make-handle (heap-value value)))))))

(defun function-text (debug-fun in-code)
  "Return the name of the function DEBUG-FUN."
  ;; IN-CODE is true if the function belongs to the code being evaluated.
  (let ((name (debug-function-name debug-fun)))
    (if (and in-code (typep name '(cons (eql lambda) (cons null (or null (cons (eql :in)))))))
        "top-level form"
        (name-text name))))

(defun user-frame (debug-fun location own code locals)
  "Return the call of DEBUG-FUN at LOCATION as a JSON object, or NIL if it is not in user code."
  ;; OWN is the value of OWN-FOLDER. CODE is the number of the code being evaluated. LOCALS is a
  ;; function that returns the names and handles of the local variables.
  (let* ((source (location-source location))
         (name (and source (debug-source-namestring source)))
         (in-code (and source (eql code (getf (debug-source-properties source) :steelbank-code)))))
    (unless (or (null source)
                (typep debug-fun 'assembly-frame-function)
                (own-frame-p name own))
      (destructuring-bind (&key form number)
          (or (code-location-place location)
              (code-location-place (debug-function-start debug-fun)))
        (object "name" (function-text debug-fun in-code)
                "file" (and (stringp name)
                            (or (when-file-permits (sb-ext:native-namestring (truename name)))
                                name))
                "write_date" (and (stringp name) (debug-source-created source))
                "code" (and in-code :true)
                "form" form "number" number
                "locals" (loop for (variable . handle) in (funcall locals)
                               collect (object "name" variable "handle" handle)))))))

(defun routine-caller (frame own code)
  "Return the caller of the assembly routine interrupted in FRAME, as a JSON object, or NIL."
  (multiple-value-bind (debug-fun location) (interrupted-caller frame)
    (and debug-fun
         (user-frame debug-fun location own code (constantly '())))))

(defun frame-object (frame own code locals)
  "Return FRAME as a JSON object; see USER-FRAME."
  (let ((debug-fun (frame-function frame)))
    (if (typep debug-fun 'assembly-frame-function)
        (routine-caller frame own code)
        (user-frame debug-fun (frame-location frame) own code
                    (lambda () (and locals (frame-locals frame)))))))

(defun same-frame-p (one other)
  "Return true if ONE and OTHER, JSON objects, are calls at the same position."
  (loop for key in '("name" "file" "form" "number")
        always (equal (object-field one key) (object-field other key))))

(defun user-frames (code &key (locals t) copied)
  "Return the user's stack frames, innermost first, as JSON objects."
  ;; Second value: the number of frames that were omitted. Consecutive calls at the same position
  ;; become one frame with the number of calls. COPIED are return addresses to use instead of the
  ;; stack.
  (let ((frames '()) (count 0) (more 0) (times 1) (own (own-folder)))
    (labels ((note-times ()
               (when (> times 1)
                 (setf (rest (last (first frames))) (list (cons "times" times))
                       times 1)))
             (note (told calls)
               (cond ((null told))
                     ((and frames (zerop more) (same-frame-p told (first frames)))
                      (incf times calls))
                     ((< count *frames-shown*)
                      (note-times)
                      (incf count)
                      (push told frames)
                      (setf times calls))
                     (t (incf more calls)))))
      (if copied
          (map-return-addresses
           (lambda (debug-fun location calls)
             (note (reporting-own-errors ("examining a frame")
                     (user-frame debug-fun location own code (constantly '())))
                   calls))
           copied)
          (map-frames
           (lambda (frame)
             (note (reporting-own-errors ("examining a frame")
                     (frame-object frame own code (and locals (< count *frames-with-locals*))))
                   1))
           :count *frames-walked*))
      (when frames
        (note-times)))
    (values (nreverse frames) more)))
