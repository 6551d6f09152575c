;;;; The user's own Swank or Slynk: the way of a person's editor into the image. It is loaded as a system of ASDF's, so its symbols are
;;;; looked up when they are used.

(in-package :steelbank)

(defparameter *swank-systems* '("swank" "slynk")
  "The names of the systems that serve an editor. Their packages have the same names.")

(sb-ext:define-load-time-global *swank* nil
  "The package of the Swank or Slynk that serves, or NIL.")

(define-condition no-swank (error)
  ()
  (:report (lambda (condition stream)
             (declare (ignore condition))
             (format stream "Neither Swank nor Slynk is found: ASDF knows no system swank and no system slynk. Install one (Debian: ~
                             apt install cl-swank; Quicklisp: (ql:quickload \"swank\"), with its set-up in ~~/.sbclrc; Sly: name ~
                             its folder slynk in CL_SOURCE_REGISTRY), and start again.")))
  (:documentation "There is no system that serves an editor."))

(defun swank-package (system)
  "The package of SYSTEM, one of *SWANK-SYSTEMS*, or NIL if it is not loaded."
  (find-package (string-upcase system)))

(defun call-swank (name &rest arguments)
  "Call Swank's function called NAME."
  (apply (fdefinition (find-symbol name *swank*)) arguments))

(defun swank-value (name)
  "The value of Swank's variable called NAME, or NIL if it has none."
  (let ((symbol (and *swank* (find-symbol name *swank*))))
    (and symbol (boundp symbol) (symbol-value symbol))))

(defun load-swank ()
  "Load the user's Swank or Slynk, if none is loaded. Returns the system's name."
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
  "Around Swank's check of the secret: one who does not know it is sent away. His error is reported, and ends the listener, which is made
anew; it does not wait in the debugger of whoever is connected."
  (let ((known nil)
        (sb-ext:*invoke-debugger-hook* 'debugger-hook)
        (*debugger-hook* nil))
    (unwind-protect (multiple-value-prog1 (funcall function stream)
                      (setf known t))
      (unless known
        (around-user-code (close stream :abort t))))))

(defun start-swank (port)
  "Have Swank listen on PORT of this machine alone, or on any free one if that is 0. Returns the port."
  ;; With threads of its own for each connection: a load that tells a person of itself must not wait for a socket.
  (call-swank "CREATE-SERVER" :port port :dont-close t :style :spawn :interface "127.0.0.1"))

(defun swank-listener (port)
  "The thread that takes Swank's connections on PORT, or NIL."
  (let ((name (format nil "~a ~d" (package-name *swank*) port)))
    (find-if (lambda (thread) (equalp (sb-thread:thread-name thread) name)) (sb-thread:list-all-threads))))

(defparameter *reopening-attempts* 100
  "How often to try to listen again, a tenth of a second apart, before it is told; then once a second.")

(defun reopen-swank (port)
  "Have Swank listen on PORT again, however long another program keeps it."
  ;; Swank's sentinel closes the socket, in its own time.
  (around-user-code (call-swank "STOP-SERVER" port))
  (loop for attempt from 1
        do (pause-microseconds (if (< attempt *reopening-attempts*) 100000 1000000))
        until (around-user-code (start-swank port))
        when (= attempt *reopening-attempts*)
          do (report (format nil "Nobody can connect to ~a on port ~d now: it has stopped, and does not open again yet."
                             (package-name *swank*) port))))

(defun keep-swank-open (port)
  "Have Swank listen on PORT again each time that it has stopped: a connection with the wrong secret ends its listener."
  (loop (let ((listener (swank-listener port)))
          ;; It may have ended before it is looked for.
          (when listener
            (sb-thread:join-thread listener :default nil)))
        (reopen-swank port)))

(defun open-swank (port &key timeout-seconds)
  "Load the user's Swank or Slynk, and have it serve on PORT, see START-SWANK. Returns an outcome as of LOAD-SYSTEM, and the port."
  (install-load-hooks)
  (let* ((system nil)
         (opened nil)
         (outcome (call-with-load-session (make-session nil nil timeout-seconds)
                                          (lambda ()
                                            (setf system (load-swank)
                                                  opened (start-swank port))
                                            (sb-thread:make-thread #'keep-swank-open :arguments (list opened)
                                                                                     :name "steelbank swank")))))
    (values (list* :system system outcome) opened)))

(define-question "open-swank" (port milliseconds)
  "Have the user's Swank or Slynk serve on PORT, within MILLISECONDS: its system and port; else why it does not."
  (let ((*leave-call* (constantly nil)))
    (multiple-value-bind (outcome opened) (open-swank port :timeout-seconds (/ milliseconds 1000))
      (object "system" (getf outcome :system)
              "port" opened
              "why" (getf (getf outcome :failure) :message)))))

(define-question "code-made" ()
  "How many code objects were made so far: a person makes some without being asked to. An export that is to be made again counts as
one."
  (+ (last-code-serial) *incomplete-exports*))

(define-question "note-new-code" ()
  "Remember the files that a person has compiled and loaded. The contents of the image, if there are any."
  (if (plusp (note-new-code (make-hash-table :test 'equal)
                            (lambda (file created)
                              (let ((known (gethash file *loaded-files*)))
                                (and known (<= created (file-version-write-date known)))))))
      (object "image" (image-json))
      (object)))

(define-question "buffer-texts" (known)
  "The texts from editors' buffers that code was compiled from, but for the first KNOWN."
  (buffer-texts-json known))

(defun tell-person (sentence)
  "Have the editors of all connections show SENTENCE. It waits for none of them: their own threads write."
  (let ((current (find-symbol "*EMACS-CONNECTION*" *swank*))
        (event (if (string= (package-name *swank*) "SWANK")
                   (list :write-string (format nil "; ~a~%" sentence))
                   (list :background-message sentence))))
    (dolist (connection (swank-value "*CONNECTIONS*"))
      (progv (list current) (list connection)
        (around-user-code (call-swank "SEND-TO-EMACS" event))))))

(define-question "tell-person" (sentence)
  "Have the editors that are connected show SENTENCE."
  (when *swank*
    (tell-person sentence))
  (object))
