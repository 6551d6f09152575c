//! Tests the packages with the commands in docs/install.md. The program in each package must answer
//! a query about examples/shop without any other file of this project. In a Debian system, and in a
//! root folder with only the program's libraries, README's session must print what README shows.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Made, Release, output, pages, quietly};
use crate::root;

/// The query, which is the second in README, and a text that its answer must contain.
const QUESTION: [&str; 4] = ["--system", "shop", "who-calls", "shop:total"];
const ANSWER: &str = "cart.lisp:24:22: receipt";

/// The time limit for installing the wheel and answering the query, on a machine without caches.
const SOON: Duration = Duration::from_secs(60);
/// The Debian releases to test, each with its glibc: the oldest supported release, and the release
/// that the packages are built on.
const DEBIANS: [(&str, (u32, u32)); 2] = [("bullseye", (2, 31)), ("bookworm", (2, 36))];

/// Runs `command` with the query, and checks the answer.
fn asks(what: &str, command: &mut Command) -> Made {
    println!("== {what}: {}", QUESTION.join(" "));
    let said = output(command.args(QUESTION))?;
    let said = String::from_utf8_lossy(&said).into_owned();
    if said.contains(ANSWER) { Ok(()) } else { Err(format!("{what} gives a wrong answer: {said}")) }
}

/// Copies the shop into `folder`.
fn shop_in(folder: &Path) -> Made {
    let shop = root().join("examples/shop");
    output(Command::new("cp").arg("-r").arg(shop).arg(folder)).map(drop)
}

/// A folder with a copy of the shop and links to the packages.
struct Place(tempfile::TempDir);

impl Place {
    fn new(release: &Release) -> Result<Self, String> {
        let place = Self(tempfile::tempdir().map_err(|error| error.to_string())?);
        shop_in(place.0.path())?;
        let packages = place.folder("packages");
        made(&packages)?;
        for file in super::archive::files_in(&release.folder)? {
            let link = packages.join(file.file_name().unwrap_or_default());
            std::os::unix::fs::symlink(&file, &link)
                .map_err(|error| format!("{}: {error}", link.display()))?;
        }
        Ok(place)
    }

    /// Returns a command that runs `line`, a command of docs/install.md, in the folder of the
    /// packages. Arguments added to it are passed to `line`.
    fn line(&self, line: &str) -> Command {
        let mut command = self.command("sh");
        command.current_dir(self.folder("packages")).args(["-c", &format!("{line} \"$@\""), line]);
        command
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns a command that runs `program` in the shop, with a minimal environment.
    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.current_dir(self.folder("shop")).env_clear().env("PATH", path).env("HOME", self.0.path());
        command
    }
}

fn one(release: &Release, end: &str) -> Result<PathBuf, String> {
    let found = super::archive::files_in(&release.folder)?;
    let found = found.into_iter().find(|path| path.to_string_lossy().ends_with(end));
    found.ok_or_else(|| format!("no package has a name that ends with {end}"))
}

/// Returns the `N` commands that docs/install.md lists in the row `with`, with this version
/// inserted.
fn lines<const N: usize>(release: &Release, with: &str) -> Result<[String; N], String> {
    let page = root().join("docs/install.md");
    let text = std::fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    let row = text.lines().find(|line| line.starts_with(&format!("| {with}")));
    let row = row.ok_or_else(|| format!("{} has no row for {with}", page.display()))?;
    let told: Vec<String> =
        pages::spans(&[row]).map(|line| line.replace("VERSION", &release.version)).collect();
    told.try_into()
        .map_err(|told| format!("{} must list {N} commands for {with}, but lists {told:?}", page.display()))
}

/// Returns whether this machine has `tool`. Prints a note about the skipped test otherwise.
fn has(tool: &str, what: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok_and(|said| said.status.success());
    if !found {
        println!("== skipped, because {tool} is missing: {what}");
    }
    found
}

