;;;; The Lisp half of steelbank. Loads in a plain SBCL too: (asdf:load-system "steelbank").

(asdf:defsystem "steelbank"
  :description "The Lisp half of steelbank: what the core answers."
  :license "MIT OR Apache-2.0"
  :depends-on ("sb-introspect" "sb-posix" "uiop")
  :serial t
  :components ((:file "package")
               (:file "internals")
               (:file "boundary/json")
               (:file "ask/names")
               (:file "boundary/streams")
               (:file "boundary/faults")
               (:file "boundary/boundary")
               (:file "ask/describe")
               (:file "index/columns")
               (:file "index/symbols")
               (:file "index/xref")
               (:file "tap")
               (:file "load/fasls")
               (:file "load/session")
               (:file "load/diagnostics")
               (:file "load/failures")
               (:file "load/redefinitions")
               (:file "load/hooks")
               (:file "load/load")
               (:file "load/systems")
               (:file "load/leftovers")
               (:file "load/snapshot")
               (:file "ask/definitions")
               (:file "ask/questions")
               (:file "ask/apropos")
               (:file "ask/packages")
               (:file "ask/macroexpand")
               (:file "ask/impact")
               (:file "try/handles")
               (:file "try/printing")
               (:file "try/frames")
               (:file "try/trial")
               (:file "try/evaluate")
               (:file "try/inspect")
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
               (:file "project")
               (:file "internals"))
  :perform (asdf:test-op (operation component)
             (declare (ignore operation component))
             (uiop:symbol-call :steelbank-tests :run)))
