//! Tries the packages: each answers a question about examples/shop, with nothing else of ours beside it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{Made, Release, output, quietly};
use crate::root;

/// The question, and the place that its answer has: README's second one.
const QUESTION: [&str; 4] = ["--system", "shop", "who-calls", "shop:total"];
const ANSWER: &str = "cart.lisp:24:22: shop:receipt";

/// Runs `command` with the question, and checks the answer.
fn asks(what: &str, command: &mut Command) -> Made {
    println!("== {what}: {}", QUESTION.join(" "));
    let said = output(command.args(QUESTION))?;
    let said = String::from_utf8_lossy(&said).into_owned();
    if said.contains(ANSWER) { Ok(()) } else { Err(format!("{what} answers {said}")) }
}

/// A folder with a copy of the shop, and nothing else of ours.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let shop = root().join("examples/shop");
        quietly("a copy of examples/shop", Command::new("cp").arg("-r").arg(shop).arg(folder.path()))?;
        Ok(Self(folder))
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs `program` in the shop, with an empty environment but for what programs of its kind need.
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
    found.ok_or_else(|| format!("there is no package {end}"))
}

/// Whether this machine has `tool`; tells what is left out otherwise.
fn has(tool: &str, what: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok_and(|said| said.status.success());
    if !found {
        println!("== left out, for want of {tool}: {what}");
    }
    found
}

/// Tries the packages on this machine.
pub(super) fn all(release: &Release) -> Made {
    let place = Place::new()?;
    let tar = one(release, "-linux.tar.xz")?;
    quietly("the tar archive", Command::new("tar").arg("-xf").arg(tar).arg("-C").arg(place.0.path()))?;
    let unpacked = place.folder(&format!("steelbank-{}-x86_64-linux/bin/steelbank", release.version));
    asks("the tar archive's program", &mut place.command(unpacked))?;
    let environment = place.folder("venv");
    quietly("a virtual environment", Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let mut pip = Command::new(environment.join("bin/pip"));
    pip.args(["install", "--quiet", "--no-index", "--disable-pip-version-check"]).arg(one(release, ".whl")?);
    quietly("pip install", &mut pip)?;
    asks("the wheel's program", &mut place.command(environment.join("bin/steelbank")))?;
    if output(within(&ISOLATED).arg("true")).is_err() {
        println!("== left out, as this system lets nobody unshare: the package for Debian and the image");
    } else {
        if has("dpkg", "the package for Debian") {
            deb(release, &place)?;
        }
        oci(release, &place)?;
    }
    if has("npm", "the packages for npm, and the bundle") {
        npm(release, &place)?;
        bundle(release, &place)?;
    }
    if has("mcp-publisher", "server.json, by its registry's own tool") {
        let mut validate = Command::new("mcp-publisher");
        quietly("mcp-publisher", validate.arg("validate").arg(release.file("server.json")))?;
    }
    Ok(())
}

/// Installs the package by dpkg into a root that has nothing but what the program asks for: the libraries that it was built for.
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
    // dpkg looks for programs that are on root's path alone.
    dpkg.env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()));
    // Its libraries are in that root without their packages.
    dpkg.args(["dpkg", "--force-depends", "--root"]).arg(&root).arg("-i").arg(one(release, ".deb")?);
    quietly("dpkg -i", &mut dpkg)?;
    for file in ["share/man/man1/steelbank.1.gz", "share/bash-completion/completions/steelbank"] {
        std::fs::metadata(root.join("usr").join(file)).map_err(|error| format!("{file}: {error}"))?;
    }
    asks_in(&root, "the program of the package for Debian", place)
}

/// Unpacks the image's layer as the root.
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
    asks_in(&root, "the image's program", place)
}

/// The options for a command that has processes, mounts and a /proc of its own.
const ISOLATED: [&str; 4] = ["--mount", "--pid", "--fork", "--mount-proc"];

/// Starts a command of `unshare`: as the user who owns a root, also for one who is not.
fn within(options: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.arg("--map-root-user").args(options);
    command
}

/// Asks the program in `root`, with a copy of the shop, /proc, and nothing else.
fn asks_in(root: &Path, what: &str, place: &Place) -> Made {
    made(&root.join("proc"))?;
    output(Command::new("cp").arg("-r").arg(place.folder("shop")).arg(root))?;
    let mut command = within(&ISOLATED);
    command
        .arg("--wd=/shop")
        .arg("--root")
        .arg(root)
        .arg("/usr/bin/steelbank")
        .env_clear()
        .env("HOME", "/root");
    asks(what, command.env("PATH", std::env::var_os("PATH").unwrap_or_default()))
}

/// Installs the packages from their files, without the network.
fn npm(release: &Release, place: &Place) -> Made {
    let folder = place.folder("npm");
    made(&folder)?;
    let version = &release.version;
    let mut install = place.command("npm");
    install.current_dir(&folder).args(["install", "--silent", "--offline", "--no-audit", "--no-fund"]);
    for name in ["steelbank", "steelbank-linux-x64"] {
        install.arg(release.file(&format!("{name}-{version}.tgz")));
    }
    quietly("npm install", &mut install)?;
    let mut npx = place.command("npx");
    npx.current_dir(&folder).args(["--no-install", "steelbank", "--project", "../shop"]);
    asks("npx", &mut npx)
}

/// Has the format's own tool validate and unpack the bundle, and serves from that as its manifest says.
fn bundle(release: &Release, place: &Place) -> Made {
    let tool = |arguments: &[&str]| {
        let mut command = Command::new("npx");
        command.args(["--yes", "--package=@anthropic-ai/mcpb@2.1.2", "mcpb"]).args(arguments);
        command.current_dir(place.0.path());
        command
    };
    if output(&mut tool(&["--version"])).is_err() {
        println!("== left out, as npm does not get @anthropic-ai/mcpb: the bundle");
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
    // Asks for what waits for its own load: the server's goes on beside the first questions.
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
    // Ends the input, too: the server answers what it was asked, and leaves.
    let mut input = server.stdin.take().ok_or("the server has no input")?;
    let text = messages.map(|message| format!("{message}\n")).concat();
    input.write_all(text.as_bytes()).map_err(|error| format!("the bundle's server: {error}"))?;
    drop(input);
    let said = server.wait_with_output().map_err(|error| format!("the bundle's server: {error}"))?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    if said.contains(r#""counts":{"done":1}"#) {
        Ok(())
    } else {
        Err(format!("the bundle's server answers {said}"))
    }
}

fn made(folder: &Path) -> Made {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn written(file: &Path, octets: &[u8]) -> Made {
    std::fs::write(file, octets).map_err(|error| format!("{}: {error}", file.display()))
}

/// Checks that the program of the release before and this one answer from one cache, in turn.
pub(super) fn share_a_cache(release: &Release, previous: &Path) -> Made {
    let place = Place::new()?;
    for (what, program) in [
        ("the release before", previous),
        ("this one", &release.program),
        ("the release before, again", previous),
    ] {
        asks(&format!("{what}, on one cache"), &mut place.command(program))?;
    }
    Ok(())
}