/// Tests the packages on this machine.
pub(super) fn all(release: &Release) -> Made {
    let place = Place::new(release)?;
    quietly("SHA256SUMS", &mut place.line("sha256sum --check SHA256SUMS"))?;
    let [unpack, program] = lines(release, "tar")?;
    quietly(&unpack, &mut place.line(&unpack))?;
    let unpacked = place.folder("packages").join(format!("steelbank-{}-x86_64-linux", release.version));
    asks("the tar archive's program", &mut place.command(unpacked.join(program)))?;
    wheel(release, &place)?;
    if output(within(&ISOLATED).arg("true")).is_err() {
        println!(
            "== skipped, because unshare is not allowed: the Debian package, the image, and README's session in Debian"
        );
    } else {
        if has("dpkg", "the package for Debian") {
            deb(release, &place)?;
        }
        oci(release, &place)?;
        for (suite, glibc) in DEBIANS {
            if glibc < release.glibc {
                println!(
                    "== skipped, because the program requires a later glibc: README's session in {suite}"
                );
            } else {
                debian(release, &place, suite)?;
            }
        }
    }
    if has("npm", "the packages for npm, and the bundle") {
        npm(release, &place)?;
        bundle(release, &place)?;
    }
    if has("mcp-publisher", "validation of server.json") {
        let mut validate = Command::new("mcp-publisher");
        quietly("mcp-publisher", validate.arg("validate").arg(release.file("server.json")))?;
    }
    Ok(())
}

/// Installs the wheel without a network, and queries its program. Also runs the wheel without an
/// installation, if uvx is present.
fn wheel(release: &Release, place: &Place) -> Made {
    let [install, at_once] = lines(release, "pip, uv")?;
    let environment = place.folder("venv");
    quietly("a virtual environment", Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let begun = Instant::now();
    let mut pip = place.line(&install);
    let path = std::env::var("PATH").unwrap_or_default();
    pip.env("PATH", format!("{}:{path}", environment.join("bin").display()));
    pip.envs([("PIP_NO_INDEX", "1"), ("PIP_DISABLE_PIP_VERSION_CHECK", "1")]);
    quietly(&install, &mut pip)?;
    asks("the wheel's program", &mut place.command(environment.join("bin/steelbank")))?;
    let took = begun.elapsed();
    println!("== from the wheel to the answer: {:.1} s", took.as_secs_f32());
    if took > SOON {
        return Err(format!(
            "the time from the wheel to the answer is {} s, which is too long",
            took.as_secs()
        ));
    }
    if has("uvx", &at_once) {
        let mut uvx = place.line(&at_once);
        asks(&at_once, uvx.env("UV_OFFLINE", "1").args(["--project", "../shop"]))?;
    }
    Ok(())
}

/// Installs the package with dpkg into a root folder that contains only the libraries that the
/// program was built for, or this machine's if those are not known.
fn deb(release: &Release, place: &Place) -> Made {
    let root = place.folder("debian");
    let database = root.join("var/lib/dpkg");
    for folder in ["info", "updates"] {
        made(&database.join(folder))?;
    }
    written(&database.join("status"), b"")?;
    for mut library in super::oci::libraries(release)? {
        if let Some(old) = &release.old {
            let path = old.join(&library.path);
            library.octets = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        made(root.join(&library.path).parent().unwrap_or(&root))?;
        written(&root.join(&library.path), &library.octets)?;
        let mut mode = Command::new("chmod");
        output(mode.arg("755").arg(root.join(&library.path)))?;
    }
    let mut dpkg = within(&[]);
    // dpkg requires programs in folders that only the user root has in PATH.
    dpkg.env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()));
    // Ignore dependencies: the root folder has the libraries, but not as installed packages.
    dpkg.args(["dpkg", "--force-depends", "--root"]).arg(&root).arg("-i").arg(one(release, ".deb")?);
    quietly("dpkg -i", &mut dpkg)?;
    for file in ["share/man/man1/steelbank.1.gz", "share/bash-completion/completions/steelbank"] {
        std::fs::metadata(root.join("usr").join(file)).map_err(|error| format!("{file}: {error}"))?;
    }
    session_in(&root, "the program of the package for Debian")
}

