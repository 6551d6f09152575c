;;;; The Lisp half of steelbank. It also loads in a plain SBCL: (asdf:load-system "steelbank").

(asdf:defsystem "steelbank"
  :description "The Lisp half of steelbank, which runs inside the core."
  :license "MIT OR Apache-2.0"
  :depends-on ("sb-introspect" "sb-posix" "uiop")
  :serial t
  :components ((:file "package")
               (:file "internals/table") (:file "internals/inline") (:file "internals/names")
               (:file "internals/code") (:file "internals/compiler") (:file "internals/files")
               (:file "internals/debugger") (:file "internals/objects") (:file "internals/runtime")
               (:file "boundary/json") (:file "boundary/guards")
               (:file "ask/names")
               (:file "boundary/streams") (:file "boundary/faults") (:file "boundary/boundary")
               (:file "ask/buffers") (:file "ask/describe")
               (:file "index/columns") (:file "index/symbols") (:file "index/code")
               (:file "index/xref")
               (:file "tap/files") (:file "tap/record") (:file "tap/events")
               (:file "tap/sidecar") (:file "tap/compiler") (:file "tap/install")
               (:file "load/versions") (:file "load/session") (:file "load/fasls")
               (:file "load/diagnostics") (:file "load/failures") (:file "load/redefinitions")
               (:file "load/up-to-date") (:file "load/definitions") (:file "load/memory")
               (:file "load/constructors") (:file "load/hooks") (:file "load/load")
               (:file "load/systems") (:file "load/swank") (:file "load/leftovers")
               (:file "load/snapshot")
               (:file "ask/definitions") (:file "ask/questions") (:file "ask/apropos")
               (:file "ask/packages") (:file "ask/macroexpand") (:file "ask/impact")
               (:file "ask/facts") (:file "ask/refusals")
               (:file "try/handles") (:file "try/printing") (:file "try/frames")
               (:file "try/trial") (:file "try/evaluate") (:file "try/inspect")
               (:file "try/tests") (:file "try/frameworks") (:file "try/look-ups")
               (:file "try/disassemble") (:file "try/notes"))
  :in-order-to ((asdf:test-op (asdf:test-op "steelbank/tests"))))

(asdf:defsystem "steelbank/tests"
  :description "Tests of the Lisp half, for any SBCL."
  :depends-on ("steelbank" "sb-rt")
  :pathname "tests"
  :serial t
  :components ((:file "package") (:file "names") (:file "describe") (:file "xref") (:file "tap")
               (:file "project") (:file "up-to-date") (:file "versions") (:file "internals")
               (:file "constructors") (:file "guards"))
  :perform (asdf:test-op (operation component)
             (declare (ignore operation component))
             (uiop:symbol-call :steelbank-tests :run)))
