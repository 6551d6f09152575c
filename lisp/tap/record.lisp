;;;; The token tap records what SBCL's own reader and compiler process while a file is compiled or
;;;; loaded as source.
;;;;
;;;; The reader reports (start end object) for every list and token to the observer of a
;;;; form-tracking stream, and the compiler numbers the sub-forms of each top-level form.
;;;; Encapsulations record both, so that a position is exact under any readtable, feature expression
;;;; or package. The record of one file is an octet vector, its *sidecar*, which is stored in the
;;;; cache next to the fasls.
;;;;
;;;; This file defines the record of the file that is being read, and appends octets to it.

(in-package :steelbank)

(defstruct (tap (:constructor %make-tap))
  "The record of one file while it is read. FILE-INFO and STREAM identify the file."
  ;; SOURCE-LOAD is true if the file is loaded as source instead of compiled; then FAILED is true
  ;; until the load succeeds. EXTERNAL-FORMAT is the stream's. FINISHED is true when the sink has
  ;; received the record.
  ;;
  ;; STARTS, ENDS and OBJECTS hold COUNT events that are not written yet. BUFFER holds FILL octets
  ;; of written events. NAMES maps symbols and strings to indices; NAME-LIST lists them, newest
  ;; first. USES are lists of kind, name, top-level form and form number. CONTEXT is a functional in
  ;; which SBCL records uses. NOTE-LOCAL packs the keys of LOCALS. POSITIONS contains, for each
  ;; top-level form, a vector from form numbers to positions.
  (file-info nil) (stream nil)
  (source-load nil) (failed nil)
  (external-format "" :type string)
  (finished nil)
  (starts (make-array 512 :element-type 'fixnum) :type (simple-array fixnum (*)))
  (ends (make-array 512 :element-type 'fixnum) :type (simple-array fixnum (*)))
  (objects (make-array 512) :type simple-vector)
  (content-hash 0 :type (unsigned-byte 64))
  (count 0 :type fixnum) (last-start 0 :type fixnum)
  ;; Not EQ, because an address-based table is rehashed after each collection.
  (names (make-hash-table :test 'equal) :type hash-table)
  (name-list '() :type list)
  (buffer (make-array 4096 :element-type '(unsigned-byte 8)) :type octets)
  (fill 0 :type fixnum) (form-count 0 :type fixnum)
  (uses '() :type list)
  (context nil)
  (locals (make-hash-table) :type hash-table)
  (positions (make-array 64 :adjustable t :fill-pointer 0)))

(defvar *tap* nil
  "The tap of the file that is being read on this thread, or NIL.")

(defvar *tap-sink* nil
  "A function of a finished tap and its sidecar, called after each file, or NIL to record nothing.")

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
  "Append STRING to the events of TAP as byte count and UTF-8."
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
  "Return the index of NAME, a symbol or a string, in the table of TAP."
  (declare (type tap tap) (type (or symbol string) name))
  (let ((names (tap-names tap)))
    (or (gethash name names)
        (progn (push name (tap-name-list tap))
               (setf (gethash name names) (hash-table-count names))))))
