;;;; A system with a file for each rule about positions; goldens.txt has the expected positions.

(defpackage :torture-system
  (:use :common-lisp))

(in-package :torture-system)

(defclass latin-1-file (asdf:cl-source-file) ())

(defmethod asdf:component-external-format ((file latin-1-file))
  :latin-1)

(asdf:defsystem "torture"
  :serial t
  :components ((:file "package")
               (:file "reading")
               (:file "macros")
               (:file "objects")
               (:file "toplevel")
               (:file "endings")
               (:file "marked")
               (latin-1-file "latin")
               (:file "unicode")
               (:file "doubts")))