/// Creates a Debian system without a compiler, and installs the package there as docs/install.md
/// describes.
fn debian(release: &Release, place: &Place, suite: &str) -> Made {
    if output(Command::new("id").arg("-u"))? != b"0\n" {
        println!("== skipped, because debootstrap needs root: README's session in {suite}");
        return Ok(());
    }
    if !has("debootstrap", &format!("README's session in {suite}")) {
        return Ok(());
    }
    let mut index = Command::new("apt-get");
    index.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian"]);
    let archives = output(index.arg("Label: Debian"))?;
    let archives = String::from_utf8_lossy(&archives);
    let archive =
        archives.lines().next().ok_or("apt's lists contain no Debian archive; run apt-get update")?;
    let root = place.folder(suite);
    let mut make = Command::new("debootstrap");
    quietly(
        &format!("{suite}, minimal variant"),
        make.args(["--variant=minbase", suite]).arg(&root).arg(archive),
    )?;
    for tool in ["cc", "gcc", "sbcl"] {
        if std::fs::symlink_metadata(root.join("usr/bin").join(tool)).is_ok() {
            return Err(format!("{suite} has {tool}, but must not have a compiler"));
        }
    }
    let packages = root.join("packages");
    made(&packages)?;
    let package = one(release, ".deb")?;
    output(Command::new("cp").arg(package).arg(&packages))?;
    let [install] = lines(release, "apt")?;
    let mut apt = Command::new("unshare");
    apt.args(ISOLATED).arg("--wd=/packages").arg("--root").arg(&root).args(["/bin/sh", "-c", &install]);
    quietly(&install, apt.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").stdin(Stdio::null()))?;
    session_in(&root, suite)
}

/// Unpacks the image's layer as a root folder, and runs README's session there.
fn oci(release: &Release, place: &Place) -> Made {
    let (image, root) = (place.folder("image"), place.folder("container"));
    made(&image)?;
    made(&root)?;
    let mut tar = Command::new("tar");
    quietly("the image", tar.arg("-xf").arg(one(release, "-oci.tar.xz")?).arg("-C").arg(&image))?;
    let read = |path: PathBuf| -> Result<Value, String> {
        let text = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))
    };
    let blob = |digest: &Value| image.join("blobs").join(digest.as_str().unwrap_or("").replace(':', "/"));
    let index = read(image.join("index.json"))?;
    let manifest = read(blob(&index["manifests"][0]["digest"]))?;
    let layer = blob(&manifest["layers"][0]["digest"]);
    quietly("its layer", Command::new("tar").arg("-xf").arg(layer).arg("-C").arg(&root))?;
    session_in(&root, "the image's program")
}

/// The options of `unshare` for a command with a separate set of processes and mounts, and a
/// separate /proc.
const ISOLATED: [&str; 4] = ["--mount", "--pid", "--fork", "--mount-proc"];

/// Returns an `unshare` command that runs as root in a new user namespace, so that the user needs
/// no root rights.
pub(super) fn within(options: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.arg("--map-root-user").args(options);
    command
}

/// Runs README's session with the program in `folder` as the root folder, which gets a copy of the
/// shop, /proc, and an empty file as /dev/null.
fn session_in(folder: &Path, what: &str) -> Made {
    println!("== {what}: README's session");
    made(&folder.join("proc"))?;
    made(&folder.join("dev"))?;
    if !folder.join("dev/null").exists() {
        written(&folder.join("dev/null"), b"")?;
    }
    shop_in(folder)?;
    let page = root().join("README.md");
    let readme = std::fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    let run = |line: &str| {
        let mut command = within(&ISOLATED);
        command.arg("--wd=/shop").arg("--root").arg(folder).args(line.split(' ')).env_clear();
        command.env("HOME", "/root").env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let printed = command.output().map(|output| pages::lines_of(&output.stdout));
        printed.unwrap_or_else(|error| vec![error.to_string()])
    };
    let (now, commands) = pages::repeat(&readme, run)?;
    let other = now.lines().zip(readme.lines()).find(|(now, readme)| now != readme);
    match other {
        _ if commands == 0 => Err("README has no session".to_owned()),
        Some((now, readme)) => Err(format!("{what} prints {now:?}, but README has {readme:?}")),
        None if now == readme => Ok(()),
        None => Err(format!("{what} prints another number of lines than README has")),
    }
}

