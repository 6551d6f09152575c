//! Tests of `serve --swank`, where a person's editor uses the same Lisp. [`Editor`] speaks Swank's
//! protocol.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::child::{wait_until, wait_while};
use crate::client::Client;
use crate::program::{Folder, Streams, ends_well, initialized, outcome, server, shown};
use crate::texts::expect_text;

/// The path of Debian's cl-swank, where ASDF finds it.
const SWANK: &str = "/usr/share/common-lisp/source/slime/swank.asd";

/// An environment that lets ASDF find only the project's systems.
const NOTHING_INSTALLED: (&str, &str) =
    ("CL_SOURCE_REGISTRY", "(:source-registry :ignore-inherited-configuration)");

/// Returns whether Swank is installed. Prints a line if it is not.
pub(crate) fn is_installed() -> bool {
    let found = Path::new(SWANK).exists();
    if !found {
        println!("seen: left out, as there is no Swank: apt install cl-swank");
    }
    found
}

/// The part of Swank's answer that reports success.
pub(crate) const COMPILED: &str = ":compilation-result nil t";

/// An editor's end of a connection to Swank.
pub(crate) struct Editor {
    stream: TcpStream,
    last: u32,
    /// Events that were read while waiting for answers.
    events: Vec<String>,
}

impl Editor {
    fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self { stream, last: 0, events: Vec::new() })
    }

    /// Retries until Swank answers, as a restart may be about to end it.
    pub(crate) fn connected(port: u16) -> Self {
        let mut connected = None;
        wait_until("Swank does not answer", || {
            connected = Self::connect(port).ok();
            let asked = connected.as_mut().map(|editor| editor.ask("(swank:connection-info)", "CL-USER"));
            asked.is_some_and(|answer| answer.is_ok())
        });
        connected.unwrap()
    }

    fn send(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(format!("{:06x}{text}", text.len()).as_bytes())
    }

    pub(crate) fn read(&mut self) -> io::Result<String> {
        let mut length = [0; 6];
        self.stream.read_exact(&mut length)?;
        let length = usize::from_str_radix(std::str::from_utf8(&length).unwrap(), 16).unwrap();
        let mut text = vec![0; length];
        self.stream.read_exact(&mut text)?;
        Ok(String::from_utf8(text).unwrap())
    }

    fn begin(&mut self, form: &str, package: &str) -> io::Result<u32> {
        self.last += 1;
        self.send(&format!("(:emacs-rex {form} \"{package}\" t {})", self.last))?;
        Ok(self.last)
    }

    fn ask(&mut self, form: &str, package: &str) -> io::Result<String> {
        let number = self.begin(form, package)?;
        loop {
            let event = self.read()?;
            if event.starts_with("(:return ") && event.ends_with(&format!(" {number})")) {
                return Ok(event);
            }
            self.events.push(event);
        }
    }

    fn evaluate(&mut self, code: &str) -> String {
        self.ask(&format!("(swank:eval-and-grab-output {code:?})"), "CL-USER").unwrap()
    }

    /// Compiles `text`, which is in the buffer of `path` at `position`, as `C-c C-c` does.
    fn compile(&mut self, text: &str, path: &Path, position: usize) {
        let answer = self.try_compile(text, path, position).unwrap();
        assert!(answer.contains(COMPILED), "{answer}");
    }

    /// Compiles as [`Self::compile`] does, and returns Swank's answer.
    pub(crate) fn try_compile(&mut self, text: &str, path: &Path, position: usize) -> io::Result<String> {
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        let form = format!(
            "(swank:compile-string-for-emacs \"{text}\" \"shop.lisp\" '((:position {position}) (:line 1 1)) {path:?} 'nil)"
        );
        self.ask(&form, "SHOP")
    }

    /// Ends Lisp by evaluating a form.
    pub(crate) fn end_lisp(&mut self) {
        let abort = "(sb-alien:alien-funcall (sb-alien:extern-alien \\\"abort\\\" (function sb-alien:void)))";
        self.begin(&format!("(cl:eval (cl:read-from-string \"{abort}\"))"), "CL-USER").unwrap();
    }

    /// Waits for an event that contains `words`.
    fn hears(&mut self, words: &str) {
        while !self.events.iter().any(|event| event.contains(words)) {
            let event = self.read().unwrap();
            self.events.push(event);
        }
    }
}

