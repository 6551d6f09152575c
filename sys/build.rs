//! Links SBCL's runtime objects with the shim into one shared library, and passes its path to
//! dependents.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The default limit of Lisp's heap, in MiB. Cores are saved with it.
const HEAP_MEGABYTES: &str = include_str!("heap-megabytes").trim_ascii();

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=include/steelbank.h");
    println!("cargo::rerun-if-changed=shim");
    println!("cargo::rerun-if-changed=link.sh");
    for name in ["STEELBANK_CACHE", "STEELBANK_SBCL_SOURCE", "XDG_CACHE_HOME", "HOME"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    #[cfg(feature = "bindgen")]
    generate_bindings(&out)?;

    let script = script()?;
    let sbcl = sbcl_tree(&script)?;
    println!("cargo::rerun-if-changed={}", sbcl.join("STEELBANK").display());
    let library = link_library(&sbcl, &out)?;
    println!("cargo::metadata=library={}", library.display());
    println!("cargo::metadata=sbcl={}", sbcl.display());
    println!("cargo::metadata=bootstrap={}", script.display());
    println!("cargo::metadata=heap-megabytes={HEAP_MEGABYTES}");
    println!("cargo::rustc-env=STEELBANK_BUILT_LIBRARY={}", library.display());
    println!("cargo::rustc-env=STEELBANK_HEAP_MEGABYTES={HEAP_MEGABYTES}");
    Ok(())
}

/// Returns the path of the script `bootstrap`.
fn script() -> Result<PathBuf, Box<dyn std::error::Error>> {
    // Resolve the symbolic link next to this file. A packaged crate contains a copy instead.
    Ok(fs::canonicalize(Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("bootstrap"))?)
}

/// Returns the SBCL tree that `script` built. Runs the script to get the path, because only the
/// script can compute its key.
fn sbcl_tree(script: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed={}", script.display());
    println!("cargo::rerun-if-changed={}", script.with_file_name("vendor-notes").join("sbcl").display());
    let output = Command::new("sh")
        .arg(script)
        .arg("--print-path")
        .output()
        .map_err(|error| format!("cannot run {}: {error}", script.display()))?;
    if !output.status.success() {
        let (script, message) = (script.display(), String::from_utf8_lossy(&output.stderr));
        return Err(format!("SBCL is not built yet; run  sh '{script}'  first ({})", message.trim()).into());
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim_end()))
}

fn link_library(sbcl: &Path, out: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let compiler = cc::Build::new().warnings(true).pic(true).get_compiler().to_command();
    let output = Command::new("sh")
        .arg("link.sh")
        .args([sbcl, out])
        .arg(compiler.get_program())
        .args(compiler.get_args())
        .output()
        .map_err(|error| format!("cannot run link.sh: {error}"))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        return Err(format!("linking SBCL's runtime in {} failed:\n{message}", sbcl.display()).into());
    }
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        println!("cargo::warning={line}");
    }
    Ok(out.join("libsteelbank-sbcl.so"))
}

/// Generates the bindings from the header. `src/bindings.rs` is checked in; tests/bindings.rs
/// compares it with the generated file.
#[cfg(feature = "bindgen")]
fn generate_bindings(out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let bindings = bindgen::Builder::default()
        .header("include/steelbank.h")
        .allowlist_file(".*steelbank\\.h")
        .blocklist_function(".*")
        .prepend_enum_name(false)
        .disable_header_comment()
        .generate()?;
    bindings.write_to_file(out.join("bindings.rs"))?;
    println!("cargo::rustc-env=STEELBANK_GENERATED_BINDINGS={}", out.join("bindings.rs").display());
    Ok(())
}
