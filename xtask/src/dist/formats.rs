//! The packages: a tar archive, and a wheel for pip and uv.

use std::fs;
use std::process::Command;

use super::archive::{self, Item};
use super::{Made, Release, quietly};

const SUMMARY: &str =
    "Common Lisp code intelligence in one file: what a symbol is, who uses it, what breaks when it changes";
const LICENSE: &str = "MIT OR Apache-2.0";

/// Makes the packages.
pub(super) fn make(release: &Release) -> Made {
    let program = Item::of("steelbank", &release.program)?.octets;
    tarball(release, &program)?;
    wheel(release, &program)
}

fn tarball(release: &Release, program: &[u8]) -> Made {
    let name = format!("steelbank-{}-x86_64-linux", release.version);
    let mut items = vec![Item::program("bin/steelbank", program)];
    items.extend(release.notices()?);
    items.extend(release.beside()?.map(|(path, octets)| Item::text(path, octets)));
    let items: Vec<Item> = items.into_iter().map(|item| item.below(&name)).collect();
    let tar = release.file(&format!("{name}.tar"));
    fs::write(&tar, archive::tar(&items, release.epoch)?)
        .map_err(|error| format!("{}: {error}", tar.display()))?;
    quietly("zstd", Command::new("zstd").args(["--quiet", "--force", "--rm", "-3"]).arg(&tar))
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
    let mut readme = Vec::new();
    for item in release.notices()? {
        match item.path.as_str() {
            "README.md" => readme = item.octets,
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

/// Writes octets in the alphabet of URLs, without padding.
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
    fn base64_is_that_of_urls_without_padding() {
        for (text, encoded) in [("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg")] {
            assert_eq!(base64(text.as_bytes()), encoded);
        }
        assert_eq!(base64(&[0xfb, 0xff]), "-_8");
    }
}