const SHOP: &str = "(defpackage :shop (:use :cl))
(in-package :shop)

(defun price (item)
  (length item))

(defun total (items)
  (reduce #'+ (mapcar #'price items)))
";

/// Writes a project and an empty home.
pub(crate) fn project(name: &str) -> Folder {
    let folder = Folder::new(name);
    for inner in ["project", "home"] {
        std::fs::create_dir(folder.join(inner)).unwrap();
    }
    std::fs::write(folder.join("project/shop.asd"), "(defsystem \"shop\" :components ((:file \"shop\")))")
        .unwrap();
    std::fs::write(folder.join("project/shop.lisp"), SHOP).unwrap();
    folder
}

pub(crate) fn serving(folder: &Folder, options: &[&str]) -> Command {
    let mut command = server();
    command.args(["--no-userinit", "--system", "shop"]).args(options);
    command.current_dir(folder.join("project")).env("STEELBANK_CACHE", folder.join("cache"));
    command.env("HOME", folder.join("home")).env_remove("CL_SOURCE_REGISTRY");
    command
}

/// Waits until Swank listens and the project is loaded, and returns the port.
pub(crate) fn port(client: &mut Client) -> u16 {
    wait_while(|| {
        let status = client.status();
        assert!(status["no_swank"].is_null(), "{status}");
        status["swank"].is_null() || status["loads"].is_null() || status["loading"] == true
    });
    u16::try_from(client.status()["swank"]["port"].as_u64().unwrap()).unwrap()
}

#[test]
fn editor_definitions_are_in_the_next_answer() {
    if !is_installed() {
        return;
    }
    let folder = project("swank-person");
    let (child, mut client) =
        initialized(serving(&folder, &["--allow-eval", "--swank", "0"]), Streams::Pipes);
    let port = port(&mut client);
    let mut editor = Editor::connected(port);
    assert!(editor.evaluate("(shop::total (list \"a\" \"bc\"))").contains("\"3\""));
    // The place of code from a saved buffer is exact.
    let path = folder.join("project/shop.lisp");
    let new = "(defun discount (items)\n  \"\\\"Less\\\".\"\n  (* 9/10 (total items)))";
    std::fs::write(&path, format!("{SHOP}\n;; ä\n{new}\n")).unwrap();
    editor.compile(new, &path, SHOP.chars().count() + 7);
    let found = client.call("find-definition", json!({ "name": "discount", "package": "shop" }));
    let definitions = &found["structuredContent"]["definitions"];
    assert_eq!(definitions[0]["at"], "shop.lisp:11:8", "{found}");
    assert_eq!(definitions[0]["evidence"], Value::Null, "{found}");
    let callers = client.text("who-calls", json!({ "name": "total", "package": "shop" }));
    assert!(callers.contains("shop.lisp:13:12:"), "{callers}");
    let described = client.call("describe-symbol", json!({ "name": "discount", "package": "shop" }));
    let text = described["content"][0]["text"].as_str().unwrap();
    let is_current = !text.contains("changed since");
    assert!(text.contains("shop.lisp:11:1") && is_current, "{described}");
    // Other definitions keep their places.
    let found = client.call("find-definition", json!({ "name": "price", "package": "shop" }));
    assert_eq!(found["structuredContent"]["definitions"][0]["at"], "shop.lisp:4:8", "{found}");
    // The place of code from an unsaved buffer is near a form with the same beginning.
    editor.compile("(defun price (item)\n  (1+ (length item)))", &path, 1);
    let found = client.call("find-definition", json!({ "name": "price", "package": "shop" }));
    let definitions = &found["structuredContent"]["definitions"];
    assert!(definitions.to_string().contains("\"at\":\"shop.lisp:4:8\""), "{found}");
    assert!(definitions.to_string().contains("\"evidence\":\"approximate\""), "{found}");
    assert!(editor.evaluate("(shop::discount (list \"a\" \"bc\"))").contains("9/2"));
    // Compile and load a file.
    std::fs::write(&path, format!("{SHOP}\n\n(defun twice (item)\n  (* 2 (price item)))\n")).unwrap();
    let compiled = editor.ask(&format!("(swank:compile-file-for-emacs {path:?} t)"), "CL-USER").unwrap();
    assert!(compiled.contains(COMPILED), "{compiled}");
    let compiled = path.with_extension("fasl");
    let loaded = editor.ask(&format!("(swank:load-file {compiled:?})"), "CL-USER").unwrap();
    assert!(loaded.contains(":ok"), "{loaded}");
    let callers = client.text("who-calls", json!({ "name": "price", "package": "shop" }));
    assert!(callers.contains("shop.lisp:12:9:"), "{callers}");
    // Definitions in the REPL are found, also of variables.
    editor.evaluate("(defun shop::from-repl () (shop::price nil))");
    let callers = client.text("who-calls", json!({ "name": "price", "package": "shop" }));
    assert!(callers.contains("SHOP::FROM-REPL"), "{callers}");
    editor.evaluate("(defvar shop::*rate* 3)");
    let found = client.text("describe-symbol", json!({ "name": "*rate*", "package": "shop" }));
    assert!(found.contains("SHOP::*RATE*"), "{found}");
    // The editor gets a message about the agent's load.
    editor.events.clear();
    client.text("load-system", json!({ "system": "shop", "force": true }));
    editor.hears("shop");
    ends_well(child, client);
}

#[test]
fn editor_reconnects_and_strangers_are_refused() {
    if !is_installed() {
        return;
    }
    let folder = project("swank-death");
    let (child, mut client) =
        initialized(serving(&folder, &["--allow-eval", "--swank", "0"]), Streams::Pipes);
    let port = port(&mut client);
    let mut editor = Editor::connected(port);
    assert!(only_loopback(port));
    let swank = client.status()["swank"].clone();
    assert_eq!(swank, json!({ "system": "swank", "port": port, "connections": 1 }));
    // A restart needs `force` because of the editor.
    let refused = client.error("restart-lisp", json!({}));
    assert!(refused.contains(&port.to_string()) && refused.contains("force"), "{refused}");
    // The editor ends Lisp.
    let begun = Instant::now();
    editor.end_lisp();
    while editor.read().is_ok() {}
    let mut editor = Editor::connected(port);
    println!("seen: Swank answers {:?} after Lisp's death", begun.elapsed());
    let restarts = client.status()["restarts"].clone();
    assert_eq!(restarts.as_array().map(Vec::len), Some(1), "{restarts}");
    // A requested restart keeps the port, too.
    client.text("restart-lisp", json!({ "force": true }));
    while editor.read().is_ok() {}
    let mut editor = Editor::connected(port);
    // Clients without the secret are refused, and block nobody.
    let secret = folder.join("home/.slime-secret");
    std::fs::write(&secret, "sesame\n").unwrap();
    for _ in 0..3 {
        let mut stranger = Editor::connect(port).unwrap();
        stranger.send("mellon").unwrap();
        assert!(stranger.read().is_err(), "a stranger is answered");
        comes_in(port, &mut client);
    }
    // Several clients without the secret are refused, too, if they connect at once.
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..60 {
                    let stranger = Editor::connect(port).and_then(|mut editor| editor.send("mellon"));
                    if stranger.is_err() {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                }
            });
        }
    });
    comes_in(port, &mut client);
    let reports = client.status()["reports"].to_string();
    assert!(reports.contains("password"), "{reports}");
    assert!(editor.evaluate("(+ 1 1)").contains("\"2\""));
    ends_well(child, client);
}

