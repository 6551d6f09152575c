;;;; Connects a user's editor to the image through the user's own Swank or Slynk, which is loaded as
;;;; an ASDF system at run time, so its symbols are looked up when they are needed. In this file,
;;;; Swank also stands for Slynk.

(in-package :steelbank)

(defparameter *swank-systems* '("swank" "slynk")
  "The names of the systems that serve an editor. Their packages have the same names.")

(sb-ext:define-load-time-global *swank* nil
  "The package of the running Swank or Slynk, or NIL.")

(define-condition no-swank (error)
  ()
  (:report (lambda (condition stream)
             (declare (ignore condition))
             (format stream "Neither Swank nor Slynk was found: ASDF cannot find system swank or ~
                             slynk. Install either (Debian: apt install cl-swank; Quicklisp: ~
                             (ql:quickload \"swank\"), with its setup in ~~/.sbclrc; Sly: add its ~
                             folder slynk to CL_SOURCE_REGISTRY), and restart.")))
  (:documentation "No system that serves an editor was found."))

(defun swank-package (system)
  "Return the package of SYSTEM, one of *SWANK-SYSTEMS*, or NIL if it is not loaded."
  (find-package (string-upcase system)))

(defun call-swank (name &rest arguments)
  "Call the function NAME of Swank."
  (apply (fdefinition (find-symbol name *swank*)) arguments))

(defun swank-value (name)
  "Return the value of Swank's variable NAME, or NIL if it has none."
  (let ((symbol (and *swank* (find-symbol name *swank*))))
    (and symbol (boundp symbol) (symbol-value symbol))))

(defun load-swank ()
  "Load the user's Swank or Slynk if none is loaded. Return the system's name."
  (let ((system (or (find-if #'swank-package *swank-systems*)
                    (find-if (lambda (name) (asdf:find-system name nil)) *swank-systems*)
                    (error 'no-swank))))
    (unless (swank-package system)
      (asdf:load-system system))
    (setf *swank* (swank-package system))
    (let ((check (find-symbol "AUTHENTICATE-CLIENT" *swank*)))
      (when (and check (fboundp check))
        (encapsulate check 'steelbank #'refusing-stranger)))
    system))

(defun refusing-stranger (function stream)
  "Wrap Swank's authentication: disconnect clients that do not know the secret."
  ;; The error of such a client is reported and ends the listener, which is then reopened. Otherwise
  ;; the listener would wait in the debugger of a connected editor.
  (let ((known nil)
        (sb-ext:*invoke-debugger-hook* 'debugger-hook)
        (*debugger-hook* nil))
    (unwind-protect (multiple-value-prog1 (funcall function stream)
                      (setf known t))
      (unless known
        (around-user-code (close stream :abort t))))))

(defun start-swank (port)
  "Have Swank listen on PORT of the local host, or on any free port if PORT is 0. Return the port."
  ;; Use separate threads for each connection, so that a load that sends messages to the user never
  ;; waits for a socket.
  (call-swank "CREATE-SERVER" :port port :dont-close t :style :spawn :interface "127.0.0.1"))

(defun swank-listener (port)
  "Return the thread that accepts Swank's connections on PORT, or NIL."
  (let ((name (format nil "~a ~d" (package-name *swank*) port)))
    (find-if (lambda (thread) (equalp (sb-thread:thread-name thread) name))
             (sb-thread:list-all-threads))))

;; The attempts are a tenth of a second apart. After the report there is one attempt each second.
(defparameter *reopening-attempts* 100
  "The number of attempts to listen again before a failure is reported.")

(defun reopen-swank (port)
  "Have Swank listen on PORT again. Retry until the port is free."
  ;; Swank's sentinel closes the socket asynchronously, so the first attempts may fail.
  (around-user-code (call-swank "STOP-SERVER" port))
  (loop for attempt from 1
        do (pause-microseconds (if (< attempt *reopening-attempts*) 100000 1000000))
        until (around-user-code (start-swank port))
        when (= attempt *reopening-attempts*)
          do (report (format nil "~a stopped listening on port ~d and cannot reopen it yet; ~
                                  editors cannot connect."
                             (package-name *swank*) port))))

(defun keep-swank-open (port)
  "Reopen Swank on PORT each time its listener ends, as after a client's wrong secret."
  (loop (let ((listener (swank-listener port)))
          ;; The listener may have ended already.
          (when listener
            (sb-thread:join-thread listener :default nil)))
        (reopen-swank port)))

(defun open-swank (port &key timeout-seconds)
  "Load the user's Swank or Slynk, and have it serve on PORT as START-SWANK does."
  ;; Return an outcome as LOAD-SYSTEM does, and the port.
  (install-load-hooks)
  (let* ((system nil)
         (opened nil)
         (outcome (call-with-load-session
                   (make-session nil nil timeout-seconds)
                   (lambda ()
                     (note-difference-from-text)
                     (setf system (load-swank)
                           opened (start-swank port))
                     (sb-thread:make-thread #'keep-swank-open :arguments (list opened)
                                                              :name "steelbank swank")))))
    (values (list* :system system outcome) opened)))

(define-question "open-swank" (port milliseconds)
  "Start the user's Swank or Slynk on PORT, within MILLISECONDS."
  ;; Return the system and the port, or the reason for a failure.
  (let ((*leave-call* (constantly nil)))
    (multiple-value-bind (outcome opened) (open-swank port :timeout-seconds (/ milliseconds 1000))
      (object "system" (getf outcome :system)
              "port" opened
              "why" (getf (getf outcome :failure) :message)))))

(define-question "code-made" ()
  "Return the number of code objects created so far, which grows when a user compiles code."
  ;; Each incomplete export adds one, so that the host exports again.
  (+ (last-code-serial) *incomplete-exports*))

(define-question "note-new-code" ()
  "Record the files that a user compiled and loaded from the editor."
  ;; If there are new files, return the contents of the image.
  (if (plusp (note-new-code (make-hash-table :test 'equal)
                            (lambda (file created)
                              (let ((known (gethash file *loaded-files*)))
                                (and known (<= created (file-version-write-date known)))))))
      (object "image" (image-json))
      (object)))

(define-question "buffer-texts" (known)
  "Return the texts of editor buffers that code was compiled from, except the first KNOWN."
  (buffer-texts-json known))

(defun notify-editors (sentence)
  "Show SENTENCE in all connected editors, without waiting: their connections' threads write it."
  (let ((current (find-symbol "*EMACS-CONNECTION*" *swank*))
        (event (if (string= (package-name *swank*) "SWANK")
                   (list :write-string (format nil "; ~a~%" sentence))
                   (list :background-message sentence))))
    (dolist (connection (swank-value "*CONNECTIONS*"))
      (progv (list current) (list connection)
        (around-user-code (call-swank "SEND-TO-EMACS" event))))))

(define-question "tell-person" (sentence)
  "Show SENTENCE in the connected editors."
  (when *swank*
    (notify-editors sentence))
  (object))
