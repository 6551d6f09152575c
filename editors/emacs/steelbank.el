;;; steelbank.el --- Exact references, definitions and renames of Common Lisp  -*- lexical-binding: t -*-

;; Package-Requires: ((emacs "28.1"))
;; Version: 0.2.0
;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; An xref backend and commands for use with SLIME or Sly.  M-? and M-. query `steelbank lsp', which
;; runs in a separate Lisp image.  Enable it with (add-hook 'lisp-mode-hook #'steelbank-mode).  With
;; eglot or lsp-mode you do not need it; see docs/editors.md.

;;; Code:

(require 'cl-lib)
(require 'jsonrpc)
(require 'project)
(require 'url-parse)
(require 'url-util)
(require 'xref)

(defgroup steelbank nil "Common Lisp code intelligence." :group 'lisp)

(defcustom steelbank-program "steelbank"
  "The steelbank program."
  :type 'string :risky t)

(defcustom steelbank-arguments '("--system" "auto" "lsp")
  "Arguments of `steelbank-program'.
--system auto loads the project's systems, which runs their code."
  :type '(repeat string) :risky t)

(defcustom steelbank-timeout 300
  "Maximum number of seconds to wait for an answer."
  :type 'integer)

(defvar steelbank--connections (make-hash-table :test #'equal)
  "Hash table from the folders of projects to their servers' connections.")

(defvar-local steelbank--sent nil
  "The connection that has this buffer open, and the sent text's tick and version.")

;;; The connection

(defun steelbank--root ()
  "Return the folder of this buffer's project."
  (let ((project (project-current)))
    (file-truename (cond ((null project) default-directory)
                         ((fboundp 'project-root) (project-root project))
                         (t (car (project-roots project)))))))

(defun steelbank--uri (file)
  "Return the URI of FILE."
  (concat "file://" (url-hexify-string (file-truename file) url-path-allowed-chars)))

(defun steelbank--file (uri)
  "Return the file that URI names."
  (decode-coding-string (url-unhex-string (url-filename (url-generic-parse-url uri))) 'utf-8))

(defun steelbank--connect (root)
  "Start a server for the project in ROOT, and return the connection."
  (let* ((default-directory root)
         (connection
          (make-instance 'jsonrpc-process-connection
                         :name (format "steelbank %s" (abbreviate-file-name root))
                         :process (lambda ()
                                    (make-process :name "steelbank" :connection-type 'pipe :noquery t :coding 'utf-8-emacs-unix
                                                  :command (cons steelbank-program steelbank-arguments)
                                                  :stderr (get-buffer-create " *steelbank*")))
                         :notification-dispatcher #'steelbank--notified
                         :request-dispatcher #'ignore
                         :on-shutdown (lambda (_) (remhash root steelbank--connections)))))
    (jsonrpc-request connection :initialize
                     `(:processId ,(emacs-pid) :rootUri ,(steelbank--uri root)
                       :capabilities (:general (:positionEncodings ["utf-8"])))
                     :timeout steelbank-timeout)
    (jsonrpc-notify connection :initialized (make-hash-table))
    (puthash root connection steelbank--connections)))

(defun steelbank--notified (_connection method params)
  "Show a message of the server: the notification METHOD with PARAMS."
  (when (eq method 'window/showMessage)
    (message "steelbank: %s" (plist-get params :message))))

(defun steelbank--ask (method params)
  "Send the request METHOD with PARAMS about this buffer, and return the answer.
Sends the buffer's text first if it has changed."
  (unless buffer-file-name (user-error "This buffer visits no file"))
  (let* ((root (steelbank--root))
         (connection (or (gethash root steelbank--connections) (steelbank--connect root)))
         (uri (steelbank--uri buffer-file-name))
         (text (save-restriction (widen) (buffer-substring-no-properties (point-min) (point-max)))))
    (pcase steelbank--sent
      (`(,(pred (eq connection)) ,tick ,version)
       (unless (= tick (buffer-chars-modified-tick))
         (jsonrpc-notify connection :textDocument/didChange
                         `(:textDocument (:uri ,uri :version ,(1+ version)) :contentChanges [(:text ,text)]))
         (setq steelbank--sent (list connection (buffer-chars-modified-tick) (1+ version)))))
      (_ (jsonrpc-notify connection :textDocument/didOpen
                         `(:textDocument (:uri ,uri :languageId "commonlisp" :version 1 :text ,text)))
         (setq steelbank--sent (list connection (buffer-chars-modified-tick) 1))
         (add-hook 'kill-buffer-hook #'steelbank--close nil t)
         (add-hook 'after-save-hook #'steelbank--saved nil t)))
    (jsonrpc-request connection method params :timeout steelbank-timeout)))

(defun steelbank--tell (method)
  "Send the notification METHOD about this buffer if its server is running."
  (when (and steelbank--sent (jsonrpc-running-p (car steelbank--sent)))
    (jsonrpc-notify (car steelbank--sent) method `(:textDocument (:uri ,(steelbank--uri buffer-file-name))))))

(defun steelbank--close () "Notify the server that this buffer is closed." (steelbank--tell :textDocument/didClose))
(defun steelbank--saved () "Notify the server that this buffer is saved." (steelbank--tell :textDocument/didSave))

(defun steelbank-stop ()
  "End the server of this project."
  (interactive)
  (let ((connection (gethash (steelbank--root) steelbank--connections)))
    (when connection (jsonrpc-shutdown connection))))

;;; Positions: lines from 0, and bytes of UTF-8 from the line's beginning

(defun steelbank--here ()
  "Return the parameters of a request about the position of point."
  (save-restriction
    (widen)
    `(:textDocument (:uri ,(steelbank--uri buffer-file-name))
      :position (:line ,(1- (line-number-at-pos))
                 :character ,(string-bytes (buffer-substring-no-properties (line-beginning-position) (point)))))))

(defun steelbank--goto (position)
  "Go to POSITION in this buffer, and return point."
  (goto-char (point-min))
  (forward-line (plist-get position :line))
  (let ((left (plist-get position :character)))
    (while (and (> left 0) (not (eolp)))
      (setq left (- left (string-bytes (string (char-after)))))
      (forward-char)))
  (point))

(defun steelbank--items (locations)
  "Return xref items for LOCATIONS."
  (let ((by-file (seq-group-by (lambda (location) (plist-get location :uri)) locations)))
    (cl-loop for (uri . places) in by-file
             for file = (steelbank--file uri)
             nconc (with-temp-buffer
                     (let ((open (find-buffer-visiting file)))
                       (if open
                           (insert-buffer-substring-no-properties open)
                         (insert-file-contents file)))
                     (mapcar (lambda (place)
                               (steelbank--goto (plist-get (plist-get place :range) :start))
                               (xref-make (string-trim (buffer-substring (line-beginning-position) (line-end-position)))
                                          (xref-make-file-location file (line-number-at-pos)
                                                                   (- (point) (line-beginning-position)))))
                             places)))))

;;; The xref backend

(defun steelbank-xref-backend () "Return the symbol of the xref backend." 'steelbank)

(cl-defmethod xref-backend-identifier-at-point ((_ (eql steelbank)))
  (let ((symbol (thing-at-point 'symbol)))
    (and symbol (propertize (substring-no-properties symbol) 'steelbank (steelbank--here)))))

(cl-defmethod xref-backend-identifier-completion-table ((_ (eql steelbank)))
  (completion-table-dynamic
   (lambda (typed)
     (mapcar (lambda (found) (plist-get found :name)) (steelbank--ask :workspace/symbol (list :query typed))))))

(defun steelbank--named (name)
  "Return the locations of the definitions with the name NAME."
  (let ((found (steelbank--ask :workspace/symbol (list :query name))))
    (mapcar (lambda (one) (plist-get one :location))
            (seq-filter (lambda (one) (string-suffix-p (concat ":" (upcase name)) (concat ":" (upcase (plist-get one :name)))))
                        found))))

(cl-defmethod xref-backend-definitions ((_ (eql steelbank)) identifier)
  (let ((at (get-text-property 0 'steelbank identifier)))
    (steelbank--items (if at (steelbank--ask :textDocument/definition at) (steelbank--named identifier)))))

(cl-defmethod xref-backend-references ((_ (eql steelbank)) identifier)
  (let ((at (or (get-text-property 0 'steelbank identifier) (steelbank--here))))
    (steelbank--items
     (steelbank--ask :textDocument/references `(,@at :context (:includeDeclaration t))))))

(cl-defmethod xref-backend-apropos ((_ (eql steelbank)) pattern)
  (steelbank--items (mapcar (lambda (found) (plist-get found :location))
                            (steelbank--ask :workspace/symbol (list :query pattern)))))

;;; Commands

(defun steelbank--command (name &optional argument)
  "Run the server's command NAME with ARGUMENT, and return the answer."
  (steelbank--ask :workspace/executeCommand
                  (list :command (concat "steelbank." name) :arguments (vector (or argument (make-hash-table))))))

(defun steelbank--new-name ()
  "Read a new name for the symbol at point."
  (list (read-string (format "Rename %s to: " (or (thing-at-point 'symbol t) (user-error "No symbol here"))))))

(defun steelbank-rename (new-name)
  "Rename the symbol at point to NEW-NAME, in all files.  Asks before uncertain edits."
  (interactive (steelbank--new-name))
  (let ((answer (steelbank--ask :textDocument/rename (append (steelbank--here) (list :newName new-name)))) (count 0))
    (seq-doseq (change (plist-get answer :documentChanges))
      (with-current-buffer (find-file-noselect (steelbank--file (plist-get (plist-get change :textDocument) :uri)))
        (save-excursion
          (save-restriction
            (widen)
            (let ((edits (mapcar (lambda (edit)
                                   (let ((range (plist-get edit :range)))
                                     (list (copy-marker (steelbank--goto (plist-get range :start)))
                                           (copy-marker (steelbank--goto (plist-get range :end)))
                                           edit)))
                                 (plist-get change :edits))))
              (pcase-dolist (`(,start ,end ,edit) edits)
                (goto-char start)
                (when (or (null (plist-get edit :annotationId))
                          (y-or-n-p (format "%s:%d is in code that is not loaded.  Rename it, too? "
                                            (buffer-name) (line-number-at-pos))))
                  (delete-region start end)
                  (insert (plist-get edit :newText))
                  (cl-incf count))))))))
    (message "%d places renamed, not saved" count)))

(defun steelbank-verify-rename (new-name)
  "Show the differences that a rename of the symbol at point to NEW-NAME would cause.
Writes no file."
  (interactive (steelbank--new-name))
  (let ((answer (steelbank--command "verifyRename" (append (steelbank--here) (list :newName new-name)))))
    (if (eq (plist-get answer :same) t)
        (message "The project is the same, apart from the name.")
      (steelbank--show (mapconcat (lambda (one) (plist-get one :message)) (plist-get answer :differences) "\n")))))

(defun steelbank-load-file ()
  "Load this file into steelbank's image."
  (interactive)
  (save-buffer)
  (message "steelbank: %s" (plist-get (steelbank--command "loadFile" (list :path buffer-file-name)) :status)))

(defun steelbank-reload ()
  "Reload changed files in steelbank's image."
  (interactive)
  (message "steelbank: %s" (plist-get (steelbank--command "reload") :status)))

(defun steelbank-run-test ()
  "Run the test at point."
  (interactive)
  (let* ((answer (steelbank--command "runTests" (steelbank--here)))
         (counts (cl-loop for (status count) on (plist-get answer :counts) by #'cddr
                          collect (format "%d %s" count (substring (symbol-name status) 1)))))
    (message "%s" (if counts (string-join counts ", ") (or (plist-get answer :note) "There is no test here")))))

(defun steelbank-macroexpand ()
  "Show the expansion of the form at point."
  (interactive)
  (steelbank--show (plist-get (steelbank--command "macroexpand" (steelbank--here)) :expansion)))

(defun steelbank--show (text)
  "Show TEXT in the buffer *steelbank*."
  (with-current-buffer (get-buffer-create "*steelbank*")
    (let ((inhibit-read-only t)) (erase-buffer) (insert text))
    (lisp-mode)
    (view-mode)
    (display-buffer (current-buffer))))

;;;###autoload
(define-minor-mode steelbank-mode
  "Let M-. and M-? use steelbank."
  :lighter " steelbank"
  (if steelbank-mode
      (add-hook 'xref-backend-functions #'steelbank-xref-backend -10 t)
    (remove-hook 'xref-backend-functions #'steelbank-xref-backend t)))

(provide 'steelbank)
;;; steelbank.el ends here
