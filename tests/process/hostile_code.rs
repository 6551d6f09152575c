//! Repeats attacks on the server. Each runs in a separate server for a working project. Afterwards,
//! the server must answer as before, or report Lisp's death with a reason and restart it.
//!
//! Races are repeated as often as the original fault needed to appear, and twenty times as often in
//! `cargo xtask full`.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::child;
use crate::client::{Client, is_passing};
use crate::program::{Folder, STEELBANK, Streams, ends, initialized, on, serve};
use crate::texts::expect_text;

/// The good system, which uses `target` in an export, a call and a template.
const GOOD: [(&str, &str); 4] = [
    (
        "good.asd",
        "(defsystem \"good\" :serial t :components ((:file \"package\") (:file \"target\") (:file \"uses\")))",
    ),
    ("package.lisp", "(defpackage :good (:use :cl) (:export #:target))\n"),
    ("target.lisp", "(in-package :good)\n(defun target (x) (1+ x))\n"),
    ("uses.lisp", "(in-package :good)\n(defun user (x) (target x))\n(defmacro made (x) `(target ,x))\n"),
];
/// The file, line and column of each use.
const USES: [(&str, u64, u64); 3] = [("package.lisp", 1, 39), ("uses.lisp", 2, 18), ("uses.lisp", 3, 22)];
fn expected() -> Vec<(String, u64, u64)> {
    USES.map(|(file, line, column)| (file.to_owned(), line, column)).to_vec()
}

/// The time limit for Lisp to restart and repeat its loads.
const BACK: Duration = Duration::from_secs(60);

/// The file with the standard error of a world's servers, in the world's folder.
const SAID: &str = "said";

/// A server that has loaded a working project.
struct World {
    folder: Folder,
    child: Child,
    client: Client,
    files: usize,
    /// The server's process; 0 once it has ended.
    process: Arc<AtomicU32>,
}

impl World {
    fn new(what: &str) -> Self {
        let folder = Folder::new(&format!("rerun-{}", what.replace([' ', ','], "-")));
        write_good(&folder.join("project"));
        let (child, client) = start(&folder);
        let process = Arc::new(AtomicU32::new(child.id()));
        watch_over(what, &process);
        Self { folder, child, client, files: 0, process }
    }

    /// Starts another server for the same project and cache, and ends the current server.
    fn start_another(&mut self) {
        let (child, client) = start(&self.folder);
        self.process.store(child.id(), Ordering::SeqCst);
        drop(std::mem::replace(&mut self.client, client));
        assert_eq!(ends(std::mem::replace(&mut self.child, child)).code(), Some(0));
    }

    fn project(&self) -> PathBuf {
        self.folder.join("project")
    }

    /// Loads a file of this text. The caller checks the outcome.
    fn load(&mut self, text: &str, seconds: u64) -> Value {
        let id = self.begin_load(text, seconds);
        let response = self.client.response(id);
        assert!(response["result"].is_object() || is_passing(&response), "{text}: {response}");
        response["result"]["structuredContent"].clone()
    }

    /// Requests the load of a file of this text, and does not wait for it.
    fn begin_load(&mut self, text: &str, seconds: u64) -> u64 {
        self.files += 1;
        let path = self.folder.join(format!("hostile-{}.lisp", self.files));
        fs::write(&path, text).unwrap();
        let arguments = json!({ "path": path, "timeout_seconds": seconds });
        self.client.begin("tools/call", json!({ "name": "load-file", "arguments": arguments }))
    }

    fn cancel(&mut self, id: u64) {
        let params = json!({ "requestId": id });
        self.client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    }

