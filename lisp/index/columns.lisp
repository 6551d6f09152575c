;;;; Packs columns of 32-bit numbers and a table of strings into one octet vector for the host.
;;;;
;;;; A pack consists of a magic text, 64-bit numbers, the strings, and tables. A table is a row
;;;; count, and then its columns, each with one number for each row. All numbers are little-endian.
;;;; crates/xref/src/export.rs reads packs.

(in-package :steelbank)

(deftype octets () '(simple-array (unsigned-byte 8) (*)))
(deftype cells () '(simple-array (unsigned-byte 32) (*)))

(defconstant +none+ #xFFFFFFFF
  "The value of an empty cell.")

(defstruct (table (:constructor %make-table (width cells)))
  "Rows of WIDTH numbers, appended one row at a time."
  (width 0 :type (integer 1 32))
  (fill 0 :type (unsigned-byte 32))
  (cells (make-array 0 :element-type '(unsigned-byte 32)) :type cells))

(defun make-table (width)
  "Create an empty table of WIDTH columns."
  (check-type width (integer 1 32))
  (%make-table width (make-array (* width 64) :element-type '(unsigned-byte 32))))

(defun table-count (table)
  "Return the number of rows of TABLE."
  (floor (table-fill table) (table-width table)))

(defun add-row (table &rest row)
  "Append ROW, one number for each column, with NIL for +NONE+. Return the row's index."
  (declare (dynamic-extent row) (type table table) (optimize speed))
  (let ((fill (table-fill table))
        (cells (table-cells table)))
    (declare (type (unsigned-byte 32) fill))
    (when (> (+ fill (table-width table)) (length cells))
      (let ((larger (make-array (* 2 (length cells)) :element-type '(unsigned-byte 32))))
        (setf cells (replace larger cells)
              (table-cells table) larger)))
    (let ((next fill))
      (declare (type (unsigned-byte 32) next))
      (dolist (number row)
        (setf (aref cells next) (the (unsigned-byte 32) (or number +none+)))
        (incf next))
      (setf (table-fill table) next))
    (values (truncate fill (table-width table)))))

(defun row-cell (table row column)
  "Return the number in COLUMN of ROW."
  (aref (table-cells table) (+ (* row (table-width table)) column)))

(defun (setf row-cell) (number table row column)
  "Replace the number in COLUMN of ROW."
  (setf (aref (table-cells table) (+ (* row (table-width table)) column)) number))

;;; Strings

(defstruct (string-pool (:constructor make-string-pool ()))
  "Distinct strings, numbered in order of insertion."
  (numbers (make-hash-table :test 'equal) :type hash-table :read-only t)
  (strings (make-array 256 :adjustable t :fill-pointer 0)
   :type (and vector (not simple-array)) :read-only t))

(defun pool-string (pool string)
  "Return the number of STRING in POOL, after adding it if it is new."
  (let ((numbers (string-pool-numbers pool)))
    (or (gethash string numbers)
        (setf (gethash string numbers)
              (vector-push-extend string (string-pool-strings pool))))))

;;; Packing

(declaim (inline pack-word))
(defun pack-word (octets start number)
  "Store NUMBER as four octets, least significant first."
  (declare (type octets octets) (type (unsigned-byte 32) number) (type (unsigned-byte 40) start)
           (optimize speed))
  (setf (aref octets start) (ldb (byte 8 0) number)
        (aref octets (+ start 1)) (ldb (byte 8 8) number)
        (aref octets (+ start 2)) (ldb (byte 8 16) number)
        (aref octets (+ start 3)) (ldb (byte 8 24) number))
  octets)

(defun pack-table (table octets start)
  "Write TABLE into OCTETS from START: the row count, then column by column. Return the end."
  (declare (type octets octets) (type (unsigned-byte 40) start) (optimize speed))
  (let* ((count (table-count table))
         (width (table-width table))
         (cells (table-cells table))
         (at start))
    (declare (type (unsigned-byte 40) at) (type (unsigned-byte 32) count))
    (pack-word octets at count)
    (incf at 4)
    (dotimes (column width at)
      (loop for cell of-type (unsigned-byte 40) from column by width
            repeat count
            do (pack-word octets at (aref cells cell))
               (incf at 4)))))

(defun surrogate-p (character)
  "Return true if CHARACTER is a surrogate, which Lisp strings can contain and UTF-8 cannot."
  (<= #xd800 (char-code character) #xdfff))

(defun ascii-octets (name)
  "Return NAME as octets if it consists of ASCII characters only, else NIL."
  (declare (optimize speed))
  (when (typep name 'plain-string)
    (with-plain-string (name)
      (let ((octets (make-array (length name) :element-type '(unsigned-byte 8))))
        (dotimes (at (length name) octets)
          (let ((code (char-code (schar name at))))
            (when (> code 127)
              (return nil))
            (setf (aref octets at) code)))))))

(defun name-octets (name)
  "Return NAME as UTF-8, with surrogates written as \\ud800."
  (cond ((ascii-octets name))
        ((find-if #'surrogate-p name)
         (text-octets (with-output-to-string (text)
                        (loop for character across name
                              do (if (surrogate-p character)
                                     (format text "\\u~(~x~)" (char-code character))
                                     (write-char character text))))))
        (t (sb-ext:string-to-octets name :external-format :utf-8))))

(defun pack (magic numbers pool tables)
  "Return one octet vector with the text MAGIC, NUMBERS as 64-bit words, POOL, and TABLES."
  (check-type magic (simple-string 8))
  (let* ((encoded (map 'vector #'name-octets (string-pool-strings pool)))
         (blob (reduce #'+ encoded :key #'length))
         (size (+ 8 (* 8 (length numbers))
                  4 (* 4 (length encoded)) (* 4 (ceiling blob 4))
                  (loop for table in tables sum (+ 4 (* 4 (table-fill table))))))
         (octets (make-array size :element-type '(unsigned-byte 8) :initial-element 0))
         (at 0))
    (flet ((word (number) (pack-word octets at number) (incf at 4)))
      (loop for char across magic
            do (setf (aref octets at) (char-code char))
               (incf at))
      (dolist (number numbers)
        (word (ldb (byte 32 0) number))
        (word (ldb (byte 32 32) number)))
      (word (length encoded))
      (let ((end 0))
        (loop for string across encoded do (word (incf end (length string)))))
      (let ((end at))
        (loop for string of-type octets across encoded
              do (replace octets string :start1 end)
                 (incf end (length string))))
      (incf at (* 4 (ceiling blob 4)))
      (dolist (table tables)
        (setf at (pack-table table octets at))))
    octets))
