(defsystem "contracts"
  :serial t
  :components ((:file "package") (:file "main") (:file "values") (:file "src/run") (:file "tests/integration-test")
               (:file "made/generated") (:file "crlf") (:file "bom") (:file "unicode")))
