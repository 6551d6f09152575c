//! Images of other SBCL versions. `./bootstrap --sbcl` builds them in the cache, and `--sbcl`
//! starts them.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use steelbank_xref::{bake, format, places};

use super::{CommandError, Exit, installation};
use crate::Installation;
use crate::engine::RuntimeLibrary;

/// The digest of steelbank's Lisp code and C code. An image is usable only if it was built from the
/// same code.
const KEY: &str = env!("STEELBANK_IMAGE_KEY");

/// The file in an image that names the SBCL tree it was built from.
const TREE: &str = "tree";
/// The file with the index of the image's core.
const INDEX: &str = "steelbank.xref";

/// An image in the cache, named by its SBCL version and key.
#[derive(Debug, Clone)]
pub(super) struct SbclImage {
    pub(super) version: String,
    pub(super) folder: PathBuf,
    /// Whether this build of the program can start the image.
    pub(super) current: bool,
}

/// Returns the version of the SBCL inside the program.
pub(super) fn built_in() -> &'static str {
    let tree = Path::new(Installation::BUILT_SBCL).file_name().and_then(|name| name.to_str());
    tree.and_then(|name| name.strip_prefix("sbcl-")?.rsplit_once('-')).map_or("", |(version, _)| version)
}

/// Lists the images in the cache, sorted by version.
pub(super) fn list() -> Vec<SbclImage> {
    let folder = installation::cache().map(|cache| cache.join("images"));
    let entries = folder.and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let image = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let (version, key) = name.rsplit_once('-')?;
        let complete = !name.starts_with('.') && entry.path().join(TREE).is_file();
        complete.then(|| SbclImage { version: version.to_owned(), folder: entry.path(), current: key == KEY })
    };
    let mut images: Vec<SbclImage> = entries.filter_map(image).collect();
    images.sort_by_cached_key(|image| {
        let numbers: Vec<Option<u32>> = image.version.split('.').map(|number| number.parse().ok()).collect();
        (numbers, image.folder.clone())
    });
    images
}

/// Finds the image of SBCL `version`. `None` if only the SBCL inside the program has that version.
pub(super) fn find(version: &str) -> Result<Option<SbclImage>, CommandError> {
    let images = list();
    let usage = |message| Err(CommandError { exit: Exit::Usage, message });
    if let Some(image) = images.iter().find(|image| image.current && image.version == version) {
        return Ok(Some(image.clone()));
    }
    if version == built_in() {
        return Ok(None);
    }
    let checkout =
        format!("in the checkout that this steelbank {} was built from", env!("CARGO_PKG_VERSION"));
    if let Some(other) = images.iter().find(|image| image.version == version) {
        return usage(format!(
            "{} was built for another build of steelbank, so this build cannot start it. To build a new image, run {checkout}:\n  \
             ./bootstrap --sbcl {version}",
            other.folder.display()
        ));
    }
    let there: Vec<String> = [format!("{} (inside this program)", built_in())]
        .into_iter()
        .chain(images.into_iter().filter(|image| image.current).map(|image| image.version))
        .collect();
    usage(format!(
        "There is no image of SBCL {version}. Available: {}. To build one, run {checkout}, with a tarball or an unpacked \
         tree of SBCL's source:\n  ./bootstrap --sbcl SOURCE",
        there.join(", ")
    ))
}

impl SbclImage {
    /// Returns the cache folder for projects. Each image has a separate folder, because fasls and
    /// symbol numbers differ between versions of SBCL.
    pub(super) fn projects(&self) -> PathBuf {
        self.folder.join("projects")
    }

    /// Returns the installation of the image. Creates its index at the first use.
    pub(super) fn installation(&self) -> Result<Installation, CommandError> {
        let sources = self.sources().filter(|folder| folder.is_dir());
        self.bake(sources.as_deref()).map_err(|why| CommandError {
            exit: Exit::Engine,
            message: format!(
                "The image {} cannot be used: {why}. To rebuild it, run in steelbank's checkout:\n  ./bootstrap --sbcl {}",
                self.folder.display(),
                self.version
            ),
        })?;
        let library = RuntimeLibrary::from_user_folder(&self.folder);
        Ok(Installation { sources, ..Installation::in_folder(&self.folder, library) })
    }

    /// Returns the path of the SBCL tree that the image was built from. The tree contains SBCL's
    /// sources.
    fn sources(&self) -> Option<PathBuf> {
        let name = fs::read_to_string(self.folder.join(TREE)).ok()?;
        Some(installation::cache()?.join(name.trim_end()))
    }

    /// Creates the index from the exported cross references, unless an index in the current format
    /// exists. The program's build does the same for the SBCL inside the program.
    fn bake(&self, sources: Option<&Path>) -> Result<(), String> {
        let file = |name: &str| self.folder.join(name);
        let mut head = [0; format::MAGIC.len()];
        let read = fs::File::open(file(INDEX)).and_then(|mut file| file.read_exact(&mut head));
        if read.is_ok() && head == *format::MAGIC {
            return Ok(());
        }
        let export = file("xref.export");
        let bytes = fs::read(&export).map_err(|error| format!("{}: {error}", export.display()))?;
        let index =
            bake::bake(&bytes, &places::of_sources(&bytes, sources)?).map_err(|error| error.to_string())?;
        let written = file(&format!(".{}", steelbank_cache::unique_name()));
        steelbank_cache::write(&written, &index)
            .and_then(|()| steelbank_cache::rename(&written, &file(INDEX)))
            .map_err(|error| format!("{INDEX} cannot be written: {error}"))
    }
}
