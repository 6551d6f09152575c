//! Builds the image that the program runs, with the SBCL that `bootstrap` has built. Saves the core
//! with the Lisp half loaded, converts the core's cross references into an index, and copies the
//! runtime library and the contrib modules. For feature `embedded`, also packs the core and the
//! contrib modules for linking.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=lisp");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let image = out.join("image");
    fs::create_dir_all(&image)?;
    let library = PathBuf::from(env::var("DEP_STEELBANK_SBCL_LIBRARY")?);
    let sbcl = PathBuf::from(env::var("DEP_STEELBANK_SBCL_SBCL")?);
    let copy = out.join("libsteelbank-sbcl.so");
    fs::copy(&library, &copy)?;
    fs::rename(copy, image.join("libsteelbank-sbcl.so"))?;
    save_core(&sbcl, &out, &image)?;
    copy_contribs(&sbcl, &image)?;
    if env::var_os("CARGO_FEATURE_EMBEDDED").is_some() {
        pack_contribs(&out, &image)?;
        assemble_core(&out, &image)?;
    }
    println!("cargo::rustc-env=STEELBANK_BUILT_IMAGE={}", image.display());
    println!("cargo::rustc-env=STEELBANK_BUILT_SBCL={}", sbcl.display());
    println!("cargo::rustc-env=STEELBANK_IMAGE_KEY={}", image_key()?);
    Ok(())
}

/// Returns the key of the images that `bootstrap --sbcl` creates for this program: a digest of the
/// Lisp half, the shim and its header, the link script and the heap size.
fn image_key() -> Result<String> {
    let script = env::var("DEP_STEELBANK_SBCL_BOOTSTRAP")?;
    let output = Command::new("sh").args([&script, "--image-key"]).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{script} --image-key failed: {said}").into());
    }
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}

/// Runs lisp/build-core.lisp in the built SBCL, which saves the core and exports its cross
/// references. Converts these into the index.
fn save_core(sbcl: &Path, out: &Path, image: &Path) -> Result<()> {
    let output = Command::new("sh")
        .arg("lisp/build-core.sh")
        .args([sbcl, out])
        .arg(env::var("DEP_STEELBANK_SBCL_HEAP_MEGABYTES")?)
        .output()
        .map_err(|error| format!("cannot run lisp/build-core.sh: {error}"))?;
    // Running programs have the old core mapped, so replace the file instead of overwriting it.
    let core = out.join("steelbank.core");
    if !output.status.success() || !core.is_file() {
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        return Err(format!("saving the core with the SBCL in {} failed:\n{said}", sbcl.display()).into());
    }
    let export = fs::read(out.join("xref.export"))?;
    let places = steelbank_xref::places::of_sources(&export, Some(sbcl))?;
    let index = steelbank_xref::bake::bake(&export, &places)
        .map_err(|error| format!("the core's cross references cannot be indexed: {error:?}"))?;
    fs::rename(&core, image.join("steelbank.core"))?;
    fs::write(image.join("steelbank.xref"), index)?;
    Ok(())
}

/// Copies the contrib modules' fasls.
fn copy_contribs(sbcl: &Path, image: &Path) -> Result<()> {
    let contribs = image.join("contrib");
    fs::create_dir_all(&contribs)?;
    for entry in fs::read_dir(sbcl.join("obj/sbcl-home/contrib"))? {
        let entry = entry?;
        if Path::new(&entry.file_name()).extension().is_some_and(|extension| extension == "fasl") {
            fs::copy(entry.path(), contribs.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Compresses the contrib modules, and writes their list, which `src/engine/embedded.rs` includes.
fn pack_contribs(out: &Path, image: &Path) -> Result<()> {
    let packed = out.join("packed");
    fs::create_dir_all(&packed)?;
    let mut contribs: Vec<PathBuf> =
        fs::read_dir(image.join("contrib"))?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    contribs.sort();
    let mut list = String::from("&[\n");
    for contrib in contribs {
        let name = contrib.file_name().unwrap_or_default();
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        let fasl = fs::read(&contrib)?;
        encoder.write_all(&fasl)?;
        fs::write(packed.join(name), encoder.finish()?)?;
        writeln!(list, "    ({name:?}, {}, include_bytes!({:?})),", fasl.len(), packed.join(name))?;
    }
    list.push_str("]\n");
    fs::write(out.join("contribs.rs"), list)?;
    Ok(())
}

/// Builds a static library that contains the core. SBCL finds a core in the ELF section `lisp.core`
/// of the running executable and maps it from there, so the section is aligned to SBCL's page size.
/// `-bundle` keeps the library out of the rlib: a program that does not refer to the library's
/// symbol does not contain the core. Cores of different builds may differ in size by a page;
/// padding to whole megabytes keeps the rest of the program at the same position.
fn assemble_core(out: &Path, image: &Path) -> Result<()> {
    let source = out.join("core.S");
    let core = image.join("steelbank.core");
    let size = fs::metadata(&core)?.len();
    let padding = size.next_multiple_of(1 << 20) - size;
    let text = format!(
        ".pushsection lisp.core,\"a\",@progbits\n.balign 32768\n.globl steelbank_embedded_core\n\
         steelbank_embedded_core:\n.incbin {core:?}\n.skip {padding}\n.popsection\n\
         .section .note.GNU-stack,\"\",@progbits\n",
    );
    fs::write(&source, text)?;
    cc::Build::new().cargo_metadata(false).file(source).try_compile("steelbank_core")?;
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-lib=static:-bundle=steelbank_core");
    Ok(())
}
