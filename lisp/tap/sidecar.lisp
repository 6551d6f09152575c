;;;; The sidecar: the record of one file as octets, and its place in the cache.
;;;;
;;;; Format, version 3. u = unsigned LEB128; s = zigzag LEB128; text = u octet count, UTF-8 octets.
;;;;   "SBTAP" octet 0, octet version
;;;;   octet         1 if the file was read completely, 0 if reading stopped early
;;;;   8 octets      FNV-1a 64 of the file's octets, little-endian
;;;;   u             size of the file in octets
;;;;   u             write date (universal time), as in a definition source and the debug source
;;;;   text          native truename
;;;;   text          name of the external format, upcased ("UTF-8")
;;;;   u, s...       newlines: count, then each position minus the previous one (from 0)
;;;;   u, entries    symbols: count, then each one of:
;;;;                   octet 0 (interned), text package, text name; instead of 0 the octet is
;;;;                     3 for the name of a function, 4 of a macro or special operator, 5 of a
;;;;                     symbol macro, as of the end of reading
;;;;                   octet 1 (uninterned), text name
;;;;                   octet 2 (string), text
;;;;   u, forms      top-level forms: count, then each:
;;;;     u             top-level form number
;;;;     u             event count, then each event, children before their parent:
;;;;       octet         kind, as below, + 16 * operator: 1 (quote x), 2 (function x),
;;;;                     3 a backquoted form, 4 a comma, 0 anything else; in any notation
;;;;       s             start minus the start of the previous event (from 0 for the first one)
;;;;       u             length
;;;;       u             position in the parent plus 1; 1 is the operator, 0 means no element
;;;;       u             kind 0: form number; kinds 2 and 3: index of the symbol or string;
;;;;                     absent for other kinds
;;;;   u, uses       top-level uses: count, then each: octet kind (0 binds, 1 calls, 2 sets,
;;;;                 3 references, 4 macroexpands), u 2 * symbol index (+ 1 for (setf symbol)),
;;;;                 u top-level form, u form number
;;;;   u, locals     names bound locally: count, then each: u top-level form, u 2 * symbol index
;;;;                 (+ 1 for a function, + 0 for a variable)
;;;;   8 octets      FNV-1a 64 of all preceding octets, little-endian
;;;; Event kinds: 0 a form with a number; 1 a list without a number (quoted data); 2 a symbol; 3 a
;;;; string in a package definition; 4 another object that contains events (a vector, a comma, #.
;;;; and others). Positions and lengths count decoded characters; a byte order mark counts as one.

(in-package :steelbank)

(defconstant +sidecar-version+ 3
  "The version of the format described at the top of this file.")

(defun external-format-name (stream)
  "Return the name of the external format of STREAM, upcased."
  (let ((format (stream-external-format stream)))
    (symbol-name (if (consp format) (car format) format))))

(defun implementation-symbol-p (symbol)
  "Return true if SYMBOL is uninterned or SBCL's and not standard, as in macro expansions."
  (let ((package (symbol-package symbol)))
    (or (null package)
        (and (system-package-p package)
             (not (eq package (find-package :common-lisp)))))))

(defun tap-sidecar (tap path complete)
  "Return the sidecar of TAP for the file PATH. COMPLETE is true if the file was read to its end."
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
                     unless (or (gethash use seen) (not (symbolp symbol))
                                (implementation-symbol-p symbol))
                       collect (list kind (+ (* 2 (tap-name head symbol)) (if setf 1 0))
                                     toplevel number)
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
    (tap-text head (tap-external-format tap))
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
  "Return the file name of the sidecar of TRUENAME as it was at WRITE-DATE."
  (declare (type pathname truename) (type (integer 0) write-date))
  (let* ((name (sb-ext:native-namestring truename))
         (octets (coerce (sb-ext:string-to-octets name :external-format :utf-8) 'octets)))
    (format nil "~(~16,'0X~)-~D.tap" (fnv-1a octets) write-date)))

(defun sidecar-truename (octets)
  "Return the native truename in OCTETS, an intact sidecar."
  (let ((at 16))
    (flet ((unsigned ()
             (loop for shift from 0 by 7
                   for octet = (aref octets (shiftf at (1+ at)))
                   sum (ash (logand octet 127) shift)
                   while (>= octet 128))))
      ;; Skip size and date.
      (unsigned)
      (unsigned)
      (let ((length (unsigned)))
        (sb-ext:octets-to-string octets :external-format :utf-8 :start at :end (+ at length))))))

(defun sidecar-state (octets)
  "Return the state of the sidecar OCTETS, and the content hash and native truename of its file."
  ;; The state is :COMPLETE or :INCOMPLETE. Return NIL if the sidecar is damaged or of another
  ;; version.
  (declare (type octets octets))
  (let ((end (- (length octets) 8)))
    (flet ((word (start)
             (loop for index below 8
                   sum (ash (aref octets (+ start index)) (* 8 index)))))
      (when (and (> end 16)
                 (= (aref octets 6) +sidecar-version+)
                 (= (word end) (fnv-1a octets end)))
        (values (if (= (aref octets 7) 1) :complete :incomplete)
                (word 8)
                (sidecar-truename octets))))))

(defun better-sidecar-p (known sidecar)
  "Return true if SIDECAR need not replace KNOWN, the octets that are already stored."
  ;; This is so if the two are equal, or if KNOWN is complete, SIDECAR is incomplete, and both
  ;; describe a file with the same contents.
  (declare (type octets known sidecar))
  (or (equalp known sidecar)
      (and (/= (aref sidecar 7) 1)
           (multiple-value-bind (state hash) (sidecar-state known)
             (and (eq state :complete)
                  (= hash (loop for index below 8
                                sum (ash (aref sidecar (+ 8 index)) (* 8 index)))))))))

(defun write-sidecar (tap sidecar directory)
  "Write SIDECAR, of TAP, into DIRECTORY atomically, unless the same or a better one exists."
  (declare (type tap tap) (type octets sidecar) (type pathname directory))
  (let* ((name (sidecar-name (truename (tap-stream tap))
                             (file-info-write-date (tap-file-info tap))))
         (path (merge-pathnames (sb-ext:parse-native-namestring name) directory)))
    (unless (better-sidecar-p (octets-if-any path) sidecar)
      (replace-file path sidecar))
    path))
