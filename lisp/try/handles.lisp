;;;; Handles: names for objects that the host may refer to later. The table is bounded and drops the
;;;; least recently used handles.

(in-package :steelbank)

(defparameter *most-handles* 400
  "The maximum number of objects with handles.")

(sb-ext:define-load-time-global *handles* (make-hash-table)
  "Maps numbers of handles to conses of the object and the clock at its last use.")

(sb-ext:define-load-time-global *handle-clock* 0
  "Counts uses of handles, and numbers new handles, so that no number is used twice.")

(sb-ext:define-load-time-global *handle-lock* (sb-thread:make-mutex :name "steelbank handles")
  "Protects *HANDLES*.")

(defmacro with-handles (&body body)
  "Run BODY with the lock of *HANDLES*, without interrupts."
  ;; Code that an interrupt runs may create handles, and a garbage collection may drop all handles.
  `(sb-sys:without-interrupts
     (sb-thread:with-mutex (*handle-lock*)
       ,@body)))

(defun make-handle (object)
  "Return a new handle, a string, for OBJECT."
  (with-handles
    (when (>= (hash-table-count *handles*) *most-handles*)
      (let ((uses (sort (loop for entry being the hash-values of *handles* collect (cdr entry))
                        #'<)))
        ;; Drop a quarter at once, so that not every new handle requires a search for the oldest.
        (loop with limit = (nth (floor *most-handles* 4) uses)
              for number being the hash-keys of *handles* using (hash-value entry)
              when (< (cdr entry) limit)
                do (remhash number *handles*))))
    (let ((number (incf *handle-clock*)))
      (setf (gethash number *handles*) (cons object number))
      (format nil "h~d" number))))

(defun handle-object (handle)
  "Return the object of HANDLE, whether HANDLE exists, and whether it may have existed before."
  (let ((number (and (> (length handle) 1)
                     (char-equal (char handle 0) #\h)
                     (parse-integer handle :start 1 :junk-allowed t))))
    (if (and number (plusp number))
        (with-handles
          (let ((entry (gethash number *handles*)))
            (when entry
              (setf (cdr entry) (incf *handle-clock*)))
            (values (car entry) (and entry t) (<= number *handle-clock*))))
        (values nil nil nil))))

(defun forget-handles ()
  "Drop all handles, so that their objects can be collected when the heap is full."
  (with-handles
    (clrhash *handles*)))

(pushnew 'forget-handles *memory-to-free*)
