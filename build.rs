//! Makes the image that the program runs: saves the core with the Lisp half in it, bakes the core's cross references
//! into an index, and prepares what the `steelbank` binary embeds. SBCL itself was built by `bootstrap`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

#[path = "src/xref"]
mod xref {
    #![allow(dead_code, missing_docs, unreachable_pub)]
    pub(crate) mod bake;
    pub(crate) mod export;
    pub(crate) mod format;
}

#[path = "src/engine/heap.rs"]
#[allow(unreachable_pub)]
mod heap;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=lisp");
    println!("cargo::rerun-if-changed=src/engine/heap.rs");
    for module in ["bake", "export", "format"] {
        println!("cargo::rerun-if-changed=src/xref/{module}.rs");
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let image = out.join("image");
    fs::create_dir_all(&image)?;
    let library = PathBuf::from(env::var("DEP_STEELBANK_SBCL_LIBRARY")?);
    let sbcl = PathBuf::from(env::var("DEP_STEELBANK_SBCL_SBCL")?);
    let copy = out.join("libsteelbank-sbcl.so");
    fs::copy(&library, &copy)?;
    fs::rename(copy, image.join("libsteelbank-sbcl.so"))?;
    save_core(&sbcl, &out, &image)?;
    let contribs = pack_contribs(&sbcl, &image)?;
    embed(&out, &image, &contribs)?;
    println!("cargo::rustc-env=STEELBANK_BUILT_IMAGE={}", image.display());
    println!("cargo::rustc-env=STEELBANK_BUILT_SBCL={}", sbcl.display());
    Ok(())
}

/// Runs the new SBCL on lisp/build-core.lisp: the core, and the index of its cross references.
fn save_core(sbcl: &Path, out: &Path, image: &Path) -> Result<()> {
    let fasls = out.join("fasls");
    fs::create_dir_all(&fasls)?;
    // Programs that run have the old core mapped: it is replaced, never written over.
    let (core, export) = (out.join("steelbank.core"), out.join("xref.export"));
    let output = Command::new(sbcl.join("src/runtime/sbcl"))
        .arg("--core")
        .arg(sbcl.join("output/sbcl.core"))
        // The width of the collector's card marks is compiled into the core's code, for the heap that it is saved with.
        // A start with another heap size rewrites all of that code first, which takes 15 ms: so this is the size that
        // programs start with.
        .args(["--noinform", "--dynamic-space-size", &format!("{}MB", heap::DEFAULT_HEAP_MEGABYTES)])
        .args(["--no-sysinit", "--no-userinit", "--non-interactive", "--load", "lisp/build-core.lisp"])
        .env("SBCL_HOME", sbcl.join("obj/sbcl-home"))
        .env("STEELBANK_BUILD_CORE", &core)
        .env("STEELBANK_BUILD_FASLS", fasls.join(""))
        .env("STEELBANK_BUILD_XREF", &export)
        .output()
        .map_err(|error| format!("cannot run the SBCL in {}: {error}; run ./bootstrap", sbcl.display()))?;
    if !output.status.success() || !core.is_file() {
        let said = [output.stdout, output.stderr].concat();
        return Err(format!("saving the core failed:\n{}", String::from_utf8_lossy(&said)).into());
    }
    let index = xref::bake::bake(&fs::read(&export)?)
        .map_err(|error| format!("the core's cross references cannot be baked: {error:?}"))?;
    fs::rename(&core, image.join("steelbank.core"))?;
    fs::write(image.join("steelbank.xref"), index)?;
    Ok(())
}

/// The fasls of the contrib modules: whole beside the core, and deflated for the binary.
fn pack_contribs(sbcl: &Path, image: &Path) -> Result<Vec<String>> {
    let (whole, packed) = (image.join("contrib"), image.join("packed"));
    fs::create_dir_all(&whole)?;
    fs::create_dir_all(&packed)?;
    let mut names = Vec::new();
    for entry in fs::read_dir(sbcl.join("obj/sbcl-home/contrib"))? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let octets = fs::read(&path)?;
        fs::write(whole.join(name), &octets)?;
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&octets)?;
        fs::write(packed.join(name), encoder.finish()?)?;
        names.push(name.to_owned());
    }
    names.sort();
    Ok(names)
}

/// What src/main.rs includes, and the object file that puts the core into the binary, and into nothing else.
/// SBCL looks for the core in an ELF section of this name; the section must not be dropped as unused ("R").
fn embed(out: &Path, image: &Path, contribs: &[String]) -> Result<()> {
    let mut list = String::from("&[\n");
    for name in contribs {
        writeln!(list, "    ({name:?}, include_bytes!({:?})),", image.join("packed").join(name))?;
    }
    list.push_str("]\n");
    fs::write(out.join("contribs.rs"), list)?;

    let assembly = out.join("core.s");
    fs::write(
        &assembly,
        format!(
            ".section lisp.core,\"aR\",@progbits\n.balign 32768\n.incbin \"{}\"\n.section .note.GNU-stack,\"\",@progbits\n",
            image.join("steelbank.core").display()
        ),
    )?;
    let object = out.join("core.o");
    let status = cc::Build::new()
        .get_compiler()
        .to_command()
        .arg("-c")
        .arg(&assembly)
        .arg("-o")
        .arg(&object)
        .status()?;
    if !status.success() {
        return Err(io::Error::other("the assembler could not embed the core").into());
    }
    println!("cargo::rustc-link-arg-bins={}", object.display());
    Ok(())
}
