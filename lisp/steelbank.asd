;;;; The Lisp half of steelbank. Loads in a plain SBCL too: (asdf:load-system "steelbank").

(asdf:defsystem "steelbank"
  :description "The Lisp half of steelbank: what the core answers."
  :license "MIT OR Apache-2.0"
  :depends-on ("sb-introspect" "uiop")
  :serial t
  :components ((:file "package")
               (:file "json")
               (:file "names")
               (:file "streams")
               (:file "faults")
               (:file "boundary")
               (:file "describe")
               (:file "columns")
               (:file "symbols")
               (:file "xref")
               (:file "tap")
               (:file "fasls")
               (:file "project")
               (:file "definitions")
               (:file "operations"))
  :in-order-to ((asdf:test-op (asdf:test-op "steelbank/tests"))))

(asdf:defsystem "steelbank/tests"
  :description "Tests of the Lisp half, for any SBCL."
  :depends-on ("steelbank" "sb-rt")
  :pathname "tests"
  :serial t
  :components ((:file "package")
               (:file "names")
               (:file "describe")
               (:file "xref")
               (:file "tap")
               (:file "project"))
  :perform (asdf:test-op (operation component)
             (declare (ignore operation component))
             (uiop:symbol-call :steelbank-tests :run)))
