;;;; The reader part of the tap: records the reader's events for each top-level form, with the
;;;; compiler's form numbers.

(in-package :steelbank)

(defun make-tap-observer (tap)
  "Return an observer that records the reader's events in TAP."
  (declare (type tap tap))
  (lambda (start end object)
    (declare (optimize speed))
    ;; Suppressed text is not code. START is :RESET if a reader macro returned no value. The events
    ;; inside its text are harmless, because no list contains their objects.
    (unless (or *read-suppress* (not (typep start 'fixnum)))
      (let ((count (tap-count tap)))
        (declare (type fixnum start end))
        (when (= count (length (tap-objects tap)))
          (flet ((grow (vector)
                   (declare (type (simple-array fixnum (*)) vector))
                   (replace (make-array (* 2 count) :element-type 'fixnum) vector)))
            (setf (tap-starts tap) (grow (tap-starts tap))
                  (tap-ends tap) (grow (tap-ends tap))
                  (tap-objects tap) (replace (make-array (* 2 count)) (tap-objects tap)))))
        (setf (aref (tap-starts tap) count) start
              (aref (tap-ends tap) count) end
              (aref (tap-objects tap) count) object
              (tap-count tap) (the fixnum (1+ count)))))))

(defun align-children (object children objects places)
  "Store in PLACES the position plus 1 of each child in OBJECT."
  ;; CHILDREN are indices of events, ordered by position.
  (declare (type list children) (type simple-vector objects) (type (simple-array fixnum (*)) places)
           (optimize speed))
  (let ((place 0))
    (declare (type fixnum place))
    (flet ((element (element)
             ;; An element without an event was created by a reader macro. A child that is not an
             ;; element was read and dropped, such as the test of #+.
             (incf place)
             (loop for tail on children
                   for child of-type fixnum = (car tail)
                   when (eql (svref objects child) element)
                     do (setf (aref places child) place
                              children (cdr tail))
                        (return))))
      (typecase object
        (cons (loop with slow = object
                    for step of-type fixnum from 1
                    while children
                    do (cond ((consp object) (element (pop object)))
                             (t (element object) (return)))
                       ;; A constant may be circular: `#1=(nil . #1#)`.
                       (when (evenp step)
                         (pop slow))
                    until (eq object slow)))
        (simple-vector (loop for element across object
                             while children do (element element)))
        (t (when (comma-p object)
             (element (comma-form object))))))))

(defun tap-places (tap places wrappers)
  "Fill PLACES with the position plus 1 of each event in its parent; 0 if it is no element."
  ;; Fill WRAPPERS with the number of direct children, or with -1 if an event repeats the object of
  ;; an earlier event, as with #+ and #n=.
  (declare (type tap tap) (type (simple-array fixnum (*)) places wrappers) (optimize speed))
  (let ((starts (tap-starts tap)) (objects (tap-objects tap)) (stack '()))
    (dotimes (event (tap-count tap))
      (let ((start (aref starts event)) (object (svref objects event)) (children '()) (same nil))
        (loop while (and stack (>= (aref starts (the fixnum (car stack))) start))
              do (let ((child (pop stack)))
                   (when (eq (svref objects (the fixnum child)) object)
                     (setf same child))
                   (push child children)))
        (cond (same
               (setf (aref wrappers event) -1)
               (push same stack))
              (t
               (when children
                 (setf (aref wrappers event) (length (the list children)))
                 (align-children object children objects places))
               (push event stack)))))))

(defun original-form-number (object)
  "Return the number that the compiler gave OBJECT within the current top-level form, or NIL."
  (let ((path (source-path object)))
    (when path
      (source-path-form-number path))))

(defun operator-number (object)
  "Return the sidecar's code for the operator of OBJECT; see the format in tap/sidecar.lisp."
  (cond ((comma-p object) 4)
        ((atom object) 0)
        (t (case (car object)
             (quote 1)
             (function 2)
             (t (if (eq (car object) +quasiquote+) 3 0))))))

(defun package-definition-p (form)
  "Return true if FORM defines a package, so that its strings name symbols."
  (and (consp form)
       (symbolp (car form))
       (member (symbol-name (car form)) '("DEFPACKAGE" "DEFINE-PACKAGE") :test #'string=)))

(defun tap-toplevel-form (tap form number)
  "Write TAP's pending events, which are those of FORM, top-level form NUMBER, and discard them."
  (declare (type tap tap) (type fixnum number))
  (let* ((count (tap-count tap))
         (starts (tap-starts tap))
         (ends (tap-ends tap))
         (objects (tap-objects tap))
         (places (make-array count :element-type 'fixnum :initial-element 0))
         (children (make-array count :element-type 'fixnum :initial-element 0))
         (kinds (make-array count :element-type 'fixnum :initial-element -1))
         (numbers (make-array count :element-type 'fixnum :initial-element 0))
         (strings (package-definition-p form))
         (largest -1)
         (kept 0))
    (declare (type fixnum largest kept))
    (tap-places tap places children)
    (dotimes (event count)
      (unless (minusp (aref children event))
        (let ((object (svref objects event)))
          (typecase object
            (cons
             ;; The compiler also records paths for tails of lists, with the number of the form that
             ;; follows.
             (let ((number (and (or (plusp (aref places event)) (eq object form))
                                (original-form-number object))))
               (cond (number
                      (setf (aref kinds event) 0
                            (aref numbers event) number
                            largest (max largest number)))
                     (t (setf (aref kinds event) 1)))))
            (null (when (= (- (aref ends event) (aref starts event)) 3)
                    (setf (aref kinds event) 2
                          (aref numbers event) (tap-name tap object))))
            (symbol (setf (aref kinds event) 2
                          (aref numbers event) (tap-name tap object)))
            (t (cond ((and strings (stringp object))
                      (setf (aref kinds event) 3
                            (aref numbers event) (tap-name tap object)))
                     ((plusp (aref children event))
                      (setf (aref kinds event) 4))))))
        (unless (minusp (aref kinds event))
          (incf kept))))
    (tap-unsigned tap number)
    (tap-unsigned tap kept)
    (let ((positions (make-array (1+ (max largest 0))
                                 :element-type '(signed-byte 32) :initial-element -1))
          (atom (and (atom form) (position form objects :end count))))
      ;; The compiler numbers no atom, but its source paths give a top-level atom the number 0.
      (when atom
        (setf (aref positions 0) (aref starts atom)))
      (dotimes (event count)
        (let ((kind (aref kinds event)) (start (aref starts event)))
          (unless (minusp kind)
            (tap-octet tap (logior kind (ash (operator-number (svref objects event)) 4)))
            (tap-signed tap (- start (tap-last-start tap)))
            (setf (tap-last-start tap) start)
            (tap-unsigned tap (- (aref ends event) start))
            (tap-unsigned tap (aref places event))
            (case kind
              (0 (let ((number (aref numbers event)))
                   (tap-unsigned tap number)
                   (when (minusp (aref positions number))
                     (setf (aref positions number) start))))
              ((2 3) (tap-unsigned tap (aref numbers event)))))))
      (loop while (<= (fill-pointer (tap-positions tap)) number)
            do (vector-push-extend nil (tap-positions tap)))
      (setf (aref (tap-positions tap) number) positions))
    (incf (tap-form-count tap))
    (fill objects 0 :end count)
    (setf (tap-count tap) 0)))

;;; Positions during compilation, for diagnostics

(defun tap-line-and-column (tap position)
  "Return line and column, both from 1 and in characters, of POSITION in the file of TAP."
  (declare (type tap tap) (type (integer 0) position))
  (stream-line-and-column (tap-stream tap) position))

(defun tap-position (tap toplevel-form form-number)
  "Return the position of sub-form FORM-NUMBER of TOPLEVEL-FORM, or of the nearest form before it."
  ;; Second value: true if the position is that of FORM-NUMBER. Return NIL if TAP lacks the
  ;; top-level form.
  (declare (type tap tap) (type (integer 0) toplevel-form form-number))
  (let ((positions (and (< toplevel-form (fill-pointer (tap-positions tap)))
                        (aref (tap-positions tap) toplevel-form))))
    (when positions
      (loop for number from (min form-number (1- (length positions))) downto 0
            unless (minusp (aref positions number))
              do (return (values (aref positions number) (= number form-number)))))))