    /// Lists the files in the cache with names that end in `end`.
    fn cached(&self, end: &str) -> Vec<PathBuf> {
        let mut folders = vec![self.folder.join("cache")];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false if entry.path().to_string_lossy().ends_with(end) => found.push(entry.path()),
                    false => {}
                }
            }
        }
        assert!(found.len() >= 3, "{end}: {found:?}");
        found
    }

    /// Checks that the server answers as before. Returns whether Lisp died, reported it and
    /// restarted.
    fn sound(&mut self, what: &str) -> bool {
        let died = self.waits_for_lisp(what);
        let text = described(&mut self.client, "cl:mapcar");
        assert!(text.starts_with("COMMON-LISP::MAPCAR"), "{what}: {text}");
        let text = described(&mut self.client, "cl:*print-base*");
        let value = text.lines().nth(1).unwrap_or_default();
        assert!(text.starts_with("COMMON-LISP::*PRINT-BASE*") && value.ends_with(" 10"), "{what}: {text}");
        let callers = ask(&mut self.client, "who-calls", &json!({ "name": "cl:mapcar" }));
        assert!(callers["structuredContent"]["count"].as_u64().unwrap() > 300, "{what}: {callers}");
        load_good(&mut self.client, false);
        assert_eq!(uses(&mut self.client), expected(), "{what}");
        load_good(&mut self.client, true);
        assert_eq!(uses(&mut self.client), expected(), "{what}, after a load with force");
        died
    }

    /// Waits until Lisp answers. Returns whether it died.
    fn waits_for_lisp(&mut self, what: &str) -> bool {
        let since = Instant::now();
        let mut died = false;
        loop {
            let answer = self.client.request(
                "tools/call",
                json!({ "name": "describe-symbol", "arguments": { "name": "cl:car" } }),
            );
            died |= is_passing(&answer);
            if answer["result"]["isError"] == false {
                let status = self.client.status();
                died |= !status["restarts"].is_null();
                assert!(!status["restarts"].to_string().contains("unknown"), "{what}: {status}");
                return died;
            }
            assert!(since.elapsed() < BACK, "{what}: Lisp is not back: {answer}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Closes the client, and checks that the server exits with 0.
    fn ends(self, what: &str) {
        drop(self.client);
        assert_eq!(ends(self.child).code(), Some(0), "{what}");
        self.process.store(0, Ordering::SeqCst);
    }

    /// Returns the server's exit status, if any, and its last errors.
    fn post_mortem(&mut self) -> String {
        // The server may be ending.
        std::thread::sleep(Duration::from_secs(1));
        let said = fs::read(self.folder.join(SAID)).unwrap_or_default();
        let last = String::from_utf8_lossy(&said[said.len().saturating_sub(2000)..]).into_owned();
        format!("the server: {:?}; its last errors: {last}", self.child.try_wait())
    }
}

/// Prints the state of an unresponsive server's threads, and kills it, so that the test fails
/// instead of hanging.
fn watch_over(what: &str, process: &Arc<AtomicU32>) {
    let patience = Duration::from_secs(child::small_or_full(200, 4000));
    let (what, process) = (what.to_owned(), Arc::downgrade(process));
    std::thread::spawn(move || {
        let begun = Instant::now();
        while begun.elapsed() < patience {
            std::thread::sleep(Duration::from_secs(1));
            if process.upgrade().is_none_or(|process| process.load(Ordering::SeqCst) == 0) {
                return;
            }
        }
        let Some(process) = process.upgrade().map(|process| process.load(Ordering::SeqCst)) else { return };
        for task in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
            let read = |name: &str| fs::read_to_string(task.path().join(name)).unwrap_or_default();
            println!("{what}: {} {} {}", read("comm").trim(), read("wchan"), read("syscall").trim());
        }
        // SAFETY: it is our child, which has not been waited for.
        unsafe { libc::kill(i32::try_from(process).unwrap(), libc::SIGKILL) };
    });
}

fn start(folder: &Path) -> (Child, Client) {
    let mut command = on(&folder.join("project"), &folder.join("cache"));
    let said = fs::File::options().create(true).append(true).open(folder.join(SAID)).unwrap();
    command.arg("serve").stderr(said);
    let (child, mut client) = initialized(command, Streams::Pipes);
    load_good(&mut client, false);
    (child, client)
}

fn write_good(project: &Path) {
    fs::create_dir_all(project).unwrap();
    for (name, text) in GOOD {
        fs::write(project.join(name), text).unwrap();
    }
}

/// Calls a tool. Repeats the call while Lisp is dead, restarting or loading.
fn ask(client: &mut Client, tool: &str, arguments: &Value) -> Value {
    let since = Instant::now();
    loop {
        let response = client.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        if response["result"]["isError"] == false || !is_passing(&response) {
            return response["result"].clone();
        }
        assert!(since.elapsed() < BACK, "Lisp is not back: {response}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn described(client: &mut Client, name: &str) -> String {
    let answer = ask(client, "describe-symbol", &json!({ "name": name }));
    answer["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

fn load_good(client: &mut Client, force: bool) {
    let answer = ask(client, "load-system", &json!({ "system": "good", "force": force }));
    assert_eq!(answer["structuredContent"]["status"], "loaded", "{answer}");
}

/// The exact places of `good:target` in the project.
fn uses(client: &mut Client) -> Vec<(String, u64, u64)> {
    let arguments = json!({ "symbol": "good:target" });
    let answer = ask(client, "code-find-references", &arguments)["structuredContent"].clone();
    let references = answer["refs"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let exact = references.iter().filter(|found| found["evidence"].is_null());
    exact
        .map(|found| {
            let place = |key: &str| found[key].as_u64().unwrap_or_else(|| panic!("{found}"));
            (found["path"].as_str().unwrap().to_owned(), place("line"), place("column"))
        })
        .collect()
}

/// Returns how often a race is repeated.
fn times(usual: usize) -> usize {
    child::small_or_full(usual, 20 * usual)
}

/// The number and name of an attack, and the code that repeats it.
type Finding = (u32, &'static str, fn(&mut World));

const FINDINGS: [Finding; 25] = [
    (1, "a setup file in the project", |world| {
        let sprung = world.folder.join("sprung");
        fs::create_dir_all(world.project().join(".qlot")).unwrap();
        let trap = format!("(with-open-file (o {:?} :direction :output) (print 1 o))", sprung.display());
        fs::write(world.project().join(".qlot/setup.lisp"), trap).unwrap();
        world.client.text("list-systems", json!({}));
        assert!(!sprung.exists());
        fs::remove_dir_all(world.project().join(".qlot")).unwrap();
    }),
    (2, "interrupts during garbage collection", |world| {
        const FILLS: &str = "(let ((l nil)) (loop (push (make-array 100000) l)))";
        for _ in 0..times(3) {
            world.load(FILLS, 1);
        }
        for _ in 0..times(2) {
            let id = world.begin_load(FILLS, 300);
            std::thread::sleep(Duration::from_millis(900));
            world.cancel(id);
        }
    }),
    (3, "recursion that allocates", |world| {
        for _ in 0..times(60) {
            let answer = world.load("(labels ((f (n) (1+ (f (list n))))) (f 0))", 20);
            assert!(
                answer.is_null() || answer["failure"]["message"].to_string().contains("tack"),
                "{answer}"
            );
        }
    }),
    (4, "recursion in a clean-up form", |world| {
        world.load("(labels ((f (n) (unwind-protect (1+ (f (1+ n))) (f n)))) (f 0))", 4);
    }),
    (4, "recursion in a handler of the overflow", |world| {
        let handler = "(labels ((f (n) (1+ (f (1+ n)))))
                         (handler-bind ((storage-condition (lambda (c) (declare (ignore c)) (f 0)))) (f 0)))";
        in_time(world, handler, 4);
    }),
    (4, "all of SBCL traced", |world| {
        world.load("(trace \"SB-IMPL\")", 4);
        world.load("(trace \"CL\")", 4);
    }),
    (5, "a circular constant", |world| {
        let answer = world.load("(defun pairs (list) (mapcar #'cons list '#1=(nil . #1#)))", 60);
        assert_eq!(answer["status"], "loaded", "{answer}");
    }),
    (6, "cancelled loads with concurrent list-systems", |world| {
        for _ in 0..times(40) {
            for delay in 0..6 {
                let arguments = json!({ "system": "good", "force": true });
                let call = json!({ "name": "load-system", "arguments": arguments });
                let id = world.client.begin("tools/call", call);
                std::thread::sleep(Duration::from_millis(delay * 4));
                world.cancel(id);
            }
            // Attack 11: list-systems showed a partially defined system.
            let text = world.client.text("list-systems", json!({}));
            assert!(text.contains("good") && !text.contains("PROTO"), "{text}");
        }
    }),
    (7, "damaged sidecars", |world| {
        let damages: [fn(&Path); 3] = [
            |tap| fs::write(tap, "").unwrap(),
            |tap| fs::write(tap, &fs::read(tap).unwrap()[..50]).unwrap(),
            |tap| {
                let mut bytes = fs::read(tap).unwrap();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 0x10;
                fs::write(tap, bytes).unwrap();
            },
        ];
        for damage in damages {
            world.cached(".tap").iter().for_each(|tap| damage(tap));
            world.start_another();
            assert_eq!(uses(&mut world.client), expected());
        }
    }),
    (8, "a project that is removed and restored", |world| {
        let total = |world: &mut World| {
            let answer = world.client.call("find_references", json!({ "pattern": "needle" }));
            answer["structuredContent"]["pagination"]["total"].as_u64()
        };
        let needles = world.project().join("needles.lisp");
        fs::write(&needles, "(needle needle)\n").unwrap();
        assert_eq!(total(world), Some(2));
        let away = world.folder.join("away");
        fs::rename(world.project(), &away).unwrap();
        let gone = world.client.call("find_references", json!({ "pattern": "needle" })).to_string();
        assert!(gone.contains(&*world.project().to_string_lossy()), "{gone}");
        fs::remove_dir_all(away).unwrap();
        write_good(&world.project());
        fs::write(&needles, "(needle needle)\n".repeat(4)).unwrap();
        for _ in 0..2 {
            assert_eq!(total(world), Some(8));
            fs::write(&needles, "(needle)\n").unwrap();
            assert_eq!(total(world), Some(1));
            fs::write(&needles, "(needle needle)\n".repeat(4)).unwrap();
            world.start_another();
        }
    }),
    (9, "a profiler of processor time", |world| {
        let profiler = "(require :sb-sprof)
            (eval (read-from-string
              \"(sb-sprof:start-profiling :max-samples 40000 :mode :cpu :sample-interval 0.001)\"))";
        world.load(profiler, 60);
        for _ in 0..times(60) {
            world.client.text("who-calls", json!({ "name": "cl:mapcar" }));
            world.client.text("describe-symbol", json!({ "name": "cl:car" }));
            world.client.text("find_references", json!({ "pattern": "target" }));
        }
    }),
    (12, "termination of all other threads", |world| {
        world.load(
            "(dolist (x (sb-thread:list-all-threads))
               (unless (eq x sb-thread:*current-thread*) (sb-thread:terminate-thread x)))",
            20,
        );
        in_time(world, "(loop (sleep 0.01))", 2);
    }),
    (13, "names that UTF-8 cannot encode", |world| {
        world.load("(intern (string (code-char #xD800)) :cl-user)", 20);
        world.load("(make-package (string (code-char #xDC00)))", 20);
    }),
    (14, "descriptors closed", |world| {
        // Wait until the index is written: Rust's debug builds abort if an open file was closed.
        world.client.text("who-calls", json!({ "name": "good:target" }));
        world.load("(loop for i from 3 to 255 do (sb-unix:unix-close i))", 20);
    }),
    (14, "descriptors that a text index holds closed", |world| {
        world.client.text("find_references", json!({ "pattern": "target" }));
        world.load("(loop for i from 3 to 255 do (sb-unix:unix-close i))", 20);
        for number in 0..3 {
            let found = world.client.text("find_references", json!({ "pattern": "target" }));
            assert!(found.contains("uses.lisp"), "{found}");
            // Changes are detected again.
            let file = format!("new-{number}.lisp");
            fs::write(world.project().join(&file), "(list (target 1))\n").unwrap();
            // Wait until the kernel reports the file.
            let written = Instant::now();
            loop {
                let found = world.client.text("find_references", json!({ "pattern": "target" }));
                if found.contains(&file) {
                    break;
                }
                assert!(written.elapsed() < BACK, "{found}");
            }
            fs::remove_file(world.project().join(&file)).unwrap();
        }
    }),
    (14, "descriptors replaced", |world| {
        world.load(
            "(loop for i from 3 to 20
                   do (sb-alien:alien-funcall (sb-alien:extern-alien \"dup2\" (function sb-alien:int sb-alien:int sb-alien:int)) 2 i))",
            20,
        );
    }),
    (15, "external signals for Lisp", |world| {
        for _ in 0..times(50) {
            let id = i32::try_from(world.child.id()).unwrap();
            // SAFETY: it is our child, which has not been waited for.
            unsafe { libc::kill(id, libc::SIGUSR2) };
        }
        world.load("(dotimes (i 200) (sb-unix:unix-kill (sb-unix:unix-getpid) sb-unix:sigusr2))", 20);
    }),
    (16, "no collections", |world| {
        in_time(world, "(setf sb-kernel::*gc-inhibit* t) (loop (make-array 1000))", 3)
    }),
    (16, "a thread that blocks garbage collection", |world| {
        in_time(
            world,
            "(sb-thread:make-thread (lambda () (sb-sys:without-gcing (loop)))) (sleep 0.1) (gc)",
            3,
        );
    }),
    (16, "circular features", |world| {
        in_time(world, "(setf *features* (let ((l (list :a :b))) (setf (cddr l) l)))", 3);
        let answer = world.load("#+c 1 (list 2)", 60);
        assert_eq!(answer["status"], "loaded", "{answer}");
    }),
    (16, "a thread that leaves Lisp", |world| {
        in_time(
            world,
            "(sb-alien:alien-funcall (sb-alien:extern-alien \"pthread_exit\" (function sb-alien:void sb-alien:int)) 0)",
            3,
        );
    }),
    (17, "an array beyond the stack", |world| {
        world.load(
            "(declaim (optimize (safety 0)))
             (defun f () (let ((a (make-array 500000000 :element-type '(unsigned-byte 8))))
               (declare (dynamic-extent a)) (setf (aref a 5) 1) (length a)))
             (unwind-protect (f) (proclaim '(optimize (safety 1))))",
            20,
        );
    }),
    (18, "a heap that several threads fill", |world| {
        let fill = "(let ((l nil)) (loop (push (make-array 50000) l)))";
        in_time(
            world,
            &format!(
                "(mapc #'sb-thread:join-thread
                   (loop repeat 4 collect (sb-thread:make-thread (lambda () {fill}))))"
            ),
            8,
        );
    }),
    (18, "a heap that a report fills", |world| {
        world.load(
            "(define-condition c3 (error) ()
               (:report (lambda (c s) (declare (ignore c s)) (let ((l nil)) (loop (push (make-array 10000) l))))))
             (error 'c3)",
            20,
        );
    }),
    (23, "damaged fasls", |world| {
        for part in [2, 3, 5] {
            for fasl in world.cached(".fasl") {
                let mut bytes = fs::read(&fasl).unwrap();
                let at = bytes.len() / part;
                bytes[at] ^= 4;
                fs::write(&fasl, bytes).unwrap();
            }
            world.start_another();
        }
    }),
];

/// Checks that a load is answered within its deadline, plus the time to detect a dead Lisp.
fn in_time(world: &mut World, text: &str, seconds: u64) {
    let begun = Instant::now();
    world.load(text, seconds);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(seconds + 20), "{text}: {took:?}");
}

#[test]
fn hostile_code_does_no_lasting_harm() {
    let wanted = |number: u32| match std::env::var("STEELBANK_HOSTILE_ONLY") {
        Ok(only) => only == number.to_string(),
        Err(_) => true,
    };
    let waiting: Vec<&Finding> = FINDINGS.iter().filter(|(number, ..)| wanted(*number)).collect();
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    // Run four attacks at a time: the attacks mostly wait.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((number, what, act)) = waiting.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let begun = Instant::now();
                    let outcome = catch_unwind(|| rerun(&format!("{number}, {what}"), *act));
                    match outcome {
                        Ok(died) => {
                            println!("{number}, {what}: {:.1} s, died: {died}", begun.elapsed().as_secs_f64())
                        }
                        Err(_) => failed.lock().unwrap().push(format!("{number}, {what}")),
                    }
                }
            });
        }
    });
    assert_eq!(*failed.lock().unwrap(), [""; 0], "see the panics above");
}

/// Repeats an attack in a separate server. Returns whether Lisp died.
fn rerun(what: &str, act: fn(&mut World)) -> bool {
    let mut world = World::new(what);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        act(&mut world);
        world.sound(what)
    }));
    match outcome {
        Ok(died) => {
            world.ends(what);
            died
        }
        Err(panic) => {
            println!("{what}: {}", world.post_mortem());
            resume_unwind(panic)
        }
    }
}

/// Code that closes all descriptors cuts the connection to the client. The server reports this and
/// ends.
#[test]
fn server_without_streams_ends_with_an_error() {
    let close =
        "(sb-alien:alien-funcall (sb-alien:extern-alien \"syscall\" (function sb-alien:long sb-alien:long
        sb-alien:unsigned-int sb-alien:unsigned-int sb-alien:int)) 436 3 4294967295 0)";
    let replace = "(loop for i from 3 to 1000 do
        (sb-alien:alien-funcall (sb-alien:extern-alien \"dup2\" (function sb-alien:int sb-alien:int sb-alien:int)) 0 i))";
    for text in [close, replace] {
        let folder = Folder::new("rerun-streams");
        fs::write(folder.join("closes.lisp"), text).unwrap();
        let mut command = Command::new(STEELBANK);
        command.args(["--no-userinit", "serve"]).current_dir(&folder);
        command.env("STEELBANK_CACHE", folder.join("cache")).stderr(std::process::Stdio::piped());
        let (mut child, mut client) = serve(command, Streams::Pipes);
        let mut errors = child.stderr.take().unwrap();
        client.initialize();
        let path = folder.join("closes.lisp");
        // Wait until the index is written: Rust's debug builds abort if an open file was closed.
        client.text("who-calls", json!({ "name": "cl:mapcar" }));
        client.begin("tools/call", json!({ "name": "load-file", "arguments": { "path": path } }));
        assert!(client.read().is_none());
        drop(client);
        let status = ends(child);
        let mut said = String::new();
        std::io::Read::read_to_string(&mut errors, &mut said).unwrap();
        // Rust's debug builds may abort when a thread drops its descriptor.
        if cfg!(debug_assertions) && said.contains("IO Safety violation") {
            continue;
        }
        assert_eq!(status.code(), Some(3), "{text}: {status}, {said}");
        expect_text("closed streams", &said);
    }
}