#[test]
fn busy_person_delays_questions_by_one_second() {
    if !is_installed() {
        return;
    }
    let folder = project("swank-busy");
    let (child, mut client) =
        initialized(serving(&folder, &["--allow-eval", "--swank", "0"]), Streams::Pipes);
    let mut editor = Editor::connected(port(&mut client));
    let mut callers = || {
        let begun = Instant::now();
        client.text("who-calls", json!({ "name": "price", "package": "shop" }));
        begun.elapsed()
    };
    let own = callers();
    // A collection stops all other threads until the new thread permits it.
    let busy = "(progn (sb-thread:make-thread (lambda () (sb-sys:without-gcing (sleep 6))))
                       (sleep 0.1) (compile nil '(lambda ())) (gc))";
    editor.begin(&format!("(swank:eval-and-grab-output {busy:?})"), "CL-USER").unwrap();
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..3 {
        let took = callers();
        assert!(took < own + Duration::from_secs(1), "{took:?}, {own:?}");
    }
    assert!(editor.evaluate("(defun shop::late () (shop::price nil))").contains("LATE"));
    wait_until("the question does not see new code", || {
        client.text("who-calls", json!({ "name": "price", "package": "shop" })).contains("SHOP::LATE")
    });
    ends_well(child, client);
}

/// Checks that a client with the secret can connect. It may have to retry.
fn comes_in(port: u16, client: &mut Client) {
    let begun = Instant::now();
    let friend = || {
        Editor::connect(port).and_then(|mut friend| {
            friend.send("sesame")?;
            friend.ask("(swank:connection-info)", "CL-USER")
        })
    };
    while let Err(error) = friend() {
        assert!(begun.elapsed() < Duration::from_secs(90), "{error}: {}", client.status());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns whether the port listens only on the loopback address.
fn only_loopback(port: u16) -> bool {
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    let of_port = format!(":{port:04X}");
    let addresses: Vec<&str> = tables
        .iter()
        .flat_map(|table| table.lines())
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|fields| fields.len() > 3 && fields[1].ends_with(&of_port) && fields[3] == "0A")
        .map(|fields| fields[1].split(':').next().unwrap())
        .collect();
    addresses == ["0100007F"]
}

#[test]
fn sharing_clients_share_the_port() {
    if !is_installed() {
        return;
    }
    let folder = project("swank-shared");
    let sharing = |options: &[&str]| serving(&folder, &[&["--share", "--linger", "1"], options].concat());
    let mut first = initialized(sharing(&["--allow-eval"]), Streams::Pipes);
    assert!(first.1.status()["swank"].is_null());
    let mut second = initialized(sharing(&["--allow-eval", "--swank", "0"]), Streams::Pipes);
    let port = port(&mut second.1);
    let host = first.1.status()["host"]["process"].clone();
    assert_eq!(host, second.1.status()["host"]["process"]);
    let mut third = initialized(sharing(&["--allow-eval", "--swank", &port.to_string()]), Streams::Pipes);
    assert_eq!(third.1.status()["swank"]["port"], port);
    // Another port is refused, and the error names the open port.
    let other = if port == 4005 { 4006 } else { 4005 };
    let mut refused = sharing(&["--allow-eval", "--swank", &other.to_string()]);
    let (_, errors, code) = outcome(&refused.stdin(Stdio::null()).stderr(Stdio::piped()).output().unwrap());
    assert!(errors.contains(&port.to_string()) && code == Some(3), "{code:?} {errors}");
    let mut editor = Editor::connected(port);
    let refused = third.1.error("restart-lisp", json!({}));
    assert!(["tests 1", &port.to_string(), "force"].iter().all(|part| refused.contains(part)), "{refused}");
    // The port outlives the client that requested it, and Lisp.
    ends_well(second.0, second.1);
    ends_well(third.0, third.1);
    editor.end_lisp();
    while editor.read().is_ok() {}
    let mut editor = Editor::connected(port);
    assert!(editor.evaluate("(+ 1 1)").contains("\"2\""));
    // The last answer may come from the image that was about to end.
    assert_eq!(self::port(&mut first.1), port);
    assert_eq!(first.1.status()["host"]["process"], host);
    ends_well(first.0, first.1);
    wait_while(|| Path::new(&format!("/proc/{host}")).exists());
}

#[test]
fn port_needs_permission_and_swank() {
    let folder = project("swank-none");
    for options in [&["--swank", "0"][..], &["--share", "--swank", "0"]] {
        let mut refused = serving(&folder, options);
        expect_text(
            "no permission",
            &shown(&refused.stdin(Stdio::null()).stderr(Stdio::piped()).output().unwrap()),
        );
    }
    // Without Swank, the agent is served.
    let mut command = serving(&folder, &["--allow-eval", "--swank", "0"]);
    command.env(NOTHING_INSTALLED.0, NOTHING_INSTALLED.1);
    let (child, mut client) = initialized(command, Streams::Pipes);
    wait_while(|| client.status()["no_swank"].is_null());
    expect_text("no Swank", client.status()["no_swank"].as_str().unwrap());
    wait_while(|| client.status()["loading"] == true);
    assert!(
        client.text("describe-symbol", json!({ "name": "total", "package": "shop" })).contains("[FUNCTION]")
    );
    // Request a port that is in use.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    ends_well(child, client);
    if is_installed() {
        let command = serving(&folder, &["--allow-eval", "--swank", &port]);
        let (child, mut client) = initialized(command, Streams::Pipes);
        wait_while(|| client.status()["no_swank"].is_null());
        let why = client.status()["no_swank"].as_str().unwrap().to_owned();
        assert!(why.contains(&port), "{why}");
        ends_well(child, client);
    }
}

/// Returns whether there is an Emacs with SLIME.
pub(crate) fn has_slime() -> bool {
    let emacs = Command::new("emacs").args(["--batch", "--eval", "(require 'slime)"]).output();
    emacs.is_ok_and(|output| output.status.success())
}

#[test]
fn slime_and_an_agent_work_in_one_image() {
    if !is_installed() || !has_slime() {
        println!("seen: left out, as there is no Emacs with SLIME: apt install emacs-nox slime");
        return;
    }
    const EXPECTED: &str = r#"connected: SBCL
eval: => 3 (2 bits, #x3, #o3, #b11)
output: (SHOP NIL)
repl: 42
package: :shop
C-c C-c: t
called: => 27/10 (2.7)
arglist: (discount ITEMS)
completions: (discount)
documentation: Documentation for the symbol PRICE:
describe: t
apropos: DISCOUNT
callers: (DISCOUNT)
M-.: shop.lisp:4
macroexpand: (IF A
    B)
disassemble: t
inspect: t
trace: SHOP::PRICE is now traced.
untrace: SHOP::PRICE is now untraced.
undefine: SHOP::DISCOUNT
C-c C-k: t
loaded: t
debugger: from Emacs
restarts: t
interrupted: t
alive: => 2 (2 bits, #x2, #o2, #b10)
"#;
    let folder = project("swank-emacs");
    let (child, mut client) =
        initialized(serving(&folder, &["--allow-eval", "--swank", "0"]), Streams::Pipes);
    let port = port(&mut client);
    let path = folder.0.join("project/shop.lisp");
    std::fs::write(&path, format!("{SHOP}\n(defun discount (items)\n  (* 9/10 (total items)))\n")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/editors/slime.el");
    let mut emacs = Command::new("emacs")
        .arg("--batch")
        .arg("-l")
        .arg(script)
        .env("PORT", port.to_string())
        .env("FILE", &path)
        .env("HOME", folder.0.join("home"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Meanwhile, the agent sends queries.
    let (mut asked, mut seen) = (0, false);
    while emacs.try_wait().unwrap().is_none() {
        let callers = client.text("who-calls", json!({ "name": "price", "package": "shop" }));
        assert!(callers.contains("SHOP::TOTAL"), "{callers}");
        let found = client.text("who-calls", json!({ "name": "total", "package": "shop" }));
        seen |= found.contains("shop.lisp:11:12:");
        asked += 2;
    }
    let output = emacs.wait_with_output().unwrap();
    let (said, errors, _) = outcome(&output);
    assert_eq!(said, EXPECTED, "{errors}");
    assert!(seen, "{asked} questions, and none saw what was compiled");
    println!("seen: {asked} questions beside Emacs");
    ends_well(child, client);
}
