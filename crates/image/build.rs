//! Makes the image that programs run: saves the core with the Lisp half in it, bakes the core's cross references
//! into an index, and prepares what feature `embedded` puts into a program. SBCL itself was built by `bootstrap`.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=../../lisp");
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
    list(&out, &image, &contribs)?;
    println!("cargo::rustc-env=STEELBANK_BUILT_IMAGE={}", image.display());
    println!("cargo::rustc-env=STEELBANK_BUILT_SBCL={}", sbcl.display());
    let mut contents = DefaultHasher::new();
    fs::read(image.join("steelbank.core"))?.hash(&mut contents);
    println!("cargo::rustc-env=STEELBANK_BUILT_CORE={:016x}", contents.finish());
    Ok(())
}

/// Runs the new SBCL on lisp/build-core.lisp: the core, and the index of its cross references.
fn save_core(sbcl: &Path, out: &Path, image: &Path) -> Result<()> {
    let output = Command::new("sh")
        .arg("../../lisp/build-core.sh")
        .args([sbcl, out])
        .arg(env::var("DEP_STEELBANK_SBCL_HEAP_MEGABYTES")?)
        .output()
        .map_err(|error| format!("cannot run lisp/build-core.sh: {error}"))?;
    // Programs that run have the old core mapped: it is replaced, never written over.
    let core = out.join("steelbank.core");
    if !output.status.success() || !core.is_file() {
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        return Err(format!("saving the core with the SBCL in {} failed:\n{said}", sbcl.display()).into());
    }
    let index = steelbank_xref::bake::bake(&fs::read(out.join("xref.export"))?)
        .map_err(|error| format!("the core's cross references cannot be baked: {error:?}"))?;
    fs::rename(&core, image.join("steelbank.core"))?;
    fs::write(image.join("steelbank.places"), places(sbcl, index.clone())?)?;
    fs::write(image.join("steelbank.xref"), index)?;
    Ok(())
}

/// Bakes the table of places of the functions of `index` in SBCL's own sources.
fn places(sbcl: &Path, index: Vec<u8>) -> Result<Vec<u8>> {
    let index = steelbank_xref::Index::open(std::sync::Arc::<[u8]>::from(index))?;
    let read = |file: &str| {
        let relative: PathBuf = file.strip_prefix("SYS:")?.to_ascii_lowercase().split(';').collect();
        fs::read(sbcl.join(relative)).ok()
    };
    steelbank_xref::places::bake(&index, read).ok_or_else(|| "two places have one key".into())
}

/// Copies the contrib modules' fasls: whole beside the core, and deflated for the binary. Returns their names.
fn pack_contribs(sbcl: &Path, image: &Path) -> Result<Vec<String>> {
    let (whole, packed) = (image.join("contrib"), image.join("packed"));
    fs::create_dir_all(&whole)?;
    fs::create_dir_all(&packed)?;
    let mut names = Vec::new();
    for entry in fs::read_dir(sbcl.join("obj/sbcl-home/contrib"))? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if !name.ends_with(".fasl") {
            continue;
        }
        let bytes = fs::read(&path)?;
        fs::write(whole.join(name), &bytes)?;
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&bytes)?;
        fs::write(packed.join(name), encoder.finish()?)?;
        names.push(name.to_owned());
    }
    names.sort();
    Ok(names)
}

/// Writes the list of deflated contrib modules that `src/embedded.rs` includes.
fn list(out: &Path, image: &Path, contribs: &[String]) -> Result<()> {
    let mut list = String::from("&[\n");
    for name in contribs {
        writeln!(list, "    ({name:?}, include_bytes!({:?})),", image.join("packed").join(name))?;
    }
    list.push_str("]\n");
    fs::write(out.join("contribs.rs"), list)?;
    Ok(())
}
