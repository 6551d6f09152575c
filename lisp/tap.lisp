;;;; The token tap: what SBCL's own reader and compiler see while a file is compiled or loaded as source.
;;;;
;;;; The reader reports (start end object) for every list and every token to the observer of a
;;;; form-tracking stream; the compiler numbers the sub-forms of each top-level form. Encapsulations record
;;;; both, so that a position is exact under any readtable, feature expression or package. The record of
;;;; one file is an octet vector, its *sidecar*, kept in the cache beside the fasls.
;;;;
;;;; The sidecar, version 3. u = unsigned LEB128; s = zigzag in LEB128; text = u octet count, UTF-8 octets.
;;;;   "SBTAP" octet 0, octet version
;;;;   octet         1 when the whole file was read, 0 when reading stopped early
;;;;   8 octets      FNV-1a 64 of the file's octets, little-endian
;;;;   u             size of the file in octets
;;;;   u             write date (universal time), as in a definition source and the debug source
;;;;   text          native truename
;;;;   text          external format's name, upcased ("UTF-8")
;;;;   u, s...       newlines: count, then position of each #\Newline minus that of the one before (from 0)
;;;;   u, entries    symbols: count, then each: octet 0 interned (3 and a function's name by now, 4 and a macro's or
;;;;                                         special operator's, 5 and a symbol macro's), text package, text name
;;;;                                         or octet 1 uninterned, text name; or octet 2 string, text
;;;;   u, forms      top-level forms: count, then each:
;;;;     u             top-level form number
;;;;     u             event count; then each event, children before their parent:
;;;;       octet         kind, as below, + 16 * operator: 1 (quote x), 2 (function x), 3 a backquoted form,
;;;;                     4 a comma, 0 anything else; however these were written
;;;;       s             start minus the start of the event before (from 0 for a file's first)
;;;;       u             length
;;;;       u             place in the parent plus 1: 1 = the operator; 0 = no element of the enclosing object
;;;;       u             kind 0: form number; kinds 2 and 3: index of the symbol or string; else absent
;;;;   u, uses       top-level uses: count, then each: octet kind (0 binds 1 calls 2 sets 3 references
;;;;                 4 macroexpands), u 2 * symbol index (+ 1 for (setf symbol)), u top-level form, u form number
;;;;   u, locals     names bound locally: count, then each: u top-level form, u 2 * symbol index (+ 1 for a
;;;;                 function, else a variable)
;;;;   8 octets      FNV-1a 64 of all octets before, little-endian
;;;; Event kinds: 0 a form with a number; 1 a list without one (quoted data); 2 a symbol; 3 a string in a
;;;; package definition; 4 another object that contains events (a vector, a comma, #. and the like).
;;;; Positions and lengths count characters as decoded; a byte order mark counts as one.

(in-package :steelbank)

(defconstant +sidecar-version+ 3
  "The version of the format described at the top of this file.")

(defstruct (tap (:constructor %make-tap))
  "What has been recorded of one file. FILE-INFO and STREAM say whose events these are; SOURCE-LOAD, that it was
loaded as source and not compiled."
  (file-info nil)
  (stream nil)
  (source-load nil)
  (starts (make-array 512 :element-type 'fixnum) :type (simple-array fixnum (*)))
  (ends (make-array 512 :element-type 'fixnum) :type (simple-array fixnum (*)))
  (objects (make-array 512) :type simple-vector)
  (content-hash 0 :type (unsigned-byte 64))
  (count 0 :type fixnum)
  (last-start 0 :type fixnum)
  ;; Not EQ: an address-based table is rehashed after each collection.
  (names (make-hash-table :test 'equal) :type hash-table)
  (name-list '() :type list)
  (buffer (make-array 4096 :element-type '(unsigned-byte 8)) :type octets)
  (fill 0 :type fixnum)
  (form-count 0 :type fixnum)
  (uses '() :type list)
  (context nil)
  (locals (make-hash-table) :type hash-table)
  (positions (make-array 64 :adjustable t :fill-pointer 0)))

(defvar *tap* nil
  "The tap of the file that is being read on this thread, or NIL.")

(defvar *tap-sink* nil
  "A function of a finished tap and its sidecar, called after each file; NIL: nothing is recorded.")

;;; Writing octets

(declaim (inline tap-octet))
(defun tap-octet (tap octet)
  "Append OCTET to the events of TAP."
  (declare (type tap tap) (type (unsigned-byte 8) octet) (optimize speed))
  (let ((buffer (tap-buffer tap)) (fill (tap-fill tap)))
    (when (= fill (length buffer))
      (let ((larger (make-array (* 2 (length buffer)) :element-type '(unsigned-byte 8))))
        (replace larger buffer)
        (setf (tap-buffer tap) larger
              buffer larger)))
    (setf (aref buffer fill) octet
          (tap-fill tap) (the fixnum (1+ fill))))
  (values))

(defun tap-unsigned (tap integer)
  "Append INTEGER to the events of TAP as unsigned LEB128."
  (declare (type tap tap) (type (unsigned-byte 62) integer) (optimize speed))
  (loop
    (when (< integer 128)
      (tap-octet tap integer)
      (return))
    (tap-octet tap (logior 128 (logand integer 127)))
    (setf integer (ash integer -7))))

(defun tap-signed (tap integer)
  "Append INTEGER to the events of TAP as zigzag LEB128."
  (declare (type tap tap) (type (signed-byte 60) integer))
  (tap-unsigned tap (if (minusp integer) (1- (* -2 integer)) (* 2 integer))))

(defun tap-text (tap string)
  "Append STRING to the events of TAP: byte count, UTF-8."
  (declare (type tap tap) (type string string))
  (let ((octets (sb-ext:string-to-octets string :external-format :utf-8)))
    (tap-unsigned tap (length octets))
    (map nil (lambda (octet) (tap-octet tap octet)) octets)))

(defun tap-word (tap word)
  "Append WORD to the events of TAP: 8 octets, little-endian."
  (declare (type tap tap) (type (unsigned-byte 64) word))
  (dotimes (index 8)
    (tap-octet tap (ldb (byte 8 (* 8 index)) word))))

(defun tap-name (tap name)
  "The index of NAME, a symbol or a string, in the table of TAP."
  (declare (type tap tap) (type (or symbol string) name))
  (let ((names (tap-names tap)))
    (or (gethash name names)
        (progn (push name (tap-name-list tap))
               (setf (gethash name names) (hash-table-count names))))))

;;; Events

(defun make-tap-observer (tap)
  "The observer that records in TAP what the reader reports."
  (declare (type tap tap))
  (lambda (start end object)
    (declare (optimize speed))
    ;; Suppressed text is not code; :RESET tells of a reader macro without a value, whose inner events
    ;; are harmless because they stand in no list.
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
  "Give each of CHILDREN (indices of events, in order of position) its place plus 1 in OBJECT, in PLACES."
  (declare (type list children) (type simple-vector objects) (type (simple-array fixnum (*)) places)
           (optimize speed))
  (let ((place 0))
    (declare (type fixnum place))
    (flet ((element (element)
             ;; An element without an event was made by a reader macro; a child that is no element was
             ;; read and dropped, like the test of #+.
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
  "Fill PLACES with each event's place in its parent, and WRAPPERS with the number of direct children,
or -1 for an event whose object was reported before (#+, #n= and the like)."
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
  "The number that the compiler gave OBJECT within the current top-level form, or NIL."
  (let ((path (source-path object)))
    (when path
      (source-path-form-number path))))

(defun operator-number (object)
  "What a sidecar says of the operator of OBJECT."
  (cond ((comma-p object) 4)
        ((atom object) 0)
        (t (case (car object)
             (quote 1)
             (function 2)
             (t (if (eq (car object) +quasiquote+) 3 0))))))

(defun package-definition-p (form)
  "True when FORM defines a package, so that its strings name symbols."
  (and (consp form)
       (symbolp (car form))
       (member (symbol-name (car form)) '("DEFPACKAGE" "DEFINE-PACKAGE") :test #'string=)))

(defun tap-toplevel-form (tap form number)
  "Write the events of FORM, top-level form NUMBER, and forget them."
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
             ;; The compiler also notes paths for tails, with the number of whatever comes next.
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
    (let ((positions (make-array (1+ largest) :element-type '(signed-byte 32) :initial-element -1)))
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

;;; Positions while compiling, for diagnostics

(defun tap-line-and-column (tap position)
  "Line and column, both from 1 and in characters, of POSITION in the file of TAP."
  (declare (type tap tap) (type (integer 0) position))
  (stream-line-and-column (tap-stream tap) position))

(defun tap-position (tap toplevel-form form-number)
  "The position of sub-form FORM-NUMBER of TOPLEVEL-FORM; second, whether it is that very form and not the
nearest one before it. NIL when TAP knows nothing of the top-level form."
  (declare (type tap tap) (type (integer 0) toplevel-form form-number))
  (let ((positions (and (< toplevel-form (fill-pointer (tap-positions tap)))
                        (aref (tap-positions tap) toplevel-form))))
    (when positions
      (loop for number from (min form-number (1- (length positions))) downto 0
            unless (minusp (aref positions number))
              do (return (values (aref positions number) (= number form-number)))))))

;;; The sidecar

(defun fnv-1a (octets &optional (end (length octets)))
  "The FNV-1a hash of OCTETS before END, 64 bits."
  (declare (type octets octets) (type (integer 0 #.array-dimension-limit) end) (optimize speed))
  (let ((hash #xcbf29ce484222325))
    (declare (type (unsigned-byte 64) hash))
    (dotimes (index end hash)
      (setf hash (ldb (byte 64 0) (* (logxor hash (aref octets index)) #x100000001b3))))))

(defun file-octets (path)
  "The octets of the file PATH."
  (with-open-file (stream path :element-type '(unsigned-byte 8))
    (let ((octets (make-array (file-length stream) :element-type '(unsigned-byte 8))))
      (read-sequence octets stream)
      octets)))

(defun external-format-name (stream)
  "The name of the external format of STREAM, upcased."
  (let ((format (stream-external-format stream)))
    (symbol-name (if (consp format) (car format) format))))

(defun implementation-symbol-p (symbol)
  "True when SYMBOL is one of SBCL's own and not a standard one: what macros of the system expand into."
  (let ((package (symbol-package symbol)))
    (or (null package)
        (and (system-package-p package)
             (not (eq package (find-package :common-lisp)))))))

(defun tap-sidecar (tap path complete)
  "The sidecar of TAP, read from PATH; COMPLETE when it was read to its end."
  (declare (type tap tap) (type pathname path))
  (let* ((head (%make-tap :names (tap-names tap) :name-list (tap-name-list tap)))
         (stream (tap-stream tap))
         (octets (file-octets path))
         (hash (fnv-1a octets))
         (uses (loop with seen = (make-hash-table :test 'equal)
                     for use in (reverse (tap-uses tap))
                     for (kind name toplevel number) = use
                     for setf = (and (consp name) (eq (car name) 'setf) (consp (cdr name)))
                     for symbol = (if setf (cadr name) name)
                     unless (or (gethash use seen) (not (symbolp symbol)) (implementation-symbol-p symbol))
                       collect (list kind (+ (* 2 (tap-name head symbol)) (if setf 1 0)) toplevel number)
                     do (setf (gethash use seen) t)))
         (events (subseq (tap-buffer tap) 0 (tap-fill tap))))
    (setf (tap-content-hash tap) hash)
    (map nil (lambda (char) (tap-octet head (char-code char))) "SBTAP")
    (tap-octet head 0)
    (tap-octet head +sidecar-version+)
    (tap-octet head (if complete 1 0))
    (tap-word head hash)
    (tap-unsigned head (length octets))
    (tap-unsigned head (file-info-write-date (tap-file-info tap)))
    (tap-text head (sb-ext:native-namestring (truename path)))
    (tap-text head (external-format-name stream))
    (let ((newlines (newline-positions stream)) (previous 0))
      (tap-unsigned head (length newlines))
      (loop for newline across newlines
            do (tap-signed head (- newline previous))
               (setf previous newline)))
    (tap-unsigned head (length (tap-name-list head)))
    (dolist (name (reverse (tap-name-list head)))
      (cond ((stringp name)
             (tap-octet head 2)
             (tap-text head name))
            ((symbol-package name)
             (tap-octet head (case (operator-kind name)
                               (:function 3)
                               ((:macro :special-form) 4)
                               (t (if (eq (variable-kind name) :macro) 5 0))))
             (tap-text head (package-name (symbol-package name)))
             (tap-text head (symbol-name name)))
            (t
             (tap-octet head 1)
             (tap-text head (symbol-name name)))))
    (tap-unsigned head (tap-form-count tap))
    (loop for octet across (the octets events) do (tap-octet head octet))
    (tap-unsigned head (length uses))
    (loop for (kind name toplevel number) in uses
          do (tap-octet head kind)
             (tap-unsigned head name)
             (tap-unsigned head toplevel)
             (tap-unsigned head number))
    (tap-unsigned head (hash-table-count (tap-locals tap)))
    (loop for local being the hash-keys of (tap-locals tap)
          do (tap-unsigned head (ash local -32))
             (tap-unsigned head (ldb (byte 32 0) local)))
    (tap-word head (fnv-1a (tap-buffer head) (tap-fill head)))
    (subseq (tap-buffer head) 0 (tap-fill head))))

(defun sidecar-name (truename write-date)
  "The file name of the sidecar of TRUENAME as it was at WRITE-DATE."
  (declare (type pathname truename) (type (integer 0) write-date))
  (let ((octets (coerce (sb-ext:string-to-octets (sb-ext:native-namestring truename) :external-format :utf-8)
                        'octets)))
    (format nil "~(~16,'0X~)-~D.tap" (fnv-1a octets) write-date)))

(defun sidecar-state (path)
  "What the sidecar at PATH is: :COMPLETE or :INCOMPLETE, and the hash of the file's content; NIL when it is not
there, damaged, or of another version."
  (let* ((octets (handler-case (file-octets path)
                   ((or file-error stream-error) () nil)))
         (end (- (length octets) 8)))
    (flet ((word (start)
             (loop for index below 8
                   sum (ash (aref octets (+ start index)) (* 8 index)))))
      (when (and (> end 16)
                 (= (aref octets 6) +sidecar-version+)
                 (= (word end) (fnv-1a octets end)))
        (values (if (= (aref octets 7) 1) :complete :incomplete)
                (word 8))))))

(defun better-sidecar-p (path sidecar)
  "True when the sidecar at PATH is complete and SIDECAR, of the same content, is not."
  (declare (type octets sidecar))
  (and (/= (aref sidecar 7) 1)
       (multiple-value-bind (state hash) (sidecar-state path)
         (and (eq state :complete)
              (= hash (loop for index below 8
                            sum (ash (aref sidecar (+ 8 index)) (* 8 index))))))))

(defun write-sidecar (tap sidecar directory)
  "Write SIDECAR, of TAP, into DIRECTORY, whole or not at all: not in place of a better one."
  (declare (type tap tap) (type octets sidecar) (type pathname directory))
  (let* ((name (sidecar-name (truename (tap-stream tap))
                             (file-info-write-date (tap-file-info tap))))
         (path (merge-pathnames (sb-ext:parse-native-namestring name) directory)))
    (unless (better-sidecar-p path sidecar)
      (replace-file path sidecar))
    path))

(defun replace-file (path octets)
  "Have the file PATH hold OCTETS, whole or not at all. A folder of that name gives way."
  (declare (type pathname path) (type octets octets))
  (let ((temporary (sb-ext:parse-native-namestring
                    (format nil "~A.~36R" (sb-ext:native-namestring path)
                            (random (expt 2 64) (make-random-state t)))))
        (folder (uiop:ensure-directory-pathname path)))
    (ensure-directories-exist path)
    (when (uiop:directory-exists-p folder)
      (uiop:delete-directory-tree folder :validate t))
    (with-open-file (stream temporary :direction :output :element-type '(unsigned-byte 8)
                                      :if-exists :supersede)
      (write-sequence octets stream))
    (rename-file temporary path)
    path))

(defun finish-tap (tap complete)
  "Hand TAP and its sidecar to the sink, unless nothing was read."
  (declare (type tap tap))
  (when (and *tap-sink* (tap-stream tap) (tap-file-info tap))
    (setf (tap-count tap) 0)
    (funcall *tap-sink* tap (tap-sidecar tap (truename (tap-stream tap)) complete))))

(defun trim-tap (tap)
  "Let go of all that TAP holds, the positions of forms excepted."
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

;;; What the compiler sees

(defun own-tap (source-info)
  "The current tap, if it records the file of SOURCE-INFO."
  (let ((tap *tap*))
    (when (and tap source-info)
      (let ((file-info (source-info-file-info source-info)))
        (unless (tap-file-info tap)
          (when (eq (tap-stream tap) (source-info-stream source-info))
            (setf (tap-file-info tap) file-info)))
        (when (eq (tap-file-info tap) file-info)
          tap)))))

(defun tapped-find-source-paths (function form toplevel-form)
  "Around FIND-SOURCE-PATHS: FORM has been read and numbered."
  (funcall function form toplevel-form)
  (let ((tap (own-tap (current-source-info))))
    (when tap
      (let ((forms (file-info-forms (tap-file-info tap))))
        (when (and (< toplevel-form (length forms))
                   (eq form (aref forms toplevel-form)))
          (tap-toplevel-form tap form toplevel-form)))))
  (values))

(defun tapped-make-observer (function file-info)
  "Around MAKE-FORM-TRACKING-STREAM-OBSERVER: the stream of FILE-INFO has been opened."
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
  "Around SUB-COMPILE-FILE: one file is compiled."
  (if (null *tap-sink*)
      (apply function source-info arguments)
      (let* ((file-info (source-info-file-info source-info))
             (*tap* (%make-tap :file-info file-info)))
        (unwind-protect (apply function source-info arguments)
          (setf (tap-stream *tap*) (source-info-stream source-info))
          (finish-tap *tap* (at-end-p (tap-stream *tap*)))))))

(defun tapped-load-as-source (function stream &rest arguments)
  "Around LOAD-AS-SOURCE: one file is loaded as source."
  (if (or (null *tap-sink*) (not (form-tracking-stream-p stream)))
      (let ((*tap* nil))
        (apply function stream arguments))
      (let ((*tap* (%make-tap :stream stream :source-load t)))
        (setf (stream-observer stream) (make-tap-observer *tap*))
        ;; A form that fails ends the load; what was loaded before it is known all the same.
        (unwind-protect (apply function stream arguments)
          (finish-tap *tap* (at-end-p stream))))))

(defun at-end-p (stream)
  "True when STREAM has been read to its end."
  (and stream
       (open-stream-p stream)
       (eq (when-file-permits (peek-char nil stream nil :end)) :end)))

(defun tap-node-uses (tap function path)
  "Call FUNCTION of a fresh functional, and record in TAP what it noted there, standing at PATH."
  (let ((context (or (tap-context tap) (setf (tap-context tap) (make-functional)))))
    (setf (functional-uses context) nil)
    (funcall function context)
    (loop for (kind records) on (functional-uses context) by #'cddr
          do (loop for (name . number) in records
                   do (push (list (use-kind-number kind) name
                                  (source-path-toplevel-form path) number)
                            (tap-uses tap))))))

(defun note-local (tap toplevel name bit)
  "Record that NAME is bound locally in top-level form TOPLEVEL, if it is a symbol that the file names."
  (let ((index (and (symbolp name) (gethash name (tap-names tap)))))
    (when index
      (setf (gethash (logior (ash toplevel 32) (* 2 index) bit) (tap-locals tap)) t))))

(defun global-variable-p (name)
  "True when NAME cannot name a lexical variable."
  (and (symbolp name)
       (member (variable-kind name) '(:special :global :constant :always-bound))
       t))

(defun note-lambda-locals (tap toplevel clambda)
  "Record the names that CLAMBDA binds, its own local name and its variables, in TAP for form TOPLEVEL."
  (let ((name (functional-name clambda)))
    (when (typep name '(cons (member flet labels) cons))
      (note-local tap toplevel (second name) 1))
    (dolist (variable (lambda-variables clambda))
      ;; The entry points of a function with optional parameters have lexical copies of special ones.
      (unless (or (variable-special-p variable)
                  (global-variable-p (variable-name variable)))
        (note-local tap toplevel (variable-name variable) 0)))))

(defun note-component-locals (tap component)
  "Record the names bound in COMPONENT, which belongs to the form read last: it, or a macro inside it, is being
compiled."
  (let ((toplevel (and (tap-file-info tap)
                       (1- (length (file-info-forms (tap-file-info tap)))))))
    (when (and toplevel (>= toplevel 0))
      (dolist (clambda (component-lambdas component))
        (note-lambda-locals tap toplevel clambda)
        (dolist (inner (let-converted-lambdas clambda))
          (note-lambda-locals tap toplevel inner))))))

(defun tapped-record-component-xrefs (function component)
  "Around RECORD-COMPONENT-XREFS, which records nothing for top-level code."
  (funcall function component)
  (let ((tap (own-tap (current-source-info))))
    (when *tap*
      (note-component-locals *tap* component))
    (when (and tap (component-toplevel-p component))
      (do-component-blocks (block component)
        (when (toplevel-block-p block)
          (do-block-nodes (node block)
            (let ((path (node-path node)))
              (when (source-path-form-number path)
                (tap-node-uses tap (lambda (context) (note-node-uses node context)) path))))
          (loop for (kind what path) in (block-xrefs block)
                when (source-path-form-number path)
                  do (tap-node-uses tap
                                    (lambda (context) (note-use kind what context path))
                                    path)))))))

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
