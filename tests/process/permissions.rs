//! Tests of servers without `--allow-eval` and `--allow-edits`: the code that they run, and the
//! files that they write.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde_json::{Value, json};

use crate::child::wait_while;
use crate::client::Client;
use crate::program::{Folder, Streams, ask, ends_well, initialized, on, outcome};
use crate::texts::{expect_text, git, write_project};

/// A folder with a project, a cache and a place for marks.
struct Place {
    folder: Folder,
    root: PathBuf,
}

impl Place {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let root = folder.join("project");
        fs::create_dir_all(&root).unwrap();
        write_project(&root, include_str!("../projects/gate.txt"));
        Self { folder, root }
    }

    fn mark(&self) -> PathBuf {
        self.folder.join("MARK")
    }

    /// A form that leaves the mark when it is evaluated.
    fn trap(&self) -> String {
        format!(
            "(with-open-file (o {:?} :direction :output :if-exists :supersede) (print t o))",
            self.mark().display()
        )
    }

    fn serve(&self, options: &[&str]) -> (Child, Client) {
        let mut command = on(&self.root, &self.folder.join("cache"));
        command.arg("serve").args(options).stderr(std::process::Stdio::null());
        let (child, mut client) = initialized(command, Streams::Pipes);
        client.text("load-system", json!({ "system": "gate" }));
        (child, client)
    }
}

#[test]
fn local_macros_run_only_with_permission() {
    let place = Place::new("macrolet");
    let trap = place.trap();
    let (child, mut client) = place.serve(&[]);
    let left = |form: String| {
        [
            format!("(macrolet ((m () {form})) (m))"),
            format!("(m\\Acrolet ((m () {form})) (m))"),
            format!("(|MACROLET| ((m () {form})) (m))"),
            format!("(common-lisp:macrolet ((m () {form})) (m))"),
            format!("(locally (eval-when (:compile-toplevel) (macrolet ((m () {form})) (m))))"),
            format!("(defmethod f (x) (macrolet ((m () {form})) (m)))"),
            format!("(symbol-macrolet ((x (macrolet ((m () {form})) (m)))) x)"),
            format!("(sb-cltl2:compiler-let ((x {form})) x)"),
            format!("(gate::local {form})"),
        ]
    };
    for form in left(trap.clone()) {
        let answer = client.call("macroexpand", json!({ "form": form, "depth": "all" }));
        let text = answer["content"][0]["text"].as_str().unwrap();
        assert_eq!(answer["structuredContent"]["left"].as_array().map(Vec::len), Some(1), "{form}: {answer}");
        assert!(text.contains("--allow-eval"), "{form}: {text}");
        assert!(!place.mark().exists(), "{form}");
    }
    // A trap in a file that is not loaded is not sprung, either.
    fs::write(place.root.join("new.lisp"), format!("(macrolet ((m () {trap})) (m))\n(list #.{trap})\n"))
        .unwrap();
    let answer = client.structured("macroexpand", json!({ "path": "new.lisp", "line": 1, "depth": "all" }));
    assert_eq!(answer["left"].as_array().map(Vec::len), Some(1), "{answer}");
    client.error("macroexpand", json!({ "path": "new.lisp", "line": 2, "depth": "all" }));
    // Macros of SBCL and ASDF that evaluate their arguments are refused.
    for form in [
        format!("(defclass c () ((a :initform {trap})) (:metaclass structure-class))"),
        format!("(uiop:os-cond ({trap} 1))"),
    ] {
        let why = client.error("macroexpand", json!({ "form": form, "depth": "all" }));
        assert!(why.contains("--allow-eval"), "{form}: {why}");
    }
    assert!(!place.mark().exists());
    // Constant folding must not call functions that call other functions.
    let constant = |call: &str| {
        [
            format!("(incf (aref x {call}))"),
            format!("(defmethod f (x) (slot-value x {call}))"),
            format!("(loop repeat {call} do (f))"),
            format!("(gate::macrolet (setf (getf x {call}) 1))"),
        ]
    };
    let call = format!(
        "(every 'sb-ext:run-program '(\"/bin/sh\") '((\"-c\" \"echo > {}\")))",
        place.mark().display()
    );
    for form in constant(&call) {
        client.text("macroexpand", json!({ "form": form, "depth": "all" }));
        assert!(!place.mark().exists(), "{form}");
    }
    let form = format!("(uiop:os-cond ({call} 1))");
    assert!(client.error("macroexpand", json!({ "form": form })).contains("--allow-eval"));
    assert!(!place.mark().exists());
    // Harmless forms are expanded.
    for (form, expansion) in [
        ("(symbol-macrolet ((x (car y))) (when x 1))", "(if"),
        ("(when \"MACROLET\" 1)", "(if \"MACROLET\""),
        ("(gate::macrolet (when 1 2))", "(list"),
        ("`(macrolet ,(when a b))", "`(macrolet ,(if"),
        ("(defmethod f ((x (eql :key))) 1)", "load-defmethod"),
        ("(when '(macrolet) 1)", "(if '(macrolet)"),
    ] {
        let answer = client.structured("macroexpand", json!({ "form": form, "depth": "all" }));
        assert!(answer["expansion"].as_str().unwrap().contains(expansion), "{form}: {answer}");
        assert_eq!(answer["left"], Value::Null, "{form}: {answer}");
    }
    // The project's loaded macros run.
    client.text("macroexpand", json!({ "form": format!("(gate::evaluates {trap})") }));
    assert!(place.mark().exists());
    fs::remove_file(place.mark()).unwrap();
    ends_well(child, client);

    let (child, mut client) = place.serve(&["--allow-eval"]);
    for form in left("(quote (done))".to_owned()) {
        let answer = client.structured("macroexpand", json!({ "form": form, "depth": "all" }));
        assert_eq!(answer["left"], Value::Null, "{form}: {answer}");
    }
    let all = format!("(macrolet ((m () {trap} ''done)) (m))");
    let answer = client.structured("macroexpand", json!({ "form": all, "depth": "all" }));
    assert_eq!(answer["step_count"].as_u64().map(|steps| steps > 1), Some(true), "{answer}");
    assert!(place.mark().exists());
    ends_well(child, client);
}

