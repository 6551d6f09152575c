;;; Characters of two, three and four octets: λ — 𝛼.
(in-package :torture)

(defun größe (λ) "日本語𝛼" (target "ω𝛼") (target λ))

(defun außen (x) (list "𝛼𝛼" (größe x)))
