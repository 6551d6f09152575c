;;;; Tests that SBCL's internals are as expected, that the table of internals is complete, and that
;;;; only lisp/internals/ names internals.

(in-package :steelbank-tests)

(defparameter *documented*
  '("INT-SAP" "SAP-INT" "SAP-REF-32" "SAP-REF-64" "SAP-REF-WORD" "SAP-REF-SAP" "SIGNED-SAP-REF-64"
    "SYSTEM-AREA-POINTER" "VECTOR-SAP" "WITH-INTERRUPTS" "WITH-PINNED-OBJECTS" "WITHOUT-INTERRUPTS")
  "The symbols of SB-SYS that SBCL's manual describes.")

(defparameter *allowed*
  '(;; The self-test uses this before the Lisp half is loaded.
    ("self-test" "SB-DI" . "FORM-NUMBER-TRANSLATIONS")
    ;; A test compares positions with the form numbers that the running SBCL assigns.
    ("tap" "SB-DI" . "FORM-NUMBER-TRANSLATIONS")
    ;; A program in the text of a test signals this condition.
    ("project" "SB-KERNEL" . "HEAP-EXHAUSTED-ERROR")
    ;; The expected description of a structure contains this name.
    ("describe" "SB-PCL" . "SLOT-OBJECT"))
  "Internals that may be named outside lisp/internals/: file and symbol.")

(defun public-package-p (name)
  "Return true if the package called NAME is documented as public, or belongs to a contrib."
  (or (member name '("SB-INTROSPECT" "SB-POSIX" "SB-RT") :test #'string=)
      (let ((package (find-package name)))
        (and package
             (eql (search "public" (documentation package t)) 0)))))

(defun internal-p (package name exported)
  "Return true if NAME of PACKAGE, a package of SBCL's, is an internal."
  ;; EXPORTED is true if the symbol is written with a single colon.
  (not (and exported
            (or (public-package-p package)
                (and (string= package "SB-SYS")
                     (member name *documented* :test #'string=))))))

(defun internals-in-line (line)
  "Return the internals of SBCL that LINE names, as (package . name)."
  (flet ((constituent-p (character) (not (find character " ()'\"`,;")))
         (package-part-p (character) (or (alphanumericp character) (char= character #\-))))
    (loop with start = 0
          for colon = (position #\: line :start start)
          while colon
          for before = (or (position-if-not #'package-part-p line :end colon :from-end t) -1)
          for double = (eql (mismatch "::" line :start2 colon) 2)
          for name-start = (+ colon (if double 2 1))
          for end = (or (position-if-not #'constituent-p line :start name-start) (length line))
          for package = (string-upcase (subseq line (1+ before) colon))
          for name = (string-right-trim ".:" (string-upcase (subseq line name-start end)))
          when (and (uiop:string-prefix-p "SB-" package)
                    (plusp (length name))
                    (internal-p package name (not double)))
            collect (cons package name)
          do (setf start name-start))))

(defun internals-in-file (path)
  "Return the internals of SBCL that the file PATH names, in code, comments and strings."
  (with-open-file (stream path :external-format :utf-8)
    (remove-duplicates (loop for line = (read-line stream nil)
                             while line
                             nconc (internals-in-line line))
                       :test #'equal)))

(defun own-files (inside)
  "Return the Lisp half's files in lisp/internals/, if INSIDE, or else its other files."
  ;; Omit this file, because it names internals to search for them.
  (remove-if (lambda (path)
               (or (string= (pathname-name path) "internals")
                   (eq inside (not (member "internals" (pathname-directory path) :test #'equal)))))
             (directory (merge-pathnames "**/*.lisp" (asdf:system-source-directory "steelbank")))))

(deftest internals-are-as-expected
    (steelbank::internal-differences)
  nil)

(deftest table-of-internals-is-complete
    (let ((used (remove-duplicates (mapcan #'internals-in-file (own-files t)) :test #'equal))
          (known (loop for (package name) in steelbank::*internals* collect (cons package name))))
      (list (> (length used) 200)
            (set-difference used known :test #'equal)
            (set-difference known used :test #'equal)))
  (t nil nil))

(deftest only-internals-folder-names-internals
    (loop for path in (own-files nil)
          nconc (loop for (package . name) in (internals-in-file path)
                      unless (member (list* (pathname-name path) package name) *allowed*
                                     :test #'equal)
                        collect (format nil "~A.lisp names ~A::~A; define a name for it in ~
                                             lisp/internals/."
                                        (pathname-name path) package name)))
  nil)

(deftest internals-are-found-in-any-spelling
    (mapcar #'internals-in-line
            '("(sb-c::debug-info x)" "(sb-kernel:%fun-name f)"
              "(sb-ext:gc :full t) (sb-mop:class-slots class)"
              "'sb-thread::thread-interruptions ; SB-SYS:SAP-INT"
              "(sb-alien:alien-sap (sb-alien::some-thing))"))
  ((("SB-C" . "DEBUG-INFO")) (("SB-KERNEL" . "%FUN-NAME")) nil
   (("SB-THREAD" . "THREAD-INTERRUPTIONS")) (("SB-ALIEN" . "SOME-THING"))))

(deftest differences-name-the-symbol
    (list (steelbank::internal-difference "SB-C" "NO-SUCH-THING" :function "()")
          (steelbank::internal-difference "SB-C" "FIND-SOURCE-PATHS" :macro "()" "(X)")
          (steelbank::internal-difference "SB-C" "FIND-SOURCE-PATHS" :function
                                          "()" "(FORM TLF-NUM)"))
  ("SB-C::NO-SUCH-THING does not exist."
   "SB-C::FIND-SOURCE-PATHS is a function (FORM TLF-NUM); expected a macro () or (X)."
   nil))
