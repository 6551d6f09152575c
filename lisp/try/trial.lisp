;;;; A trial runs code and reports how it ended. It always ends in an outcome, and its frames, local
;;;; variables and restarts are recorded before the stack unwinds.

(in-package :steelbank)

(defstruct trial
  "The state of one trial."
  ;; The number of the evaluated text, which identifies frames of that text.
  (code 0 :type unsigned-byte)
  ;; The restarts that existed before the trial.
  (restarts '() :type list)
  (warnings '() :type list)
  (warning-count 0 :type unsigned-byte)
  (seen (make-hash-table :test 'equal) :type hash-table)
  ;; The stream from which the text is read.
  (stream nil :type (or null stream))
  ;; The position up to which the text had been read when the trial failed, in characters.
  (read-to nil :type (or null unsigned-byte))
  ;; The start of each top-level form that was read, in characters.
  (starts (make-array 8 :adjustable t :fill-pointer 0) :type vector)
  ;; The number of the top-level form that is being evaluated.
  (form nil :type (or null unsigned-byte))
  ;; The stack at the failure, as a property list, and whether NOTE-STACK was called.
  (stack '() :type list)
  (noted nil :type boolean))

(defun trial-restarts-json (trial condition)
  "Return the restarts that the code of TRIAL established for CONDITION, as JSON objects."
  ;; Include restarts that were established by functions that the code called.
  (remove-duplicates
   (loop for restart in (compute-restarts condition)
         for name = (restart-name restart)
         until (member restart (trial-restarts trial))
         unless (eq name 'abort)
           collect (object "name" (if name (symbol-name name) "")
                           "report" (bounded-text (handler-case (princ-to-string restart)
                                                    (serious-condition () ""))
                                                  300)))
   :test #'equal))

(defun with-form-frame (trial frames)
  "Return FRAMES, with the top-level form that TRIAL evaluates added if a tail call replaced it."
  (if (or (null (trial-form trial))
          (find "top-level form" frames
                :key (lambda (frame) (object-field frame "name")) :test #'string=))
      frames
      (append frames
              (list (object "name" "top-level form" "code" :true
                            "form" (trial-form trial) "number" 0)))))

(defun describe-stack (trial condition &key copied)
  "Record in TRIAL the stack, and the restarts for CONDITION."
  ;; CONDITION is NIL if the host stops the trial. COPIED are the return addresses of a stack that
  ;; was unwound. With COPIED, or if memory is exhausted, record only positions.
  (let ((short (or copied (typep condition 'storage-condition))))
    (when (trial-stream trial)
      (setf (trial-read-to trial) (file-position (trial-stream trial))))
    (multiple-value-bind (frames more)
        (reporting-own-errors ("examining the stack")
          (user-frames (trial-code trial) :locals (not short) :copied copied))
      (setf (trial-stack trial)
            (list :frames (with-form-frame trial frames)
                  :more more
                  :restarts (and condition (not short)
                                 (around-user-code (trial-restarts-json trial condition))))))))

(defun note-stack (trial condition)
  "Record in TRIAL the stack and the restarts for CONDITION, as DESCRIBE-STACK does."
  ;; If little stack is left, copy the stack for later instead. Only the first call has an effect,
  ;; because an error in this function may call it again.
  (unless (trial-noted trial)
    (setf (trial-noted trial) t)
    (cond ((not (stack-short-p)) (describe-stack trial condition))
          ;; On a stack overflow, the stack was already copied before the handlers ran.
          ((not (typep condition 'stack-exhausted)) (copy-stack)))))

(defun leave-trial (trial)
  "Leave TRIAL, because the host interrupts it."
  (note-stack trial nil)
  (leave 'end-of-trial '(:status :stopped)))

(defun failed-trial (condition)
  "Return the outcome of a trial that CONDITION ended."
  ;; By now the memory that the trial filled is garbage.
  (let ((condition (true-reason condition)))
    (when (typep condition 'storage-condition)
      (forget-handles)
      (let ((*checking-heap* t))
        (sb-ext:gc :full t)))
    (list :status :failed :condition condition)))

(defun call-as-trial (trial function)
  "Call FUNCTION as TRIAL."
  ;; Return the outcome, unless FUNCTION makes a non-local exit out of the trial.
  (catch 'end-of-trial
    (let ((condition
            (catch 'fault
              (let ((*checking-heap* nil)
                    (*note-fault* (lambda (condition) (note-stack trial condition)))
                    (*leave-call* (lambda () (leave-trial trial)))
                    (sb-ext:*invoke-debugger-hook* 'debugger-hook)
                    (*debugger-hook* nil))
                (setf (trial-restarts trial) (compute-restarts))
                (with-simple-restart (abort "Abort the evaluation.")
                  (let ((values (multiple-value-list (funcall function))))
                    (throw 'end-of-trial (list :status :finished :values values))))
              (make-condition 'left-by-exit)))))
      (failed-trial condition))))

(defun run-trial (trial function)
  "Call FUNCTION as TRIAL, as CALL-AS-TRIAL does."
  ;; If it was impossible to describe the stack before it unwound, describe its copy afterwards.
  (with-return-addresses (*return-addresses*)
    (let* ((outcome (call-as-trial trial function))
           (condition (getf outcome :condition)))
      (when (and (null (trial-stack trial))
                 (or (trial-noted trial) (typep condition 'stack-exhausted)))
        (describe-stack trial condition :copied *return-addresses*))
      outcome)))

(defun trial-outcome (trial function)
  "Call FUNCTION as TRIAL."
  ;; Return the outcome, a property list, however it ends. :STATUS is :FINISHED, :FAILED or
  ;; :STOPPED.
  (let ((outcome nil))
    (block trial
      (unwind-protect (setf outcome (run-trial trial function))
        (unless outcome
          (return-from trial))))
    (or outcome
        (failed-trial (make-condition 'left-by-exit)))))

(defun stack-json (trial)
  "Return the recorded stack of TRIAL, as keys and values of a JSON object."
  (destructuring-bind (&key frames more restarts) (trial-stack trial)
    (list "frames" frames
          "frames_left_out" (and more (plusp more) more)
          "restarts" restarts)))
