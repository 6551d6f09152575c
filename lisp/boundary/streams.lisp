;;;; The streams of a call: output is collected up to a limit, and input is always at its end.

(in-package :steelbank)

(defclass limited-output (sb-gray:fundamental-character-output-stream)
  ((text :initform (make-array 256 :element-type 'character :adjustable t :fill-pointer 0)
         :reader output-text
         :documentation "The collected text.")
   (limit :initarg :limit
          :reader output-limit
          :documentation "The maximum number of characters to collect.")
   (dropped :initform 0
            :accessor output-dropped
            :documentation "The number of characters beyond the limit.")
   (when-full :initarg :when-full
              :initform nil
              :reader output-when-full
              :documentation "A function to call at the first dropped character, or NIL."))
  (:documentation "Collects characters up to a limit, and counts further characters."))

(defun collect-output (stream string start end)
  "Append the part of STRING from START to END to the text of STREAM, up to its limit."
  (let* ((text (output-text stream))
         (used (fill-pointer text))
         (taken (min (- end start) (- (output-limit stream) used)))
         (rest (- end start taken)))
    (when (plusp taken)
      (let ((needed (+ used taken)))
        (when (> needed (array-dimension text 0))
          (setf text (adjust-array text (min (output-limit stream) (* 2 needed)))))
        (setf (fill-pointer text) needed)
        (replace text string :start1 used :start2 start :end2 (+ start taken))))
    (when (plusp rest)
      (let ((first-time (zerop (output-dropped stream))))
        (incf (output-dropped stream) rest)
        (when (and first-time (output-when-full stream))
          (funcall (output-when-full stream)))))))

(defmethod sb-gray:stream-write-char ((stream limited-output) character)
  (let ((text (output-text stream)))
    (if (< (fill-pointer text) (min (output-limit stream) (array-dimension text 0)))
        (vector-push character text)
        (collect-output stream (string character) 0 1)))
  character)

(defmethod sb-gray:stream-write-string ((stream limited-output) string &optional (start 0) end)
  (collect-output stream string start (or end (length string)))
  string)

(defmethod sb-gray:stream-line-column ((stream limited-output))
  (let* ((text (output-text stream))
         (newline (position #\newline text :from-end t)))
    (- (fill-pointer text) (if newline (1+ newline) 0))))

(defclass empty-input (sb-gray:fundamental-character-input-stream)
  ()
  (:documentation "Input that is always at its end, because a server has no terminal."))

(defmethod sb-gray:stream-read-char ((stream empty-input))
  :eof)

(defmethod sb-gray:stream-unread-char ((stream empty-input) character)
  (declare (ignore character))
  nil)

(defmethod sb-gray:stream-line-column ((stream empty-input))
  nil)

(defmethod sb-gray:stream-line-length ((stream empty-input))
  nil)

(defmacro with-streams ((output input) &body body)
  "Run BODY with every standard stream reading from INPUT or writing to OUTPUT."
  (let ((both (gensym "BOTH")))
    `(let* ((,both (make-two-way-stream ,input ,output))
            (*standard-output* ,output) (*error-output* ,output) (*trace-output* ,output)
            (*standard-input* ,input)
            (*terminal-io* ,both) (*query-io* ,both) (*debug-io* ,both))
       ,@body)))
