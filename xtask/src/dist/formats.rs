//! Creates the packages: the tar archive and the wheel for pip and uv here, the other formats in
//! separate modules.

use std::process::Command;
use std::{fs, thread};

use super::archive::{self, Item};
use super::{Made, Release, deb, mcpb, npm, oci, output};

pub(super) const SUMMARY: &str =
    "Common Lisp code intelligence in one file: what a symbol is, who uses it, what breaks when it changes";
pub(super) const LICENSE: &str = "MIT OR Apache-2.0";
/// The account that owns the repository. docs/internals/publishing.md explains how to set this,
/// [`MAINTAINER`] and [`SERVER`].
pub(super) const OWNER: &str = "steelbank";
pub(super) const MAINTAINER: &str = "steelbank's maintainers <maintainers@steelbank.invalid>";
/// The name in the registry of MCP servers. The registry checks that the packages contain it.
pub(super) const SERVER: &str = "io.github.steelbank/steelbank";

/// Creates the packages in parallel, because compressing the program takes most of the time.
pub(super) fn make(release: &Release) -> Made {
    let program = &Item::of("steelbank", &release.program)?.octets;
    let makers = [deb::make, tarball, oci::make, wheel, npm::make, mcpb::make];
    let made: Vec<Made> = thread::scope(|scope| {
        let threads = makers.map(|make| scope.spawn(move || make(release, program)));
        threads.into_iter().map(|thread| thread.join().unwrap_or(Err("a maker panicked".into()))).collect()
    });
    made.into_iter().collect::<Made>()?;
    mcpb::entry(release)
}

/// Compresses the tar archive `name` with xz at the given level. Always uses two threads, because
/// xz's output with several threads differs from its output with one.
pub(super) fn xz(release: &Release, name: &str, octets: &[u8], level: &str) -> Result<Vec<u8>, String> {
    let file = release.file(name);
    fs::write(&file, octets).map_err(|error| format!("{}: {error}", file.display()))?;
    let packed = output(Command::new("xz").args(["--stdout", level, "--threads=2"]).arg(&file));
    fs::remove_file(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    packed
}

fn tarball(release: &Release, program: &[u8]) -> Made {
    let name = format!("steelbank-{}-x86_64-linux", release.version);
    let mut items = vec![Item::program("bin/steelbank", program)];
    items.extend(release.notices()?);
    items.extend(release.beside()?.map(|(path, octets)| Item::text(path, octets)));
    let items: Vec<Item> = items.into_iter().map(|item| item.below(&name)).collect();
    let packed = xz(release, &format!("{name}.tar"), &archive::tar(&items, release.epoch)?, "-6")?;
    release.write(&format!("{name}.tar.xz"), &packed)
}

fn wheel(release: &Release, program: &[u8]) -> Made {
    let Release { version, glibc: (major, minor), .. } = release;
    let information = format!("steelbank-{version}.dist-info");
    let metadata = format!(
        "Metadata-Version: 2.4\nName: steelbank\nVersion: {version}\nSummary: {SUMMARY}\nLicense-Expression: {LICENSE}\n\
         License-File: LICENSE-MIT\nLicense-File: LICENSE-APACHE\nLicense-File: THIRD-PARTY-LICENSES.txt\n\
         Classifier: Operating System :: POSIX :: Linux\nClassifier: Programming Language :: Lisp\n\
         Description-Content-Type: text/markdown\n\n"
    );
    let mut items = vec![Item::program(format!("steelbank-{version}.data/scripts/steelbank"), program)];
    let mut readme = format!("<!-- mcp-name: {SERVER} -->\n\n").into_bytes();
    for item in release.notices()? {
        match item.path.as_str() {
            "README.md" => readme.extend(item.octets),
            _ => items.push(item.below(&format!("{information}/licenses"))),
        }
    }
    let tag = format!("py3-none-manylinux_{major}_{minor}_x86_64");
    items.push(Item::text(format!("{information}/METADATA"), [metadata.as_bytes(), &readme].concat()));
    items.push(Item::text(
        format!("{information}/WHEEL"),
        format!("Wheel-Version: 1.0\nGenerator: steelbank xtask\nRoot-Is-Purelib: false\nTag: {tag}\n"),
    ));
    let record = format!("{information}/RECORD");
    let lines = items.iter().map(|item| {
        format!("{},sha256={},{}\n", item.path, base64(&archive::sha256(&item.octets)), item.octets.len())
    });
    let lines = lines.collect::<String>() + &format!("{record},,\n");
    items.push(Item::text(record, lines));
    release.write(&format!("steelbank-{version}-{tag}.whl"), &archive::zip(&items)?)
}

/// Encodes bytes in URL-safe base64 without padding.
fn base64(octets: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let group = |chunk: &[u8]| {
        let bits =
            (0..3).fold(0, |bits, at| bits << 8 | u32::from(chunk.get(at).copied().unwrap_or_default()));
        let letters =
            (0..=chunk.len()).map(move |at| char::from(LETTERS[(bits >> (18 - 6 * at)) as usize & 63]));
        letters.collect::<String>()
    };
    octets.chunks(3).map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_url_safe_without_padding() {
        for (text, encoded) in [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg")] {
            assert_eq!(base64(text.as_bytes()), encoded);
        }
        assert_eq!(base64(&[0xfb, 0xff]), "-_8");
    }
}
