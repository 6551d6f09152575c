;;;; The stack while it stands: the frames of the user's code, with places and local variables.

(in-package :steelbank)

(defparameter *frames-shown* 30
  "How many frames of the user's are told.")

(defparameter *frames-with-locals* 10
  "Of how many frames the local variables are told.")

(defparameter *locals-shown* 12
  "How many local variables of a frame are told.")

(defparameter *frames-walked* 20000
  "How far down the stack is looked at.")

(defun own-folder ()
  "What the sources of the Lisp half are called, up to the parts that differ."
  (let ((name (sb-c::debug-source-namestring (code-source (sb-kernel:fun-code-header #'run-call)))))
    (subseq name 0 (search "boundary/boundary" name :from-end t))))

(defun prefix-p (prefix string)
  "True if STRING begins with PREFIX."
  (let ((mismatch (mismatch prefix string)))
    (or (null mismatch) (= mismatch (length prefix)))))

(defun own-frame-p (name own)
  "True if NAME, of a source file or NIL, is SBCL's own or below the folder OWN."
  (and (stringp name)
       (or (prefix-p "SYS:" name) (prefix-p own name)
           ;; The modules that came with SBCL, as their own build names them.
           (search "/contrib/" name) (search "obj/asdf-cache" name))))

(defun code-location-place (location)
  "Where LOCATION is: a property list of :FORM and :NUMBER, as far as the compiler kept them."
  (ignore-errors
   (list :form (sb-di:code-location-toplevel-form-offset location)
         :number (sb-di:code-location-form-number location))))

(defun keepable (value)
  "VALUE, or what stands for it when it is on the stack and will not outlive it."
  (cond ((not (sb-ext:stack-allocated-p value)) value)
        ((and (consp value) (sb-int:proper-list-p value)) (copy-list value))
        (t (format nil "(an object of type ~a on the stack)" (type-name-text value)))))

(defun frame-locals (frame)
  "The local variables of FRAME that have values: conses of the name and a handle."
  (let ((location (sb-di:frame-code-location frame)))
    (loop for variable across (or (ignore-errors (sb-di::debug-fun-debug-vars (sb-di:frame-debug-fun frame))) #())
          for name = (symbol-name (sb-di:debug-var-symbol variable))
          repeat *locals-shown*
          when (and (symbol-package (sb-di:debug-var-symbol variable))
                    (eq (ignore-errors (sb-di:debug-var-validity variable location)) :valid))
            collect (cons name
                          (make-handle (keepable (handler-case (sb-di:debug-var-value variable frame)
                                                   (error () "(not known)"))))))))

(defun frame-name (frame in-code)
  "The name of FRAME's function; IN-CODE, if it is of the code that is evaluated just now."
  (let ((name (sb-di:debug-fun-name (sb-di:frame-debug-fun frame))))
    (if (and in-code (typep name '(cons (eql lambda) (cons null (cons (eql :in))))))
        "top-level form"
        (name-text name))))

(defun user-frame (frame own code locals)
  "FRAME as an object, or NIL if it is SBCL's or ours. CODE is the number of the code that is evaluated just now. LOCALS:
whether its variables are told."
  (let* ((location (sb-di:frame-code-location frame))
         (source (ignore-errors (sb-di:code-location-debug-source location)))
         (name (and source (sb-di:debug-source-namestring source)))
         (in-code (and source (getf (sb-c::debug-source-plist source) :steelbank-code)))
         (debug-fun (sb-di:frame-debug-fun frame)))
    (unless (or (null source)
                (typep debug-fun 'sb-di::bogus-debug-fun)
                (own-frame-p name own))
      (destructuring-bind (&key form number) (or (code-location-place location)
                                                 (code-location-place
                                                  (ignore-errors (sb-di:debug-fun-start-location debug-fun))))
        (object "name" (frame-name frame (eql in-code code))
                "file" (and (stringp name)
                            (or (ignore-errors (sb-ext:native-namestring (truename name))) name))
                "write_date" (and (stringp name) (sb-di:debug-source-created source))
                "code" (and (eql in-code code) :true)
                "form" form "number" number
                "locals" (and locals
                              (loop for (variable . handle) in (frame-locals frame)
                                    collect (object "name" variable "handle" handle))))))))

(defun same-frame-p (one other)
  "True if ONE and OTHER, objects, are calls at the same place."
  (loop for key in '("name" "file" "form" "number")
        always (equal (cdr (assoc key (rest one) :test #'string=))
                      (cdr (assoc key (rest other) :test #'string=)))))

(defun user-frames (code &key (locals t))
  "The frames of the user's on the stack, innermost first, as objects; second, how many more there are. Of calls of the same
place one after the other only the innermost is told, and their number."
  (let ((frames '()) (count 0) (more 0) (times 1) (own (own-folder)))
    (flet ((note-times ()
             (when (> times 1)
               (setf (rest (last (first frames))) (list (cons "times" times))
                     times 1))))
      (sb-debug:map-backtrace
       (lambda (frame)
         (let ((told (ignore-errors (user-frame frame own code (and locals (< count *frames-with-locals*))))))
           (cond ((null told))
                 ((and frames (zerop more) (same-frame-p told (first frames)))
                  (incf times))
                 ((< count *frames-shown*)
                  (note-times)
                  (incf count)
                  (push told frames))
                 (t (incf more)))))
       :count *frames-walked*)
      (when frames
        (note-times)))
    (values (nreverse frames) more)))
