//! Builds the released program: with an old Debian's C library, and at paths that are the same on
//! every machine.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::tries::within;
use super::{FOLDER, Made, epoch, openly, output};
use crate::{root, target};

/// A shell command that mounts the checkout and the build folder at fixed paths, because the
/// program contains the paths of sources and of the core.
const MOUNT: &str = "mount -t tmpfs none /srv && mkdir /srv/steelbank /srv/old && mount --bind \"$1\" /srv/steelbank && \
                     mount --bind \"$2\" /srv/old && cd /srv/steelbank && shift 2 && exec \"$@\"";

/// Builds SBCL and the program of `checkout` in `folder`. A program linked with this system's C
/// library would require that version of the library or a later version.
pub(super) fn program(checkout: &Path, folder: &Path) -> Result<PathBuf, String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let there = |what: &str, command: &[&str], environment: &[(&str, &str)]| {
        let mut mounted = within(&["--mount"]);
        mounted.args(["sh", "-c", MOUNT, "sh"]).args([checkout, folder]).args(command);
        openly(what, mounted.envs(environment.iter().copied()))
    };
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    // Remap this machine's paths, which would otherwise appear in the program as locations of
    // panics.
    let [packages, rust] = machine()?;
    let maps = [format!("{packages}=/cargo"), format!("{rust}=/rust")];
    let maps_of_rustc = maps.each_ref().map(|map| format!("--remap-path-prefix={map}")).join("\x1f");
    // Omit the linker's build id, which depends on SBCL's core.
    let rustc = format!("{maps_of_rustc}\x1f-Clink-arg=-Wl,--build-id=none");
    date_lisp(checkout)?;
    let environment = [
        ("CC", "/srv/old/cc"),
        ("STEELBANK_CACHE", "/srv/old/cache"),
        ("CARGO_TARGET_DIR", "/srv/old/target"),
        ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER", "/srv/old/cc"),
        ("CARGO_ENCODED_RUSTFLAGS", &rustc),
        ("CFLAGS", &format!("-ffile-prefix-map={}", maps[0])),
    ];
    there("an old C library", &["sh", "xtask/old-libc.sh", "/srv/old"], &[])?;
    there("SBCL for the old C library", &["./bootstrap"], &environment[..2])?;
    let build = [&cargo, "build", "--release", "--locked", "--bin", "steelbank"];
    there("the release build for the old C library", &build, &environment)?;
    let program = folder.join("target/release/steelbank");
    let octets = read(&program)?;
    for path in [&packages, &rust, &*checkout.to_string_lossy()] {
        if octets.windows(path.len()).any(|window| window == path.as_bytes()) {
            return Err(format!("{} contains the path {path} of this machine", program.display()));
        }
    }
    Ok(program)
}

/// Sets the dates of the Lisp half's files to the commit's date, because the index in the program
/// contains dates of these files.
fn date_lisp(checkout: &Path) -> Result<(), String> {
    let date = SystemTime::UNIX_EPOCH + Duration::from_secs(epoch()?);
    let files = output(Command::new("git").args(["ls-files", "lisp"]).current_dir(checkout))?;
    for file in String::from_utf8_lossy(&files).lines().map(|file| checkout.join(file)) {
        let dated = std::fs::File::open(&file).and_then(|opened| opened.set_modified(date));
        dated.map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

/// Returns the paths of cargo's packages and of Rust on this machine.
fn machine() -> Result<[String; 2], String> {
    let home = std::env::home_dir().ok_or("there is no home folder")?;
    let packages = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let rust = output(Command::new("rustc").args(["--print", "sysroot"]).current_dir(root()))?;
    Ok([packages.to_string_lossy().into_owned(), String::from_utf8_lossy(&rust).trim().to_owned()])
}

/// Builds this commit in this checkout and in a new one, with the same SBCL, and checks that the
/// two programs differ only in SBCL's core.
pub(crate) fn twice() -> Made {
    let changed = output(Command::new("git").args(["status", "--porcelain"]).current_dir(root()))?;
    if !changed.is_empty() {
        return Err("this checkout has uncommitted changes; commit them first".to_owned());
    }
    let (old, again) = (target().join(FOLDER).join("old"), target().join(FOLDER).join("again"));
    let first = program(root(), &old)?;
    let _ = std::fs::remove_dir_all(&again);
    let checkout = again.join("checkout");
    let mut clone = Command::new("git");
    output(clone.args(["clone", "--quiet", "--shared", "--no-tags"]).arg(root()).arg(&checkout))?;
    let built = again.join("old");
    std::fs::create_dir_all(&built).map_err(|error| format!("{}: {error}", built.display()))?;
    let parts = ["root", "cc", "cache"].map(|part| old.join(part));
    output(Command::new("cp").arg("-a").args(parts).arg(&built))?;
    let second = program(&checkout, &built)?;
    let told = compared([&first, &second])?;
    println!("== two builds: {told}");
    std::fs::remove_dir_all(&again).map_err(|error| format!("{}: {error}", again.display()))
}

/// Compares two programs, and describes their differences. Fails if their sizes or the positions of
/// their cores differ, or if they differ outside SBCL's core.
fn compared(programs: [&Path; 2]) -> Result<String, String> {
    let [(one, core), (other, other_core)] =
        [(read(programs[0])?, core_of(programs[0])?), (read(programs[1])?, core_of(programs[1])?)];
    if core != other_core || one.len() != other.len() {
        return Err(format!(
            "the two programs have {} and {} bytes, and their cores are at {core:?} and {other_core:?}",
            one.len(),
            other.len()
        ));
    }
    let differ = |within: &dyn Fn(usize) -> bool| -> Vec<usize> {
        (0..one.len()).filter(|at| within(*at) && one[*at] != other[*at]).collect()
    };
    let outside = differ(&|at| !core.contains(&at));
    if let Some(first) = outside.first() {
        return Err(format!("{} bytes outside SBCL's core differ, the first at {first}", outside.len()));
    }
    let inside = differ(&|at| core.contains(&at)).len();
    Ok(format!(
        "{} bytes, of which {inside} differ, all of them among the {} bytes of SBCL's core",
        one.len(),
        core.len()
    ))
}

/// Returns the range of SBCL's core in a program.
fn core_of(program: &Path) -> Result<Range<usize>, String> {
    let sections = output(Command::new("readelf").args(["--sections", "--wide"]).arg(program))?;
    let sections = String::from_utf8_lossy(&sections);
    let numbers = sections.lines().find_map(|line| {
        let mut fields = line.split_once(" lisp.core ")?.1.split_whitespace().skip(2);
        let mut number = || usize::from_str_radix(fields.next()?, 16).ok();
        Some((number()?, number()?))
    });
    let (start, size) = numbers.ok_or_else(|| format!("{} has no core", program.display()))?;
    Ok(start..start + size)
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))
}
