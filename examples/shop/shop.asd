;;;; A small project to ask questions about: README's examples run here.

(defsystem "shop"
  :description "Prices, carts and receipts."
  :serial t
  :components ((:file "package")
               (:file "prices")
               (:file "cart"))
  :in-order-to ((test-op (test-op "shop/tests"))))

(defsystem "shop/tests"
  :depends-on ("shop")
  :pathname "tests"
  :components ((:file "cart"))
  :perform (test-op (operation component)
             (declare (ignore operation component))
             (uiop:symbol-call :shop-tests :run)))