/// Returns the kernel's version.
fn kernel() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse().ok());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// Returns whether Landlock is enabled. Returns `true`, too, if the kernel does not report that.
fn landlock() -> bool {
    fs::read_to_string("/sys/kernel/security/lsm").map_or(true, |modules| modules.contains("landlock"))
}

/// Returns the answer of `check` with `text` as `gate.lisp`.
fn checked(client: &mut Client, text: &str) -> Value {
    let text = format!("(defpackage :gate (:use :cl))\n(in-package :gate)\n{text}\n");
    client.call("check", json!({ "edits": [{ "path": "gate.lisp", "text": text }] }))
}

#[test]
fn checked_text_writes_only_to_its_folder() {
    let place = Place::new("confined");
    let (mark, root) = (place.mark(), place.root.display().to_string());
    let dep = fs::metadata(place.root.join("dep.lisp")).unwrap();
    let gate = fs::read(place.root.join("gate.lisp")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (child, mut client) = place.serve(&[]);

    let answer = checked(&mut client, &place.trap());
    let found = &answer["structuredContent"];
    if kernel() < (6, 2) || !landlock() {
        // The text is not loaded.
        let why = answer["content"][0]["text"].as_str().unwrap();
        assert!(answer["isError"] == true && why.contains("--allow-eval"), "{answer}");
        assert!(!mark.exists());
        return;
    }
    assert_eq!(found["loads"], false, "{answer}");
    assert_eq!(found["confined"], true, "{answer}");
    assert_eq!(found["refused"], json!([mark.display().to_string()]), "{answer}");
    expect_text("refused write", answer["content"][0]["text"].as_str().unwrap());

    // All refusals are reported, even if the code ignores them, and nothing is written.
    let quiet = format!(
        "(ignore-errors {trap})
         (ignore-errors (with-open-file (o \"{root}/gate.lisp\" :direction :output :if-exists :append) (print 1 o)))
         (ignore-errors (delete-file \"{root}/dep.lisp\"))
         (ignore-errors (rename-file \"{root}/dep.lisp\" \"{root}/gone.lisp\"))
         (ignore-errors (ensure-directories-exist \"{root}/made/\"))
         (ignore-errors (sb-posix:chmod \"{root}/dep.lisp\" 0))
         (ignore-errors (sb-posix:utime \"{root}/dep.lisp\" 0 0))
         (ignore-errors (sb-posix:truncate \"{root}/dep.lisp\" 0))
         (ignore-errors (sb-posix:link \"{root}/dep.lisp\" \"{root}/linked.lisp\"))
         (ignore-errors (sb-posix:symlink \"{root}/dep.lisp\" \"{root}/linked.lisp\"))
         (uiop:run-program \"touch {mark}; rm {root}/dep.lisp\" :ignore-error-status t)",
        trap = place.trap(),
        mark = mark.display()
    );
    let answer = checked(&mut client, &quiet);
    let found = &answer["structuredContent"];
    assert_eq!(found["loads"], true, "{answer}");
    let refused: Vec<&str> = found["refused"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for path in [mark.display().to_string(), format!("{root}/gate.lisp"), format!("{root}/dep.lisp")] {
        assert!(refused.contains(&path.as_str()), "{path}: {refused:?}");
    }
    assert!(!mark.exists() && !place.root.join("made").exists() && !place.root.join("linked.lisp").exists());
    assert_eq!(fs::read(place.root.join("gate.lisp")).unwrap(), gate);
    let now = fs::metadata(place.root.join("dep.lisp")).unwrap();
    assert_eq!(now.permissions(), dep.permissions());
    assert_eq!((now.len(), now.modified().unwrap()), (dep.len(), dep.modified().unwrap()));

    // The server is another process, and cannot be reached.
    let mem = "(open (format nil \"/proc/~D/mem\" (sb-posix:getppid)) :direction :io :if-exists :overwrite)";
    let signal = "(sb-posix:kill (sb-posix:getppid) 0)";
    let connect = format!(
        "(let ((socket (make-instance (find-symbol \"INET-SOCKET\" :sb-bsd-sockets) :type :stream :protocol :tcp)))
           (funcall (find-symbol \"SOCKET-CONNECT\" :sb-bsd-sockets) socket #(127 0 0 1) {port}))"
    );
    let socket = "(make-instance (find-symbol \"LOCAL-SOCKET\" :sb-bsd-sockets) :type :datagram)";
    for (outside, since) in [(mem, (6, 2)), (signal, (6, 12)), (&*connect, (6, 2)), (socket, (6, 2))] {
        if kernel() < since {
            continue;
        }
        let answer = checked(&mut client, outside);
        assert_eq!(answer["structuredContent"]["loads"], false, "{outside}: {answer}");
    }

    // System settings, other processes and file attributes cannot be changed.
    let calls = format!(
        "(flet ((call (number &rest arguments)
                  (sb-alien:alien-funcall
                   (sb-alien:extern-alien \"syscall\" (function sb-alien:long sb-alien:long sb-alien:long sb-alien:long sb-alien:long))
                   number (or (first arguments) 0) (or (second arguments) 0) (or (third arguments) 0))))
           (let* ((server (sb-posix:getppid)) (words (sb-alien:make-alien (sb-alien:unsigned 64) 2))
                  (room (sb-sys:sap-int (sb-alien:alien-sap words))) (file (sb-posix:open \"{root}/dep.lisp\" 0)))
             (setf (sb-alien:deref words 0) 64 (sb-alien:deref words 1) 64)
             (assert (equal (list -1 -1 -1 -1 -1)
                            (list (call {prlimit} server 7 room) (call {priority} 0 server 19) (call {memory} 1 4096 {mode})
                                  (call {keys} 1 0) (call {control} file #x40086602 room))))
             ;; Only CAP_DAC_READ_SEARCH remains, in a superuser's copy.
             (with-open-file (status \"/proc/self/status\")
               (loop for line = (read-line status) until (eql 0 (search \"CapEff:\" line))
                     finally (assert (zerop (logandc2 (parse-integer line :start 8 :radix 16) 4)))))
             ;; The copy may use prlimit on itself.
             (assert (zerop (call {prlimit} 0 0 0)))))",
        prlimit = libc::SYS_prlimit64,
        priority = libc::SYS_setpriority,
        memory = libc::SYS_shmget,
        mode = libc::IPC_CREAT | 0o600,
        keys = libc::SYS_keyctl,
        control = libc::SYS_ioctl,
    );
    let answer = checked(&mut client, &calls);
    assert_eq!(answer["structuredContent"]["loads"], true, "{answer}");

    // Code that uses only temporary files, programs and cached dependencies loads.
    let answer = checked(
        &mut client,
        "(uiop:with-temporary-file (:stream s) (print 1 s))
         (assert (equal \"hi\" (uiop:run-program \"echo hi; echo no > /dev/null\" :output '(:string :stripped t))))
         (with-open-file (s \"/dev/null\" :direction :output :if-exists :append) (print 1 s))
         (defun new (x) (dep::f x))",
    );
    let found = &answer["structuredContent"];
    assert_eq!((&found["loads"], &found["refused"]), (&json!(true), &Value::Null), "{answer}");
    assert_eq!(found["compiled"], json!(["gate.lisp"]), "{answer}");

    // The project's own text is not confined.
    let answer = client.structured("check", json!({}));
    assert_eq!((&answer["loads"], &answer["confined"]), (&json!(true), &Value::Null), "{answer}");
    ends_well(child, client);
    let scratch = place.folder.join("cache/projects/scratch");
    assert_eq!(fs::read_dir(scratch).unwrap().count(), 0);

    for option in ["--allow-eval", "--allow-edits"] {
        let (child, mut client) = place.serve(&[option]);
        let answer = checked(&mut client, &place.trap());
        assert_eq!(answer["structuredContent"]["loads"], true, "{answer}");
        assert_eq!(answer["structuredContent"]["confined"], Value::Null, "{answer}");
        assert!(mark.exists());
        fs::remove_file(&mark).unwrap();
        ends_well(child, client);
    }
}

/// A repository of a project with a changed file. The programs in the repository's configuration
/// leave a mark.
struct Repository {
    folder: Folder,
    root: PathBuf,
}

impl Repository {
    fn new(attributes: &str) -> Self {
        let folder = Folder::new("git-runs");
        let root = folder.join("project");
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        let made = Self { folder, root };
        made.write("g.asd", "(defsystem \"g\" :components ((:file \"g\")))\n");
        made.write(
            "g.lisp",
            "(defpackage :g (:use :cl))\n(in-package :g)\n(defun f (x) x)\n(defun h (x) (f x))\n",
        );
        if !attributes.is_empty() {
            made.write(".gitattributes", attributes);
        }
        made.git(&["init", "-q"]);
        made.git(&["add", "-A"]);
        made.git(&["commit", "-qm", "made"]);
        made
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.root.join(name), text).unwrap();
    }

    fn git(&self, arguments: &[&str]) {
        git(&self.root, arguments);
    }

    fn mark(&self) -> PathBuf {
        self.folder.join("MARK")
    }

    /// Writes a script that leaves the mark, and returns its path.
    fn trap(&self) -> String {
        let path = self.folder.join("trap.sh");
        fs::write(&path, format!("#!/bin/sh\necho ran >> {}\ncat\n", self.mark().display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    /// Requests the impact of the changed file, and checks that nothing ran. Returns `None` for an
    /// error.
    fn impact(&self, what: &str) -> Option<Value> {
        self.write(
            "g.lisp",
            "(defpackage :g (:use :cl))\n(in-package :g)\n(defun f (x y) x)\n(defun h (x) (f x))\n",
        );
        let _ = fs::remove_file(self.mark());
        let cache = self.folder.join("cache");
        let (text, errors, code) = ask(&self.root, &cache, &["call", "impact", "{\"diff\": true}", "--json"]);
        assert!(!self.mark().exists(), "{what} ran");
        println!("{what}: {text}{errors}");
        (code == Some(0)).then(|| serde_json::from_str(&text).unwrap())
    }
}

#[test]
fn impact_runs_no_program_of_the_repository() {
    let changed = json!(["g::f"]);
    let names = |answer: Option<Value>| -> Value {
        let answer = answer.unwrap();
        answer["changed"].as_array().unwrap().iter().map(|touched| touched["name"].clone()).collect()
    };
    for (what, attributes, setting) in [
        ("a clean filter", "*.lisp filter=evil\n", "filter.evil.clean"),
        ("a process filter", "*.lisp filter=evil\n", "filter.evil.process"),
        ("a text conversion", "*.lisp diff=evil\n", "diff.evil.textconv"),
        ("a diff driver", "*.lisp diff=evil\n", "diff.evil.command"),
        ("an external diff", "", "diff.external"),
        ("a file system monitor", "", "core.fsmonitor"),
        ("a pager", "", "core.pager"),
    ] {
        let repository = Repository::new(attributes);
        repository.git(&["config", setting, &repository.trap()]);
        assert_eq!(names(repository.impact(what)), changed, "{what}");
    }

    let repository = Repository::new("");
    repository.git(&["config", "core.hooksPath", ".git/hooks"]);
    let hook = repository.root.join(".git/hooks/post-index-change");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::copy(repository.trap(), hook).unwrap();
    assert_eq!(names(repository.impact("a hook")), changed);

    for (setting, what) in
        [("core.fsmonitor", "a submodule's monitor"), ("filter.evil.clean", "a submodule's filter")]
    {
        let repository = Repository::new("");
        let other = repository.folder.join("other");
        let _ = fs::remove_dir_all(&other);
        fs::create_dir_all(&other).unwrap();
        fs::write(other.join("x"), "x\n").unwrap();
        git(&other, &["init", "-q"]);
        git(&other, &["add", "-A"]);
        git(&other, &["commit", "-qm", "other"]);
        repository.git(&["submodule", "--quiet", "add", other.to_str().unwrap(), "sub"]);
        repository.git(&["commit", "-qm", "sub"]);
        fs::write(repository.root.join("sub/.gitattributes"), "* filter=evil\n").unwrap();
        git(&repository.root.join("sub"), &["config", setting, &repository.trap()]);
        fs::write(repository.root.join("sub/x"), "y\n").unwrap();
        assert_eq!(names(repository.impact(what)), changed, "{what}");
    }

    // A missing blob is not fetched. The error names the file.
    for (setting, value) in
        [("remote.o.uploadpack", None), ("remote.o.url", Some("ext::sh -c 'echo%20ran%20>>%20MARK'"))]
    {
        let repository = Repository::new("");
        repository.git(&["config", "extensions.partialClone", "o"]);
        repository.git(&["config", "remote.o.promisor", "true"]);
        repository.git(&["config", "protocol.ext.allow", "always"]);
        repository.git(&["config", "remote.o.url", repository.folder.0.to_str().unwrap()]);
        let value = value.map_or_else(
            || repository.trap(),
            |value| value.replace("MARK", repository.mark().to_str().unwrap()),
        );
        repository.git(&["config", setting, &value]);
        let blob =
            Command::new("git").arg("-C").arg(&repository.root).args(["rev-parse", "HEAD:g.lisp"]).output();
        let blob = String::from_utf8(blob.unwrap().stdout).unwrap();
        let (folder, file) = blob.trim().split_at(2);
        fs::remove_file(repository.root.join(".git/objects").join(folder).join(file)).unwrap();
        assert_eq!(repository.impact(setting), None);
    }
}

#[test]
fn impact_reports_why_git_failed() {
    let repository = Repository::new("");
    let path = repository.folder.join("git");
    for (what, script, mode, expected) in [
        ("killed", "kill -9 $$", 0o755, "it ended with signal: 9 (SIGKILL)"),
        ("silent", "exit 3", 0o755, "it ended with exit status: 3"),
        ("blank lines", "echo >&2; echo broken >&2; exit 1", 0o755, "broken"),
        ("a flood", "exec cat /dev/zero", 0o755, "it printed more than 256 MB"),
        ("no program", "", 0o644, "it could not be run: Permission denied (os error 13)"),
    ] {
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let mut command = on(&repository.root, &repository.folder.join("cache"));
        let others = if mode == 0o755 { ":/usr/bin:/bin" } else { "" };
        command.env("PATH", format!("{}{others}", repository.folder.0.display()));
        let (_, errors, code) =
            outcome(&command.args(["call", "impact", "{\"diff\": true}"]).output().unwrap());
        assert_ne!(code, Some(0), "{what}");
        assert!(errors.contains(&format!("Git failed to list the changes: {expected}.")), "{what}: {errors}");
    }
}

#[test]
fn files_are_compared_with_the_commit_by_bytes() {
    let names = |answer: Option<Value>| -> Vec<String> {
        let answer = answer.unwrap();
        let changed = answer["changed"].as_array().unwrap().iter();
        changed.map(|touched| touched["name"].as_str().unwrap().to_owned()).collect()
    };
    // Conversions by Git at checkout are not changes.
    let repository = Repository::new("*.lisp text eol=crlf\n");
    let text = "(in-package :g)\n(defun c (x) x)\n(defun d (x) x)\n";
    repository.write("crlf.lisp", &text.replace('\n', "\r\n"));
    repository.git(&["add", "-A"]);
    repository.git(&["commit", "-qm", "ends"]);
    assert_eq!(names(repository.impact("ends")), ["g::f"]);
    repository.write("crlf.lisp", &text.replace('\n', "\r\n"));
    assert_eq!(names(repository.impact("ends")), ["g::f"]);
    repository.write("crlf.lisp", &text.replace('\n', "\r\n").replace("(defun d", "(defun e"));
    let mut found = names(repository.impact("ends"));
    found.sort();
    assert_eq!(found, ["g::d", "g::e", "g::f"]);

    // Create a new staged file, a deleted file, a file outside of a sparse checkout, and a FIFO.
    let repository = Repository::new("");
    for name in ["gone", "sparse", "pipe"] {
        repository.write(&format!("{name}.lisp"), &format!("(in-package :g)\n(defun {name} (x) x)\n"));
    }
    repository.git(&["add", "-A"]);
    repository.git(&["commit", "-qm", "more"]);
    repository.write("new.lisp", "(in-package :g)\n(defun new (x) x)\n");
    repository.write("untracked.lisp", "(in-package :g)\n(defun untracked (x) x)\n");
    repository.git(&["add", "new.lisp"]);
    repository.git(&["update-index", "--skip-worktree", "sparse.lisp"]);
    for name in ["gone", "sparse", "pipe"] {
        fs::remove_file(repository.root.join(format!("{name}.lisp"))).unwrap();
    }
    assert!(Command::new("mkfifo").arg(repository.root.join("pipe.lisp")).status().unwrap().success());
    let mut found = names(repository.impact("kinds"));
    found.sort();
    assert_eq!(found, ["g::f", "g::gone", "g::new", "g::pipe"]);
}

#[test]
fn blocked_git_does_not_block_questions() {
    for name in ["config", "HEAD", "index", "packed-refs", "objects/info/alternates"] {
        let repository = Repository::new("");
        let path = repository.root.join(".git").join(name);
        let _ = fs::remove_file(&path);
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        let cache = repository.folder.join("cache");
        let (_, said, _) = ask(&repository.root, &cache, &["call", "impact", "{\"diff\": true}"]);
        expect_text("silent git", &said);
    }
}

#[test]
fn cancelled_question_ends_git() {
    let repository = Repository::new("");
    // This git writes its process id, and sleeps.
    let bin = repository.folder.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let script = bin.join("git");
    fs::write(&script, format!("#!/bin/sh\necho $$ > {}\nexec sleep 600\n", repository.mark().display()))
        .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let _ = fs::remove_file(repository.mark());
    let mut command = on(&repository.root, &repository.folder.join("cache"));
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    command.arg("serve").env("PATH", path);
    let (child, mut client) = initialized(command, Streams::Pipes);
    let call = client.begin("tools/call", json!({ "name": "impact", "arguments": { "diff": true } }));
    let process = loop {
        match fs::read_to_string(repository.mark()) {
            Ok(text) if text.ends_with('\n') => break text.trim().to_owned(),
            _ => std::thread::sleep(std::time::Duration::from_millis(10)),
        }
    };
    client.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": call } }),
    );
    // Cancelling the query ends Git.
    wait_while(|| Path::new("/proc").join(&process).exists());
    ends_well(child, client);
}