/// Installs the npm packages from their files, without a network, and runs the query.
fn npm(release: &Release, place: &Place) -> Made {
    let [install, run] = lines(release, "npm")?;
    let offline = |mut command: Command| {
        let settings = [("offline", "true"), ("loglevel", "error"), ("audit", "false"), ("fund", "false")];
        command.envs(settings.map(|(name, value)| (format!("npm_config_{name}"), value)));
        command
    };
    quietly(&install, &mut offline(place.line(&install)))?;
    let mut npx = offline(place.line(&run));
    asks(&run, npx.args(["--project", "../shop"]))
}

/// Validates and unpacks the bundle with the format's official tool, and starts the server
/// according to its manifest.
fn bundle(release: &Release, place: &Place) -> Made {
    let tool = |arguments: &[&str]| {
        let mut command = Command::new("npx");
        command.args(["--yes", "--package=@anthropic-ai/mcpb@2.1.2", "mcpb"]).args(arguments);
        command.current_dir(place.0.path());
        command
    };
    if output(&mut tool(&["--version"])).is_err() {
        println!("== the test of the bundle is skipped, because npm cannot fetch @anthropic-ai/mcpb");
        return Ok(());
    }
    let file = one(release, ".mcpb")?;
    quietly("mcpb unpack", tool(&["unpack"]).arg(file).arg("bundle"))?;
    quietly("mcpb validate", &mut tool(&["validate", "bundle/manifest.json"]))?;
    let folder = place.folder("bundle");
    let manifest =
        std::fs::read(folder.join("manifest.json")).map_err(|error| format!("manifest.json: {error}"))?;
    let manifest: Value = serde_json::from_slice(&manifest).map_err(|error| error.to_string())?;
    let told = &manifest["server"]["mcp_config"];
    let filled = |word: &Value| {
        let word = word.as_str().unwrap_or_default().replace("${__dirname}", &folder.to_string_lossy());
        word.replace("${user_config.project}", &place.folder("shop").to_string_lossy())
    };
    let mut serve = place.command(filled(&told["command"]));
    serve.args(told["args"].as_array().into_iter().flatten().map(filled));
    // Call a tool that loads the system itself and waits for that load, because the loads at the
    // server's start may still run during the first calls.
    println!("== the bundle's server: tools/call run-tests shop/tests");
    serve.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = serve.spawn().map_err(|error| format!("cannot run {serve:?}: {error}"))?;
    let call = json!({ "name": "run-tests", "arguments": { "system": "shop/tests" } });
    let version = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "dist", "version": "1" },
    });
    let messages = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": version }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call }),
    ];
    // Close the input too: the server then answers pending requests and exits.
    let mut input = server.stdin.take().ok_or("the server has no input")?;
    let text = messages.map(|message| format!("{message}\n")).concat();
    input.write_all(text.as_bytes()).map_err(|error| format!("cannot write to the server: {error}"))?;
    drop(input);
    let said = server.wait_with_output().map_err(|error| format!("cannot read from the server: {error}"))?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    if said.contains(r#""counts":{"done":1}"#) {
        Ok(())
    } else {
        Err(format!("the bundle's server gives a wrong answer: {said}"))
    }
}

fn made(folder: &Path) -> Made {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn written(file: &Path, octets: &[u8]) -> Made {
    std::fs::write(file, octets).map_err(|error| format!("{}: {error}", file.display()))
}

/// Checks that the previous release's program and this release's program can alternate on one
/// cache.
pub(super) fn share_a_cache(release: &Release, previous: &Path) -> Made {
    let place = Place::new(release)?;
    for (what, program) in [
        ("the release before", previous),
        ("this release", &release.program),
        ("the release before, again", previous),
    ] {
        asks(&format!("{what}, on one cache"), &mut place.command(program))?;
    }
    Ok(())
}
