//! Links SBCL's runtime objects with the shim into one shared library, and tells dependents where it is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The size to which Lisp's heap can grow unless a program says otherwise, in MiB: the core is saved with it.
const HEAP_MEGABYTES: usize = 2048;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=include/steelbank.h");
    println!("cargo::rerun-if-changed=shim");
    for name in ["STEELBANK_CACHE", "STEELBANK_SBCL_SOURCE", "XDG_CACHE_HOME", "HOME"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    #[cfg(feature = "bindgen")]
    generate_bindings(&out)?;

    let sbcl = sbcl_tree()?;
    println!("cargo::rerun-if-changed={}", sbcl.join("STEELBANK").display());
    let library = link_library(&sbcl, &out)?;
    println!("cargo::metadata=library={}", library.display());
    println!("cargo::metadata=sbcl={}", sbcl.display());
    println!("cargo::metadata=heap-megabytes={HEAP_MEGABYTES}");
    println!("cargo::rustc-env=STEELBANK_BUILT_LIBRARY={}", library.display());
    println!("cargo::rustc-env=STEELBANK_HEAP_MEGABYTES={HEAP_MEGABYTES}");
    Ok(())
}

/// The SBCL tree that `bootstrap` built. Only the script knows how its key is made, so it is asked.
fn sbcl_tree() -> Result<PathBuf, Box<dyn std::error::Error>> {
    // The links beside this file are in its crate as what they lead to.
    let script = fs::canonicalize(Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("bootstrap"))?;
    println!("cargo::rerun-if-changed={}", script.display());
    println!("cargo::rerun-if-changed={}", script.with_file_name("vendor-notes").join("sbcl").display());
    let output = Command::new("sh")
        .arg(&script)
        .arg("--print-path")
        .output()
        .map_err(|error| format!("cannot run {}: {error}", script.display()))?;
    if !output.status.success() {
        let (script, said) = (script.display(), String::from_utf8_lossy(&output.stderr));
        return Err(format!("SBCL is not built yet; run  sh '{script}'  first ({})", said.trim()).into());
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim_end()))
}

fn link_library(sbcl: &Path, out: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let runtime = sbcl.join("src/runtime");
    let mut objects: Vec<PathBuf> = fs::read_dir(&runtime)
        .map_err(|error| format!("cannot read {}: {error}; run bootstrap", runtime.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with(".pic.o"))
        .collect();
    objects.sort();
    objects.push(sbcl.join("tlsf-bsd/tlsf/tlsf.pic.o"));

    let mut build = cc::Build::new();
    build.include("include").include("shim").warnings(true).pic(true);
    let mut shim = build
        .clone()
        .file("shim/steelbank.c")
        .file("shim/memory.c")
        .file("shim/children.c")
        .compile_intermediates();
    // This part is compiled with SBCL's own headers, which are not free of warnings.
    let mut faults = build.clone();
    faults.include("shim/absent").flag("-isystem").flag(&runtime).file("shim/faults.c");
    shim.extend(faults.compile_intermediates());

    let library = out.join("libsteelbank-sbcl.so");
    let mut link = build.get_compiler().to_command();
    link.arg("-shared").arg("-o").arg(&library).args(&shim).args(&objects);
    for function in [
        "execv", "fork", "personality", "exit", "_exit", "abort", "lose", "os_get_runtime_executable_path",
        "search_for_embedded_core", "handle_guard_page_triggered", "arch_os_thread_init",
        "os_alloc_gc_space", "sig_stop_for_gc_handler", "lisp_alloc",
    ] {
        link.arg(format!("-Wl,--wrap={function}"));
    }
    // Programs carry the library: its symbol table is three quarters of it, and what is exported stays.
    link.args(["-ldl", "-lpthread", "-lm", "-Wl,--strip-all"]);
    let status = link.status()?;
    if !status.success() {
        return Err(format!("linking {} failed: {link:?}", library.display()).into());
    }
    Ok(library)
}

/// `src/bindings.rs` is checked in; with this feature it is made anew from the header, for tests/bindings.rs to
/// compare.
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
