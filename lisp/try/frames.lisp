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

(defun function-text (debug-fun in-code)
  "The name of the function DEBUG-FUN; IN-CODE, if it is of the code that is evaluated just now."
  (let ((name (sb-di:debug-fun-name debug-fun)))
    (if (and in-code (typep name '(cons (eql lambda) (cons null (or null (cons (eql :in)))))))
        "top-level form"
        (name-text name))))

(defun user-frame (debug-fun location own code locals)
  "The call of DEBUG-FUN that stands at LOCATION as an object, or NIL if it is SBCL's or ours. CODE is the number of the code
that is evaluated just now. LOCALS is a function that returns the variables' names and handles."
  (let* ((source (ignore-errors (sb-di:code-location-debug-source location)))
         (name (and source (sb-di:debug-source-namestring source)))
         (in-code (and source (eql code (getf (sb-c::debug-source-plist source) :steelbank-code)))))
    (unless (or (null source)
                (typep debug-fun 'sb-di::bogus-debug-fun)
                (own-frame-p name own))
      (destructuring-bind (&key form number)
          (or (code-location-place location)
              (code-location-place (ignore-errors (sb-di:debug-fun-start-location debug-fun))))
        (object "name" (function-text debug-fun in-code)
                "file" (and (stringp name)
                            (or (ignore-errors (sb-ext:native-namestring (truename name))) name))
                "write_date" (and (stringp name) (sb-di:debug-source-created source))
                "code" (and in-code :true)
                "form" form "number" number
                "locals" (loop for (variable . handle) in (funcall locals)
                               collect (object "name" variable "handle" handle)))))))

(defun routine-caller (frame own code)
  "What called the assembly routine that was interrupted in FRAME, as an object: SBCL takes its frame for the routine's. Its
return address is on top of the stack."
  (let ((context (sb-di::compiled-frame-escaped frame)))
    (when context
      (let* ((address (sb-sys:sap-ref-word (sb-sys:int-sap (sb-vm:context-register context sb-vm::rsp-offset)) 0))
             (component (sb-di::code-header-from-pc address)))
        (when (typep component 'sb-kernel:code-component)
          (let* ((offset (- address (sb-sys:sap-int (sb-kernel:code-instructions component))))
                 (debug-fun (sb-di::debug-fun-from-pc component offset)))
            (user-frame debug-fun (sb-di::code-location-from-pc debug-fun offset nil) own code (constantly '()))))))))

(defun told-frame (frame own code locals)
  "FRAME as an object; see USER-FRAME."
  (let ((debug-fun (sb-di:frame-debug-fun frame)))
    (if (typep debug-fun 'sb-di::bogus-debug-fun)
        (ignore-errors (routine-caller frame own code))
        (user-frame debug-fun (sb-di:frame-code-location frame) own code
                    (lambda () (and locals (frame-locals frame)))))))

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
         (let ((told (ignore-errors (told-frame frame own code (and locals (< count *frames-with-locals*))))))
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
